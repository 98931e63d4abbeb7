#include "step/memory.h"

#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t n) { return (n + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN; }

static void touch(StepBuffer *b, TaskId t)
{
    if (b->first == STEP_NONE)
        b->first = t;
    b->last = t;
}

/* The lane `disk` stores while the next tasks run: what it stores is not overwritten at once, or they would wait for it. */
enum { STORE_TASKS = 2 };

static void hold_stored(Program *p, TaskId t)
{
    StepBuffer *b = &p->buffers.at[p->tasks.at[t].operands.at[0].buffer];
    const TaskId until = t + STORE_TASKS < p->tasks.len ? t + STORE_TASKS : p->tasks.len - 1;
    b->last = until > b->last ? until : b->last;
}

void memory_lifetimes(Program *p)
{
    for (uint32_t b = 0; b < p->buffers.len; b++)
        p->buffers.at[b].first = p->buffers.at[b].last = STEP_NONE;
    for (TaskId t = 0; t < p->tasks.len; t++) {
        const Task *task = &p->tasks.at[t];
        each_operand(task, o) if (o->use != USE_SHAPE)
        {
            touch(&p->buffers.at[o->buffer], t);
            touch(&p->buffers.at[step_home(p, o->buffer)], t);
        }
        if (task->work != STEP_NONE)
            touch(&p->buffers.at[task->work], t);
    }
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (p->tasks.at[t].kind == TASK_store)
            hold_stored(p, t);
}

/* Whether it has memory of its own in the arena, or a place of its own in the swap file. */
static int is_placed(const Program *p, BufferId b)
{
    const StepBuffer *buffer = &p->buffers.at[b];
    return buffer->base == STEP_NONE && !owner_persists[buffer->owner] && buffer->first != STEP_NONE;
}

static int live_together(const StepBuffer *a, const StepBuffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* ---- places ---- */

static const Program *sorted; /* qsort has no argument for its comparison */

static int larger_first(const void *x, const void *y)
{
    const StepBuffer *a = &sorted->buffers.at[*(const BufferId *)x],
                     *b = &sorted->buffers.at[*(const BufferId *)y];
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a < b ? -1 : 1);
}

/* The buffers that have places, by the part of the tasks in which they live, each part in the order of places: where micro-batches
 * follow each other most live in one part or two. */
enum { PLACE_PARTS = 64 };
typedef Vec(BufferId) BufferList;
typedef struct Places {
    const Program *p;
    BufferList part[PLACE_PARTS], merged, next; /* the last two: of several parts, for one buffer */
} Places;

static uint32_t part_of(const Places *s, TaskId t)
{
    return (uint32_t)((uint64_t)t * PLACE_PARTS / s->p->tasks.len);
}

static int64_t place_of(const Places *s, BufferId b) { return s->p->buffers.at[b].place; }

/* Into s->merged, whose order it keeps; a buffer of both is in it twice. */
static void merge_part(Places *s, const BufferList *part)
{
    const BufferList before = s->merged;
    s->next.len = 0;
    for (uint32_t i = 0, j = 0; i < before.len || j < part->len;) {
        const int first =
            j == part->len || (i < before.len && place_of(s, before.at[i]) <= place_of(s, part->at[j]));
        vec_push(s->p->arena, &s->next, first ? before.at[i++] : part->at[j++]);
    }
    s->merged = s->next;
    s->next = before;
}

static const BufferList *together(Places *s, const StepBuffer *b)
{
    const uint32_t first = part_of(s, b->first), last = part_of(s, b->last);
    if (first == last)
        return &s->part[first];
    s->merged.len = 0;
    for (uint32_t i = first; i <= last; i++)
        merge_part(s, &s->part[i]);
    return &s->merged;
}

/* The lowest place where `b` fits among those that live while it does. */
static int64_t lowest_gap(Places *s, const StepBuffer *b)
{
    const BufferList *others = together(s, b);
    int64_t at = 0;
    for (uint32_t i = 0; i < others->len; i++) {
        const StepBuffer *other = &s->p->buffers.at[others->at[i]];
        if (!live_together(other, b))
            continue;
        if (other->place >= at + b->bytes)
            break;
        int64_t behind = round_up(other->place + other->bytes);
        at = behind > at ? behind : at;
    }
    return at;
}

static void insert_by_place(Places *s, BufferList *list, BufferId b)
{
    vec_push(s->p->arena, list, b);
    uint32_t i = list->len - 1;
    for (; i > 0 && place_of(s, list->at[i - 1]) > place_of(s, b); i--)
        list->at[i] = list->at[i - 1];
    list->at[i] = b;
}

