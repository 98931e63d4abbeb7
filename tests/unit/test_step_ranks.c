/* Groups of ranks: which ranks share what. */
#include "step/ranks.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static Ranks plan(int64_t number, RanksAsked asked)
{
    Arena *a = arena_new();
    Ranks r;
    const char *rule = ranks_plan(a, number, &asked, &r);
    if (rule)
        fail_msg("%s", rule);
    arena_free(a);
    return r;
}

static void refuse(int64_t number, RanksAsked asked, const char *words)
{
    Arena *a = arena_new();
    Ranks r;
    const char *rule = ranks_plan(a, number, &asked, &r);
    if (!rule || !strstr(rule, words))
        fail_msg("`%s` is not about `%s`", rule ? rule : "accepted", words);
    arena_free(a);
}

static void check_places(const Ranks *r, GroupAxis axis, const int64_t *wanted)
{
    for (int64_t i = 0; i < r->number; i++)
        if (ranks_place(r, axis, i) != wanted[i])
            fail_msg("rank %d has place %d on %s", (int)i, (int)ranks_place(r, axis, i), axis_names[axis]);
}

/* The figure of Note [Order of ranks]. */
static void the_figure(void **state)
{
    (void)state;
    const Ranks r = plan(8, (RanksAsked){.tp = 2, .ep = 2, .per_node = 4});
    check_places(&r, AXIS_tp, (const int64_t[]){0, 1, 0, 1, 0, 1, 0, 1});
    check_places(&r, AXIS_dp, (const int64_t[]){0, 0, 1, 1, 2, 2, 3, 3});
    check_places(&r, AXIS_ep, (const int64_t[]){0, 1, 2, 3, 0, 1, 2, 3});
    check_places(&r, AXIS_edp, (const int64_t[]){0, 0, 0, 0, 1, 1, 1, 1});
    assert_int_equal(ranks_node(&r, 3), 0);
    assert_true(ranks_share_node(&r, 4, 7) && !ranks_share_node(&r, 3, 4));
}

/* A group is the ranks that name each other: members of all its members, each rank in one group, places in order. */
static void check_groups(const Ranks *r, GroupAxis axis)
{
    for (int64_t i = 0; i < r->number; i++) {
        int64_t before = -1;
        for (int64_t p = 0; p < r->members[axis]; p++) {
            const int64_t other = ranks_member(r, axis, i, p);
            assert_in_range(other, 0, r->number - 1);
            assert_true(other > before);
            assert_int_equal(ranks_place(r, axis, other), p);
            assert_int_equal(ranks_group(r, axis, other), ranks_group(r, axis, i));
            assert_int_equal(ranks_member(r, axis, other, ranks_place(r, axis, i)), i);
            before = other;
        }
        assert_in_range(ranks_group(r, axis, i), 0, r->number / r->members[axis] - 1);
    }
}

static void groups_of_all_plans(void **state)
{
    (void)state;
    for (int64_t tp = 1; tp <= 4; tp++)
        for (int64_t dp = 1; dp <= 8; dp++)
            for (int64_t ep = 1; ep <= dp; ep++) {
                if (dp % ep)
                    continue;
                const Ranks r = plan(tp * dp, (RanksAsked){.tp = tp, .ep = ep, .dp = dp});
                for (GroupAxis a = 0; a < AXIS_COUNT; a++)
                    check_groups(&r, a);
                assert_int_equal(r.members[AXIS_ep] * r.members[AXIS_edp], r.number);
            }
}

/* Experts per rank and copies of them in the published plan's stage: 256 experts on 32 ranks, 12 times. */
static void published_plan(void **state)
{
    (void)state;
    const Ranks r = plan(8 * 48, (RanksAsked){.tp = 8, .ep = 4, .per_node = 8});
    assert_int_equal(r.members[AXIS_dp], 48);
    assert_int_equal(256 / r.members[AXIS_ep], 8);
    assert_int_equal(r.members[AXIS_edp], 12);
    for (int64_t p = 0; p < 8; p++)
        assert_true(ranks_share_node(&r, 99, ranks_member(&r, AXIS_tp, 99, p)));
}

static void what_follows(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Text t = {.arena = a};
    const Ranks four = plan(4, (RanksAsked){0}), one = plan(1, (RanksAsked){0}), alone = ranks_one(),
                nodes = plan(8, (RanksAsked){.tp = 2, .ep = 2, .per_node = 4});
    assert_int_equal(four.members[AXIS_dp], 4);
    assert_int_equal(four.members[AXIS_edp], 4);
    assert_int_equal(four.per_node, 4);
    assert_memory_equal(&one, &alone, sizeof one);
    assert_string_equal(ranks_text(a, &nodes, 5), "rank 5 of 8: tp 1/2, ep 1/4, dp 2/4, edp 1/2");
    ranks_print(&nodes, &t);
    assert_string_equal(text_string(&t), "8 ranks on 2 nodes: tp 2, ep 4 = tp 2 x --ep 2, dp 4, edp 2");
    arena_free(a);
}

static void plans_that_cannot_be(void **state)
{
    (void)state;
    refuse(8, (RanksAsked){.dp = 3}, "tp 1 times dp 3 must be the number of ranks, 8");
    refuse(6, (RanksAsked){.tp = 4}, "tp 4 times dp 1 must be the number of ranks, 6");
    refuse(1, (RanksAsked){.dp = 2}, "tp 1 times dp 2 must be the number of ranks, 1");
    refuse(8, (RanksAsked){.tp = 2, .ep = 3}, "--ep 3 must divide dp 4 = 8 ranks / tp 2: ");
    refuse(8, (RanksAsked){.per_node = 3}, "8 ranks do not fill nodes of 3");
    refuse(8, (RanksAsked){.tp = -1}, "at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_figure),           cmocka_unit_test(groups_of_all_plans),
        cmocka_unit_test(published_plan),       cmocka_unit_test(what_follows),
        cmocka_unit_test(plans_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
