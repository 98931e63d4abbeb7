/* What the verifier of the tile level accepts and refuses. */
#include "tests/unit/tile_fixture.h"

/* says NULL: accepted. */
static void verify_case(const char *body, const char *says)
{
    Fixture f;
    char text[2000];
    if (read_text(&f, wrapped(text, sizeof text, body)) != 0)
        fail_msg("%s\n does not read: %s", body, diag_text(&f.diags, f.arena));
    const char *broken = tile_verify(f.module->kernels.at[0], f.arena);
    if (!broken != !says || (broken && !strstr(broken, says)))
        fail_msg("%s\n wanted: %s\n got: %s", body, says ? says : "(accepted)",
                 broken ? broken : "(accepted)");
    arena_free(f.arena);
}

static void test_verifier_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"launch a { y[0, 0] = 1.0 }", NULL},
        {"launch a { parallel t in 0..T { y[0, 0] = 1.0 } }", "two items of a parallel loop"},
        {"launch a { parallel t in 0..T { parallel h in 0..H { y[t, 0] = 1.0 } } }", "two items"},
        {"launch a { parallel t in 0..T { parallel h in 0..H { y[t, h] = 1.0 } } }", NULL},
        {"launch a { parallel t in 0..T { y[id[t], 0] += 1.0 } }", "two items of a parallel loop"},
        {"launch a { owned h in 0..H { for t in 0..T { y[id[t], h] += 1.0 } } }", NULL},
        {"launch a { owned h in 0..H by 8 { for t in 0..T { vector j in h..min2(h + 8, H) by 8 "
         "{ y[id[t], j] += 1.0 } } } }",
         NULL},
        {"launch a { owned h in 0..H { for t in 0..T { y[id[t], 0] += 1.0 } } }", "the owner's variable"},
        {"launch a { for t in 0..T { parallel h in 0..H { y[t, h] = 1.0 } } }", "not directly inside"},
        {"launch a { parallel t in 0..T { one[0] = 0.0 parallel h in 0..H { y[t, h] = 1.0 } } }",
         "not directly"},
        {"launch a { parallel t in 0..T { parallel h in 0..t { y[t, h] = 1.0 } } }", "depend on another"},
        {"launch a { parallel t in 0..T band 2 { parallel h in 0..H { y[t, h] = 1.0 } } }", NULL},
        {"launch a { parallel t in 0..T band 2 { y[t, 0] = 1.0 } }", "around another one"},
        {"launch a { for t in 0..T band 2 { y[t, 0] = 1.0 } }", "around another one"},
        {"launch a { parallel t in 0..T band 2 of g { parallel h in 0..H { y[t, h] = 1.0 } } }",
         "no list of blocks"},
        {"launch a { vector h in 0..H by 8 { vector j in 0..H by 8 { y[0, h] = 1.0 } } }",
         "inside a vector loop"},
        {"launch a { vector h in 0..H by 8 { for j in 0..h { y[0, j] = 1.0 } } }",
         "bounds of a loop have lanes"},
        {"launch a { vector h in 0..H by 8 { one[0] = x[0, h] } }", "has none"},
        {"launch a { vector h in 0..H by 8 { acc[0] = x[0, h] } one[0] = lanes_sum(acc[0]) }", NULL},
        {"launch a { vector h in 0..H by 4 { acc[0] = x[0, h] } }", "8 lanes in a vector loop by 4"},
        {"launch a { vector h in 0..H by 8 { y[0, 0] = x[0, h] } }", "every lane stores"},
        {"launch a { vector h in 0..H by 8 { acc[1] = x[0, h] } y[0, 0] = acc[1] }", "outside a vector loop"},
        {"launch a { for i in 0..2 { one[i] = 0.0 } }", "not constant after unrolling"},
        {"launch a { unroll i in 0..2 { one[i] = 0.0 } }", NULL},
        {"launch a { unroll i in 0..3 { one[i] = 0.0 } }", "outside 0..1"},
        {"launch a { unroll i in 0..T { one[0] = 0.0 } }", "not constant"},
        {"launch a { unroll i in 0..1 { one[i + 1] = 0.0 } }", NULL},
        {"launch a { unroll i in 0..2 { one[i + 1] = 0.0 } }", "spans 1..2, outside 0..1"},
        {"launch a { unroll i in 1..3 { one[2 - i] = 0.0 } }", NULL},
        {"launch a { unroll i in 0..2 { one[2 * i] = 0.0 } }", "spans 0..2, outside 0..1"},
        {"launch a { unroll i in 2..6 { one[idiv(i, 2) + -1] = 0.0 } }", NULL},
        {"launch a { unroll i in 0..8 { one[imod(i, 2)] = 0.0 } }", NULL},
        {"launch a { unroll i in 0..2 { one[min2(i, 1)] = 0.0 } }", "not constant after unrolling"},
        {"launch a { x[0, 0] = 1.0 }", "which is an input"},
        {"launch a { h16[0] = 1.5 }", "which is f16"},
        {"launch a { h16[0] = f16(1.5) }", NULL},
        {"launch a { y[0] = 1.5 }", "2 axes and 1 subscripts"},
        {"launch a { parallel t in 0..T { y[t, 0] = 1.0 valid rt } }", "must not stand in a parallel"},
        {"launch a { for t in 0..T { for t in 0..T { y[t, 0] = 1.0 } } }", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        verify_case(cases[i].body, cases[i].says);
}