/* Of the buffers in the arena, or of those in the swap file; gives the bytes of all. */
static int64_t place(Program *p, int on_disk)
{
    BufferId *order = arena_array(p->arena, BufferId, p->buffers.len + 1);
    Places *s = arena_new_of(p->arena, Places);
    s->p = p;
    uint32_t n = 0;
    int64_t bytes = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (is_placed(p, b) && (p->buffers.at[b].owner == OWNER_disk) == on_disk)
            order[n++] = b;
    sorted = p;
    qsort(order, n, sizeof *order, larger_first);
    for (uint32_t i = 0; i < n; i++) {
        StepBuffer *b = &p->buffers.at[order[i]];
        b->place = lowest_gap(s, b);
        for (uint32_t part = part_of(s, b->first); part <= part_of(s, b->last); part++)
            insert_by_place(s, &s->part[part], order[i]);
        const int64_t end = round_up(b->place + b->bytes);
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

void memory_place(Program *p)
{
    memory_lifetimes(p);
    for (BufferId b = 0; b < p->buffers.len; b++)
        p->buffers.at[b].place = -1;
    p->arena_bytes = place(p, 0);
    p->disk_bytes = place(p, 1);
}

/* ---- sums ---- */

const int64_t *memory_live(const Program *p, Owner owner)
{
    int64_t *live = arena_array(p->arena, int64_t, p->tasks.len + 2);
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].owner == owner && is_placed(p, b)) {
            live[p->buffers.at[b].first] += p->buffers.at[b].bytes;
            live[p->buffers.at[b].last + 1] -= p->buffers.at[b].bytes;
        }
    for (TaskId t = 1; t < p->tasks.len; t++)
        live[t] += live[t - 1];
    return live;
}

MemoryPeak memory_peak(const Program *p)
{
    const int64_t *kept = memory_live(p, OWNER_activation), *work = memory_live(p, OWNER_work);
    MemoryPeak peak = {0};
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (kept[t] + work[t] > peak.bytes)
            peak = (MemoryPeak){kept[t] + work[t], t};
    return peak;
}

/* ---- what is touched ---- */

/* A part of the arena. */
typedef struct TouchedRange {
    int64_t begin, end;
} TouchedRange;

/* By extent: the rows that it stands for when all ranks get as many as they send, as the smaller tensor of the exchange says; 0: that of
 * no exchange. */
static const int64_t *expected_rows(const Program *p)
{
    int64_t *rows = arena_array(p->arena, int64_t, p->buffers.len + 1);
    for (TaskId i = 0; i < p->tasks.len; i++) {
        const Task *t = &p->tasks.at[i];
        if (t->kind != TASK_alltoallv || !t->dims.len)
            continue;
        const int64_t from = p->buffers.at[t->operands.at[0].buffer].shape[0],
                      to = p->buffers.at[t->operands.at[3].buffer].shape[0];
        rows[t->dims.at[0].extent] = from < to ? from : to;
    }
    return rows;
}

/* Of what a task writes as far as its extent goes. */
static void lessen(const Program *p, const Task *t, const int64_t *rows, int64_t *touched)
{
    for (uint32_t i = 0; i < t->dims.len; i++) {
        const TaskDim *d = &t->dims.at[i];
        if (d->extent == STEP_NONE || !rows[d->extent] || d->size < 1)
            continue;
        const double part = (double)rows[d->extent] / (double)d->size;
        each_operand(t, o) if (use_writes(o->use) && p->buffers.at[o->buffer].shape[0] == d->size)
            touched[step_home(p, o->buffer)] = (int64_t)(part * (double)p->buffers.at[o->buffer].bytes);
        if (t->work != STEP_NONE)
            touched[t->work] = (int64_t)(part * (double)p->buffers.at[t->work].bytes);
    }
}

static int by_begin(const void *a, const void *b)
{
    const int64_t x = ((const TouchedRange *)a)->begin, y = ((const TouchedRange *)b)->begin;
    return (x > y) - (x < y);
}

int64_t memory_touched(const Program *p)
{
    const int64_t *rows = expected_rows(p);
    int64_t *touched = arena_array(p->arena, int64_t, p->buffers.len + 1), sum = 0, end = 0;
    TouchedRange *ranges = arena_array(p->arena, TouchedRange, p->buffers.len + 1);
    uint32_t n = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        touched[b] = p->buffers.at[b].bytes;
    for (TaskId t = 0; t < p->tasks.len; t++)
        lessen(p, &p->tasks.at[t], rows, touched);
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (is_placed(p, b) && p->buffers.at[b].owner != OWNER_disk)
            ranges[n++] = (TouchedRange){p->buffers.at[b].place, p->buffers.at[b].place + touched[b]};
    qsort(ranges, n, sizeof *ranges, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t begin = ranges[i].begin > end ? ranges[i].begin : end;
        sum += ranges[i].end > begin ? ranges[i].end - begin : 0;
        end = ranges[i].end > end ? ranges[i].end : end;
    }
    return sum;
}

int64_t memory_owned(const Program *p, Owner owner)
{
    int64_t sum = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].owner == owner && p->buffers.at[b].base == STEP_NONE)
            sum += round_up(p->buffers.at[b].bytes);
    return sum;
}
