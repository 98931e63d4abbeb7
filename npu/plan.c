/* Tiles -> a plan for an NPU: Note [Plans] in ir/tile.h.
 *
 * The lowering has cut the work into items, packs, products and epilogues with the NPU's blocks. What is left is to say which unit
 * does what, where: each pack of a slab becomes a move into L1, each product moves into L0A and L0B and multiply-adds of
 * the cube, sums leave L0C by the fixpipe, and what is neither goes to the scalar unit. Waits stand where data meets; a
 * buffer with several slots lets a unit fill one while another is read. Nothing changes the order of an element's additions. */
#include "npu/plan.h"

#include "passes/schedule.h"

#include <string.h>

static int has_product(const Planner *p, StmtId first)
{
    tile_each (id, p->k, first)
        if (plan_at(p, id).kind == TILE_product)
            return 1;
    return 0;
}

/* ---- vector work ---- */

enum { BUFFERS_MAX = 64 };

/* Neighbouring nests that the vector cores do, and the core's own buffers that they share with other units. */
typedef struct PlanWork {
    StmtId at[BUFFERS_MAX];
    uint32_t n;
    TensorId in[BUFFERS_MAX], out[BUFFERS_MAX];
    uint32_t nin, nout;
} PlanWork;

int plan_is_work(Planner *p, StmtId id)
{
    return !plan_is_stored(p, id) && (plan_is_vector(p, id) || plan_is_rows(p, id));
}

static uint32_t reads_of(Planner *p, StmtId id, TensorId *out)
{
    return (plan_is_vector(p, id) ? plan_vector_reads : plan_rows_reads)(p, id, out, BUFFERS_MAX);
}

static TensorId first_target(const Planner *p, StmtId first)
{
    tile_walk (w, p->k, first)
        if (w.s->kind == TILE_store && space_is_memory(p->k->tensors.at[w.s->buffer].space))
            return w.s->buffer;
    return NONE;
}

static void plan_nest(Planner *p, StmtId id, ExprId core)
{
    Stmt s = plan_at(p, id);
    if (p->cube && p->nests > 1) { /* another loop's buffers stood where its own will */
        plan_after(p, s.loc, UNIT_mte3, UNIT_mte2, first_target(p, s.first));
        plan_after(p, s.loc, UNIT_mte3, UNIT_vector, first_target(p, s.first));
    }
    (plan_is_vector(p, id) ? plan_vector : plan_rows)(p, id, core);
    plan_give_back(p, 1);
}

static void find_targets(const Planner *p, StmtId first, PlanWork *w)
{
    tile_walk (at, p->k, first)
        if (at.s->kind == TILE_store && plan_is_handed_over(p, at.s->buffer))
            plan_add_buffer(w->out, &w->nout, BUFFERS_MAX, at.s->buffer);
}

/* For one more nest, which has no more buffers than that on either side. */
static int has_room(const PlanWork *w)
{
    uint32_t half = BUFFERS_MAX / 2;
    return w->n < BUFFERS_MAX && w->nin <= half && w->nout <= half;
}

/* The run of nests from `first` on. One that reads what an earlier one writes, maybe another core, begins a run of its own. */
static PlanWork find_work(Planner *p, StmtId first)
{
    PlanWork w = {.n = 0};
    tile_each (id, p->k, first) {
        TensorId reads[BUFFERS_MAX];
        if (!has_room(&w) || !plan_is_work(p, id))
            break;
        uint32_t n = reads_of(p, id, reads);
        for (uint32_t i = 0; i < n; i++)
            if (plan_is_in(w.out, w.nout, reads[i]))
                return w;
        for (uint32_t i = 0; i < n; i++)
            plan_add_buffer(w.in, &w.nin, BUFFERS_MAX, reads[i]);
        w.at[w.n++] = id;
        find_targets(p, plan_at(p, id).first, &w);
    }
    return w;
}

/* On a vector core by itself everything else is done by its scalar unit. */
static void work_alone(Planner *p, const PlanWork *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        Loc loc = plan_at(p, w->at[i]).loc;
        for (uint32_t b = 0; b < w->nin; b++)
            plan_after(p, loc, UNIT_scalar, UNIT_mte2, w->in[b]);
        for (uint32_t b = 0; b < w->nout; b++)
            plan_after(p, loc, UNIT_scalar, UNIT_mte3, w->out[b]);
        plan_nest(p, w->at[i], NONE);
        for (uint32_t b = 0; b < w->nin; b++)
            plan_after(p, loc, UNIT_mte2, UNIT_scalar, w->in[b]);
        for (uint32_t b = 0; b < w->nout; b++)
            plan_after(p, loc, UNIT_mte3, UNIT_scalar, w->out[b]);
    }
}

static void all_flags(Planner *p, Loc loc, TileKind kind, Unit unit, Unit other, const TensorId *t,
                      uint32_t n, int flushed)
{
    for (uint32_t i = 0; i < n; i++)
        if (p->flushed[t[i]] == flushed)
            plan_flag(p, loc, kind, unit, other, t[i], NONE);
}

