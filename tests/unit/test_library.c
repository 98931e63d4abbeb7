/* What a .so exports for packed memory, beside the functions of libmoec: the same sizes and the same bytes, of every
 * element type and layout. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim E, H, F\n"
    "kernel k(in a: f32[E, H, F] packed, in b: bf16[E, H, F] packed, in c: f16[E, H, F] packed both,\n"
    "         in d: f32[E, H, F] packed both, out y: f32[E]) {\n"
    "  y[e] = sum(h, f) a[e, h, f] * b[e, h, f] * c[e, h, f] * d[e, h, f]\n"
    "}\n";

typedef size_t PackBytes(int64_t e, int64_t h, int64_t f);
typedef int Pack(int64_t e, int64_t h, int64_t f, const void *row_major, void *packed);

static const int64_t sizes[][3] = {{1, 1, 1}, {2, 17, 33}, {3, 64, 70}, {1, 16, 32}, {2, 0, 5}, {0, 3, 3}};
enum { SIZES = sizeof sizes / sizeof *sizes, ROW_MAJOR = 3 * 64 * 70 * 4, PACKED = 1 << 18 };

typedef struct Case {
    moec_context *context;
    moec_module *module;
    const moec_kernel *k;
    char directory[32];
    void *so;
} Case;

static void open_so(Case *c)
{
    char command[512], path[64];
    const char *build = getenv("MOEC_BUILD");
    strcpy(c->directory, "/tmp/moec-test-XXXXXX");
    assert_non_null(mkdtemp(c->directory));
    snprintf(path, sizeof path, "%s/k.moe", c->directory);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(PROGRAM, f) >= 0 && fclose(f) == 0);
    snprintf(command, sizeof command, "%s/bin/moec --no-cache %s -o %s/k.so", build ? build : "build", path,
             c->directory);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/k.so", c->directory);
    c->so = dlopen(path, RTLD_NOW);
    assert_non_null(c->so);
}

static int set_up(void **state)
{
    static Case c;
    moec_options o = {.no_cache = 1, .interpret = 1};
    c.context = moec_context_new();
    assert_int_equal(moec_compile_text(c.context, "k.moe", PROGRAM, strlen(PROGRAM), &o, &c.module), 0);
    c.k = moec_module_kernel(c.module, "k");
    open_so(&c);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    Case *c = *state;
    char command[64];
    moec_module_free(c->module);
    moec_context_free(c->context);
    dlclose(c->so);
    snprintf(command, sizeof command, "rm -r %s", c->directory);
    return system(command);
}

static void *function(const Case *c, const char *param, const char *suffix)
{
    char name[32];
    snprintf(name, sizeof name, "k_%s_%s", param, suffix);
    void *f = dlsym(c->so, name);
    assert_non_null(f);
    return f;
}

static void packs_alike(const Case *c, size_t param, const int64_t *at)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static unsigned char row_major[ROW_MAJOR], by_library[PACKED], by_so[PACKED];
    PackBytes *bytes = (PackBytes *)(uintptr_t)function(c, names[param], "pack_bytes");
    Pack *pack = (Pack *)(uintptr_t)function(c, names[param], "pack");
    for (size_t i = 0; i < ROW_MAJOR; i++)
        row_major[i] = (unsigned char)(1 + i * 7 % 113);
    memset(by_library, 0xff, PACKED);
    memset(by_so, 0xff, PACKED);
    int64_t n = moec_kernel_param_bytes(c->k, param, at);
    assert_in_range(n, 64, PACKED);
    assert_int_equal(bytes(at[0], at[1], at[2]), n);
    assert_int_equal(moec_kernel_pack(c->k, param, at, row_major, by_library), MOE_OK);
    assert_int_equal(pack(at[0], at[1], at[2], row_major, by_so), MOE_OK);
    assert_memory_equal(by_library, by_so, PACKED);
}

static void the_so_packs_as_the_library_does(void **state)
{
    for (size_t param = 0; param < 4; param++)
        for (size_t i = 0; i < SIZES; i++)
            packs_alike(*state, param, sizes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_so_packs_as_the_library_does)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
