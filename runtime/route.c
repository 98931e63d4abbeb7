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

/* ---- from ids ---- */

static int are_groups(const int32_t *ids, int64_t slots, int64_t groups)
{
    if (!ids && slots > 0)
        return 0;
    for (int64_t s = 0; s < slots; s++)
        if (ids[s] < -1 || ids[s] >= groups)
            return 0;
    return 1;
}

/* Sets start[]; of groups without a capacity it is what comes before. */
static void set_starts(moe_route *r, const int32_t *ids, int64_t capacity)
{
    for (int64_t s = 0; s < r->tokens * r->choices && capacity < 0; s++)
        if (ids[s] >= 0)
            r->start[ids[s] + 1]++;
    for (int64_t g = 0; g < r->groups; g++)
        r->start[g + 1] = r->start[g] + (capacity < 0 ? r->start[g + 1] : capacity);
}

/* Choice after choice takes the next row of its group, so rows are in the order of tokens and choices. */
static void take_rows(moe_route *r, const int32_t *ids)
{
    for (int64_t row = 0; row < r->rows; row++)
        r->slot_of[row] = -1;
    for (int64_t s = 0; s < r->tokens * r->choices; s++) {
        const int32_t g = ids[s];
        r->row_of[s] = -1;
        if (g < 0 || r->start[g] + r->count[g] == r->start[g + 1])
            continue;
        r->row_of[s] = (int32_t)(r->start[g] + r->count[g]++);
        r->slot_of[r->row_of[s]] = (int32_t)s;
    }
}

moe_route *moe_route_from_ids(const int32_t *ids, int64_t tokens, int64_t choices, int64_t groups,
                              int64_t capacity)
{
    if (!is_size(tokens) || !is_size(choices) || !is_size(groups) || capacity < -1 || capacity > INT32_MAX)
        return NULL;
    moe_route *r =
        moe_route_new(tokens, choices, groups, capacity < 0 ? tokens * choices : groups * capacity);
    if (r && !are_groups(ids, tokens * choices, groups)) {
        moe_route_free(r);
        return NULL;
    }
    if (r) {
        set_starts(r, ids, capacity);
        take_rows(r, ids);
    }
    return r;
}
