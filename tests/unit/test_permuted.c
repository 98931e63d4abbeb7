/* Permutations that nobody stores: base/random.c. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 3000 };

/* Each element once, and in another order for another seed. */
static void permutations(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 1000, 1024, 1025, MOST};
    static char seen[MOST];
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t n = sizes[s];
        int64_t moved = 0;
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = random_permuted(7, i, n);
            assert_in_range(at, 0, n - 1);
            assert_false(seen[at]++);
            moved += at != random_permuted(8, i, n);
        }
        assert_true(n < 1000 || moved > n * 9 / 10);
    }
    assert_in_range(random_permuted(1, INT64_MAX / 3, INT64_MAX / 2), 0, INT64_MAX / 2 - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(permutations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
