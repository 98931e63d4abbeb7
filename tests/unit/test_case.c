/* Cases, predictions, spaces and timing of moec.h: what they say, and that nothing that is NULL or out of range breaks them. */
#include "moec/moec.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char PROGRAM[] = "moe 1\n"
                              "dim T, K, E, H, F\n"
                              "group R : E rows T*K\n"
                              "kernel f(in x: bf16[T, H], in rt: route[T, K -> R], in w: bf16[E, H, F],\n"
                              "         inout y: f32[R, F]) {\n"
                              "  y[r, f] += sum(h) x[rt.token(r), h] * w[@r, h, f]\n"
                              "}\n";

static const moec_work work = {.path = "case.moe",
                               .text = PROGRAM,
                               .kernel = "f",
                               .sizes = "T=40, K=2, E=3, H=64, F=96",
                               .routing = "zipf(1.2)",
                               .seed = 1,
                               .threads = 1};

static int set_up(void **state)
{
    *state = moec_context_new();
    return *state == NULL;
}

static int tear_down(void **state)
{
    moec_context_free(*state);
    return 0;
}

static moec_case *open_case(moec_context *c, const char *schedule)
{
    moec_options o = {.schedule = schedule};
    moec_case *k;
    if (moec_case_new(c, &work, &o, &k))
        fail_msg("%s", moec_error_text(c));
    return k;
}

/* ---- cases ---- */

static void cases_are_called_timed_and_checked(void **state)
{
    moec_case *k = open_case(*state, NULL);
    moec_score score = {0};
    const char *sizes;
    assert_string_equal(moec_case_text(k), "f T=40 K=2 E=3 H=64 F=96, zipf(1.2)");
    assert_non_null(moec_case_target(k));
    assert_int_equal(moec_case_bytes(k), 40 * 64 * 2 + 3 * 64 * 96 * 2 + 2 * 80 * 96 * 4);
    assert_true(moec_case_read_bytes(k) >= 40 * 64 * 2 + 3 * 64 * 96 * 2 &&
                moec_case_read_bytes(k) < moec_case_bytes(k));
    assert_true(moec_case_time(k, 3) > 0);
    assert_string_equal(moec_case_error(k), "");
    assert_int_equal(moec_case_check(k, &score, &sizes), 0);
    assert_int_equal(score.compared, 80 * 96);
    assert_string_equal(sizes, moec_case_text(k));
    moec_case_free(k);
}

/* Of what is packed both ways a product reads one copy. */
static void copies_are_counted_that_are_read(void **state)
{
    const moec_work product = {
        .path = "both.moe",
        .text = "moe 1\n"
                "dim T, H, F\n"
                "kernel g(in d: bf16[T, F], in w: bf16[H, F] packed both, out x: f32[T, H]) {\n"
                "  x[t, h] = sum(f) d[t, f] * w[h, f]\n"
                "}\n",
        .sizes = "T=40, H=64, F=96",
        .threads = 1};
    moec_case *k;
    if (moec_case_new(*state, &product, NULL, &k))
        fail_msg("%s", moec_error_text(*state));
    int64_t weights = moec_case_read_bytes(k) - 40 * 96 * 2, copy = 64 * 96 * 2;
    assert_true(weights >= copy && weights < 2 * copy);
    assert_int_equal(moec_case_bytes(k) - moec_case_read_bytes(k), 40 * 64 * 4);
    moec_case_free(k);
}

/* Groups without rows are not read. */
static void matrices_of_empty_groups_are_not_counted(void **state)
{
    moec_work few = work;
    moec_case *k;
    few.sizes = "T=2, K=1, E=5, H=64, F=96";
    few.routing = "exact(0,2,0,0,0)";
    if (moec_case_new(*state, &few, NULL, &k))
        fail_msg("%s", moec_error_text(*state));
    assert_int_equal(moec_case_bytes(k), 2 * 64 * 2 + 64 * 96 * 2 + 2 * 2 * 96 * 4);
    moec_case_free(k);
}

