/* Prices of a step's tasks: a model with the same layers, but few of them, runs here. */
#include <stdio.h>
#include <string.h>

#include "trainer/plan.h"
#include "trainer/trainer.h"

enum { WARM_UP = 1, MEASURED = 5, EXPERT_LAYERS = 2 };

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

static int measure(Session *s, const PlanOptions *few, Prices *prices)
{
    RandomBatch batch = {random_new(1), s->model.vocab};
    Program *setup = session_record_setup(s, few->sequence), *step = plan_record(s, few);
    Run *first = NULL, *run = NULL;
    int bad = !setup || !step || session_compile(s) || !(first = session_start(s, setup, (BatchSource){0})) ||
              !(run = session_start(s, step, (BatchSource){next_random, &batch}));
    if (!bad) {
        weights_draw(s, 1);
        bad = session_run(first);
    }
    for (int i = 0; i < WARM_UP + MEASURED && !bad; i++) {
        bad = session_run(run);
        if (!bad && i >= WARM_UP)
            prices_note(prices, run);
    }
    run_free(first);
    run_free(run);
    return bad;
}

/* The few layers have every kind of task that all of them have. */
static int check_prices(const Prices *prices, const Program *p)
{
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (price_of(prices, p, &p->tasks.at[t]) < 0) {
            fprintf(stderr, "moe-train: no price of task %u (%s, layer %d)\n", t,
                    p->kernels.at[p->tasks.at[t].kernel].name, p->tasks.at[t].layer);
            return 1;
        }
    return 0;
}

int plan_measure(const ModelConfig *m, const PlanOptions *o, const Program *recorded, Prices *prices)
{
    const ModelConfig model = with_few_layers(m);
    PlanOptions few = *o;
    few.micro_batches = least(o->micro_batches, 2);
    Session s;
    const int bad = session_open(&s, &model, o->f32 ? MOEC_F32 : MOEC_BF16, (int)o->threads, 0) ||
                    measure(&s, &few, prices);
    session_close(&s);
    if (!bad && !o->emit)
        printf("prices: medians of %d steps of the same model with %lld of its %lld layers, here\n", MEASURED,
               (long long)model.layers, (long long)m->layers);
    return bad || check_prices(prices, recorded);
}
