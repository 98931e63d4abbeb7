#include "trainer/guard.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "trainer/complain.h"

enum {
    GUARD_AFTER = 20,   /* updates that are needed to know what is usual */
    GUARD_WINDOW = 50,  /* updates that count most in the mean */
    GUARD_PATIENCE = 10 /* steps in a row that may be skipped */
};

float guard_limit(const Trainer *t)
{
    const double spike = t->config->spike, limit = spike * (double)t->state.norm_mean;
    return spike > 0 && t->state.updates >= GUARD_AFTER && limit < FLT_MAX ? (float)limit : FLT_MAX;
}

/* ---- which tensor ---- */

/* Of the elements of a weight's gradient that this rank has. */
typedef struct GradientSum {
    double squares;
    int64_t wrong,
        first; /* elements that are not finite; the first of them in the whole weight, INT64_MAX: there is none */
} GradientSum;

/* The gradient of all ranks, where the update would read it. */
static const float *gradient_of(const Trainer *t, const ModelWeight *w, const WeightShard *s)
{
    Arena *a = t->session.arena;
    if (s->shard != POOL_NONE)
        return (float *)run_at(t->step,
                               arena_printf(a, SHARD_NAME, pool_table[s->shard].name, SHARD_GRADIENT)) +
               s->at;
    const float *sum = run_at(t->step, arena_printf(a, "gradient.%s.sum", w->name));
    return sum ? sum : run_at(t->step, arena_printf(a, "gradient.%s", w->name));
}

/* Where all ranks have the same, the first one counts it. */
static GradientSum sum_gradient(const Trainer *t, uint32_t i)
{
    const Session *s = &t->session;
    const ModelWeight *w = &s->weights.at[i];
    const WeightPool pool = s->shards.weights[i].pool;
    const WeightShard shard = model_weight_shard(&s->shards, &s->ranks, s->rank, w, i);
    const int counts = pool != POOL_NONE && !(pool == POOL_VECTORS && s->rank);
    const float *g = counts ? gradient_of(t, w, &shard) : NULL;
    GradientSum sum = {.first = INT64_MAX};
    for (int64_t j = shard.begin; g && j < shard.end; j++) {
        const double x = g[j - shard.begin];
        sum.squares += x * x;
        if (!isfinite(x) && !sum.wrong++)
            sum.first = weight_part_at(&shard.part, j);
    }
    return sum;
}

static GradientSum sum_of_ranks(const GradientSum *all, int64_t ranks, uint32_t weights, uint32_t i)
{
    GradientSum sum = {.first = INT64_MAX};
    for (int64_t r = 0; r < ranks; r++) {
        const GradientSum *one = &all[r * weights + i];
        sum.squares += one->squares, sum.wrong += one->wrong;
        sum.first = one->first < sum.first ? one->first : sum.first;
    }
    return sum;
}

/* The gradient that the backward made first of those that are not finite, where there is one: gradients of weights behind it
 * come out of it. Else the largest one. All ranks find it together. */
static int find_blamed(const Trainer *t, uint32_t *weight, GradientSum *worst)
{
    const uint32_t n = t->session.weights.len;
    const int64_t ranks = t->session.ranks.number;
    GradientSum *own = arena_array(t->session.arena, GradientSum, n),
                *all = arena_array(t->session.arena, GradientSum, ranks * n);
    for (uint32_t i = 0; i < n; i++)
        own[i] = sum_gradient(t, i);
    if (comm_gather(t->comm, "the gradients", own, n * (int64_t)sizeof *own, all))
        return complain("%s", comm_error(t->comm));
    *worst = (GradientSum){.squares = -1};
    for (uint32_t i = n; i-- > 0 && !worst->wrong;) {
        const GradientSum s = sum_of_ranks(all, ranks, n, i);
        if (s.wrong || s.squares > worst->squares)
            *weight = i, *worst = s;
    }
    return 0;
}

static const char *tensor_text(const Trainer *t, uint32_t weight, const GradientSum *s)
{
    Arena *a = t->session.arena;
    const ModelWeight *w = &t->session.weights.at[weight];
    const char *name = arena_printf(a, "%s (%s)", w->name, model_tensor_name(a, w, 0));
    if (!s->wrong && !isfinite(*t->norm_at)) /* the sum of squares was too large, no element is */
        return arena_printf(a, "the largest is the gradient of %s", name);
    if (!s->wrong)
        return arena_printf(a, "%.0f %% of its square is the gradient of %s",
                            100 * s->squares / ((double)*t->norm_at * (double)*t->norm_at), name);
    return arena_printf(
        a, "the gradient of %s has %lld of %lld elements that are not finite, the first is number %lld", name,
        (long long)s->wrong, (long long)model_weight_elements(w), (long long)s->first);
}

/* ---- which batch ---- */

/* Sequences of the first micro-batch whose loss is not finite, else of all. */
static const char *batch_text(const Trainer *t)
{
    const int64_t first = t->state.sequences;
    for (int64_t m = 0; m < t->config->micro_batches; m++)
        if (!isfinite(*t->losses[m]))
            return arena_printf(t->session.arena, "sequences %lld to %lld, of micro-batch %lld",
                                (long long)(first + (m * t->copies + t->copy) * t->sequences),
                                (long long)(first + (m * t->copies + t->copy + 1) * t->sequences - 1),
                                (long long)m);
    return arena_printf(t->session.arena, "sequences %lld to %lld", (long long)first,
                        (long long)(first + t->config->batch - 1));
}

static const char *what_text(const Trainer *t)
{
    Arena *a = t->session.arena;
    if (isfinite(t->norm) && isfinite(t->loss))
        return arena_printf(a, "the norm of the gradients is %g, %.1f times the mean of the steps before",
                            t->norm, t->norm / (double)t->state.norm_mean);
    return arena_printf(a, "the loss is %g and the norm of the gradients %g", fabs(t->loss),
                        fabs(t->norm)); /* fabs: a NaN without its sign */
}

/* ---- what follows ---- */

static int refuse_step(Trainer *t)
{
    const int skip = !strcmp(t->config->on_spike, "skip") && run_was_gated(t->step),
              lost = skip && t->state.skipped + 1 >= GUARD_PATIENCE;
    uint32_t weight = 0;
    GradientSum blamed = {0};
    if (find_blamed(t, &weight, &blamed))
        return 1;
    complain_once("step %lld (%s): %s; %s%s", (long long)t->state.steps + 1, batch_text(t), what_text(t),
                  tensor_text(t, weight, &blamed), skip ? ": the weights keep their values" : "");
    if (lost)
        return complain_once("%d steps in a row had to be skipped: training has diverged", GUARD_PATIENCE);
    if (!skip)
        return complain_once(
            "training has diverged; try a smaller --lr or a longer --warmup, or --on-spike skip");
    t->state.skipped++;
    return 0;
}

static void count_update(TrainState *s, double norm)
{
    const double weight = s->updates < GUARD_WINDOW ? 1.0 / (double)(s->updates + 1) : 1.0 / GUARD_WINDOW;
    s->norm_mean += (float)(weight * (norm - (double)s->norm_mean));
    s->updates++;
    s->skipped = 0;
}

int guard_step(Trainer *t)
{
    if (run_was_gated(t->step) || !isfinite(t->loss)) {
        if (refuse_step(t))
            return 1;
    } else {
        count_update(&t->state, t->norm);
    }
    t->state.steps++;
    t->state.sequences += t->config->batch;
    return 0;
}