/* The cube core's scalar unit knows of everything but of what the fixpipe tells the vector cores itself. */
static void work_beside(Planner *p, const PlanWork *w)
{
    Kernel *k = p->k;
    Loc loc = plan_at(p, w->at[0]).loc;
    uint32_t depth = p->b.depth;
    IndexId core = build_index(&p->b, "core");
    all_flags(p, loc, TILE_set, UNIT_fix, UNIT_mte2, w->in, w->nin, 1);
    all_flags(p, loc, TILE_set, UNIT_scalar, UNIT_mte2, w->in, w->nin, 0);
    all_flags(p, loc, TILE_set, UNIT_scalar, UNIT_mte3, w->out, w->nout, 0);
    build_for(&p->b, loc, LOOP_SPLIT, core, x_int(k, loc, 0),
              x_int(k, loc, p->m->cores.vector / p->m->cores.cube), 1);
    all_flags(p, loc, TILE_wait, UNIT_fix, UNIT_mte2, w->in, w->nin, 1);
    all_flags(p, loc, TILE_wait, UNIT_scalar, UNIT_mte2, w->in, w->nin, 0);
    all_flags(p, loc, TILE_wait, UNIT_scalar, UNIT_mte3, w->out, w->nout, 0);
    for (uint32_t i = 0; i < w->n; i++)
        plan_nest(p, w->at[i], x_index(k, loc, core));
    all_flags(p, loc, TILE_set, UNIT_mte2, UNIT_fix, w->in, w->nin, 1);
    all_flags(p, loc, TILE_set, UNIT_mte2, UNIT_scalar, w->in, w->nin, 0);
    all_flags(p, loc, TILE_set, UNIT_mte3, UNIT_scalar, w->out, w->nout, 0);
    build_close(&p->b, depth);
    all_flags(p, loc, TILE_wait, UNIT_mte2, UNIT_scalar, w->in, w->nin, 0);
    all_flags(p, loc, TILE_wait, UNIT_mte3, UNIT_scalar, w->out, w->nout, 0);
}

StmtId plan_work(Planner *p, StmtId first)
{
    PlanWork w = find_work(p, first);
    (p->cube ? work_beside : work_alone)(p, &w);
    return w.at[w.n - 1];
}

/* ---- launches ---- */

static void plan_list(Planner *p, StmtId first)
{
    tile_each (id, p->k, first) {
        Stmt s = plan_at(p, id);
        uint32_t depth = p->b.depth;
        if (plan_is_stored(p, id))
            continue;
        if (plan_is_work(p, id)) {
            id = plan_work(p, id);
        } else if (!p->cube && plan_is_lanes(p, id)) {
            plan_lanes(p, id, NONE);
            plan_give_back(p, 1);
        } else if (!tile_has_body(&s)) {
            build_copy(&p->b, id);
        } else if (has_product(p, s.first)) {
            plan_slabs(p, &s);
        } else {
            build_open(&p->b, s);
            plan_list(p, s.first);
            build_close(&p->b, depth);
        }
    }
}

typedef Vec(StmtId) Loops;

static void find_loops(const Planner *p, StmtId first, Loops *out)
{
    tile_walk (w, p->k, first)
        if (has_product(p, w.s->first)) {
            vec_push(p->k->module->arena, out, w.id);
            tile_walk_skip(&w);
        }
}

static uint32_t count_nests(Planner *p, StmtId first)
{
    uint32_t n = 0;
    tile_walk (w, p->k, first)
        if (plan_is_work(p, w.id) || (!p->cube && plan_is_lanes(p, w.id))) {
            n++;
            tile_walk_skip(&w);
        }
    return n;
}

static void mark_loads(Planner *p, ExprId e)
{
    if (e != NONE)
        each_below (x, p->k, e, EVERYWHERE)
            if (x_at(p->k, *x)->kind == X_LOAD)
                p->reads[x_at(p->k, *x)->sym] = 1;
}

/* Ordered loops around a statement of an item. */
typedef struct Around {
    const struct Around *outer;
    IndexId var;
} Around;

/* Does the item add to an element that it may have written before, in another trip or another statement? */
static int adds_again(const Planner *p, const Stmt *s, const Around *around)
{
    if (p->writes[s->buffer])
        return 1;
    for (; around; around = around->outer) {
        uint32_t i = 0;
        while (i < s->nindex && !x_is_unit(p->k, s->index[i], around->var))
            i++;
        if (i == s->nindex)
            return 1;
    }
    return 0;
}

static void mark_reads(Planner *p, StmtId first, const Around *around)
{
    tile_each (id, p->k, first) {
        Stmt s = plan_at(p, id);
        Around here = {around, s.var};
        mark_loads(p, s.value);
        mark_loads(p, s.kind == TILE_top ? s.lo : (ExprId)NONE);
        if (s.kind == TILE_store && s.add &&
            (p->k->tensors.at[s.buffer].space == SPACE_THREAD || adds_again(p, &s, around)))
            p->reads[s.buffer] = 1;
        if (s.buffer != NONE && s.kind != TILE_product)
            p->writes[s.buffer] = 1;
        mark_reads(p, s.first, s.kind == TILE_for && s.mode == LOOP_ORDERED ? &here : around);
    }
}

