/* config.json: what is read under which name, what every rule of config.def refuses, and that a written config reads back. */
#include "model/model.h"

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

static ModelConfig example(Arena *a, const char *name)
{
    ModelConfig c;
    ModelNames unknown = {0};
    const char *error = model_config_load(a, arena_printf(a, "examples/models/%s.json", name), &c, &unknown);
    if (error)
        fail_msg("%s", error);
    assert_int_equal(unknown.len, 0);
    return c;
}

static ModelConfig accepted(Arena *a, const char *text)
{
    ModelConfig c;
    const char *error = model_config_read(a, "config.json", text, strlen(text), &c, NULL);
    if (error)
        fail_msg("%s", error);
    return c;
}

static void refused(Arena *a, const char *text, const char *want)
{
    ModelConfig c;
    const char *error = model_config_read(a, "config.json", text, strlen(text), &c, NULL);
    if (!error)
        fail_msg("not refused; expected: %s", want);
    assert_string_equal(error, want);
}

static void assert_same(const ModelConfig *a, const ModelConfig *b)
{
    for (uint32_t i = 0; i < config_count; i++)
        if (model_config_value(a, &config_table[i]) != model_config_value(b, &config_table[i]))
            fail_msg("%s is %.17g and %.17g", config_table[i].field, model_config_value(a, &config_table[i]),
                     model_config_value(b, &config_table[i]));
}

/* A small model, and fields that come after its own. */
#define WITHOUT_EXPERTS                                                   \
    "{\"model_type\": \"moe\", \"vocab_size\": 32, \"hidden_size\": 16, " \
    "\"num_hidden_layers\": 2, \"max_position_embeddings\": 8, \"num_attention_heads\": 2"
#define GQA \
    WITHOUT_EXPERTS ", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 4"
#define MLA GQA ", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 4, \"v_head_dim\": 4"

/* ---- what is read ---- */

static void deepseek_is_read(void **state)
{
    ModelConfig c = example(*state, "deepseek_v3");
    assert_int_equal(c.arch, ARCH_deepseek_v3);
    assert_true(c.quantized);
    assert_true(model_is_latent(&c));
    assert_int_equal(c.vocab, 129280);
    assert_int_equal(c.hidden, 7168);
    assert_int_equal(c.layers, 61);
    assert_int_equal(c.dense_layers, 3);
    assert_int_equal(c.q_lora, 1536);
    assert_int_equal(c.head_dim, 192);
    assert_int_equal(c.shared_width, 2048);
    assert_int_equal(c.groups, 8);
    assert_int_equal(c.group_limit, 4);
    assert_int_equal(c.scoring, SCORE_SIGMOID);
    assert_true(c.correction_bias);
    assert_true(c.rope_interleave);
    assert_int_equal(c.rope_scaling, ROPE_YARN);
    assert_float_equal(c.rope_factor, 40, 0);
    assert_int_equal(c.rope_original, 4096);
    assert_float_equal(c.rope_mscale_all, 1, 0);
    assert_int_equal(c.mtp, 1);
    assert_true(model_is_dense(&c, 2));
    assert_false(model_is_dense(&c, 3));
    assert_false(model_is_dense(&c, 61));
}

static void pangu_is_read(void **state)
{
    ModelConfig c = example(*state, "openpangu_ultra_moe_718b");
    assert_int_equal(c.arch, ARCH_pangu_ultra_moe);
    assert_false(c.quantized);
    assert_true(c.sandwich_norm);
    assert_int_equal(c.vocab, 153600);
    assert_int_equal(c.hidden, 7680);
    assert_int_equal(c.dense_layers, 3);
    assert_int_equal(c.q_lora, 1536);
    assert_int_equal(c.kv_lora, 512);
    assert_int_equal(c.nope_dim, 128);
    assert_int_equal(c.rope_dim, 64);
    assert_int_equal(c.v_dim, 128);
    assert_int_equal(c.experts, 256);
    assert_int_equal(c.shared_experts, 1);
    assert_int_equal(c.mtp, 1);
    assert_int_equal(c.groups, 1);
    assert_int_equal(c.scoring, SCORE_SIGMOID);
    assert_false(c.correction_bias);
    assert_float_equal(c.rope_theta, 25.6e6, 0);
    assert_float_equal(c.eps, 1e-5, 0);
}

