/* The tuner without a clock: strategies on a pretended machine, and candidates that crash, hang or fail in their processes. */
#include "tuner/search.h"
#include "tuner/tuner.h"
#include "tuner/worker.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Two ordered knobs, a word and a clause that can be left out, whose second value comes to the same program. */
static const char SPACE[] =
    "{\"kernel\": \"f\", \"target\": \"none\", \"fixed\": [\"store a\"], \"knobs\": ["
    " {\"knob\": \"m\", \"ordered\": true, \"values\": [{\"clause\": \"m = 96\", \"keeps_bits\": true},"
    "  {\"clause\": \"m = 32\", \"keeps_bits\": true}, {\"clause\": \"m = 128\", \"keeps_bits\": true},"
    "  {\"clause\": \"m = 64\", \"keeps_bits\": true}, {\"clause\": \"m = 256\", \"keeps_bits\": true}]},"
    " {\"knob\": \"n\", \"ordered\": true, \"values\": [{\"clause\": \"n = 64\", \"keeps_bits\": true},"
    "  {\"clause\": \"n = 32\", \"keeps_bits\": true}, {\"clause\": \"n = 128\", \"keeps_bits\": true},"
    "  {\"clause\": \"n = 256\", \"keeps_bits\": true}, {\"clause\": \"n = 512\", \"keeps_bits\": true}]},"
    " {\"knob\": \"order\", \"ordered\": false, \"values\": [{\"clause\": \"order a\", \"keeps_bits\": true},"
    "  {\"clause\": \"order b\", \"keeps_bits\": false}]},"
    " {\"knob\": \"fuse\", \"ordered\": false, \"values\": [{\"clause\": null, \"keeps_bits\": true},"
    "  {\"clause\": \"fuse a\", \"keeps_bits\": true}]}]}";

/* ---- the pretended machine ---- */

typedef struct Machine {
    Arena *arena;
    TuneSpace space;
    Random noise;
    double clock, budget; /* seconds */
    double gain;          /* of the best point: 0: none is better than the default */
    int crashing;         /* m = 32 does */
    unsigned raced;
} Machine;

static double value_of(const Machine *m, const Trial *t, uint32_t knob)
{
    return m->space.knobs[knob].values[t->point.at[knob]].number;
}

/* The best is m = 64, n = 256; every step away from it costs. */
static double true_seconds(const Machine *m, const Trial *t)
{
    double far = fabs(log2(value_of(m, t, 0) / 64)) + fabs(log2(value_of(m, t, 1) / 256));
    double usual = fabs(log2(96.0 / 64)) + fabs(log2(64.0 / 256));
    return 0.01 *
           (1 + (m->gain > 0 ? m->gain * (far - usual) / usual : far / 10) + (t->point.at[2] ? 0.02 : 0));
}

/* A neighbour comes now and then, and the machine gets slower. */
static double noisy(Machine *m, double seconds)
{
    m->clock += seconds;
    return seconds * (1 + m->clock / 1000) *
           (1 + 0.005 * random_normal(&m->noise) +
            (random_unit(&m->noise) < 0.1 ? random_unit(&m->noise) : 0));
}

static void decide(void *user, Trial *t)
{
    const Machine *m = user;
    snprintf(t->digest, sizeof t->digest, "%g %g %d", value_of(m, t, 0), value_of(m, t, 1), t->point.at[2]);
    if (value_of(m, t, 1) > 500) {
        t->state = TRIAL_UNFIT;
        t->why = "n is too large";
    }
}

/* The model is wrong by up to a fifth, and has nothing to say of n = 32. */
static void predict(void *user, Trial *const *t, size_t n)
{
    const Machine *m = user;
    for (size_t i = 0; i < n; i++)
        if (value_of(m, t[i], 1) > 40)
            t[i]->predicted = true_seconds(m, t[i]) * (1 + (double)(t[i]->number * 7 % 5) / 25);
}

static void race(void *user, Trial *const *t, size_t n, size_t rounds, Trial *const *next, size_t nnext)
{
    Machine *m = user;
    const Trial usual = {.point = {{0}}};
    (void)next;
    (void)nnext;
    m->raced += (unsigned)n;
    for (size_t r = 0; r < rounds; r++) {
        double base = noisy(m, true_seconds(m, &usual));
        for (size_t i = 0; i < n; i++) {
            if (m->crashing && value_of(m, t[i], 0) < 33) {
                t[i]->state = TRIAL_FAILED;
                t[i]->why = "crashed";
                continue;
            }
            vec_push(m->arena, &t[i]->base, base);
            vec_push(m->arena, &t[i]->mine, noisy(m, true_seconds(m, t[i])));
        }
    }
}

