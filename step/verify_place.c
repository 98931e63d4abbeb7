/* Placements of buffers, what kernels and exchanges make of them. Rules: Note [Placements] of step.h, rows of task.def. */
#include "step/verifier.h"

#include <string.h>

static const char *words(const StepVerifier *v, Placement p) { return step_placement_text(v->p->arena, p); }

void verify_groups(StepVerifier *v)
{
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (v->p->members[a] < 1)
            REFUSE(v, "group %s has %lld members", axis_names[a], (long long)v->p->members[a]);
}

/* ---- buffers ---- */

/* A base that is each member's own may have views of which each has a part. A view of all of its base is placed like it; what is a part of its base has parts nowhere else. */
static void check_base(StepVerifier *v, const StepBuffer *b, GroupAxis a)
{
    const StepBuffer *base = &v->p->buffers.at[b->base];
    const Placement placed = base->placed[a];
    if (placed == PLACED_MIXED || (placed == PLACED_OWN && b->placed[a] > PLACED_WHOLE))
        return;
    if ((placed > PLACED_WHOLE && b->bytes != base->bytes) ||
        (placed > PLACED_WHOLE) != (b->placed[a] > PLACED_WHOLE) ||
        step_runs(base, placed) != step_runs(b, b->placed[a]) ||
        (placed <= PLACED_WHOLE && placed != b->placed[a]))
        REFUSE(v, "buffer %s over %s: it is %s, and its base %s is %s", b->name, axis_names[a],
               words(v, b->placed[a]), base->name, words(v, placed));
}

void verify_placements(StepVerifier *v, const StepBuffer *b)
{
    for (GroupAxis a = 0; a < AXIS_COUNT && !v->error; a++) {
        const int dims = b->kind == MOEC_ROUTE ? 1 : (int)b->rank;
        if (b->placed[a] != PLACED_WHOLE && v->p->members[a] == 1)
            REFUSE(v, "buffer %s over %s: it is %s, in a group of one", b->name, axis_names[a],
                   words(v, b->placed[a]));
        if (b->placed[a] > dims || b->placed[a] < PLACED_OWN ||
            (b->placed[a] == PLACED_MIXED && b->base != STEP_NONE))
            REFUSE(v, "buffer %s over %s: %s is no placement of it", b->name, axis_names[a],
                   words(v, b->placed[a]));
        if (b->base != STEP_NONE && !v->error)
            check_base(v, b, a);
    }
}

void verify_mixed(StepVerifier *v, TaskId t)
{
    each_operand(&v->p->tasks.at[t], o) for (GroupAxis a = 0; a < AXIS_COUNT;
                                             a++) if (v->p->buffers.at[o->buffer].placed[a] == PLACED_MIXED)
        REFUSE(v, "%s over %s: `%s` is %s, whose views are placed apart", verify_task_text(v->p, t),
               axis_names[a], o->param, v->p->buffers.at[o->buffer].name);
}

/* ---- kernels ---- */

static const Operand *operand_of(const Task *task, const char *param)
{
    each_operand(task, o) if (!strcmp(o->param, param)) return o;
    return NULL;
}

/* As the public interface says it: a dimension, MOEC_WHOLE or MOEC_SUM. */
static int stated(const StepVerifier *v, const Task *task, const char *param, GroupAxis a)
{
    const Operand *o = operand_of(task, param);
    const Placement p = o ? v->p->buffers.at[o->buffer].placed[a] : (Placement)PLACED_WHOLE;
    return p == PLACED_SUM ? MOEC_SUM : p == PLACED_WHOLE ? MOEC_WHOLE : p - 1;
}

static int reads_own(const StepVerifier *v, const Task *task, GroupAxis a)
{
    each_operand(task,
                 o) if (o->use != USE_WRITE && v->p->buffers.at[o->buffer].placed[a] == PLACED_OWN) return 1;
    return 0;
}

