/* Parameters, operations and bytes of released models against published figures; weights by name, shape and start. */
#include "model/model.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static int set_up(void **state) { return !(*state = arena_new()); }

static int tear_down(void **state)
{
    arena_free(*state);
    return 0;
}

static ModelConfig load(Arena *a, const char *path)
{
    ModelConfig c;
    const char *error = model_config_load(a, path, &c, NULL);
    if (error)
        fail_msg("%s", error);
    return c;
}

static ModelConfig pangu(Arena *a) { return load(a, "examples/models/openpangu_ultra_moe_718b.json"); }

/* `want` in units of `unit`, rounded at its last digit. */
static void assert_rounded(double got, double unit, double want, double digit)
{
    if (!(fabs(got / unit - want) <= digit / 2 * 1.0001))
        fail_msg("%.17g is not %g", got / unit, want);
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.17g is not %.17g", got, want);
}

/* ---- parameters ---- */

static void pangu_has_718_billion_parameters(void **state)
{
    ModelConfig c = pangu(*state);
    ModelCount n = model_count(&c);
    int64_t v = model_vocabulary(&c);
    assert_rounded((double)n.all.total, 1e9, 719.09, 0.01);
    assert_rounded((double)(n.all.total - v), 1e9, 717.91, 0.01);
    assert_rounded((double)(n.all.total - 2 * v), 1e9, 716.73, 0.01);
    assert_rounded((double)n.all.active, 1e9, 40.37, 0.01);
    assert_rounded((double)(n.all.active - v), 1e9, 39.19, 0.01);
    assert_rounded((double)(n.all.active - 2 * v), 1e9, 38.01, 0.01);
    assert_rounded((double)n.dense_layer.total, 1e6, 621.28, 0.01);
    assert_rounded((double)n.expert_layer.total, 1e9, 12.3254, 0.0001);
    assert_rounded((double)n.expert_layer.active, 1e6, 623.25, 0.01);
    assert_rounded((double)n.all_mtp.total, 1e9, 12.44, 0.01);
    assert_rounded((double)n.module[MODULE_ATTENTION].total / 61, 1e6, 196.575, 0.001);
    assert_rounded((double)n.module[MODULE_ROUTER].total / 58, 1e6, 1.966, 0.001);
    assert_rounded((double)n.module[MODULE_EXPERTS].total / 58 / 256, 1e6, 47.186, 0.001);
    assert_rounded((double)n.module[MODULE_DENSE].total / 3, 1e6, 424.67, 0.01);
    assert_int_equal(n.mtp[MODULE_JOIN].total, 2 * 7680 * 7680);
}

static void deepseek_has_671_billion_parameters(void **state)
{
    ModelConfig c = load(*state, "examples/models/deepseek_v3.json");
    ModelCount n = model_count(&c);
    assert_rounded((double)n.all.total, 1e9, 671.0, 0.1);
    assert_rounded((double)(n.all.active - model_vocabulary(&c)), 1e9, 37, 1);
    /* The released files: 3.92 billion of bf16 and 680.57 of 8 bits, with the module that repeats embedding and head. */
    assert_rounded((double)(n.all.total + n.all_mtp.total + 2 * model_vocabulary(&c)), 1e9, 684.49, 0.01);
}

/* Mixtral 8x7B: 46.7 billion, 12.9 active. */
static void mixtral_has_47_billion_parameters(void **state)
{
    ModelConfig c = load(*state, "tests/models/mixtral/config.json");
    c.vocab = 32000, c.hidden = 4096, c.layers = 32, c.heads = 32, c.kv_heads = 8;
    c.head_dim = c.experts = 0, c.experts = 8, c.expert_width = 14336;
    assert_null(model_config_check(*state, "mixtral", &c));
    ModelCount n = model_count(&c);
    assert_rounded((double)n.all.total, 1e9, 46.7, 0.1);
    assert_rounded((double)n.all.active, 1e9, 12.9, 0.1);
}

