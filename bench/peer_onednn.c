/* oneDNN, by each of its interfaces that can do the product: the matmul and inner product primitives, one for each expert
 * that has rows, made before the timing, and its functions in the manner of BLAS. */
#include "bench/onednn_version.h"
#include "bench/peer.h"

#include <omp.h>
#include <stdio.h>
#include <time.h>

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static const char *version(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- primitives ---- */

/* How primitives are asked for. `operands`: two and the result, in the order of pd_new; a capital is the transpose. */
typedef struct DnnRecipe {
    ProductKind kind;
    OnednnOp op;
    const char *operands, *name;
    int any;        /* weights in the layout that the primitive likes: only when they may be prepacked */
    int transposed; /* of dW: the result stands as [width, depth] */
    int add;        /* of dW: into scratch memory, then added; otherwise the primitive accumulates */
} DnnRecipe;

static const DnnRecipe recipes[] = {
    {PRODUCT_FWD, OP_MATMUL, "xwy", "matmul", .any = 0},
    {PRODUCT_FWD, OP_MATMUL, "xwy", "matmul, prepacked", .any = 1},
    {PRODUCT_FWD, OP_FORWARD, "xWy", "inner product", .any = 0},
    {PRODUCT_FWD, OP_FORWARD, "xWy", "inner product, prepacked", .any = 1},
    {PRODUCT_DX, OP_MATMUL, "yWx", "matmul", .any = 0},
    {PRODUCT_DX, OP_MATMUL, "yWx", "matmul, prepacked", .any = 1},
    {PRODUCT_DX, OP_DATA, "yWx", "inner product", .any = 0},
    {PRODUCT_DX, OP_DATA, "yWx", "inner product, prepacked", .any = 1},
    {PRODUCT_DW, OP_MATMUL, "Xyw", "matmul, accumulating", .add = 0},
    {PRODUCT_DW, OP_MATMUL, "Xyw", "matmul and add", .add = 1},
    {PRODUCT_DW, OP_WEIGHTS, "xyW", "inner product and add", .add = 1},
    {PRODUCT_DW, OP_WEIGHTS, "xyW", "inner product transposed and add", .add = 1, .transposed = 1},
};

static const int arguments[][3] = {
    [OP_MATMUL] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
    [OP_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
    [OP_DATA] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
    [OP_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS},
};

typedef struct OnednnStep {
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
    dnnl_exec_arg_t args[3];
    void *packed;
    float *sum; /* what scratch memory is added to, or NULL */
} OnednnStep;

typedef struct OnednnWay {
    OnednnStep *steps;
    int n;
    float *scratch;
    int64_t scratch_elements;
} OnednnWay;

static void way_free(void *self)
{
    OnednnWay *w = self;
    for (int i = 0; i < w->n; i++) {
        OnednnStep *s = &w->steps[i];
        dnnl_primitive_destroy(s->primitive);
        dnnl_memory_destroy(s->a);
        dnnl_memory_destroy(s->b);
        dnnl_memory_destroy(s->c);
        free(s->packed);
    }
    free(w->steps);
    free(w->scratch);
    free(w);
}

static void add(float *restrict to, const float *restrict from, int64_t n)
{
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static double way_time(void *self, int calls)
{
    OnednnWay *w = self;
    double begin = now();
    for (int call = 0; call < calls; call++)
        for (int i = 0; i < w->n; i++) {
            OnednnStep *s = &w->steps[i];
            if (dnnl_primitive_execute(s->primitive, stream, 3, s->args) || dnnl_stream_wait(stream))
                return -1;
            if (s->sum)
                add(s->sum, w->scratch, w->scratch_elements);
        }
    return now() - begin;
}

typedef struct OnednnOperand {
    int64_t rows, cols, strides[2];
    dnnl_data_type_t type;
    void *at;
    int any;
} OnednnOperand;

static OnednnOperand matrix(void *at, int64_t element, int64_t rows, int64_t cols, int bf16)
{
    size_t size = bf16 ? 2 : 4;
    return (OnednnOperand){
        rows, cols, {cols, 1}, bf16 ? dnnl_bf16 : dnnl_f32, (char *)at + (size_t)element * size, 0};
}

/* An operand of one expert by its letter. */
static OnednnOperand operand(const PeerProduct *p, const DnnRecipe *r, int64_t e, char letter)
{
    int64_t first = p->start[e], rows = p->start[e + 1] - first, h = p->depth, f = p->width;
    OnednnOperand o;
    if (letter == 'x' || letter == 'X')
        o = matrix(p->x, first * h, rows, h, p->bf16);
    else if (letter == 'y')
        o = matrix(p->y, first * f, rows, f, p->bf16);
    else
        o = matrix(p->w, e * h * f, h, f, p->bf16 && p->kind != PRODUCT_DW);
    if (r->transposed && letter == 'W')
        o.strides[0] = 1, o.strides[1] = h;
    o.any = r->any && (letter == 'w' || letter == 'W');
    if (letter == 'X' || letter == 'W')
        o = (OnednnOperand){o.cols, o.rows, {o.strides[1], o.strides[0]}, o.type, o.at, o.any};
    return o;
}

static dnnl_primitive_attr_t accumulating(void)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_create(&attr);
    dnnl_post_ops_create(&ops);
    APPEND_SUM(ops);
    dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return attr;
}

static Md md_given(const OnednnOperand *o)
{
    return md_new(o->rows, o->cols, o->type, o->strides[0], o->strides[1]);
}

/* The description of the primitive. The backward ones want to be shown their forward. */
static Pd describe(const DnnRecipe *r, int sum, const OnednnOperand o[3])
{
    dnnl_primitive_attr_t attr = sum ? accumulating() : NULL;
    Md md[3];
    for (int i = 0; i < 3; i++)
        md[i] = o[i].any ? md_new(o[i].rows, o[i].cols, o[i].type, 0, 0) : md_given(&o[i]);
    Pd hint = NULL, pd = NULL;
    if (r->op == OP_DATA)
        hint = pd_new(OP_FORWARD, engine, md[2], md[1], md[0], NULL, NULL);
    if (r->op == OP_WEIGHTS) { /* whose weights are of the operands' type */
        Md weights = md_new(o[2].rows, o[2].cols, o[0].type, 0, 0);
        hint = pd_new(OP_FORWARD, engine, md[0], weights, md[1], NULL, NULL);
        md_free(weights);
    }
    pd = pd_new(r->op, engine, md[0], md[1], md[2], hint, attr);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    for (int i = 0; i < 3; i++)
        md_free(md[i]);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return pd;
}

static dnnl_memory_t memory_of(const OnednnOperand *o)
{
    Md md = md_given(o);
    dnnl_memory_t memory = NULL;
    dnnl_memory_create(&memory, md, engine, o->at);
    md_free(md);
    return memory;
}

/* The weights in the layout that the primitive chose. */
static dnnl_memory_t prepacked(OnednnStep *s, const OnednnOperand *o, ConstMd chosen)
{
    size_t bytes = (dnnl_memory_desc_get_size(chosen) + 63) / 64 * 64;
    dnnl_memory_t from = memory_of(o), to = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;
    Md given = md_given(o);
    s->packed = aligned_alloc(64, bytes);
    if (s->packed && !dnnl_memory_create(&to, chosen, engine, s->packed) &&
        !dnnl_reorder_primitive_desc_create(&pd, given, engine, chosen, engine, NULL) &&
        !dnnl_primitive_create(&reorder, pd)) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        dnnl_primitive_execute(reorder, stream, 2, args);
        dnnl_stream_wait(stream);
    }
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_destroy(from);
    md_free(given);
    return to;
}

/* 0: this way does not exist here. */
static int step_make(OnednnWay *w, const PeerProduct *p, const DnnRecipe *r, int64_t e)
{
    OnednnStep *s = &w->steps[w->n];
    OnednnOperand o[3];
    for (int i = 0; i < 3; i++)
        o[i] = operand(p, r, e, r->operands[i]);
    if (r->add) {
        s->sum = o[2].at;
        o[2].at = w->scratch;
    }
    Pd pd = describe(r, p->kind == PRODUCT_DW && !r->add, o);
    if (!pd)
        return 0;
    w->n++;
    s->a = memory_of(&o[0]);
    s->b = o[1].any ? prepacked(s, &o[1], dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0))
                    : memory_of(&o[1]);
    s->c = memory_of(&o[2]);
    dnnl_memory_t memories[] = {s->a, s->b, s->c};
    for (int i = 0; i < 3; i++)
        s->args[i] = (dnnl_exec_arg_t){arguments[r->op][i], memories[i]};
    int made = !dnnl_primitive_create(&s->primitive, pd) && s->a && s->b && s->c;
    dnnl_primitive_desc_destroy(pd);
    return made;
}