/* Newer files of openPangu have DeepSeek's names. */
static void pangu_has_two_sets_of_names(void **state)
{
    ModelConfig c =
        accepted(*state, "{\"architectures\": [\"PanguUltraMoEForCausalLM\"], \"vocab_size\": 32, "
                         "\"hidden_size\": 16, \"num_hidden_layers\": 2, "
                         "\"max_position_embeddings\": 8, \"num_attention_heads\": 2, "
                         "\"first_k_dense_replace\": 1, \"intermediate_size\": 8, "
                         "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, "
                         "\"moe_intermediate_size\": 4, \"kv_lora_rank\": 8, \"qk_nope_head_dim\": "
                         "4, \"qk_rope_head_dim\": 2, \"v_head_dim\": 6}");
    assert_int_equal(c.arch, ARCH_pangu_ultra_moe);
    assert_int_equal(c.dense_layers, 1);
    assert_int_equal(c.experts, 4);
    assert_int_equal(c.v_dim, 6);
    assert_int_equal(c.q_lora, 0);
}

static void qwen_is_read(void **state)
{
    ModelConfig c = accepted(
        *state,
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", \"vocab_size\": "
        "151936, "
        "\"hidden_size\": 2048, \"num_hidden_layers\": 48, \"max_position_embeddings\": 40960, "
        "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"head_dim\": 128, \"num_experts\": 128, "
        "\"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768, \"intermediate_size\": 6144, "
        "\"norm_topk_prob\": true, \"rope_theta\": 1000000.0, \"rope_scaling\": null, \"sliding_window\": "
        "4096, \"use_sliding_window\": false, \"mlp_only_layers\": [], \"decoder_sparse_step\": 1, "
        "\"router_aux_loss_coef\": 0.001}");
    assert_false(model_is_latent(&c));
    assert_int_equal(c.experts, 128);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.rope_dim, 128);
    assert_int_equal(c.v_dim, 128);
    assert_int_equal(c.nope_dim, 0);
    assert_true(c.qk_norm);
    assert_true(c.renormalise);
    assert_false(c.rope_interleave);
    assert_int_equal(c.scoring, SCORE_SOFTMAX);
    assert_int_equal(c.shared_width, 0);
    assert_float_equal(c.aux_coeff, 0.001, 0);
}

static void mixtral_is_read(void **state)
{
    ModelConfig c = accepted(
        *state, "{\"model_type\": \"mixtral\", \"vocab_size\": 32000, \"hidden_size\": 4096, "
                "\"num_hidden_layers\": 32, \"max_position_embeddings\": 32768, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": null, "
                "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"intermediate_size\": 14336, "
                "\"sliding_window\": null, \"rope_parameters\": {\"rope_type\": \"default\", "
                "\"rope_theta\": 1e6}}");
    assert_int_equal(c.expert_width, 14336);
    assert_int_equal(c.head_dim, 128);
    assert_float_equal(c.rope_theta, 1e6, 0);
    assert_false(c.qk_norm);
}

static void the_trainers_model_is_read(void **state)
{
    ModelConfig c = example(*state, "trainer");
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.shared_width, 192);
    assert_int_equal(c.shared_experts, 1);
    assert_int_equal(c.initializer, INIT_FAN_IN);
    assert_true(c.renormalise);
}

static void unknown_fields_are_listed(void **state)
{
    ModelConfig c;
    ModelNames unknown = {0};
    const char text[] =
        GQA ", \"attn_logit_softcapping\": 50, \"a\\nb\": 1, \"use_cache\": true, \"capacity_facto\": 2, "
            "\"rope_scaling\": {\"facto\": 2, \"type\": \"default\"}}";
    assert_null(model_config_read(*state, "config.json", text, strlen(text), &c, &unknown));
    assert_int_equal(unknown.len, 4);
    assert_string_equal(unknown.at[0], "\"attn_logit_softcapping\"");
    assert_string_equal(unknown.at[1], "\"a\\nb\"");
    assert_string_equal(unknown.at[2], "\"capacity_facto\" (did you mean `capacity_factor`?)");
    assert_string_equal(unknown.at[3], "\"rope_scaling.facto\" (did you mean `rope_scaling.factor`?)");
}

/* ---- what is refused ---- */

