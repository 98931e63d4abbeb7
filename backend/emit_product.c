/* product: block products, a function for each target and types.
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
 * an element falls into changes nothing. AMX: emit_amx.c.
 *
 * Left operands are lines. Rows of f32 are read as they lie, too, by fragments of no more rows than there are, which have the panel
 * inside; and tiles read rows of buffers that have room for whole fragments (CPU_LEFT_ROWS).
 * Rows are rounded up to fragments of which 32 is a multiple, columns to vectors of a fragment: what Note
 * [Block products] in tile.h allows. */
#include "backend/emit.h"

/* Parameters: the sums and the bytes to their next row; for either operand its first element, and the bytes to its next
 * block or panel; rows, columns, depth; whether sums begin at zero (`init`); whether nothing beside the block may be written;
 * whether the right operand may be in memory, because no thread has made it for itself. */
enum { DEPTH = 8, INIT, EXACT, FAR, PARAMS };
enum { STRIP_FRAGMENTS = 2, TILE_AHEAD = 4096 };

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

static EmitFragment *const fragments[ISA_COUNT] = {
#define CPU(id, family, word, lanes, rows, vectors, part, unroll, terms, rows_read, streams, row_streams, \
            f32, code, fragment, ...)                                                                     \
    emit_##fragment##_fragment,
#include "machines/cpu.def"
};

static EmitFragment *fragment_of(Isa target, Elem left)
{
    return left == EL_BF16 ? fragments[target] : emit_vector_fragment;
}

static int is_of_tiles(const EmitProduct *x)
{
    return fragment_of(x->e->p->isa, x->left) == emit_tile_fragment;
}

static int calls_panel_function(Isa target, Elem left)
{
    return fragment_of(target, left) == emit_vector_fragment;
}

/* Of a right operand in rows: fragments do not read it, so that panels are packed. */
static int packs_panels(Isa target, Elem left)
{
    const Cpu *cpu = &cpu_table[target];
    return !calls_panel_function(target, left) || !cpu_table[left == EL_F32 ? cpu->f32 : target].rows_read;
}

