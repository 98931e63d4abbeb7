/* Causal attention of one sequence, forward, and forward and backward. */
#include "bench/cases.h"
#include "bench/ours.h"
#include "bench/peers.h"
#include "bench/sum.h"

enum { SAMPLED = 32 };

typedef struct AttentionData {
    int64_t S, N, D, W;                              /* W: earlier positions that count, S without a window */
    uint16_t *q, *k, *v, *d_o, *o, *d_q, *d_k, *d_v; /* [S, N, D] */
    float *m, *z;                                    /* [N, S] */
} AttentionData;

static double dot(const AttentionData *d, const uint16_t *a, int64_t i, const uint16_t *b, int64_t j,
                  int64_t n)
{
    double sum = 0;
    for (int64_t e = 0; e < d->D; e++)
        sum += (double)bf16_to_f32(a[(i * d->N + n) * d->D + e]) *
               (double)bf16_to_f32(b[(j * d->N + n) * d->D + e]);
    return sum;
}

static double at(const AttentionData *d, const uint16_t *a, int64_t i, int64_t n, int64_t e)
{
    return (double)bf16_to_f32(a[(i * d->N + n) * d->D + e]);
}

static int64_t first_of(const AttentionData *d, int64_t i) { return i >= d->W ? i - d->W + 1 : 0; }

/* Weights of row i of head n; the largest score goes to *m, the sum of the unnormalised ones to *z. */
static void weights(const AttentionData *d, int64_t i, int64_t n, double *w, double *m, double *z)
{
    *m = -INFINITY;
    *z = 0;
    for (int64_t j = first_of(d, i); j <= i; j++)
        *m = fmax(*m, w[j] = dot(d, d->q, i, d->k, j, n) / sqrt((double)d->D));
    for (int64_t j = first_of(d, i); j <= i; j++)
        *z += w[j] = exp(w[j] - *m);
    for (int64_t j = first_of(d, i); j <= i; j++)
        w[j] /= *z;
}

static int compare(const Case *c, const char *what, int64_t i, const BenchSum *want, double got)
{
    return sum_close(want, got) ? 0
                                : case_failed(c, "WRONG: %s at position %lld is %.6g, not %.6g", what,
                                              (long long)i, got, want->value);
}

/* Of the gradient of a score: weight times (gradient of the weight - their mean). */
static double d_score(const AttentionData *d, int64_t i, int64_t j, int64_t n, double weight, double mean)
{
    return weight * (dot(d, d->d_o, i, d->v, j, n) - mean) / sqrt((double)d->D);
}

static int check_row(Case *c, const AttentionData *d, int64_t i, int64_t n, int64_t e, double *w)
{
    double m, z, mean = 0;
    BenchSum o = {0}, d_q = {0};
    weights(d, i, n, w, &m, &z);
    for (int64_t j = first_of(d, i); j <= i; j++)
        sum_add(&o, w[j] * at(d, d->v, j, n, e));
    int bad = compare(c, "o", i, &o, at(d, d->o, i, n, e));
    if (!d->d_q || bad)
        return bad;
    for (int64_t j = first_of(d, i); j <= i; j++)
        mean += w[j] * dot(d, d->d_o, i, d->v, j, n);
    for (int64_t j = first_of(d, i); j <= i; j++)
        sum_add(&d_q, d_score(d, i, j, n, w[j], mean) * at(d, d->k, j, n, e));
    return compare(c, "d_q", i, &d_q, at(d, d->d_q, i, n, e));
}

/* Gradients of k and v at position j, by the m, z and o that the forward saved. */
static int check_column(Case *c, const AttentionData *d, int64_t j, int64_t n, int64_t e)
{
    BenchSum d_k = {0}, d_v = {0};
    for (int64_t i = j; i < d->S && i < j + d->W; i++) {
        double score = dot(d, d->q, i, d->k, j, n) / sqrt((double)d->D);
        double w = exp(score - (double)d->m[n * d->S + i]) / (double)d->z[n * d->S + i];
        double mean = dot(d, d->d_o, i, d->o, i, n);
        sum_add(&d_k, d_score(d, i, j, n, w, mean) * at(d, d->q, i, n, e));
        sum_add(&d_v, w * at(d, d->d_o, i, n, e));
    }
    return compare(c, "d_k", j, &d_k, at(d, d->d_k, j, n, e)) ||
           compare(c, "d_v", j, &d_v, at(d, d->d_v, j, n, e));
}

