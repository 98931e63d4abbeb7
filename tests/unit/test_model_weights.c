/* Weights of checkpoints that the `transformers` package made (tests/models): the same tensors, each element in its place;
 * written again, the same bytes; and what is refused. */
#include "model/model.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const models[] = {"deepseek_v3", "deepseek_v3_plain_q", "qwen3_moe", "qwen3_moe_tied",
                                     "mixtral"};
enum { MODELS = sizeof models / sizeof *models };

typedef struct WeightsFixture {
    Arena *arena;
    char folder[32];
} WeightsFixture;

static int set_up(void **state)
{
    static WeightsFixture t;
    t = (WeightsFixture){.arena = arena_new(), .folder = "/tmp/moec-weights-XXXXXX"};
    *state = &t;
    return !t.arena || !mkdtemp(t.folder);
}

static int tear_down(void **state)
{
    WeightsFixture *t = *state;
    char path[512];
    DIR *d = opendir(t->folder);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", t->folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    arena_free(t->arena);
    return rmdir(t->folder);
}

/* A model with masters of its own. */
typedef struct LoadedModel {
    ModelConfig config;
    ModelWeights weights;
    float **masters;
} LoadedModel;

static LoadedModel empty_model(Arena *a, const char *folder)
{
    LoadedModel m;
    const char *error = model_config_load(a, arena_printf(a, "%s/config.json", folder), &m.config, NULL);
    if (error)
        fail_msg("%s", error);
    m.weights = model_weights(a, &m.config);
    m.masters = arena_array(a, float *, m.weights.len);
    for (uint32_t i = 0; i < m.weights.len; i++)
        m.masters[i] = arena_array(a, float, model_weight_elements(&m.weights.at[i]));
    return m;
}

static const char *load(Arena *a, const char *folder, LoadedModel *m)
{
    *m = empty_model(a, folder);
    return model_weights_load(a, folder, &m->config, &m->weights, m->masters);
}

static LoadedModel loaded(Arena *a, const char *folder)
{
    LoadedModel m;
    const char *error = load(a, folder, &m);
    if (error)
        fail_msg("%s", error);
    return m;
}

static const char *save(Arena *a, const char *folder, const LoadedModel *m, StoredType type, uint64_t bytes)
{
    return model_weights_save(a, folder, &m->config, &m->weights, (const float *const *)m->masters, type,
                              bytes);
}

/* ---- each element in its place ---- */

/* Ours: matrix m, row r, column c. Theirs: tensor m (or one for all), row c, column r. */
static void check_matrix(const ModelWeight *w, const StoredTensor *t, int64_t part, const float *ours)
{
    int64_t rows = w->matrices / w->tensors * w->rows;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < w->columns; c++) {
            float theirs;
            stored_read(t, c * rows + r, 1, &theirs);
            if (ours[(part * rows + r) * w->columns + c] != theirs)
                fail_msg("%s [%lld, %lld, %lld] differs", w->name, (long long)part, (long long)r,
                         (long long)c);
        }
}

static void check_plain(const ModelWeight *w, const StoredTensor *t, const float *ours)
{
    for (int64_t i = 0; i < model_weight_elements(w); i++) {
        float theirs;
        stored_read(t, i, 1, &theirs);
        if (ours[i] != theirs)
            fail_msg("%s [%lld] differs", w->name, (long long)i);
    }
}

static void elements_are_in_their_places(void **state)
{
    Arena *a = ((WeightsFixture *)*state)->arena;
    for (int i = 0; i < MODELS; i++) {
        const char *folder = arena_printf(a, "tests/models/%s", models[i]);
        LoadedModel m = loaded(a, folder);
        SafeTensors s;
        uint32_t tensors = 0;
        assert_null(safetensors_open(a, folder, &s));
        for (uint32_t j = 0; j < m.weights.len; j++) {
            const ModelWeight *w = &m.weights.at[j];
            for (int64_t part = 0; part < w->tensors; part++, tensors++) {
                const StoredTensor *t = safetensors_find(&s, model_tensor_name(a, w, part));
                assert_non_null(t);
                if (model_weight_row(w)->form == MODEL_PACKED)
                    check_matrix(w, t, part, m.masters[j]);
                else
                    check_plain(w, t, m.masters[j]);
            }
        }
        assert_int_equal(tensors, s.tensors.len); /* all of theirs are ours */
        safetensors_close(&s);
    }
}

/* ---- written again ---- */