/* Today's trainer says 4.93 M and 2.18 M. */
static void the_trainers_model_has_5_million(void **state)
{
    ModelConfig c = load(*state, "examples/models/trainer.json");
    ModelCount n = model_count(&c);
    assert_rounded((double)n.all.total, 1e6, 4.93, 0.01);
    assert_rounded((double)n.all.active, 1e6, 2.18, 0.01);
    assert_int_equal(n.dense_layer.total, 0);
    assert_int_equal(n.all_mtp.total, 0);
}

static void models_for_work(void **state)
{
    ModelConfig small = load(*state, "examples/models/small.json"),
                pilot = load(*state, "examples/models/pilot.json");
    ModelCount s = model_count(&small), p = model_count(&pilot);
    assert_rounded((double)s.all.total, 1e6, 57.97, 0.01);
    assert_rounded((double)(p.all.total + p.all_mtp.total), 1e6, 298.9, 0.1);
    assert_int_equal(pilot.experts, 64);
}

static void too_large_models_are_refused(void **state)
{
    ModelConfig c = pangu(*state);
    c.layers = 1 << 11, c.experts = 1 << 14, c.expert_width = 1 << 18, c.hidden = 1 << 17;
    const char *error = model_config_check(*state, "huge", &c);
    assert_non_null(error);
    assert_string_equal(
        error, "huge: the model has 3.46e+18 parameters: at most 1.13e+15 are counted without error");
}

/* ---- operations, bytes ---- */

static void operations_are_those_of_the_report(void **state)
{
    ModelConfig c = pangu(*state);
    ModelFlops causal = model_flops(&c, 4096, 1), full = model_flops(&c, 4096, 0),
               longer = model_flops(&c, 8192, 0);
    assert_rounded(causal.expert_layer, 1e9, 1.414, 0.001);
    assert_rounded(causal.head, 1e9, 2.359, 0.001);
    assert_rounded(causal.mtp, 1e9, 4.009, 0.001);
    assert_rounded(causal.training, 1e9, 277.9, 0.1);
    assert_rounded(full.expert_layer, 1e9, 1.582, 0.001);
    assert_rounded(full.mtp, 1e9, 4.177, 0.001);
    assert_rounded(full.training, 1e9, 309.1, 0.1);
    assert_rounded(longer.expert_layer, 1e9, 1.918, 0.001);
    assert_rounded(longer.mtp, 1e9, 4.513, 0.001);
    assert_rounded(longer.training, 1e9, 371.5, 0.1);
    assert_near(model_flops(&c, 8192, 1).training, full.training, 1);
}

static void bytes_follow_from_parameters(void **state)
{
    ModelConfig c = pangu(*state);
    ModelCount n = model_count(&c);
    ModelBytes b = model_bytes(&c, 2), f32 = model_bytes(&c, 4);
    double all = (double)(n.all.total + n.all_mtp.total);
    double gains = (double)(n.module[MODULE_NORM].total + n.mtp[MODULE_NORM].total),
           v = (double)model_vocabulary(&c);
    assert_near(b.masters, 4 * all, 0);
    assert_near(b.gradients, 4 * all, 0);
    assert_near(b.moments, 8 * all, 0);
    assert_near(b.copies, 4 * (all - gains - v) + 2 * v, 0);
    assert_near(f32.copies, 2 * b.copies, 0);
    assert_near(b.cache, 61 * (512 + 64) * 2, 0);
    assert_true(f32.activations > b.activations && f32.activations < 2 * b.activations);
}

/* The correction bias is kept but not trained. */
static void a_buffer_has_no_gradient(void **state)
{
    ModelConfig c = load(*state, "tests/models/deepseek_v3/config.json");
    ModelBytes b = model_bytes(&c, 4);
    assert_near(b.masters - b.gradients, 4 * (double)(c.experts * (c.layers - c.dense_layers)), 0);
}

