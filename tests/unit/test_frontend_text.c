/* What the scanner makes of the text itself: byte order marks, line ends, characters without meaning, literals. */
#include "frontend_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* A byte order mark before the text and CR before the ends of lines change no diagnostic. */
static void marks_and_line_ends(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "moe 1", "dim T // tokens", "kernel f(in x: f32[T],", "  out y: f32[T]) {", "\ty[t] = x[t] * xx[t]",
        "}"};
    Arena *a = arena_new();
    const char *expected = NULL;
    for (int variant = 0; variant < 4; variant++) {
        Text text = {.arena = a};
        Reading r;
        text_add(&text, "%s", variant & 1 ? "\xef\xbb\xbf" : "");
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            text_add(&text, "%s%s", lines[i], variant & 2 ? "\r\n" : "\n");
        reading_text(&r, text_string(&text));
        assert_string_equal(reading_codes(&r), "E0202");
        const char *said = arena_printf(a, "%s%s", diag_text(&r.diags, a), diag_json(&r.diags, a));
        expected = expected ? expected : said;
        assert_string_equal(said, expected);
        reading_close(&r);
    }
    assert_non_null(strstr(expected, "test.moe:5:16: error"));
    arena_free(a);
}

static void expect_text(const char *text, const char *words)
{
    Reading r;
    reading_text(&r, text);
    const char *said = diag_text(&r.diags, r.arena);
    if (!strstr(said, words))
        fail_msg("'%s' does not say '%s'", said, words);
    reading_close(&r);
}

static void the_mark_is_skipped_once(void **state)
{
    (void)state;
    expect_text("\xef\xbb\xbfmoe 2\n", "test.moe:1:5: error[E0108]");
    expect_text("\xef\xbb\xbfmoe 2\n", "\n    moe 2\n        ^\n");
    expect_text("\xef\xbb\xbf\xef\xbb\xbfmoe 1\n",
                "test.moe:1:1: error[E0102]: the character `\xef\xbb\xbf` (U+FEFF)");
    expect_text("moe 1\n\xef\xbb\xbf"
                "dim T\n",
                "test.moe:2:1: error[E0102]");
    expect_text("moe 1\n\xef\xbb\xbf"
                "dim T\n",
                "help: remove this byte order mark");
}

static void characters_are_named(void **state)
{
    (void)state;
    expect_text("moe 1\ndim $\n", "the character `$` has no meaning here");
    expect_text("moe 1\ndim\xc2\xa0T\n", "(U+00A0)");
    expect_text("moe 1\ndim\xc2\xa0T\n", "help: write an ordinary blank");
    expect_text("moe 1\ndim \xe2\x88\x92\xe2\x88\x92 T\n", "`\xe2\x88\x92` (U+2212)");
    expect_text("moe 1\ndim \xf0\x9f\x98\x80 T\n", "(U+1F600)");
    expect_text("moe 1\ndim \x01\n", "(U+0001)");
}

/* A literal is one of f32 if it rounds to a finite value; the program that is printed reads back. */
static void literals_are_those_of_f32(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int fits;
    } literals[] = {
        {"3.4e38", 1},
        {"3.4028235e38", 1},
        {"3.40282347e+38", 1},
        {"3.4028234663852886e38", 1},
        {"3.4028236e38", 0},
        {"3.4028235677973362e38", 1},
        {"3.4028235677973366e38", 0},
        {"1e39", 0},
        {"1e999", 0},
        {"1e-45", 1},
        {"1e-999", 1},
    };
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        Arena *a = arena_new();
        Reading r, back;
        Text printed = {.arena = a};
        reading_text(
            &r, arena_printf(a, "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] * %s }",
                             literals[i].text));
        assert_string_equal(reading_codes(&r), literals[i].fits ? "" : "E0105");
        if (literals[i].fits) {
            ir_print(r.m, NULL, &printed);
            reading_text(&back, text_string(&printed));
            assert_string_equal(reading_codes(&back), "");
            assert_string_equal(reading_equations(&r, "f"), reading_equations(&back, "f"));
            reading_close(&back);
        }
        reading_close(&r);
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_and_line_ends),
        cmocka_unit_test(the_mark_is_skipped_once),
        cmocka_unit_test(characters_are_named),
        cmocka_unit_test(literals_are_those_of_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
