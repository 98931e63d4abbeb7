/* Arenas: marks, and the scratch arena beneath one (base/arena.c). */
#include "base/base.h"

#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void released_memory_comes_again(void **state)
{
    (void)state;
    Arena *a = arena_new();
    char *kept = arena_strndup(a, "kept", 4);
    ArenaMark mark = arena_mark(a);
    size_t bytes = arena_bytes(a);
    char *first = arena_alloc(a, 100);
    memset(first, 1, 100);
    for (int i = 0; i < 100; i++) /* many chunks */
        arena_alloc(a, 1 << 20);
    arena_release(a, mark);
    assert_int_equal(arena_bytes(a), bytes);
    char *again = arena_alloc(a, 100);
    assert_ptr_equal(again, first);
    assert_int_equal(again[0] | again[99], 0);
    assert_string_equal(kept, "kept");
    arena_free(a);
}

static void an_empty_arena_has_a_mark(void **state)
{
    (void)state;
    Arena *a = arena_new();
    ArenaMark mark = arena_mark(a);
    arena_alloc(a, 1000);
    arena_release(a, mark);
    assert_int_equal(arena_bytes(a), 0);
    arena_free(a);
}

static void scratch_counts_toward_the_limit(void **state)
{
    (void)state;
    Arena *a = arena_new();
    jmp_buf landing;
    arena_set_limit(a, 1 << 20);
    arena_set_landing(a, &landing);
    Arena *s = arena_scratch(a);
    assert_ptr_equal(arena_scratch(a), s);
    ArenaMark mark = arena_mark(s);
    if (!setjmp(landing))
        for (;;)
            arena_alloc(s, 1000);
    assert_int_equal(arena_escaped(a), ESCAPE_MEMORY);
    assert_in_range(arena_bytes(a), 1, 1 << 20);
    arena_release(s, mark);
    assert_int_equal(arena_bytes(a), 0);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_memory_comes_again),
        cmocka_unit_test(an_empty_arena_has_a_mark),
        cmocka_unit_test(scratch_counts_toward_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