static int check(Case *c, const AttentionData *d)
{
    double *w = memory_get(&c->memory, (size_t)d->S * sizeof *w);
    for (int k = 0; k < SAMPLED; k++) {
        int64_t i = memory_random_below(&c->memory, d->S), n = memory_random_below(&c->memory, d->N);
        int64_t e = memory_random_below(&c->memory, d->D);
        if (check_row(c, d, i, n, e, w) || (d->d_q && check_column(c, d, i, n, e)))
            return 1;
    }
    return 0;
}

static BenchCall *bind_forward(Case *c, AttentionData *d, bool window, bool step)
{
    const BenchArg args[] = {
        IN("q", d->q), IN("k", d->k), IN("v", d->v), OUT("o", NULL), OUT("m", NULL), OUT("z", NULL), {0}};
    BenchCall *call = ours_bind(c, "attention",
                                window ? step ? "window_fwd" : "window"
                                : step ? "full_fwd"
                                       : "full",
                                args);
    if (call)
        d->o = ours_arg(call, "o");
    return call;
}

static BenchCall *bind_backward(Case *c, AttentionData *d, bool window, const BenchCall *forward)
{
    d->m = ours_arg(forward, "m");
    d->z = ours_arg(forward, "z");
    const BenchArg args[] = {IN("q", d->q),
                             IN("k", d->k),
                             IN("v", d->v),
                             IN("m", d->m),
                             IN("z", d->z),
                             IN("o", d->o),
                             IN("d_o", d->d_o),
                             OUT("d_q", NULL),
                             OUT("d_k", NULL),
                             OUT("d_v", NULL),
                             {0}};
    BenchCall *call = ours_bind(c, "attention", window ? "window_bwd" : "full_bwd", args);
    if (!call)
        return NULL;
    d->d_q = ours_arg(call, "d_q");
    d->d_k = ours_arg(call, "d_k");
    d->d_v = ours_arg(call, "d_v");
    return call;
}

static void count_work(Case *c, const AttentionData *d, bool step)
{
    double pairs = (double)(d->W * (d->W + 1) / 2 + (d->S - d->W) * d->W), products = step ? 7 : 2;
    c->flops = products * 2 * pairs * (double)(d->D * d->N);
    c->compute = LIMIT_BF16;
    c->bytes = (step ? 11.0 : 4.0) * 2 * (double)(d->S * d->N * d->D);
    c->traffic = LIMIT_COPY;
}

static void fill(Case *c, AttentionData *d)
{
    int64_t n = d->S * d->N * d->D;
    d->q = random_bf16(&c->memory, n, 1);
    d->k = random_bf16(&c->memory, n, 1);
    d->v = random_bf16(&c->memory, n, 1);
    d->d_o = random_bf16(&c->memory, n, 1);
}

/* The work space grows with the positions, not with their square. */
static int check_workspace(Case *c, const BenchCall *call)
{
    double half = ours_workspace(call, 'S', c->shape->T / 2), all = ours_workspace(call, 'S', c->shape->T);
    return all < 2.5 * half ? 0 : case_failed(c, "work space grows from %.0f to %.0f bytes", half, all);
}

/* The forward, and after it the backward if it is to be a step; proven. NULL: it complained. */
static BenchCall *bind(Case *c, AttentionData d, bool step)
{
    bool window = d.W < d.S;
    BenchCall *call = bind_forward(c, &d, window, step), *then = NULL;
    if (!call || ours_prove(call) || check_workspace(c, call))
        return NULL;
    if (step) {
        then = bind_backward(c, &d, window, call);
        if (!then || ours_prove(then) || check_workspace(c, then))
            return NULL;
        ours_then(call, then);
    }
    return check(c, &d) ? NULL : call;
}

int make_attention(Case *c)
{
    const BenchShape *s = c->shape;
    bool step = c->kind->variant & ATTENTION_STEP, window = c->kind->variant & ATTENTION_WINDOW;
    AttentionData d = {.S = s->T, .N = s->K, .D = s->H, .W = window ? s->F : s->T};
    SIZE(c->sizes, 'B') = 1;
    SIZE(c->sizes, 'S') = d.S;
    SIZE(c->sizes, 'N') = d.N;
    SIZE(c->sizes, 'D') = d.D;
    SIZE(c->sizes, 'W') = d.W;
    fill(c, &d);
    AttentionData full = d;
    full.W = d.S;
    count_work(c, &d, step);
    BenchCall *call = bind(c, d, step), *all = window ? bind(c, full, step) : NULL;
    if (!call || (window && !all))
        return 1;
    case_runner(c, OURS, c->threads, "ours", "", ours_time, call);
    if (window)
        case_runner(c, PEER, c->threads, "ours", "all positions", ours_time, all);
    else
        peers_torch(c, step ? "attention_step" : "attention", NULL);
    return 0;
}
