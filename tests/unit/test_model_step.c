/* Whole small models as programs: recorded gradients against differences of the loss, the same bits wherever buffers lie, text. */
#include "model_fixture.h"

#include <math.h>
#include <stdlib.h>

static double mean_of(const ModelFixture *f, const char *name, int64_t layer)
{
    double sum = 0;
    for (int m = 0; m < FIXTURE_MICRO; m++) {
        const char *full = layer < 0 ? arena_printf(f->arena, "%s.m%d", name, m)
                                     : arena_printf(f->arena, "%s.L%lld.m%d", name, (long long)layer, m);
        const float *at = store_at(f->store, full);
        sum += at ? *at / FIXTURE_MICRO : 0;
    }
    return sum;
}

/* What the gradients are of, from the parts that the evaluation leaves. */
static double whole_loss(const ModelFixture *f)
{
    const ModelConfig *c = &f->config;
    double sum = mean_of(f, "loss", -1);
    for (int64_t l = 0; l < c->layers + c->mtp; l++)
        sum += c->aux_coeff * mean_of(f, "balance", l) + c->z_coeff * mean_of(f, "z", l) +
               (c->mtp ? c->mtp_coeff / (double)c->mtp * mean_of(f, "mtp", l) : 0);
    return sum;
}

typedef struct Programs {
    Run *setup, *evaluation, *gradients;
    Program *of_gradients;
} Programs;

static Programs start(ModelFixture *f)
{
    Recipe setup = fixture_recipe(f, "setup", 0), evaluation = fixture_recipe(f, "eval", 0),
           gradients = fixture_recipe(f, "gradients", 1);
    recipe_setup(&setup);
    recipe_evaluation(&evaluation, FIXTURE_MICRO);
    recipe_gradients(&gradients, FIXTURE_MICRO);
    Program *a = fixture_finish(&setup), *b = fixture_finish(&evaluation), *c = fixture_finish(&gradients);
    fixture_compile(f);
    Programs p = {fixture_start(f, a), fixture_start(f, b), fixture_start(f, c), c};
    fixture_draw(f);
    return p;
}

static void stop(Programs *p)
{
    run_free(p->setup);
    run_free(p->evaluation);
    run_free(p->gradients);
}

static double loss_moved(const ModelFixture *f, const Programs *p, const ModelWeight *w, const float *along,
                         double by)
{
    float *at = fixture_master(f, w);
    const int64_t n = model_weight_elements(w);
    float *kept = malloc((size_t)n * sizeof *kept);
    memcpy(kept, at, (size_t)n * sizeof *kept);
    for (int64_t i = 0; i < n; i++)
        at[i] += (float)by * (along[i] > 0 ? 1.0F : along[i] < 0 ? -1.0F : 0.0F);
    fixture_go(p->setup);
    fixture_go(p->evaluation);
    memcpy(at, kept, (size_t)n * sizeof *kept);
    free(kept);
    return whole_loss(f);
}

/* The slope along the signs of the gradient is the sum of its sizes. */
static void check_weight(const ModelFixture *f, const Programs *p, const ModelWeight *w)
{
    const float *d = run_at(p->gradients, arena_printf(f->arena, "gradient.%s", w->name));
    double sum = 0;
    for (int64_t i = 0; i < model_weight_elements(w); i++)
        sum += fabs(d[i]);
    assert_true(sum > 0);
    const double h = 2e-3 / (sum + 2);
    const double slope = (loss_moved(f, p, w, d, h) - loss_moved(f, p, w, d, -h)) / (2 * h);
    if (fabs(slope - sum) > 0.02 * sum + 1e-3)
        fail_msg("%s: recorded %g, by differences %g", w->name, sum, slope);
}

