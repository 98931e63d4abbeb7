#include "step/verifier.h"

#include <stdlib.h>
#include <string.h>

const char *verify_task_text(const Program *p, TaskId t)
{
    const Task *task = &p->tasks.at[t];
    const char *of = task->kernel != STEP_NONE                ? p->kernels.at[task->kernel].name
                     : exchange_rules[task->kind].is_exchange ? axis_names[task->axis]
                                                              : "";
    return arena_printf(p->arena, "task %u (%s%s%s, layer %d, micro-batch %d)", t, task_names[task->kind],
                        *of ? " " : "", of, task->layer, task->micro);
}

/* ---- buffers ---- */

/* A route begins with an array of int64. */
static int64_t element_bytes(const StepBuffer *b)
{
    return b->kind == MOEC_ROUTE ? (int64_t)sizeof(int64_t) : step_type_bytes(b->type);
}

static void check_view(StepVerifier *v, const StepBuffer *b)
{
    const Program *p = v->p;
    if (b->base >= p->buffers.len || p->buffers.at[b->base].base != STEP_NONE)
        REFUSE(v, "buffer %s: a view of what is no buffer with memory of its own", b->name);
    else if (b->offset < 0 || b->bytes < 0 || b->offset > p->buffers.at[b->base].bytes - b->bytes)
        REFUSE(v, "buffer %s: bytes %lld to %lld of %s, which has %lld", b->name, (long long)b->offset,
               (long long)(b->offset + b->bytes), p->buffers.at[b->base].name,
               (long long)p->buffers.at[b->base].bytes);
    else if (b->offset % element_bytes(b))
        REFUSE(v, "buffer %s: begins %lld bytes behind %s, which splits an element", b->name,
               (long long)b->offset, p->buffers.at[b->base].name);
    else if (b->owner != p->buffers.at[b->base].owner)
        REFUSE(v, "buffer %s: owned as %s, its base %s as %s", b->name, owner_names[b->owner],
               p->buffers.at[b->base].name, owner_names[p->buffers.at[b->base].owner]);
}

static int64_t least_bytes(const StepBuffer *b)
{
    const int64_t n = step_elements(b);
    if (b->kind == MOEC_ROUTE)
        return b->rank == 4 ? step_route_bytes(b->shape) : INT64_MAX;
    return n < 0 || n > INT64_MAX / 8 ? INT64_MAX : n * step_type_bytes(b->type);
}

/* A number of the host is an f32 or an i32, and has a first value of that type. */
static int is_host_number(const StepBuffer *b)
{
    return !b->rank && !b->packed &&
           (b->type == MOEC_F32 || (b->type == MOEC_I32 && b->value >= INT32_MIN && b->value <= INT32_MAX &&
                                    b->value == (int32_t)b->value));
}

static void check_buffers(StepVerifier *v)
{
    for (BufferId i = 0; i < v->p->buffers.len && !v->error; i++) {
        const StepBuffer *b = &v->p->buffers.at[i];
        if (b->owner != OWNER_work && b->bytes < least_bytes(b))
            REFUSE(v, "buffer %s: %lld bytes do not hold its elements", b->name, (long long)b->bytes);
        if (b->kind == MOEC_SCALAR && !is_host_number(b))
            REFUSE(v, "buffer %s: %g is no %s number of the host", b->name, b->value,
                   step_type_name(b->type));
        if (b->base != STEP_NONE)
            check_view(v, b);
        if (!v->error)
            verify_placements(v, b);
    }
}

/* ---- tasks ---- */

/* A number of the host, or one that an earlier task has written into memory that persists. */
static int is_extent(const StepVerifier *v, BufferId b)
{
    const StepBuffer *x = b < v->p->buffers.len ? &v->p->buffers.at[b] : NULL;
    if (!x || x->kind == MOEC_ROUTE || x->type != MOEC_I32 || x->rank)
        return 0;
    return x->kind == MOEC_SCALAR || (step_persists(v->p, b) && v->written[step_home(v->p, b)].bytes.len > 0);
}

static void verify_task_kernel(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    if (task->kernel >= v->p->kernels.len)
        REFUSE(v, "%s: names no kernel", verify_task_text(v->p, t));
    if (v->kernels && !v->error)
        verify_call(v, t);
    if (v->kernels && !v->error)
        verify_kernel_placements(v, t);
}