/* Products of the list's slab loops that begin these sums. */
static uint32_t count_beginnings(const Planner *p, StmtId first, TensorId sums)
{
    uint32_t n = 0;
    tile_each (loop, p->k, first)
        tile_each (id, p->k, tile_at(p->k, loop)->first)
            n += tile_at(p->k, id)->kind == TILE_product && tile_at(p->k, id)->buffer == sums &&
                 tile_at(p->k, id)->guard != NONE;
    return n;
}

/* Sums of a product loop among `first` that nothing else uses but one run of vector work there. */
static void mark_flushed(Planner *p, StmtId launch, StmtId first)
{
    tile_each (id, p->k, first) {
        if (!plan_is_work(p, id))
            continue;
        PlanWork w = find_work(p, id);
        for (uint32_t i = 0; i < w.nin; i++) {
            uint32_t products = count_beginnings(p, first, w.in[i]), work = 0;
            for (uint32_t n = 0; n < w.n; n++)
                work += plan_count_uses(p, plan_at(p, w.at[n]).first, w.in[i]);
            p->flushed[w.in[i]] = products == 1 && products + work == plan_count_uses(p, launch, w.in[i]);
        }
        id = w.at[w.n - 1];
    }
}

static StmtId item_of(const Planner *p, StmtId first)
{
    while (first != NONE && plan_at(p, first).kind == TILE_for &&
           (plan_at(p, first).mode == LOOP_PARALLEL || plan_at(p, first).mode == LOOP_OWNED))
        first = plan_at(p, first).first;
    return first;
}

static void plan_launch(Planner *p, StmtId id)
{
    Stmt s = plan_at(p, id);
    uint32_t n = p->k->tensors.len;
    build_close(&p->b, 0);
    p->launch = s.name;
    p->body = s.first;
    p->chips.len = 0;
    p->cube = tile_contains(p->k, s.first, TILE_product);
    p->writes = arena_alloc(p->k->module->arena, n + 1);
    p->reads = arena_alloc(p->k->module->arena, n + 1);
    p->flushed = arena_alloc(p->k->module->arena, n + 1);
    p->stored = arena_array(p->k->module->arena, StmtId, n + 1);
    memset(p->stored, 0xff, n * sizeof *p->stored);
    mark_reads(p, s.first, NULL);
    plan_mark_stored(p, s.first);
    p->nests = count_nests(p, s.first);
    mark_flushed(p, s.first, item_of(p, s.first));
    if (!p->cube && !p->nests) {
        build_copy(&p->b, id);
        return;
    }
    Loops loops = {0};
    find_loops(p, s.first, &loops);
    int64_t copies = p->copies[SPACE_L1];
    p->terms = p->m->l0_blocks.depth;
    do
        plan_reserve(p, loops.at, loops.len);
    while (plan_shrink(p));
    build_open(&p->b, s);
    plan_list(p, s.first);
    build_close(&p->b, 0);
    plan_fit(p, s.loc);
    for (TensorId t = 0; t < n; t++)
        if (p->stored[t] != NONE)
            vec_push(p->k->module->arena, &p->left, t);
    p->copies[SPACE_L1] = copies;
}

/* Panels and sums that are not used any more would still take thread space. */
static void drop_buffers(const Planner *p)
{
    Kernel *k = p->k;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].space == SPACE_THREAD && !layout_is_dense(k->tensors.at[t].layout))
            k->tensors.at[t].space = SPACE_GM;
    for (uint32_t i = 0; i < p->left.len; i++)
        if (!plan_count_uses(p, k->tiles->first, p->left.at[i]))
            k->tensors.at[p->left.at[i]].space = SPACE_GM;
}

static void plan_kernel(Kernel *k, const PassContext *c, const Machine *m)
{
    Planner p = {.b = build_begin(k), .k = k, .c = c, .cpu = &cpu_table[c->isa], .m = m};
    StmtId first = k->tiles->first;
    p.copies[SPACE_L1] = schedule_copies(c, k, KNOB_copy_l1);
    p.copies[SPACE_L0A] = schedule_copies(c, k, KNOB_copy_l0a);
    p.copies[SPACE_L0B] = schedule_copies(c, k, KNOB_copy_l0b);
    p.copies[SPACE_L0C] = schedule_copies(c, k, KNOB_copy_l0c);
    p.copies[SPACE_UB] = schedule_copies(c, k, KNOB_copy_ub);
    k->tiles->first = NONE;
    tile_each (id, p.k, first)
        plan_launch(&p, id);
    drop_buffers(&p);
}

void pass_plan(Module *m, const PassContext *c)
{
    if (!c->machine || c->machine->kind != MACHINE_NPU)
        return;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        plan_kernel(m->kernels.at[i], c, c->machine);
}
