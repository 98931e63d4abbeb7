/* product: block products, a function for each target and types. This file has the statement and the functions' names and
 * beginnings; what they go over is in emit_product_parts.c (panels and parts), emit_product_panel.c (the rows of one panel) and
 * emit_product_heights.c (fragments of rows), for right operands in rows in emit_rows.c and emit_rows_*.c.
 *
 * Note [Panel function]. Whichever way the right operand lies, its columns become a panel that fragments of all rows read.
 * That is most of the instructions, so it is a function of its own, which all product functions of the types share. AMX
 * has it inside: tiles are configured anew by each function.
 *
 * The function goes over panels; over parts of the depth, so that the part of a panel that is in use stays in
 * the cache (`part` of machines/cpu.def); over fragments of rows; and a fragment over the terms, with the sums in registers. So a panel is
 * read from its begin to its end: memory gives one long run faster than many short ones. Where the CPU reads several runs faster than one
 * (`streams`), rows that one fragment has take several panels in turn, outside of that function. Where widening takes slots of
 * multiply-adds (CPU_WIDENS_ONCE), and where fragments of many rows are wide (CPU_WIDE), the first fragment of a part keeps the panel in
 * f32 for the others. Every element's sum is one chain from its old value, terms ascending, each added by one instruction; which fragment
 * an element falls into changes nothing.
 *
 * Left operands are lines. Rows of f32 are read as they lie, too, by fragments of no more rows than there are, which have the panel
 * inside; and tiles read rows of buffers that have room for whole fragments (CPU_LEFT_ROWS).
 * Rows are rounded up to fragments of which 32 is a multiple, columns to vectors of a fragment: what Note
 * [Block products] in tile.h allows. */
#include "backend/emit_pack.h"
#include "backend/emit_product.h"

/* Parameters: the sums and the bytes to their next row; for either operand its first element, and the bytes to its next
 * block or panel; rows, columns, depth; whether sums begin at zero (`init`); whether nothing beside the block may be written;
 * whether the right operand may be in memory, because no thread has made it for itself. */
enum { DEPTH = 8, INIT, EXACT, FAR, PARAMS };

/* Kinds: of right operands that are no panels; of left operands that are no lines, beside a panel of their type. */
enum { IN_ROWS = 4, TRANSPOSED = 8, LEFT_IN_ROWS = 12, LEFT_BF16_IN_ROWS = 13 };

static Elem left_elem(uint32_t kind) { return kind == LEFT_BF16_IN_ROWS || kind & 2 ? EL_BF16 : EL_F32; }
static Elem right_elem(uint32_t kind) { return kind == LEFT_BF16_IN_ROWS || kind & 1 ? EL_BF16 : EL_F32; }
static uint32_t panel_kind(Elem left, Elem right) { return (left == EL_BF16) * 2u + (right == EL_BF16); }
static int right_in_rows(uint32_t kind) { return kind >= IN_ROWS && kind < LEFT_IN_ROWS; }

static uint32_t product_kind(const Plan *p, const Stmt *s)
{
    const Buffer *left = &p->buffers.at[x_at(p->k, s->value)->sym],
                 *right = &p->buffers.at[x_at(p->k, s->other)->sym];
    if (left->layout == LAYOUT_ROWS)
        return left->elem == EL_BF16 ? LEFT_BF16_IN_ROWS : LEFT_IN_ROWS;
    uint32_t way = s->transposed ? TRANSPOSED : right->layout == LAYOUT_ROWS ? IN_ROWS : 0;
    return way + panel_kind(left->elem, right->elem);
}

/* Of a right operand in rows: fragments do not read it, so that panels are packed. */
static int packs_panels(Isa target, Elem left)
{
    const Cpu *cpu = &cpu_table[target];
    return !emit_calls_panel_function(target, left) ||
           !cpu_table[left == EL_F32 ? cpu->f32 : target].rows_read;
}

int product_exists(Isa target, uint32_t helper)
{
    uint32_t kind = helper % PRODUCT_KINDS;
    Elem left = left_elem(kind);
    if (left == EL_BF16 && (right_elem(kind) != left || emit_fragment_of(target, left) == emit_no_fragment))
        return 0;
    if (helper >= HELPER_PANEL)
        return emit_calls_panel_function(target, left);
    return kind == LEFT_BF16_IN_ROWS ? cpu_can(&cpu_table[target], CPU_LEFT_ROWS)
                                     : !right_in_rows(kind) || cpu_table[target].rows_read;
}