static double left(void *user) { return ((Machine *)user)->budget - ((Machine *)user)->clock; }

typedef struct Found {
    double truth; /* of the winner's time to the default's */
    char schedule[256];
    unsigned raced, trials, failed;
} Found;

static Found run(const char *strategy, uint64_t seed, Machine m)
{
    Found f;
    m.arena = arena_new();
    m.noise = random_new(seed + 1000);
    assert_null(space_read(SPACE, 0, m.arena, &m.space));
    const Judge judge = {&m, decide, predict, race, left, NULL};
    Search s = search_new(m.arena, &m.space, &judge, seed, m.budget / 4);
    strategy_find(strategy)->run(&s);
    const Trial *winner = search_duel(&s);
    f = (Found){.truth = true_seconds(&m, winner) / true_seconds(&m, s.trials.at[0]),
                .raced = m.raced,
                .trials = s.trials.len,
                .failed = search_count(&s, TRIAL_FAILED)};
    snprintf(f.schedule, sizeof f.schedule, "%s", winner->schedule);
    for (uint32_t i = 0; i < s.trials.len; i++)
        assert_true(s.trials.at[i]->state == TRIAL_READY || s.trials.at[i]->state == TRIAL_MEASURED ||
                    s.trials.at[i]->why);
    arena_free(m.arena);
    return f;
}

/* ---- the space ---- */

static void points_are_schedules(void **state)
{
    (void)state;
    Arena *a = arena_new();
    TuneSpace s;
    Point p = {{0}}, out[16];
    assert_null(space_read(SPACE, 0, a, &s));
    assert_true(space_size(&s) == 5 * 5 * 2 * 2);
    assert_string_equal(space_schedule(&s, &p, a), "schedule f {\n  store a\n}\n");
    assert_string_equal(space_clauses(&s, &p, a), "the default");
    assert_int_equal(space_neighbours(&s, &p, out, 16), 2 + 2 + 1 + 1);
    assert_string_equal(space_clauses(&s, &out[0], a),
                        "m = 64"); /* the next smaller number, not the next in the list */
    assert_string_equal(space_clauses(&s, &out[1], a), "m = 128");
    p.at[3] = 1;
    assert_string_equal(space_schedule(&s, &p, a), "schedule f {\n  store a\n  fuse a\n}\n");
    assert_true(space_keeps_bits(&s, &p));
    p.at[2] = 1;
    assert_false(space_keeps_bits(&s, &p));
    unsigned count = 1;
    for (p = (Point){{0}}; space_next(&s, &p); count++)
        ;
    assert_int_equal(count, 100);
    assert_null(space_read(SPACE, 1, a, &s)); /* without values that change bits */
    assert_true(space_size(&s) == 50);
    assert_int_equal(s.left_out, 1);
    assert_non_null(space_read("{}", 0, a, &s));
    assert_non_null(space_read("nonsense", 0, a, &s));
    arena_free(a);
}

/* ---- strategies ---- */

static void every_strategy_finds_what_is_better(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < strategy_count; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            Found f = run(strategy_table[i].name, seed, (Machine){.budget = 60, .gain = 0.2});
            if (!(f.truth < 0.87))
                fail_msg("%s with seed %d: %.3f of the default: %s", strategy_table[i].name, (int)seed,
                         f.truth, f.schedule);
        }
}

/* A budget that ends in the middle: what it has then is still judged, and by fresh rounds. */
static void little_time_does_no_harm(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < strategy_count; i++)
        for (int tenths = 0; tenths < 20; tenths += 3) {
            Found f = run(strategy_table[i].name, 1, (Machine){.budget = 0.1 * tenths, .gain = 0.2});
            assert_true(f.truth < 1.001);
        }
}

/* The default is the best point: whatever looked faster was noise, and is not taken. */
static void noise_never_wins(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < strategy_count; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            Machine m = {.budget = 20};
            Found f = run(strategy_table[i].name, seed, m);
            if (f.truth > 1)
                fail_msg("%s with seed %d takes %.3f of the default: %s", strategy_table[i].name, (int)seed,
                         f.truth, f.schedule);
        }
}

static void a_seed_repeats_a_run(void **state)
{
    (void)state;
    const Machine m = {.budget = 10, .gain = 0.2};
    for (uint32_t i = 0; i < strategy_count; i++) {
        Found a = run(strategy_table[i].name, 7, m), b = run(strategy_table[i].name, 7, m);
        assert_string_equal(a.schedule, b.schedule);
        assert_int_equal(a.raced, b.raced);
        assert_int_equal(a.trials, b.trials);
    }
}

