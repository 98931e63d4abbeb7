#include "trainer/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ONCE = 0, LAYER = 1 };

const WeightRow weight_table[WEIGHT_COUNT] = {
#define WEIGHT(name, scope, form, matrices, rows, columns, deviation) {#name, scope, FORM_##form},
#include "trainer/weights.def"
};

#define UNPACK_SIZES(s)                                                                               \
    const int64_t H = (s)->H, A = (s)->A, E = (s)->E, F = (s)->F, G = (s)->G, V = (s)->V, L = (s)->L; \
    (void)H, (void)A, (void)E, (void)F, (void)G, (void)V, (void)L

WeightShape weight_shape(WeightId id, const ModelSizes *sizes)
{
    UNPACK_SIZES(sizes);
    const WeightShape table[] = {
#define WEIGHT(name, scope, form, matrices, rows, columns, deviation) {matrices, rows, columns, deviation},
#include "trainer/weights.def"
    };
    return table[id];
}

int64_t weight_elements(WeightId id, const ModelSizes *sizes)
{
    WeightShape s = weight_shape(id, sizes);
    return s.matrices * s.rows * s.columns;
}

void weight_size(Kernels *k, WeightId id, const ModelSizes *sizes)
{
    WeightShape s = weight_shape(id, sizes);
    kernels_size(k, SIZE_P, weight_elements(id, sizes));
    kernels_size(k, SIZE_X, s.matrices);
    kernels_size(k, SIZE_Y, s.rows);
    kernels_size(k, SIZE_Z, s.columns);
}

ModelSizes model_sizes(const Config *c)
{
    ModelSizes s = {.B = c->batch / c->micro_batches, .S = c->sequence, .H = c->width, .N = c->heads};
    s.T = s.B * s.S;
    s.D = c->width / c->heads / 2;
    s.A = 2 * s.N * s.D;
    s.K = c->top_k;
    s.E = c->experts;
    s.F = c->expert_width;
    s.G = c->shared_width;
    s.V = VOCABULARY;
    s.L = c->layers;
    return s;
}

static int out_of_memory(void)
{
    fprintf(stderr, "moe-train: out of memory: the model or its micro-batch is too large for this machine\n");
    return 1;
}

static double weight_bytes(const ModelSizes *s)
{
    double elements = 0;
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        elements += (double)weight_elements(id, s) * (weight_table[id].per_layer ? (double)s->L : 1);
    return elements * (4 * sizeof(float) + 2 * sizeof(uint16_t));
}

static double buffer_bytes(const ModelSizes *s)
{
    UNPACK_SIZES(s);
    const int64_t B = s->B, S = s->S, T = s->T, N = s->N, D = s->D, K = s->K;
    double bytes = 0;
#define BUFFER(name, scope, type, elements, doc) \
    bytes += (double)(elements) * sizeof(type) * (scope ? (double)L : 1);
#include "trainer/buffers.def"
    return bytes;
}

int model_check_memory(const ModelSizes *s)
{
    double need = weight_bytes(s) + buffer_bytes(s);
    double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (need <= have)
        return 0;
    fprintf(stderr,
            "moe-train: the model and its micro-batch need %.1f GiB and this machine has %.1f GiB: choose "
            "smaller "
            "sizes or more --micro-batches\n",
            need / 0x1p30, have / 0x1p30);
    return 1;
}

/* Zeroed, on a cache line. */
static void *allocate(int64_t elements, size_t bytes)
{
    size_t size;
    void *at = NULL;
    if (__builtin_mul_overflow((size_t)elements, bytes, &size) || size > SIZE_MAX - 64)
        return NULL;
    size = (size + 127) / 64 * 64;
    if (posix_memalign(&at, 64, size))
        return NULL;
    return memset(at, 0, size);
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Places the weights one after the other, each on a cache line. Returns where the last one ends. */
static int64_t place(Model *m)
{
    int64_t at = 0;
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        for (int64_t l = 0; l < model_layers(m, id); l++) {
            int64_t n = weight_elements(id, &m->sizes);
            m->offset[id][l] = at;
            m->parameters += n;
            at += round_up(n, 32);
        }
    return at;
}

static int64_t count_active(const Model *m)
{
    const ModelSizes *s = &m->sizes;
    return m->parameters - s->L * (s->E - s->K) * 3 * s->H * s->F;
}

static void free_list(void *list, int64_t n)
{
    void **at = list;
    for (int64_t i = 0; at && i < n; i++)
        free(at[i]);
    free(list);
}

static void *new_list(int64_t n, int64_t elements, size_t bytes)
{
    void **list = calloc((size_t)n, sizeof *list);
    for (int64_t i = 0; list && i < n; i++)
        if (!(list[i] = allocate(elements, bytes))) {
            free_list(list, i);
            return NULL;
        }
    return list;
}

/* Memory of the copies that kernels read; how much that is, the kernels know that write them. */
static int new_copies(Model *m, WeightId id, Kernels *k)
{
    int64_t bytes = 0;
    weight_size(k, id, &m->sizes);
    switch (weight_table[id].form) {
    case FORM_NORM: return 0;
    case FORM_ROWS: bytes = kernels_bytes(k, KERNEL_adamw_rows, "w"); break;
    case FORM_PACKED: bytes = kernels_bytes(k, KERNEL_adamw_packed, "w"); break;
    }
    m->copy[id] = bytes < 0 ? NULL : new_list(model_layers(m, id), bytes, 1);
    return m->copy[id] == NULL;
}

int model_new(Model *m, const Config *c, Kernels *k)
{
    *m = (Model){.sizes = model_sizes(c)};
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        if (!(m->offset[id] = calloc((size_t)model_layers(m, id), sizeof(int64_t))) || new_copies(m, id, k))
            return out_of_memory();
    m->count = round_up(place(m), NORM_ROW);
    m->active = count_active(m);
    m->master = allocate(m->count, sizeof(float));
    m->gradient = allocate(m->count, sizeof(float));
    m->first = allocate(m->count, sizeof(float));
    m->second = allocate(m->count, sizeof(float));
    return m->master && m->gradient && m->first && m->second ? 0 : out_of_memory();
}

void model_free(Model *m)
{
    for (WeightId id = 0; id < WEIGHT_COUNT; id++) {
        free(m->offset[id]);
        free_list(m->copy[id], model_layers(m, id));
    }
    free(m->master);
    free(m->gradient);
    free(m->first);
    free(m->second);
}

static int new_routes(Buffers *b, const ModelSizes *s)
{
    b->route = calloc((size_t)s->L, sizeof *b->route);
    for (int64_t l = 0; b->route && l < s->L; l++)
        if (!(b->route[l] = moe_route_new(s->T, s->K, s->E, s->T * s->K)))
            return out_of_memory();
    return b->route ? 0 : out_of_memory();
}

int buffers_new(Buffers *b, const ModelSizes *s)
{
    UNPACK_SIZES(s);
    const int64_t B = s->B, S = s->S, T = s->T, N = s->N, D = s->D, K = s->K;
    *b = (Buffers){.layers = L};
#define BUFFER(name, scope, type, elements, doc)                        \
    if (!(b->name = new_list(scope ? L : 1, (elements), sizeof(type)))) \
        return out_of_memory();
#include "trainer/buffers.def"
    return new_routes(b, s);
}

void buffers_free(Buffers *b)
{
#define BUFFER(name, scope, type, elements, doc) free_list(b->name, scope ? b->layers : 1);
#include "trainer/buffers.def"
    for (int64_t l = 0; b->route && l < b->layers; l++)
        if (b->route[l])
            moe_route_free(b->route[l]);
    free(b->route);
}
