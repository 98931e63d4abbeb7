/* A call of a compiled kernel: what it refuses and with which words, work space, threads, failing checks, and
 * the outputs of the plug-in. */
#include "tests/unit/backend_fixture.h"

#include "machines/machines.h"

static const char kernels[] =
    "tiles 1\n"
    "dim T <= 1000\n"
    "dim H : % 4\n"
    "dim E\n"
    "group R : E rows T*2\n"
    "kernel f(in x: f32[T, H], in s: f32, inout n: i32, out y: f32[T, H]) {\n"
    "    cost T*H\n"
    "    launch y { parallel t in 0..T { vector h in 0..H by 16 { y[t, h] = x[t, h] * s } } }\n"
    "    launch n { n = n + 1 }\n"
    "}\n"
    "kernel g(in x: f32[T, H], in rt: route[T, 2 -> R], out y: f32[T, H], in c: bf16) {\n"
    "    cost T*H*100\n"
    "    fields rt.row_of\n"
    "    work a: f32[T, H]\n"
    "    thread b: f32[H, 3]\n"
    "    launch valid { valid rt }\n"
    "    launch a {\n"
    "        parallel t in 0..T {\n"
    "            vector h in 0..H by 16 { b[h, 1] = x[t, h] }\n"
    "            vector h in 0..H by 16 { a[t, h] = b[h, 1] + c }\n"
    "        }\n"
    "    }\n"
    "    launch y {\n"
    "        parallel t in 0..T {\n"
    "            vector h in 0..H by 16 { y[T - 1 - t, h] = a[t, h] + rt.row_of[t * 2] }\n"
    "        }\n"
    "    }\n"
    "}\n"
    "kernel h(in id: i32[T], out y: f32[T], out z: f32[T]) {\n"
    "    cost T*1000000\n"
    "    launch a { parallel t in 0..T { y[t] = 1.0 } }\n"
    "    launch b {\n"
    "        parallel t in 0..T {\n"
    "            check id[t] < 5 else COMPUTED \"id is %lld, below %lld\" (id[t], 5)\n"
    "            y[t] = 2.0\n"
    "        }\n"
    "    }\n"
    "    launch c { parallel t in 0..T { z[t] = 3.0 } }\n"
    "    launch d { vector t in 0..T by 16 {\n"
    "        check id[t] > -1 else INDEX \"id is %lld\" (id[t])\n"
    "        check id[t] != 3 else RANGE \"id is 3 at %lld\" (t) } }\n"
    "}\n";

static void refuses(Compiled *c, const char *kernel, const int64_t *dims, void *const *args, int status,
                    const char *word)
{
    c->ctx.status = 77;
    assert_int_equal(call(c, kernel, dims, args), status);
    assert_int_equal(c->ctx.status, status);
    if (!strstr(c->message, word) || !strstr(c->message, kernel))
        fail_msg("\"%s\" does not name %s and %s", c->message, kernel, word);
}

static void test_refusals(void **state)
{
    (void)state;
    Compiled c;
    compile(&c, kernels, cpu_best());
    float x[64] = {1, 2}, y[64], s = 3;
    int32_t n = 5;
    void *fine[] = {x, &s, &n, y};
    call_fine(&c, "f", (int64_t[]){2, 4}, fine);
    assert_true(y[0] == 3 && y[1] == 6 && n == 6);
    refuses(&c, "f", (int64_t[]){-1, 4}, fine, MOE_SIZE, "T is -1");
    refuses(&c, "f", (int64_t[]){2, (int64_t)1 << 41}, fine, MOE_SIZE, "H is 2199023255552");
    refuses(&c, "f", (int64_t[]){512, (int64_t)1 << 40}, fine, MOE_SIZE, "2^40");
    refuses(&c, "f", (int64_t[]){1001, 4}, fine, MOE_RULE, "T is 1001; its rule is T <= 1000");
    refuses(&c, "f", (int64_t[]){2, 6}, fine, MOE_RULE, "H is 6; its rule is H % 4 == 0");
    refuses(&c, "f", (int64_t[]){2, 4}, (void *[]){NULL, &s, &n, y}, MOE_NULL, "x is NULL");
    refuses(&c, "f", (int64_t[]){2, 4}, (void *[]){x, &s, NULL, y}, MOE_NULL, "n is NULL");
    refuses(&c, "f", (int64_t[]){2, 4}, (void *[]){x, &s, &n, x + 7}, MOE_OVERLAP, "x and y");
    refuses(&c, "f", (int64_t[]){2, 4}, (void *[]){x, &s, x + 3, y}, MOE_OVERLAP, "x and n");
    static const int64_t refused[][2] = {{-1, 4}, {2, -4}, {2, (int64_t)1 << 41}, {1001, 4}, {2, 6}};
    int64_t (*space)(const int64_t *) =
        (int64_t(*)(const int64_t *))(uintptr_t)backend()->jit_symbol(c.jit, "f__workspace");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(space(refused[i]), -1);
    assert_int_equal(space((int64_t[]){2, 4}), 0);
    call_fine(&c, "f", (int64_t[]){2, 4}, (void *[]){x, &s, &n, x + 8}); /* side by side */
    call_fine(&c, "f", (int64_t[]){0, 4}, (void *[]){NULL, &s, &n, NULL});
    assert_int_equal(n, 8);
    done(&c);
}

