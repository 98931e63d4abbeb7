#include "step/step.h"

#include <string.h>

const char *const owner_names[OWNER_COUNT] = {
#define OWNER(name, persistent, doc) #name,
#include "step/owner.def"
};

const int owner_persists[OWNER_COUNT] = {
#define OWNER(name, persistent, doc) persistent,
#include "step/owner.def"
};

const char *const phase_names[PHASE_COUNT] = {
#define PHASE(name, doc) #name,
#include "step/phase.def"
};

const char *const task_names[TASK_COUNT] = {
#define TASK(name, lane, doc) #name,
#include "step/task.def"
};

const Lane task_lanes[TASK_COUNT] = {
#define TASK(name, lane, doc) LANE_##lane,
#include "step/task.def"
};

const char *const axis_names[AXIS_COUNT] = {
#define AXIS(name, doc) #name,
#include "step/axis.def"
};

const ExchangeRule exchange_rules[TASK_COUNT] = {
#define TASK(name, lane, doc) [TASK_##name] = {0},
#define EXCHANGE(name, lane, adjoint, takes, gives, doc) \
    [TASK_##name] = {1, TASK_##adjoint, EXCHANGED_##takes, EXCHANGED_##gives},
#include "step/task.def"
};

const char *const use_words[] = {
    [USE_READ] = "reads", [USE_WRITE] = "writes", [USE_UPDATE] = "updates", [USE_SHAPE] = "ignores"};

static const struct {
    const char *name;
    int64_t bytes;
} types[] = {
    [MOEC_F32] = {"f32", 4}, [MOEC_BF16] = {"bf16", 2}, [MOEC_F16] = {"f16", 2}, [MOEC_I32] = {"i32", 4}};

const char *step_type_name(moec_type t) { return types[t].name; }
int64_t step_type_bytes(moec_type t) { return types[t].bytes; }

int64_t step_elements(const StepBuffer *b)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        if (__builtin_mul_overflow(n, b->shape[i], &n))
            return -1;
    return n;
}

/* tokens, choices, groups, rows -> start, count, slot_of, row_of. */
int64_t step_route_bytes(const int64_t sizes[4])
{
    return (2 * sizes[2] + 1) * 8 + (sizes[3] + sizes[0] * sizes[1]) * 4;
}

Program *step_new(Arena *a, const char *name)
{
    Program *p = arena_new_of(a, Program);
    *p = (Program){.arena = a, .name = arena_printf(a, "%s", name), .arena_bytes = -1};
    for (int i = 0; i < AXIS_COUNT; i++)
        p->members[i] = 1;
    return p;
}

Program *step_copy(Arena *a, const Program *p)
{
    Program *copy = step_new(a, p->name);
    memcpy(copy->members, p->members, sizeof copy->members);
    for (uint32_t i = 0; i < p->kernels.len; i++)
        vec_push(a, &copy->kernels, p->kernels.at[i]);
    for (BufferId b = 0; b < p->buffers.len; b++)
        step_add(copy, p->buffers.at[b]);
    for (TaskId t = 0; t < p->tasks.len; t++)
        vec_push(a, &copy->tasks, p->tasks.at[t]);
    return copy;
}

/* ---- placements ---- */

const char *step_placement_text(Arena *a, Placement p)
{
    if (p > PLACED_WHOLE)
        return arena_printf(a, "in parts of dimension %d", p - 1);
    if (p == PLACED_OWN)
        return "each member's own";
    return p == PLACED_SUM ? "a partial sum" : p == PLACED_MIXED ? "of views that are placed apart" : "whole";
}

static int64_t product(const int64_t *shape, uint32_t n)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < n; i++)
        all *= shape[i];
    return all;
}

int64_t step_runs(const StepBuffer *b, Placement p) { return p > 0 ? product(b->shape, (uint32_t)p - 1) : 0; }

Placement step_reshaped(const StepBuffer *from, Placement p, uint32_t rank, const int64_t *shape)
{
    if (p <= PLACED_WHOLE)
        return p;
    for (uint32_t i = 0; i < rank; i++)
        if (product(shape, i) == step_runs(from, p))
            return PLACED_PART(i);
    return PLACED_MIXED;
}

/* Of an axis, the one whose groups its groups lie in. */
static const GroupAxis around[AXIS_COUNT] = {[AXIS_tp] = AXIS_ep, [AXIS_cp] = AXIS_cp,  [AXIS_ep] = AXIS_dp,
                                             [AXIS_dp] = AXIS_dp, [AXIS_edp] = AXIS_dp, [AXIS_pp] = AXIS_pp};

static void spread_whole(const int64_t *n, Placement placed[AXIS_COUNT])
{
    if (!placed[AXIS_ep] && !placed[AXIS_edp] && n[AXIS_ep] * n[AXIS_edp] == n[AXIS_tp] * n[AXIS_dp])
        placed[AXIS_dp] = PLACED_WHOLE;
    if (!placed[AXIS_dp])
        placed[AXIS_edp] = PLACED_WHOLE;
    if (!placed[AXIS_dp] && !placed[AXIS_tp])
        placed[AXIS_ep] = PLACED_WHOLE;
    if (!placed[AXIS_ep] && n[AXIS_ep] > 1)
        placed[AXIS_tp] = PLACED_WHOLE;
}

void step_place_result(const Program *p, TaskKind kind, GroupAxis axis, Placement given,
                       Placement placed[AXIS_COUNT])
{
    const ExchangeRule *rule = &exchange_rules[kind];
    const int joins = rule->takes == EXCHANGED_SUM || (kind == TASK_allgather && placed[axis] > PLACED_WHOLE);
    if (p->members[axis] == 1)
        return;
    placed[axis] = given;
    if (rule->takes == EXCHANGED_SUM && placed[around[axis]] == PLACED_SUM)
        placed[around[axis]] = PLACED_OWN;
    for (GroupAxis a = 0; rule->takes == EXCHANGED_SUM && given != PLACED_WHOLE && a < AXIS_COUNT; a++)
        if (around[a] == axis && placed[a] == PLACED_SUM)
            placed[a] = PLACED_OWN;
    if (joins && rule->gives == EXCHANGED_WHOLE)
        spread_whole(p->members, placed);
}

/* ---- names ---- */

BufferId step_add(Program *p, StepBuffer b)
{
    b.place = -1, b.first = b.last = STEP_NONE;
    names_add(p->arena, &p->by_name, b.name, p->buffers.len);
    vec_push(p->arena, &p->buffers, b);
    return p->buffers.len - 1;
}

BufferId step_find(const Program *p, const char *name)
{
    const uint32_t *found = names_find(&p->by_name, name);
    return found ? *found : STEP_NONE;
}

uint32_t step_add_kernel(Program *p, StepKernel k)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (!strcmp(p->kernels.at[i].name, k.name))
            return i;
    vec_push(p->arena, &p->kernels, k);
    return p->kernels.len - 1;
}

TaskId step_send_of(const Program *p, TaskId recv)
{
    const GroupAxis axis = p->tasks.at[recv].axis;
    uint32_t others = 0;
    for (TaskId t = 0; t < recv; t++)
        others += p->tasks.at[t].kind == TASK_recv && p->tasks.at[t].axis == axis;
    for (TaskId t = 0; t < recv; t++)
        if (p->tasks.at[t].kind == TASK_send && p->tasks.at[t].axis == axis && !others--)
            return t;
    return STEP_NONE;
}
