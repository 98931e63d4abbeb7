/* Folders that appear whole or not at all, and the checks of one that is read. */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char at[] = "/tmp/moec-folder-XXXXXX";
static Arena *a;
static const char *path; /* of the folder that is made */

static void put(const char *folder, const char *name, const char *text)
{
    FILE *f = fopen(arena_printf(a, "%s/%s", folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make(const char *text)
{
    const char *aside;
    assert_null(folder_begin(a, path, &aside));
    put(aside, "one", text);
    put(aside, "two", "");
    FolderSums sums = {0}, other = {0};
    assert_null(folder_sums(a, path, 0, 2, &sums)); /* as two processes do it */
    assert_null(folder_sums(a, path, 1, 2, &other));
    assert_string_equal(sums.hashes[1].hex, "");
    sums.hashes[1] = other.hashes[1];
    assert_null(folder_commit(a, path, &sums));
    assert_null(folder_verify(a, path));
    assert_int_not_equal(access(aside, F_OK), 0);
}

static void expect(const char *words)
{
    const char *error = folder_verify(a, path);
    if (!error || !strstr(error, words))
        fail_msg("expected `%s`: %s", words, error ? error : "it is whole");
}

static void whole_or_not(void **state)
{
    const char *aside;
    (void)state;
    expect("XXH128SUMS: cannot be read: No such file");
    assert_null(folder_begin(a, path, &aside));
    put(aside, "one", "lost");
    assert_null(folder_begin(a, path, &aside)); /* what a killed process had begun */
    assert_int_not_equal(access(arena_printf(a, "%s/one", aside), F_OK), 0);
    folder_discard(a, path);
    assert_int_not_equal(access(aside, F_OK), 0);
    make("first"), make("second"); /* in its place */
    assert_null(folder_remove(a, path));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_null(folder_remove(a, path)); /* none there */
}

/* The sums that xxh128sum prints for these. */
static void known_sums(void **state)
{
    char line[128];
    (void)state;
    make("moec\n");
    FILE *f = fopen(arena_printf(a, "%s/XXH128SUMS", path), "r");
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "c5336dfdfa68ed96cd8cb1a9ef36c2b0  one\n");
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "99aa06d3014798d86001c324468d497f  two\n");
    fclose(f);
}

static void damaged(void **state)
{
    (void)state;
    make("first");
    put(path, "one", "fisrt");
    expect("one: its content is not what was written");
    put(path, "one", "first"), put(path, "three", "");
    expect("three: has no checksum");
    make("first");
    unlink(arena_printf(a, "%s/two", path));
    expect("two: cannot be read: No such file");
    make("first");
    put(path, "XXH128SUMS", "");
    expect("one: has no checksum");
    put(path, "XXH128SUMS", "99aa06d3014798d86001c324468d497f  ../two\n");
    expect("is no checksum with the name of a file");
    put(path, "XXH128SUMS", "99aa06d3");
    expect("is no checksum with the name of a file");
    assert_null(folder_remove(a, path));
}

static int set_up(void **state)
{
    (void)state;
    a = arena_new();
    if (!a || !mkdtemp(at))
        return 1;
    path = arena_printf(a, "%s/whole", at);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(a, path);
    arena_free(a);
    return rmdir(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_or_not), cmocka_unit_test(known_sums),
                                       cmocka_unit_test(damaged)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