int product_exists(Isa target, uint32_t helper)
{
    uint32_t kind = helper % PRODUCT_KINDS;
    Elem left = left_elem(kind);
    if (left == EL_BF16 && (right_elem(kind) != left || fragments[target] == emit_no_fragment))
        return 0;
    if (helper >= HELPER_PANEL)
        return calls_panel_function(target, left);
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
    uint64_t panel = (uint64_t)(calls_panel_function(p->target, left) && kind < LEFT_IN_ROWS);
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

static V named_function(const Plan *p, const char *what, uint32_t kind, const char *way, Ty type)
{
    static const char *const names[] = {"f32f32", "f32bf16", "bf16f32", "bf16bf16"};
    L *l = p->l;
    const char *types = names[panel_kind(left_elem(kind), right_elem(kind))];
    const char *name = arena_printf(l->arena, "moec.%s.%s.%s%s", what, cpu_table[p->target].name, types, way);
    V fn = LLVMGetNamedFunction(l->mod, name);
    if (fn)
        return fn;
    fn = LLVMAddFunction(l->mod, name, type);
    l_shared(l, fn);
    return fn;
}

static V function_of(const Plan *p, uint32_t kind)
{
    static const char *const ways[] = {"", ".rows", ".transposed", ".left"};
    return named_function(p, "product", kind, ways[kind / 4], function_type(p->l));
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

/* ---- the function ---- */

void emit_no_fragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units)
{
    (void)rows, (void)c, (void)a, (void)b, (void)units;
    BUG(x->l->arena, "backend: %s does not multiply bf16 by bf16", x->e->p->cpu->name);
}

/* Tiles multiply bf16 only: for f32 the registers of another instruction set are used. */
static void choose_fragment(EmitProduct *x)
{
    const Cpu *own = &cpu_table[x->e->p->isa], *cpu = x->left == EL_F32 ? &cpu_table[own->f32] : own;
    int rows = x->in_rows || x->transposed;
    x->lanes = cpu->lanes;
    x->rows = cpu->rows;
    x->vectors = cpu->vectors;
    x->part = cpu->part;
    x->unroll = cpu->unroll;
    x->rows_read = cpu->rows_read;
    x->panels = rows ? 1 : cpu->streams;
    x->streams = rows ? cpu->row_streams : 1;
    x->wide = cpu_can(cpu, CPU_WIDE);
    x->keeps = x->left == EL_F32 && x->right == EL_BF16 && (x->wide || cpu_can(cpu, CPU_WIDENS_ONCE));
}

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

uint32_t emit_product_width(const EmitProduct *x) { return x->lanes * x->vectors; }

/* Of one or two rows of a panel a fragment of four would waste most of its work; where the panel is in memory, fewer
 * instructions also let the CPU ask for more of it at once. */
static void choose_heights(EmitProduct *x)
{
    x->tail = cpu_tail(x->rows);
    x->heights[x->nheights++] = x->rows;
    if (x->tail < x->rows)
        x->heights[x->nheights++] = x->tail;
    if (x->left_in_rows)
        x->heights[x->nheights++] = 1;
    else if (x->tail > FEW_ROWS && !x->in_rows && calls_panel_function(x->e->p->target, x->left))
        x->heights[x->nheights++] = FEW_ROWS;
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
    choose_fragment(&x);
    choose_heights(&x);
    x.zeros = zeros(p);
    x.own = l_slot_bytes(l, (uint64_t)x.rows * ROW_OF_WORDS, "own");
    return x;
}

V emit_product_few(const EmitProduct *x) { return l_icmp(x->l, LLVMIntSLE, x->nrows, l_i64(x->l, x->tail)); }

V emit_product_streams(const EmitProduct *x)
{
    return l_icmp(x->l, LLVMIntSLE, x->nrows, l_i64(x->l, FEW_FRAGMENTS * (int64_t)x->rows));
}

/* i1: rows are so many that fragments are to have all columns of a panel, too (CPU_WIDE). */
static V are_many(const EmitProduct *x)
{
    L *l = x->l;
    if (!x->wide)
        return l_int(l->i1, 0);
    return l_icmp(l, LLVMIntSGE, x->nrows, l_i64(l, cpu_wide_rows(x->rows, x->keeps)));
}

V emit_product_keeps(const EmitProduct *x)
{
    return x->keeps && x->wide ? are_many(x) : l_int(x->l->i1, x->keeps);
}

/* Which has a height for each number of rows. */
#define CPU(id, family, word, lanes, rows, vectors, ...)                          \
    _Static_assert((lanes) * (vectors) >= LAYOUT_EDGE ||                          \
                       (lanes) * (vectors) * (rows) / LAYOUT_EDGE <= HEIGHTS_MAX, \
                   #id ": a wide fragment has more heights than HEIGHTS_MAX");
#include "machines/cpu.def"

/* As many sums as the registers of other fragments hold. */
EmitProduct emit_wide_fragment(const EmitProduct *x, uint32_t most)
{
    EmitProduct wide = *x;
    if (emit_product_width(x) == LAYOUT_EDGE) {
        wide.heights[0] = x->tail;
        wide.nheights = 1;
        return wide;
    }
    wide.vectors = LAYOUT_EDGE / x->lanes;
    wide.rows = x->rows * x->vectors / wide.vectors;
    wide.nheights = 0;
    for (uint32_t height = wide.rows < most ? wide.rows : most; height > 0; height--)
        wide.heights[wide.nheights++] = height;
    return wide;
}

/* size[0] x size[1] sums, one by one. */
static void copy_sums(L *l, V to, V to_row, V from, V from_row, const V *size)
{
    For i = l_for(l, l_i64(l, 0), size[0], 1, "row");
    V to_at = l_byte(l, to, l_mul(l, i.var, to_row)), from_at = l_byte(l, from, l_mul(l, i.var, from_row));
    For j = l_for(l, l_i64(l, 0), size[1], 1, "column");
    l_store(l, l_load(l, l->f32, l_at(l, l->f32, from_at, j.var), 4), l_at(l, l->f32, to_at, j.var), 4);
    l_end_for(l, &j);
    l_end_for(l, &i);
}

/* The i-th height is taken where that many rows are left at least: fewer are a whole fragment of the next one. Of a left operand in
 * rows no row is read that is not there. */
static int64_t least_rows(const EmitProduct *x, uint32_t i)
{
    if (i + 1 == x->nheights)
        return 0;
    if (x->left_in_rows)
        return x->heights[i];
    uint32_t next = x->heights[i + 1];
    return (x->heights[i] - 1) / next * next + 1;
}

/* Is the i-th height taken where so many rows are left? Four are two and two, not three and one. */
static V takes_height(const EmitProduct *x, uint32_t i, V left)
{
    L *l = x->l;
    V enough = l_icmp(l, LLVMIntSGE, left, l_i64(l, least_rows(x, i)));
    int three = x->heights[i] == 3 && x->heights[i + 1] == 2;
    return three ? l_and(l, enough, l_icmp(l, LLVMIntNE, left, l_i64(l, 4))) : enough;
}

static V choose_height(const EmitProduct *x, V left)
{
    L *l = x->l;
    V height = l_i64(l, x->heights[x->nheights - 1]);
    for (uint32_t i = x->nheights - 1; i-- > 0;)
        height = l_select(l, takes_height(x, i, left), l_i64(l, x->heights[i]), height);
    return height;
}

/* The fragment of the height that is chosen. */
static void one_height(EmitProduct *x, V left, V c, V a, V b, V units)
{
    L *l = x->l;
    Block done = l_block(l, "done");
    EmitFragment *fragment = fragment_of(x->e->p->isa, x->left);
    for (uint32_t i = 0; i < x->nheights; i++) {
        Block next = i + 1 < x->nheights ? l_block(l, "lower") : NULL;
        if (next) {
            Block fits = l_block(l, "fits");
            l_branch(l, takes_height(x, i, left), fits, next);
            l_enter(l, fits);
        }
        fragment(x, x->heights[i], c, a, b, units);
        l_goto(l, done);
        if (next)
            l_enter(l, next);
    }
    l_enter(l, done);
}

V emit_product_fragment(EmitProduct *x, V row, V c, V a, V b, V units)
{
    L *l = x->l;
    V left[2] = {l_sub(l, x->nrows, row), l_sub(l, x->ncols, x->column)};
    V height = choose_height(x, left[0]), width = l_i64(l, emit_product_width(x));
    V cut = l_or(l, l_icmp(l, LLVMIntSLT, left[0], height), l_icmp(l, LLVMIntSLT, left[1], width));
    V size[2] = {l_min(l, left[0], height), l_min(l, left[1], width)}, own_row = l_i64(l, ROW_OF_WORDS);
    V at = l_byte(l, c, l_mul(l, row, x->c_row)), c_row = x->c_row;
    cut = l_and(l, cut, x->exact);
    When before = l_when(l, cut);
    copy_sums(l, x->own, own_row, at, c_row, size);
    l_end_when(l, &before);
    x->c_row = l_select(l, cut, own_row, c_row);
    x->from_row = l_select(l, x->init, l_i64(l, 0), x->c_row);
    a = l_byte(l, a, l_mul(l, row, x->a_row));
    one_height(x, left[0], l_select(l, cut, x->own, at), a, b, units);
    x->c_row = c_row;
    When after = l_when(l, cut);
    copy_sums(l, at, c_row, x->own, own_row, size);
    l_end_when(l, &after);
    return height;
}

static void fragments_from(EmitProduct *x, V row, V c, V a, V b, V units)
{
    L *l = x->l;
    V share = x->share;
    For f = l_for(l, row, x->nrows, 1, "rows");
    if (share)
        x->share = l_byte(l, share, l_mul(l, f.var, x->share_row));
    f.next = emit_product_fragment(x, f.var, c, a, b, units);
    x->share = share;
    l_end_for(l, &f);
}

void emit_product_fragments(EmitProduct *x, V c, V a, V b, V units)
{
    fragments_from(x, l_i64(x->l, 0), c, a, b, units);
}

void emit_begin_sums(EmitProduct *x, V unit)
{
    L *l = x->l;
    x->init = l_and(l, x->begin, l_icmp(l, LLVMIntEQ, unit, l_i64(l, 0)));
}

/* ---- the panel function ---- */

/* Parameters: of the block's first element in these columns the sums and the bytes to their next row; the same of lines; the
 * panel; units, rows, columns that are left; how far the sums below the block are, which are asked for; what else is; whether sums
 * begin at zero; whether nothing beside the block may be written. */
static V panel_function(const Plan *p, uint32_t kind)
{
    L *l = p->l;
    Ty types[] = {l->ptr, l->i64, l->ptr, l->i64, l->ptr, l->i64,
                  l->i64, l->i64, l->i64, l->ptr, l->i1,  l->i1};
    return named_function(p, "panel", kind, "", l_fn_type(l, l->none, types, sizeof types / sizeof *types));
}

/* While a fragment is computed, the sums of its rows in the next columns are asked for: early enough for memory, however few
 * the terms are. In the last columns those of the first ones below the block, where the next part of an item's rows is. */
static V coming(const EmitProduct *x)
{
    L *l = x->l;
    int64_t width = emit_product_width(x), bytes = (int64_t)elem_bytes(EL_F32);
    V last = l_icmp(l, LLVMIntSGE, l_add(l, x->column, l_i64(l, width)), x->ncols), none = l_i64(l, 0);
    V at =
        l_select(l, last, l_sub(l, x->below, l_mul(l, x->column, l_i64(l, bytes))), l_i64(l, width * bytes));
    return l_select(l, l_icmp(l, LLVMIntEQ, x->below, none), none, at);
}

/* The rows of whole fragments first. */
static void over_tiles(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    int64_t height = x->rows;
    V left = l_sub(l, x->ncols, x->column), whole = l_and(l, x->nrows, l_i64(l, -height));
    whole = l_select(l, x->exact, whole, l_round_up(l, x->nrows, height));
    V fits = l_or(l, l_not(l, x->exact), l_icmp(l, LLVMIntSGE, left, l_i64(l, emit_product_width(x))));
    whole = l_select(l, fits, whole, l_i64(l, 0));
    x->coming = coming(x);
    emit_tile_rows(x, whole, c, a, b, units);
    fragments_from(x, whole, c, a, b, units);
}

static void over_rows_from(EmitProduct *x, V column, V c, V a, V b, V units)
{
    L *l = x->l;
    x->column = column;
    x->coming = coming(x);
    emit_product_fragments(x, l_byte(l, c, l_mul(l, column, l_i64(l, (int64_t)elem_bytes(EL_F32)))), a,
                           l_byte(l, b, l_mul(l, column, l_i64(l, LAYOUT_WORD_BYTES))), units);
}

EmitProduct emit_rows_left(const EmitProduct *x, V done, V *c, V *a)
{
    L *l = x->l;
    EmitProduct left = *x;
    if (x->kept) {
        left.in_rows = 0;
        left.right = x->left;
        left.per_word = left.trip = 1;
    }
    left.kept = left.next = NULL;
    left.nrows = l_sub(l, x->nrows, done);
    *c = l_byte(l, *c, l_mul(l, done, x->c_row));
    *a = l_byte(l, *a, l_mul(l, done, x->a_row));
    return left;
}

/* What x asks for is shared out: each trip of the others' fragments asks for the lines of its rows, and the first fragment for what it
 * reads anyhow. Where that would be too many lines, the first one asks for all. */
static void share_out(const EmitProduct *x, EmitProduct *first, EmitProduct *others, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0), rows = l_max(l, l_sub(l, x->nrows, l_i64(l, x->rows)), l_i64(l, 1));
    V row = l_bin(l, LLVMUDiv, l_i64(l, (int64_t)x->unroll * ROW_OF_WORDS / x->per_word), rows);
    V step = l_mul(l, row, l_i64(l, x->rows)), trips = l_bin(l, LLVMUDiv, units, l_i64(l, x->unroll));
    V few = l_icmp(l, LLVMIntSLE, step, l_i64(l, SHARED_LINES * LAYOUT_LINE_BYTES));
    first->next = l_select(l, few, b, x->next);
    others->share = l_select(l, few, x->next, b);
    others->share_step = l_select(l, few, step, zero);
    others->share_row = l_select(l, few, l_mul(l, row, trips), zero);
}

/* The first fragment reads the panel, which may come from memory, and keeps its vectors as they are multiplied, in f32, for the others:
 * of a part, which has so many units. */
static void over_rows_after_first(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    x->column = l_i64(l, 0);
    x->coming = coming(x);
    EmitProduct first = *x, others = *x;
    first.nheights = 1;
    if (x->keeps)
        first.kept = others.kept = l_slot_bytes(l, (uint64_t)x->part * ROW_OF_WORDS, "kept");
    if (x->wide && x->next)
        share_out(x, &first, &others, b, units);
    V done = emit_product_fragment(&first, l_i64(l, 0), c, a, b, units);
    EmitProduct left = emit_rows_left(&others, done, &c, &a);
    emit_product_fragments(&left, c, a, others.kept ? others.kept : b, units);
}

static void over_whole_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0);
    if (!x->keeps) {
        over_rows_from(x, zero, c, a, b, units);
        return;
    }
    V several = l_icmp(l, LLVMIntSGT, x->nrows, l_i64(l, x->rows));
    When keeping = l_when(l, several);
    over_rows_after_first(x, c, a, b, units);
    l_end_when(l, &keeping);
    When once = l_when(l, l_not(l, several));
    over_rows_from(x, zero, c, a, b, units);
    l_end_when(l, &once);
}