/* In rows, words are kept as the left operand has its terms, and in panels that are packed. */
uint64_t product_helpers(const Plan *p, const Stmt *s)
{
    uint32_t kind = product_kind(p, s);
    Elem left = left_elem(kind), in_rows = right_elem(kind);
    int packs = right_in_rows(kind) && packs_panels(p->target, left);
    Elem right = packs || kind / 4 * 4 == IN_ROWS ? left : in_rows;
    uint64_t panel = (uint64_t)(emit_calls_panel_function(p->target, left) && kind < LEFT_IN_ROWS);
    uint64_t calls = packs && !emit_packs_units(&cpu_table[p->target], left, s->transposed);
    uint64_t pack = calls << (HELPER_PACK + pack_kind(LAYOUT_PAIRS, !s->transposed, in_rows, left));
    return (uint64_t)1 << kind | pack | panel << (HELPER_PANEL + panel_kind(left, right)) |
           (uint64_t)s->transposed << HELPER_TRANSPOSE;
}

static Ty function_type(L *l)
{
    Ty types[PARAMS] = {l->ptr, l->i64, l->ptr, l->i64, l->ptr, l->i64,
                        l->i64, l->i64, l->i64, l->i1,  l->i1,  l->i1};
    return l_fn_type(l, l->none, types, sizeof types / sizeof *types);
}

static V function_of(const Plan *p, uint32_t kind)
{
    static const char *const ways[] = {"", ".rows", ".transposed", ".left"};
    L *l = p->l;
    const char *name = arena_printf(l->arena, "moec.product.%s.%s%s%s", cpu_table[p->target].name,
                                    elem_name(left_elem(kind)), elem_name(right_elem(kind)), ways[kind / 4]);
    return l_shared_function(l, name, function_type(l));
}

V emit_products(Plan *p)
{
    L *l = p->l;
    V all[TARGET_ENTRIES];
    int64_t ahead = cpu_can(&cpu_table[p->target], CPU_ASKS_RUNS) ? RUN_AHEAD : 0;
    all[TARGET_AHEAD] = LLVMConstIntToPtr(l_i64(l, ahead), l->ptr);
    for (uint32_t kind = 0; kind < PRODUCT_KINDS; kind++)
        all[kind] = p->helpers >> kind & 1 ? function_of(p, kind) : LLVMConstNull(l->ptr);
    return l_table(l, l->ptr, all, TARGET_ENTRIES, "products");
}

/* ---- the statement ---- */

/* The target's function: found when the code runs, so that targets that differ in products only share the rest. */
static V function_at(Emit *e, uint32_t kind)
{
    L *l = e->l;
    V table = l_load(l, l->ptr, emit_data_at(e, DATA_PRODUCTS), 8);
    return l_load(l, l->ptr, l_at(l, l->ptr, table, l_i64(l, kind)), 8);
}

/* The address of an operand's first element, and the bytes from a line block, panel or row to the next; apart: see Stmt. */
static V operand(Emit *e, ExprId load, uint32_t apart, V *block)
{
    L *l = e->l;
    const Expr *x = x_at(e->k, load);
    ExprId index[MAX_RANK];
    for (uint32_t i = 0; i < x->nargs; i++)
        index[i] = x_arg(e->k, load, i);
    const Buffer *b = &e->p->buffers.at[x->sym];
    int64_t elem = (int64_t)elem_bytes(b->elem);
    switch (b->layout) {
    case LAYOUT_ROWS:
    case LAYOUT_SUMS: *block = l_mul(l, emit_stride(e, x->sym, x->nargs - 2u - apart), l_i64(l, elem)); break;
    case LAYOUT_LINES: *block = l_mul(l, emit_padded(e, x->sym, 0), l_i64(l, LAYOUT_LINE_BYTES)); break;
    case LAYOUT_PAIRS: *block = l_mul(l, emit_padded(e, x->sym, 0), l_i64(l, LAYOUT_EDGE * elem)); break;
    case LAYOUT_ZN:
    case LAYOUT_NZ:
    case LAYOUT_ZZ:
    case LAYOUT_COUNT: BUG(l->arena, "backend: kernel %s multiplies what only a cube does", e->k->name);
    }
    return emit_address(e, x->sym, index, x->nargs);
}

