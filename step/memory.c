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

/* A part of the arena. */
typedef struct PlaceRange {
    int64_t begin, end;
} PlaceRange;
typedef Vec(PlaceRange) RangeList; /* in order, none touches the next */

/* Note [Places] A buffer gets the lowest gap among those that live while it does, and most of a deep model live together, so looking
 * at each of them would take time by the square. But they lie close together: what a time takes of the arena is few ranges. So a tree
 * over the tasks has at each node the ranges of what lives in some of its tasks, and of what lives in all of them. Against a buffer stand the
 * first of nodes that lie inside its life, and the second of nodes above these. */
typedef struct PlaceNode {
    RangeList some, all;
} PlaceNode;

typedef struct Places {
    Arena *arena;
    PlaceNode *nodes;             /* the children of i: 2 i and 2 i + 1 */
    TaskId tasks;                 /* below the first, 1 */
    Vec(const RangeList *) taken; /* for the buffer that gets a place */
} Places;

static Places new_places(const Program *p)
{
    Places s = {.arena = p->arena, .tasks = 1};
    while (s.tasks < p->tasks.len)
        s.tasks *= 2;
    s.nodes = arena_array(p->arena, PlaceNode, 2 * (size_t)s.tasks);
    return s;
}

/* Of the ranges that end behind `at`, the first. */
static uint32_t range_behind(const RangeList *l, int64_t at)
{
    uint32_t low = 0, high = l->len;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (l->at[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* One with those that it touches. */
static void add_range(Arena *a, RangeList *l, PlaceRange r)
{
    const uint32_t first = range_behind(l, r.begin - 1);
    uint32_t behind = first;
    for (; behind < l->len && l->at[behind].begin <= r.end; behind++) {
        r.begin = l->at[behind].begin < r.begin ? l->at[behind].begin : r.begin;
        r.end = l->at[behind].end > r.end ? l->at[behind].end : r.end;
    }
    vec_reserve(a, l, l->len + 1);
    memmove(&l->at[first + 1], l->at + behind, (l->len - behind) * sizeof *l->at);
    l->at[first] = r;
    l->len = l->len + 1 - (behind - first);
}

/* Tasks `lo` to `hi` - 1 are those of the node. */
static void add_place(Places *s, uint32_t node, TaskId lo, TaskId hi, const StepBuffer *b, PlaceRange r)
{
    const TaskId middle = lo + (hi - lo) / 2;
    if (hi <= b->first || b->last < lo)
        return;
    add_range(s->arena, &s->nodes[node].some, r);
    if (b->first <= lo && hi <= b->last + 1) {
        add_range(s->arena, &s->nodes[node].all, r);
        return;
    }
    add_place(s, 2 * node, lo, middle, b, r);
    add_place(s, 2 * node + 1, middle, hi, b, r);
}

static void list_taken(Places *s, uint32_t node, TaskId lo, TaskId hi, const StepBuffer *b)
{
    const TaskId middle = lo + (hi - lo) / 2;
    if (hi <= b->first || b->last < lo)
        return;
    const int is_inside = b->first <= lo && hi <= b->last + 1;
    vec_push(s->arena, &s->taken, is_inside ? &s->nodes[node].some : &s->nodes[node].all);
    if (is_inside)
        return;
    list_taken(s, 2 * node, lo, middle, b);
    list_taken(s, 2 * node + 1, middle, hi, b);
}

/* At `at` or behind it, in one list. */
static int64_t gap_in(const RangeList *l, int64_t at, int64_t bytes)
{
    for (uint32_t i = range_behind(l, at); i < l->len && l->at[i].begin < at + bytes; i++)
        at = l->at[i].end;
    return at;
}

/* The lowest place where `b` fits among those that live while it does. */
static int64_t lowest_gap(Places *s, const StepBuffer *b)
{
    int64_t at = 0, before = -1;
    s->taken.len = 0;
    list_taken(s, 1, 0, s->tasks, b);
    while (at != before) {
        before = at;
        for (uint32_t i = 0; i < s->taken.len; i++)
            at = gap_in(s->taken.at[i], at, b->bytes);
    }
    return at;
}

/* Of the buffers in the arena, or of those in the swap file; gives the bytes of all. */
static int64_t place(Program *p, int on_disk)
{
    BufferId *order = arena_array(p->arena, BufferId, p->buffers.len + 1);
    Places s = new_places(p);
    uint32_t n = 0;
    int64_t bytes = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (is_placed(p, b) && (p->buffers.at[b].owner == OWNER_disk) == on_disk)
            order[n++] = b;
    sorted = p;
    qsort(order, n, sizeof *order, larger_first);
    for (uint32_t i = 0; i < n; i++) {
        StepBuffer *b = &p->buffers.at[order[i]];
        b->place = lowest_gap(&s, b);
        const PlaceRange taken = {b->place, round_up(b->place + b->bytes)};
        add_place(&s, 1, 0, s.tasks, b, taken);
        bytes = taken.end > bytes ? taken.end : bytes;
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
    const int64_t x = ((const PlaceRange *)a)->begin, y = ((const PlaceRange *)b)->begin;
    return (x > y) - (x < y);
}

int64_t memory_touched(const Program *p)
{
    const int64_t *rows = expected_rows(p);
    int64_t *touched = arena_array(p->arena, int64_t, p->buffers.len + 1), sum = 0, end = 0;
    PlaceRange *ranges = arena_array(p->arena, PlaceRange, p->buffers.len + 1);
    uint32_t n = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        touched[b] = p->buffers.at[b].bytes;
    for (TaskId t = 0; t < p->tasks.len; t++)
        lessen(p, &p->tasks.at[t], rows, touched);
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (is_placed(p, b) && p->buffers.at[b].owner != OWNER_disk)
            ranges[n++] = (PlaceRange){p->buffers.at[b].place, p->buffers.at[b].place + touched[b]};
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
