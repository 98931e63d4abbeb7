/* Placements that do not fit: each is refused by name, with the rule and what would mend it. */
#include "place_fixture.h"

typedef struct Bad {
    Recorder *r;
    BufferId x, gain, a, b; /* tokens in parts, a weight, columns and rows in parts; over tp */
} Bad;

static void expect_refused(void (*recording)(Bad), const char *words)
{
    Arena *arena = arena_new();
    KernelSet *set = place_set();
    const char *error;
    Recorder *r = recorder_new(arena, set, "bad", 1);
    record_group(r, AXIS_tp, RANKS);
    Bad b = {.r = r};
    b.x = record_tensor(r, OWNER_input, "x", MOEC_F32, 0, 2, (const int64_t[]){T / RANKS, H});
    b.gain = record_tensor(r, OWNER_weight, "gain", MOEC_F32, 0, 1, (const int64_t[]){H});
    b.a = record_tensor(r, OWNER_weight, "a", MOEC_F32, 0, 2, (const int64_t[]){H, F / RANKS});
    b.b = record_tensor(r, OWNER_weight, "b", MOEC_F32, 0, 2, (const int64_t[]){F / RANKS, H});
    record_place(r, b.x, AXIS_tp, PLACED_PART(0));
    record_place(r, b.a, AXIS_tp, PLACED_PART(1));
    record_place(r, b.b, AXIS_tp, PLACED_PART(0));
    recording(b);
    if (recorder_finish(r, &error))
        fail_msg("expected `%s`", words);
    if (!strstr(error, words))
        fail_msg("expected `%s`, got `%s`", words, error);
    kernels_close(set);
    arena_free(arena);
}

static BufferId whole_tokens(Bad b)
{
    return record_tensor(b.r, OWNER_weight, "tokens", MOEC_F32, 0, 2, (const int64_t[]){T, H});
}

static void parts_of_two_dimensions(Bad b) { record(b.r, "branch", ARG(n, b.x), ARG(a, b.a), ARG(b, b.b)); }

static BufferId partial(Bad b)
{
    return out(record(b.r, "branch", ARG(n, whole_tokens(b)), ARG(a, b.a), ARG(b, b.b)), "y");
}

static void norm_of_partial(Bad b) { record(b.r, "norm", ARG(x, partial(b)), ARG(gain, b.gain)); }
static void partial_added_to_whole(Bad b) { record(b.r, "add", ARG(x, partial(b)), ARG(b, whole_tokens(b))); }
static void gather_of_whole(Bad b) { record_exchange(b.r, TASK_allgather, AXIS_tp, b.gain, 0); }
static void sum_of_parts(Bad b) { record_exchange(b.r, TASK_allreduce, AXIS_tp, b.x, 0); }
static void scatter_by_three(Bad b) { record_exchange(b.r, TASK_reducescatter, AXIS_tp, partial(b), 2); }
static void view_across(Bad b) { record_reshape(b.r, b.a, 2, (const int64_t[]){2, H * F / RANKS / 2}); }
static void part_of_parts(Bad b) { record_part(b.r, "first", b.x, 0, 1, (const int64_t[]){H}); }
static void placed_late(Bad b)
{
    record(b.r, "norm", ARG(x, b.x), ARG(gain, b.gain));
    record_place(b.r, b.gain, AXIS_tp, PLACED_SUM);
}
static void grouped_late(Bad b) { record_group(b.r, AXIS_dp, 2); }
static void no_dimension(Bad b) { record_place(b.r, b.gain, AXIS_tp, PLACED_PART(1)); }
static void whole_output(Bad b)
{
    const BufferId n = record_tensor(b.r, OWNER_state, "n", MOEC_I32, 0, 1, (const int64_t[]){5}),
                   id = record_tensor(b.r, OWNER_input, "id", MOEC_I32, 0, 2, (const int64_t[]){T, 2}),
                   counts = record_tensor(b.r, OWNER_state, "counts", MOEC_F32, 0, 1, (const int64_t[]){5});
    record_place(b.r, id, AXIS_tp, PLACED_PART(0));
    record_place(b.r, counts, AXIS_tp, PLACED_WHOLE);
    record(b.r, "count", ARG(id, id), ARG(n, counts));
    (void)n;
}

