/* Bad input: several errors in one run, one for each statement, and no text that crashes, hangs or eats
 * memory. */
#include "frontend_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char dims[] = "moe 1\ndim T, K, E, H\ngroup R : E rows T*K\n";

static void assert_codes(const char *text, const char *codes)
{
    Reading r;
    reading_text(&r, text);
    if (strcmp(reading_codes(&r), codes) != 0)
        fail_msg("expected %s, got %s\n%s", codes, reading_codes(&r), diag_text(&r.diags, r.arena));
    reading_close(&r);
}

static void several_errors(void **state)
{
    (void)state;
    /* a mistaken statement is reported once, and what depends on it not at all */
    assert_codes("moe 1\ndim T, H\n"
                 "kernel f(in x: f32[T, H], out y, z: f32[T]) {\n"
                 "  a[t] = x[t]\n"
                 "  b[t] = a[t] + c[t]\n"
                 "  y[t] = b[t]\n"
                 "  z[t, h] = 2\n"
                 "}\n"
                 "kernel g(in x: f32[T], out y: f32[T]) { y[t] = exq(x[t]) }\n"
                 "dim T\n",
                 "E0209 E0309 E0309 E0203");
    /* so does text that does not parse, wherever it stands */
    assert_codes("moe 1\ndim T\n"
                 "dim <= 4\n"
                 "kernel f(in x: f32[T], out y: f32[T]) {\n"
                 "  a[t] = x[t] +\n"
                 "  b[t] = a[t]\n"
                 "  c[t] = (x[t]\n"
                 "  y[t] = x[t] ] \n"
                 "}\n"
                 "kernel g(in x f32[T]) {\n  y[t] = 1\n}\n"
                 "kernel h(in x: f32[T], out y: f32[T]) { y[t] = x }\n",
                 "E0101 E0101 E0101 E0101 E0101 E0408");
    /* a word of a declaration in the middle of a line begins none */
    assert_codes("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n  y[t] = kernel x[t]\n}\n"
                 "test f { T=3; where routing uniform; gradcheck }\nschedule f { store -y }\n",
                 "E0101 E0101 E0101");
    /* a `}` that is missing costs its kernel only */
    assert_codes("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n  y[t] = x[t] *\n"
                 "kernel g(in x: f32[T], out y: f32[T]) {\n  y[t] = x\n}\n",
                 "E0101 E0408");
}

static void at_most_twenty(void **state)
{
    (void)state;
    Text text = {.arena = arena_new()};
    text_add(&text, "%skernel f(in x: f32[T], out y: f32[T]) {\n", dims);
    for (int i = 0; i < 100; i++)
        text_add(&text, "  a%d[t] = x[t, t]\n", i);
    text_add(&text, "}\n");
    Reading r;
    reading_text(&r, text_string(&text));
    assert_int_equal(r.diags.list.len, DIAG_LIMIT);
    assert_true(r.diags.errors > DIAG_LIMIT);
    assert_non_null(strstr(diag_text(&r.diags, r.arena), "more errors"));
    reading_close(&r);
    arena_free(text.arena);
}

static void places(void **state)
{
    (void)state;
    Reading r;
    reading_text(&r, "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n\ty[t] = x[t] + q\xc3\xa9\n}\n");
    const char *text = diag_text(&r.diags, r.arena);
    assert_non_null(strstr(text, "test.moe:4:17: error[E0102]: "));
    assert_non_null(
        strstr(text, "\n    \ty[t] = x[t] + q\xc3\xa9\n    \t               ^\nhelp: remove it\n"));
    reading_close(&r);
    reading_text(&r, "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n  y[t] = x[t] * xx[t]\n}\n");
    text = diag_text(&r.diags, r.arena);
    assert_string_equal(text, "test.moe:4:17: error[E0202]: the kernel has no tensor xx\n"
                              "      y[t] = x[t] * xx[t]\n"
                              "                    ^~\n"
                              "help: did you mean `x`?\n"
                              "      y[t] = x[t] * x[t]\n");
    assert_non_null(strstr(diag_json(&r.diags, r.arena), "\"column\": 17"));
    reading_close(&r);
}