/* Note [Own] of step.h: each member's own from its own and what is whole; into a gradient it adds a part of a sum. */
static void check_own(StepVerifier *v, TaskId t, GroupAxis a)
{
    each_operand(&v->p->tasks.at[t], o)
    {
        const StepBuffer *b = &v->p->buffers.at[o->buffer];
        const Placement p = b->placed[a];
        const int fits = use_writes(o->use)
                             ? p == PLACED_OWN || (p == PLACED_SUM && b->owner == OWNER_gradient)
                             : p == PLACED_OWN || p == PLACED_WHOLE;
        if (!fits)
            REFUSE(v, "%s over %s: %s `%s`, %s, which is %s, beside each member's own",
                   verify_task_text(v->p, t), axis_names[a], use_words[o->use], o->param, b->name,
                   words(v, p));
    }
}

static void check_kernel(StepVerifier *v, TaskId t, const moec_kernel *k, GroupAxis a)
{
    char why[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = why};
    const Task *task = &v->p->tasks.at[t];
    const size_t n = moec_kernel_params(k);
    int *places = arena_array(v->p->arena, int, n + 1);
    for (size_t i = 0; i < n; i++)
        places[i] = stated(v, task, moec_kernel_param_name(k, i), a);
    if (moec_kernel_place(k, &ctx, places))
        REFUSE(v, "%s over %s: %s", verify_task_text(v->p, t), axis_names[a], why);
    for (size_t i = 0; i < n && !v->error; i++)
        if (places[i] != stated(v, task, moec_kernel_param_name(k, i), a))
            REFUSE(v, "%s over %s: `%s` is not placed as the kernel's equations make it",
                   verify_task_text(v->p, t), axis_names[a], moec_kernel_param_name(k, i));
}

void verify_kernel_placements(StepVerifier *v, TaskId t)
{
    const moec_kernel *k = kernels_find(v->kernels, v->p->kernels.at[v->p->tasks.at[t].kernel].name);
    for (GroupAxis a = 0; k && a < AXIS_COUNT && !v->error; a++)
        if (v->p->members[a] > 1 && reads_own(v, &v->p->tasks.at[t], a))
            check_own(v, t, a);
        else if (v->p->members[a] > 1)
            check_kernel(v, t, k, a);
}

/* ---- exchanges ---- */

static int is_placed(Exchanged rule, const StepBuffer *b, GroupAxis a)
{
    const Placement p = b->placed[a];
    return rule == EXCHANGED_SAME || (rule == EXCHANGED_WHOLE && p == PLACED_WHOLE) ||
           (rule == EXCHANGED_SUM && (p == PLACED_SUM || p == PLACED_OWN)) ||
           (rule == EXCHANGED_PART && (p > PLACED_WHOLE || p == PLACED_OWN)) ||
           (rule == EXCHANGED_ROWS && (p == PLACED_PART(0) || p == PLACED_OWN));
}

/* The next operand, which must have that role and be a plain tensor; NULL with an error: it is not there. */
static const StepBuffer *exchanged(StepVerifier *v, TaskId t, uint32_t *next, const char *role,
                                   OperandUse use)
{
    const Task *task = &v->p->tasks.at[t];
    const Operand *o = *next < task->operands.len ? &task->operands.at[(*next)++] : NULL;
    const StepBuffer *b = o ? &v->p->buffers.at[o->buffer] : NULL;
    if (!o || strcmp(o->param, role) || o->use != use || b->kind != MOEC_TENSOR || b->packed)
        REFUSE(v, "%s: %s no plain tensor as `%s`", verify_task_text(v->p, t), use_words[use], role);
    return v->error ? NULL : b;
}

static void check_side(StepVerifier *v, TaskId t, const char *role, const StepBuffer *b, Exchanged rule)
{
    const GroupAxis a = v->p->tasks.at[t].axis;
    if (!b->rank && (rule == EXCHANGED_PART || rule == EXCHANGED_ROWS))
        REFUSE(v, "%s: `%s`, %s, is a number, which has no parts", verify_task_text(v->p, t), role, b->name);
    if (v->p->members[a] > 1 && !is_placed(rule, b, a))
        REFUSE(v, "%s: `%s`, %s, is %s", verify_task_text(v->p, t), role, b->name, words(v, b->placed[a]));
}