static moe_route route_of(int64_t *start, int64_t *count, int32_t *row_of)
{
    return (moe_route){4, 2, 1, 8, start, count, NULL, row_of};
}

static void test_routes_and_space(void **state)
{
    (void)state;
    Compiled c;
    compile(&c, kernels, cpu_best());
    float x[32], y[32];
    int64_t start[2] = {0, 8}, count[1] = {8}, dims[] = {4, 8, 1};
    int32_t row_of[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint16_t half = to_bf16(0.5f);
    moe_route rt = route_of(start, count, row_of);
    void *args[] = {x, &rt, y, &half};
    for (int i = 0; i < 32; i++)
        x[i] = (float)i;
    for (int threads = 1; threads <= 3; threads++) {
        c.ctx.threads = threads;
        memset(y, 0, sizeof y);
        call_fine(&c, "g", dims, args);
        for (int t = 0; t < 4; t++)
            for (int h = 0; h < 8; h++)
                assert_true(y[(3 - t) * 8 + h] == x[t * 8 + h] + 0.5f + (float)(2 * t));
    }
    assert_true(c.ctx.work && (uintptr_t)c.ctx.work % 64 == 0 && c.ctx.work_bytes >= 256);
    moe_entry *entry = (moe_entry *)(uintptr_t)backend()->jit_symbol(c.jit, "g__call");
    assert_int_equal(entry(NULL, dims, args), MOE_OK);
    rt.groups = 2;
    refuses(&c, "g", dims, args, MOE_ROUTE, "groups is 2, the call's dimensions make it 1");
    rt = route_of(start, count, NULL);
    refuses(&c, "g", dims, args, MOE_NULL, "rt.row_of");
    rt = route_of(NULL, count, row_of);
    refuses(&c, "g", dims, args, MOE_NULL, "rt.start");
    rt = route_of(start, count, (int32_t *)(void *)y);
    refuses(&c, "g", dims, args, MOE_OVERLAP, "rt.row_of");
    refuses(&c, "g", dims, (void *[]){x, NULL, y, &half}, MOE_NULL, "rt");
    int64_t (*space)(const int64_t *) =
        (int64_t(*)(const int64_t *))(uintptr_t)backend()->jit_symbol(c.jit, "g__workspace");
    assert_true(space(dims) >= 128 + 128);
    assert_int_equal(space((int64_t[]){-1, 8, 1}), -1);
    assert_int_equal(space((int64_t[]){-1, -8, 1}), -1); /* their product is a size */
    done(&c);
}

static void test_checks(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, kernels, isa);
        int32_t id[100];
        float y[100], z[100];
        void *args[] = {id, y, z};
        int64_t n = 100;
        for (int threads = 1; threads <= 4; threads++) {
            c.ctx.threads = threads;
            memset(id, 0, sizeof id);
            call_fine(&c, "h", &n, args);
            assert_true(y[99] == 2 && z[99] == 3);
            id[42] = 8;
            id[61] = id[99] = 9;
            memset(z, 0, sizeof z);
            assert_int_equal(call(&c, "h", &n, args), MOE_COMPUTED);
            assert_string_equal(c.message, "id is 8, below 5"); /* the lowest, on any number of threads */
            assert_true(y[42] == 1 && z[0] == 0);               /* no later launch ran */
            memset(id, 0, sizeof id);
            id[97] = -3;
            assert_int_equal(call(&c, "h", &n, args), MOE_INDEX);
            assert_string_equal(c.message, "id is -3");
            id[97] = 3;
            assert_int_equal(call(&c, "h", &n, args), MOE_RANGE);
            assert_string_equal(c.message, "id is 3 at 97"); /* the second check of its launch */
        }
        done(&c);
    }
}