/* Registers and work space hold nothing before the first store. */
static void test_unwritten(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"launch a { y[0, 0] = one[0] }", "one is read before a statement of this launch writes it"},
        {"launch a { one[0] = 1.0 } launch b { y[0, 0] = one[0] }", "one is read before"},
        {"launch a { one[0] += 1.0 }", "one is read before"},
        {"launch a { if 0 < T { one[0] = 1.0 } y[0, 0] = one[0] }", "one is read before"},
        {"launch a { if 0 < T { one[0] = 1.0 y[0, 0] = one[0] } }", NULL},
        {"launch a { if 4 < T { one[0] = 1.0 } if 4 >= T { one[0] = 2.0 } y[0, 0] = one[0] }", NULL},
        {"launch a { if 4 < T { if T == 5 { acc[0] = 0.0 } one[0] = 1.0 } if 4 >= T { one[0] = 2.0 } y[0, 0] "
         "= one[0] }",
         NULL},
        {"launch a { if 4 < T { one[0] = 1.0 } if 4 <= T { one[0] = 2.0 } y[0, 0] = one[0] }",
         "one is read before"},
        {"launch a { if 4 < T { one[0] = 1.0 } if 5 >= T { one[0] = 2.0 } y[0, 0] = one[0] }",
         "one is read before"},
        {"launch a { if 4 < T { one[0] = 1.0 } if 4 >= T { y[0, 0] = 2.0 } y[0, 0] = one[0] }",
         "one is read before"},
        {"launch a { if 4 < T { y[0, 0] = 1.0 } if 4 >= T { one[0] = 2.0 } y[0, 0] = one[0] }",
         "one is read before"},
        {"launch a { if 4 < T { one[0] = 1.0 } y[0, 0] = 0.0 if 4 >= T { one[0] = 2.0 } y[0, 0] = one[0] }",
         "one is read before"},
        {"launch a { if id[0] < T { one[0] = 1.0 } if id[0] >= T { one[0] = 2.0 } y[0, 0] = one[0] }", NULL},
        {"launch a { for t in 0..T { one[0] = 1.0 } y[0, 0] = one[0] }", NULL},
        {"launch a { s[0] = 1.0 } launch b { y[0, 0] = s[0] }",
         "s is read before a statement of this launch"},
        {"launch a { y[0, 0] = g[0, 0] } launch b { g[0, 0] = 1.0 }", "g is read before any statement"},
        {"launch a { if 0 < T { g[0, 0] = 1.0 } } launch b { y[0, 0] = g[0, 0] }", NULL},
        {"launch a { y[0, 0] = f32(rt.start[0]) }", "route rt is read before an earlier launch checks it"},
        {"launch a { valid rt y[0, 0] = f32(rt.start[0]) }", "before the end of the launch that checks"},
        {"launch a { valid rt } launch b { y[0, 0] = f32(rt.start[0]) }", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        verify_case(cases[i].body, cases[i].says);
}

