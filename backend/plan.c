/* What every layer of backend/ may ask of a plan. It is made by emit_plan.c. */
#include "backend/emit.h"

uint32_t plan_field(const Plan *p, RouteId r, RouteField f)
{
    for (uint32_t i = 0; i < p->buffers.len; i++)
        if (p->buffers.at[i].route == r && p->buffers.at[i].field == f)
            return i;
    return NONE;
}

void plan_add_check(Plan *p, Arena *a, int status, const char *format)
{
    vec_push(a, &p->checks, (CheckText){status, format});
}

enum { SPLIT_BITS = 256 }; /* LLVM splits wider vectors unless it is told not to */

void plan_attributes(const Plan *p, V fn)
{
    l_plain(p->l, fn);
    l_attribute_text(p->l, fn, "target-features", p->cpu->features);
    uint32_t bits = 8 * (uint32_t)elem_bytes(EL_F32) * p->cpu->lanes;
    if (bits > SPLIT_BITS) {
        l_attribute_text(p->l, fn, "prefer-vector-width", arena_printf(p->l->arena, "%u", bits));
        l_attribute_text(p->l, fn, "min-legal-vector-width", arena_printf(p->l->arena, "%u", bits));
    }
}

int plan_needs_space(const Buffer *b)
{
    return b->used && (b->space == SPACE_WORK || b->space == SPACE_THREAD);
}

int launch_is_products(const Launch *launch) { return launch->has_product && !launch->has_lanes; }

int launch_is_route(const Plan *p, const Launch *launch)
{
    const Stmt *first = launch->body == NONE ? NULL : tile_at(p->k, launch->body);
    return first && first->next == NONE && (first->kind == TILE_valid || first->kind == TILE_blocks);
}
