/* The checker of plans: a right plan passes, and of each of its mutants the checker says what is wrong. */
#include "emulator/check.h"
#include "tests/unit/tile_fixture.h"

/* A product by slabs of 32 terms, two slots of each operand, whose sums two vector cores double. */
static const char plan[] =
    "tiles 1\n"
    "dim T\n"
    "dim H\n"
    "kernel up(in x: bf16[T, H], in w: bf16[H, 32], out y: f32[T, 32]) {\n"
    "    cost T*H\n"
    "    l1 left: bf16[2, 64, 32] zN at 0\n"
    "    l1 right: bf16[2, 32, 32] zN at 8192\n"
    "    l0a a: bf16[1, 64, 32] zZ at 0\n"
    "    l0b b: bf16[1, 32, 32] nZ at 0\n"
    "    l0c sums: f32[64, 32] zN at 0\n"
    "    thread part: f32[64, 32]\n"
    "    ub in_: f32[32, 32] at 0\n"
    "    ub out_: f32[32, 32] at 4096\n"
    "    launch y @7 {\n"
    "        parallel t in 0..T by 64 {\n"
    "            for k in 0..H by 32 {\n"
    "                wait mte1 -> mte2 left[imod(idiv(k, 32), 2)]\n"
    "                pack left[imod(idiv(k, 32), 2), 0, 0] over r in t..min2(t + 64, T), h in k..k + 32 = "
    "x[r, h]\n"
    "                wait mte1 -> mte2 right[imod(idiv(k, 32), 2)]\n"
    "                pack right[imod(idiv(k, 32), 2), 0, 0] over h in k..k + 32, c in 0..32 = w[h, c]\n"
    "                set mte2 -> mte1 left[imod(idiv(k, 32), 2)]\n"
    "                set mte2 -> mte1 right[imod(idiv(k, 32), 2)]\n"
    "                wait mte2 -> mte1 left[imod(idiv(k, 32), 2)]\n"
    "                wait cube -> mte1 a[0]\n"
    "                pack a[0, 0, 0] over r in 0..min2(64, T - t), h in 0..32 = left[imod(idiv(k, 32), 2), "
    "r, h]\n"
    "                set mte1 -> mte2 left[imod(idiv(k, 32), 2)]\n"
    "                wait mte2 -> mte1 right[imod(idiv(k, 32), 2)]\n"
    "                pack b[0, 0, 0] over h in 0..32, c in 0..32 = right[imod(idiv(k, 32), 2), h, c]\n"
    "                set mte1 -> mte2 right[imod(idiv(k, 32), 2)]\n"
    "                set mte1 -> cube a[0]\n"
    "                wait mte1 -> cube a[0]\n"
    "                if k == 0 {\n"
    "                    wait fix -> cube sums\n"
    "                }\n"
    "                product sums[0, 0] += a[0, 0, 0] * b[0, 0, 0] rows min2(64, T - t) cols 32 depth 32 "
    "init k == 0\n"
    "                set cube -> mte1 a[0]\n"
    "            }\n"
    "            set cube -> fix sums\n"
    "            wait cube -> fix sums\n"
    "            wait mte2 -> fix part\n"
    "            pack part[0, 0] over r in 0..min2(64, T - t), c in 0..32 = sums[r, c]\n"
    "            set fix -> cube sums\n"
    "            set fix -> mte2 part\n"
    "            split v in 0..2 {\n"
    "                wait fix -> mte2 part\n"
    "                wait vector -> mte2 in_\n"
    "                pack in_[0, 0] over r in v * 32..min2(v * 32 + 32, T - t), c in 0..32 = part[r, c]\n"
    "                set mte2 -> vector in_\n"
    "                set mte2 -> fix part\n"
    "                wait mte2 -> vector in_\n"
    "                wait mte3 -> vector out_\n"
    "                for r in 0..min2(32, T - t - v * 32) {\n"
    "                    vector c in 0..32 by 32 {\n"
    "                        out_[r, c] = in_[r, c] + in_[r, c]\n"
    "                    }\n"
    "                }\n"
    "                set vector -> mte2 in_\n"
    "                set vector -> mte3 out_\n"
    "                wait vector -> mte3 out_\n"
    "                pack y[t + v * 32, 0] over r in 0..min2(32, T - t - v * 32), c in 0..32 = out_[r, c]\n"
    "                set mte3 -> vector out_\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* ---- runs a plan as compiled code would, without data ---- */

