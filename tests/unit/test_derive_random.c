/* derive and the cleaning passes on 200 random kernels: gathers, where, if, routes, top, capacity groups,
 * max, shifts. */
#include "gradient.h"
#include "random_kernel.h"

#include <stdlib.h>

static const Size sizes[] = {{"T", 3}, {"K", 2}, {"E", 3}, {"H", 2}, {"V", 4}, {"S", 4}, {"P", 2}, {NULL, 0}};

/* The passes keep the values of the kernel as it was written. */
static void check_values(const char *text, const Program *p, uint64_t seed)
{
    Program raw = program_read(text);
    Call one = call_new(raw.arena, program_kernel(&raw, "f"), sizes, 3, seed);
    Call two = call_new(p->arena, program_kernel(p, "f"), sizes, 3, seed);
    call_run(&one, EVAL_EXACT);
    call_run(&two, EVAL_EXACT);
    for (uint32_t i = 0; i < one.k->params.len; i++)
        for (int64_t n = 0; n < one.elements[i]; n++) {
            double a = one.args[i].data[n], b = two.args[i].data[n];
            if (!(a == b) && !(fabs(a - b) <= 1e-9 * (1 + fabs(a))) && !(isnan(a) && isnan(b)))
                fail_msg("seed %llu, parameter %u, element %lld: %.9g, after the passes %.9g\n%s",
                         (unsigned long long)seed, i, (long long)n, a, b, text);
        }
    program_free(&raw);
}

static int check_seed(uint64_t seed)
{
    Arena *text_arena = arena_new();
    const char *text = random_kernel(text_arena, seed);
    Program p = program_read(text);
    program_passes(&p, "checks");
    if (p.diags->errors)
        fail_msg("seed %llu\n%s\n%s", (unsigned long long)seed, text, diag_text(p.diags, p.arena));
    check_values(text, &p, seed);
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
    assert_true(kinks < 200 * 6 * 7 / 100);
}

/* Two equal weights in bf16, of different groups, are the least of a min: derive gives the gradient to the lower index,
 * and central differences are the mean of both. */
static void a_tie_is_a_kink(void **state)
{
    (void)state;
    int kinks = check_seed(101444);
    assert_true(kinks > 0 && kinks < 6 * 7 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels), cmocka_unit_test(a_tie_is_a_kink)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