void emit_tile_product(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = &e->p->p->stmts.at[id];
    const Buffer *sums = &e->p->buffers.at[s->buffer];
    if (e->width)
        BUG(l->arena, "backend: kernel %s has a block product in a vector loop", e->k->name);
    V stride = emit_stride(e, s->buffer, s->nindex - 2u), args[PARAMS];
    args[0] = emit_address(e, s->buffer, s->index, s->nindex);
    args[1] = l_mul(l, stride, l_i64(l, (int64_t)elem_bytes(EL_F32)));
    args[2] = operand(e, s->value, 0, &args[3]);
    args[4] = operand(e, s->other, s->apart, &args[5]);
    for (int i = 0; i < 3; i++)
        args[6 + i] = emit_value(e, s->size[i]);
    args[INIT] = s->guard == NONE ? l_int(l->i1, 0) : emit_value(e, s->guard);
    args[EXACT] = l_int(l->i1, !sums_have_room(sums->space, sums->layout));
    args[FAR] = l_int(l->i1, !space_is_private(e->p->buffers.at[x_at(e->k, s->other)->sym].space));
    l_call_at(l, function_type(l), function_at(e, product_kind(e->p, s)), args, PARAMS);
}

/* ---- the functions ---- */

static V zeros(const Plan *p)
{
    L *l = p->l;
    V v = LLVMAddGlobal(l->mod, LLVMArrayType2(l->i8, ZERO_BYTES), "zeros");
    LLVMSetInitializer(v, LLVMConstNull(LLVMArrayType2(l->i8, ZERO_BYTES)));
    LLVMSetLinkage(v, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(v, 1);
    LLVMSetAlignment(v, LAYOUT_LINE_BYTES);
    return v;
}

/* Begins the function fn, of the products of a target. `e` is what it is emitted with, blank. */
static EmitProduct begin_function(Plan *p, V fn, uint32_t kind, Emit *e)
{
    Elem left = left_elem(kind), right = right_elem(kind);
    L *l = p->l;
    p->isa = p->target;
    p->cpu = &cpu_table[p->isa];
    plan_attributes(p, fn);
    l_attribute(l, fn, "noinline");
    l_begin(l, fn);
    *e = emit_blank(p);
    EmitProduct x = {.e = e,
                     .l = l,
                     .left = left,
                     .right = right,
                     .in_rows = kind / 4 * 4 == IN_ROWS,
                     .transposed = kind / 4 * 4 == TRANSPOSED,
                     .left_in_rows = kind == LEFT_IN_ROWS,
                     .a_row = l_i64(l, LAYOUT_LINE_BYTES),
                     .stream = l_i64(l, 0)};
    x.per_word = x.trip = left == EL_F32 && right == EL_BF16 ? 2 : 1;
    emit_choose_fragment(&x);
    x.zeros = zeros(p);
    x.own = l_slot_bytes(l, (uint64_t)x.rows * ROW_OF_WORDS, "own");
    return x;
}

void emit_panel_function(Plan *p, uint32_t kind)
{
    V fn = emit_panel_declared(p, left_elem(kind), right_elem(kind)), c, a, b, units;
    Emit e;
    EmitProduct x = begin_function(p, fn, kind, &e);
    V *const params[] = {&c,       &x.c_row, &a,       &x.a_block, &b,      &units,
                         &x.nrows, &x.ncols, &x.below, &x.next,    &x.init, &x.exact};
    for (unsigned i = 0; i < sizeof params / sizeof *params; i++)
        *params[i] = LLVMGetParam(fn, i);
    emit_product_panel(&x, c, a, b, units);
    LLVMBuildRetVoid(p->l->b);
}

void emit_product_function(Plan *p, uint32_t kind)
{
    V fn = function_of(p, kind), depth = LLVMGetParam(fn, DEPTH);
    Emit e;
    EmitProduct x = begin_function(p, fn, kind, &e);
    V *const params[] = {&x.c, &x.c_row, &x.a, &x.a_block, &x.b, &x.b_panel, &x.nrows, &x.ncols};
    for (unsigned i = 0; i < sizeof params / sizeof *params; i++)
        *params[i] = LLVMGetParam(fn, i);
    x.begin = LLVMGetParam(fn, INIT);
    x.exact = LLVMGetParam(fn, EXACT);
    x.far = LLVMGetParam(fn, FAR);
    x.units = emit_product_units(&x, depth);
    if (kind >= LEFT_IN_ROWS) {
        if (!product_exists(p->target, kind))
            BUG(p->l->arena, "backend: %s does not read left operands in rows", cpu_table[p->target].name);
        x.a_row = x.a_block;
        x.a_block = l_i64(p->l, LAYOUT_LINE_BYTES);
    }
    if (right_in_rows(kind) && packs_panels(p->target, x.left))
        emit_rows_packed_product(&x, depth);
    else if (x.transposed)
        emit_rows_transposed_product(&x, depth);
    else if (x.in_rows)
        emit_rows_product(&x, depth);
    else
        emit_panels_product(&x);
    LLVMBuildRetVoid(p->l->b);
}
