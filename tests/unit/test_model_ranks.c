/* Models on several ranks: small random ones are trained for a step by one rank with all sequences, and by ranks with some of them
 * each, which share the experts. Losses, the norm, gradients and new weights are those of the one. */
#include "model_fixture.h"
#include "ranks_fixture.h"
#include "step/passes.h"

#include <math.h>
#include <stdlib.h>

enum { MICRO = 2 };

/* What a test varies. */
typedef struct RankCase {
    const char *config;
    int64_t ep, dp, sequences, positions; /* of a rank's micro-batch */
    int64_t tp;                           /* 0: 1 */
    int chosen;                           /* experts that all tokens are driven to; 0: the router decides */
    int64_t first;                        /* of them */
    int recompute;                        /* the ranks repeat all modules in the backward */
    AuxScope scope; /* of the balance loss; over a group it is that of the one rank's micro-batch */
} RankCase;

/* The tokens of one run: those of the rank at this place of dp. */
typedef struct RankTokens {
    int64_t vocab, place, micro;
} RankTokens;

typedef struct Trained {
    Program *setup, *step;
    Store *stores[MAX_RANKS];
    Run *setups[MAX_RANKS], *steps[MAX_RANKS];
    RankTokens tokens[MAX_RANKS];
    int64_t ranks;
} Trained;

typedef struct RankTest {
    const RankCase *c;
    ModelFixture f;
    ModelConfig alone_config;
    Ranks ranks;
    ModelShards shards;
    Trained alone, shared;
} RankTest;

/* ---- programs ---- */

static Recipe recipe(RankTest *t, const char *name, const Ranks *ranks, int train)
{
    Recorder *r = recorder_new(t->f.arena, t->f.kernels, name, train);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        record_group(r, a, ranks->members[a]);
    const int alone = ranks->number == 1;
    Recipe m = recipe_of(t->f.arena, r, name, alone ? &t->alone_config : &t->f.config, MOEC_F32,
                         t->c->sequences * (alone ? t->c->dp : 1), t->c->positions);
    m.balanced = 1;
    return m;
}

static Trained record_trained(RankTest *t, const Ranks *ranks)
{
    Recipe setup = recipe(t, "setup", ranks, 0), step = recipe(t, "step", ranks, 1);
    recipe_setup(&setup);
    recipe_step(&step, MICRO);
    return (Trained){.setup = fixture_finish(&setup), .step = fixture_finish(&step), .ranks = ranks->number};
}

static void place(ModelFixture *f, Program *p)
{
    assert_int_equal(kernels_add_work(f->kernels, p), 0);
    memory_place(p);
    const char *error = step_verify(p, f->kernels);
    if (error)
        fail_msg("%s", error);
}

/* Token i of a micro-batch of all ranks. */
static int32_t token(const RankTokens *t, int64_t i)
{
    return (int32_t)((t->micro * 5 + i * i * 7 + i) % t->vocab);
}

static int next_tokens(void *self, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    RankTokens *t = self;
    const int64_t tokens = bytes[0] / 4;
    (void)n;
    for (int64_t i = 0; i < tokens; i++) {
        ((int32_t *)buffers[0])[i] = token(t, t->place * tokens + i);
        ((int32_t *)buffers[1])[i] = token(t, t->place * tokens + i + 1);
        ((float *)buffers[2])[i] = 1;
    }
    t->micro++;
    return 0;
}

static Run *new_run(RankTest *t, Program *p, Store *s, const RunOptions *o)
{
    const char *error;
    Run *r = run_new(p, t->f.kernels, s, o, &error);
    if (!r)
        fail_msg("%s", error);
    return r;
}

static void start(RankTest *t, Trained *k, RankThread *threads)
{
    place(&t->f, k->setup), place(&t->f, k->step);
    for (int64_t i = 0; i < k->ranks; i++) {
        k->stores[i] = store_new();
        k->tokens[i] = (RankTokens){t->f.config.vocab, threads ? ranks_place(&t->ranks, AXIS_dp, i) : 0, 0};
        const RunOptions o = {.threads = 1,
                              .source = {next_tokens, &k->tokens[i]},
                              .door = {threads ? ranks_exchange : NULL, threads ? &threads[i] : NULL, NULL}};
        k->setups[i] = new_run(t, k->setup, k->stores[i], &o);
        k->steps[i] = new_run(t, k->step, k->stores[i], &o);
    }
}

static void stop(Trained *k)
{
    for (int64_t i = 0; i < k->ranks; i++) {
        run_free(k->setups[i]), run_free(k->steps[i]);
        store_free(k->stores[i]);
    }
}