/* Of the columns that are left half of a panel's vectors, if they are no more: as few columns as experts of a small model have, or
 * classes, would else take the time of all. */
static void over_whole_panel(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V few = l_icmp(l, LLVMIntSLE, x->ncols, l_i64(l, LAYOUT_EDGE / 2));
    When whole = l_when(l, l_not(l, few));
    over_whole_rows(x, c, a, b, units);
    l_end_when(l, &whole);
    When half = l_when(l, few);
    EmitProduct narrow = *x;
    narrow.vectors /= 2;
    over_rows_from(&narrow, l_i64(l, 0), c, a, b, units);
    l_end_when(l, &half);
}

/* All columns of a panel. Fragments that are narrower go over them one group after the other, but those of few rows have all (where they
 * do not go over panels in turn): what comes from memory is read in one run. So have those of many rows, where they are faster
 * (CPU_WIDE). */
static void over_panel(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0);
    if (emit_product_width(x) == LAYOUT_EDGE) {
        over_whole_panel(x, c, a, b, units);
        return;
    }
    EmitProduct wide = emit_wide_fragment(x, LAYOUT_EDGE);
    V few = x->panels > 1 ? l_int(l->i1, 0) : emit_product_few(x), many = are_many(x), next = x->next;
    When w = l_when(l, few);
    over_rows_from(&wide, zero, c, a, b, units);
    l_end_when(l, &w);
    if (x->wide) {
        many = l_and(l, many, l_icmp(l, LLVMIntSGT, x->ncols, l_i64(l, emit_product_width(x))));
        When m = l_when(l, many);
        over_rows_after_first(&wide, c, a, b, units);
        l_end_when(l, &m);
    }
    V columns = l_min(l, x->ncols, l_i64(l, LAYOUT_EDGE));
    columns = l_select(l, l_or(l, few, many), zero, columns);
    V share = l_mul(l, units, l_i64(l, emit_product_width(x) * LAYOUT_WORD_BYTES / x->per_word));
    For f = l_for(l, zero, columns, emit_product_width(x), "columns");
    if (next)
        x->next =
            l_byte(l, next, l_mul(l, share, l_bin(l, LLVMUDiv, f.var, l_i64(l, emit_product_width(x)))));
    over_rows_from(x, f.var, c, a, b, units);
    l_end_for(l, &f);
}

