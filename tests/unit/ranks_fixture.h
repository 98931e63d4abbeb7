/* Several ranks in one process: each is a thread with a run and a store of its own, and their door meets in memory. They have one
 * program. Sums are in the order of the ranks. */
#ifndef TESTS_RANKS_FIXTURE_H
#define TESTS_RANKS_FIXTURE_H

#include "step/ranks.h"
#include "step/run.h"

#include <pthread.h>
#include <string.h>

enum { MAX_RANKS = 8 };

/* A group of ranks that does one exchange after the other. */
typedef struct RankGroup {
    int64_t arrived, turns;
    const Task *task[MAX_RANKS]; /* by place in the group */
    void *const *buffers[MAX_RANKS];
} RankGroup;

typedef struct RankWorld {
    Ranks ranks;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int failed; /* a rank has ended, so that nobody waits for it */
    RankGroup groups[AXIS_COUNT][MAX_RANKS];
} RankWorld;

typedef struct RankThread {
    RankWorld *world;
    int64_t number;
    Run *run;
    int failed;
} RankThread;

static inline void ranks_open(RankWorld *w, const Ranks *r)
{
    *w = (RankWorld){.ranks = *r};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->moved, NULL);
}

static inline void ranks_close(RankWorld *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->moved);
}

/* Waits for all of the group; 1: one of the ranks has failed. */
static inline int ranks_meet(RankWorld *w, RankGroup *g, int64_t members)
{
    pthread_mutex_lock(&w->lock);
    const int64_t turn = g->turns;
    if (++g->arrived == members)
        g->arrived = 0, g->turns++;
    pthread_cond_broadcast(&w->moved);
    while (g->turns == turn && !w->failed)
        pthread_cond_wait(&w->moved, &w->lock);
    const int alone = g->turns == turn;
    pthread_mutex_unlock(&w->lock);
    return alone;
}

static inline void ranks_fail(RankWorld *w)
{
    pthread_mutex_lock(&w->lock);
    w->failed = 1;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

/* y += x; of floats, in f32. Tensors of other types are not added up here. */
static inline int ranks_add(moec_type type, void *y, const void *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (type == MOEC_F32)
            ((float *)y)[i] += ((const float *)x)[i];
        else
            ((int32_t *)y)[i] += ((const int32_t *)x)[i];
    return type != MOEC_F32 && type != MOEC_I32;
}

/* Part `from` of x's runs, each of `whole` bytes, goes to y, which is one part, or the other way round. */
static inline void ranks_move_part(char *whole_at, char *part_at, int64_t runs, int64_t part_bytes, int64_t parts,
                                   int64_t part, int to_whole)
{
    for (int64_t i = 0; i < runs; i++) {
        char *whole = whole_at + (i * parts + part) * part_bytes, *one = part_at + i * part_bytes;
        memcpy(to_whole ? whole : one, to_whole ? one : whole, (size_t)part_bytes);
    }
}

static inline int64_t ranks_sum(const int32_t *n, int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += n[i];
    return sum;
}

/* The operands are x, sent, received, y. Behind the rows that come are zeros; with an extent what is no number, so that nobody reads
 * it unnoticed. */
static inline int ranks_all_to_all(const RankGroup *g, const Task *t, int64_t members, int64_t me, const StepBuffer *x,
                                   const StepBuffer *y)
{
    const int64_t row = x->bytes / x->shape[0];
    const int32_t *received = g->buffers[me][2];
    char *to = g->buffers[me][3];
    int64_t at = 0;
    for (int64_t p = 0; p < members; p++) {
        const int32_t *sent = g->buffers[p][1];
        if (sent[me] != received[p] || at + received[p] > y->shape[0] || ranks_sum(sent, members) > x->shape[0])
            return 1;
        memcpy(to + at * row, (const char *)g->buffers[p][0] + ranks_sum(sent, me) * row, (size_t)(received[p] * row));
        at += received[p];
    }
    memset(to + at * row, t->dims.len ? 0xff : 0, (size_t)(y->bytes - at * row));
    return 0;
}

static inline int64_t ranks_runs(const StepBuffer *b, GroupAxis a) { return b->placed[a] > PLACED_WHOLE ? step_runs(b, b->placed[a]) : 1; }

/* What this member gets of all members' operands. */
static inline int ranks_combine(const RankGroup *g, const Program *p, const Task *t, int64_t members, int64_t me)
{
    const StepBuffer *x = &p->buffers.at[t->operands.at[0].buffer],
                     *y = &p->buffers.at[t->operands.at[t->operands.len - 1].buffer];
    const int64_t runs = ranks_runs(x, t->axis), scattered = ranks_runs(y, t->axis);
    char *to = g->buffers[me][t->operands.len - 1];
    int bad = 0;
    if (t->kind == TASK_alltoallv)
        return ranks_all_to_all(g, t, members, me, x, y);
    if (t->kind == TASK_copy || t->kind == TASK_allreduce)
        memcpy(to, g->buffers[t->kind == TASK_copy ? me : 0][0], (size_t)x->bytes);
    for (int64_t m = 1; t->kind == TASK_allreduce && m < members; m++)
        bad |= ranks_add(x->type, to, g->buffers[m][0], step_elements(x));
    for (int64_t m = 0; t->kind == TASK_allgather && m < members; m++)
        ranks_move_part(to, g->buffers[m][0], runs, x->bytes / runs, members, m, 1);
    if (t->kind == TASK_split)
        ranks_move_part((char *)(uintptr_t)g->buffers[me][0], to, scattered, y->bytes / scattered, members, me, 0);
    for (int64_t m = 0; t->kind == TASK_reducescatter && m < members; m++)
        for (int64_t r = 0, each = y->bytes / scattered; r < scattered; r++) {
            const char *from = (const char *)g->buffers[m][0] + (r * members + me) * each;
            if (m == 0)
                memcpy(to + r * each, from, (size_t)each);
            else
                bad |= ranks_add(x->type, to + r * each, from, each / step_type_bytes(x->type));
        }
    return bad || t->kind == TASK_send || t->kind == TASK_recv;
}

static inline int ranks_exchange(void *self, const Program *p, const Task *t, void *const *buffers)
{
    const RankThread *r = self;
    const Ranks *ranks = &r->world->ranks;
    const int64_t members = ranks->members[t->axis], me = ranks_place(ranks, t->axis, r->number);
    RankGroup *g = &r->world->groups[t->axis][ranks_group(ranks, t->axis, r->number)];
    g->task[me] = t, g->buffers[me] = buffers;
    if (ranks_meet(r->world, g, members))
        return 1;
    int bad = 0;
    for (int64_t m = 0; m < members; m++)
        bad |= g->task[m] != t;
    bad = bad || ranks_combine(g, p, t, members, me);
    if (bad)
        ranks_fail(r->world);
    return ranks_meet(r->world, g, members) || bad;
}

static inline void *ranks_thread(void *self)
{
    RankThread *r = self;
    r->failed = run_program(r->run);
    if (r->failed)
        ranks_fail(r->world);
    return NULL;
}

/* Runs the programs of all ranks; 1: one has failed. */
static inline int ranks_go(RankThread *threads, int64_t n)
{
    pthread_t handles[MAX_RANKS];
    int failed = 0;
    for (int64_t i = 0; i < n; i++)
        pthread_create(&handles[i], NULL, ranks_thread, &threads[i]);
    for (int64_t i = 0; i < n; i++) {
        pthread_join(handles[i], NULL);
        failed |= threads[i].failed;
    }
    return failed;
}

#endif