/* Of a table the rows that are looked up, or that have terms. */
static void rows_at_computed_places_are_counted(void **state)
{
    moec_work table = {
        .path = "table.moe",
        .text = "moe 1\n"
                "dim T, V, H\n"
                "kernel look(in id: i32[T], in w: f32[V, H], out y: f32[T, H]) { y[t, h] = w[id[t], h] }\n"
                "kernel add(in id: i32[T], in x: f32[T, H], inout w: f32[V, H]) {\n"
                "  w[v, h] += sum(t where id[t] == v) x[t, h]\n"
                "}\n",
        .kernel = "look",
        .sizes = "T=16, V=1000, H=64",
        .threads = 1};
    moec_case *k;
    if (moec_case_new(*state, &table, NULL, &k))
        fail_msg("%s", moec_error_text(*state));
    assert_int_equal(moec_case_read_bytes(k), 16 * 4 + 16 * 64 * 4);
    moec_case_free(k);
    table.kernel = "add";
    if (moec_case_new(*state, &table, NULL, &k))
        fail_msg("%s", moec_error_text(*state));
    assert_int_equal(moec_case_read_bytes(k), 16 * 4 + 2 * 16 * 64 * 4);
    assert_int_equal(moec_case_bytes(k) - moec_case_read_bytes(k), 16 * 64 * 4);
    moec_case_free(k);
    table.sizes = "T=5000, V=1000, H=64"; /* no more than the table has */
    if (moec_case_new(*state, &table, NULL, &k))
        fail_msg("%s", moec_error_text(*state));
    assert_int_equal(moec_case_read_bytes(k), 5000 * 4 + 5000 * 64 * 4 + 1000 * 64 * 4);
    moec_case_free(k);
}

/* A digest is of the bits that a call makes of the case's own data, however often it was called before. */
static void digests_are_of_bits(void **state)
{
    moec_case *a = open_case(*state, NULL), *b = open_case(*state, "schedule f { tile y : M = 32 N = 64 }");
    char first[33];
    strcpy(first, moec_case_digest(a));
    assert_int_equal(strlen(first), 32);
    moec_case_time(a, 2);
    assert_string_equal(moec_case_digest(a), first);
    assert_string_equal(moec_case_digest(b), first);
    moec_case_free(a);
    moec_case_free(b);
    moec_work other = work;
    other.seed = 2;
    assert_int_equal(moec_case_new(*state, &other, NULL, &a), 0);
    assert_string_not_equal(moec_case_digest(a), first);
    moec_case_free(a);
}

/* The interpreter would take minutes at these sizes. */
static void large_cases_are_checked_at_smaller_sizes(void **state)
{
    moec_work large = work;
    moec_case *k;
    const char *sizes;
    large.sizes = "T=4000, K=2, E=4, H=512, F=512";
    assert_int_equal(moec_case_new(*state, &large, NULL, &k), 0);
    assert_int_equal(moec_case_check(k, NULL, &sizes), 0);
    assert_non_null(strstr(sizes, "K=2 E=4"));
    assert_null(strstr(sizes, "T=4000"));
    moec_case_free(k);
}

