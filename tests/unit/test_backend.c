/* Statements of the tile level, compiled for every instruction set of this CPU and run. */
#include "tests/unit/backend_fixture.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 33, 100};

static const char pointwise[] = "tiles 1\n"
                                "dim N\n"
                                "kernel f(in x: bf16[N], in s: f32, in z: f32[N], out y: bf16[N], out w: f32[N]) {\n"
                                "    cost N\n"
                                "    launch y {\n"
                                "        parallel b in 0..N by 48 {\n"
                                "            vector i in b..min2(b + 48, N) by 16 {\n"
                                "                y[i] = bf16(x[i] * s + z[i])\n"
                                "                w[i] = x[i] * s + z[i]\n"
                                "            }\n"
                                "        }\n"
                                "    }\n"
                                "}\n";

static void test_pointwise(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, pointwise, isa);
        for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
            int64_t n = sizes[at];
            uint16_t x[104], y[104];
            float z[104], w[104], s = 0.37f;
            for (uint32_t i = 0; i < 104; i++) {
                x[i] = to_bf16(small_number(i) * 0.7f);
                z[i] = small_number(i + 7) * 0.01f;
                y[i] = 0x4242;
                w[i] = -7;
            }
            call_fine(&c, "f", &n, (void *[]){x, &s, z, y, w});
            for (int64_t i = 0; i < 104; i++) {
                volatile float product = from_bf16(x[i]) * s;
                volatile float sum = product + z[i];
                assert_int_equal(y[i], i < n ? to_bf16(sum) : 0x4242);
                assert_true(w[i] == (i < n ? sum : -7.0f));
            }
        }
        done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pointwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