/* Memory of its own for one task, which nobody else may name. */
static void check_work(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    const StepBuffer *b = task->work == STEP_NONE ? NULL : &v->p->buffers.at[task->work];
    if (b && (task->kind != TASK_kernel || b->owner != OWNER_work || b->base != STEP_NONE || !b->bytes))
        REFUSE(v, "%s: %s is no work space of a kernel", verify_task_text(v->p, t), b->name);
    each_operand(task, o) if (v->p->buffers.at[o->buffer].owner == OWNER_work)
        REFUSE(v, "%s: `%s`, %s, is work space", verify_task_text(v->p, t), o->param,
               v->p->buffers.at[o->buffer].name);
}

static void check_dims(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    for (uint32_t i = 0; i < task->dims.len; i++) {
        const TaskDim *d = &task->dims.at[i];
        if (d->size < 0)
            REFUSE(v, "%s: dimension %s is %lld", verify_task_text(v->p, t), d->name, (long long)d->size);
        if (d->extent != STEP_NONE && !is_extent(v, d->extent))
            REFUSE(v,
                   "%s: the extent of dimension %s is no i32 number that the host or an earlier task gives",
                   verify_task_text(v->p, t), d->name);
    }
}

static void verify_task_batch(StepVerifier *v, TaskId t)
{
    if (v->p->tasks.at[t].operands.len > STEP_MAX_BATCH)
        REFUSE(v, "%s: fills %u buffers, at most %d are possible", verify_task_text(v->p, t),
               v->p->tasks.at[t].operands.len, STEP_MAX_BATCH);
    each_operand(&v->p->tasks.at[t],
                 o) if (o->use != USE_WRITE || v->p->buffers.at[o->buffer].kind != MOEC_TENSOR)
        REFUSE(v, "%s: %s is no tensor that it fills", verify_task_text(v->p, t),
               v->p->buffers.at[o->buffer].name);
}

static int is_number(const Program *p, const Operand *o, const char *role)
{
    const StepBuffer *b = &p->buffers.at[o->buffer];
    return !strcmp(o->param, role) && o->use == USE_READ && b->kind != MOEC_ROUTE && b->type == MOEC_F32 &&
           b->rank == 0;
}

static void verify_task_gate(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    if (task->operands.len != 2 || !is_number(v->p, &task->operands.at[0], "x") ||
        !is_number(v->p, &task->operands.at[1], "limit"))
        REFUSE(v, "%s: reads an f32 number and its limit, and nothing else", verify_task_text(v->p, t));
}

/* One whole buffer of the arena, and one of the swap file that is like it. */
static void check_move(StepVerifier *v, TaskId t, int on_disk)
{
    const Task *task = &v->p->tasks.at[t];
    const Operand *o = task->operands.at;
    const StepBuffer *b = v->p->buffers.at;
    if (task->operands.len != 2 || o[0].use != USE_READ || o[1].use != USE_WRITE ||
        b[o[on_disk].buffer].owner != OWNER_disk || b[o[!on_disk].buffer].owner != OWNER_activation ||
        b[o[0].buffer].base != STEP_NONE || b[o[1].buffer].base != STEP_NONE ||
        b[o[0].buffer].bytes != b[o[1].buffer].bytes)
        REFUSE(v, "%s: moves no whole activation %s the swap file", verify_task_text(v->p, t),
               on_disk ? "into" : "out of");
}

static void verify_task_store(StepVerifier *v, TaskId t) { check_move(v, t, 1); }
static void verify_task_load(StepVerifier *v, TaskId t) { check_move(v, t, 0); }

static void (*const task_hooks[])(StepVerifier *, TaskId) = {
#define TASK(name, lane, doc) [TASK_##name] = verify_task_##name,
#define EXCHANGE(name, lane, adjoint, takes, gives, doc) [TASK_##name] = verify_exchange,
#include "step/task.def"
};

/* ---- written before read ---- */

static Interval bytes_of(const Program *p, BufferId b)
{
    const StepBuffer *buffer = &p->buffers.at[b];
    return (Interval){buffer->offset, buffer->offset + buffer->bytes};
}

static int is_written(const Touched *w, Interval i)
{
    for (uint32_t j = 0; j < w->bytes.len; j++)
        if (w->bytes.at[j].lo <= i.lo && i.hi <= w->bytes.at[j].hi)
            return 1;
    return i.lo == i.hi;
}