static void strange_bytes(void **state)
{
    (void)state;
    Reading r;
    reading_open(&r, "a\xff.moe", "moe 1\n\xff\n", 8);
    assert_string_equal(reading_codes(&r), "E0103");
    assert_non_null(strstr(diag_text(&r.diags, r.arena), "a?.moe:2:1: error[E0103]"));
    assert_non_null(strstr(diag_json(&r.diags, r.arena), "a?.moe"));
    reading_close(&r);
    reading_open(&r, "a.moe", "moe 1\0dim T", 11);
    assert_string_equal(reading_codes(&r), "E0103");
    reading_close(&r);
    assert_codes("", "E0107");
    assert_codes("// only a comment", "E0107");
    assert_codes("moe", "E0101");
    assert_codes("moe 99999999999999999999", "E0105");
    assert_codes("moe 1", "");
}

static void too_large(void **state)
{
    (void)state;
    size_t len = (size_t)FRONTEND_MAX_BYTES + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    Reading r;
    reading_open(&r, "a.moe", text, len);
    assert_string_equal(reading_codes(&r), "E0903");
    reading_close(&r);
    free(text);
}

static void repeated(const char *head, const char *part, int n, const char *tail, const char *codes)
{
    Text text = {.arena = arena_new()};
    text_add(&text, "%s%s", dims, head);
    for (int i = 0; i < n; i++)
        text_add(&text, "%s", part);
    text_add(&text, "%s", tail);
    assert_codes(text_string(&text), codes);
    arena_free(text.arena);
}

static void deep_and_long(void **state)
{
    (void)state;
    const char *head = "kernel f(in x: f32[T], out y: f32[T]) { y[t] = ";
    repeated(head, "(", 150, "x[t]", "E0101");
    repeated(head, "(", 100000, "", "E0109");
    repeated(head, "- ", 100000, "x[t] }", "E0109");
    repeated(head, "- ", 1500, "x[t] }", "E0109");
    repeated(head, "- ", 500, "x[t] }", "");
    repeated(head, "not ", 3000, "x[t] }", "E0109");
    repeated(head, "if(x[t] > 0, 1, ", 3000, "", "E0109");
    repeated(head, "sum(t) ", 3000, "x[t] }", "E0109");
    repeated(head, "x[t] + ", 800, "x[t] }", "");
    repeated(head, "x[t] + ", 50000, "x[t] }", "E0109");
    repeated(head, "x[t] * x[t] > 1 and ", 25, "x[t] }", "E0403");
    repeated(head, "x[t] * x[t] > 1 and ", 150, "x[t] }", "E0315");
    repeated("fn g(x) = x\n", "fn g(x) = g(g(x))\n", 50, "",
             "E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209 "
             "E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209 E0209");
    repeated("", "dim A, ", 3000, "", "E0101");
    repeated("", "{", 3000, "", "E0101");
    repeated("schedule f ", "{ ?{", 3000, "", "E0101");
}

/* A chain of functions, each called before it is declared, is followed only so far. */
static void long_chains(void **state)
{
    (void)state;
    Text text = {.arena = arena_new()};
    text_add(&text, "%s", dims);
    for (int i = 0; i < 3000; i++)
        text_add(&text, "fn g%d(x) = g%d(x) + 1\n", i, i + 1);
    text_add(&text, "fn g3000(x) = x\n");
    Reading r;
    reading_text(&r, text_string(&text));
    assert_true(r.failed);
    reading_close(&r);
    text.len = 0;
    text_add(&text, "%sfn g0(x) = x + 1\n", dims);
    for (int i = 1; i < 3000; i++)
        text_add(&text, "fn g%d(x) = g%d(x) + 1\n", i, i - 1);
    text_add(&text, "kernel f(in x: f32[T], out y: f32[T]) { y[t] = g2999(x[t]) }\n");
    assert_codes(text_string(&text), "E0109");
    arena_free(text.arena);
}

