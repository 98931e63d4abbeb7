/* Routes from ids (runtime/route.c), against what the words of moert.h say about each choice. */
#include "base/base.h"
#include "moec/moert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { MOST_SLOTS = 64 };

/* The choices of group g ahead of choice s. */
static int64_t ahead_of(const int32_t *ids, int64_t s, int32_t g)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s; i++)
        n += ids[i] == g;
    return n;
}

static int64_t most_rows(const int32_t *ids, int64_t slots, int32_t g, int64_t capacity)
{
    return capacity < 0 ? ahead_of(ids, slots, g) : capacity;
}

static void expect_groups(const moe_route *r, const int32_t *ids, int64_t capacity)
{
    const int64_t slots = r->tokens * r->choices;
    int64_t start = 0;
    for (int32_t g = 0; g < r->groups; g++) {
        const int64_t chosen = ahead_of(ids, slots, g), rows = most_rows(ids, slots, g, capacity);
        assert_int_equal(r->start[g], start);
        assert_int_equal(r->count[g], chosen < rows ? chosen : rows);
        start += rows;
    }
    assert_int_equal(r->start[r->groups], start);
    assert_int_equal(r->rows, capacity < 0 ? slots : r->groups * capacity);
}

static void expect_choices(const moe_route *r, const int32_t *ids, int64_t capacity)
{
    const int64_t slots = r->tokens * r->choices;
    int64_t kept = 0, filled = 0;
    for (int64_t s = 0; s < slots; s++) {
        const int32_t g = ids[s];
        const int64_t place = g < 0 ? 0 : ahead_of(ids, s, g);
        if (g < 0 || place >= most_rows(ids, slots, g, capacity)) {
            assert_int_equal(r->row_of[s], -1);
            continue;
        }
        assert_int_equal(r->row_of[s], r->start[g] + place);
        assert_int_equal(r->slot_of[r->row_of[s]], s);
        kept++;
    }
    for (int64_t row = 0; row < r->rows; row++)
        filled += r->slot_of[row] != -1;
    assert_int_equal(filled, kept);
}

static void rows_are_ordered_by_group_and_choice(void **state)
{
    (void)state;
    Random random = random_new(5);
    for (int i = 0; i < 2000; i++) {
        int32_t ids[MOST_SLOTS + 1];
        const int64_t tokens = random_below(&random, 9), choices = random_below(&random, 8);
        const int64_t groups = random_below(&random, 6), capacity = random_below(&random, 6) - 1;
        for (int64_t s = 0; s < tokens * choices; s++)
            ids[s] = (int32_t)random_below(&random, groups + 1) - 1;
        moe_route *r = moe_route_from_ids(ids, tokens, choices, groups, capacity);
        assert_non_null(r);
        expect_groups(r, ids, capacity);
        expect_choices(r, ids, capacity);
        moe_route_free(r);
    }
}

static void what_is_no_route_is_refused(void **state)
{
    (void)state;
    const int32_t ids[] = {0, 2}, low[] = {0, -2};
    moe_route *r = moe_route_from_ids(ids, 2, 1, 3, -1);
    assert_non_null(r);
    moe_route_free(r);
    assert_null(moe_route_from_ids(ids, 2, 1, 2, -1));
    assert_null(moe_route_from_ids(low, 2, 1, 3, -1));
    assert_null(moe_route_from_ids(ids, 2, 1, 3, -2));
    assert_null(moe_route_from_ids(ids, -1, 1, 3, -1));
    assert_null(moe_route_from_ids(ids, INT64_MAX, INT64_MAX, 3, -1));
    assert_null(moe_route_from_ids(ids, 2, 1, INT32_MAX, INT32_MAX));
    assert_null(moe_route_from_ids(ids, 2, 1, 3, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_ordered_by_group_and_choice),
        cmocka_unit_test(what_is_no_route_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