static void the_file_must_be_an_object(void **state)
{
    refused(*state, "", "config.json:1:0: '[' or '{' expected near end of file");
    refused(*state, "[]", "config.json: the file is []: must be an object");
    refused(
        *state, "{}",
        "config.json: model_type is missing: must be one of: moe, deepseek_v3, pangu_ultra_moe, qwen3_moe, "
        "mixtral");
    refused(*state, "{\"model_type\": \"llama\"}",
            "config.json: model_type is \"llama\": must be one of: moe, deepseek_v3, pangu_ultra_moe, "
            "qwen3_moe, mixtral");
    refused(*state, "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"\"}",
            "config.json: model_type is \"\": must be one of: moe, deepseek_v3, pangu_ultra_moe, "
            "qwen3_moe, mixtral");
    refused(*state, "{\"model_type\": \"moe\"}",
            "config.json: vocab_size is missing: rows of the embedding and columns of the head");
    refused(*state, GQA ", \"rope_scaling\": 4}", "config.json: rope_scaling is 4: must be an object");
    ModelConfig c;
    assert_string_equal(model_config_load(*state, "examples/models", &c, NULL),
                        "examples/models: cannot be read: Is a directory");
    assert_string_equal(model_config_load(*state, "no/such.json", &c, NULL),
                        "no/such.json: cannot be read: No such file or directory");
}

static void values_have_types_and_ranges(void **state)
{
    accepted(*state, GQA ", \"head_dim\": 8.0}");
    refused(*state, GQA ", \"head_dim\": \"8\"}", "config.json: head_dim is \"8\": must be a number");
    refused(*state, GQA ", \"head_dim\": 8.5}", "config.json: head_dim is 8.5: must be a whole number");
    refused(*state, GQA ", \"head_dim\": 1e300}", "config.json: head_dim is 1e300: must be a whole number");
    refused(*state, GQA ", \"head_dim\": -2}", "config.json: head_dim is -2: must be from 0 to 8192");
    refused(*state, GQA ", \"rms_norm_eps\": 0}", "config.json: rms_norm_eps is 0: must be from 1e-12 to 1");
    refused(*state, GQA ", \"norm_topk_prob\": 1}",
            "config.json: norm_topk_prob is 1: must be true or false");
    refused(*state, GQA ", \"scoring_func\": \"tanh\"}",
            "config.json: scoring_func is \"tanh\": must be one of: softmax sigmoid");
    refused(*state, GQA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
            "config.json: rope_scaling.type is \"dynamic\": must be one of: default linear yarn");
    refused(*state, GQA ", \"num_nextn_predict_layers\": 1, \"num_mtp_layers\": 2}",
            "config.json: num_mtp_layers is 2: must be the same as num_nextn_predict_layers");
}

/* Both objects may be there, as long as they do not contradict each other; messages have the name that is in the file. */
static void positions_have_an_older_and_a_newer_object(void **state)
{
    ModelConfig c =
        accepted(*state, GQA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
                             "\"rope_parameters\": {\"rope_type\": \"linear\", \"rope_theta\": 5e5}}");
    assert_int_equal(c.rope_scaling, ROPE_LINEAR);
    assert_float_equal(c.rope_factor, 2, 0);
    assert_float_equal(c.rope_theta, 5e5, 0);
    refused(*state,
            GQA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
                "\"rope_parameters\": {\"rope_type\": \"default\"}}",
            "config.json: rope_parameters.rope_type is \"default\": must be the same as rope_scaling.type");
    refused(*state,
            GQA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
                "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 4}}",
            "config.json: rope_parameters.factor is 4: must be the same as rope_scaling.factor");
    refused(*state, GQA ", \"rope_parameters\": {\"rope_theta\": \"big\"}}",
            "config.json: rope_parameters.rope_theta is \"big\": must be a number");
    refused(*state, GQA ", \"rope_parameters\": {\"rope_theta\": 0}}",
            "config.json: rope_parameters.rope_theta is 0: must be from 1 to 1000000000000");
    refused(*state, GQA ", \"rope_parameters\": {\"truncate\": false}}",
            "config.json: rope_parameters.truncate is false: must be true: yarn's range of angles is whole");
    refused(*state, GQA ", \"rope_scaling\": {}, \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
            "config.json: rope_parameters.partial_rotary_factor is 0.5: must be 1: whole heads are rotated");
}

