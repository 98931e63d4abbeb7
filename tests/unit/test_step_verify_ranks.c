/* Programs of several ranks against each other: what meets, what waits for ever. */
#include "step/text.h"
#include "step/verify_ranks.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 2 };

static const char buffers[] = "step train\n"
                              "group %s 2\n"
                              "buffer small state f32[4] over %s own\n"
                              "buffer large state f32[8] over %s own\n"
                              "buffer number state i32[4] over %s own\n"
                              "buffer small.sum state f32[4]\n"
                              "buffer large.sum state f32[8]\n";

static const Program *program(Arena *a, const char *axis, const char *tasks)
{
    const char *error, *text = arena_printf(a, buffers, axis, axis, axis, axis);
    text = arena_printf(a, "%s%s", text, tasks);
    Program *p = step_read(a, text, strlen(text), &error);
    if (!p)
        fail_msg("%s\n%s", error, text);
    return p;
}

/* Two ranks that differ on one axis. */
static Ranks two(GroupAxis axis)
{
    Ranks r = ranks_one();
    r.number = r.per_node = RANKS, r.members[axis] = RANKS;
    return r;
}

/* words: NULL: both finish. */
static void check(GroupAxis axis, const char *first, const char *second, const char *words)
{
    Arena *a = arena_new();
    const Ranks ranks = two(axis);
    const Program *const programs[] = {program(a, axis_names[axis], first),
                                       program(a, axis_names[axis], second)};
    const char *error = step_verify_ranks(a, &ranks, programs);
    if (words ? !error || !strstr(error, words) : error != NULL)
        fail_msg("`%s` for `%s`", error ? error : "accepted", words ? words : "accepted");
    arena_free(a);
}

#define SMALL(n) "task " #n " allreduce dp forward reads x=small writes y=small.sum\n"
#define LARGE(n) "task " #n " allreduce dp forward reads x=large writes y=large.sum\n"
#define SEND(n, peer, x) "task " #n " send pp " peer " forward L3 m1 reads x=" x "\n"
#define RECV(n, peer, y) "task " #n " recv pp " peer " forward L3 m1 writes y=" y "\n"

static void collectives(void **state)
{
    (void)state;
    check(AXIS_dp, SMALL(0) LARGE(1), SMALL(0) LARGE(1), NULL);
    check(AXIS_dp, SMALL(0) LARGE(1), LARGE(0) SMALL(1),
          "rank 1, task 0 (allreduce over dp, layer -1, micro-batch -1) meets rank 0, task 0");
    check(AXIS_dp, SMALL(0), "task 0 allgather dp forward reads x=small writes y=small.sum\n",
          "they differ in kind, type or size");
    check(AXIS_dp, SMALL(0), "task 0 allreduce dp forward reads x=number writes y=small.sum\n",
          "they differ in kind");
    check(AXIS_dp, SMALL(0) LARGE(1), SMALL(0),
          "rank 0, task 1 (allreduce over dp, layer -1, micro-batch -1) waits for ever: rank 1, at the end");
}

static void messages(void **state)
{
    (void)state;
    check(AXIS_pp, SEND(0, "+1", "small") RECV(1, "+1", "large"),
          RECV(0, "-1", "small") SEND(1, "-1", "large"), NULL);
    check(AXIS_pp, SEND(0, "+1", "small"), RECV(0, "-1", "large"), "they differ in type or size");
    check(
        AXIS_pp, SEND(0, "+1", "small") RECV(1, "+1", "large"), SEND(0, "-1", "large") RECV(1, "-1", "small"),
        "rank 0, task 0 (send over pp, layer 3, micro-batch 1) waits for ever: rank 1, task 0 (send over pp");
    check(AXIS_pp, RECV(0, "+1", "small"), "", "waits for ever: rank 1, at the end");
}

/* Thousands of ranks with one program, and one of them with another. */
static void many_ranks(void **state)
{
    (void)state;
    enum { MANY = 6144 };
    Arena *a = arena_new();
    Ranks ranks;
    assert_null(ranks_plan(a, MANY, &(RanksAsked){.ep = 32}, &ranks));
    static const char text[] = "step train\ngroup dp 6144\ngroup ep 32\ngroup edp 192\nbuffer x state f32[4] "
                               "over dp own over ep own\n"
                               "buffer y state f32[4]\nbuffer z state f32[4] over dp own\n%s";
    static const char *const orders[] = {"task 0 allreduce dp forward reads x=x writes y=y\ntask 1 allreduce "
                                         "ep forward reads x=x writes y=z\n",
                                         "task 0 allreduce ep forward reads x=x writes y=z\ntask 1 allreduce "
                                         "dp forward reads x=x writes y=y\n"};
    const Program *made[2];
    for (int i = 0; i < 2; i++) {
        const char *error, *whole = arena_printf(a, text, orders[i]);
        made[i] = step_read(a, whole, strlen(whole), &error);
        if (!made[i])
            fail_msg("%s", error);
    }
    const Program **programs = arena_array(a, const Program *, MANY);
    for (int i = 0; i < MANY; i++)
        programs[i] = made[0];
    assert_null(step_verify_ranks(a, &ranks, programs));
    programs[4000] = made[1];
    const char *error = step_verify_ranks(a, &ranks, programs);
    assert_non_null(error);
    assert_non_null(strstr(error, "waits for ever"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives),
        cmocka_unit_test(messages),
        cmocka_unit_test(many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
