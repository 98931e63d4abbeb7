/* The text of the tile level: written, read back, written again; and bad text. */
#include "tests/unit/tile_fixture.h"

static const char pointwise[] = "tiles 1\n"
                                "\n"
                                "dim T <= 64\n"
                                "dim H : % 16 prefer 256\n"
                                "dim C = 3\n"
                                "\n"
                                "kernel scale(in x: bf16[T, H], in s: f32, out y: bf16[T, 2*H + 1]) {\n"
                                "    cost 2*T*H\n"
                                "    launch y writes past ahead 16 threads 2 @3 {\n"
                                "        parallel t in 0..T by 6 {\n"
                                "            vector h in 0..H by 16 {\n"
                                "                unroll u in 0..6 {\n"
                                "                    if t + u < T @4 {\n"
                                "                        y[t + u, h] = bf16(f32(x[t + u, h]) * s)\n"
                                "                    }\n"
                                "                }\n"
                                "            }\n"
                                "        }\n"
                                "    }\n"
                                "}\n";

static const char grouped[] =
    "tiles 1\n"
    "\n"
    "dim T\n"
    "dim K\n"
    "dim E\n"
    "dim H\n"
    "group R : E rows T*K\n"
    "\n"
    "kernel moe(in x: f32[T, H], in id: i32[T, K], in w: f32[E, H], out y: f32[T, H], out n: i32[E]) {\n"
    "    cost T*K*H\n"
    "    route rt: [T, K -> R]\n"
    "    fields rt.start, rt.count, rt.slot_of, rt.row_of\n"
    "    work blk: i64[T*K + E, 2]\n"
    "    work nblk: i64[1]\n"
    "    work order: i32[T*K]\n"
    "    work first: i64[E + 1]\n"
    "    work g: f32[R, H]\n"
    "    thread strip: f32[4*H]\n"
    "    reg acc: f32[4] x 8\n"
    "    reg sum: f32[1]\n"
    "    launch entry {\n"
    "        for t in 0..T {\n"
    "            for k in 0..K {\n"
    "                check id[t, k] >= -1 and id[t, k] < E else INDEX \"id holds %lld, \\\"E\\\" is %lld\" "
    "(id[t, k], E)\n"
    "            }\n"
    "        }\n"
    "        route rt from id\n"
    "        blocks blk, nblk of rt by 4\n"
    "        bucket order, first over t: T, k: K by id[t, k] into E where id[t, k] >= 0\n"
    "    }\n"
    "    launch g @7 {\n"
    "        parallel b in 0..nblk[0] {\n"
    "            for r in blk[b, 1]..min2(blk[b, 1] + 4, rt.start[blk[b, 0] + 1]) {\n"
    "                vector h in 0..H by 8 {\n"
    "                    g[r, h] = x[idiv(rt.slot_of[r], K), h] * w[blk[b, 0], h]\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    launch y @8 {\n"
    "        parallel t in 0..T {\n"
    "            vector h in 0..H by 8 {\n"
    "                unroll u in 0..4 {\n"
    "                    acc[u] = 0.0\n"
    "                }\n"
    "                for k in 0..K {\n"
    "                    acc[0] += if(rt.row_of[t*K + k] >= 0, g[rt.row_of[t * K + k], h], 0.0)\n"
    "                }\n"
    "                y[t, h] = acc[0]\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    launch n @9 {\n"
    "        parallel e in 0..min2(E, E * threads()) {\n"
    "            n[e] = first[e + 1] - first[e]\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char tops[] =
    "tiles 1\n"
    "\n"
    "dim T\n"
    "dim K\n"
    "dim E\n"
    "group R : E capacity 7\n"
    "\n"
    "kernel choose(in s: f32[T, E], in rt: route[T, K -> R], out p: f32[T, K], out id: i32[T, K]) {\n"
    "    cost T*E\n"
    "    fields rt.count\n"
    "    reg m: f32[1] x 4\n"
    "    reg b: f32\n"
    "    launch p {\n"
    "        parallel t in 0..T {\n"
    "            m[0] = (-1 / 0)\n"
    "            vector e in 0..E by 4 {\n"
    "                m[0] = max2(m[0], s[t, e])\n"
    "            }\n"
    "            b = lanes_max(m[0])\n"
    "            top p, id[t] count K over e2 in 0..E of exp(s[t, e2] - b)\n"
    "        }\n"
    "    }\n"
    "    launch valid_rt {\n"
    "        valid rt\n"
    "    }\n"
    "}\n";