static void check_read(StepVerifier *v, TaskId t, const Operand *o)
{
    const Program *p = v->p;
    const Touched *w = &v->written[step_home(p, o->buffer)];
    if (!step_persists(p, o->buffer) && !is_written(w, bytes_of(p, o->buffer)))
        REFUSE(v, "%s: reads %s as `%s` before any task has written %s", verify_task_text(p, t),
               p->buffers.at[o->buffer].name, o->param, w->bytes.len ? "all of it" : "it");
}

static void note_write(StepVerifier *v, const Operand *o)
{
    Touched *w = &v->written[step_home(v->p, o->buffer)];
    Interval i = bytes_of(v->p, o->buffer);
    for (uint32_t j = w->bytes.len; j-- > 0;)
        if (w->bytes.at[j].lo <= i.hi && i.lo <= w->bytes.at[j].hi) { /* one with what it touches */
            i.lo = w->bytes.at[j].lo < i.lo ? w->bytes.at[j].lo : i.lo;
            i.hi = w->bytes.at[j].hi > i.hi ? w->bytes.at[j].hi : i.hi;
            w->bytes.at[j] = w->bytes.at[--w->bytes.len];
        }
    vec_push(v->p->arena, &w->bytes, i);
}

static void note_touch(StepVerifier *v, TaskId t, BufferId b)
{
    Touched *w = &v->written[step_home(v->p, b)];
    if (w->first == STEP_NONE)
        w->first = t;
    w->last = t;
}

static int overlap(const Program *p, BufferId a, BufferId b)
{
    const StepBuffer *x = &p->buffers.at[a], *y = &p->buffers.at[b];
    return step_home(p, a) == step_home(p, b) && x->offset < y->offset + y->bytes &&
           y->offset < x->offset + x->bytes;
}

static void check_twice(StepVerifier *v, TaskId t)
{
    const Program *p = v->p;
    const Task *task = &p->tasks.at[t];
    each_operand(task, o)
        each_operand(task, other) if (o != other && use_writes(o->use) && other->use != USE_SHAPE &&
                                      overlap(p, o->buffer, other->buffer))
            REFUSE(v, "%s: %s `%s` and `%s` in the same memory, %s", verify_task_text(p, t),
                   use_words[o->use], o->param, other->param, p->buffers.at[o->buffer].name);
}

static void check_task(StepVerifier *v, TaskId t)
{
    const Task *task = &v->p->tasks.at[t];
    each_operand(task, o) if (o->buffer >= v->p->buffers.len)
    {
        REFUSE(v, "%s: `%s` is no buffer", verify_task_text(v->p, t), o->param);
        return;
    }
    verify_mixed(v, t);
    check_dims(v, t);
    check_work(v, t);
    if (!v->error)
        task_hooks[task->kind](v, t);
    check_twice(v, t);
    each_operand(task, o)
    {
        if (v->p->buffers.at[o->buffer].owner == OWNER_disk && task_lanes[task->kind] != LANE_disk)
            REFUSE(v, "%s: %s is in the swap file", verify_task_text(v->p, t),
                   v->p->buffers.at[o->buffer].name);
        if (use_reads(o->use))
            check_read(v, t, o);
        if (use_writes(o->use) && v->p->buffers.at[o->buffer].owner == OWNER_scalar)
            REFUSE(v, "%s: writes %s, which is a number of the host", verify_task_text(v->p, t),
                   v->p->buffers.at[o->buffer].name);
    }
    each_operand(task, o)
    {
        if (use_writes(o->use))
            note_write(v, o);
        if (o->use != USE_SHAPE)
            note_touch(v, t, o->buffer);
    }
    if (task->work != STEP_NONE)
        note_touch(v, t, task->work);
}

/* ---- memory ---- */

static int has_place(const StepVerifier *v, BufferId b)
{
    const StepBuffer *buffer = &v->p->buffers.at[b];
    return buffer->base == STEP_NONE && !owner_persists[buffer->owner] && v->written[b].first != STEP_NONE;
}

static int on_disk(const StepVerifier *v, BufferId b) { return v->p->buffers.at[b].owner == OWNER_disk; }

static void check_place(StepVerifier *v, BufferId b)
{
    const StepBuffer *buffer = &v->p->buffers.at[b];
    const int64_t all = on_disk(v, b) ? v->p->disk_bytes : v->p->arena_bytes;
    if (buffer->place < 0 || buffer->place % STEP_ALIGN || buffer->place > all - buffer->bytes)
        REFUSE(v, "buffer %s: its place %lld with %lld bytes is not in the %s of %lld, in steps of %d",
               buffer->name, (long long)buffer->place, (long long)buffer->bytes,
               on_disk(v, b) ? "swap file" : "arena", (long long)all, STEP_ALIGN);
}

