/* The expert block: permute, gate and up, SwiGLU, down, weighted unpermute; and its backward, which adds the gradients of
 * the weights into f32. */
#include "bench/cases.h"
#include "bench/ours.h"
#include "bench/peers.h"
#include "bench/sum.h"

#include <string.h>

enum { TOKENS_SAMPLED = 4, COLUMNS_SAMPLED = 16, WEIGHTS_SAMPLED = 4 };

typedef struct BlockData {
    int64_t T, K, E, H, F;
    moe_route *route;
    uint16_t *x, *y, *d_y, *d_x; /* [T, H] */
    uint16_t *wg, *wu, *wd;      /* [E, H, F], [E, F, H] */
    float *p, *d_p;              /* [T, K] */
    float *d_wg, *d_wu, *d_wd;
} BlockData;

static void fill(Case *c, BlockData *d, bool step)
{
    BenchMemory *m = &c->memory;
    d->x = random_bf16(m, d->T * d->H, 1);
    d->p = random_f32(m, d->T * d->K, 1);
    d->wg = random_bf16(m, d->E * d->H * d->F, 1.7f / sqrtf((float)d->H));
    d->wu = random_bf16(m, d->E * d->H * d->F, 1.7f / sqrtf((float)d->H));
    d->wd = random_bf16(m, d->E * d->F * d->H, 1.7f / sqrtf((float)d->F));
    if (step)
        d->d_y = random_bf16(m, d->T * d->H, 1);
}

/* ---- reference ---- */

/* One row: a token at an expert. */
typedef struct BlockRow {
    double *g, *u, *s; /* [F]; s: d_y times wd transposed */
} BlockRow;

static BlockRow row_new(BenchMemory *m, int64_t F)
{
    size_t bytes = (size_t)F * sizeof(double);
    return (BlockRow){memory_get(m, bytes), memory_get(m, bytes), memory_get(m, bytes)};
}

static void row_forward(const BlockData *d, int64_t t, int64_t e, BlockRow *r)
{
    memset(r->g, 0, (size_t)d->F * sizeof *r->g);
    memset(r->u, 0, (size_t)d->F * sizeof *r->u);
    for (int64_t h = 0; h < d->H; h++) {
        const uint16_t *wg = d->wg + (e * d->H + h) * d->F, *wu = d->wu + (e * d->H + h) * d->F;
        double x = (double)bf16_to_f32(d->x[t * d->H + h]);
        for (int64_t f = 0; f < d->F; f++) {
            r->g[f] += x * (double)bf16_to_f32(wg[f]);
            r->u[f] += x * (double)bf16_to_f32(wu[f]);
        }
    }
}

