/* What moves memory and computes little: permute, unpermute, norm, rotary, AdamW. */
#include "bench/cases.h"
#include "bench/ours.h"
#include "bench/peers.h"
#include "bench/sum.h"

#include <stdlib.h>

enum { SAMPLED = 1000, POSITIONS = 2048, PAIRS = 64 /* half of a head */ };

static const float rate = 1e-3f, b1 = 0.9f, b2 = 0.95f, eps = 1e-8f, decay = 0.1f, k1 = 10, k2 = 20;

/* A result rounded to bf16, whose f32 may be off by a few ulp. */
static int compare(const Case *c, int64_t i, double want, uint16_t got)
{
    double is = (double)bf16_to_f32(got);
    return fabs(is - want) <= 0x1p-8 * fabs(want) + 1e-6
               ? 0
               : case_failed(c, "WRONG: element %lld is %.6g, not %.6g", (long long)i, is, want);
}

static double at(const uint16_t *x, int64_t i) { return (double)bf16_to_f32(x[i]); }

/* A kernel whose result is computed on both numbers of threads; traffic: bytes that it reads and writes. */
static BenchCall *prove(Case *c, const char *kernel, const BenchArg *args, double traffic)
{
    c->bytes = traffic;
    c->traffic = LIMIT_COPY;
    BenchCall *call = ours_bind(c, "rows", kernel, args);
    if (!call || ours_prove(call))
        return NULL;
    case_runner(c, OURS, c->threads, "ours", "", ours_time, call);
    return call;
}

static int make_permute(Case *c)
{
    int64_t H = c->shape->H, K = c->shape->K;
    moe_route *route = route_for(c);
    uint16_t *x = random_bf16(&c->memory, c->shape->T * H, 1);
    const BenchArg args[] = {IN("x", x), IN("rt", route), OUT("y", NULL), {0}};
    BenchCall *call = prove(c, "permute", args, 4.0 * (double)(route->rows * H));
    const uint16_t *y = call ? ours_arg(call, "y") : NULL;
    int bad = !call;
    for (int n = 0; n < SAMPLED && !bad; n++) {
        int64_t i = memory_random_below(&c->memory, route->rows * H);
        bad = compare(c, i, at(x, route->slot_of[i / H] / K * H + i % H), y[i]);
    }
    return bad;
}

static int make_unpermute(Case *c)
{
    int64_t H = c->shape->H, K = c->shape->K, T = c->shape->T;
    moe_route *route = route_for(c);
    uint16_t *x = random_bf16(&c->memory, route->rows * H, 1);
    float *p = random_f32(&c->memory, T * K, 1);
    const BenchArg args[] = {IN("x", x), IN("rt", route), IN("p", p), OUT("y", NULL), {0}};
    BenchCall *call = prove(c, "unpermute", args, 2.0 * (double)(route->rows * H + T * H));
    const uint16_t *y = call ? ours_arg(call, "y") : NULL;
    int bad = !call;
    for (int n = 0; n < SAMPLED && !bad; n++) {
        int64_t i = memory_random_below(&c->memory, T * H), t = i / H;
        double want = 0;
        for (int64_t k = 0; k < K; k++)
            want += (double)p[t * K + k] * at(x, route->row_of[t * K + k] * H + i % H);
        bad = compare(c, i, want, y[i]);
    }
    if (!bad)
        peers_torch(c, "unpermute", route);
    return bad;
}

static int make_rmsnorm(Case *c)
{
    int64_t H = c->shape->H, T = c->shape->T;
    uint16_t *x = random_bf16(&c->memory, T * H, 1);
    float *gain = random_f32(&c->memory, H, 1);
    const BenchArg args[] = {IN("x", x), IN("gain", gain), OUT("y", NULL), {0}};
    BenchCall *call = prove(c, "rmsnorm", args, 4.0 * (double)(T * H));
    const uint16_t *y = call ? ours_arg(call, "y") : NULL;
    int bad = !call;
    for (int n = 0; n < SAMPLED && !bad; n++) {
        int64_t i = memory_random_below(&c->memory, T * H), row = i / H * H;
        double squares = 0;
        for (int64_t h = 0; h < H; h++)
            squares += at(x, row + h) * at(x, row + h);
        bad = compare(c, i, at(x, i) / sqrt(squares / (double)H + 1e-5) * (double)gain[i % H], y[i]);
    }
    return bad;
}