static void what_is_not_built_is_refused(void **state)
{
    refused(*state, GQA ", \"hidden_act\": \"gelu\"}",
            "config.json: hidden_act is \"gelu\": feed-forward networks are SwiGLU: must be \"silu\"");
    refused(*state, GQA ", \"attention_bias\": true}",
            "config.json: attention_bias is true: must be false: projections have no bias");
    refused(*state, GQA ", \"attention_dropout\": 0.1}",
            "config.json: attention_dropout is 0.1: must be 0: there is no dropout");
    refused(
        *state, GQA ", \"topk_method\": \"greedy\"}",
        "config.json: topk_method is \"greedy\": must be \"noaux_tc\": groups by the sum of their two best "
        "scores");
    refused(*state, GQA ", \"mlp_only_layers\": [0]}",
            "config.json: mlp_only_layers is [0]: must be empty: dense layers come first");
    refused(*state, GQA ", \"sliding_window\": 4096}",
            "config.json: sliding_window is 4096: must be null: attention reads all positions");
    accepted(*state, GQA ", \"attention_dropout\": 0.0, \"attention_bias\": null}");
}

static void rules_between_fields_hold(void **state)
{
    refused(*state, GQA ", \"num_key_value_heads\": 3}",
            "config.json: num_key_value_heads is 3: must divide num_attention_heads");
    refused(
        *state, MLA ", \"num_key_value_heads\": 1}",
        "config.json: num_key_value_heads is 1: must be num_attention_heads: latent attention has no groups "
        "of heads");
    refused(*state, GQA ", \"head_dim\": 5}",
            "config.json: head_dim is 5: must be even: positions rotate pairs");
    refused(*state, GQA ", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 4, \"v_head_dim\": 4}",
            "config.json: qk_rope_head_dim is 0: must be at least 2: keys have no position otherwise");
    refused(*state, GQA ", \"kv_lora_rank\": 0, \"qk_nope_head_dim\": 4}",
            "config.json: qk_nope_head_dim is 4: must be 0 or left out without kv_lora_rank: attention is "
            "not latent");
    accepted(*state, GQA ", \"kv_lora_rank\": null, \"q_lora_rank\": null, \"v_head_dim\": 0}");
    refused(*state, GQA ", \"first_k_dense_replace\": 3}",
            "config.json: first_k_dense_replace is 3: must be at most num_hidden_layers");
    refused(*state, GQA ", \"first_k_dense_replace\": 1}",
            "config.json: intermediate_size is 0: must be positive: there are dense layers");
    refused(*state, GQA ", \"n_group\": 3}", "config.json: n_group is 3: must divide the number of experts");
    refused(*state, GQA ", \"n_group\": 8}",
            "config.json: n_group is 8: must leave at least two experts in a group, whose scores are added");
    refused(*state, GQA ", \"n_group\": 2, \"topk_group\": 3}",
            "config.json: topk_group is 3: must be at most n_group");
    refused(*state, MLA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}}",
            "config.json: rope_scaling.original_max_position_embeddings is 0: must be positive for yarn");
    refused(*state, GQA ", \"n_group\": 4, \"topk_group\": 0}",
            "config.json: topk_group is 0: must be from 1 to 16384");
    refused(*state, WITHOUT_EXPERTS "}",
            "config.json: n_routed_experts is 0: must be positive: there are layers that are not dense");
    refused(*state, WITHOUT_EXPERTS ", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2}",
            "config.json: moe_intermediate_size is 0: must be positive: there are experts");
    refused(*state, WITHOUT_EXPERTS ", \"n_routed_experts\": 8, \"moe_intermediate_size\": 2}",
            "config.json: num_experts_per_tok is 0: must be positive: there are experts");
    refused(
        *state,
        WITHOUT_EXPERTS ", \"n_routed_experts\": 8, \"moe_intermediate_size\": 2, \"num_experts_per_tok\": "
                        "5, \"n_group\": 4, \"topk_group\": 2}",
        "config.json: num_experts_per_tok is 5: must be at most the experts of the groups that a token may "
        "choose from");
    accepted(*state, WITHOUT_EXPERTS ", \"first_k_dense_replace\": 2, \"intermediate_size\": 8}");
    accepted(*state, MLA "}");
}

