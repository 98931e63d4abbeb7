/* Places on the chip, and flags. */
#include "npu/plan.h"
#include "passes/schedule.h"

#include <string.h>

static const OnChip *on_chip(const Planner *p, Space s) { return machine_on_chip(p->m, s - SPACE_L1); }

static Layout layout_in(Space s)
{
    switch (s) {
    case SPACE_L1:
    case SPACE_L0C: return LAYOUT_ZN;
    case SPACE_L0A: return LAYOUT_ZZ;
    case SPACE_L0B: return LAYOUT_NZ;
    case SPACE_UB:
    case SPACE_GM:
    case SPACE_WORK:
    case SPACE_THREAD:
    case SPACE_REG:
    case SPACE_COUNT: break;
    }
    return LAYOUT_ROWS;
}

static int64_t bytes_of(const Planner *p, const Chip *c)
{
    const Tensor *t = &p->k->tensors.at[c->buffer];
    return c->copies * layout_elements(t->layout, t->elem, c->x, c->y) * (int64_t)elem_bytes(t->elem);
}

static int64_t end_of(const Planner *p, const Chip *c)
{
    return p->k->tensors.at[c->buffer].at + bytes_of(p, c);
}

/* Behind all that the launch has put into the space so far. */
static int64_t taken(const Planner *p, Space s)
{
    int64_t end = 0;
    for (uint32_t i = 0; i < p->chips.len; i++)
        if (p->chips.at[i].space == s && end_of(p, &p->chips.at[i]) > end)
            end = end_of(p, &p->chips.at[i]);
    return end;
}

/* Beside a cube core each loop of vector work has UB for itself. */
static int is_alone_in(const Planner *p, Space s) { return s == SPACE_UB && p->cube; }

static int64_t next_place(const Planner *p, Space s)
{
    int64_t end = is_alone_in(p, s) ? 0 : taken(p, s), align = on_chip(p, s)->align;
    for (uint32_t i = 0; i < p->chips.len; i++)
        if (p->chips.at[i].space == s && p->chips.at[i].taken && end_of(p, &p->chips.at[i]) > end)
            end = end_of(p, &p->chips.at[i]);
    return (end + align - 1) / align * align;
}

int64_t plan_ub(const Planner *p)
{
    return p->cube ? p->m->ub.bytes - next_place(p, SPACE_UB) : p->m->ub.bytes / p->nests;
}

static TensorId new_buffer(Planner *p, Loc loc, const char *stem, const Chip *c, Elem elem)
{
    Module *m = p->k->module;
    Tensor t = {.loc = loc, .elem = elem, .role = ROLE_LOCAL, .space = c->space, .rank = 3, .route = NONE};
    t.name = ir_fresh_name(p->k, stem);
    t.layout = layout_in(c->space);
    t.at = next_place(p, c->space);
    t.axes[0] = (Axis){ext_const(m, c->copies), NONE};
    t.axes[1] = (Axis){ext_const(m, c->x), NONE};
    t.axes[2] = (Axis){ext_const(m, c->y), NONE};
    return ir_tensor(p->k, t);
}

/* One pointer for each. */
static const char *role_of(const char *stem)
{
    static const char *const roles[] = {PLAN_OUT, PLAN_ROW};
    for (uint32_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(stem, roles[i]) == 0)
            return roles[i];
    return NULL;
}

uint32_t plan_chip(Planner *p, Loc loc, const char *stem, Space space, Elem elem, int64_t x, int64_t y,
                   TensorId panel)
{
    Chip c = {
        .panel = panel, .space = space, .copies = p->copies[space], .x = x, .y = y, .taken = 1, .loc = loc};
    const char *role = role_of(stem);
    uint32_t best = p->chips.len;
    c.role = role;
    for (uint32_t i = 0; i < p->chips.len; i++) {
        const Chip *old = &p->chips.at[i];
        if (old->space != space || old->taken || old->role != role || old->x < x || old->y < y ||
            p->k->tensors.at[old->buffer].elem != elem ||
            (is_alone_in(p, space) &&
             (p->k->tensors.at[old->buffer].at != next_place(p, space) || old->x != x || old->y != y)))
            continue;
        if (best == p->chips.len || old->x * old->y < p->chips.at[best].x * p->chips.at[best].y)
            best = i;
    }
    if (best == p->chips.len) {
        c.slot = NONE;
        c.buffer = new_buffer(p, loc, stem, &c, elem);
        vec_push(p->k->module->arena, &p->chips, c);
    }
    p->chips.at[best].taken = 1;
    p->chips.at[best].panel = panel;
    p->chips.at[best].packs = p->chips.at[best].packed = 0;
    return best;
}