static void assert_same_elements(const LoadedModel *a, const LoadedModel *b)
{
    assert_int_equal(a->weights.len, b->weights.len);
    for (uint32_t i = 0; i < a->weights.len; i++)
        assert_memory_equal(a->masters[i], b->masters[i],
                            sizeof(float) * (size_t)model_weight_elements(&a->weights.at[i]));
}

static void assert_same_tensors(Arena *a, const char *theirs, const char *ours)
{
    SafeTensors x, y;
    assert_null(safetensors_open(a, theirs, &x));
    assert_null(safetensors_open(a, ours, &y));
    assert_int_equal(x.tensors.len, y.tensors.len);
    for (uint32_t i = 0; i < x.tensors.len; i++) {
        const StoredTensor *s = &x.tensors.at[i], *t = &y.tensors.at[i];
        assert_string_equal(s->name, t->name);
        assert_int_equal(s->rank, t->rank);
        if (strstr(s->name, "e_score_correction_bias"))
            continue; /* always f32 */
        assert_int_equal(s->type, t->type);
        assert_memory_equal(s->at, t->at, s->bytes);
    }
    safetensors_close(&x);
    safetensors_close(&y);
}

static void a_saved_model_is_the_loaded_one(void **state)
{
    static const StoredType types[MODELS] = {STORED_F32, STORED_BF16, STORED_F32, STORED_F16, STORED_BF16};
    WeightsFixture *t = *state;
    for (int i = 0; i < MODELS; i++) {
        const char *folder = arena_printf(t->arena, "tests/models/%s", models[i]);
        LoadedModel m = loaded(t->arena, folder), again;
        assert_null(save(t->arena, t->folder, &m, types[i], 1 << 20));
        again = loaded(t->arena, t->folder);
        assert_same_elements(&m, &again);
        assert_same_tensors(t->arena, folder, t->folder);
    }
}

static void a_large_model_is_cut_into_files(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3"), again;
    SafeTensors s;
    assert_null(save(t->arena, t->folder, &m, STORED_F32, 2000));
    assert_null(safetensors_open(t->arena, t->folder, &s));
    assert_true(s.files.len >= 4);
    assert_non_null(strstr(s.names.at[0], "/model-00001-of-0000"));
    safetensors_close(&s);
    again = loaded(t->arena, t->folder);
    assert_same_elements(&m, &again);
}

/* Extents beyond one block of the transposition, and not multiples of it. */
static void wide_matrices_are_transposed(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = empty_model(t->arena, "tests/models/mixtral"), again;
    m.config.vocab = 131, m.config.expert_width = 70, m.config.hidden = 134, m.config.head_dim = 0;
    m.config.heads = 67;
    assert_null(model_config_check(t->arena, "wide", &m.config));
    m.weights = model_weights(t->arena, &m.config);
    Random random = random_new(1);
    for (uint32_t i = 0; i < m.weights.len; i++) {
        int64_t n = model_weight_elements(&m.weights.at[i]);
        m.masters[i] = arena_array(t->arena, float, n);
        for (int64_t j = 0; j < n; j++)
            m.masters[i][j] = (float)random_normal(&random);
    }
    assert_null(save(t->arena, t->folder, &m, STORED_F32, 1 << 30));
    again = loaded(t->arena, t->folder);
    assert_same_elements(&m, &again);
    SafeTensors s;
    assert_null(safetensors_open(t->arena, t->folder, &s));
    for (uint32_t i = 0; i < m.weights.len; i++)
        if (m.weights.at[i].id == MODEL_wd)
            check_matrix(&m.weights.at[i],
                         safetensors_find(&s, model_tensor_name(t->arena, &m.weights.at[i], 3)), 3,
                         m.masters[i]);
    safetensors_close(&s);
}

static void some_values_are_one_file(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3");
    const float **values = arena_array(t->arena, const float *, m.weights.len);
    for (uint32_t i = 0; i < m.weights.len; i++)
        if (model_weight_has_gradient(&m.weights.at[i]))
            values[i] = m.masters[i];
    const char *path = arena_printf(t->arena, "%s/gradients.safetensors", t->folder);
    assert_null(model_weights_write(t->arena, path, &m.config, &m.weights, values, STORED_F32));
    SafeTensors s, all;
    assert_null(safetensors_open(t->arena, path, &s));
    assert_null(safetensors_open(t->arena, "tests/models/deepseek_v3", &all));
    assert_int_equal(s.tensors.len, all.tensors.len - 1);
    assert_null(safetensors_find(&s, "model.layers.1.mlp.gate.e_score_correction_bias"));
    for (uint32_t i = 0; i < s.tensors.len; i++)
        assert_memory_equal(s.tensors.at[i].at, safetensors_find(&all, s.tensors.at[i].name)->at,
                            s.tensors.at[i].bytes);
    safetensors_close(&all);
    safetensors_close(&s);
}