/* A hundred functions put in within each other, each argument used twice: more than the table of calls holds at first. */
static void nested_calls(void **state)
{
    (void)state;
    Text text = {.arena = arena_new()};
    text_add(&text, "%sfn g0(x) = x + 1\n", dims);
    for (int i = 1; i < 100; i++)
        text_add(&text, "fn g%d(x) = g%d(x * x + x)\n", i, i - 1);
    text_add(&text, "kernel f(in x: f32[T], out y: f32[T]) { y[t] = g99(x[t]) }\n");
    Reading r;
    reading_text(&r, text_string(&text));
    assert_false(r.failed);
    reading_close(&r);
    arena_free(text.arena);
}

static void limits_of_extents(void **state)
{
    (void)state;
    assert_codes("moe 1\ndim T = 4000000000\nkernel f(in x: f32[T*T*T], out y: f32) { y = 1 }", "E0105");
    assert_codes("moe 1\ndim T = 10 : % 4", "E0101");
    assert_codes("moe 1\ndim T : % 4 = 10", "E0105");
    assert_codes("moe 1\ndim T : % 0", "E0105");
    assert_codes("moe 1\ndim T : % 4 preffer 8", "E0101");
    assert_codes("moe 1\ndim T\nkernel f(out y: f32[T, 3 - 5]) { y[t, i] = 1 }", "E0105");
    /* too large for a proof: checked at run time */
    assert_codes("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t + 9223372036854775806] }",
                 "");
    assert_codes("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] + 1e39 }", "E0105");
    assert_codes("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[9000000000000000000]) { "
                 "y[9000000000000000001] = 1 }",
                 "E0308");
    assert_codes("moe 1\ndim T\nkernel f(out y: f32) { a[9223372036854775807] = 1 y = 1 }", "E0502");
}

/* ---- mutations ---- */

static const char *const seeds[] = {
    "moe 1\ndim T\ndim K <= 64\ndim E\ndim H, F : % 16 prefer 256\ngroup R : E rows T*K\ngroup C : E "
    "capacity 4*T\n"
    "fn silu(x) = x / (1 + exp(-x))\n"
    "kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],\n"
    "           in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {\n"
    "  xp[r, h] = x[rt.token(r), h]\n  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]\n"
    "  a[r, f]  = bf16(silu(g[r, f]) * 2)\n  o[r, h]  = sum(f) a[r, f] * wd[@r, f, h]\n"
    "  y[t, h]  = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])\n}\n"
    "derive (ffn_fwd, ffn_dx, ffn_dw) from ffn wrt x as f32, p then wg +=, wd += save g as bf16 cotangents "
    "f32\n"
    "test ffn { T=33 K=2 E=5 H=64 F=48; routing zipf(1.2), empty(40%); exact(1, 2); tol 1e-3; gradcheck }\n"
    "schedule ffn { tile g : M = ?{32, 64} N = 64 fuse xp -> g at prologue copies l1 = 2 order groups "
    "heaviest_first }\n",
    "moe 1\ndim T, E, H, V\ndim K = 2\ngroup R : E rows T*K\n"
    "kernel router(in s: f32[T, E], in w: f32[V, H], inout acc: f32[V, H], out c: i32[V], out z: f32[T, 2]) "
    "{\n"
    "  p[t, k: K], id[t, k] = top(e) s[t, e]\n  rt = route(id -> R)\n"
    "  n[e] = sum(r in e) 1\n  z[t, 0] = sum(i: T where i <= t and i >= 1) s[i - 1, 0] / max2(n[0], 1)\n"
    "  z[t, 1] = if(t > 0, s[t - 1, 0], -1e-3) + stop(p[t, 0]) * w[id[t, 1], 0]\n"
    "  acc[id[t, 0], h] += w[id[t, 1], h] * @rt.row(t, 0)\n  c[v] = sum(t, k where id[t, k] == v) 1\n}\n",
};

static const char *const pieces[] = {
    "[",       "]",     "(",        ")",       "{",
    "}",       ",",     ";",        ":",       "=",
    "+=",      "->",    "@",        ".",       "-",
    "*",       "/",     "<=",       "==",      "%",
    "?",       "\"",    "//",       "\n",      " ",
    "sum(",    "max(",  "top(",     "if(",     "where ",
    "in ",     "out ",  "inout ",   "and ",    "not ",
    "kernel ", "dim ",  "fn ",      "group ",  "derive ",
    "test ",   "use ",  "rt",       "t",       "T",
    "r",       "x[",    "0",        "1e9",     "9223372036854775807",
    "1.5",     "bf16",  "packed",   "route(",  "rt.row(",
    "stop(",   "\xff",  "\xc3\xa9", "moe 1\n", "y[t] = ",
    "save ",   "rows ", "silu(",    "then ",   "pass ",
};

