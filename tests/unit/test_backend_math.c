/* Scalar functions and conversions as compiled, against libm in double, on every instruction set of this CPU, with 32
 * lanes, 16 and none. */
#include "tests/unit/backend_fixture.h"

#include <ctype.h>
#include <math.h>

static const char text[] = "tiles 1\n"
                           "dim N\n"
                           "kernel f(in x: f32[N], in z: f32[N], out y: f32[N]) {\n"
                           "    cost N\n"
                           "    launch y { vector i in 0..N by 32 { y[i] = %s } }\n"
                           "}\n"
                           "kernel g(in x: f32[N], in z: f32[N], out y: f32[N]) {\n"
                           "    cost N\n"
                           "    launch y { for i in 0..N { y[i] = %s } }\n"
                           "}\n"
                           "kernel u(in x: f32[N], in z: f32[N], out y: f32[N]) {\n"
                           "    cost N\n"
                           "    launch y { vector i in 0..N by 16 { unroll k in 0..1 { y[i + k] = %s } } }\n"
                           "}\n";

typedef double Wanted(double x, double z);

typedef struct Function {
    const char *name, *expression;
    Wanted *wanted;
} Function;

static double want_exp(double x, double z) { return (void)z, exp(x) < 0x1p-126 ? 0 : exp(x); }
static double want_log(double x, double z) { return (void)z, log(x); }
static double want_sqrt(double x, double z) { return (void)z, sqrt(x); }
static double want_rsqrt(double x, double z) { return (void)z, 1 / sqrt(x); }
static double want_tanh(double x, double z) { return (void)z, tanh(x); }
static double want_sigmoid(double x, double z) { return (void)z, 1 / (1 + exp(-x)); }
static double want_silu(double x, double z) { return (void)z, x / (1 + exp(-x)); }
static double want_gelu(double x, double z)
{
    return (void)z, x / (1 + exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
static double want_pow(double x, double z) { return x < 0 ? NAN : pow(x, z); }
static double want_floor(double x, double z) { return (void)z, floor(x); }
static double want_relu(double x, double z) { return (void)z, isnan(x) ? x : x > 0 ? x : 0; }
static double want_abs(double x, double z) { return (void)z, fabs(x); }
static double want_max2(double x, double z) { return isnan(x) || isnan(z) ? NAN : x >= z ? x : z; }
static double want_min2(double x, double z) { return isnan(x) || isnan(z) ? NAN : x <= z ? x : z; }
static double want_f16(double x, double z) { return (void)z, elem_round(EL_F16, x); }
static double want_bf16(double x, double z) { return (void)z, elem_round(EL_BF16, x); }
static double want_i32(double x, double z)
{
    (void)z;
    return isnan(x) ? 0 : x >= 2147483647.0 ? 2147483647.0 : x <= -2147483648.0 ? -2147483648.0 : trunc(x);
}

static const Function functions[] = {
    {"exp", "exp(x[i])", want_exp},          {"log", "log(x[i])", want_log},
    {"sqrt", "sqrt(x[i])", want_sqrt},       {"rsqrt", "rsqrt(x[i])", want_rsqrt},
    {"tanh", "tanh(x[i])", want_tanh},       {"sigmoid", "sigmoid(x[i])", want_sigmoid},
    {"silu", "silu(x[i])", want_silu},       {"gelu", "gelu(x[i])", want_gelu},
    {"pow", "pow(x[i], z[i])", want_pow},    {"floor", "floor(x[i])", want_floor},
    {"relu", "relu(x[i])", want_relu},       {"abs", "abs(x[i])", want_abs},
    {"max2", "max2(x[i], z[i])", want_max2}, {"min2", "min2(x[i], z[i])", want_min2},
    {"f16", "f32(f16(x[i]))", want_f16},     {"bf16", "f32(bf16(x[i]))", want_bf16},
    {"i32", "f32(i32(x[i]))", want_i32},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, N = 40000 };

/* Distance of y from the exact value, in places of the nearest f32. */
static double ulps(float y, double wanted)
{
    if (isnan(wanted) || isnan(y))
        return isnan(wanted) && isnan(y) ? 0 : INFINITY;
    float nearest = (float)wanted;
    if (y == nearest)
        return 0.5 * (y != wanted);
    if (isinf(y) || isinf(nearest))
        return fabs(wanted) > 3.4028233e38 && fabs((double)y) > 3.4028233e38 ? 1 : INFINITY;
    double place = ldexp(1, (fabs(wanted) < 0x1p-126 ? -126 : ilogb(wanted)) - 23);
    return fabs((double)y - wanted) / place;
}

/* Every exponent and sign, many mantissas; and the places where functions turn. */
static void fill(float *x, float *z)
{
    static const float special[] = {
        0.0f,     -0.0f,         1.0f,          -1.0f,         INFINITY,       -INFINITY,   NAN,
        0.5f,     2.0f,          88.72283f,     88.72284f,     -87.33655f,     -103.97207f, -103.97209f,
        0.625f,   0x1p-126f,     0x1p-149f,     65504.0f,      65519.996f,     65520.0f,    0x1p-24f,
        0x1p-25f, 0x1.8p-25f,    2147483520.0f, 2147483648.0f, -2147483648.0f, 8388607.5f,  8388608.0f,
        -0.5f,    3.4028235e38f, 1.4142135f,    0.70710677f};
    enum { SPECIAL = sizeof special / sizeof *special };
    Random r = random_new(7);
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)random_bits(&r);
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 2)
            x[i] = (float)(random_normal(&r) * (i % 4 == 1 ? 1 : 30));
        z[i] = (float)(random_normal(&r) * 4);
        if (i < SPECIAL * SPECIAL) {
            x[i] = special[i / SPECIAL];
            z[i] = special[i % SPECIAL];
        }
    }
}

