/* A run of a program allocates nothing. */
#include "allocations.h"
#include "model_fixture.h"

static void no_allocation(void **state)
{
    (void)state;
    ModelFixture f = fixture_new(fixture_pangu);
    Recipe setup = fixture_recipe(&f, "setup", 0), step = fixture_recipe(&f, "step", 1);
    recipe_setup(&setup);
    recipe_step(&step, FIXTURE_MICRO);
    Program *a = fixture_finish(&setup), *b = fixture_finish(&step);
    fixture_compile(&f);
    Run *prepare = fixture_start(&f, a), *run = fixture_start(&f, b);
    fixture_draw(&f);
    fixture_go(prepare);
    fixture_go(run); /* OpenMP makes its threads */
    const long before = allocations;
    assert_true(before > 0); /* they are counted */
    for (int i = 0; i < 3; i++)
        fixture_go(run);
    assert_int_equal(allocations, before);
    run_free(prepare);
    run_free(run);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