static void counts_are_printed(void **state)
{
    ModelConfig c = pangu(*state);
    Text t = {.arena = *state};
    model_count_print(&c, 4096, &t);
    assert_non_null(strstr(t.at, "all, with one of embedding and head      717.9 B   39.19 B\n"));
    assert_non_null(strstr(t.at, "forward and backward                    277.9 GF\n"));
    assert_non_null(strstr(t.at, "masters                                2.661 TiB\n"));
}

/* ---- weights ---- */

static const ModelWeight *find(const ModelWeights *all, const char *name)
{
    for (uint32_t i = 0; i < all->len; i++)
        if (strcmp(all->at[i].name, name) == 0)
            return &all->at[i];
    fail_msg("there is no weight %s", name);
    return NULL;
}

static void assert_tensor(Arena *a, const ModelWeight *w, int64_t i, const char *name, int64_t rows,
                          int64_t columns)
{
    int64_t shape[2] = {0};
    uint32_t rank = model_tensor_shape(w, shape);
    assert_string_equal(model_tensor_name(a, w, i), name);
    assert_int_equal(rank, columns ? 2 : 1);
    assert_int_equal(shape[0], rows);
    if (columns)
        assert_int_equal(shape[1], columns);
}

static void pangus_norms_are_four(void **state)
{
    Arena *a = *state;
    ModelConfig c = pangu(a);
    ModelWeights all = model_weights(a, &c);
    assert_tensor(a, find(&all, "L60.attn_gain"), 0, "model.layers.60.input_layernorm.weight", 7680, 0);
    assert_tensor(a, find(&all, "L60.attn_post_gain"), 0, "model.layers.60.post_attention_layernorm.weight",
                  7680, 0);
    assert_tensor(a, find(&all, "L60.ffn_gain"), 0, "model.layers.60.pre_mlp_layernorm.weight", 7680, 0);
    assert_tensor(a, find(&all, "L60.ffn_post_gain"), 0, "model.layers.60.post_mlp_layernorm.weight", 7680,
                  0);
    assert_tensor(a, find(&all, "L60.wkv_a"), 0, "model.layers.60.self_attn.kv_a_proj_with_mqa.weight", 576,
                  7680);
    assert_tensor(a, find(&all, "L60.wkv_b"), 0, "model.layers.60.self_attn.kv_b_proj.weight", 32768, 512);
    assert_tensor(a, find(&all, "L3.wd"), 255, "model.layers.3.mlp.experts.255.down_proj.weight", 7680, 2048);
    assert_tensor(a, find(&all, "L2.dd"), 0, "model.layers.2.mlp.down_proj.weight", 7680, 18432);
    assert_tensor(a, find(&all, "head"), 0, "lm_head.weight", 153600, 7680);
}

static void modules_of_multi_token_prediction_are_layers(void **state)
{
    Arena *a = *state;
    ModelConfig c = pangu(a);
    ModelWeights all = model_weights(a, &c);
    const ModelWeight *join = find(&all, "L61.mtp_w"), *embed = find(&all, "embed"),
                      *head = find(&all, "head");
    assert_tensor(a, join, 0, "model.layers.61.eh_proj.weight", 7680, 15360);
    assert_int_equal(join->matrices, 2);
    assert_tensor(a, find(&all, "L61.mtp_e_gain"), 0, "model.layers.61.enorm.weight", 7680, 0);
    assert_tensor(a, find(&all, "L61.mtp_gain"), 0, "model.layers.61.shared_head.norm.weight", 7680, 0);
    assert_tensor(a, find(&all, "L61.wg"), 7, "model.layers.61.mlp.experts.7.gate_proj.weight", 2048, 7680);
    ModelNames of_embed = model_tensor_copies(a, &c, embed), of_head = model_tensor_copies(a, &c, head);
    assert_int_equal(of_embed.len, 1);
    assert_string_equal(of_embed.at[0], "model.layers.61.embed_tokens.weight");
    assert_int_equal(of_head.len, 1);
    assert_string_equal(of_head.at[0], "model.layers.61.shared_head.head.weight");
    assert_int_equal(model_tensor_copies(a, &c, join).len, 0);
}