/* ---- modules of multi-token prediction ---- */

static void shared_tensors_are_repeated(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = empty_model(t->arena, "tests/models/deepseek_v3"), again;
    m.config.mtp = 1;
    m.weights = model_weights(t->arena, &m.config);
    m.masters = arena_array(t->arena, float *, m.weights.len);
    for (uint32_t i = 0; i < m.weights.len; i++)
        m.masters[i] = arena_array(t->arena, float, model_weight_elements(&m.weights.at[i]));
    m.masters[0][3] = 1;
    assert_null(save(t->arena, t->folder, &m, STORED_F32, 1 << 20));
    SafeTensors s;
    assert_null(safetensors_open(t->arena, t->folder, &s));
    assert_non_null(safetensors_find(&s, "model.layers.2.embed_tokens.weight"));
    assert_non_null(safetensors_find(&s, "model.layers.2.shared_head.head.weight"));
    assert_non_null(safetensors_find(&s, "model.layers.2.eh_proj.weight"));
    size_t at = (size_t)(safetensors_find(&s, "model.layers.2.embed_tokens.weight")->at - s.files.at[0].at);
    safetensors_close(&s);
    again = loaded(t->arena, t->folder);
    assert_same_elements(&m, &again);
    /* a copy that differs */
    FILE *f = fopen(arena_printf(t->arena, "%s/model.safetensors", t->folder), "r+b");
    fseek(f, (long)at, SEEK_SET);
    fputc(1, f);
    fclose(f);
    assert_string_equal(
        load(t->arena, t->folder, &again),
        arena_printf(t->arena,
                     "%s/model.safetensors: tensor model.layers.2.embed_tokens.weight differs from "
                     "model.embed_tokens.weight: this model has one for both",
                     t->folder));
}

/* ---- what is refused ---- */

static const char *load_as(WeightsFixture *t, const char *folder, LoadedModel *m)
{
    m->weights = model_weights(t->arena, &m->config);
    m->masters = arena_array(t->arena, float *, m->weights.len + 1);
    return model_weights_load(t->arena, arena_printf(t->arena, "tests/models/%s", folder), &m->config,
                              &m->weights, m->masters);
}

static void other_models_are_refused(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = empty_model(t->arena, "tests/models/qwen3_moe_tied");
    m.config.qk_norm = 0;
    assert_string_equal(
        load_as(t, "qwen3_moe_tied", &m),
        "tests/models/qwen3_moe_tied/model.safetensors: tensor model.layers.0.self_attn.k_norm.weight "
        "is superfluous: the config has no such weight\n"
        "tests/models/qwen3_moe_tied/model.safetensors: tensor model.layers.0.self_attn.q_norm.weight "
        "is superfluous: the config has no such weight\n"
        "tests/models/qwen3_moe_tied/model.safetensors: tensor model.layers.1.self_attn.k_norm.weight "
        "is superfluous: the config has no such weight\n"
        "tests/models/qwen3_moe_tied/model.safetensors: tensor model.layers.1.self_attn.q_norm.weight "
        "is superfluous: the config has no such weight");
    m.config.qk_norm = 1, m.config.tied = 0;
    assert_string_equal(
        load_as(t, "qwen3_moe_tied", &m),
        "tests/models/qwen3_moe_tied/model.safetensors: tensor lm_head.weight is missing: it is head");
    m.config.tied = 1, m.config.vocab = 12;
    assert_string_equal(
        load_as(t, "qwen3_moe_tied", &m),
        "tests/models/qwen3_moe_tied/model.safetensors: tensor model.embed_tokens.weight has shape "
        "[11, 8]: must be [12, 8]");
    m.config.vocab = 11, m.config.layers = 9;
    const char *error = load_as(t, "qwen3_moe_tied", &m);
    assert_non_null(
        strstr(error, "tensor model.layers.2.input_layernorm.weight is missing: it is L2.attn_gain\n"));
    assert_non_null(strstr(error, "\nand 127 more"));
    m.config.layers = 2, m.config.quantized = 1;
    assert_string_equal(
        load_as(t, "qwen3_moe_tied", &m),
        "tests/models/qwen3_moe_tied: config.json has a quantization_config: quantised weights are not read");
    m.config.quantized = 0;
    assert_null(load_as(t, "qwen3_moe_tied", &m)); /* without masters it is checked only */
}

