/* OpenBLAS: a product of each expert's rows; of bf16 where the library has it. */
#include "bench/peer.h"

#include <cblas.h>
#include <stdlib.h>
#include <time.h>

extern void openblas_set_num_threads(int);
extern char *openblas_get_config(void);
extern void cblas_sbgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                         int m, int n, int k, float alpha, const uint16_t *a, int lda, const uint16_t *b,
                         int ldb, float beta, float *c, int ldc) __attribute__((weak));

typedef struct Way {
    Product product;
    float *result; /* of products of bf16, which are f32; NULL: where the product's stands */
} Way;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void way_free(void *self)
{
    free(((Way *)self)->result);
    free(self);
}

static void multiply(const Way *way, int64_t e)
{
    const Product *p = &way->product;
    int64_t first = p->start[e];
    int rows = (int)(p->start[e + 1] - first), h = (int)p->depth, f = (int)p->width;
    size_t size = p->bf16 ? 2 : 4, hf = (size_t)(e * p->depth * p->width);
    void *x = (char *)p->x + (size_t)(first * h) * size, *y = (char *)p->y + (size_t)(first * f) * size;
    void *w = (char *)p->w + hf * (p->kind == PRODUCT_DW ? 4 : size);
#define GEMM(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, at)                    \
    if (p->bf16)                                                                        \
        cblas_sbgemm(CblasRowMajor, trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, beta, \
                     way->result ? way->result + (at) : c, n);                          \
    else                                                                                \
        cblas_sgemm(CblasRowMajor, trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, beta, c, n)
    switch (p->kind) {
    case PRODUCT_FWD: GEMM(CblasNoTrans, CblasNoTrans, rows, f, h, x, h, w, f, 0, y, first * f); break;
    case PRODUCT_DX: GEMM(CblasNoTrans, CblasTrans, rows, h, f, y, f, w, f, 0, x, first * h); break;
    case PRODUCT_DW: GEMM(CblasTrans, CblasNoTrans, h, f, rows, x, h, y, f, 1, w, 0); break;
    }
#undef GEMM
}

static double way_time(void *self, int calls)
{
    const Way *way = self;
    openblas_set_num_threads(way->product.threads);
    double begin = now();
    for (int call = 0; call < calls; call++)
        for (int64_t e = 0; e < way->product.experts; e++)
            if (way->product.start[e + 1] > way->product.start[e])
                multiply(way, e);
    return now() - begin;
}

static void product(const Product *p, AddWay *add_way, void *to)
{
    if (p->bf16 && !cblas_sbgemm)
        return;
    Way *way = calloc(1, sizeof *way);
    if (!way)
        return;
    way->product = *p;
    if (p->bf16 && p->kind != PRODUCT_DW) {
        int64_t cols = p->kind == PRODUCT_FWD ? p->width : p->depth;
        way->result = malloc((size_t)(p->start[p->experts] * cols) * sizeof(float));
    }
    add_way(to, "OpenBLAS", p->bf16 ? "sbgemm" : "sgemm", way_time, way, way_free);
}

static const char *version(void) { return openblas_get_config(); }

const Peer peer = {"OpenBLAS", version, product};