static int make_rmsnorm_bwd(Case *c)
{
    int64_t H = c->shape->H, T = c->shape->T;
    BenchMemory *m = &c->memory;
    uint16_t *x = random_bf16(m, T * H, 1), *d_y = random_bf16(m, T * H, 1);
    float *gain = random_f32(m, H, 1), *s = random_f32(m, T, 1), *d_gain = random_f32(m, H, 1);
    const BenchArg args[] = {IN("x", x),       IN("gain", gain),        IN("s", s), IN("d_y", d_y),
                             OUT("d_x", NULL), INOUT("d_gain", d_gain), {0}};
    BenchCall *call = prove(c, "rmsnorm_bwd", args, 6.0 * (double)(T * H));
    const uint16_t *d_x = call ? ours_arg(call, "d_x") : NULL;
    int bad = !call;
    for (int n = 0; n < SAMPLED && !bad; n++) {
        int64_t i = memory_random_below(m, T * H), row = i / H * H;
        double r = (double)s[i / H], dot = 0;
        for (int64_t h = 0; h < H; h++)
            dot += at(d_y, row + h) * (double)gain[h] * at(x, row + h);
        double a = at(d_y, i) * (double)gain[i % H] * r, b = dot * r * r * r / (double)H * at(x, i);
        bad = fabs(a - b) < 1e-3 ? 0
                                 : compare(c, i, a - b, d_x[i]); /* what cancels out has no relative error */
    }
    return bad;
}

/* T tokens in sequences, H in heads. */
static int make_rotary(Case *c)
{
    int64_t n = c->shape->T * c->shape->H;
    SIZE(c->sizes, 'S') = c->shape->T < POSITIONS ? c->shape->T : POSITIONS;
    SIZE(c->sizes, 'B') = c->shape->T / SIZE(c->sizes, 'S');
    SIZE(c->sizes, 'D') = c->shape->H < 2 * PAIRS ? c->shape->H / 2 : PAIRS;
    SIZE(c->sizes, 'N') = c->shape->H / SIZE(c->sizes, 'D') / 2;
    int64_t S = SIZE(c->sizes, 'S'), N = SIZE(c->sizes, 'N'), D = SIZE(c->sizes, 'D');
    uint16_t *x = random_bf16(&c->memory, n, 1);
    float *cosine = random_f32(&c->memory, S * D, 1), *sine = random_f32(&c->memory, S * D, 1);
    const BenchArg args[] = {IN("x", x), IN("c", cosine), IN("s", sine), OUT("y", NULL), {0}};
    BenchCall *call = prove(c, "rotary", args, 4.0 * (double)n);
    const uint16_t *y = call ? ours_arg(call, "y") : NULL;
    int bad = !call;
    for (int k = 0; k < SAMPLED && !bad; k++) {
        int64_t i = memory_random_below(&c->memory, n), d = i % D, second = i / D % 2,
                table = i / (2 * D * N) % S * D + d;
        double other = second ? at(x, i - D) : -at(x, i + D);
        double a = at(x, i) * (double)cosine[table], b = other * (double)sine[table];
        bad = fabs(a + b) < 1e-3 ? 0 : compare(c, i, a + b, y[i]); /* likewise */
    }
    return bad;
}

/* The state in f32, a gradient, and weights in bf16. */
static int make_adamw(Case *c, bool packed)
{
    int64_t n = c->shape->E * c->shape->H * c->shape->F;
    SIZE(c->sizes, 'P') = n;
    BenchMemory *m = &c->memory;
    float *p = random_f32(m, n, 1), *mean = random_f32(m, n, 0.1f), *square = random_f32(m, n, 1),
          *g = random_f32(m, n, 1);
    for (int64_t i = 0; i < n; i++)
        square[i] = fabsf(square[i]);
    int64_t sampled[SAMPLED];
    double want[SAMPLED];
    for (int k = 0; k < SAMPLED; k++) {
        int64_t i = sampled[k] = memory_random_below(&c->memory, n);
        double m1 = (double)b1 * (double)mean[i] + (1 - (double)b1) * (double)g[i];
        double v1 = (double)b2 * (double)square[i] + (1 - (double)b2) * (double)g[i] * (double)g[i];
        double step = m1 * (double)k1 / (sqrt(v1 * (double)k2) + (double)eps) + (double)decay * (double)p[i];
        want[k] = (double)p[i] - (double)rate * step;
    }
    const BenchArg args[] = {INOUT("p", p),
                             INOUT("m", mean),
                             INOUT("v", square),
                             IN("g", g),
                             OUT("w", NULL),
                             IN("rate", &rate),
                             IN("b1", &b1),
                             IN("b2", &b2),
                             IN("eps", &eps),
                             IN("decay", &decay),
                             IN("k1", &k1),
                             IN("k2", &k2),
                             {0}};
    BenchCall *call =
        prove(c, packed ? "adamw_packed" : "adamw", args, (28.0 + (packed ? 4 : 2)) * (double)n);
    c->traffic = LIMIT_UPDATE;
    int bad = !call;
    for (int k = 0; k < SAMPLED && !bad; k++)
        bad = compare(c, sampled[k], want[k], f32_to_bf16(p[sampled[k]]));
    return bad;
}

int make_rows(Case *c)
{
    switch (c->kind->variant) {
    case ROWS_PERMUTE: return make_permute(c);
    case ROWS_UNPERMUTE: return make_unpermute(c);
    case ROWS_RMSNORM: return make_rmsnorm(c);
    case ROWS_RMSNORM_BWD: return make_rmsnorm_bwd(c);
    case ROWS_ROTARY: return make_rotary(c);
    case ROWS_ADAMW: return make_adamw(c, false);
    case ROWS_ADAMW_PACKED: return make_adamw(c, true);
    default: abort();
    }
}