static void add_primitives(const PeerProduct *p, const DnnRecipe *r, AddWay *add_way, void *to)
{
    OnednnWay *w = calloc(1, sizeof *w);
    if (!w)
        return;
    w->steps = calloc((size_t)p->experts, sizeof *w->steps);
    w->scratch_elements = p->depth * p->width;
    w->scratch = r->add ? calloc((size_t)w->scratch_elements, sizeof *w->scratch) : NULL;
    int made = w->steps && (w->scratch || !r->add);
    for (int64_t e = 0; made && e < p->experts; e++)
        if (p->start[e + 1] > p->start[e])
            made = step_make(w, p, r, e);
    if (made)
        add_way(to, "oneDNN", r->name, way_time, w, way_free);
    else
        way_free(w);
}

/* ---- in the manner of BLAS: only f32, and products of bf16 into f32, which the library has but its header lacks ---- */

extern dnnl_status_t dnnl_gemm_bf16bf16f32(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k,
                                           float alpha, const uint16_t *a, int64_t lda, const uint16_t *b,
                                           int64_t ldb, float beta, float *c, int64_t ldc)
    __attribute__((weak));

static dnnl_status_t gemm(const PeerProduct *p, int64_t e)
{
    int64_t rows = p->start[e + 1] - p->start[e], h = p->depth, f = p->width;
    size_t size = p->bf16 ? 2 : 4;
    void *x = (char *)p->x + (size_t)(p->start[e] * h) * size,
         *y = (char *)p->y + (size_t)(p->start[e] * f) * size;
    float *w = (float *)p->w + e * h * f;
    if (p->bf16)
        return dnnl_gemm_bf16bf16f32('T', 'N', h, f, rows, 1, x, h, y, f, 1, w, f);
    switch (p->kind) {
    case PRODUCT_FWD: return dnnl_sgemm('N', 'N', rows, f, h, 1, x, h, w, f, 0, y, f);
    case PRODUCT_DX: return dnnl_sgemm('N', 'T', rows, h, f, 1, y, f, w, f, 0, x, h);
    case PRODUCT_DW: return dnnl_sgemm('T', 'N', h, f, rows, 1, x, h, y, f, 1, w, f);
    }
    return dnnl_invalid_arguments;
}

static double gemm_time(void *self, int calls)
{
    const PeerProduct *p = self;
    double begin = now();
    for (int call = 0; call < calls; call++)
        for (int64_t e = 0; e < p->experts; e++)
            if (p->start[e + 1] > p->start[e] && gemm(p, e))
                return -1;
    return now() - begin;
}

static void add_gemm(const PeerProduct *p, AddWay *add_way, void *to)
{
    if (p->bf16 && (p->kind != PRODUCT_DW || !dnnl_gemm_bf16bf16f32))
        return;
    PeerProduct *copy = malloc(sizeof *copy);
    if (!copy)
        return;
    *copy = *p;
    add_way(to, "oneDNN", "gemm", gemm_time, copy, free);
}

static void product(const PeerProduct *p, AddWay *add_way, void *to)
{
    omp_set_num_threads(p->threads);
    if (!engine && (dnnl_engine_create(&engine, dnnl_cpu, 0) ||
                    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)))
        return;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (recipes[i].kind == p->kind && (p->prepacked || !recipes[i].any))
            add_primitives(p, &recipes[i], add_way, to);
    add_gemm(p, add_way, to);
}

const Peer peer = {"oneDNN", version, product};
