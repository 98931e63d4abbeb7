/* Products: one, or one for each expert. Ours reads tokens where they stand, peers read them permuted. */
#include "bench/cases.h"
#include "bench/ours.h"
#include "bench/peers.h"
#include "bench/sum.h"

#include <string.h>

enum { SAMPLED = 200 };

/* What a case multiplies. x, w and y are the operands of peer.h; the one that is computed is there twice. */
typedef struct ProductData {
    ProductKind kind;
    bool bf16, packed;
    int64_t rows;
    moe_route *route;
    void *x;        /* [T, H]; of dX [rows, H] */
    void *permuted; /* [rows, H] */
    void *w, *y;
    void *theirs; /* what peers compute */
} ProductData;

static void *random_numbers(Case *c, const ProductData *d, int64_t n, float scale)
{
    return d->bf16 ? (void *)random_bf16(&c->memory, n, scale) : (void *)random_f32(&c->memory, n, scale);
}

static size_t size_of(const ProductData *d) { return d->bf16 ? 2 : 4; }

static void permute(Case *c, ProductData *d)
{
    size_t row = (size_t)SIZE(c->sizes, 'H') * size_of(d);
    d->permuted = memory_get(&c->memory, (size_t)d->rows * row);
    for (int64_t r = 0; r < d->rows; r++)
        memcpy((char *)d->permuted + (size_t)r * row,
               (char *)d->x + (size_t)(d->route->slot_of[r] / SIZE(c->sizes, 'K')) * row, row);
}

static void fill(Case *c, ProductData *d)
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
}

/* ---- the result, at some places, against sums in f64 ---- */

static double at(const ProductData *d, const void *tensor, int64_t i)
{
    return d->bf16 ? (double)bf16_to_f32(((const uint16_t *)tensor)[i]) : (double)((const float *)tensor)[i];
}

static int64_t expert_of(const ProductData *d, int64_t row)
{
    int64_t e = 0;
    while (d->route->start[e + 1] <= row)
        e++;
    return e;
}

static double reference(Case *c, const ProductData *d, const void *w_before, int64_t i, BenchSum *s)
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

static int check(Case *c, const ProductData *d, const void *w_before)
{
    int64_t H = SIZE(c->sizes, 'H'), F = SIZE(c->sizes, 'F');
    int64_t n = d->kind == PRODUCT_FWD  ? d->rows * F
                : d->kind == PRODUCT_DX ? d->rows * H
                                        : SIZE(c->sizes, 'E') * H * F;
    for (int64_t k = 0; k < SAMPLED; k++) {
        BenchSum s = {0};
        int64_t i = k == 0 ? 0 : k == 1 ? n - 1 : memory_random_below(&c->memory, n);
        double got = reference(c, d, w_before, i, &s);
        if (!sum_holds(&s, got, d->bf16 && d->kind != PRODUCT_DW))
            return case_failed(c, "WRONG: element %lld is %.9g, not %.9g", (long long)i, got, s.value);
    }
    return 0;
}

/* ---- the case ---- */

static const char *kernel_name(const ProductData *d, bool single, char *out, size_t room)
{
    static const char *const kinds[] = {"fwd", "dx", "dw"};
    snprintf(out, room, "%s%s%s",
             !d->bf16 ? "f32_"
             : single ? "one_"
                      : "",
             kinds[d->kind], d->packed ? "_packed" : "");
    return out;
}

static void count_work(Case *c, const ProductData *d)
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

static void ask_peers(Case *c, const ProductData *d)
{
    static const char *const torch[] = {"fwd", "dx", "dw"};
    peers_product(c, &(PeerProduct){
                         .kind = d->kind,
                         .bf16 = d->bf16,
                         .prepacked = d->packed,
                         .threads = c->threads,
                         .experts = d->route->groups,
                         .depth = SIZE(c->sizes, 'H'),
                         .width = SIZE(c->sizes, 'F'),
                         .start = d->route->start,
                         .x = d->kind == PRODUCT_DX ? d->theirs : d->permuted,
                         .w = d->kind == PRODUCT_DW ? d->theirs : d->w,
                         .y = d->kind == PRODUCT_FWD ? d->theirs : d->y,
                     });
    if (d->bf16)
        peers_torch(c, torch[d->kind], d->route);
}

static BenchCall *bind(Case *c, const ProductData *d)
{
    const void *weights =
        d->packed ? ours_pack(c, d->w, d->bf16, c->shape->E, c->shape->H, c->shape->F) : d->w;
    const BenchArg args[] = {
        {"x", d->x, d->kind == PRODUCT_DX ? ROLE_OUT : ROLE_IN},
        {"w", (void *)(uintptr_t)weights, d->kind == PRODUCT_DW ? ROLE_INOUT : ROLE_IN},
        {"y", d->y, d->kind == PRODUCT_FWD ? ROLE_OUT : ROLE_IN},
        IN("rt", d->route),
        {0},
    };
    char name[32];
    return ours_bind(c, "products", kernel_name(d, c->shape->E == 1, name, sizeof name), args);
}

/* Proves it, and that w is what was there and what is added to it. */
static int prove(Case *c, const ProductData *d, BenchCall *call)
{
    BenchMemory scratch = {0};
    size_t bytes =
        d->kind == PRODUCT_DW ? (size_t)(c->shape->E * c->shape->H * c->shape->F) * sizeof(float) : 1;
    void *before = memcpy(memory_get(&scratch, bytes), d->w, bytes);
    int bad = ours_prove(call) || check(c, d, before);
    memory_free(&scratch);
    return bad;
}

int make_product(Case *c)
{
    int v = c->kind->variant;
    ProductData d = {.kind = v & PRODUCT_KIND, .packed = v & PRODUCT_PACKED, .bf16 = !(v & PRODUCT_F32)};
    d.route = route_for(c);
    d.rows = d.route->rows;
    fill(c, &d);
    count_work(c, &d);
    BenchCall *call = bind(c, &d);
    if (!call || prove(c, &d, call))
        return 1;
    case_runner(c, OURS, c->threads, "ours", d.packed ? "packed" : "as is", ours_time, call);
    ask_peers(c, &d);
    return 0;
}
