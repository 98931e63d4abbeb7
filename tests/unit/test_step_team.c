/* How many threads a run takes beside other work (step/team.c), on a machine that is a formula. */
#include "step/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Cores that each do a unit of work in a second, of which other processes take half of some. A run ends with its slowest thread. */
typedef struct Machine {
    int cores, busy;
    double handing_over; /* seconds for each thread that is preempted */
    double seconds;      /* of all runs */
    int runs[9];         /* by number of threads */
} Machine;

static double run_seconds(const Machine *m, int threads)
{
    const int shared = threads - (m->cores - m->busy);
    return shared <= 0 ? 1.0 / threads : 2.0 / threads + m->handing_over;
}

static void run_many(Team *t, Machine *m, int runs)
{
    for (int i = 0; i < runs; i++) {
        const int threads = team_threads(t);
        const double seconds = run_seconds(m, threads);
        assert_in_range(threads, 1, t->most);
        m->seconds += seconds;
        m->runs[threads]++;
        team_took(t, seconds, (long)((m->busy ? 1000 : 100) * seconds) + 1);
    }
}

static void alone_it_never_tries(void **state)
{
    (void)state;
    Team t = team_new(2);
    Machine m = {.cores = 2};
    run_many(&t, &m, 1000);
    assert_int_equal(m.runs[2], 1000);
}

static void one_thread_never_tries(void **state)
{
    (void)state;
    Team t = team_new(1);
    Machine m = {.cores = 1, .busy = 1};
    run_many(&t, &m, 1000);
    assert_int_equal(m.runs[1], 1000);
}

static void beside_other_work_it_leaves_the_core(void **state)
{
    (void)state;
    Team t = team_new(2);
    Machine m = {.cores = 2, .busy = 1, .handing_over = 0.1};
    run_many(&t, &m, 1000);
    assert_true(m.runs[1] > 900);
    assert_true(m.seconds < 1.01 * 1000 * run_seconds(&m, 1));
}

static void it_comes_back(void **state)
{
    (void)state;
    Team t = team_new(2);
    Machine m = {.cores = 2, .busy = 1, .handing_over = 0.1};
    run_many(&t, &m, 1000);
    m = (Machine){.cores = 2};
    run_many(&t, &m, 160);
    assert_int_equal(team_threads(&t), 2);
    m = (Machine){.cores = 2};
    run_many(&t, &m, 1000);
    assert_int_equal(m.runs[2], 1000);
}

static void it_stays_where_fewer_are_slower(void **state)
{
    (void)state;
    Team t = team_new(2);
    Machine m = {.cores = 2, .busy = 1, .handing_over = -0.3};
    run_many(&t, &m, 1000);
    assert_true(m.runs[2] > 900);
}

static void it_finds_the_best_of_many(void **state)
{
    (void)state;
    Team t = team_new(8);
    Machine m = {.cores = 8, .busy = 3, .handing_over = 0.01};
    run_many(&t, &m, 2000);
    assert_true(m.runs[5] > 1800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_never_tries),
        cmocka_unit_test(one_thread_never_tries),
        cmocka_unit_test(beside_other_work_it_leaves_the_core),
        cmocka_unit_test(it_comes_back),
        cmocka_unit_test(it_stays_where_fewer_are_slower),
        cmocka_unit_test(it_finds_the_best_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