/* ---- weights ---- */

/* Some experts are so probable that all tokens choose them. */
static void drive(const RankTest *t, const ModelWeight *w, float *at)
{
    for (int64_t e = 0; w->id == MODEL_bias && e < t->c->chosen; e++)
        at[t->c->first + e] = 100;
}

/* Where a rank keeps its masters of the weight. */
static float *kept(const RankTest *t, int64_t rank, const ModelWeight *w, const WeightShard *s)
{
    const Store *store = t->shared.stores[rank];
    if (s->shard == POOL_NONE)
        return store_at(store, w->name);
    float *shard =
        store_at(store, arena_printf(t->f.arena, SHARD_NAME, pool_table[s->shard].name, SHARD_MASTERS));
    return shard + s->at;
}

static void draw(RankTest *t)
{
    Random random = random_new(11);
    for (uint32_t i = 0; i < t->f.weights.len; i++) {
        const ModelWeight *w = &t->f.weights.at[i];
        float *whole = store_at(t->alone.stores[0], w->name);
        for (int64_t j = 0; j < model_weight_elements(w); j++)
            whole[j] = (float)(w->value + w->deviation * random_normal(&random));
        drive(t, w, whole);
        for (int64_t r = 0; r < t->shared.ranks; r++) {
            const WeightShard s = model_weight_shard(&t->shards, &t->ranks, r, w, i);
            float *at = kept(t, r, w, &s);
            for (int64_t j = s.begin; j < s.end; j++)
                at[j - s.begin] = whole[weight_part_at(&s.part, j)];
        }
    }
}

