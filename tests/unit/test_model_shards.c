/* What ranks keep of the weights of a model, in files that all of them fill: the bytes are those of one process with all weights, and
 * each rank takes its own back. */
#include "model/model.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

typedef struct ShardsTest {
    Arena *arena;
    char folder[32];
    ModelConfig config;
    ModelWeights weights;
    float **masters;
} ShardsTest;

/* Extents that no block of anything divides. */
static int set_up(void **state)
{
    static ShardsTest t;
    t = (ShardsTest){.arena = arena_new(), .folder = "/tmp/moec-shards-XXXXXX"};
    *state = &t;
    const char *error = model_config_load(t.arena, "tests/models/deepseek_v3/config.json", &t.config, NULL);
    t.config.hidden = 134, t.config.vocab = 131, t.config.expert_width = 70, t.config.dense_width = 66;
    t.config.mtp = 1;
    if (error || model_config_check(t.arena, "wide", &t.config) || !mkdtemp(t.folder))
        return 1;
    t.weights = model_weights(t.arena, &t.config);
    t.masters = arena_array(t.arena, float *, t.weights.len);
    Random random = random_new(3);
    for (uint32_t i = 0; i < t.weights.len; i++) {
        const int64_t n = model_weight_elements(&t.weights.at[i]);
        t.masters[i] = arena_array(t.arena, float, n);
        for (int64_t j = 0; j < n; j++)
            t.masters[i][j] = (float)random_normal(&random);
    }
    return 0;
}

static int tear_down(void **state)
{
    ShardsTest *t = *state;
    const int bad = system(arena_printf(t->arena, "rm -r %s", t->folder));
    arena_free(t->arena);
    return bad;
}

static const char *in(const ShardsTest *t, const char *name)
{
    return arena_printf(t->arena, "%s/%s", t->folder, name);
}

/* ---- ranks ---- */

/* What a rank keeps of all weights, with room for it. */
static WeightSlice *slices_of(const ShardsTest *t, const Ranks *r, int64_t rank)
{
    const ModelShards shards = model_shards(t->arena, &t->weights, r->members);
    WeightSlice *slices = arena_array(t->arena, WeightSlice, t->weights.len);
    for (uint32_t i = 0; i < t->weights.len; i++) {
        const WeightShard s = model_weight_shard(&shards, r, rank, &t->weights.at[i], i);
        slices[i] = (WeightSlice){s.part, s.begin, s.end, NULL};
        slices[i].at = arena_array(t->arena, float, s.end - s.begin + 1);
        for (int64_t j = s.begin; j < s.end; j++) {
            const int64_t there = weight_part_at(&s.part, j);
            assert_int_equal(weight_part_of(&s.part, there), j);
            slices[i].at[j - s.begin] = t->masters[i][there];
        }
        if (rank && (shards.weights[i].pool == POOL_NONE || shards.weights[i].pool == POOL_VECTORS))
            slices[i].at = NULL; /* all have it, the first one puts it */
    }
    return slices;
}

static void put_all(const ShardsTest *t, const Ranks *r, const char *folder, uint64_t file_bytes)
{
    assert_null(model_weights_make(t->arena, folder, &t->config, &t->weights, STORED_F32, file_bytes));
    for (int64_t rank = r->number; rank-- > 0;)
        assert_null(model_weights_put(t->arena, folder, &t->config, &t->weights, !rank, slices_of(t, r, rank),
                                      STORED_F32, file_bytes));
}

static void take_back(const ShardsTest *t, const Ranks *r, const char *folder)
{
    for (int64_t rank = 0; rank < r->number; rank++) {
        const WeightSlice *wanted = slices_of(t, r, rank);
        WeightSlice *got = slices_of(t, r, rank);
        for (uint32_t i = 0; i < t->weights.len; i++)
            for (int64_t j = got[i].begin; got[i].at && j < got[i].end; j++)
                got[i].at[j - got[i].begin] = NAN;
        assert_null(model_weights_take(t->arena, folder, &t->config, &t->weights, got));
        for (uint32_t i = 0; i < t->weights.len; i++)
            if (wanted[i].at)
                assert_memory_equal(got[i].at, wanted[i].at,
                                    (size_t)(wanted[i].end - wanted[i].begin) * sizeof(float));
    }
}

static void assert_same_file(const ShardsTest *t, const char *a, const char *b)
{
    MappedFile x, y;
    assert_null(file_map(t->arena, a, &x));
    assert_null(file_map(t->arena, b, &y));
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.at, y.at, x.len);
    file_unmap(&x), file_unmap(&y);
}

static void ranks_fill_the_files_of_one(void **state)
{
    const ShardsTest *t = *state;
    static const struct {
        int64_t number, tp, ep;
    } jobs[] = {{1, 1, 1}, {5, 1, 1}, {8, 2, 2}, {8, 2, 1}, {8, 1, 2}, {4, 1, 4}, {2, 2, 1}};
    assert_null(model_weights_save(t->arena, t->folder, &t->config, &t->weights,
                                   (const float *const *)t->masters, STORED_F32, UINT64_MAX));
    const char *one = arena_printf(t->arena, "%s.one", in(t, "model.safetensors"));
    assert_null(file_rename(t->arena, in(t, "model.safetensors"), one));
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        Ranks r;
        assert_null(
            ranks_plan(t->arena, jobs[i].number, &(RanksAsked){.tp = jobs[i].tp, .ep = jobs[i].ep}, &r));
        put_all(t, &r, t->folder, UINT64_MAX);
        assert_same_file(t, one, in(t, "model.safetensors"));
        take_back(t, &r, t->folder);
    }
}

/* What some ranks have put, others take, also from several files. */
static void other_ranks_take_them(void **state)
{
    const ShardsTest *t = *state;
    const Ranks one = ranks_one();
    Ranks many;
    assert_null(ranks_plan(t->arena, 8, &(RanksAsked){.tp = 2, .ep = 2}, &many));
    put_all(t, &many, t->folder, 100000);
    take_back(t, &one, t->folder);
    take_back(t, &many, t->folder);
}

/* A rank that finds no file, or no room, says which one. */
static void errors_name_the_file(void **state)
{
    const ShardsTest *t = *state;
    const Ranks one = ranks_one();
    assert_string_equal(model_weights_put(t->arena, "no/such", &t->config, &t->weights, 1,
                                          slices_of(t, &one, 0), STORED_F32, UINT64_MAX),
                        "no/such/model.safetensors: cannot be written: No such file or directory");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(ranks_fill_the_files_of_one),
        TEST(other_ranks_take_them),
        TEST(errors_name_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