enum { VARIABLES = 64, CORES = 2 };
typedef struct Run {
    const Kernel *k;
    Checker *check;
    const int64_t *dims;
    int64_t at[VARIABLES]; /* by IndexId */
    uint32_t sub;
    int64_t items;
} Run;

static int64_t value(const Run *r, ExprId e)
{
    const Expr *x = x_at(r->k, e);
    int64_t a = x->nargs ? value(r, x_arg(r->k, e, 0)) : 0,
            b = x->nargs > 1 ? value(r, x_arg(r->k, e, 1)) : 0;
    switch ((ExprKind)x->kind) {
    case X_INT: return x->value.i;
    case X_EXTENT: assert_true(ext_eval(r->k->module, x->sym, r->dims, &a)); return a;
    case X_INDEX: return r->at[x->sym];
    default: break;
    }
    assert_int_equal(x->kind, X_OP);
    switch ((ScalarOp)x->op) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_idiv: return a / b;
    case OP_imod: return a % b;
    case OP_min2: return a < b ? a : b;
    case OP_eq: return a == b;
    default: fail_msg("operation %s", scalar_table[x->op].name);
    }
    return 0;
}

static int64_t element(const Run *r, TensorId t, const uint32_t *index, uint32_t n)
{
    int64_t at = 0, extent;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(ext_eval(r->k->module, r->k->tensors.at[t].axes[i].extent, r->dims, &extent));
        at = at * extent + value(r, index[i]);
    }
    return at;
}

static void access(Run *r, StmtId s, TensorId t, const uint32_t *index, uint32_t n, int64_t rows,
                   int64_t cols, int write)
{
    const Stmt *stmt = &r->k->tiles->stmts.at[s];
    Unit unit = stmt->kind == TILE_for ? UNIT_vector : tile_unit(r->k, stmt);
    checker_access(r->check, (UnitAccess){s, unit, r->sub, t, write, element(r, t, index, n), rows, cols});
}

static void load(Run *r, StmtId s, ExprId e, int64_t rows, int64_t cols)
{
    const Expr *x = x_at(r->k, e);
    access(r, s, x->sym, r->k->links.at + x->args, x->nargs, rows, cols, 0);
}

static void loads(Run *r, StmtId s, ExprId e, int64_t cols)
{
    each_below (it, r->k, e, EVERYWHERE)
        if (x_at(r->k, *it)->kind == X_LOAD)
            load(r, s, *it, 1, cols);
}

static void run(Run *r, StmtId first);

static void run_for(Run *r, StmtId id, const Stmt *s)
{
    int64_t lo = value(r, s->lo), hi = value(r, s->hi);
    if (s->mode == LOOP_VECTOR) {
        const Stmt *store = &r->k->tiles->stmts.at[s->first];
        r->at[s->var] = lo;
        loads(r, id, store->value, hi - lo);
        access(r, id, store->buffer, store->index, store->nindex, 1, hi - lo, 1);
        return;
    }
    for (int64_t i = lo; i < hi; i += s->step) {
        r->at[s->var] = i;
        if (s->mode == LOOP_PARALLEL) {
            checker_item(r->check, (uint32_t)(r->items % CORES), r->items);
            r->items++;
        }
        r->sub = s->mode == LOOP_SPLIT ? (uint32_t)i + 1 : r->sub;
        run(r, s->first);
    }
    r->sub = s->mode == LOOP_SPLIT ? 0 : r->sub;
}

