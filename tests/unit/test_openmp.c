/* What programs tell the OpenMP library (base/openmp.c). */
#include "base/openmp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

static char folder[] = "/tmp/test_openmp_XXXXXX";

static const char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_folder(const char *name) { assert_int_equal(mkdir(path_of(name), 0700), 0); }

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int cores(const char *list)
{
    write_file("list", list);
    char path[200];
    snprintf(path, sizeof path, "%s", path_of("list"));
    return cgroup_cores(path, folder);
}

static void a_group_of_version_2_is_limited_by_those_above_it(void **state)
{
    (void)state;
    make_folder("a");
    make_folder("a/b");
    write_file("a/b/cpu.max", "max 100000\n");
    assert_int_equal(cores("0::/a/b\n"), 0);
    write_file("a/cpu.max", "250000 100000\n");
    assert_int_equal(cores("0::/a/b\n"), 3);
    write_file("a/b/cpu.max", "100000 100000\n");
    assert_int_equal(cores("0::/a/b\n"), 1);
    assert_int_equal(cores("0::/a\n"), 3);
    assert_int_equal(cores("0::/elsewhere\n"), 0);
    write_file("cpu.max", "800000 100000\n"); /* a container's own group, mounted as the root */
    assert_int_equal(cores("0::/elsewhere\n"), 8);
}

static void a_group_of_version_1_is_that_of_the_controller(void **state)
{
    (void)state;
    make_folder("cpu");
    make_folder("cpu/x");
    write_file("cpu/cpu.cfs_quota_us", "-1\n");
    write_file("cpu/cpu.cfs_period_us", "100000\n");
    write_file("cpu/x/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(cores("4:cpu,cpuacct:/x\n"), 0); /* a quota without a period */
    write_file("cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores("9:memory:/x\n4:cpuacct,cpu:/x\n"), 2);
    assert_int_equal(cores("9:cpuset:/x\n"), 0);
    assert_int_equal(cores("4:cpu:/\n"), 0);
}

static void what_is_no_list_limits_nothing(void **state)
{
    (void)state;
    assert_int_equal(cores(""), 0);
    assert_int_equal(cores("cpu\n"), 0);
    assert_int_equal(cores("4:cpu"), 0);
    assert_int_equal(cgroup_cores("/nonexistent", folder), 0);
}

static void the_users_word_counts(void **state)
{
    (void)state;
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    openmp_set_up();
    assert_non_null(getenv("GOMP_SPINCOUNT"));
    setenv("GOMP_SPINCOUNT", "7", 1);
    openmp_set_up();
    assert_string_equal(getenv("GOMP_SPINCOUNT"), "7");
    unsetenv("GOMP_SPINCOUNT");
    setenv("OMP_WAIT_POLICY", "active", 1);
    openmp_set_up();
    assert_null(getenv("GOMP_SPINCOUNT"));
}

static int make_root(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int remove_root(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_list_limits_nothing),
        cmocka_unit_test(a_group_of_version_2_is_limited_by_those_above_it),
        cmocka_unit_test(a_group_of_version_1_is_that_of_the_controller),
        cmocka_unit_test(the_users_word_counts),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