static const char transposed[] =
    "tiles 1\n"
    "dim H\n"
    "dim F\n"
    "kernel f(in x: f32[H, F], out w: bf16[2, H, F] pairs both) {\n"
    "    cost H*F\n"
    "    launch w {\n"
    "        parallel h in 0..H by 32 {\n"
    "            pack w[1, h, 0] over i in h..min2(h + 32, H), j in 0..F = bf16(x[i, j])\n"
    "            pack w.transposed[1, 0, h] over j2 in 0..F, i2 in h..min2(h + 32, H) = bf16(x[i2, j2])\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Reading and writing must agree on the second form; the first only has to mean the same. */
static void round_trip(const char *text)
{
    Fixture first, second;
    assert_int_equal(read_text(&first, text), 0);
    for (uint32_t i = 0; i < first.module->kernels.len; i++) {
        const char *broken = tile_verify(first.module->kernels.at[i], first.arena);
        if (broken)
            fail_msg("%s", broken);
    }
    const char *once = printed(&first);
    assert_int_equal(read_text(&second, once), 0);
    assert_string_equal(once, printed(&second));
    arena_free(first.arena);
    arena_free(second.arena);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip(pointwise);
    round_trip(grouped);
    round_trip(tops);
    round_trip(transposed);
}

static void test_exact_text(void **state)
{
    (void)state;
    Fixture f;
    assert_int_equal(read_text(&f, pointwise), 0);
    assert_string_equal(printed(&f), pointwise);
    arena_free(f.arena);
}

static void test_lines_are_kept(void **state)
{
    (void)state;
    Fixture f;
    assert_int_equal(read_text(&f, pointwise), 0);
    const TileProgram *p = f.module->kernels.at[0]->tiles;
    for (StmtId s = 0; s < p->stmts.len; s++) {
        int below_if = p->stmts.at[s].kind == TILE_if || p->stmts.at[s].kind == TILE_store;
        assert_int_equal(p->stmts.at[s].loc.line, below_if ? 4 : 3);
    }
    arena_free(f.arena);
}

static void test_reader_refuses(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "launch a { y[0, 0] = }",
        "launch a { y[0, 0] = z[0] }",
        "launch a { y[0, 0] = x[0] }",
        "launch a { y[0, 0] = (1 < 2) + 1 }",
        "launch a { if 1 { } }",
        "launch a { y[0.5, 0] = 1 }",
        "launch a { y[0, 0] = rt.stop[0] }",
        "launch a { y.transposed[0, 0] = 1 }",
        "launch a { valid no }",
        "launch a {",
        "launch a { check 1 < 2 else }",
        "launch a { y[0, 0] = exp(1, 2) }",
        "launch a { y[0, 0] = nothing(1) }",
        "launch a { y[i, 0] = 1 }",
        "launch a { y[0, 0] = 99999999999999999999 }",
        "launch a { check 1 < 2 else NULL \"abc }",
        "launch a { ` }",
        "launch a writes by_size { }",
        "launch a ahead 65 { }",
        "launch a threads many { }",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        Fixture f;
        char text[2000];
        if (read_text(&f, wrapped(text, sizeof text, bodies[i])) == 0)
            fail_msg("accepted: %s", bodies[i]);
        assert_int_equal(f.diags.errors, 1);
        arena_free(f.arena);
    }
}

/* Every prefix of a good text, and deep nesting, end in one error and no crash. */
static void test_reader_survives(void **state)
{
    (void)state;
    for (size_t len = 0; len + 2 < sizeof grouped; len++) {
        char *cut = strndup(grouped, len);
        Fixture f;
        int failed = read_text(&f, cut);
        assert_true(failed || !strstr(cut, "kernel"));
        arena_free(f.arena);
        free(cut);
    }
    char body[20000] = "launch a { y[0, 0] = ", text[24000];
    memset(body + strlen(body), '(', 15000);
    Fixture f;
    snprintf(text, sizeof text, "tiles 1 kernel f(out y: f32[1, 1]) { cost 1 %s", body);
    assert_int_equal(read_text(&f, text), 1);
    arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_exact_text),
        cmocka_unit_test(test_lines_are_kept),  cmocka_unit_test(test_reader_refuses),
        cmocka_unit_test(test_reader_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