static void check_pair(StepVerifier *v, BufferId a, BufferId b)
{
    const StepBuffer *x = &v->p->buffers.at[a], *y = &v->p->buffers.at[b];
    const Touched *wx = &v->written[a], *wy = &v->written[b];
    if (on_disk(v, a) == on_disk(v, b) && wx->first <= wy->last && wy->first <= wx->last &&
        x->place < y->place + y->bytes && y->place < x->place + x->bytes)
        REFUSE(v,
               "buffers %s (bytes %lld to %lld, tasks %u to %u) and %s (bytes %lld to %lld, tasks %u to %u) "
               "overlap",
               x->name, (long long)x->place, (long long)(x->place + x->bytes), wx->first, wx->last, y->name,
               (long long)y->place, (long long)(y->place + y->bytes), wy->first, wy->last);
}

/* When a buffer begins to live, or ends. */
typedef struct LifeEvent {
    TaskId task;
    BufferId buffer;
} LifeEvent;
typedef Vec(LifeEvent) LifeEvents;

static int by_task(const void *a, const void *b)
{
    const TaskId x = ((const LifeEvent *)a)->task, y = ((const LifeEvent *)b)->task;
    return (x > y) - (x < y);
}

static int is_before(const StepVerifier *v, BufferId a, BufferId b)
{
    const StepBuffer *x = &v->p->buffers.at[a], *y = &v->p->buffers.at[b];
    if (on_disk(v, a) != on_disk(v, b))
        return on_disk(v, a) < on_disk(v, b);
    if (x->place != y->place)
        return x->place < y->place;
    return x->bytes != y->bytes ? x->bytes < y->bytes : a < b;
}

/* In the order of places: where `b` is, or would be. */
typedef Vec(BufferId) LivingList;

static uint32_t find_living(const StepVerifier *v, const LivingList *l, BufferId b)
{
    uint32_t low = 0, high = l->len;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (is_before(v, l->at[middle], b))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void end_life(const StepVerifier *v, LivingList *l, BufferId b)
{
    const uint32_t at = find_living(v, l, b);
    memmove(l->at + at, l->at + at + 1, (--l->len - at) * sizeof *l->at);
}

/* Those that live do not overlap, so that if one overlaps `b` then one beside it does. */
static void begin_life(StepVerifier *v, LivingList *l, BufferId b)
{
    const uint32_t at = find_living(v, l, b);
    if (at > 0)
        check_pair(v, b, l->at[at - 1]);
    if (at < l->len)
        check_pair(v, b, l->at[at]);
    vec_reserve(v->p->arena, l, l->len + 1);
    memmove(l->at + at + 1, l->at + at, (l->len++ - at) * sizeof *l->at);
    l->at[at] = b;
}

/* Each with those that still live when it begins to. */
static void check_memory(StepVerifier *v)
{
    LifeEvents begin = {0}, end = {0};
    LivingList living = {0};
    for (BufferId b = 0; b < v->p->buffers.len; b++)
        if (has_place(v, b)) {
            check_place(v, b);
            vec_push(v->p->arena, &begin, ((LifeEvent){v->written[b].first, b}));
            vec_push(v->p->arena, &end, ((LifeEvent){v->written[b].last, b}));
        }
    if (begin.len) {
        qsort(begin.at, begin.len, sizeof *begin.at, by_task);
        qsort(end.at, end.len, sizeof *end.at, by_task);
    }
    for (uint32_t i = 0, ended = 0; i < begin.len && !v->error; i++) {
        for (; end.at[ended].task < begin.at[i].task; ended++)
            end_life(v, &living, end.at[ended].buffer);
        begin_life(v, &living, begin.at[i].buffer);
    }
}

const char *step_verify(Program *p, const KernelSet *kernels)
{
    StepVerifier v = {.p = p, .kernels = kernels};
    v.written = arena_array(p->arena, Touched, p->buffers.len + 1);
    for (BufferId b = 0; b < p->buffers.len; b++)
        v.written[b].first = v.written[b].last = STEP_NONE;
    verify_groups(&v);
    check_buffers(&v);
    for (TaskId t = 0; t < p->tasks.len && !v.error; t++)
        check_task(&v, t);
    verify_mail(&v);
    if (!v.error && p->arena_bytes >= 0)
        check_memory(&v);
    return v.error;
}
