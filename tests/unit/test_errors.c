/* Every error of the language has a file in tests/errors/ that says on its first line which one it shows:
 * `// expect E0301`. Reading the file, and the passes up to derive, must report exactly that error. */
#include "frontend_fixture.h"
#include "driver/pipeline.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char folder[] = "tests/errors";

typedef struct CodeRow {
    const char *name;
    int number;
    Severity severity;
} CodeRow;

static const CodeRow codes[] = {
#define ROW(code, number, severity, title, page) {#code, number, severity},
#include "base/errors.def"
#undef ROW
};
enum { CODES = sizeof codes / sizeof *codes };

static int is_case(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    if (strncmp(entry->d_name, "people_", 7) == 0) /* several errors each: tests/golden.py */
        return 0;
    return n > 4 && strcmp(entry->d_name + n - 4, ".moe") == 0;
}

static char *read_case(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *len = fread(text, 1, (1 << 20) - 1, f);
    text[*len] = '\0';
    fclose(f);
    return text;
}

static void run_case(const char *name, uint8_t *seen)
{
    char path[512], wanted[64]; /* codes of all errors, in turn */
    size_t len;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_case(path, &len);
    if (sscanf(text, "// expect %63[^\n]", wanted) != 1)
        fail_msg("%s does not begin with `// expect CODE...`", path);
    Reading r;
    reading_open(&r, path, text, len);
    if (!r.failed) /* some are found by derive, or the lowering */
        pipeline_run(r.m, &(PipelineOptions){.limit = -1});
    if (strcmp(reading_codes(&r), wanted) != 0)
        fail_msg("%s: expected %s, got %s\n%s", path, wanted, reading_codes(&r),
                 diag_text(&r.diags, r.arena));
    for (uint32_t i = 0; i < r.diags.list.len; i++) {
        assert_true(r.diags.list.at[i].loc.line > 0);
        assert_non_null(r.diags.list.at[i].help);
    }
    for (int c = 0; c < CODES; c++)
        seen[c] |= codes[c].number == atoi(wanted + 1);
    reading_close(&r);
    free(text);
}

/* Not errors of the language, or not to be had from a small file. */
static int is_elsewhere(const CodeRow *row)
{
    return row->severity != SEV_ERROR || strncmp(row->name, "tile_", 5) == 0 ||
           strcmp(row->name, "plan_fit") == 0 /* of a machine: tests/plan.sh */ ||
           strncmp(row->name, "driver_", 7) == 0 ||
           strcmp(row->name, "file_size") == 0 /* test_frontend_bad.c */ ||
           strcmp(row->name, "given_block") == 0 /* of the C interface: test_api_kernels.c */;
}

static void each_code_has_a_case(void **state)
{
    (void)state;
    uint8_t seen[CODES] = {0};
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_case, alphasort);
    if (n < 0)
        fail_msg("cannot list %s", folder);
    for (int i = 0; i < n; i++) {
        run_case(list[i]->d_name, seen);
        free(list[i]);
    }
    free(list);
    for (int c = 0; c < CODES; c++)
        if (!seen[c] && !is_elsewhere(&codes[c]))
            fail_msg("no file of %s shows E%04d (%s)", folder, codes[c].number, codes[c].name);
}

static void each_code_has_a_page(void **state)
{
    (void)state;
    for (int c = 0; c < CODES; c++) {
        const char *name = diag_code_name((DiagCode)c), *page = diag_page(name);
        assert_non_null(page);
        assert_memory_equal(page, name, strlen(name));
        assert_true(strlen(page) > strlen(diag_title((DiagCode)c)) + 40);
        assert_true(strlen(page) < 2000); /* fits the buffer of diag_page whole */
        for (int other = c + 1; other < CODES; other++)
            assert_int_not_equal(codes[c].number, codes[other].number);
    }
    assert_null(diag_page("E9999"));
    assert_null(diag_page("syntax"));
    assert_null(diag_page(""));
    assert_non_null(diag_page("0101"));
}

/* One error at `y`, with a label at `x` and an edit of `y`. */
static void text_has_labels_edits_and_colours(void **state)
{
    (void)state;
    Diags d = {.arena = arena_new()};
    static const char text[] = "a = x\nb = y\n";
    uint32_t file = diag_add_file(&d, "f", text, sizeof text - 1);
    diag_add(&d, DIAG_unknown_name, (Loc){file, 2, 5, 1}, "did you mean", "no y");
    diag_label(&d, (Loc){file, 1, 5, 1}, "x is here");
    diag_edit(&d, (Loc){file, 2, 5, 1}, "x");
    assert_string_equal(diag_text(&d, d.arena), "f:2:5: error[E0201]: no y\n    b = y\n        ^\n"
                                                "f:1:5: note: x is here\n    a = x\n        ^\n"
                                                "help: did you mean\n    b = x\n");
    assert_null(strchr(diag_text(&d, d.arena), '\033'));
    d.color = 1;
    assert_non_null(strstr(diag_text(&d, d.arena), "\033[1;31merror[E0201]:\033[0m"));
    assert_non_null(strstr(diag_json(&d, d.arena), "\"edits\""));
    assert_null(strchr(diag_json(&d, d.arena), '\033'));
    arena_free(d.arena);
}

/* A name that is unknown at three places is one error; edits go to each place. */
static void a_cause_is_reported_once(void **state)
{
    (void)state;
    Diags d = {.arena = arena_new()};
    for (uint32_t line = 1; line <= 3; line++) {
        diag_add(&d, DIAG_unknown_name, (Loc){0, line, 1, 1}, NULL, "no y");
        diag_edit(&d, (Loc){0, line, 1, 1}, "x");
    }
    diag_add(&d, DIAG_syntax, (Loc){0, 4, 1, 1}, NULL, "no y");
    assert_int_equal(d.list.len, 2);
    assert_int_equal(d.errors, 4);
    assert_int_equal(d.list.at[0].labels.len, 2);
    assert_int_equal(d.list.at[0].edits.len, 3);
    arena_free(d.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_code_has_a_case),
        cmocka_unit_test(each_code_has_a_page),
        cmocka_unit_test(text_has_labels_edits_and_colours),
        cmocka_unit_test(a_cause_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