static void run_pack(Run *r, StmtId id, const Stmt *s)
{
    int64_t rows = value(r, s->to[0]) - value(r, s->from[0]),
            cols = value(r, s->to[1]) - value(r, s->from[1]);
    r->at[s->bound[0]] = value(r, s->from[0]);
    r->at[s->bound[1]] = value(r, s->from[1]);
    load(r, id, tile_read_by(r->k, s), rows, cols);
    access(r, id, s->buffer, s->index, s->nindex, rows, cols, 1);
}

static void run_product(Run *r, StmtId id, const Stmt *s)
{
    int64_t rows = value(r, s->size[0]), cols = value(r, s->size[1]), depth = value(r, s->size[2]);
    load(r, id, s->value, rows, depth);
    load(r, id, s->other, depth, cols);
    if (s->guard == NONE || !value(r, s->guard))
        access(r, id, s->buffer, s->index, s->nindex, rows, cols, 0);
    access(r, id, s->buffer, s->index, s->nindex, rows, cols, 1);
}

static void run(Run *r, StmtId first)
{
    for (StmtId id = first; id != NONE; id = r->k->tiles->stmts.at[id].next) {
        const Stmt *s = &r->k->tiles->stmts.at[id];
        switch ((TileKind)s->kind) {
        case TILE_launch:
            checker_launch(r->check, id, CORES);
            run(r, s->first);
            break;
        case TILE_for: run_for(r, id, s); break;
        case TILE_if:
            if (value(r, s->value))
                run(r, s->first);
            break;
        case TILE_pack: run_pack(r, id, s); break;
        case TILE_product: run_product(r, id, s); break;
        case TILE_set:
        case TILE_wait: checker_flag(r->check, id, r->sub, s->nindex ? value(r, s->index[0]) : 0); break;
        default: fail_msg("statement %s", tile_name((TileKind)s->kind));
        }
    }
}

/* T = 300: five items, of which the last has 44 rows. */
static const int64_t dims[] = {300, 160};

static char *error_of(const char *text)
{
    Fixture f;
    Description d;
    const MachineText *m = machine_find("ascend910b2");
    if (read_text(&f, text))
        fail_msg("%s", diag_text(&f.diags, f.arena));
    assert_null(machine_read(f.arena, m->name, (const char *)m->json, m->len, &d));
    Run r = {.k = f.module->kernels.at[0], .dims = dims};
    r.check = checker_new(f.arena, &d.machine, r.k, dims, NULL);
    run(&r, r.k->tiles->first);
    checker_end(r.check);
    char *error = checker_error(r.check) ? strdup(checker_error(r.check)) : NULL;
    arena_free(f.arena);
    return error;
}

/* The n-th `old` of the plan becomes `new`; NULL: its whole line goes. */
static char *mutant(const char *old, const char *new, int n)
{
    const char *at = strstr(plan, old);
    while (at && n-- > 0)
        at = strstr(at + 1, old);
    if (!at)
        fail_msg("the plan has no %s", old);
    const char *end = at + strlen(old);
    if (!new) {
        while (at > plan && at[-1] != '\n')
            at--;
        end = strchr(end, '\n') + 1;
    }
    size_t size = sizeof plan + (new ? strlen(new) : 0);
    char *out = malloc(size);
    snprintf(out, size, "%.*s%s%s", (int)(at - plan), plan, new ? new : "", end);
    return out;
}

static void caught(const char *old, const char *new, int n, const char *wanted)
{
    char *text = mutant(old, new, n), *error = error_of(text);
    if (!error || !strstr(error, wanted))
        fail_msg("\n%s -> %s\n  wanted: %s\n  got:    %s", old, new ? new : "(nothing)", wanted,
                 error ? error : "nothing");
    free(error);
    free(text);
}

/* ---- the cases ---- */

static void test_right(void **state)
{
    (void)state;
    char *error = error_of(plan);
    if (error)
        fail_msg("%s", error);
}