/* What items of a parallel loop may do to memory that others write. */
static void test_meeting_items(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"launch a { parallel t in 0..T { g[t, 0] = 1.0 y[t, 0] = g[t, 0] } }", NULL},
        {"launch a { parallel t in 0..T { g[t, 0] = 1.0 y[t, 0] = g[0, t] } }",
         "it may read the element of g that the store statement of line 0 writes in another item of loop t"},
        {"launch a { parallel t in 0..T { y[t, 0] = y[idiv(t, 2), 0] } }", "in another item of loop t"},
        {"launch a { parallel t in 0..T { y[t, 0] = y[t, 1] * 2.0 } }", NULL},
        {"launch a { parallel t in 0..T { y[t, 0] = 1.0 y[0, t] = 2.0 } }", "it may write the element of y"},
        {"launch a { parallel t in 0..T { g[t, 0] = 2.0 } } launch b { parallel t in 0..T { g[t, 1] = 1.0 "
         "y[t, 0] = g[T - 1 - t, 0] } }",
         NULL},
        {"launch a { parallel t in 0..T { g[t, 0] = 2.0 } } launch b { parallel t in 0..T { g[t, 1] = 1.0 "
         "y[t, 0] = g[T - 1 - t, 1] } }",
         "it may read the element of g"},
        {"launch a { parallel t in 0..T { g[t, 0] = 2.0 } } launch b { parallel t in 0..T { g[t, 1] = 1.0 "
         "y[t, 0] = g[T - 1 - t, H - 1] } }",
         "it may read the element of g"},
        {"launch a { parallel t in 0..T by 4 { for j in t..min2(t + 4, T) { g[j, 0] = 1.0 } for j in "
         "t..min2(t + 4, "
         "T) { y[j, 0] = g[j, 0] } } }",
         NULL},
        {"launch a { parallel t in 0..T by 4 { for j in t..min2(t + 4, T) { g[j, 0] = 1.0 } for j in "
         "t..min2(t + 5, "
         "T) { y[j, 0] = g[j, 0] } } }",
         "writes in another item"},
        {"launch a { parallel t in 0..T by 12 { for u in 0..12 { g[min2(t + u, T + -1), 0] = 1.0 } } }",
         NULL},
        {"launch a { owned h in 0..H { for t in 0..T { y[id[t], h] = y[t, h] } } }", NULL},
        {"launch a { owned h in 0..H { for t in 0..T { y[id[t], h] = y[t, 0] } } }",
         "in another item of loop h"},
        {"launch a { for t in 0..T { g[t, 0] = 1.0 y[t, 0] = g[0, t] } }", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        verify_case(cases[i].body, cases[i].says);
}

/* Every bucket has a begin, and the last one an end. */
static void test_bounds_of_buckets(void **state)
{
    static const char text[] =
        "tiles 1\ndim N\ndim B\nkernel f(in key: i32[N], inout y: f32[B]) {\ncost N\n"
        "work first: i64[%s]\nwork order: i32[N]\n"
        "launch a { bucket order, first over n: N by key[n] into B }\n"
        "launch b { for b in 0..B { for p in first[b]..first[b + 1] { y[b] += 1.0 } } }\n}\n";
    (void)state;
    for (int fits = 0; fits < 2; fits++) {
        char whole[1000];
        Fixture f;
        snprintf(whole, sizeof whole, text, fits ? "B + 1" : "B");
        assert_int_equal(read_text(&f, whole), 0);
        const char *broken = tile_verify(f.module->kernels.at[0], f.arena);
        if (fits)
            assert_null(broken);
        else
            assert_non_null(
                strstr(broken, "the bounds of buckets first are not known to be one more than the buckets"));
        arena_free(f.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verifier_refuses),
        cmocka_unit_test(test_unwritten),
        cmocka_unit_test(test_meeting_items),
        cmocka_unit_test(test_bounds_of_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