void emit_product_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    if (is_of_tiles(x)) {
        over_tiles(x, c, a, b, units);
        return;
    }
    if (!calls_panel_function(x->e->p->target, x->left)) {
        emit_product_fragments(x, c, a, b, units);
        return;
    }
    if (x->left_in_rows) {
        EmitProduct panel = *x;
        panel.ncols = l_sub(l, x->ncols, x->column);
        panel.next = NULL;
        over_panel(&panel, c, a, b, units);
        return;
    }
    V fn = panel_function(x->e->p, panel_kind(x->left, x->right)), left = l_sub(l, x->ncols, x->column);
    V below = x->below ? x->below : l_i64(l, 0), next = x->next ? x->next : b;
    V args[] = {c, x->c_row, a, x->a_block, b, units, x->nrows, left, below, next, x->init, x->exact};
    l_call(l, fn, args, sizeof args / sizeof *args);
}

void emit_panel_function(Plan *p, uint32_t kind)
{
    V fn = panel_function(p, kind), c, a, b, units;
    Emit e;
    EmitProduct x = begin_function(p, fn, kind, &e);
    V *const params[] = {&c,       &x.c_row, &a,       &x.a_block, &b,      &units,
                         &x.nrows, &x.ncols, &x.below, &x.next,    &x.init, &x.exact};
    for (unsigned i = 0; i < sizeof params / sizeof *params; i++)
        *params[i] = LLVMGetParam(fn, i);
    over_panel(&x, c, a, b, units);
    LLVMBuildRetVoid(p->l->b);
}