static void check_gradients(const char *config)
{
    ModelFixture f = fixture_new(config);
    Programs p = start(&f);
    fixture_go(p.setup);
    fixture_go(p.gradients);
    for (uint32_t i = 0; i < f.weights.len; i++)
        if (model_weight_has_gradient(&f.weights.at[i]))
            check_weight(&f, &p, &f.weights.at[i]);
    assert_true(p.of_gradients->arena_bytes <= memory_peak(p.of_gradients).bytes * 105 / 100);
    stop(&p);
    fixture_free(&f);
}

static void gradients_of_latents(void **state)
{
    (void)state;
    check_gradients(fixture_pangu);
}

static void gradients_of_groups(void **state)
{
    (void)state;
    check_gradients(fixture_grouped);
}

/* All buffers beside each other: nothing that the memory pass shares can matter. */
static void place_apart(Program *p)
{
    p->arena_bytes = 0;
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].place >= 0) {
            p->buffers.at[b].place = p->arena_bytes;
            p->arena_bytes += (p->buffers.at[b].bytes + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN;
        }
}

static void places_keep_the_bits(void **state)
{
    (void)state;
    ModelFixture f = fixture_new(fixture_pangu);
    Programs p = start(&f);
    const StepBuffer *all = &p.of_gradients->buffers.at[step_find(p.of_gradients, "gradients")];
    fixture_go(p.setup);
    fixture_go(p.gradients);
    void *first = malloc((size_t)all->bytes);
    memcpy(first, store_at(f.store, "gradients"), (size_t)all->bytes);
    place_apart(p.of_gradients);
    Run *apart = fixture_run(&f, p.of_gradients);
    fixture_go(apart);
    assert_memory_equal(first, store_at(f.store, "gradients"), (size_t)all->bytes);
    free(first);
    run_free(apart);
    stop(&p);
    fixture_free(&f);
}

static void text_reads_back(void **state)
{
    (void)state;
    ModelFixture f = fixture_new(fixture_pangu);
    Programs p = start(&f);
    Text once = {.arena = f.arena}, twice = {.arena = f.arena};
    const char *error;
    step_print(p.of_gradients, &once);
    Program *again = step_read(f.arena, text_string(&once), once.len, &error);
    if (!again)
        fail_msg("%s", error);
    memory_lifetimes(again);
    step_print(again, &twice);
    assert_string_equal(text_string(&once), text_string(&twice));
    assert_null(step_verify(again, f.kernels));
    stop(&p);
    fixture_free(&f);
}

/* A copy of fixture_pangu whose balance loss counts over another scope. */
static const char *with_scope(Arena *a, const char *scope)
{
    const char *at = strstr(fixture_pangu, "\"sequence\"");
    return arena_printf(a, "%.*s\"%s\"%s", (int)(at - fixture_pangu), fixture_pangu, scope,
                        at + strlen("\"sequence\""));
}

/* On one rank the group's tokens are those of the micro-batch: the counts are exchanged all the same, and no bit differs. */
static void groups_count_by_exchanges(void **state)
{
    (void)state;
    Arena *a = arena_new();
    void *first = NULL;
    for (int i = 0; i < 3; i++) {
        static const char *const scopes[] = {"micro_batch", "ep_group", "dp_group"},
                                 *const lines[] = {NULL, "allreduce ep forward L1 m0 reads x=count.n.L1.m0 ",
                                                   "allreduce dp forward L1 m1 reads x=count.n.L1.m1 "};
        ModelFixture f = fixture_new(with_scope(a, scopes[i]));
        Programs p = start(&f);
        Text text = {.arena = a};
        fixture_go(p.setup);
        fixture_go(p.gradients);
        step_print(p.of_gradients, &text);
        if (lines[i] ? !strstr(text_string(&text), lines[i])
                     : strstr(text_string(&text), "allreduce") != NULL)
            fail_msg("%s: exchanges of the counts", scopes[i]);
        const StepBuffer *all = &p.of_gradients->buffers.at[step_find(p.of_gradients, "gradients")];
        if (!first)
            first = memcpy(arena_alloc(a, (size_t)all->bytes), store_at(f.store, "gradients"),
                           (size_t)all->bytes);
        assert_memory_equal(first, store_at(f.store, "gradients"), (size_t)all->bytes);
        stop(&p);
        fixture_free(&f);
    }
    arena_free(a);
}