static void what_is_not_finite_is_refused(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3");
    uint32_t i = 0;
    while (m.weights.at[i].tensors < 2)
        i++;
    const ModelWeight *w = &m.weights.at[i];
    m.masters[i][model_weight_elements(w) - 1] = NAN; /* of the last expert */
    assert_null(save(t->arena, t->folder, &m, STORED_F32, 1 << 20));
    assert_string_equal(
        load(t->arena, t->folder, &m),
        arena_printf(t->arena, "%s/model.safetensors: tensor %s has elements that are not finite: it is %s",
                     t->folder, model_tensor_name(t->arena, w, w->tensors - 1), w->name));
}

static void whole_numbers_are_refused(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3");
    assert_null(save(t->arena, t->folder, &m, STORED_F32, 1 << 20));
    const char *path = arena_printf(t->arena, "%s/model.safetensors", t->folder);
    FILE *f = fopen(path, "r+b");
    char header[4096];
    size_t n = fread(header, 1, sizeof header - 1, f);
    header[n] = '\0';
    char *at = strstr(header + 8, "F32");
    at[0] = 'I';
    fseek(f, 0, SEEK_SET);
    fwrite(header, 1, n, f);
    fclose(f);
    assert_string_equal(
        load(t->arena, t->folder, &m),
        arena_printf(t->arena,
                     "%s: tensor model.embed_tokens.weight has type I32: weights are F32, BF16 or F16",
                     path));
}

static Text bytes_of(Arena *a, const char *path)
{
    Text t = {.arena = a};
    MappedFile f;
    assert_null(file_map(a, path, &f));
    text_add_bytes(&t, (const char *)f.at, f.len);
    file_unmap(&f);
    return t;
}

static void write_bytes(const char *path, const Text *t, size_t len)
{
    FILE *f =
        fopen(path, "r+b"); /* in place: ext4 waits for the disk when a file is emptied and written again */
    assert_int_equal(fwrite(t->at, 1, len, f), len);
    assert_int_equal(fflush(f) | ftruncate(fileno(f), (off_t)len), 0);
    fclose(f);
}

/* A file that was cut off anywhere is refused; one with any byte changed is refused or read, and nothing crashes. */
static void check_damaged(WeightsFixture *t, const char *path)
{
    Text whole = bytes_of(t->arena, path);
    for (size_t i = 0; i < whole.len; i += 1 + i / 256) {
        ArenaMark mark = arena_mark(t->arena);
        LoadedModel m;
        write_bytes(path, &whole, i);
        if (!load(t->arena, t->folder, &m) && strspn(whole.at + i, " \n") < whole.len - i)
            fail_msg("%s is read although it ends after %zu bytes", path, i);
        whole.at[i] = (char)(whole.at[i] ^ 1 << i % 7);
        write_bytes(path, &whole, whole.len);
        load(t->arena, t->folder, &m);
        whole.at[i] = (char)(whole.at[i] ^ 1 << i % 7);
        arena_release(t->arena, mark);
    }
    write_bytes(path, &whole, whole.len);
}

static void damaged_files_are_refused(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3");
    assert_null(save(t->arena, t->folder, &m, STORED_BF16, 2500));
    SafeTensors s;
    assert_null(safetensors_open(t->arena, t->folder, &s));
    check_damaged(t, s.path);
    check_damaged(t, s.names.at[1]);
    safetensors_close(&s);
    m = loaded(t->arena, t->folder);
}

static void a_folder_must_be_writable(void **state)
{
    WeightsFixture *t = *state;
    LoadedModel m = loaded(t->arena, "tests/models/deepseek_v3");
    assert_string_equal(save(t->arena, "no/such", &m, STORED_F32, 1 << 20),
                        "no/such: cannot be made: No such file or directory");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(elements_are_in_their_places),    TEST(a_saved_model_is_the_loaded_one),
        TEST(a_large_model_is_cut_into_files), TEST(wide_matrices_are_transposed),
        TEST(some_values_are_one_file),        TEST(shared_tensors_are_repeated),
        TEST(other_models_are_refused),        TEST(what_is_not_finite_is_refused),
        TEST(whole_numbers_are_refused),       TEST(a_folder_must_be_writable),
        TEST(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