/* ---- over panels ---- */

/* Units of a part, which a fragment leaves in the first cache, so that what streams through is read once; beside tiles it has room, as
 * lines pass it by. Few rows take all, where they do not go over panels in turn. */
static V part_of(const EmitProduct *x)
{
    L *l = x->l;
    uint32_t least = is_of_tiles(x) || x->part < FIRST_CACHE_WORDS ? x->part : FIRST_CACHE_WORDS;
    V words = l_select(l, emit_product_streams(x), l_i64(l, least), l_i64(l, x->part));
    V part = l_mul(l, words, l_select(l, emit_product_keeps(x), l_i64(l, 1), l_i64(l, x->per_word)));
    if (is_of_tiles(x) || x->panels > 1)
        return part;
    return l_select(l, emit_product_few(x), l_max(l, x->units, part), part);
}

/* Bytes from what is multiplied to what is asked for: of several fragments of tiles the next panel, else what fits the first cache; of a
 * run that comes by itself, what comes next. */
static V ahead_of(const EmitProduct *x)
{
    L *l = x->l;
    V far = l_i64(l, FIRST_CACHE_WORDS * ROW_OF_WORDS);
    if (is_of_tiles(x))
        return l_select(l, l_icmp(l, LLVMIntSGT, x->nrows, l_i64(l, x->rows)), x->b_panel,
                        l_i64(l, TILE_AHEAD));
    if (x->panels > 1 || cpu_can(x->e->p->cpu, CPU_ASKS_FAR))
        return far;
    return l_select(l, emit_product_few(x), l_i64(l, FEW_AHEAD), far);
}