static void row_backward(const BlockData *d, int64_t t, int64_t e, BlockRow *r)
{
    for (int64_t f = 0; f < d->F; f++) {
        const uint16_t *wd = d->wd + (e * d->F + f) * d->H;
        r->s[f] = 0;
        for (int64_t h = 0; h < d->H; h++)
            r->s[f] += (double)bf16_to_f32(d->d_y[t * d->H + h]) * (double)bf16_to_f32(wd[h]);
    }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double activation(const BlockRow *r, int64_t f) { return r->g[f] * sigmoid(r->g[f]) * r->u[f]; }
/* Gradients of u and g, for a row of weight p. */
static double d_u(const BlockRow *r, int64_t f, double p) { return p * r->s[f] * r->g[f] * sigmoid(r->g[f]); }
static double d_g(const BlockRow *r, int64_t f, double p)
{
    double s = sigmoid(r->g[f]);
    return p * r->s[f] * r->u[f] * s * (1 + r->g[f] * (1 - s));
}

static int64_t expert_of(const BlockData *d, int64_t row)
{
    int64_t e = 0;
    while (d->route->start[e + 1] <= row)
        e++;
    return e;
}

static int compare(const Case *c, const char *what, int64_t i, const BenchSum *want, double got)
{
    return sum_close(want, got)
               ? 0
               : case_failed(c, "WRONG: %s[%lld] is %.6g, not %.6g", what, (long long)i, got, want->value);
}

/* A token's rows. */
typedef struct BlockToken {
    int64_t t, *expert; /* [K] */
    BlockRow *rows;     /* [K] */
} BlockToken;

static BlockToken token_new(BenchMemory *m, const BlockData *d, int64_t t, bool step)
{
    BlockToken k = {t, memory_get(m, (size_t)d->K * sizeof *k.expert),
                    memory_get(m, (size_t)d->K * sizeof *k.rows)};
    for (int64_t i = 0; i < d->K; i++) {
        k.expert[i] = expert_of(d, d->route->row_of[t * d->K + i]);
        k.rows[i] = row_new(m, d->F);
        row_forward(d, t, k.expert[i], &k.rows[i]);
        if (step)
            row_backward(d, t, k.expert[i], &k.rows[i]);
    }
    return k;
}

/* Column h of y, and of d_x after a backward. */
static int check_column(const Case *c, const BlockData *d, const BlockToken *k, int64_t h, bool step)
{
    BenchSum y = {0}, d_x = {0};
    for (int64_t i = 0; i < d->K; i++)
        for (int64_t f = 0; f < d->F; f++) {
            const BlockRow *r = &k->rows[i];
            int64_t at = (k->expert[i] * d->H + h) * d->F + f,
                    transposed = (k->expert[i] * d->F + f) * d->H + h;
            double p = (double)d->p[k->t * d->K + i];
            sum_add(&y, p * activation(r, f) * (double)bf16_to_f32(d->wd[transposed]));
            if (step)
                sum_add(&d_x, d_u(r, f, p) * (double)bf16_to_f32(d->wu[at]) +
                                  d_g(r, f, p) * (double)bf16_to_f32(d->wg[at]));
        }
    int64_t at = k->t * d->H + h;
    return compare(c, "y", at, &y, (double)bf16_to_f32(d->y[at])) ||
           (step && compare(c, "d_x", at, &d_x, (double)bf16_to_f32(d->d_x[at])));
}

static int check_token(Case *c, const BlockData *d, bool step)
{
    BenchMemory m = {0};
    BlockToken k = token_new(&m, d, memory_random_below(&c->memory, d->T), step);
    int bad = 0;
    for (int i = 0; i < COLUMNS_SAMPLED && !bad; i++)
        bad = check_column(c, d, &k, memory_random_below(&c->memory, d->H), step);
    for (int64_t i = 0; step && i < d->K && !bad; i++) {
        BenchSum d_p = {0};
        for (int64_t f = 0; f < d->F; f++)
            sum_add(&d_p, activation(&k.rows[i], f) * k.rows[i].s[f]);
        bad = compare(c, "d_p", k.t * d->K + i, &d_p, (double)d->d_p[k.t * d->K + i]);
    }
    memory_free(&m);
    return bad;
}

/* Column f of a row, at expert e. */
static void row_column(const BlockData *d, int64_t t, int64_t e, int64_t f, BlockRow *r)
{
    *r->g = *r->u = *r->s = 0;
    for (int64_t h = 0; h < d->H; h++) {
        int64_t at = (e * d->H + h) * d->F + f, transposed = (e * d->F + f) * d->H + h;
        double x = (double)bf16_to_f32(d->x[t * d->H + h]);
        *r->g += x * (double)bf16_to_f32(d->wg[at]);
        *r->u += x * (double)bf16_to_f32(d->wu[at]);
        *r->s += (double)bf16_to_f32(d->d_y[t * d->H + h]) * (double)bf16_to_f32(d->wd[transposed]);
    }
}

/* One element of each gradient of a weight: at (h, f) of the expert of some row. */
static int check_weight(Case *c, const BlockData *d)
{
    int64_t e = expert_of(d, memory_random_below(&c->memory, d->route->rows)),
            h = memory_random_below(&c->memory, d->H), f = memory_random_below(&c->memory, d->F);
    int64_t at = (e * d->H + h) * d->F + f, transposed = (e * d->F + f) * d->H + h;
    BenchSum wg = {0}, wu = {0}, wd = {0};
    double g, u, s;
    BlockRow r = {&g, &u, &s};
    for (int64_t row = d->route->start[e]; row < d->route->start[e + 1]; row++) {
        int64_t slot = d->route->slot_of[row], t = slot / d->K;
        double p = (double)d->p[slot], x = (double)bf16_to_f32(d->x[t * d->H + h]);
        row_column(d, t, e, f, &r);
        sum_add(&wg, x * d_g(&r, 0, p));
        sum_add(&wu, x * d_u(&r, 0, p));
        sum_add(&wd, activation(&r, 0) * p * (double)bf16_to_f32(d->d_y[t * d->H + h]));
    }
    return compare(c, "d_wg", at, &wg, (double)d->d_wg[at]) ||
           compare(c, "d_wu", at, &wu, (double)d->d_wu[at]) ||
           compare(c, "d_wd", transposed, &wd, (double)d->d_wd[transposed]);
}

static int check(Case *c, const BlockData *d, bool step)
{
    for (int i = 0; i < TOKENS_SAMPLED; i++)
        if (check_token(c, d, step))
            return 1;
    for (int i = 0; step && i < WEIGHTS_SAMPLED; i++)
        if (check_weight(c, d))
            return 1;
    return 0;
}

/* ---- the case ---- */

static void count_work(Case *c, const BlockData *d, bool step)
{
    double busy = 0, tokens = (double)(d->T * d->H) * 2;
    for (int64_t e = 0; e < d->E; e++)
        busy += d->route->count[e] > 0;
    double weights = busy * (double)(3 * d->H * d->F),
           products = step ? 9 : 3; /* s, d_x twice, three of weights */
    c->compute = LIMIT_BF16;
    c->flops = products * 2 * (double)d->route->rows * (double)d->H * (double)d->F;
    c->traffic = step ? LIMIT_UPDATE : LIMIT_READ;
    c->bytes = step ? 2 * 2 * weights + 8 * weights + 4 * tokens : 2 * weights + 2 * tokens;
}

static BenchCall *bind_forward(Case *c, BlockData *d, bool step)
{
    const BenchArg args[] = {IN("x", d->x),
                             IN("rt", d->route),
                             IN("p", d->p),
                             IN("wg", ours_pack(c, d->wg, true, d->E, d->H, d->F)),
                             IN("wu", ours_pack(c, d->wu, true, d->E, d->H, d->F)),
                             IN("wd", ours_pack(c, d->wd, true, d->E, d->F, d->H)),
                             OUT("y", NULL),
                             OUT("g", NULL),
                             OUT("u", NULL),
                             {0}};
    BenchCall *call = ours_bind(c, "block", step ? "forward" : "block", args);
    if (call)
        d->y = ours_arg(call, "y");
    return call;
}

static BenchCall *bind_backward(Case *c, BlockData *d, const BenchCall *forward)
{
    const BenchArg args[] = {IN("x", d->x),
                             IN("rt", d->route),
                             IN("p", d->p),
                             IN("wg", ours_arg(forward, "wg")),
                             IN("wu", ours_arg(forward, "wu")),
                             IN("wd", ours_arg(forward, "wd")),
                             IN("g", ours_arg(forward, "g")),
                             IN("u", ours_arg(forward, "u")),
                             IN("d_y", d->d_y),
                             OUT("d_x", NULL),
                             OUT("d_p", NULL),
                             INOUT("d_wg", NULL),
                             INOUT("d_wu", NULL),
                             INOUT("d_wd", NULL),
                             {0}};
    BenchCall *call = ours_bind(c, "block", "backward", args);
    if (!call)
        return NULL;
    d->d_x = ours_arg(call, "d_x");
    d->d_p = ours_arg(call, "d_p");
    d->d_wg = ours_arg(call, "d_wg");
    d->d_wu = ours_arg(call, "d_wu");
    d->d_wd = ours_arg(call, "d_wd");
    return call;
}

int make_block(Case *c)
{
    bool step = c->kind->variant == BLOCK_STEP;
    BlockData d = {
        .T = SIZE(c->sizes, 'T'), .K = c->shape->K, .E = c->shape->E, .H = c->shape->H, .F = c->shape->F};
    d.route = route_for(c);
    fill(c, &d, step);
    count_work(c, &d, step);
    BenchCall *call = bind_forward(c, &d, step), *then = NULL;
    if (!call || ours_prove(call))
        return 1;
    if (step) {
        then = bind_backward(c, &d, call);
        if (!then || ours_prove(then))
            return 1;
        ours_then(call, then);
    }
    if (check(c, &d, step))
        return 1;
    case_runner(c, OURS, c->threads, "ours", "packed", ours_time, call);
    peers_torch(c, step ? "step" : "block", d.route);
    return 0;
}