static void test_place(void **state)
{
    (void)state;
    char *text = mutant("left: bf16[2, 64, 32]", "left: bf16[2, 48, 32]", 0), *error = error_of(text);
    assert_string_equal(
        error,
        "kernel up, launch y (line 7), item 0 on core 0: overflow: `pack left` (line 7) writes rows 0..64, "
        "columns 0..32 at slot 0 of left, which has 2 of 48 x 32");
    free(error);
    free(text);
}

static void test_overflow(void **state)
{
    (void)state;
    caught("left: bf16[2, 64, 32]", "left: bf16[1, 64, 32]", 0, "is about slot 1 of left, which has 1");
    caught("h in k..k + 32 = x", "h in k..k + 33 = x", 0,
           "overflow: `pack left` (line 7) writes rows 0..64, columns 0..33");
    caught("depth 32", "depth 33", 0,
           "overflow: `product sums` (line 7) reads rows 0..64, columns 0..33 at slot 0 of a");
    caught("part: f32[64, 32]", "part: f32[32, 32]", 0, "writes rows 0..64, columns 0..32 at slot 0 of part");
    caught("nZ at 0", "nZ at 65024", 0, "kernel up: b takes the bytes 65024..67072 of l0b, which has 65536");
}

static void test_alignment(void **state)
{
    (void)state;
    caught("zN at 8192", "zN at 8200", 0, "right begins at byte 8200 of l1, which asks for multiples of 32");
    caught("pack b[0, 0, 0] over h in 0..32, c in 0..32", "pack b[0, 0, 1] over h in 0..32, c in 0..31", 0,
           "misaligned: `pack b` (line 7) writes b[0, 0, 1] at byte 32 of l0b");
    caught("in_: f32[32, 32]", "in_: f32[32, 33]", 0, "rows 132 bytes apart; ub asks for multiples of 32");
}

static void test_overlap(void **state)
{
    (void)state;
    caught("zN at 8192", "zN at 4096", 0,
           "race: mte2 writes left[1, 0, 0] (byte 4096 of l1) in `pack left` (line 7), and no chain of set "
           "and wait tells it that "
           "mte1 is done with reading in `pack b` (line 7)");
    caught("zN at 8192", "zN at 0", 0,
           "overlap: mte1 reads left[0, 0, 0] (byte 0 of l1) in `pack a` (line 7), where `pack right` "
           "(line 7) has written right");
    caught("at 4096", "at 2048", 0,
           "overlap: vector of vector core 0 reads in_[16, 0] (byte 2048 of ub) in `vector c { out_ }` (line "
           "7), where `vector c { "
           "out_ }` (line 7) has written out_");
}

static void test_unwritten(void **state)
{
    (void)state;
    caught("init k == 0", "init k == 1", 0,
           "read before write: cube reads sums[0, 0] (byte 0 of l0c) in `product sums` (line 7)");
    caught("r in t..min2(t + 64, T), h in k..k + 32", "r in t..min2(t + 63, T), h in k..k + 32", 0,
           "read before write: mte1 reads left[0, 63, 0]");
    caught("cols 32", "cols 31", 0, "read before write: fix reads sums[0, 31]");
    caught(
        "r in v * 32..min2(v * 32 + 32, T - t)", "r in v * 32..v * 32 + 32", 0,
        "item 4 on core 0: read before write: mte2 of vector core 1 reads part[44, 0] (byte 5632 of thread)");
}

static void test_race(void **state)
{
    (void)state;
    caught("wait mte2 -> mte1 left", NULL, 0,
           "race: mte1 reads left[0, 0, 0] (byte 0 of l1) in `pack a` (line 7), and no chain of set and wait "
           "tells it that mte2 is "
           "done with writing in `pack left` (line 7)");
    caught("wait mte1 -> mte2 left", NULL, 0, "set twice: `set mte1 -> mte2 left` (line 7)");
    caught("wait cube -> mte1 a", NULL, 0, "set twice");
    caught("wait mte1 -> cube", NULL, 0, "race: cube reads a[0, 0, 0]");
    caught("wait fix -> mte2", NULL, 0, "race: mte2 of vector core 0 reads part[0, 0]");
    caught("wait vector -> mte3", NULL, 0, "race: mte3 of vector core 0 reads out_[0, 0]");
    caught("wait cube -> fix", NULL, 0, "race: fix reads sums[0, 0]");
}

