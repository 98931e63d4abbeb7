/* Swap: what chosen forward tasks made is stored in a file after its last reader in the forward, and loaded for the backward. */
#include "step/passes.h"

#include <string.h>

enum {
    LEAST_BYTES = 1 << 10, /* of a buffer that is worth two calls of the system */
    AHEAD = 3              /* tasks between a load and its first reader, for the lane to do it meanwhile */
};

/* A buffer between its last use in the forward and its first one behind. */
typedef struct Trip {
    BufferId buffer, file, back;
    TaskId store, load; /* the tasks behind which, and before which */
} Trip;

/* Where a buffer is used: last in the forward, first behind it. */
typedef struct BufferSpan {
    TaskId last, first;
    int chosen, changed; /* made by a chosen task; written from `first` on */
} BufferSpan;

typedef struct Swap {
    Program *p;
    Vec(Task) old, made;
    Vec(Trip) trips;
    BufferSpan *spans; /* by buffer with memory of its own */
    BufferId *back;    /* by buffer: where it is read behind its load; STEP_NONE: not so far */
} Swap;

/* ---- which buffers ---- */

static void note_use(BufferSpan *s, const Task *task, TaskId t, OperandUse use, int chosen)
{
    if (task->phase != PHASE_forward && s->first == STEP_NONE)
        s->first = t;
    if (s->first == STEP_NONE)
        s->last = t;
    s->chosen |= use_writes(use) && chosen;
    s->changed |= use_writes(use) && s->first != STEP_NONE;
}

static void find_spans(Swap *s, const ModuleChoice *c)
{
    for (TaskId t = 0; t < s->old.len; t++) {
        const Task *task = &s->old.at[t];
        const int chosen = module_is_chosen(c, task);
        each_operand(task, o) if (o->use != USE_SHAPE)
            note_use(&s->spans[step_home(s->p, o->buffer)], task, t, o->use, chosen);
    }
}

static int goes(const Swap *s, BufferId b)
{
    const StepBuffer *buffer = &s->p->buffers.at[b];
    const BufferSpan *span = &s->spans[b];
    return buffer->base == STEP_NONE && !owner_persists[buffer->owner] && buffer->bytes >= LEAST_BYTES &&
           span->chosen && !span->changed && span->first != STEP_NONE && span->last != STEP_NONE &&
           span->first > span->last + AHEAD + 1;
}

/* ---- the trip ---- */

static BufferId add_like(Program *p, BufferId b, const char *suffix, Owner owner)
{
    StepBuffer like = p->buffers.at[b];
    like.name = arena_printf(p->arena, "%s.%s", like.name, suffix);
    like.owner = owner;
    return step_add(p, like);
}

static void plan_trip(Swap *s, BufferId b)
{
    const BufferSpan *span = &s->spans[b];
    s->back[b] = add_like(s->p, b, "back", OWNER_activation);
    vec_push(s->p->arena, &s->trips,
             (Trip){b, add_like(s->p, b, "file", OWNER_disk), s->back[b], span->last, span->first - AHEAD});
}

static void move(Swap *s, TaskKind kind, TaskId beside, BufferId from, BufferId to)
{
    const Task *task = &s->old.at[beside];
    Task t = {.kind = kind,
              .phase = task->phase,
              .layer = task->layer,
              .micro = task->micro,
              .kernel = STEP_NONE,
              .work = STEP_NONE};
    vec_push(s->p->arena, &t.operands, (Operand){"x", from, USE_READ});
    vec_push(s->p->arena, &t.operands, (Operand){"y", to, USE_WRITE});
    vec_push(s->p->arena, &s->made, t);
}

/* What is read for b behind the load of its memory. */
static BufferId back_of(Swap *s, BufferId b)
{
    if (s->back[b] != STEP_NONE)
        return s->back[b];
    StepBuffer view = s->p->buffers.at[b];
    view.base = s->back[view.base];
    view.name = arena_printf(s->p->arena, "%s.back", view.name);
    const BufferId made = step_add(s->p, view);
    s->back[b] = made;
    return made;
}

static void rewrite(Swap *s, TaskId t)
{
    Task task = s->old.at[t];
    memset(&task.operands, 0, sizeof task.operands);
    each_operand(&s->old.at[t], o)
    {
        const BufferId home = step_home(s->p, o->buffer);
        Operand same = *o;
        if (o->use == USE_READ && s->back[home] != STEP_NONE && t >= s->spans[home].first)
            same.buffer = back_of(s, o->buffer);
        vec_push(s->p->arena, &task.operands, same);
    }
    vec_push(s->p->arena, &s->made, task);
}

/* Of each buffer of a chosen task that the backward reads: a store behind its last use in the forward, a load a few tasks before
 * its first use behind it, and that and all later uses read what is loaded. Small buffers stay, and those that are needed again
 * soon or that are changed later. */
void step_pass_swap(Program *p, const ModuleChoice *c)
{
    const uint32_t buffers = p->buffers.len;
    Swap s = {.p = p};
    memcpy(&s.old, &p->tasks, sizeof s.old);
    s.spans = arena_array(p->arena, BufferSpan, buffers + 1);
    s.back = arena_array(p->arena, BufferId, buffers + 1);
    for (BufferId b = 0; b < buffers; b++)
        s.spans[b] = (BufferSpan){STEP_NONE, STEP_NONE, 0, 0}, s.back[b] = STEP_NONE;
    find_spans(&s, c);
    for (BufferId b = 0; b < buffers; b++)
        if (goes(&s, b))
            plan_trip(&s, b);
    for (TaskId t = 0; t < s.old.len; t++) {
        for (uint32_t i = 0; i < s.trips.len; i++)
            if (s.trips.at[i].load == t)
                move(&s, TASK_load, t, s.trips.at[i].file, s.trips.at[i].back);
        rewrite(&s, t);
        for (uint32_t i = 0; i < s.trips.len; i++)
            if (s.trips.at[i].store == t)
                move(&s, TASK_store, t, s.trips.at[i].buffer, s.trips.at[i].file);
    }
    memcpy(&p->tasks, &s.made, sizeof s.made);
}
