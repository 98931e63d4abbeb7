/* Rotary positions against the numbers of the `transformers` package (5.23) for the same fields. */
#include "model/model.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static int set_up(void **state) { return !(*state = arena_new()); }

static int tear_down(void **state)
{
    arena_free(*state);
    return 0;
}

/* DeepSeek-V3 with other scaling. */
static ModelConfig deepseek(Arena *a)
{
    ModelConfig c;
    assert_null(model_config_load(a, "examples/models/deepseek_v3.json", &c, NULL));
    return c;
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want))) /* theirs are f32 */
        fail_msg("%.17g is not %.17g", got, want);
}

/* What rotary_table of model/rope.moe computes. */
static double angle(const ModelConfig *c, int64_t pair)
{
    ModelRope r = model_rope(c);
    double plain = pow(r.base, -2 * (double)pair / (double)c->rope_dim);
    double ramp = fmin(1, fmax(0, ((double)pair - r.low) / fmax(0.001, r.high - r.low)));
    return plain + ramp * (plain / r.factor - plain);
}

static void deepseeks_angles_are_scaled_by_yarn(void **state)
{
    static const double want[] = {1.0,          0.0749894157, 0.0562341288, 0.0390069261,  0.0268793609,
                                  0.0183781441, 0.012447956,  0.0083345091, 0.00550000044, 0.00356199732};
    ModelConfig c = deepseek(*state);
    assert_near(angle(&c, 0), want[0]);
    for (int i = 1; i < 10; i++)
        assert_near(angle(&c, 8 + i), want[i]);
    assert_near(angle(&c, 22), 0.00017782794);
    assert_near(angle(&c, 23), 3.3338034e-05);
    assert_near(angle(&c, 31), 3.33380353e-06);
    assert_near(model_rope(&c).size, 1);
    assert_near(model_rope(&c).score, 0.1352337788608801);
}

static void the_scale_follows_from_mscale(void **state)
{
    ModelConfig c = deepseek(*state);
    c.rope_mscale = 0.707, c.rope_mscale_all = 0.5;
    assert_near(model_rope(&c).size, 1.064468903941252);
    assert_near(model_rope(&c).score, 0.10124612961325218);
    c.rope_mscale = c.rope_mscale_all = 0;
    assert_near(model_rope(&c).size, 1.3688879454113936);
    assert_near(model_rope(&c).score, 0.07216878364870322);
    c.rope_attention = 1.25;
    assert_near(model_rope(&c).size, 1.25);
}

static void no_scaling_leaves_angles(void **state)
{
    ModelConfig c = deepseek(*state);
    c.rope_scaling = ROPE_DEFAULT;
    assert_near(angle(&c, 11), 0.0421696492);
    assert_near(angle(&c, 31), 0.00013335215);
    assert_near(model_rope(&c).size, 1);
    assert_near(model_rope(&c).score, 0.07216878364870322);
}

static ModelConfig grouped(Arena *a, RopeScaling scaling, double theta)
{
    ModelConfig c;
    assert_null(model_config_load(a, "examples/models/tiny_gqa.json", &c, NULL));
    c.rope_scaling = scaling, c.rope_factor = 4, c.rope_original = 32768, c.rope_theta = theta;
    assert_null(model_config_check(a, "grouped", &c));
    return c;
}

static void grouped_attention_is_scaled_too(void **state)
{
    static const double linear[] = {0.25,          0.079056941,   0.0250000004,
                                    0.00790569466, 0.00249999994, 0.000790569466};
    static const double yarn[] = {1.0,           0.177827939,    0.0316227786,
                                  0.00421755994, 0.000500000024, 4.44569851e-05};
    ModelConfig l = grouped(*state, ROPE_LINEAR, 10000), y = grouped(*state, ROPE_YARN, 1e6);
    for (int i = 0; i < 6; i++) {
        assert_near(angle(&l, i), linear[i]);
        assert_near(angle(&y, i), yarn[i]);
    }
    assert_near(model_rope(&l).size, 1);
    assert_near(model_rope(&y).size, 1.138629436111989);
    assert_near(model_rope(&l).score, 0.25);
    assert_near(model_rope(&y).score, 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseeks_angles_are_scaled_by_yarn),
        cmocka_unit_test(the_scale_follows_from_mscale),
        cmocka_unit_test(no_scaling_leaves_angles),
        cmocka_unit_test(grouped_attention_is_scaled_too),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
