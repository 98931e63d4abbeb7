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

typedef struct GradientSum {
    const ModelWeight *weight;
    double squares;
    int64_t wrong, first; /* elements that are not finite */
} GradientSum;

static GradientSum sum_gradient(const Trainer *t, const ModelWeight *w)
{
    GradientSum s = {.weight = w, .first = -1};
    Arena *a = t->session.arena;
    const float *sum = run_at(t->step, arena_printf(a, "gradient.%s.sum", w->name)), /* of several ranks */
        *g = sum ? sum : run_at(t->step, arena_printf(a, "gradient.%s", w->name));
    for (int64_t i = 0; g && i < model_weight_elements(w); i++) {
        s.squares += (double)g[i] * (double)g[i];
        s.wrong += !isfinite(g[i]);
        s.first = s.wrong == 1 && s.first < 0 ? i : s.first;
    }
    return s;
}

/* The gradient that the backward made first of those that are not finite, where there is one: gradients of weights behind it
 * come out of it. Else the largest one. */
static GradientSum blamed_gradient(const Trainer *t)
{
    GradientSum worst = {0};
    for (uint32_t i = t->session.weights.len; i-- > 0 && !worst.wrong;) {
        const ModelWeight *w = &t->session.weights.at[i];
        if (!model_weight_has_gradient(w))
            continue;
        const GradientSum s = sum_gradient(t, w);
        if (s.wrong || !worst.weight || s.squares > worst.squares)
            worst = s;
    }
    return worst;
}

static const char *tensor_text(const Trainer *t)
{
    Arena *a = t->session.arena;
    const GradientSum s = blamed_gradient(t);
    const char *name = arena_printf(a, "%s (%s)", s.weight->name, model_tensor_name(a, s.weight, 0));
    if (!s.wrong)
        return arena_printf(a, "%.0f %% of its square is the gradient of %s",
                            100 * s.squares / ((double)*t->norm_at * (double)*t->norm_at), name);
    return arena_printf(
        a, "the gradient of %s has %lld of %lld elements that are not finite, the first is number %lld", name,
        (long long)s.wrong, (long long)model_weight_elements(s.weight), (long long)s.first);
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
    complain_once("step %lld (%s): %s; %s%s", (long long)t->state.steps + 1, batch_text(t), what_text(t),
                  tensor_text(t), skip ? ": the weights keep their values" : "");
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