void plan_give_back(Planner *p, int ub)
{
    for (uint32_t i = 0; i < p->chips.len; i++)
        p->chips.at[i].taken &= (p->chips.at[i].space == SPACE_UB) != ub;
}

void plan_flag(Planner *p, Loc loc, TileKind kind, Unit unit, Unit other, TensorId buffer, ExprId slot)
{
    Stmt s = tile_stmt(kind, loc);
    s.unit = (uint8_t)unit;
    s.other_unit = (uint8_t)other;
    s.buffer = buffer;
    s.nindex = slot != NONE;
    s.index[0] = slot;
    build_put(&p->b, s);
}

void plan_after(Planner *p, Loc loc, Unit first, Unit then, TensorId buffer)
{
    plan_flag(p, loc, TILE_set, first, then, buffer, NONE);
    plan_flag(p, loc, TILE_wait, first, then, buffer, NONE);
}

/* ---- the fit ---- */

static int is_full(const Planner *p, Space s) { return taken(p, s) > on_chip(p, s)->bytes; }

int plan_shrink(Planner *p)
{
    int copies = is_full(p, SPACE_L1) && p->copies[SPACE_L1] > 1;
    int terms = (is_full(p, SPACE_L0A) || is_full(p, SPACE_L0B)) && p->terms > p->m->align.fragment;
    if (!copies && !terms)
        return 0;
    for (uint32_t i = 0; i < p->chips.len; i++)
        p->k->tensors.at[p->chips.at[i].buffer].space = SPACE_GM; /* it does not exist */
    p->chips.len = 0;
    if (copies)
        p->copies[SPACE_L1] = 1;
    if (terms)
        p->terms /= 2;
    return 1;
}

static void list_space(const Planner *p, Space s, Text *out)
{
    for (uint32_t i = 0; i < p->chips.len; i++) {
        const Chip *c = &p->chips.at[i];
        const Tensor *t = &p->k->tensors.at[c->buffer];
        if (c->space == s)
            text_add(out, "%s %s of line %u: %lld x %lld x %s x %lld = %lld bytes", out->len ? ";" : "",
                     t->name, c->loc.line, (long long)c->x, (long long)c->y, elem_name(t->elem),
                     (long long)c->copies, (long long)bytes_of(p, c));
    }
}

_Static_assert(KNOB_copy_ub - KNOB_copy_l1 == SPACE_UB - SPACE_L1,
               "spaces and their copies stand in one order");

/* The clause that asks for so much, else the equation. */
static Loc blame(const Planner *p, Loc launch, const Setting *copies)
{
    TensorId lhs = ir_find_tensor(p->k, p->launch);
    const Setting *blocks = lhs == NONE ? NULL : schedule_blocks_given(p->k, lhs);
    return blocks ? blocks->loc : copies ? copies->loc : launch.line ? launch : p->k->loc;
}

void plan_fit(Planner *p, Loc launch)
{
    for (Space s = SPACE_L1; s < SPACE_COUNT; s++) {
        int64_t bytes = taken(p, s), capacity = on_chip(p, s)->bytes;
        if (bytes <= capacity)
            continue;
        const Setting *copies = schedule_copies_given(p->k, KNOB_copy_l1 + (s - SPACE_L1));
        if (p->c->fit && !p->c->fit->launch)
            *p->c->fit = (Fit){p->k->name, p->launch, copies};
        Text list = {.arena = p->k->module->arena};
        list_space(p, s, &list);
        diag_add(
            p->k->module->diags, DIAG_plan_fit, blame(p, launch, copies), NULL,
            "kernel %s, launch %s: %s of %s has %lld bytes, and %lld are needed (rows x columns x type x "
            "copies):%s",
            p->k->name, p->launch, space_name(s), p->m->name, (long long)capacity, (long long)bytes,
            text_string(&list));
    }
}