static void cases_need_sizes_that_fit(void **state)
{
    static const struct {
        const char *kernel, *sizes, *routing, *words;
    } wrong[] = {{"f", "T=40, K=2", NULL, "E, H, F of kernel f: no size"},
                 {"f", NULL, NULL, "T, K, E, H, F of kernel f"},
                 {"f", "T=40, Q=2", NULL, "Q"},
                 {"f", "T=-1, K=2, E=3, H=64, F=96", NULL, "T"},
                 {"g", "T=40, K=2, E=3, H=64, F=96", NULL, "no kernel 'g'"},
                 {"f", "T=40, K=2, E=3, H=64, F=96", "nonsense(1)", "nonsense"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        moec_work w = work;
        moec_case *k = (moec_case *)state;
        moec_prediction p;
        w.kernel = wrong[i].kernel;
        w.sizes = wrong[i].sizes;
        w.routing = wrong[i].routing;
        assert_int_equal(moec_case_new(*state, &w, NULL, &k), 1);
        assert_null(k);
        if (!strstr(moec_error_text(*state), wrong[i].words) ||
            !strstr(moec_error_json(*state), wrong[i].words))
            fail_msg("'%s' does not say '%s'", moec_error_text(*state), wrong[i].words);
        assert_int_equal(moec_predict(*state, &w, NULL, &p), 1);
    }
}

static void without_a_case_there_is_nothing(void **state)
{
    moec_case *k;
    moec_work none = {.kernel = "f"};
    assert_int_equal(moec_case_new(NULL, &work, NULL, &k), 1);
    assert_int_equal(moec_case_new(*state, NULL, NULL, &k), 1);
    assert_non_null(strstr(moec_error_text(*state), "work is NULL"));
    assert_int_equal(moec_case_new(*state, &none, NULL, &k), 1);
    assert_int_equal(moec_case_new(*state, &work, NULL, NULL), 1);
    assert_non_null(strstr(moec_error_text(*state), "out is NULL"));
    moec_case_free(NULL);
    assert_null(moec_case_text(NULL));
    assert_null(moec_case_target(NULL));
    assert_int_equal(moec_case_bytes(NULL), -1);
    assert_int_equal(moec_case_read_bytes(NULL), -1);
    assert_true(moec_case_time(NULL, 1) < 0);
    assert_int_equal(moec_case_check(NULL, NULL, NULL), 1);
    assert_null(moec_case_digest(NULL));
    assert_non_null(strstr(moec_case_error(NULL), "no case"));
}

/* ---- the model, the space, decisions ---- */

static void predictions_count_the_work(void **state)
{
    moec_prediction p;
    assert_int_equal(moec_predict(*state, &work, NULL, &p), 0);
    assert_true(p.seconds > 0 && p.seconds < 1);
    double flops = p.flops_16bit > 0 ? p.flops_16bit : p.flops; /* bf16 that is widened has products of f32 */
    assert_true(flops >= 2.0 * 80 * 64 * 96 && flops < 1.5 * 2 * 80 * 64 * 96);
    moec_options npu = {.machine = "ascend910b2"}, none = {.machine = "nonesuch"};
    moec_work product = work;
    product.text = "moe 1\ndim T, H, F\nkernel f(in x: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F]) {\n"
                   "  y[t, f] = bf16(sum(h) x[t, h] * w[h, f])\n}\n";
    product.sizes = "T=64, H=64, F=96";
    product.routing = NULL;
    assert_int_equal(moec_predict(*state, &product, &npu, &p), 0);
    assert_true(p.seconds > 0 && p.flops_16bit >= 2.0 * 64 * 64 * 96);
    assert_int_equal(moec_predict(*state, &work, &none, &p), 1);
    assert_int_equal(moec_predict(NULL, &work, NULL, &p), 1);
    assert_int_equal(moec_predict(*state, NULL, NULL, &p), 1);
    assert_int_equal(moec_predict(*state, &work, NULL, NULL), 1);
}

static void spaces_list_clauses(void **state)
{
    const char *json;
    moec_work w = work;
    assert_int_equal(moec_space(*state, &w, NULL, &json), 0);
    assert_non_null(strstr(json, "\"clause\": \"tile y : M = 32\""));
    assert_non_null(strstr(json, "\"keeps_bits\": true"));
    w.kernel = "g";
    assert_int_equal(moec_space(*state, &w, NULL, &json), 1);
    assert_null(json);
    assert_int_equal(moec_space(NULL, &w, NULL, &json), 1);
    assert_int_equal(moec_space(*state, NULL, NULL, &json), 1);
    assert_int_equal(moec_space(*state, &w, NULL, NULL), 1);
}

static void equal_decisions_have_one_digest(void **state)
{
    char usual[33], same[33], other[33];
    moec_options capped = {.schedule = "schedule f { order groups heaviest_first }"},
                 small = {.schedule = "schedule f { tile y : M = 32 }"},
                 misfit = {.schedule = "schedule f { tile y : M = 4096 N = 4096 }", .machine = "ascend910b2"};
    assert_int_equal(moec_decide(*state, &work, NULL, usual), 0);
    assert_int_equal(moec_decide(*state, &work, &small, other), 0);
    assert_string_not_equal(usual, other);
    assert_int_equal(moec_decide(*state, &work, &capped, other), 0);
    assert_int_equal(moec_decide(*state, &work, &capped, same), 0);
    assert_string_equal(same, other);
    assert_int_equal(moec_decide(*state, &work, &misfit, other), 1);
    assert_non_null(strstr(moec_error_text(*state), "l1 of ascend910b2 has"));
    assert_int_equal(moec_decide(NULL, &work, NULL, other), 1);
    assert_int_equal(moec_decide(*state, NULL, NULL, other), 1);
    assert_int_equal(moec_decide(*state, &work, NULL, NULL), 1);
}

/* ---- timing ---- */

/* A pretended machine, which drifts: each call takes longer than the one before. */
typedef struct Pretended {
    double *clock, seconds;
    int calls, fails_at;
} Pretended;

static double pretend(void *user, int calls)
{
    Pretended *p = user;
    p->calls += calls;
    *p->clock *= 1.001;
    return p->fails_at && p->calls >= p->fails_at ? -1 : calls * p->seconds * *p->clock;
}

static void runners_take_turns(void **state)
{
    (void)state;
    enum { MOST = 40 };
    double clock = 1, samples[3][MOST];
    Pretended a = {&clock, 0.02, 0, 0}, b = {&clock, 0.03, 0, 0}, c = {&clock, 0.001, 0, 0};
    moec_runner r[] = {{.time = pretend, .user = &a, .samples = samples[0]},
                       {.time = pretend, .user = &b, .samples = samples[1]},
                       {.time = pretend, .user = &c, .samples = samples[2], .left_out = 1}};
    moec_patience p = {.fewest = MOST, .most = MOST, .seconds = 1};
    assert_int_equal(moec_measure(r, 3, &p), 0);
    assert_int_equal(r[0].rounds, MOST);
    assert_int_equal(r[1].rounds, MOST);
    assert_int_equal(r[2].rounds, 0);
    assert_int_equal(r[0].calls, 1);
    assert_int_equal(r[2].calls, 5);
    moec_ratio ratio = moec_compare(samples[1], samples[0], MOST, 0.95);
    assert_true(ratio.low > 1.49 && ratio.high < 1.51);
    moec_spread s = moec_spread_of(samples[0], MOST);
    assert_true(s.most > 1.05 * s.least && s.lower < s.median && s.median < s.upper);
}

/* Runners whose calls take longer behind one that leaves nothing in the caches. */
typedef struct Disturbed {
    int *emptied, empties;
} Disturbed;

static double call_disturbed(void *user, int calls)
{
    Disturbed *d = user;
    double seconds = *d->emptied ? 0.021 : 0.02;
    *d->emptied = d->empties;
    return calls * seconds;
}

static void no_runner_always_follows_the_same(void **state)
{
    (void)state;
    enum { MOST = 400, RUNNERS = 4 };
    static double samples[RUNNERS][MOST];
    int emptied = 0;
    Disturbed d[RUNNERS] = {{&emptied, 0}, {&emptied, 0}, {&emptied, 0}, {&emptied, 1}};
    for (size_t n = 3; n <= RUNNERS; n++) {
        moec_runner r[RUNNERS];
        for (size_t i = 0; i < n; i++)
            r[i] = (moec_runner){.time = call_disturbed, .user = &d[i + RUNNERS - n], .samples = samples[i]};
        moec_patience p = {.fewest = MOST, .most = MOST, .seconds = 1};
        assert_int_equal(moec_measure(r, n, &p), 0);
        for (size_t i = 0; i + 1 < n; i++) {
            size_t behind = 0;
            for (int round = 0; round < MOST; round++)
                behind += samples[i][round] > 0.0205;
            size_t often = MOST / n + MOST / n / n; /* in a round, and where one begins */
            assert_in_range(behind, often * 3 / 4, often * 5 / 4);
        }
    }
}

static void a_runner_that_fails_is_named(void **state)
{
    (void)state;
    double clock = 1, samples[2][8];
    Pretended a = {&clock, 1, 0, 0}, b = {&clock, 1, 0, 4};
    moec_runner r[] = {{.time = pretend, .user = &a, .samples = samples[0]},
                       {.time = pretend, .user = &b, .samples = samples[1]}};
    moec_patience p = {.fewest = 8, .most = 8, .seconds = 0};
    assert_int_equal(moec_measure(r, 2, &p), 2);
    moec_runner none[1] = {{.time = NULL}};
    assert_int_equal(moec_warm_up(none, 1, &p), 1);
    assert_int_equal(moec_warm_up(NULL, 1, &p), 1);
    assert_int_equal(moec_warm_up(none, 1, NULL), 1);
    assert_int_equal(moec_measure(NULL, 1, &p), 1);
    assert_int_equal(moec_measure(NULL, 0, &p), 0);
    moec_runner no_room[1] = {{.time = pretend, .user = &a}};
    assert_int_equal(moec_measure(no_room, 1, &p), 1);
}

/* The interval is one of order statistics: with 20 rounds and 95 % the sixth from either end, as tables of the sign test say. */
static void intervals_are_of_order_statistics(void **state)
{
    (void)state;
    double a[20], b[20];
    for (int i = 0; i < 20; i++) {
        a[i] = (i * 7) % 20 + 1;
        b[i] = 1;
    }
    moec_ratio r = moec_compare(a, b, 20, 0.95);
    assert_float_equal(r.low, 6, 1e-12);
    assert_float_equal(r.ratio, 10.5, 1e-12);
    assert_float_equal(r.high, 15, 1e-12);
    r = moec_compare(a, b, 5, 0.95); /* too few: 2 * 2^-5 is more than 5 % */
    assert_true(r.low <= 0 && isinf(r.high));
    r = moec_compare(a, b, 6, 0.95);
    assert_true(r.low > 0 && !isinf(r.high));
    r = moec_compare(NULL, b, 20, 0.95);
    assert_true(isnan(r.ratio));
    assert_true(isnan(moec_compare(a, b, 0, 0.95).ratio));
    assert_true(isnan(moec_spread_of(NULL, 3).median) && isnan(moec_spread_of(a, 0).median));
}

/* Of noise alone, at most one interval in twenty leaves out 1. */
static void noise_is_no_difference(void **state)
{
    (void)state;
    enum { TRIES = 2000, ROUNDS = 25 };
    int wrong = 0;
    srand(1);
    for (int t = 0; t < TRIES; t++) {
        double a[ROUNDS], b[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            a[i] = 1 + pow(rand() / (double)RAND_MAX, 8); /* a busy neighbour now and then */
            b[i] = 1 + pow(rand() / (double)RAND_MAX, 8);
        }
        moec_ratio r = moec_compare(a, b, ROUNDS, 0.95);
        wrong += r.low > 1 || r.high < 1;
    }
    assert_true(wrong > 0 && wrong <= TRIES / 20);
}

static void limits_take_as_long_as_their_work(void **state)
{
    (void)state;
    moec_limit *l = moec_limit_new(MOEC_LIMIT_READ, NULL, 1e9, 1);
    assert_non_null(l);
    double seconds = moec_limit_time(l, 1);
    assert_true(seconds > 1e-4 && seconds < 100);
    moec_limit_free(l);
    l = moec_limit_new(MOEC_LIMIT_F32, NULL, 1e9, -2);
    assert_true(!l || moec_limit_time(l, 1) > 0);
    moec_limit_free(l);
    assert_null(moec_limit_new(MOEC_LIMIT_F32, "nonesuch", 1, 1));
    assert_true(moec_limit_time(NULL, 1) < 0);
    moec_limit_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_called_timed_and_checked),
        cmocka_unit_test(copies_are_counted_that_are_read),
        cmocka_unit_test(matrices_of_empty_groups_are_not_counted),
        cmocka_unit_test(rows_at_computed_places_are_counted),
        cmocka_unit_test(digests_are_of_bits),
        cmocka_unit_test(large_cases_are_checked_at_smaller_sizes),
        cmocka_unit_test(cases_need_sizes_that_fit),
        cmocka_unit_test(without_a_case_there_is_nothing),
        cmocka_unit_test(predictions_count_the_work),
        cmocka_unit_test(spaces_list_clauses),
        cmocka_unit_test(equal_decisions_have_one_digest),
        cmocka_unit_test(runners_take_turns),
        cmocka_unit_test(no_runner_always_follows_the_same),
        cmocka_unit_test(a_runner_that_fails_is_named),
        cmocka_unit_test(intervals_are_of_order_statistics),
        cmocka_unit_test(noise_is_no_difference),
        cmocka_unit_test(limits_take_as_long_as_their_work),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