static void norm_of_all_gradients(Bad b)
{
    const BufferId all =
        record_tensor(b.r, OWNER_gradient, "all", MOEC_F32, 0, 2, (const int64_t[]){2, H * F / RANKS});
    record_trainable(b.r, b.a, record_part(b.r, "d.a", all, 0, 2, (const int64_t[]){H, F / RANKS}));
    record(b.r, "square", ARG(x, all));
}

static void two_kinds_of_gradient(Bad b)
{
    const BufferId x = whole_tokens(b);
    record_trainable(b.r, b.gain,
                     record_tensor(b.r, OWNER_gradient, "d.gain", MOEC_F32, 0, 1, (const int64_t[]){H}));
    const BufferId n = out(record(b.r, "norm", STOP(x, x), ARG(gain, b.gain)), "n");
    const BufferId y = out(record(b.r, "branch", ARG(n, n), ARG(a, b.a), ARG(b, b.b)), "y");
    const BufferId z =
        out(record(b.r, "add", ARG(x, n), ARG(b, record_exchange(b.r, TASK_allreduce, AXIS_tp, y, 0))), "y");
    const BufferId loss = out(record(b.r, "energy", ARG(z, z)), "loss");
    record_seed(b.r, loss, record_scalar(b.r, "one", MOEC_F32, 1));
    record_backward(b.r);
}

static void gradient_of_gain(Bad b)
{
    record_trainable(b.r, b.gain,
                     record_tensor(b.r, OWNER_gradient, "d.gain", MOEC_F32, 0, 1, (const int64_t[]){H}));
    const BufferId n = out(record(b.r, "norm", ARG(x, b.x), ARG(gain, b.gain)), "n");
    const BufferId loss = out(record(b.r, "energy", ARG(z, n)), "loss");
    record_seed(b.r, loss, record_scalar(b.r, "one", MOEC_F32, 1));
    record_backward(b.r);
}

static void unread(Bad b)
{
    record_trainable(
        b.r, b.a, record_tensor(b.r, OWNER_gradient, "d.a", MOEC_F32, 0, 2, (const int64_t[]){H, F / RANKS}));
    gradient_of_gain(b);
    record_reduce_gradients(b.r);
}

static void refused(void **state_of_test)
{
    (void)state_of_test;
    expect_refused(parts_of_two_dimensions,
                   "task 0, kernel branch over tp: equation of `g`: it combines different elements");
    expect_refused(norm_of_partial,
                   "task 1, kernel norm over tp: equation of `scale`: it is not linear in a partial sum "
                   "(`x` = branch.y is a partial sum): exchange");
    expect_refused(partial_added_to_whole, "it adds a partial sum to a whole value");
    expect_refused(gather_of_whole, "allgather over tp: it takes parts, and gain is whole");
    expect_refused(sum_of_parts,
                   "allreduce over tp: it takes a partial sum, and x is in parts of dimension 0");
    expect_refused(scatter_by_three, "has no dimension 2 of 2 equal parts");
    expect_refused(view_across, "that takes the parts apart");
    expect_refused(part_of_parts, "that takes the parts apart");
    expect_refused(placed_late, "recorded as whole and placed as a partial sum");
    expect_refused(grouped_late, "before any buffer");
    expect_refused(no_dimension, "in parts of dimension 1 is no placement of its 1 dimensions");
    expect_refused(whole_output, "`n` becomes a partial sum, but counts is whole");
    expect_refused(norm_of_all_gradients, "`x` is all, whose views are placed apart");
    expect_refused(two_kinds_of_gradient, "through a `copy` over tp");
    expect_refused(gradient_of_gain,
                   "d.gain: it is a partial sum, which record_reduce_gradients() must add up");
    expect_refused(unread, "d.a: no task adds to it, because none of the loss reads the weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
