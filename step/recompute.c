/* Recompute: what chosen forward tasks make is dropped after its last reader in the forward, and made once more for the backward. */
#include "step/passes.h"

#include <string.h>

enum { NO_WRITER = STEP_NONE - 1, MANY_WRITERS = STEP_NONE - 2 };

typedef struct Recompute {
    Program *p;
    Vec(Task) old, made; /* the tasks before, and so far */
    const ModuleChoice *choice;
    TaskId *
        writer; /* by buffer with memory of its own: the only task that writes it, or NO_WRITER, MANY_WRITERS */
    uint8_t *leaves;   /* by buffer with memory of its own: another layer's forward reads it */
    uint8_t *repeated; /* by task */
    BufferId *again;   /* by buffer: where it is made once more; STEP_NONE: not so far */
} Recompute;

/* ---- what may be dropped ---- */

static void note_write(Recompute *r, BufferId home, TaskId t)
{
    TaskId *writer = &r->writer[home];
    *writer = *writer == NO_WRITER || *writer == t ? t : MANY_WRITERS;
}

static void find_writers(Recompute *r)
{
    for (TaskId t = 0; t < r->old.len; t++)
        each_operand(&r->old.at[t], o) if (use_writes(o->use)) note_write(r, step_home(r->p, o->buffer), t);
}

static void find_leaving(Recompute *r)
{
    for (TaskId t = 0; t < r->old.len; t++) {
        const Task *reader = &r->old.at[t];
        each_operand(reader, o) if (use_reads(o->use) && reader->phase == PHASE_forward)
        {
            const BufferId home = step_home(r->p, o->buffer);
            if (r->writer[home] < r->old.len && r->old.at[r->writer[home]].layer != reader->layer)
                r->leaves[home] = 1;
        }
    }
}

static int is_written_between(const Recompute *r, BufferId home, TaskId after, TaskId before)
{
    for (TaskId t = after + 1; t < before; t++)
        each_operand(&r->old.at[t], o) if (use_writes(o->use) && step_home(r->p, o->buffer) == home) return 1;
    return 0;
}

/* A task that gives the same once more at `now`: it changes nothing that it reads, and nobody else has in the meantime. */
static int repeats(const Recompute *r, TaskId t, TaskId now)
{
    if (r->old.at[t].kind != TASK_kernel)
        return 0;
    each_operand(&r->old.at[t], o) if (use_reads(o->use) &&
                                       (o->use == USE_UPDATE ||
                                        is_written_between(r, step_home(r->p, o->buffer), t, now))) return 0;
    return 1;
}

/* Is the backward task `now` to read it made once more? What a layer leaves to the next one is kept, so that each layer is
 * repeated from its own input. */
static int is_dropped(const Recompute *r, BufferId b, TaskId now)
{
    const BufferId home = step_home(r->p, b);
    const TaskId t = r->writer[home];
    return t < now && !step_persists(r->p, home) && !r->leaves[home] &&
           module_is_chosen(r->choice, &r->old.at[t]) && (r->repeated[t] || repeats(r, t, now));
}

/* ---- once more ---- */

/* The buffer, or the same part of its base, in other memory of the arena. */
static BufferId copy_of(Recompute *r, BufferId b)
{
    if (r->again[b] != STEP_NONE)
        return r->again[b];
    StepBuffer copy = r->p->buffers.at[b];
    if (copy.base != STEP_NONE)
        copy.base = copy_of(r, copy.base);
    copy.owner = OWNER_activation;
    copy.name = arena_printf(r->p->arena, "%s.again", copy.name);
    const BufferId made = step_add(r->p, copy);
    r->again[b] = made;
    return made;
}

static BufferId read_of(Recompute *r, BufferId b, TaskId now);

static void repeat(Recompute *r, TaskId t, TaskId now)
{
    if (r->repeated[t])
        return;
    r->repeated[t] = 1;
    Task again = r->old.at[t];
    again.phase = PHASE_recompute, again.work = STEP_NONE;
    memset(&again.operands, 0, sizeof again.operands);
    each_operand(&r->old.at[t], o)
    {
        Operand same = *o;
        if (use_reads(o->use))
            same.buffer = read_of(r, o->buffer, now);
        if (use_writes(o->use))
            same.buffer = copy_of(r, o->buffer);
        vec_push(r->p->arena, &again.operands, same);
    }
    vec_push(r->p->arena, &r->made, again);
}

/* What a task of the backward, or one that is repeated for it, reads for b. */
static BufferId read_of(Recompute *r, BufferId b, TaskId now)
{
    if (!is_dropped(r, b, now))
        return b;
    repeat(r, r->writer[step_home(r->p, b)], now);
    return copy_of(r, b);
}

static void rewrite(Recompute *r, TaskId t)
{
    Task task = r->old.at[t];
    if (task.phase == PHASE_backward || task.phase == PHASE_weights) {
        memset(&task.operands, 0, sizeof task.operands);
        each_operand(&r->old.at[t], o)
        {
            Operand read = *o;
            if (o->use == USE_READ)
                read.buffer = read_of(r, o->buffer, t);
            vec_push(r->p->arena, &task.operands, read);
        }
    }
    vec_push(r->p->arena, &r->made, task);
}

/* Of each task of the backward that reads what a chosen task of the forward made, the reads are turned to a buffer that a second
 * task of the same kernel fills just before. Its own inputs are made in the same way if they are chosen too; others stay alive
 * until then. So only tasks are repeated whose results are read. Kept are: what leaves its layer in the forward, what several tasks
 * write, and the results of tasks that change what they read or whose inputs change before the backward. */
void step_pass_recompute(Program *p, const ModuleChoice *c)
{
    const uint32_t buffers = p->buffers.len + 1;
    Recompute r = {.p = p, .choice = c};
    memcpy(&r.old, &p->tasks, sizeof r.old);
    r.writer = arena_array(p->arena, TaskId, buffers);
    r.leaves = arena_array(p->arena, uint8_t, buffers);
    r.repeated = arena_array(p->arena, uint8_t, p->tasks.len + 1);
    r.again = arena_array(p->arena, BufferId, buffers);
    for (BufferId b = 0; b < p->buffers.len; b++)
        r.writer[b] = NO_WRITER, r.again[b] = STEP_NONE;
    find_writers(&r);
    find_leaving(&r);
    for (TaskId t = 0; t < r.old.len; t++)
        rewrite(&r, t);
    memcpy(&p->tasks, &r.made, sizeof r.made);
}