/* Do members have parts of that dimension? Rows that are each member's own are parts of the first. */
static int is_cut(const StepBuffer *b, GroupAxis a, uint32_t dim)
{
    return b->placed[a] == PLACED_PART(dim) || (b->placed[a] == PLACED_OWN && dim == 0);
}

/* Extents of the result: those of the operand, but where parts are put together or taken apart. */
static void check_sizes(StepVerifier *v, TaskId t, const StepBuffer *x, const StepBuffer *y)
{
    const Task *task = &v->p->tasks.at[t];
    const int64_t members = v->p->members[task->axis];
    int good = x->type == y->type && x->rank == y->rank;
    for (uint32_t i = 0; good && i < x->rank; i++) {
        const int parts_out = task->kind == TASK_reducescatter || task->kind == TASK_split;
        const int64_t have = task->kind == TASK_allgather && is_cut(x, task->axis, i) ? members : 1,
                      give = parts_out && is_cut(y, task->axis, i) ? members : 1;
        int64_t all, parts;
        good = (task->kind == TASK_alltoallv && i == 0) ||
               (!__builtin_mul_overflow(x->shape[i], have, &all) &&
                !__builtin_mul_overflow(y->shape[i], give, &parts) && all == parts);
    }
    Placement placed[AXIS_COUNT];
    memcpy(placed, x->placed, sizeof placed);
    step_place_result(v->p, task->kind, task->axis, y->placed[task->axis], placed);
    for (GroupAxis a = 0; good && a < AXIS_COUNT; a++)
        good = a == task->axis || placed[a] == y->placed[a];
    if (!good)
        REFUSE(v,
               "%s: %s and %s are not of one type, or their sizes or placements do not fit the group of %lld",
               verify_task_text(v->p, t), x->name, y->name, (long long)members);
}

static void check_counts(StepVerifier *v, TaskId t, uint32_t *next, const char *role)
{
    const StepBuffer *b = exchanged(v, t, next, role, USE_READ);
    if (b && (b->type != MOEC_I32 || b->rank != 1 || b->shape[0] != v->p->members[v->p->tasks.at[t].axis]))
        REFUSE(v, "%s: `%s`, %s, is not a number for each member", verify_task_text(v->p, t), role, b->name);
}

void verify_exchange(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    const ExchangeRule *rule = &exchange_rules[task->kind];
    uint32_t n = 0;
    const StepBuffer *x = rule->takes == EXCHANGED_NOTHING ? NULL : exchanged(v, t, &n, "x", USE_READ);
    if (task->kind == TASK_alltoallv && !v->error)
        check_counts(v, t, &n, "sent"), check_counts(v, t, &n, "received");
    const StepBuffer *y =
        rule->gives == EXCHANGED_NOTHING || v->error ? NULL : exchanged(v, t, &n, "y", USE_WRITE);
    if (task->operands.len != n)
        REFUSE(v, "%s: it has %u operands", verify_task_text(v->p, t), task->operands.len);
    if (v->error)
        return;
    if (x)
        check_side(v, t, "x", x, rule->takes);
    if (y)
        check_side(v, t, "y", y, rule->gives);
    if (x && y && !v->error)
        check_sizes(v, t, x, y);
}

void verify_mail(StepVerifier *v)
{
    for (TaskId t = 0; t < v->p->tasks.len && !v->error; t++) {
        const Task *task = &v->p->tasks.at[t];
        if (task->kind != TASK_recv || v->p->members[task->axis] > 1)
            continue;
        const TaskId s = step_send_of(v->p, t);
        if (s == STEP_NONE) {
            REFUSE(v, "%s: in a group of one nothing was sent before it", verify_task_text(v->p, t));
            return;
        }
        check_sizes(v, t, &v->p->buffers.at[v->p->tasks.at[s].operands.at[0].buffer],
                    &v->p->buffers.at[task->operands.at[0].buffer]);
    }
}