/* The loss of one rank of two: a partial sum, with counts that are whole; the exchange cannot be forgotten. */
static void balance_over_ranks(void **state)
{
    (void)state;
    enum { TOKENS = 12, CHOICES = 2, EXPERTS = 5 };
    ModelFixture f = fixture_new(fixture_pangu);
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        const char *error;
        const int64_t ids[] = {1, TOKENS, CHOICES}, scores[] = {1, TOKENS, EXPERTS};
        Recorder *r = recorder_new(f.arena, f.kernels, "balance", 0);
        record_group(r, AXIS_dp, 2);
        const BufferId id = record_tensor(r, OWNER_input, "id", MOEC_I32, 0, 3, ids),
                       c = record_tensor(r, OWNER_input, "c", MOEC_F32, 0, 3, scores);
        record_place(r, id, AXIS_dp, PLACED_PART(1));
        record_place(r, c, AXIS_dp, PLACED_PART(1));
        BufferId n = out(record(r, "count", ARG(id, id), SIZE(E, EXPERTS)), "n");
        if (!forgotten)
            n = record_exchange(r, TASK_allreduce, AXIS_dp, n, 0);
        record(r, "balance", ARG(c, c), ARG(n, n), ARG(share, record_scalar(r, "share", MOEC_F32, 1)),
               ARG(tokens, record_scalar(r, "tokens", MOEC_F32, 2 * TOKENS)));
        Program *p = recorder_finish(r, &error);
        if (forgotten) {
            assert_null(p);
            assert_non_null(strstr(
                error, "kernel balance over dp: equation of `loss`: it is not linear in a partial sum"));
            continue;
        }
        if (!p)
            fail_msg("%s", error);
        assert_int_equal(p->buffers.at[step_find(p, "balance.loss")].placed[AXIS_dp], PLACED_SUM);
        assert_null(step_verify(p, f.kernels));
    }
    fixture_free(&f);
}

/* A step whose gradients are above norm.limit computes their norm, and changes no weight. */
static void gate_before_the_update(void **state)
{
    (void)state;
    ModelFixture f = fixture_new(fixture_grouped);
    Recipe setup = fixture_recipe(&f, "setup", 0), step = fixture_recipe(&f, "step", 1);
    recipe_setup(&setup);
    recipe_step(&step, FIXTURE_MICRO);
    Program *a = fixture_finish(&setup), *b = fixture_finish(&step);
    fixture_compile(&f);
    Run *prepare = fixture_start(&f, a), *train = fixture_start(&f, b);
    fixture_draw(&f);
    *(float *)store_at(f.store, "lr") = 0.1F, *(float *)store_at(f.store, "clip") = 1;
    *(float *)store_at(f.store, "k1") = 1, *(float *)store_at(f.store, "k2") = 1;
    const float *gain = store_at(f.store, "final_gain"), *norm = store_at(f.store, "norm"), before = *gain;
    float *limit = store_at(f.store, "norm.limit");
    assert_int_equal(run_program(prepare), 0);
    *limit = 0;
    assert_int_equal(run_program(train), 0);
    assert_true(run_was_gated(train) && *norm > 0 && *gain == before);
    *limit = NAN;
    assert_int_equal(run_program(train), 0);
    assert_true(run_was_gated(train) && *gain == before);
    *limit = 1e9F;
    assert_int_equal(run_program(train), 0);
    assert_true(!run_was_gated(train) && *gain != before);
    run_free(prepare), run_free(train);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_latents),      cmocka_unit_test(gradients_of_groups),
        cmocka_unit_test(places_keep_the_bits),      cmocka_unit_test(text_reads_back),
        cmocka_unit_test(groups_count_by_exchanges), cmocka_unit_test(balance_over_ranks),
        cmocka_unit_test(gate_before_the_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