/* ---- the plug-in ---- */

static const char *emit(Compiled *c, const Isa *isas, uint32_t n, enum BackendOutput what, const char **bytes,
                        size_t *len)
{
    BackendOptions options = {
        .level = 2, .manifest = "{\"a\":1}", .build_id = "id", .debug = what == OUTPUT_LLVM};
    BackendInput inputs[ISA_COUNT];
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = (BackendInput){c->module, isas[i]};
    return backend()->emit(inputs, n, &options, what, c->arena, bytes, len);
}

static void test_outputs(void **state)
{
    (void)state;
    Compiled c;
    const char *bytes, *again;
    size_t len, len2;
    Isa best = cpu_best();
    read_tiles(&c, kernels);
    assert_null(emit(&c, &best, 1, OUTPUT_LLVM, &bytes, &len));
    assert_non_null(strstr(bytes, "define i32 @f__call("));
    assert_non_null(strstr(bytes, "!DISubprogram"));
    assert_null(emit(&c, &best, 1, OUTPUT_ASM, &bytes, &len));
    assert_non_null(strstr(bytes, "f__workspace:"));
    assert_null(emit(&c, &best, 1, OUTPUT_OBJECT, &bytes, &len));
    assert_null(emit(&c, &best, 1, OUTPUT_OBJECT, &again, &len2));
    assert_int_equal(len, len2);
    assert_memory_equal(bytes, again, len);
    assert_null(backend()->jit_load(bytes, len, 0, c.arena, &c.jit));
    assert_string_equal((const char *)backend()->jit_symbol(c.jit, "moec_manifest"), "{\"a\":1}");
    assert_string_equal((const char *)backend()->jit_symbol(c.jit, "moec_build_id"), "id");
    assert_null(backend()->jit_symbol(c.jit, "nothing"));
    done(&c);
    assert_non_null(strstr(backend()->version, "LLVM "));
}

/* All instruction sets in one object: MOE_ISA chooses, and is refused by name when it cannot. */
static void test_selection(void **state)
{
    (void)state;
    static const char *const words[] = {"generic", "avx2",     "avx512", "avx512bf16",
                                        "amx",     "amx-soft", "z80",    ""};
    static const Isa isas[] = {ISA_avx2, ISA_amx_soft, ISA_generic, ISA_avx512bf16, ISA_avx512};
    enum { WORDS = sizeof words / sizeof *words, ISAS = sizeof isas / sizeof *isas };
    float x[64] = {1, 2}, y[64], s = 3;
    for (int i = 0; i < WORDS; i++) {
        Compiled c;
        const char *bytes;
        size_t len;
        int32_t n = 5;
        read_tiles(&c, kernels);
        assert_null(emit(&c, isas, ISAS, OUTPUT_OBJECT, &bytes, &len));
        assert_null(backend()->jit_load(bytes, len, 0, c.arena, &c.jit));
        setenv("MOE_ISA", words[i], 1);
        Isa isa;
        int can = !*words[i] || (cpu_find(words[i], &isa) && isa != ISA_amx && cpu_has(isa));
        void *args[] = {x, &s, &n, y};
        if (can)
            call_fine(&c, "f", (int64_t[]){2, 4}, args);
        else
            refuses(&c, "f", (int64_t[]){2, 4}, args, MOE_ISA, words[i]);
        if (!can)
            assert_non_null(strstr(c.message, "(amx-soft, generic, avx2, avx512, avx512bf16)"));
        unsetenv("MOE_ISA");
        done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_routes_and_space),
        cmocka_unit_test(test_checks),    cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_selection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