/* The flags alternate, but tell the wrong thing. */
static void test_race_of_slots(void **state)
{
    (void)state;
    caught("pack left[imod(idiv(k, 32), 2)", "pack left[imod(idiv(k, 32) + 1, 2)", 0,
           "read before write: mte1 reads left[0, 0, 0]");
    caught("pack a[0, 0, 0] over r in 0..min2(64, T - t), h in 0..32 = left[imod(idiv(k, 32), 2), r, h]\n"
           "                set mte1 -> mte2 left[imod(idiv(k, 32), 2)]\n",
           "set mte1 -> mte2 left[imod(idiv(k, 32), 2)]\n"
           "                pack a[0, 0, 0] over r in 0..min2(64, T - t), h in 0..32 = left[imod(idiv(k, "
           "32), 2), r, h]\n",
           0, "race: mte2 writes left[0, 0, 0] (byte 0 of l1) in `pack left` (line 7), and no chain");
}

static void test_flags(void **state)
{
    (void)state;
    caught("set mte2 -> mte1 left", NULL, 0,
           "deadlock: `wait mte2 -> mte1 left` (line 7) never ends: nobody has set the flag mte2 -> mte1 of "
           "slot 0 of left since "
           "the launch began");
    caught("set mte1 -> mte2 left", NULL, 0,
           "deadlock: `wait mte1 -> mte2 left` (line 7) never ends: nobody has set the flag mte1 -> mte2 of "
           "slot 0 of left since "
           "`wait mte1 -> mte2 left` (line 7)");
    caught("set fix -> cube", NULL, 0,
           "flag left cleared: the item ends, and after `wait fix -> cube sums` (line 7) nobody sets");
    caught("wait mte2 -> fix", NULL, 0, "set twice: `set mte2 -> fix part` (line 7)");
    caught("set mte2 -> fix", NULL, 0, "flag left cleared");
    caught("set vector -> mte3", NULL, 0, "deadlock");
    caught("set fix -> mte2 part", "set fix -> mte2 part\n            set fix -> mte2 part", 0,
           "set twice: `set fix -> mte2 part`");
}

/* Global memory: items run in any order, the cores of one item side by side. */
static void test_items_meet(void **state)
{
    (void)state;
    caught(
        "pack y[t + v * 32, 0]", "pack y[v * 32, 0]", 0,
        "item 1 on core 1: items meet: mte3 of vector core 0 writes y[0, 0] in `pack y` (line 7), and item 0 "
        "writes it in `pack y` (line 7)");
    caught("c in 0..32 = part[r, c]", "c in 0..32 = y[r + 64, c]", 0,
           "items meet: mte3 of vector core 0 writes y[64, 0] in `pack y` (line 7), and item 0 reads it in "
           "`pack in_`");
    caught("c in 0..32 = part[r, c]", "c in 0..32 = y[imod(t, 64) + r, c]", 0,
           "items meet: mte2 of vector core 0 reads y[0, 0] in `pack in_` (line 7), and item 0 writes it in "
           "`pack y`");
    caught("pack y[t + v * 32, 0]", "pack y[t, 0]", 0,
           "race: mte3 of vector core 1 writes y[0, 0] in `pack y` (line 7), and no chain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),    cmocka_unit_test(test_place),
        cmocka_unit_test(test_overflow), cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_overlap),  cmocka_unit_test(test_unwritten),
        cmocka_unit_test(test_race),     cmocka_unit_test(test_race_of_slots),
        cmocka_unit_test(test_flags),    cmocka_unit_test(test_items_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