static uint64_t dice = 88172645463325252u;

static size_t roll(size_t limit)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (size_t)(dice % limit);
}

/* One name of one letter replaced by another. */
static void rename_one(char *text, size_t len)
{
    static const char names[] = "txyrhkpefgnvsoaTKEHR";
    for (size_t tries = 0; tries < 100; tries++) {
        size_t at = roll(len - 2) + 1;
        if (strchr(names, text[at]) && strchr(" [](),@*\n", text[at - 1]) &&
            strchr(" [](),@*\n.:", text[at + 1])) {
            text[at] = names[roll(sizeof names - 1)];
            return;
        }
    }
}

/* One change: a piece put in, a range cut out or repeated, or a byte changed. Returns the new length. */
static size_t mutate(char *text, size_t len, size_t room)
{
    size_t at = roll(len + 1), span = roll(12) + 1;
    const char *piece = pieces[roll(sizeof pieces / sizeof *pieces)];
    if (roll(2) == 0 && len > 2) {
        rename_one(text, len);
        return len;
    }
    if (roll(4) == 0 && at + span <= len) {
        memmove(text + at, text + at + span, len - at - span);
        return len - span;
    }
    if (roll(6) == 0 && len + 200 < room && at + 200 <= len) {
        memmove(text + at + 200, text + at, len - at);
        return len + 200;
    }
    if (roll(8) == 0 && at < len) {
        text[at] = (char)roll(256);
        return len;
    }
    size_t n = strlen(piece);
    if (len + n >= room)
        return len;
    memmove(text + at + n, text + at, len - at);
    memcpy(text + at, piece, n);
    return len + n;
}

static void read_mutant(const char *text, size_t len)
{
    Reading r;
    reading_open(&r, "mutant.moe", text, len);
    assert_true((r.failed != 0) == (r.diags.errors != 0));
    diag_text(&r.diags, r.arena);
    for (uint32_t i = 0; !r.failed && i < r.m->kernels.len; i++) {
        const char *broken = ir_verify(r.m->kernels.at[i], r.arena);
        if (broken)
            fail_msg("accepted, but not whole: %s\n%.*s", broken, (int)len, text);
    }
    if (!r.failed) { /* what is accepted prints as text that is accepted */
        Text out = {.arena = r.arena};
        Reading again;
        ir_print(r.m, NULL, &out);
        reading_text(&again, text_string(&out));
        if (again.failed)
            fail_msg("printed as\n%s\nwhich is refused:\n%s", text_string(&out),
                     diag_text(&again.diags, again.arena));
        reading_close(&again);
    }
    reading_close(&r);
}

/* MOEC_FUZZ=N runs N mutants of each seed. */
static void mutations(void **state)
{
    (void)state;
    static char text[16384];
    const char *more = getenv("MOEC_FUZZ");
    long rounds = more ? atol(more) : 300;
    dice += more ? (uint64_t)rounds : 0;
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        assert_codes(seeds[s], "");
        read_mutant(seeds[s], strlen(seeds[s]));
        for (size_t cut = 0; cut < strlen(seeds[s]); cut += 7)
            read_mutant(seeds[s], cut);
        for (long i = 0; i < rounds; i++) {
            size_t len = strlen(seeds[s]);
            memcpy(text, seeds[s], len);
            for (size_t n = roll(roll(3) ? 2 : 6) + 1; n > 0; n--)
                len = mutate(text, len, sizeof text);
            read_mutant(text, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_errors),
        cmocka_unit_test(at_most_twenty),
        cmocka_unit_test(places),
        cmocka_unit_test(strange_bytes),
        cmocka_unit_test(too_large),
        cmocka_unit_test(deep_and_long),
        cmocka_unit_test(long_chains),
        cmocka_unit_test(nested_calls),
        cmocka_unit_test(limits_of_extents),
        cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
