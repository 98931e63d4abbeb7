#include "trainer/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ONCE = 0, LAYER = 1, GAIN = 0, MATRIX = 1 };

const WeightRow weight_table[WEIGHT_COUNT] = {
#define WEIGHT(name, scope, kind, elements, deviation, doc) {#name, scope, kind},
#include "trainer/weights.def"
};

#define UNPACK_SIZES(s)                                                                               \
    const int64_t H = (s)->H, A = (s)->A, E = (s)->E, F = (s)->F, G = (s)->G, V = (s)->V, L = (s)->L; \
    (void)H, (void)A, (void)E, (void)F, (void)G, (void)V, (void)L

int64_t weight_elements(WeightId id, const Sizes *sizes)
{
    UNPACK_SIZES(sizes);
    const int64_t table[] = {
#define WEIGHT(name, scope, kind, elements, deviation, doc) elements,
#include "trainer/weights.def"
    };
    return table[id];
}

double weight_deviation(WeightId id, const Sizes *sizes)
{
    UNPACK_SIZES(sizes);
    const double table[] = {
#define WEIGHT(name, scope, kind, elements, deviation, doc) deviation,
#include "trainer/weights.def"
    };
    return table[id];
}

Sizes model_sizes(const Config *c)
{
    Sizes s = {.B = c->batch / c->micro_batches, .S = c->sequence, .H = c->width, .N = c->heads};
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

static double weight_bytes(const Sizes *s)
{
    double elements = 0;
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        elements += (double)weight_elements(id, s) * (weight_table[id].per_layer ? (double)s->L : 1);
    return elements * (4 * sizeof(float) + sizeof(uint16_t));
}

static double buffer_bytes(const Sizes *s)
{
    UNPACK_SIZES(s);
    const int64_t B = s->B, S = s->S, T = s->T, N = s->N, D = s->D, K = s->K;
    double bytes = 0;
#define BUFFER(name, scope, type, elements, doc) \
    bytes += (double)(elements) * sizeof(type) * (scope ? (double)L : 1);
#include "trainer/buffers.def"
    return bytes;
}

int model_check_memory(const Sizes *s)
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

/* Places the weights of one kind after `at`, each on a cache line of the bf16 copy. */
static int64_t place(Model *m, int is_matrix, int64_t at)
{
    for (WeightId id = 0; id < WEIGHT_COUNT; id++) {
        if (weight_table[id].is_matrix != is_matrix)
            continue;
        for (int64_t l = 0; l < model_layers(m, id); l++) {
            int64_t n = weight_elements(id, &m->sizes);
            m->offset[id][l] = at;
            m->parameters += n;
            at += round_up(n, 32);
        }
    }
    return at;
}

static int64_t count_active(const Model *m)
{
    const Sizes *s = &m->sizes;
    return m->parameters - s->L * (s->E - s->K) * 3 * s->H * s->F;
}

int model_new(Model *m, const Config *c)
{
    *m = (Model){.sizes = model_sizes(c)};
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        if (!(m->offset[id] = calloc((size_t)model_layers(m, id), sizeof(int64_t))))
            return out_of_memory();
    m->matrices = place(m, MATRIX, 0);
    m->count = round_up(place(m, GAIN, m->matrices), NORM_ROW);
    m->active = count_active(m);
    m->master = allocate(m->count, sizeof(float));
    m->gradient = allocate(m->count, sizeof(float));
    m->first = allocate(m->count, sizeof(float));
    m->second = allocate(m->count, sizeof(float));
    m->compute = allocate(m->count, sizeof(uint16_t));
    return m->master && m->gradient && m->first && m->second && m->compute ? 0 : out_of_memory();
}

void model_free(Model *m)
{
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        free(m->offset[id]);
    free(m->master);
    free(m->gradient);
    free(m->first);
    free(m->second);
    free(m->compute);
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

static int new_routes(Buffers *b, const Sizes *s)
{
    b->route = calloc((size_t)s->L, sizeof *b->route);
    for (int64_t l = 0; b->route && l < s->L; l++)
        if (!(b->route[l] = moe_route_new(s->T, s->K, s->E, s->T * s->K)))
            return out_of_memory();
    return b->route ? 0 : out_of_memory();
}

int buffers_new(Buffers *b, const Sizes *s)
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