/* What the row in ir/scalar.def states; of a cast, whose wanted value is rounded as the cast does, nothing. */
static double stated(const Function *f)
{
    ScalarOp op = scalar_find(f->name);
    assert_int_not_equal(op, OP_COUNT);
    int exact = scalar_table[op].kind == SK_CAST && op != OP_i32;
    return op == OP_i32 ? 0.5 /* the cast back to f32 */ : exact ? 0 : scalar_table[op].ulp;
}

static void check_function(const Function *f, Isa isa, const float *x, const float *z, float *y, float *other)
{
    char whole[4096], shifted[64];
    Compiled c;
    int64_t n = N - 5;
    snprintf(shifted, sizeof shifted, "%s", f->expression);
    snprintf(whole, sizeof whole, text, f->expression, f->expression, shifted);
    compile(&c, whole, isa);
    void *args[] = {(void *)(uintptr_t)x, (void *)(uintptr_t)z, y};
    call_fine(&c, "f", &n, args);
    double worst = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(f->name, "pow") == 0 && x[i] == 0 && signbit(x[i]))
            continue; /* -0 counts as 0 */
        double u = ulps(y[i], f->wanted((double)x[i], (double)z[i]));
        if (u > stated(f))
            fail_msg("%s %s(%a, %a) = %a, not %a: %g ulp", cpu_table[isa].name, f->name, (double)x[i],
                     (double)z[i], (double)y[i], f->wanted((double)x[i], (double)z[i]), u);
        worst = u > worst ? u : worst;
    }
    args[2] = other;
    call_fine(&c, "g", &n, args); /* the same bits without lanes, */
    assert_memory_equal(y, other, sizeof *y * (size_t)n);
    memset(other, 0, sizeof *y * N);
    call_fine(&c, "u", &n, args); /* and in a function of its own */
    assert_memory_equal(y, other, sizeof *y * (size_t)n);
    print_message("%-8s %-8s %.2f ulp\n", cpu_table[isa].name, f->name, worst);
    done(&c);
}

static int is_tested(const char *name)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0)
            return 1;
    return 0;
}

