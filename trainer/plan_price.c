/* Prices of a step's tasks: a model with the same layers, but few of them, runs here. */
#include <stdio.h>
#include <stdlib.h>

#include "trainer/complain.h"
#include "trainer/kept.h"
#include "trainer/plan.h"
#include "trainer/trainer.h"

enum { WARM_UP = 1, MEASURED = 8, EXPERT_LAYERS = 2 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A dense layer, and two with experts: gradients of inner layers are added as those of the whole model are. */
static ModelConfig with_few_layers(const ModelConfig *m)
{
    ModelConfig few = *m;
    few.dense_layers = least(m->dense_layers, m->dense_layers == m->layers ? EXPERT_LAYERS : 1);
    few.layers = few.dense_layers + least(m->layers - m->dense_layers, EXPERT_LAYERS);
    return few;
}

typedef struct RandomBatch {
    Random random;
    int64_t vocab;
} RandomBatch;

static int next_random(void *self, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    RandomBatch *b = self;
    (void)n;
    for (int64_t i = 0; i < bytes[0] / 4; i++) {
        ((int32_t *)buffers[0])[i] = (int32_t)random_below(&b->random, b->vocab);
        ((int32_t *)buffers[1])[i] = (int32_t)random_below(&b->random, b->vocab);
        ((float *)buffers[2])[i] = 1;
    }
    return 0;
}

static int64_t bytes_moved(const Program *p)
{
    int64_t bytes = 0;
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (task_lanes[p->tasks.at[t].kind] == LANE_disk)
            bytes += p->buffers.at[p->tasks.at[t].operands.at[0].buffer].bytes;
    return bytes;
}

typedef struct Measured {
    Run *plain, *swapped;
    double seconds[2][MEASURED]; /* of whole steps */
} Measured;

static int run_timed(Run *r, double *seconds)
{
    const double begin = clock_seconds();
    const int bad = session_run(r);
    *seconds = clock_seconds() - begin;
    return bad;
}

/* Both in turns, so that other work on the machine meets both. */
static int run_both(Measured *m, Prices *prices)
{
    int bad = 0;
    for (int i = -WARM_UP; i < MEASURED && !bad; i++) {
        const int at = i < 0 ? 0 : i;
        bad = run_timed(m->plain, &m->seconds[0][at]) || run_timed(m->swapped, &m->seconds[1][at]);
        if (!bad && i >= 0)
            prices_note(prices, m->plain);
    }
    if (!bad && run_was_gated(m->plain))
        return complain("the gradients of random tokens are not finite: no step can be measured");
    return bad;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Other work on the machine only ever adds to a time. */
static double lower_quartile(double *seconds)
{
    qsort(seconds, MEASURED, sizeof *seconds, ascending);
    return seconds[MEASURED / 4];
}

/* The lane of the file shares cores and memory with the kernels: what moving costs is the difference of whole steps. */
static void note_disk(Measured *m, const Program *swapped, Prices *prices)
{
    const double more = lower_quartile(m->seconds[1]) - lower_quartile(m->seconds[0]);
    const int64_t bytes = bytes_moved(swapped);
    prices->seconds_per_byte = bytes && more > 0 ? more / (double)bytes : 0;
}

/* An update that is computed but changes no weight. */
static void set_numbers(const Session *s)
{
    static const struct {
        const char *name;
        float value;
    } numbers[] = {{"lr", 0},    {"beta1", 0.9F}, {"beta2", 0.95F}, {"adam.eps", 1e-8F},
                   {"decay", 0}, {"clip", 1},     {"k1", 1},        {"k2", 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *session_number(s, numbers[i].name) = numbers[i].value;
}

static int measure(Session *s, const PlanOptions *few, Prices *prices)
{
    static const char *const all[PASS_COUNT] = {[PASS_swap] = "all"};
    RandomBatch batch = {random_new(1), s->model.vocab};
    const BatchSource source = {next_random, &batch};
    Program *setup = session_record_setup(s, few->sequence), *plain = plan_record(s, few),
            *swapped = plan_record(s, few);
    Run *first = NULL;
    Measured m = {0};
    int bad = !setup || !plain || !swapped || session_passes(swapped, all) || session_compile(s) ||
              !(first = session_start(s, setup, (BatchSource){0})) ||
              !(m.plain = session_start(s, plain, source)) ||
              !(m.swapped = session_start(s, swapped, source));
    if (!bad) {
        weights_draw(&s->weights, kept_slices(s->arena, s, KEPT_MASTERS), 1);
        set_numbers(s);
        bad = session_run(first) || run_both(&m, prices);
    }
    if (!bad)
        note_disk(&m, swapped, prices);
    run_free(first);
    run_free(m.plain);
    run_free(m.swapped);
    return bad;
}

/* The few layers have every kind of task that all of them have. */
static int check_prices(const Prices *prices, const Program *p)
{
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (price_of(prices, p, &p->tasks.at[t]) < 0)
            return complain("no price of task %u (%s, layer %d)", t,
                            p->kernels.at[p->tasks.at[t].kernel].name, p->tasks.at[t].layer);
    return 0;
}

int plan_measure(const ModelConfig *m, const PlanOptions *o, const Program *recorded, Prices *prices)
{
    const ModelConfig model = with_few_layers(m);
    PlanOptions few = *o;
    few.micro_batches = least(o->micro_batches, 2);
    Session s;
    int bad = session_open(&s, &model, o->f32 ? MOEC_F32 : MOEC_BF16, (int)o->threads, 0);
    s.swap_folder = o->swap_folder;
    bad = bad || measure(&s, &few, prices);
    session_close(&s);
    if (!bad && !o->emit)
        printf("prices: lower quartiles of %d steps of the same model with %lld of its %lld layers, here; "
               "%.0f ms "
               "for each GiB to and from the "
               "swap file\n",
               MEASURED, (long long)model.layers, (long long)m->layers,
               1e3 * 0x1p30 * prices->seconds_per_byte);
    return bad || check_prices(prices, recorded);
}