static void weights_are_found_by_layer(void **state)
{
    ModelConfig c = load(*state, "examples/models/tiny.json");
    ModelWeights all = model_weights(*state, &c);
    assert_string_equal(model_weights_find(&all, MODEL_wd, 2)->name, "L2.wd");
    assert_string_equal(model_weights_find(&all, MODEL_head, -1)->name, "head");
    assert_null(model_weights_find(&all, MODEL_wd, 0)); /* a dense layer */
    assert_null(model_weights_find(&all, MODEL_mtp_w, 2));
}

static void weights_start_by_the_initializer(void **state)
{
    Arena *a = *state;
    ModelConfig tiny = load(a, "examples/models/tiny.json"),
                trainer = load(a, "examples/models/trainer.json");
    ModelConfig normal = pangu(a);
    ModelWeights t = model_weights(a, &tiny), f = model_weights(a, &trainer), n = model_weights(a, &normal);
    /* TinyInit, and gains c / sqrt(layers) */
    assert_near(find(&t, "L1.wg")->deviation, sqrt(1 / (2.0 * 64 * 3)), 1e-15);
    assert_near(find(&t, "L1.wd")->deviation, find(&t, "L1.wg")->deviation, 0);
    assert_near(find(&t, "embed")->deviation, 0.5, 0);
    assert_near(find(&t, "L1.attn_post_gain")->value, 0.283 / sqrt(3), 1e-15);
    assert_near(find(&t, "L1.ffn_post_gain")->value, 0.432 / sqrt(3), 1e-15);
    assert_near(find(&t, "L1.attn_gain")->value, 1, 0);
    assert_near(find(&t, "L1.bias")->value, 0, 0);
    /* the trainer's */
    assert_near(find(&f, "L0.wq")->deviation, 1 / 16.0, 0);
    assert_near(find(&f, "L0.wd")->deviation, 1 / sqrt(2 * 64 * 4.0), 1e-15);
    assert_near(find(&f, "L0.vd")->deviation, 1 / sqrt(2 * 192 * 4.0), 1e-15);
    assert_near(find(&f, "head")->deviation, 0.02, 0);
    assert_near(find(&n, "L5.wq_b")->deviation, 0.02, 0);
    assert_near(find(&n, "L5.attn_post_gain")->value, 1, 0);
}

static void only_matrices_decay(void **state)
{
    ModelConfig c = load(*state, "examples/models/tiny.json");
    ModelWeights all = model_weights(*state, &c);
    assert_true(model_weight_decays(find(&all, "embed")));
    assert_true(model_weight_decays(find(&all, "L1.router")));
    assert_false(model_weight_decays(find(&all, "L1.ffn_gain")));
    assert_false(model_weight_decays(find(&all, "L1.bias")));
    assert_false(model_weight_has_gradient(find(&all, "L1.bias")));
    assert_true(model_weight_has_gradient(find(&all, "final_gain")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pangu_has_718_billion_parameters),
        cmocka_unit_test(deepseek_has_671_billion_parameters),
        cmocka_unit_test(mixtral_has_47_billion_parameters),
        cmocka_unit_test(the_trainers_model_has_5_million),
        cmocka_unit_test(models_for_work),
        cmocka_unit_test(too_large_models_are_refused),
        cmocka_unit_test(operations_are_those_of_the_report),
        cmocka_unit_test(bytes_follow_from_parameters),
        cmocka_unit_test(a_buffer_has_no_gradient),
        cmocka_unit_test(counts_are_printed),
        cmocka_unit_test(pangus_norms_are_four),
        cmocka_unit_test(modules_of_multi_token_prediction_are_layers),
        cmocka_unit_test(weights_are_found_by_layer),
        cmocka_unit_test(weights_start_by_the_initializer),
        cmocka_unit_test(only_matrices_decay),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
