/* Calls of kernels, against the kernels' signatures: the uniform entry takes sizes and pointers as they come. */
#include "step/verifier.h"

#include <string.h>

typedef struct VerifiedCall {
    StepVerifier *v;
    TaskId t;
    const moec_kernel *k;
    const int64_t *sizes; /* of its dimensions; of extents their bounds */
} VerifiedCall;

#define REFUSE_CALL(c, format, ...) \
    REFUSE((c)->v, "%s: " format, verify_task_text((c)->v->p, (c)->t), __VA_ARGS__)

static const Task *task_of(const VerifiedCall *c) { return &c->v->p->tasks.at[c->t]; }

static void check_dims(VerifiedCall *c)
{
    const Task *task = task_of(c);
    const size_t n = moec_kernel_dims(c->k);
    int64_t *sizes = arena_array(c->v->p->arena, int64_t, n + 1);
    for (uint32_t i = 0; i < n || i < task->dims.len; i++) {
        const char *wants = i < n ? moec_kernel_dim_name(c->k, i) : NULL,
                   *has = i < task->dims.len ? task->dims.at[i].name : NULL;
        if (!wants || !has || strcmp(wants, has)) {
            REFUSE_CALL(c, "dimension %u of the kernel is %s, of the task %s", i, wants ? wants : "none",
                        has ? has : "none");
            return;
        }
        sizes[i] = task->dims.at[i].size;
    }
    c->sizes = sizes;
}

/* An `in` of which the kernel reads no element may be ignored. */
static int is_use(const moec_kernel *k, size_t i, OperandUse use)
{
    switch (moec_kernel_param_role(k, i)) {
    case MOEC_IN:
        return use == USE_READ || (use == USE_SHAPE && moec_kernel_param_kind(k, i) == MOEC_TENSOR &&
                                   !moec_kernel_param_read(k, i) && !moec_kernel_param_packed(k, i));
    case MOEC_OUT: return use == USE_WRITE;
    case MOEC_INOUT: return use == USE_UPDATE;
    }
    return 0;
}

static void check_type(VerifiedCall *c, size_t i, const Operand *o, const StepBuffer *b)
{
    const int packed = moec_kernel_param_packed(c->k, i);
    const moec_type type = moec_kernel_param_type(c->k, i);
    if ((moec_kernel_param_kind(c->k, i) == MOEC_ROUTE) != (b->kind == MOEC_ROUTE))
        REFUSE_CALL(c, "`%s` and %s are not both routes", o->param, b->name);
    else if (b->kind != MOEC_ROUTE && type != b->type)
        REFUSE_CALL(c, "`%s` is %s, %s is %s", o->param, step_type_name(type), b->name,
                    step_type_name(b->type));
    else if (packed > b->packed || (!packed && b->packed))
        REFUSE_CALL(c, "`%s` and %s are not packed in the same way", o->param, b->name);
}

static void check_shape(VerifiedCall *c, size_t i, const Operand *o, const StepBuffer *b)
{
    int64_t shape[MOEC_MAX_RANK] = {0};
    const int rank = moec_kernel_param_rank(c->k, i);
    if ((uint32_t)rank != b->rank)
        REFUSE_CALL(c, "`%s` has %d axes, %s has %u", o->param, rank, b->name, b->rank);
    else if (moec_kernel_param_shape(c->k, i, c->sizes, shape))
        REFUSE_CALL(c, "`%s` has too many elements at these dimensions", o->param);
    for (int axis = 0; axis < rank && !c->v->error; axis++)
        if (shape[axis] != b->shape[axis])
            REFUSE_CALL(c, "axis %d of `%s` is %lld at these dimensions, of %s %lld", axis, o->param,
                        (long long)shape[axis], b->name, (long long)b->shape[axis]);
    if (b->packed && !c->v->error && b->bytes < moec_kernel_param_bytes(c->k, i, c->sizes))
        REFUSE_CALL(c, "`%s` is packed in %lld bytes, %s has %lld", o->param,
                    (long long)moec_kernel_param_bytes(c->k, i, c->sizes), b->name, (long long)b->bytes);
}

static void check_operand(VerifiedCall *c, const Operand *o)
{
    const StepBuffer *b = &c->v->p->buffers.at[o->buffer];
    const size_t i = moec_kernel_param_index(c->k, o->param);
    if (i == (size_t)-1)
        REFUSE_CALL(c, "the kernel has no parameter `%s`", o->param);
    else if (!is_use(c->k, i, o->use))
        REFUSE_CALL(c, "%s `%s`, which is not what the kernel does with it", use_words[o->use], o->param);
    else
        check_type(c, i, o, b);
    if (!c->v->error)
        check_shape(c, i, o, b);
}

static void check_operands(VerifiedCall *c)
{
    const size_t n = moec_kernel_params(c->k);
    uint32_t *given = arena_array(c->v->p->arena, uint32_t, n + 1);
    each_operand(task_of(c), o)
    {
        check_operand(c, o);
        if (c->v->error)
            return;
        if (given[moec_kernel_param_index(c->k, o->param)]++)
            REFUSE_CALL(c, "`%s` is given twice", o->param);
    }
    for (size_t i = 0; i < n; i++)
        if (!given[i])
            REFUSE_CALL(c, "nothing is given for `%s`", moec_kernel_param_name(c->k, i));
}

/* Known only where the kernel has code already. */
static void check_work(VerifiedCall *c)
{
    const moec_kernel *code = kernels_code(c->v->kernels, c->v->p->kernels.at[task_of(c)->kernel].name);
    const BufferId work = task_of(c)->work;
    const int64_t needs = code ? moec_kernel_workspace(code, c->sizes) : 0,
                  has = work == STEP_NONE ? 0 : c->v->p->buffers.at[work].bytes;
    if (needs < 0)
        REFUSE_CALL(c, "%s", "its dimensions are out of the kernel's range");
    else if (has < needs)
        REFUSE_CALL(c, "its work space has %lld bytes, the kernel needs %lld", (long long)has,
                    (long long)needs);
}

void verify_call(StepVerifier *v, TaskId t)
{
    const char *name = v->p->kernels.at[v->p->tasks.at[t].kernel].name;
    VerifiedCall c = {v, t, kernels_find(v->kernels, name), NULL};
    if (!c.k)
        REFUSE(v, "%s: no source has that kernel", verify_task_text(v->p, t));
    if (!v->error)
        check_dims(&c);
    if (!v->error)
        check_operands(&c);
    if (!v->error)
        check_work(&c);
}
