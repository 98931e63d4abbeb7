/* Products: one, or one for each expert. Ours reads tokens where they stand, peers read them permuted. */
#include "bench/cases.h"
#include "bench/ours.h"
#include "bench/peers.h"

#include <math.h>
#include <string.h>

enum { SAMPLED = 200 };

/* What a case multiplies. x, w and y are the operands of peer.h; the one that is computed is there twice. */
typedef struct Data {
    ProductKind kind;
    bool bf16, packed;
    int64_t rows;
    moe_route *route;
    void *x;        /* [T, H]; of dX [rows, H] */
    void *permuted; /* [rows, H] */
    void *w, *turned, *y;
    void *theirs; /* what peers compute */
} Data;

static void *random_numbers(Case *c, const Data *d, int64_t n, float scale)
{
    return d->bf16 ? (void *)random_bf16(&c->memory, n, scale) : (void *)random_f32(&c->memory, n, scale);
}

static size_t size_of(const Data *d) { return d->bf16 ? 2 : 4; }

static void permute(Case *c, Data *d)
{
    size_t row = (size_t)SIZE(c->sizes, 'H') * size_of(d);
    d->permuted = memory_get(&c->memory, (size_t)d->rows * row);
    for (int64_t r = 0; r < d->rows; r++)
        memcpy((char *)d->permuted + (size_t)r * row,
               (char *)d->x + (size_t)(d->route->slot_of[r] / SIZE(c->sizes, 'K')) * row, row);
}

/* [E, H, F] -> [E, F, H] */
static void *turn(Case *c, const Data *d)
{
    int64_t E = SIZE(c->sizes, 'E'), H = SIZE(c->sizes, 'H'), F = SIZE(c->sizes, 'F');
    void *out = memory_get(&c->memory, (size_t)(E * H * F) * size_of(d));
    for (int64_t e = 0; e < E; e++)
        for (int64_t h0 = 0; h0 < H; h0 += 32) /* by blocks, for the caches */
            for (int64_t f = 0; f < F; f++)
                for (int64_t h = h0; h < h0 + 32 && h < H; h++) {
                    int64_t to = (e * F + f) * H + h, from = (e * H + h) * F + f;
                    if (d->bf16)
                        ((uint16_t *)out)[to] = ((uint16_t *)d->w)[from];
                    else
                        ((float *)out)[to] = ((float *)d->w)[from];
                }
    return out;
}

static void fill(Case *c, Data *d)
{
    int64_t E = SIZE(c->sizes, 'E'), T = SIZE(c->sizes, 'T'), H = SIZE(c->sizes, 'H'),
            F = SIZE(c->sizes, 'F');
    float scale = 1 / sqrtf((float)H);
    size_t size = size_of(d);
    switch (d->kind) {
    case PRODUCT_FWD:
        d->x = random_numbers(c, d, T * H, 1);
        d->w = random_numbers(c, d, E * H * F, scale);
        d->y = memory_get(&c->memory, (size_t)(d->rows * F) * size);
        d->theirs = memory_get(&c->memory, (size_t)(d->rows * F) * size);
        break;
    case PRODUCT_DX:
        d->y = random_numbers(c, d, d->rows * F, 1);
        d->w = random_numbers(c, d, E * H * F, scale);
        d->x = memory_get(&c->memory, (size_t)(d->rows * H) * size);
        d->theirs = memory_get(&c->memory, (size_t)(d->rows * H) * size);
        break;
    case PRODUCT_DW:
        d->x = random_numbers(c, d, T * H, 1);
        d->y = random_numbers(c, d, d->rows * F, 1);
        d->w = random_f32(&c->memory, E * H * F, 1);
        d->theirs = memory_get(&c->memory, (size_t)(E * H * F) * sizeof(float));
        break;
    }
    if (d->kind != PRODUCT_DX)
        permute(c, d);
    if (d->kind == PRODUCT_DX && d->packed)
        d->turned = turn(c, d);
}

/* ---- the result, at some places, against sums in f64 ---- */

static double at(const Data *d, const void *tensor, int64_t i)
{
    return d->bf16 ? (double)bf16_to_f32(((const uint16_t *)tensor)[i]) : (double)((const float *)tensor)[i];
}

/* A sum of n terms and of their magnitudes. */
typedef struct Sum {
    double value, terms;
    int64_t n;
} Sum;

static void sum_add(Sum *s, double term)
{
    s->value += term;
    s->terms += fabs(term);
    s->n++;
}

static int64_t expert_of(const Data *d, int64_t row)
{
    int64_t e = 0;
    while (d->route->start[e + 1] <= row)
        e++;
    return e;
}

/* The language's contract for sums (docs/language.md, section 5), and the rounding to bf16. */
static bool close(const Data *d, const Sum *s, double got)
{
    double allowed = (double)(s->n + 2) * 0x1p-24 * s->terms;
    if (d->bf16 && d->kind != PRODUCT_DW)
        allowed += 0x1p-8 * fabs(s->value);
    return fabs(got - s->value) <= allowed;
}

