/* Operands of statements, walks over trees of them, and what events carry. */
#include "tile_fixture.h"

#include "ir/event.h"

static const char nested[] = "launch a {\n"
                             "parallel t in 0..T {\nif t < 4 {\ng[t, 0] = x[t, 1]\n}\n}\n"
                             "}\n"
                             "launch b {\nparallel t in 0..T {\ny[t, 0] += g[t, 0]\n}\n}";

static const Kernel *read_kernel(Fixture *f, const char *body)
{
    char text[4000];
    assert_int_equal(read_text(f, wrapped(text, sizeof text, body)), 0);
    return f->module->kernels.at[0];
}

/* The kinds that a walk meets, at their depths; bodies of `skipped` are left out. */
static const char *walked(Fixture *f, const Kernel *k, int skipped)
{
    Text out = {.arena = f->arena};
    tile_walk (w, k, k->tiles->first) {
        text_add(&out, "%s%u %s", out.len ? ", " : "", w.depth, tile_name((TileKind)w.s->kind));
        if (w.s->kind == skipped)
            tile_walk_skip(&w);
    }
    return text_string(&out);
}

static void test_walk(void **state)
{
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, nested);
    assert_string_equal(walked(&f, k, TILE_COUNT),
                        "0 launch, 1 for, 2 if, 3 store, 0 launch, 1 for, 2 store");
    assert_string_equal(walked(&f, k, TILE_if), "0 launch, 1 for, 2 if, 0 launch, 1 for, 2 store");
    assert_true(tile_contains(k, k->tiles->first, TILE_if));
    assert_false(tile_contains(k, k->tiles->first, TILE_pack));
    arena_free(f.arena);
}

/* A broken list is for the verifier to refuse: a walk over it ends. */
static void test_ring(void **state)
{
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, nested);
    uint32_t n = 0;
    k->tiles->stmts.at[k->tiles->first].next = k->tiles->first;
    tile_walk (w, k, k->tiles->first)
        n++;
    assert_int_equal(n, k->tiles->stmts.len);
    arena_free(f.arena);
}

static const Stmt *first_of(const Kernel *k, TileKind kind)
{
    tile_walk (w, k, k->tiles->first)
        if (w.s->kind == kind)
            return w.s;
    return NULL;
}

static void test_operands(void **state)
{
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, nested);
    const Stmt *store = first_of(k, TILE_store);
    OperandRole roles[8];
    uint32_t n = 0, ids[8];
    tile_each_operand (o, store) {
        ids[n] = o.id;
        roles[n++] = o.role;
    }
    assert_int_equal(n, 5);
    assert_int_equal(roles[0], OPERAND_NUMBER);
    assert_true(roles[1] == OPERAND_VALUE && ids[1] == store->value);
    assert_true(roles[2] == OPERAND_SUBSCRIPT && ids[2] == store->index[0]);
    assert_true(roles[3] == OPERAND_SUBSCRIPT && ids[3] == store->index[1]);
    assert_true(roles[4] == OPERAND_WRITTEN && ids[4] == store->buffer);
    arena_free(f.arena);
}

static void test_absent(void **state)
{
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, nested);
    tile_each_operand (o, first_of(k, TILE_for)) /* without a band it reads no list */
        assert_int_not_equal(o.role, OPERAND_READ);
    arena_free(f.arena);
}

static void test_stray(void **state)
{
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, nested);
    Stmt *store = (Stmt *)first_of(k, TILE_store);
    assert_null(tile_stray_field(store));
    store->limit = store->value;
    assert_string_equal(tile_stray_field(store), "limit");
    assert_non_null(strstr(tile_verify(k, f.arena), "`limit`, which is not among its operands"));
    arena_free(f.arena);
}

/* A field that some kind has no use for is stray there, under its own name. */
static void test_every_stray(void **state)
{
#define ID(field)                     \
    {                                 \
#field, offsetof(Stmt, field) \
    }
    static const struct {
        const char *name;
        size_t at;
    } ids[] = {ID(var),   ID(lo),     ID(hi),      ID(buffer),  ID(second),  ID(value),   ID(guard),
               ID(limit), ID(report), ID(planned), ID(route),   ID(other),   ID(from[0]), ID(from[1]),
               ID(to[0]), ID(to[1]),  ID(size[0]), ID(size[1]), ID(size[2]), ID(first)};
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint32_t strays = 0;
        for (TileKind kind = 0; kind < TILE_COUNT; kind++) {
            Stmt s = tile_stmt(kind, (Loc){0});
            memset((char *)&s + ids[i].at, 0, sizeof(uint32_t));
            const char *stray = tile_stray_field(&s);
            if (stray)
                assert_string_equal(stray, ids[i].name);
            strays += stray != NULL;
        }
        assert_true(strays > 0);
    }
}

static void test_event(void **state)
{
    static const char told[] = "launch a {\nevent loop 0(2, T) {\ng[0, 0] = x[0, 1]\n}\n}\n"
                               "launch b {\ny[0, 0] += g[0, 0]\n}";
    Fixture f;
    (void)state;
    const Kernel *k = read_kernel(&f, told);
    Stmt *event = (Stmt *)first_of(k, TILE_event);
    assert_int_equal(event->mode, EVENT_loop);
    assert_non_null(strstr(printed(&f), "event loop 0(2, T) {"));
    assert_null(tile_verify(k, f.arena));
    event->mode = EVENT_nest;
    assert_non_null(strstr(tile_verify(k, f.arena), "it has 2 values"));
    arena_free(f.arena);
}

/* The emulator reads the values in the order in which statement and back end give them. */
static void test_event_fields(void **state)
{
    (void)state;
    assert_int_equal(event_exprs(EVENT_item), 0);
    assert_int_equal(event_exprs(EVENT_choose), 3);
    assert_int_equal(event_places(EVENT_choose), 1);
    assert_int_equal(offsetof(ChooseEvent, chosen), event_exprs(EVENT_choose) * sizeof(int64_t));
    assert_int_equal(offsetof(MoveEvent, rows) / sizeof(int64_t), offsetof(MoveExprs, rows) / sizeof(ExprId));
}

static void test_unknown_event(void **state)
{
    Fixture f;
    char text[4000];
    (void)state;
    assert_int_not_equal(
        read_text(&f, wrapped(text, sizeof text, "launch a {\nevent zz 0() {\ng[0, 0] = x[0, 1]\n}\n}")), 0);
    arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),          cmocka_unit_test(test_ring),
        cmocka_unit_test(test_operands),      cmocka_unit_test(test_absent),
        cmocka_unit_test(test_stray),         cmocka_unit_test(test_every_stray),
        cmocka_unit_test(test_event),         cmocka_unit_test(test_event_fields),
        cmocka_unit_test(test_unknown_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
