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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_latents),
        cmocka_unit_test(gradients_of_groups),
        cmocka_unit_test(places_keep_the_bits),
        cmocka_unit_test(text_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