static double reference(Case *c, const Data *d, const void *w_before, int64_t i, Sum *s)
{
    int64_t H = SIZE(c->sizes, 'H'), F = SIZE(c->sizes, 'F');
    if (d->kind == PRODUCT_FWD) {
        int64_t row = i / F, f = i % F, e = expert_of(d, row);
        for (int64_t h = 0; h < H; h++)
            sum_add(s, at(d, d->permuted, row * H + h) * at(d, d->w, (e * H + h) * F + f));
        return at(d, d->y, i);
    }
    if (d->kind == PRODUCT_DX) {
        int64_t row = i / H, h = i % H, e = expert_of(d, row);
        for (int64_t f = 0; f < F; f++)
            sum_add(s, at(d, d->y, row * F + f) * at(d, d->w, (e * H + h) * F + f));
        return at(d, d->x, i);
    }
    int64_t e = i / (H * F), h = i / F % H, f = i % F;
    sum_add(s, ((const float *)w_before)[i]);
    for (int64_t row = d->route->start[e]; row < d->route->start[e + 1]; row++)
        sum_add(s, at(d, d->permuted, row * H + h) * at(d, d->y, row * F + f));
    return ((const float *)d->w)[i];
}

static int check(Case *c, const Data *d, const void *w_before)
{
    int64_t H = SIZE(c->sizes, 'H'), F = SIZE(c->sizes, 'F');
    int64_t n = d->kind == PRODUCT_FWD  ? d->rows * F
                : d->kind == PRODUCT_DX ? d->rows * H
                                        : SIZE(c->sizes, 'E') * H * F;
    for (int64_t k = 0; k < SAMPLED; k++) {
        Sum s = {0, 0, 0};
        int64_t i = k == 0 ? 0 : k == 1 ? n - 1 : (int64_t)(random_next(&c->memory) % (uint64_t)n);
        double got = reference(c, d, w_before, i, &s);
        if (!close(d, &s, got))
            return case_failed(c, "WRONG: element %lld is %.9g, not %.9g", (long long)i, got, s.value);
    }
    return 0;
}

/* ---- the case ---- */

static const char *kernel_name(const Data *d, bool single, char *out, size_t room)
{
    static const char *const kinds[] = {"fwd", "dx", "dw"};
    snprintf(out, room, "%s%s%s",
             !d->bf16 ? "f32_"
             : single ? "one_"
                      : "",
             kinds[d->kind], d->packed ? "_packed" : "");
    return out;
}

static void count_work(Case *c, const Data *d)
{
    int64_t H = SIZE(c->sizes, 'H'), F = SIZE(c->sizes, 'F'), busy = 0;
    for (int64_t e = 0; e < d->route->groups; e++)
        busy += d->route->count[e] > 0;
    double size = (double)size_of(d), weights = (double)(busy * H * F), y = (double)(d->rows * F);
    double x = (double)((d->kind == PRODUCT_DX ? d->rows : SIZE(c->sizes, 'T')) * H);
    c->flops = 2.0 * (double)d->rows * (double)H * (double)F;
    c->compute = d->bf16 ? LIMIT_BF16 : LIMIT_F32;
    c->bytes =
        (x + y) * size + weights * (d->kind == PRODUCT_DW ? 8 : size); /* f32 sums are read and written */
    c->traffic = d->kind == PRODUCT_DW ? LIMIT_UPDATE : LIMIT_READ;
}

static void ask_peers(Case *c, const Data *d)
{
    const void *x = d->kind == PRODUCT_DX ? d->theirs : d->permuted;
    peers_product(c, &(Product){
                         .kind = d->kind,
                         .bf16 = d->bf16,
                         .prepacked = d->packed,
                         .threads = c->bench->options.threads,
                         .experts = d->route->groups,
                         .depth = SIZE(c->sizes, 'H'),
                         .width = SIZE(c->sizes, 'F'),
                         .start = d->route->start,
                         .x = (void *)(uintptr_t)x,
                         .w = d->kind == PRODUCT_DW ? d->theirs : d->w,
                         .y = d->kind == PRODUCT_FWD ? d->theirs : d->y,
                     });
}

int make_product(Case *c, const Shape *s, const Kind *k)
{
    Data d = {.kind = k->variant & PRODUCT_KIND,
              .packed = k->variant & PRODUCT_PACKED,
              .bf16 = !(k->variant & PRODUCT_F32),
              .rows = s->T * s->K};
    d.route = s->rows_each ? even_route(&c->memory, s->E, s->rows_each)
                           : random_route(&c->memory, s->T, s->K, s->E, s->zipf, s->empty);
    fill(c, &d);
    count_work(c, &d);
    const Arg args[] = {
        {"x", d.x, d.kind == PRODUCT_DX ? ROLE_OUT : ROLE_IN},
        {"w", d.w,
         d.kind == PRODUCT_DW ? ROLE_OUT
         : d.packed           ? ROLE_PACK
                              : ROLE_IN},
        {"y", d.y, d.kind == PRODUCT_FWD ? ROLE_OUT : ROLE_IN},
        PACK("wt", d.turned),
        IN("rt", d.route),
        {0},
    };
    char name[32];
    kernel_name(&d, s->E == 1, name, sizeof name);
    Call *call = ours_bind(c, "products", name, args, c->bench->options.threads);
    if (!call)
        return 1;
    Memory scratch = {0};
    size_t bytes = d.kind == PRODUCT_DW ? (size_t)(s->E * s->H * s->F) * sizeof(float) : 1;
    void *before = memory_get(&scratch, bytes);
    memcpy(before, d.w, bytes);
    int bad = ours_prove(c, call) || check(c, &d, before);
    memory_free(&scratch);
    if (bad)
        return 1;
    case_runner(c, "ours", d.packed ? "packed" : "as is", ours_time, call);
    ask_peers(c, &d);
    return 0;
}
