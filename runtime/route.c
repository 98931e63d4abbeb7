/* Routes that own their arrays: one allocation for the struct, one for each array, all zeroed. */
#include "moec/moert.h"

#include <stdlib.h>

static int64_t at_least_one(int64_t n) { return n > 0 ? n : 1; }

/* Rows and choices are numbered by int32_t. */
static int is_size(int64_t n) { return n >= 0 && n <= INT32_MAX; }

static int allocate_arrays(moe_route *r)
{
    r->start = calloc((size_t)r->groups + 1, sizeof *r->start);
    r->count = calloc((size_t)at_least_one(r->groups), sizeof *r->count);
    r->slot_of = calloc((size_t)at_least_one(r->rows), sizeof *r->slot_of);
    r->row_of = calloc((size_t)at_least_one(r->tokens * r->choices), sizeof *r->row_of);
    return r->start && r->count && r->slot_of && r->row_of;
}

moe_route *moe_route_new(int64_t tokens, int64_t choices, int64_t groups, int64_t rows)
{
    if (!is_size(tokens) || !is_size(choices) || !is_size(groups) || !is_size(rows) ||
        !is_size(tokens * choices))
        return NULL;
    moe_route *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (moe_route){.tokens = tokens, .choices = choices, .groups = groups, .rows = rows};
    if (!allocate_arrays(r)) {
        moe_route_free(r);
        return NULL;
    }
    return r;
}

void moe_route_free(moe_route *route)
{
    if (!route)
        return;
    free(route->start);
    free(route->count);
    free(route->slot_of);
    free(route->row_of);
    free(route);
}