/* The words from unit `from` on of the panel of the columns from `column` on. */
static V words_at(const EmitProduct *x, V column, V from)
{
    L *l = x->l;
    V b = l_byte(l, x->b, l_mul(l, l_sar(l, column, 5), x->b_panel));
    return l_byte(l, b, l_mul(l, from, l_i64(l, ROW_OF_WORDS / (int64_t)x->per_word)));
}

/* The units in [from, ..) of a part for the panel of the columns from x->column on. */
static void one_panel(EmitProduct *x, V from, V units)
{
    L *l = x->l;
    V right = l_mul(l, x->column, l_i64(l, (int64_t)elem_bytes(EL_F32)));
    V b = words_at(x, x->column, from);
    x->next = l_byte(l, b, ahead_of(x));
    x->below = l_sub(l, l_mul(l, x->nrows, x->c_row), right);
    emit_product_rows(x, l_byte(l, x->c, right), l_byte(l, x->a, l_mul(l, l_sar(l, from, 4), x->a_block)), b,
                      units);
}

/* Fragments of `rows` rows in the panels of the columns in [from, to), up to unit `end`: a trip of each in turn. */
static void in_turn(EmitProduct *x, uint32_t rows, V from, V to, V end)
{
    L *l = x->l;
    V trip = l_i64(l, x->unroll);
    For f = l_for(l, l_i64(l, 0), end, x->unroll, "trip");
    emit_begin_sums(x, f.var);
    x->from_row = l_select(l, x->init, l_i64(l, 0), x->c_row);
    V a = emit_unit_at(x, x->a, f.var);
    For g = l_for(l, from, to, LAYOUT_EDGE, "panel");
    V c = l_byte(l, x->c, l_mul(l, g.var, l_i64(l, (int64_t)elem_bytes(EL_F32))));
    x->next = words_at(x, g.var, l_add(l, f.var, trip));
    emit_vector_fragment(x, rows, c, a, words_at(x, g.var, f.var), trip);
    l_end_for(l, &g);
    l_end_for(l, &f);
}

/* i1: rows are so few that one fragment has them. */
static V are_one_fragment(const EmitProduct *x)
{
    V most = l_i64(x->l, emit_wide_fragment(x, LAYOUT_EDGE).heights[0]);
    return l_icmp(x->l, LLVMIntSLE, x->nrows, most);
}

/* Of these memory gives most where a little is read of each of several panels at a time, which calls would make slow. Returns the
 * units that are done, whole lines. */