/* What a program fills in is checked by the same rules. */
static void a_config_is_made_by_hand(void **state)
{
    ModelConfig c = model_config_new(ARCH_deepseek_v3);
    assert_int_equal(c.groups, 8);
    assert_int_equal(c.scoring, SCORE_SIGMOID);
    assert_string_equal(model_config_check(*state, "mine", &c),
                        "mine: vocab_size is 0: must be from 2 to 16777216");
    c.vocab = 32, c.hidden = 16, c.layers = 1, c.positions = 8, c.heads = 2;
    c.kv_lora = 8, c.nope_dim = 4, c.rope_dim = 2, c.v_dim = 4;
    c.experts = 16, c.top_k = 2, c.expert_width = 4;
    assert_null(model_config_check(*state, "mine", &c));
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 6);
    assert_int_equal(c.shared_width, 4);
}

/* ---- what is written ---- */

static void a_written_config_reads_back(void **state)
{
    static const char *const names[] = {"deepseek_v3", "openpangu_ultra_moe_718b", "trainer", "tiny",
                                        "tiny_gqa"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ModelConfig c = example(*state, names[i]), again;
        Text t = {.arena = *state};
        ModelNames unknown = {0};
        model_config_write(&c, &t);
        const char *error = model_config_read(*state, "again", t.at, t.len, &again, &unknown);
        if (error)
            fail_msg("%s\n%s", error, t.at);
        assert_int_equal(again.arch, c.arch);
        assert_int_equal(unknown.len, 0);
        assert_same(&c, &again);
    }
}

static void names_are_those_of_the_architecture(void **state)
{
    ModelConfig c = example(*state, "openpangu_ultra_moe_718b");
    Text t = {.arena = *state};
    model_config_write(&c, &t);
    assert_non_null(strstr(t.at, "\"architectures\": [\n    \"PanguUltraMoEForCausalLM\"\n  ],\n"));
    assert_non_null(strstr(t.at, "\"attention_kv_lora_dim\": 512"));
    assert_null(strstr(t.at, "\"kv_lora_rank\""));
    assert_null(strstr(t.at, "rope_scaling"));
}

/* The norms of latents in transformers' code have their own epsilon. */
static void latents_have_their_own_epsilon(void **state)
{
    ModelConfig pangu = example(*state, "openpangu_ultra_moe_718b"),
                ours = accepted(*state, MLA ", \"rms_norm_eps\": 1e-3}");
    if (pangu.latent_eps != 1e-6 || pangu.eps != 1e-5 || ours.latent_eps != 1e-3)
        fail_msg("%g %g %g", pangu.latent_eps, pangu.eps, ours.latent_eps);
}

/* A 0 that means none would be a size to other readers. */
static void none_is_written_as_null(void **state)
{
    ModelConfig c = accepted(*state, MLA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2.5, "
                                         "\"original_max_position_embeddings\": 4}, \"rope_theta\": 5e5}");
    Text t = {.arena = *state};
    model_config_write(&c, &t);
    assert_non_null(strstr(t.at, "\"q_lora_rank\": null,\n"));
    assert_non_null(strstr(t.at, "\"rope_theta\": 500000,\n"));
    assert_non_null(strstr(t.at, "\"rope_scaling\": {\n"
                                 "    \"rope_type\": \"yarn\",\n"
                                 "    \"factor\": 2.5,\n"
                                 "    \"original_max_position_embeddings\": 4\n"
                                 "  },\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseek_is_read),
        cmocka_unit_test(pangu_is_read),
        cmocka_unit_test(pangu_has_two_sets_of_names),
        cmocka_unit_test(qwen_is_read),
        cmocka_unit_test(mixtral_is_read),
        cmocka_unit_test(the_trainers_model_is_read),
        cmocka_unit_test(unknown_fields_are_listed),
        cmocka_unit_test(the_file_must_be_an_object),
        cmocka_unit_test(values_have_types_and_ranges),
        cmocka_unit_test(positions_have_an_older_and_a_newer_object),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(rules_between_fields_hold),
        cmocka_unit_test(a_config_is_made_by_hand),
        cmocka_unit_test(a_written_config_reads_back),
        cmocka_unit_test(names_are_those_of_the_architecture),
        cmocka_unit_test(latents_have_their_own_epsilon),
        cmocka_unit_test(none_is_written_as_null),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
