/* derive on 200 random kernels: gathers, where, if, routes, top, capacity groups, max, shifts. */
#include "gradient.h"
#include "random_kernel.h"

#include <stdlib.h>

static const Size sizes[] = {{"T", 3}, {"K", 2}, {"E", 3}, {"H", 2}, {"V", 4}, {"S", 4}, {"P", 2}, {NULL, 0}};

static int check_seed(uint64_t seed)
{
    Arena *text_arena = arena_new();
    const char *text = random_kernel(text_arena, seed);
    Program p = program_read(text);
    program_passes(&p, "dce");
    if (p.diags->errors)
        fail_msg("seed %llu\n%s\n%s", (unsigned long long)seed, text, diag_text(p.diags, p.arena));
    GradientCheck g = {.sizes = sizes, .below = 3, .seed = seed, .tolerance = 1e-5};
    check_gradients(&g, &p, "f_fwd", "f_bwd");
    check_round_trip(&p, "f_fwd", &g);
    check_round_trip(&p, "f_bwd", &g);
    program_free(&p);
    arena_free(text_arena);
    return g.kinks;
}

/* MOE_SEED=n checks one kernel alone. */
static void random_kernels(void **state)
{
    (void)state;
    const char *one = getenv("MOE_SEED");
    int kinks = 0;
    if (one) {
        check_seed(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= 200; seed++)
        kinks += check_seed(seed);
    /* 200 kernels, 6 targets, 7 directions: nearly all are smooth */
    assert_true(kinks < 200 * 6 * 7 / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