static V one_fragment(const EmitProduct *x, V from, V to)
{
    L *l = x->l;
    EmitProduct wide = emit_wide_fragment(x, LAYOUT_EDGE);
    V whole = l_icmp(l, LLVMIntEQ, l_and(l, to, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, 0));
    V fits = l_and(l, are_one_fragment(x), l_or(l, whole, l_not(l, x->exact)));
    V done = l_select(l, fits, l_and(l, x->units, l_i64(l, -WORDS)), l_i64(l, 0));
    for (uint32_t i = 0; i < wide.nheights; i++) {
        When so = l_when(l, l_icmp(l, LLVMIntEQ, x->nrows, l_i64(l, wide.heights[i])));
        in_turn(&wide, wide.heights[i], from, to, done);
        l_end_when(l, &so);
    }
    return done;
}

/* All terms from unit `first` on for the columns in [from, to): part after part, each of all panels. */
static void over_parts(EmitProduct *x, V first, V from, V to)
{
    L *l = x->l;
    V part = part_of(x);
    For f = l_for(l, first, l_max(l, x->units, l_i64(l, 1)), 1, "part"); /* without terms too */
    f.next = part;
    emit_begin_sums(x, f.var);
    V units = l_min(l, l_sub(l, x->units, f.var), part);
    For g = l_for(l, from, to, LAYOUT_EDGE, "panel");
    x->column = g.var;
    one_panel(x, f.var, units);
    l_end_for(l, &g);
    l_end_for(l, &f);
}

/* Columns that are gone over together: of few rows of tiles all, of one fragment those of as many panels as come in turn. */
static V step_of(const EmitProduct *x)
{
    L *l = x->l;
    V edge = l_i64(l, LAYOUT_EDGE);
    if (is_of_tiles(x))
        return l_select(l, emit_product_few(x), l_max(l, x->ncols, edge), edge);
    return l_select(l, are_one_fragment(x), l_i64(l, LAYOUT_EDGE * (int64_t)x->panels), edge);
}

static void over_columns(EmitProduct *x)
{
    L *l = x->l;
    V step = step_of(x);
    For f = l_for(l, l_i64(l, 0), x->ncols, 1, "columns");
    f.next = step;
    V to = l_min(l, x->ncols, l_add(l, f.var, step));
    over_parts(x, x->panels > 1 ? one_fragment(x, f.var, to) : l_i64(l, 0), f.var, to);
    l_end_for(l, &f);
}

/* Do few terms go a way of their own? */
static int has_strips(const EmitProduct *x) { return is_of_tiles(x) || cpu_can(x->e->p->cpu, CPU_STRIPS); }

static V are_few_terms(const EmitProduct *x)
{
    L *l = x->l;
    if (is_of_tiles(x))
        return l_icmp(l, LLVMIntSLE, x->units, l_i64(l, x->part / 2));
    V few = l_and(l, x->exact, l_icmp(l, LLVMIntSLE, x->units, l_i64(l, STRIP_TERMS)));
    return l_and(l, few, l_icmp(l, LLVMIntSGE, x->ncols, l_i64(l, STRIP_WIDTH)));
}

/* Of sums in memory that few terms are added to, a few rows at a time: what memory gives are long runs of few rows. */
static void over_strips(EmitProduct *x)
{
    L *l = x->l;
    EmitProduct strip = *x;
    V rows = l_select(l, are_few_terms(x), l_i64(l, STRIP_FRAGMENTS * (int64_t)x->rows),
                      l_max(l, x->nrows, l_i64(l, 1)));
    For f = l_for(l, l_i64(l, 0), x->nrows, 1, "strip");
    f.next = rows;
    strip.nrows = l_min(l, rows, l_sub(l, x->nrows, f.var));
    strip.c = l_byte(l, x->c, l_mul(l, f.var, x->c_row));
    strip.a = l_byte(l, x->a, l_mul(l, f.var, x->a_row));
    over_columns(&strip);
    l_end_for(l, &f);
}

/* The terms are rounded up to what a fragment takes at once: the panels are zero there. */
V emit_product_units(const EmitProduct *x, V depth)
{
    L *l = x->l;
    depth = l_max(l, depth, l_i64(l, 0));
    V units = x->left == EL_BF16 ? l_sar(l, l_add(l, depth, l_i64(l, 1)), 1) : depth;
    return l_round_up(l, units,
                      fragment_of(x->e->p->isa, x->left) == emit_vector_fragment ? FRAGMENT_UNITS : WORDS);
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
    else if (has_strips(&x))
        over_strips(&x);
    else
        over_columns(&x);
    LLVMBuildRetVoid(p->l->b);
}
