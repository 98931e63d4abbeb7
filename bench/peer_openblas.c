/* OpenBLAS: a product of each expert's rows; of bf16 where the library has it. */
#include "bench/peer.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void openblas_set_num_threads(int);
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);
extern void cblas_sbgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                         int m, int n, int k, float alpha, const uint16_t *a, int lda, const uint16_t *b,
                         int ldb, float beta, float *c, int ldc) __attribute__((weak));

typedef struct OpenblasWay {
    PeerProduct product;
    float *result; /* of products of bf16, which are f32; NULL: where the product's stands */
} OpenblasWay;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void way_free(void *self)
{
    free(((OpenblasWay *)self)->result);
    free(self);
}

/* c = a * b + beta * c, all row-major, a and b possibly transposed. */
static void gemm(const PeerProduct *p, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                 const void *a, const void *b, float beta, float *c)
{
    enum CBLAS_TRANSPOSE ta = trans_a ? CblasTrans : CblasNoTrans, tb = trans_b ? CblasTrans : CblasNoTrans;
    int M = (int)m, N = (int)n, K = (int)k, lda = trans_a ? M : K, ldb = trans_b ? K : N;
    if (p->bf16)
        cblas_sbgemm(CblasRowMajor, ta, tb, M, N, K, 1, a, lda, b, ldb, beta, c, N);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, M, N, K, 1, a, lda, b, ldb, beta, c, N);
}

static void multiply(const OpenblasWay *way, int64_t e)
{
    const PeerProduct *p = &way->product;
    int64_t first = p->start[e], rows = p->start[e + 1] - first, h = p->depth, f = p->width;
    size_t size = p->bf16 ? 2 : 4;
    void *x = (char *)p->x + (size_t)(first * h) * size, *y = (char *)p->y + (size_t)(first * f) * size;
    void *w = (char *)p->w + (size_t)(e * h * f) * (p->kind == PRODUCT_DW ? 4 : size);
    switch (p->kind) {
    case PRODUCT_FWD: gemm(p, 0, 0, rows, f, h, x, w, 0, way->result ? way->result + first * f : y); break;
    case PRODUCT_DX: gemm(p, 0, 1, rows, h, f, y, w, 0, way->result ? way->result + first * h : x); break;
    case PRODUCT_DW: gemm(p, 1, 0, h, f, rows, x, y, 1, w); break;
    }
}

static double way_time(void *self, int calls)
{
    const OpenblasWay *way = self;
    openblas_set_num_threads(way->product.threads);
    double begin = now();
    for (int call = 0; call < calls; call++)
        for (int64_t e = 0; e < way->product.experts; e++)
            if (way->product.start[e + 1] > way->product.start[e])
                multiply(way, e);
    return now() - begin;
}

static void product(const PeerProduct *p, AddWay *add_way, void *to)
{
    if (p->bf16 && !cblas_sbgemm)
        return;
    OpenblasWay *way = calloc(1, sizeof *way);
    if (!way)
        return;
    way->product = *p;
    if (p->bf16 && p->kind != PRODUCT_DW) {
        int64_t cols = p->kind == PRODUCT_FWD ? p->width : p->depth;
        way->result = malloc((size_t)(p->start[p->experts] * cols) * sizeof(float));
    }
    add_way(to, "OpenBLAS", p->bf16 ? "sbgemm" : "sgemm", way_time, way, way_free);
}

/* "OpenBLAS 0.3.21 ..." and the kernels that it took. */
static const char *version(void)
{
    static char text[64];
    char number[32] = "";
    sscanf(openblas_get_config(), "OpenBLAS %31s", number);
    snprintf(text, sizeof text, "%s (%s)", number, openblas_get_corename());
    return text;
}

const Peer peer = {"OpenBLAS", version, product};