/* What ir/scalar.def states of functions of floats is measured: those of integers are below, operators in other tests. */
static void test_each_function_is_here(void **state)
{
    (void)state;
    for (ScalarOp op = 0; op < OP_COUNT; op++) {
        const ScalarRow *row = &scalar_table[op];
        int of_floats = row->kind == SK_FLOAT || row->kind == SK_ARITH;
        if (of_floats && isalpha((unsigned char)*row->spelling) && !is_tested(row->name))
            fail_msg("%s of ir/scalar.def has no row in `functions` here", row->name);
    }
}

static void test_functions(void **state)
{
    (void)state;
    static float x[N], z[N], y[N], other[N];
    fill(x, z);
    EACH_ISA(isa)
    for (int i = 0; i < FUNCTIONS; i++)
        check_function(&functions[i], isa, x, z, y, other);
}

/* ---- 16-bit floats in memory: every value ---- */

static const char halves[] = "tiles 1\n"
                             "dim N\n"
                             "kernel f(in x: %s[N], out y: f32[N], out z: %s[N]) {\n"
                             "    cost N\n"
                             "    launch y { vector i in 0..N by 32 { y[i] = x[i] z[i] = x[i] } }\n"
                             "}\n";

static double f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return h & 0x8000 ? -size : size;
}

static void test_halves(void **state)
{
    (void)state;
    static uint16_t x[65536], z[65536];
    static float y[65536];
    int64_t n = 65536;
    for (int i = 0; i < 65536; i++)
        x[i] = (uint16_t)i;
    EACH_ISA(isa)
    for (int bf16 = 0; bf16 < 2; bf16++) {
        Compiled c;
        char whole[1024];
        snprintf(whole, sizeof whole, halves, bf16 ? "bf16" : "f16", bf16 ? "bf16" : "f16");
        compile(&c, whole, isa);
        call_fine(&c, "f", &n, (void *[]){x, y, z});
        for (int i = 0; i < 65536; i++) {
            double wanted = bf16 ? (double)from_bf16(x[i]) : f16_value(x[i]);
            assert_true(isnan(wanted) ? isnan(y[i]) : y[i] == wanted && z[i] == x[i]);
        }
        done(&c);
    }
}

/* ---- integers ---- */

static const char integers[] =
    "tiles 1\n"
    "dim N\n"
    "kernel f(in a: i32[N], in b: i32[N], out q: i32[N], out r: i32[N], out s: i32[N]) {\n"
    "    cost N\n"
    "    launch q {\n"
    "        vector i in 0..N by 16 {\n"
    "            q[i] = idiv(a[i], b[i]) r[i] = imod(a[i], b[i])\n"
    "            s[i] = idiv(a[i], 7) + imod(a[i], 16) - abs(b[i] - a[i])\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Rounded down; a divisor below 1 counts as 1. */
static int64_t want_idiv(int64_t a, int64_t b) { return b < 1 ? a : a / b - (a % b < 0); }
static int64_t want_imod(int64_t a, int64_t b) { return b < 1 ? 0 : a - b * want_idiv(a, b); }

static void test_integers(void **state)
{
    (void)state;
    enum { M = 1003 };
    static int32_t a[M], b[M], q[M], r[M], s[M];
    int64_t n = M;
    for (int i = 0; i < M; i++) {
        a[i] = i == 5 ? INT32_MAX : i == 200 ? -1234567890 : i * 7919 % 5003 - 2500;
        b[i] = i % 11 - 1;
    }
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, integers, isa);
        memset(q, 0, sizeof q);
        memset(r, 0, sizeof r);
        call_fine(&c, "f", &n, (void *[]){a, b, q, r, s});
        for (int i = 0; i < M; i++) {
            assert_int_equal(q[i], want_idiv(a[i], b[i]));
            assert_int_equal(r[i], want_imod(a[i], b[i]));
            assert_int_equal(
                s[i], (int32_t)(want_idiv(a[i], 7) + want_imod(a[i], 16) - llabs((int64_t)b[i] - a[i])));
        }
        done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_function_is_here),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
