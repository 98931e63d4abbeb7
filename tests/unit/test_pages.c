/* Kernels read and write nothing beyond their tensors: each one ends at a page that cannot be touched. On every instruction
 * set of this CPU, at sizes around its vectors. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim A, E\n"
    "dim D = 2\n"
    /* lanes of a constant tail under a condition */
    "kernel tail(in x: f32[D], in d: f32[A, E], in j: i32[E], out y: f16[E, D]) {\n"
    "  y[e, i] = f16(if(i - e >= 0 and i - e < A, if(i - e < A, d[i - e, e], 0) * x[i], 0))\n"
    "}\n"
    "kernel shifted(in x: f32[A, E], in w: bf16[E], out y: f32[A, E], out s: f32[A]) {\n"
    "  y[a, e] = if(e + 1 < E, x[a, e + 1] * w[e + 1], 0) + if(a >= 1, x[a - 1, e], 1)\n"
    "  s[a] = sum(e where e < a) x[a, e]\n"
    "}\n"
    "kernel product(in x: bf16[A, E], in w: bf16[E, A], in g: f32[A, E], out y: f32[A, A], inout z: f32[E, "
    "E]) {\n"
    "  y[a, b] = sum(e) x[a, e] * w[e, b]\n"
    "  z[e, f] += sum(a) g[a, e] * x[a, f]\n"
    "}\n";

enum { PARAMS_MAX = 8, SIZE_MAX_TRIED = 36 };

typedef struct Memory {
    char *block;
    size_t bytes;
} Memory;

/* `bytes` of zeros that end where a page begins that faults. */
static void *before_fault(size_t bytes, Memory *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    m->bytes = room + page;
    m->block = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m->block != MAP_FAILED);
    assert_int_equal(mprotect(m->block + room, page, PROT_NONE), 0);
    return m->block + room - bytes;
}

static void call(const moec_kernel *k, const int64_t *dims)
{
    Memory memory[PARAMS_MAX];
    void *args[PARAMS_MAX];
    size_t n = moec_kernel_params(k);
    assert_true(n <= PARAMS_MAX);
    for (size_t i = 0; i < n; i++)
        args[i] = before_fault((size_t)moec_kernel_param_bytes(k, i, dims), &memory[i]);
    assert_int_equal(moec_kernel_entry(k)(NULL, dims, args), MOE_OK);
    for (size_t i = 0; i < n; i++)
        munmap(memory[i].block, memory[i].bytes);
}

static void check_target(const char *target)
{
    moec_context *c = moec_context_new();
    moec_options o = {.target = target, .no_cache = 1};
    moec_module *m;
    if (moec_compile_text(c, "pages.moe", PROGRAM, strlen(PROGRAM), &o, &m)) {
        print_message("%s: skipped, %s", target, moec_error_text(c));
        moec_context_free(c);
        return;
    }
    static const char *const kernels[] = {"tail", "shifted", "product"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int64_t a = 0; a <= SIZE_MAX_TRIED; a++)
            for (int64_t e = 0; e <= SIZE_MAX_TRIED; e += 1 + a % 3)
                call(moec_module_kernel(m, kernels[i]), (int64_t[]){a, e});
    moec_module_free(m);
    moec_context_free(c);
}

static void test_pages(void **state)
{
    (void)state;
    static const char *const targets[] = {"amx-soft",    "generic",    "avx2", "avx512",
                                          "avx512widen", "avx512bf16", "amx"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        check_target(targets[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
