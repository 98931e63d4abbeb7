/* What perf reads of JIT code when it is asked for: /tmp/perf-PID.map. (gdb: tests/examples.sh.) */
#include "moec/moec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct Jit {
    moec_context *context;
    char path[64]; /* of the map */
} Jit;

static int set_up(void **state)
{
    static Jit jit;
    jit.context = moec_context_new();
    assert_non_null(jit.context);
    snprintf(jit.path, sizeof jit.path, "/tmp/perf-%ld.map", (long)getpid());
    unlink(jit.path);
    *state = &jit;
    return 0;
}

static int tear_down(void **state)
{
    Jit *jit = *state;
    unlink(jit->path);
    moec_context_free(jit->context);
    return 0;
}

/* A module with one kernel of that name. */
static moec_module *compile(Jit *jit, const char *name, moec_options o)
{
    char text[200];
    moec_module *m = NULL;
    snprintf(text, sizeof text,
             "moe 1\ndim T, H, F\nkernel %s(in x: bf16[T, H], in w: bf16[H, F], out y: f32[T, F]) {\n"
             "  y[t, f] = sum(h) x[t, h] * w[h, f]\n}\n",
             name);
    o.no_cache = 1;
    if (moec_compile_text(jit->context, NULL, text, strlen(text), &o, &m))
        fail_msg("%s", moec_error_text(jit->context));
    return m;
}

/* The address below which the map has the function, and its size; 0: it has none of that name. */
static uintptr_t find(const Jit *jit, const char *name, size_t *size)
{
    char line[400], got[300];
    unsigned long long at = 0, bytes = 0;
    FILE *map = fopen(jit->path, "r");
    uintptr_t found = 0;
    while (map && fgets(line, sizeof line, map)) {
        assert_int_equal(sscanf(line, "%llx %llx %299s", &at, &bytes, got), 3);
        if (strcmp(got, name) == 0) {
            found = (uintptr_t)at;
            *size = (size_t)bytes;
        }
    }
    if (map)
        fclose(map);
    return found;
}

/* The map's function of that name begins where the API says, and is code of some length. */
static void assert_named(const Jit *jit, const moec_module *m, const char *name)
{
    size_t size = 0;
    const moec_kernel *k = moec_module_kernel(m, name);
    assert_true(find(jit, name, &size) == (uintptr_t)moec_kernel_function(k));
    assert_true(size > 0);
    char entry[100];
    snprintf(entry, sizeof entry, "%s__call", name);
    assert_true(find(jit, entry, &size) == (uintptr_t)moec_kernel_entry(k));
}

/* Also the functions that no one outside the object can name, and those of all modules that are there. */
static void test_map(void **state)
{
    Jit *jit = *state;
    size_t size = 0, other = 0;
    const moec_options asked = {.jit_names = 1, .target = "generic"};
    moec_module *first = compile(jit, "first", asked), *second = compile(jit, "second", asked);
    assert_named(jit, first, "first");
    assert_named(jit, second, "second");
    uintptr_t product = find(jit, "moec.product.generic.f32bf16", &size);
    uintptr_t entry = find(jit, "second.generic.entry", &other);
    assert_true(product && entry && size && other);
    assert_true(product + size <= entry || entry + other <= product);
    moec_module_free(first);
    moec_module_free(second);
}

static void test_not_asked(void **state)
{
    Jit *jit = *state;
    size_t size;
    moec_module *m = compile(jit, "silent", (moec_options){.target = "generic"});
    assert_true(find(jit, "silent", &size) == 0);
    moec_module_free(m);
}

/* The environment asks for a whole process, 0 for nothing. */
static void test_environment(void **state)
{
    Jit *jit = *state;
    setenv("MOEC_JIT_NAMES", "1", 1);
    moec_module *named = compile(jit, "named", (moec_options){.target = "generic"});
    setenv("MOEC_JIT_NAMES", "0", 1);
    moec_module *silent = compile(jit, "silent", (moec_options){.target = "generic"});
    unsetenv("MOEC_JIT_NAMES");
    size_t size;
    assert_named(jit, named, "named");
    assert_true(find(jit, "silent", &size) == 0);
    moec_module_free(named);
    moec_module_free(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_map, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