static void set_numbers(Store *s)
{
    static const struct {
        const char *name;
        float value;
    } numbers[] = {{"lr", 0.1F},    {"beta1", 0.9F}, {"beta2", 0.95F}, {"adam.eps", 1},
                   {"decay", 0.1F}, {"k1", 10},      {"k2", 20},       {"clip", 0.5F}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (store_at(s, numbers[i].name))
            *(float *)store_at(s, numbers[i].name) = numbers[i].value;
}

/* ---- comparisons ---- */

static double value(const Store *s, const char *name)
{
    const float *at = store_at(s, name);
    return at ? (double)*at : NAN;
}

/* The loss is the mean of the ranks'. */
static void compare_number(const RankTest *t, const char *name)
{
    const double wanted = value(t->alone.stores[0], name);
    double sum = 0;
    for (int64_t r = 0; r < t->shared.ranks; r++)
        sum += value(t->shared.stores[r], name) / (double)t->shared.ranks;
    if (isnan(wanted) && isnan(sum))
        return;
    if (!(fabs(sum - wanted) <= 1e-5 * (1e-2 + fabs(wanted))))
        fail_msg("%s: %.9g, on one rank %.9g", name, sum, wanted);
}

static void compare_numbers(const RankTest *t)
{
    static const char *const parts[] = {"balance", "z", "mtp"};
    compare_number(t, "norm");
    for (int m = 0; m < MICRO; m++) {
        compare_number(t, arena_printf(t->f.arena, "loss.m%d", m));
        for (int64_t l = 0; l < t->f.config.layers + t->f.config.mtp; l++)
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                compare_number(t, arena_printf(t->f.arena, "%s.L%lld.m%d", parts[i], (long long)l, m));
    }
}

static void compare_elements(const RankTest *t, const char *what, const ModelWeight *w, const float *got,
                             const float *wanted)
{
    double largest = 0;
    for (int64_t j = 0; j < model_weight_elements(w); j++)
        largest = fmax(largest, fabs((double)wanted[j]));
    for (int64_t j = 0; j < model_weight_elements(w); j++)
        if (!(fabs((double)(got[j] - wanted[j])) <= 1e-5 * largest + 1e-12))
            fail_msg("%s of %s [%lld]: %.9g, on one rank %.9g (the largest is %g): ep %lld of %lld ranks, %s",
                     what, w->name, (long long)j, (double)got[j], (double)wanted[j], largest,
                     (long long)t->c->ep, (long long)t->shared.ranks, t->c->config);
}

/* What each rank has added up of its own rows, added up over those that have the weight. */
static void compare_gradient(const RankTest *t, const ModelWeight *w)
{
    const char *name = arena_printf(t->f.arena, "gradient.%s", w->name);
    float *sum = calloc((size_t)model_weight_elements(w), sizeof *sum);
    for (int64_t r = 0; r < t->shared.ranks; r++) {
        const float *at = run_at(t->shared.steps[r], name);
        const WeightPart part = model_weight_part(&t->ranks, r, w);
        for (int64_t j = 0; j < part.elements; j++)
            sum[weight_part_at(&part, j)] += at[j];
    }
    compare_elements(t, "gradient", w, sum, run_at(t->alone.steps[0], name));
    free(sum);
}

/* What the ranks keep of it. Together they have all of it, and a share of it where it is in shards. */
static void compare_weight(const RankTest *t, const ModelWeight *w, uint32_t i)
{
    const int64_t n = model_weight_elements(w);
    const float *wanted = store_at(t->alone.stores[0], w->name);
    float *got = malloc((size_t)n * sizeof *got);
    int64_t keepers = 0;
    for (int64_t j = 0; j < n; j++)
        got[j] = NAN;
    for (int64_t r = 0; r < t->shared.ranks; r++) {
        const WeightShard s = model_weight_shard(&t->shards, &t->ranks, r, w, i);
        const float *at = kept(t, r, w, &s);
        for (int64_t j = s.begin; j < s.end; j++) {
            float *to = &got[weight_part_at(&s.part, j)];
            if (!isnan(*to) && memcmp(to, &at[j - s.begin], sizeof *to) != 0)
                fail_msg("%s [%lld]: ranks keep other values", w->name, (long long)j);
            *to = at[j - s.begin];
        }
        keepers += s.end - s.begin;
    }
    const WeightPool pool = t->shards.weights[i].pool;
    if (keepers != (pool == POOL_NONE || pool == POOL_VECTORS ? n * t->shared.ranks : n))
        fail_msg("%s: %lld elements are kept %lld times", w->name, (long long)n, (long long)keepers);
    compare_elements(t, "new weight", w, got, wanted);
    free(got);
}

static void compare_weights(const RankTest *t)
{
    for (uint32_t i = 0; i < t->f.weights.len; i++) {
        compare_weight(t, &t->f.weights.at[i], i);
        if (model_weight_has_gradient(&t->f.weights.at[i]))
            compare_gradient(t, &t->f.weights.at[i]);
    }
}

/* ---- cases ---- */

/* A small model with what the seed gives it. `experts` is a multiple of the ranks that share them. */
static const char *random_config(Arena *a, Random *r, int64_t experts)
{
    const int grouped = (int)random_below(r, 2), layers = 1 + (int)random_below(r, 2),
              dense = (int)random_below(r, 2);
    const char *common = arena_printf(
        a,
        "\"vocab_size\": 23, \"hidden_size\": %d, \"moe_intermediate_size\": %d, \"num_hidden_layers\": %d, "
        "\"num_experts_per_tok\": %d, \"max_position_embeddings\": 32, \"router_aux_loss_coef\": 0.05, "
        "\"aux_loss_scope\": \"sequence\", \"initializer_range\": 0.3",
        16 + 8 * (int)random_below(r, 2), 8 + (int)random_below(r, 9), layers + dense,
        1 + (int)random_below(r, 4));
    if (grouped)
        return arena_printf(
            a,
            "{\"model_type\": \"moe\", %s, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
            "\"n_routed_experts\": %d, \"tie_word_embeddings\": %s, \"router_enable_expert_bias\": true}",
            common, (int)experts, random_below(r, 2) ? "true" : "false");
    return arena_printf(
        a,
        "{\"model_type\": \"pangu_ultra_moe\", %s, \"intermediate_size\": 20, \"num_attention_heads\": 2, "
        "\"num_dense_layers\": %d, \"num_mtp_layers\": %d, \"attention_kv_lora_dim\": 10, "
        "\"attention_q_lora_dim\": 12, "
        "\"attention_qk_dim\": 6, \"attention_qk_rope_dim\": 4, \"attention_v_dim\": 6, "
        "\"num_routed_experts\": %d, "
        "\"num_shared_experts\": %d, \"n_group\": 1, \"topk_group\": 1, \"sandwich_norm\": %s, "
        "\"router_enable_expert_bias\": true, \"router_z_loss_coef\": 0.01}",
        common, dense, (int)random_below(r, 2), (int)experts, (int)random_below(r, 2),
        random_below(r, 2) ? "true" : "false");
}

/* ---- tests ---- */

static void record_case(RankTest *t, const RankCase *c, KernelSet *kernels)
{
    Arena *a = arena_new();
    *t = (RankTest){.c = c, .f = {.arena = a, .kernels = kernels}};
    const char *error = model_config_read(a, "case", c->config, strlen(c->config), &t->f.config, NULL);
    if (!error)
        error =
            ranks_plan(a, c->dp * (c->tp ? c->tp : 1), &(RanksAsked){.ep = c->ep, .tp = c->tp}, &t->ranks);
    if (error)
        fail_msg("%s: %s", c->config, error);
    const Ranks one = ranks_one();
    t->f.weights = model_weights(a, &t->f.config);
    t->shards = model_shards(a, &t->f.weights, t->ranks.members);
    t->alone_config = t->f.config;
    t->f.config.aux_scope = c->scope;
    t->alone_config.aux_scope = c->scope == AUX_SEQUENCE ? AUX_SEQUENCE : AUX_MICRO_BATCH;
    t->alone = record_trained(t, &one);
    t->shared = record_trained(t, &t->ranks);
    error = step_passes(t->shared.step,
                        (const char *const[PASS_COUNT]){[PASS_recompute] = c->recompute ? "all" : NULL});
    if (error)
        fail_msg("%s", error);
}

static void run_alone(RankTest *t)
{
    fixture_go(t->alone.setups[0]);
    set_numbers(t->alone.stores[0]);
    fixture_go(t->alone.steps[0]);
}

/* All ranks together: a program of any phase may exchange. */
static void go_together(RankTest *t, Run *const *runs, RankThread *threads)
{
    for (int64_t i = 0; i < t->shared.ranks; i++)
        threads[i].run = runs[i];
    if (ranks_go(threads, t->shared.ranks))
        for (int64_t i = 0; i < t->shared.ranks; i++)
            print_error("rank %lld: %s\n", (long long)i, run_error(runs[i]));
    for (int64_t i = 0; i < t->shared.ranks; i++)
        assert_false(threads[i].failed);
}

static void run_shared(RankTest *t, RankThread *threads)
{
    go_together(t, t->shared.setups, threads);
    for (int64_t i = 0; i < t->shared.ranks; i++)
        set_numbers(t->shared.stores[i]);
    go_together(t, t->shared.steps, threads);
}

static void check_text(RankTest *t, Program *p)
{
    Text once = {.arena = t->f.arena}, twice = {.arena = t->f.arena};
    const char *error;
    step_print(p, &once);
    Program *again = step_read(t->f.arena, text_string(&once), once.len, &error);
    if (!again)
        fail_msg("%s", error);
    memory_lifetimes(again);
    step_print(again, &twice);
    assert_string_equal(text_string(&once), text_string(&twice));
}

static void run_case(RankTest *t)
{
    RankWorld world;
    RankThread threads[MAX_RANKS];
    ranks_open(&world, &t->ranks);
    for (int64_t i = 0; i < t->shared.ranks; i++)
        threads[i] = (RankThread){.world = &world, .number = i};
    start(t, &t->alone, NULL), start(t, &t->shared, threads);
    check_text(t, t->shared.step);
    draw(t);
    run_alone(t);
    run_shared(t, threads);
    compare_numbers(t), compare_weights(t);
    stop(&t->alone), stop(&t->shared);
    ranks_close(&world);
}

/* All cases share their kernels, so that each is compiled once. */
static void run_cases(const RankCase *cases, size_t n)
{
    KernelSet *kernels = kernels_open("act=f32");
    RankTest *tests = calloc(n, sizeof *tests);
    if (recipe_add_sources(kernels))
        fail_msg("%s", kernels_error(kernels));
    for (size_t i = 0; i < n; i++)
        record_case(&tests[i], &cases[i], kernels);
    if (kernels_compile(kernels))
        fail_msg("%s", kernels_error(kernels));
    for (size_t i = 0; i < n; i++) {
        run_case(&tests[i]);
        arena_free(tests[i].f.arena);
    }
    free(tests);
    kernels_close(kernels);
}

/* Odd numbers of tokens, experts without rows, all tokens to one expert of each choice, a rank that receives no row. */
static void ranks_share_experts(void **state)
{
    (void)state;
    const RankCase cases[] = {
        {fixture_pangu, .ep = 2, .dp = 2, .sequences = 1, .positions = 7},
        {fixture_pangu, .ep = 3, .dp = 6, .sequences = 1, .positions = 3},
        {fixture_grouped, .ep = 4, .dp = 4, .sequences = 2, .positions = 5},
        {fixture_pangu, .ep = 2, .dp = 4, .sequences = 1, .positions = 5, .chosen = 3},
        {fixture_pangu, .ep = 2, .dp = 2, .sequences = 1, .positions = 5, .chosen = 2, .first = 4},
        {fixture_pangu, .ep = 2, .dp = 2, .sequences = 1, .positions = 5, .scope = AUX_EP_GROUP},
        {fixture_pangu, .ep = 2, .dp = 4, .sequences = 1, .positions = 3, .scope = AUX_DP_GROUP},
        {fixture_pangu, .ep = 2, .dp = 2, .sequences = 1, .positions = 5, .recompute = 1},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
}

/* Heads and columns over tp, which extends ep. */
static void ranks_share_heads(void **state)
{
    (void)state;
    const RankCase cases[] = {
        {fixture_pangu, .ep = 1, .dp = 1, .tp = 2, .sequences = 2, .positions = 7},
        {fixture_pangu, .ep = 1, .dp = 1, .tp = 2, .sequences = 1, .positions = 6, .scope = AUX_MICRO_BATCH},
        {fixture_grouped, .ep = 2, .dp = 4, .tp = 2, .sequences = 2, .positions = 5},
        {fixture_grouped, .ep = 2, .dp = 2, .tp = 2, .sequences = 1, .positions = 4, .scope = AUX_EP_GROUP,
         .recompute = 1},
        {fixture_pangu, .ep = 1, .dp = 3, .tp = 2, .sequences = 1, .positions = 4, .scope = AUX_DP_GROUP},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
}

/* Masters and moments in shards: those of experts over the ranks that have the same, of heads over dp, of the others over all. */
static void ranks_share_the_optimizer(void **state)
{
    (void)state;
    const RankCase cases[] = {
        {fixture_pangu, .ep = 1, .dp = 3, .sequences = 1, .positions = 5},
        {fixture_grouped, .ep = 1, .dp = 2, .tp = 1, .sequences = 1, .positions = 6},
        {fixture_pangu, .ep = 2, .dp = 8, .sequences = 1, .positions = 3},
        {fixture_pangu, .ep = 1, .dp = 4, .tp = 2, .sequences = 1, .positions = 4},
        {fixture_grouped, .ep = 2, .dp = 4, .tp = 2, .sequences = 1, .positions = 4},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
}

static void random_models(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    enum { CASES = 2 }; /* as in other builds, but not all of them */
#else
    enum { CASES = 8 };
#endif
    RankCase cases[CASES];
    Random r = random_new(17);
    Arena *a = arena_new();
    for (int i = 0; i < CASES; i++) {
        const int64_t tp = 1 + (int64_t)random_below(&r, 2), ep = 1 << random_below(&r, tp == 2 ? 2 : 3),
                      experts = tp * ep * (1 + (int64_t)random_below(&r, 3));
        cases[i] = (RankCase){.tp = tp,
                              .ep = ep,
                              .dp = ep * (1 + (int64_t)random_below(&r, 2)),
                              .sequences = 1 + (int64_t)random_below(&r, 2),
                              .positions = tp * (2 / tp + 1 + (int64_t)random_below(&r, 4)),
                              .chosen = random_below(&r, 3) ? 0 : 2};
        cases[i].config = random_config(a, &r, experts < 4 ? 4 : experts);
    }
    run_cases(cases, CASES);
    arena_free(a);
}

/* What cannot be is refused when it is recorded, with the rule. */
static void refuse(const char *config, int64_t ep, int watched, const char *words)
{
    ModelFixture f = fixture_new(config);
    const char *error;
    Recorder *r = recorder_new(f.arena, f.kernels, "evaluation", 0);
    record_group(r, AXIS_dp, ep), record_group(r, AXIS_ep, ep);
    Recipe m = recipe_of(f.arena, r, "evaluation", &f.config, MOEC_F32, 1, 7);
    m.watched = watched;
    recipe_evaluation(&m, 1);
    assert_null(recorder_finish(r, &error));
    if (!strstr(error, words))
        fail_msg("`%s` does not say `%s`", error, words);
    fixture_free(&f);
}

static void refused(void **state)
{
    (void)state;
    refuse(fixture_pangu, 4, 0, "6 routed experts over ep of 4 ranks: each rank has as many whole ones");
    refuse(fixture_pangu, 2, 1, "an analysis looks at all experts on one rank, not over ep");
    char with_capacity[sizeof fixture_pangu + 32];
    snprintf(with_capacity, sizeof with_capacity, "{\"capacity_factor\": 1.25, %s", fixture_pangu + 1);
    refuse(with_capacity, 2, 0, "experts with a capacity are on one rank: over ep no row is dropped");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]); /* one of them */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_experts),
        cmocka_unit_test(ranks_share_heads),
        cmocka_unit_test(ranks_share_the_optimizer),
        cmocka_unit_test(random_models),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