static void what_crashes_is_skipped(void **state)
{
    (void)state;
    Found f = run("exhaustive", 1, (Machine){.budget = 300, .gain = 0.2, .crashing = 1});
    assert_true(f.truth < 0.87);
    assert_true(f.failed > 0);
    assert_int_equal(f.trials, 100);
}

static void equal_points_are_measured_once(void **state)
{
    (void)state;
    Found f = run("exhaustive", 1, (Machine){.budget = 300, .gain = 0.2});
    assert_true(f.raced <
                50 + 8 + 3 + 1); /* half are equal, a fifth of the rest does not fit; and the duel */
}

/* ---- processes ---- */

static void prepare(void *user, WorkerNews *out)
{
    const char *how = user;
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "hang") == 0)
        pause();
    if (strcmp(how, "refuse") == 0)
        snprintf(out->text, sizeof out->text, "no such thing");
    snprintf(out->digest, sizeof out->digest, "abc");
}

static double calls(void *user, int n)
{
    const char *how = user;
    if (strcmp(how, "crash later") == 0)
        abort();
    if (strcmp(how, "hang later") == 0)
        pause();
    return strcmp(how, "fail later") == 0 ? -1 : n * 0.25;
}

static Worker *worker(const char *how)
{
    const WorkerTask task = {(void *)(uintptr_t)how, prepare, calls};
    Worker *w = worker_start(&task);
    assert_non_null(w);
    return w;
}

static void workers_answer(void **state)
{
    (void)state;
    Worker *w = worker("well");
    const WorkerNews *news = worker_ready(w, 10);
    assert_string_equal(news->digest, "abc");
    assert_string_equal(news->text, "");
    assert_float_equal(worker_time(w, 3), 0.75, 1e-12);
    assert_float_equal(worker_time(w, 1), 0.25, 1e-12);
    worker_free(w);
    worker_free(NULL);
}

static void workers_fail_alone(void **state)
{
    (void)state;
    static const struct {
        const char *how, *words;
        int later;
    } cases[] = {{"crash", "signal 11", 0},      {"hang", "no answer", 0},
                 {"refuse", "no such thing", 0}, {"crash later", "signal 6", 1},
                 {"hang later", "no answer", 1}, {"fail later", "a call failed", 1}};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Worker *w = worker(cases[i].how);
        const WorkerNews *news = worker_ready(w, strcmp(cases[i].how, "hang") ? 10 : 0.1);
        assert_int_equal(!*news->text, cases[i].later);
        worker_patience(w, 0.1);
        if (!cases[i].later)
            assert_true(strstr(news->text, cases[i].words) != NULL);
        assert_true(worker_time(w, 1) < 0);
        if (!strstr(worker_end(w), cases[i].words))
            fail_msg("%s: '%s' does not say '%s'", cases[i].how, worker_end(w), cases[i].words);
        assert_true(worker_time(w, 1) < 0);
        worker_free(w);
    }
}

/* ---- records ---- */

/* As a damaged file may say. */
static void a_record_of_no_date_is_shown(void **state)
{
    char path[] = "/tmp/moec-tuner-XXXXXX", *text = NULL;
    size_t len = 0;
    moec_records *records;
    moec_context *c = moec_context_new();
    const DbOptions o = {.path = path, .id = 1};
    (void)state;
    assert_int_equal(close(mkstemp(path)), 0);
    assert_int_equal(moec_records_open(c, path, 1, &records), 0);
    assert_int_equal(moec_records_add(records, &(moec_record){.kernel = "f", .made = INT64_MAX}), 0);
    moec_records_close(records);
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(db_show(&o, out), 0);
    fclose(out);
    assert_non_null(strstr(text, "made at no time that has a date"));
    free(text);
    unlink(path);
    moec_context_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_schedules),
        cmocka_unit_test(every_strategy_finds_what_is_better),
        cmocka_unit_test(little_time_does_no_harm),
        cmocka_unit_test(noise_never_wins),
        cmocka_unit_test(a_seed_repeats_a_run),
        cmocka_unit_test(what_crashes_is_skipped),
        cmocka_unit_test(equal_points_are_measured_once),
        cmocka_unit_test(workers_answer),
        cmocka_unit_test(workers_fail_alone),
        cmocka_unit_test(a_record_of_no_date_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
