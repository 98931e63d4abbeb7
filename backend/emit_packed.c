/* Packed parameters: the header before the panels, which a call checks or writes; and the exported functions
 * that pack row-major memory.
 *
 * Note [Packed memory]. MOE_PACKED_HEADER bytes, of which the first 32 tell what follows: four int64, the
 * layout (MOE_PACKED_LAYOUT plus the element type), the number of matrices (the product of the extents before
 * the last two), their rows and their columns. Then the panels of each matrix, in layout pairs; of `packed both`
 * (whose layout is MOE_PACKED_BOTH more) those of each transposed matrix follow, for which the tile level has a tensor
 * of its own, w.transposed. Code that writes a packed tensor writes the header and the zeros that end each panel's
 * rows, so that its memory may hold anything before. An `in` parameter that is `packed` takes memory packed both
 * ways, too: what it reads stands at the same place. */
#include "backend/emit_pack.h"
#include "backend/emit_packed.h"

/* Matrices and their panels. */
typedef struct Panels {
    V rows, columns;
    V at, n, bytes; /* where they begin, counted from the first panel of the memory; all of them; of each */
} Panels;

typedef struct Packed {
    int64_t bytes, word, line; /* of an element; elements of a word and of a line */
    V layout, matrices;
    Panels as_is, transposed; /* transposed: of `packed both` only */
    int both;
    V total; /* bytes, the header included */
} Packed;

int emit_is_packed(const Kernel *k, Param p)
{
    return p.kind == PARAM_TENSOR && k->tensors.at[p.id].layout == LAYOUT_PAIRS;
}

static Panels panels_of(L *l, const Packed *p, V rows, V columns, V at)
{
    Panels x = {rows, columns, at, NULL, NULL};
    V depth = l_round_up(l, rows, p->line);
    V across = l_bin(l, LLVMUDiv, l_add(l, columns, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, LAYOUT_EDGE));
    x.n = l_mul(l, p->matrices, across);
    x.bytes = l_mul(l, depth, l_i64(l, LAYOUT_EDGE * p->bytes));
    return x;
}

static V end_of(L *l, const Panels *x) { return l_add(l, x->at, l_mul(l, x->n, x->bytes)); }

static Packed packed_of(Emit *e, TensorId id)
{
    L *l = e->l;
    const Tensor *t = &e->k->tensors.at[id];
    Packed p = {.bytes = (int64_t)elem_bytes(t->elem), .matrices = l_i64(l, 1), .both = t->both};
    p.word = LAYOUT_WORD_BYTES / p.bytes;
    p.line = LAYOUT_LINE_BYTES / p.bytes;
    p.layout = l_i64(l, MOE_PACKED_LAYOUT + (int64_t)t->elem + (t->both ? MOE_PACKED_BOTH : 0));
    for (uint32_t i = 0; i + 2 < t->rank; i++)
        p.matrices = l_mul(l, p.matrices, emit_extent(e, t->axes[i].extent));
    V rows = emit_extent(e, t->axes[t->rank - 2].extent),
      columns = emit_extent(e, t->axes[t->rank - 1].extent);
    p.as_is = panels_of(l, &p, rows, columns, l_i64(l, 0));
    if (p.both)
        p.transposed = panels_of(l, &p, columns, rows, end_of(l, &p.as_is));
    p.total = l_add(l, end_of(l, p.both ? &p.transposed : &p.as_is), l_i64(l, MOE_PACKED_HEADER));
    return p;
}

V emit_packed_bytes(Emit *e, TensorId t) { return packed_of(e, t).total; }

static V header_at(L *l, V memory, int64_t byte) { return l_at(l, l->i8, memory, l_i64(l, byte)); }

V emit_packed_data(L *l, V memory) { return header_at(l, memory, MOE_PACKED_HEADER); }

V emit_packed_transposed(Emit *e, TensorId t, V memory)
{
    return l_at(e->l, e->l->i8, emit_packed_data(e->l, memory), packed_of(e, t).transposed.at);
}

/* ---- a call's parameters ---- */

void emit_packed_require(Emit *e, Gate *g, TensorId t, V memory)
{
    L *l = e->l;
    Packed p = packed_of(e, t);
    const char *kernel = e->k->name, *name = e->k->tensors.at[t].name;
    unsigned align = (unsigned)p.bytes;
    V has = l_load(l, l->i64, memory, align), reads = has;
    if (e->k->tensors.at[t].role == ROLE_IN && !p.both)
        reads = l_and(l, has, l_i64(l, ~(int64_t)MOE_PACKED_BOTH));
    gate_require(e, g, l_icmp(l, LLVMIntEQ, reads, p.layout), STATUS_PACKED,
                 arena_printf(l->arena,
                              "%s: packed parameter %s has layout 0x%%llx, this kernel reads 0x%%llx; "
                              "%s_%s_pack() makes it",
                              kernel, name, kernel, name),
                 has, p.layout);
    static const char *const what[] = {"matrices", "rows", "columns"};
    V wants[] = {p.matrices, p.as_is.rows, p.as_is.columns};
    for (int i = 0; i < 3; i++) {
        has = l_load(l, l->i64, header_at(l, memory, 8 + 8 * i), align);
        gate_require(e, g, l_icmp(l, LLVMIntEQ, has, wants[i]), STATUS_PACKED,
                     arena_printf(l->arena,
                                  "%s: %s was packed with %%lld %s, the call's dimensions make it %%lld",
                                  kernel, name, what[i]),
                     has, wants[i]);
    }
}

static V begin_internal(L *l, const char *name, Ty result, const Ty *types, unsigned n)
{
    V fn = LLVMAddFunction(l->mod, name, l_fn_type(l, result, types, n));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    l_plain(l, fn);
    l_begin(l, fn);
    return fn;
}

/* What is being emitted, while a function that it calls is. */
typedef struct Outer {
    V fn;
    Block entry, back;
    LLVMMetadataRef line;
} Outer;

static Outer leave_function(L *l)
{
    Outer o = {l->fn, l->entry, l_here(l), LLVMGetCurrentDebugLocation2(l->b)};
    LLVMSetCurrentDebugLocation2(l->b, NULL);
    return o;
}

static void come_back(L *l, const Outer *o)
{
    l->fn = o->fn;
    l->entry = o->entry;
    l_enter(l, o->back);
    LLVMSetCurrentDebugLocation2(l->b, o->line);
}

/* void moec.packed(ptr panels, i64 n, i64 bytes of each, i64 from): zeros in each panel from byte `from`, where its
 * last whole word of rows ends. */
static V padding_function(L *l)
{
    static const char name[] = "moec.packed";
    V fn = LLVMGetNamedFunction(l->mod, name);
    if (fn)
        return fn;
    Outer outer = leave_function(l);
    Ty types[4] = {l->ptr, l->i64, l->i64, l->i64};
    fn = begin_internal(l, name, l->none, types, 4);
    V size = LLVMGetParam(fn, 2), from = LLVMGetParam(fn, 3);
    V bytes = l_sub(l, size, from), at = l_at(l, l->i8, LLVMGetParam(fn, 0), from);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, bytes, l_i64(l, 0)));
    For panel = l_for(l, l_i64(l, 0), LLVMGetParam(fn, 1), 1, "panel");
    V zeros[4] = {l_at(l, l->i8, at, l_mul(l, panel.var, size)), l_int(l->i8, 0), bytes, l_false(l)};
    l_intrinsic2(l, "llvm.memset", l->ptr, l->i64, zeros, 4);
    l_end_for(l, &panel);
    l_end_when(l, &some);
    LLVMBuildRetVoid(l->b);
    come_back(l, &outer);
    return fn;
}

static void pad_panels(L *l, const Packed *p, const Panels *x, V data)
{
    V words = l_bin(l, LLVMUDiv, x->rows, l_i64(l, p->word));
    V from = l_mul(l, words, l_i64(l, LAYOUT_EDGE * LAYOUT_WORD_BYTES));
    V args[4] = {l_at(l, l->i8, data, x->at), x->n, x->bytes, from};
    l_call(l, padding_function(l), args, 4);
}

static void begin_packed(L *l, const Packed *p, V memory)
{
    V header[MOE_PACKED_HEADER / 8] = {p->layout, p->matrices, p->as_is.rows, p->as_is.columns};
    for (int i = 0; i < MOE_PACKED_HEADER / 8; i++)
        l_store(l, header[i] ? header[i] : l_i64(l, 0), header_at(l, memory, 8 * i), 1);
    pad_panels(l, p, &p->as_is, emit_packed_data(l, memory));
    if (p->both)
        pad_panels(l, p, &p->transposed, emit_packed_data(l, memory));
}

void emit_packed_begin(Emit *e, TensorId t, V memory)
{
    Packed p = packed_of(e, t);
    begin_packed(e->l, &p, memory);
}

/* ---- packing ---- */

static uint32_t helper_of(int64_t bytes) { return HELPER_PACKED + (bytes == LAYOUT_WORD_BYTES); }

uint64_t packed_helpers(const Plan *p)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < p->k->params.len; i++)
        if (emit_is_packed(p->k, p->k->params.at[i]))
            bits |=
                (uint64_t)1 << helper_of((int64_t)elem_bytes(p->k->tensors.at[p->k->params.at[i].id].elem));
    return bits;
}

/* void moec.pack.BYTES(ptr from, ptr to, i64 matrices, i64 rows, i64 columns, i64 from row to row, i64 from column to
 * column) */
enum { PACK_FROM, PACK_TO, PACK_MATRICES, PACK_HEIGHT, PACK_WIDTH, PACK_DOWN, PACK_ACROSS, PACK_ARGS };

/* The element of the tensor that stands in a cell of a word of rows, zero outside: cells go column by column. */
static V packed_element(L *l, Ty elem, int64_t word, V fn, V matrix, V block, V first_row, V cell)
{
    V a[PACK_ARGS];
    LLVMGetParams(fn, a);
    V row = l_add(l, l_mul(l, first_row, l_i64(l, word)), l_bin(l, LLVMURem, cell, l_i64(l, word)));
    V column = l_add(l, l_mul(l, block, l_i64(l, LAYOUT_EDGE)), l_bin(l, LLVMUDiv, cell, l_i64(l, word)));
    V inside =
        l_and(l, l_icmp(l, LLVMIntSLT, row, a[PACK_HEIGHT]), l_icmp(l, LLVMIntSLT, column, a[PACK_WIDTH]));
    V flat = l_mul(l, matrix, l_mul(l, a[PACK_HEIGHT], a[PACK_WIDTH]));
    flat = l_add(l, flat, l_add(l, l_mul(l, row, a[PACK_DOWN]), l_mul(l, column, a[PACK_ACROSS])));
    V zero = LLVMConstNull(elem);
    Block before = l_here(l);
    When in = l_when(l, inside);
    V v = l_load(l, elem, l_at(l, elem, a[PACK_FROM], flat), 0);
    Block loaded = l_here(l);
    l_end_when(l, &in);
    return l_phi(l, elem, zero, before, v, loaded);
}

static V pack_function(L *l, uint32_t helper)
{
    const char *name = helper == HELPER_PACKED ? "moec.pack.2" : "moec.pack.4";
    Ty types[PACK_ARGS] = {l->ptr, l->ptr, l->i64, l->i64, l->i64, l->i64, l->i64};
    return l_shared_function(l, name, l_fn_type(l, l->none, types, PACK_ARGS));
}

void emit_packed_function(Plan *plan, uint32_t helper)
{
    L *l = plan->l;
    int64_t bytes = helper == HELPER_PACKED ? 2 : 4, word = LAYOUT_WORD_BYTES / bytes,
            line = LAYOUT_LINE_BYTES / bytes;
    V fn = pack_function(l, helper), a[PACK_ARGS];
    Ty elem = bytes == 2 ? l->i16 : l->i32;
    l_plain(l, fn);
    l_begin(l, fn);
    LLVMGetParams(fn, a);
    V zero = l_i64(l, 0), cells = l_i64(l, LAYOUT_EDGE * word), edge = l_i64(l, LAYOUT_EDGE);
    V lines = l_bin(l, LLVMUDiv, l_add(l, a[PACK_HEIGHT], l_i64(l, line - 1)), l_i64(l, line));
    V words = l_mul(l, lines, l_i64(l, line / word));
    V blocks = l_bin(l, LLVMUDiv, l_add(l, a[PACK_WIDTH], l_i64(l, LAYOUT_EDGE - 1)), edge);
    For matrix = l_for(l, zero, a[PACK_MATRICES], 1, "matrix");
    For block = l_for(l, zero, blocks, 1, "block");
    For row = l_for(l, zero, words, 1, "word");
    For cell = l_for(l, zero, cells, 1, "cell");
    V v = packed_element(l, elem, word, fn, matrix.var, block.var, row.var, cell.var);
    V panel = l_add(l, l_mul(l, matrix.var, blocks), block.var);
    V place = l_add(l, l_mul(l, l_add(l, l_mul(l, panel, words), row.var), cells), cell.var);
    l_store(l, v, l_at(l, elem, a[PACK_TO], place), 0);
    l_end_for(l, &cell);
    l_end_for(l, &row);
    l_end_for(l, &block);
    l_end_for(l, &matrix);
    LLVMBuildRetVoid(l->b);
}

/* ---- exported: KERNEL_PARAM_pack_bytes(dims...), KERNEL_PARAM_pack(dims..., from, to) ---- */

/* Begins an exported function over the tensor's dimensions. */
static Emit *begin_exported(const Plan *plan, TensorId t, const char *suffix, Ty result, unsigned pointers)
{
    L *l = plan->l;
    DimId *dims = arena_array(l->arena, DimId, plan->m->dims.len + 1);
    uint32_t n = ir_tensor_dims(plan->k, t, dims);
    Ty *types = arena_array(l->arena, Ty, n + pointers + 1);
    for (uint32_t i = 0; i < n + pointers; i++)
        types[i] = i < n ? l->i64 : l->ptr;
    const char *name = arena_printf(l->arena, "%s_%s_%s", plan->k->name, plan->k->tensors.at[t].name, suffix);
    V fn = LLVMAddFunction(l->mod, name, l_fn_type(l, result, types, n + pointers));
    l_plain(l, fn);
    l_quick(l, fn);
    Plan *p = arena_new_of(l->arena, Plan);
    *p = *plan;
    Emit *e = emit_new(p, fn, NULL);
    for (uint32_t i = 0; i < n; i++)
        e->dim[dims[i]] = LLVMGetParam(fn, i);
    return e;
}

/* i1: the axes and the whole are within the limits of a call. */
static V shape_fits(Emit *e, TensorId t)
{
    L *l = e->l;
    const Tensor *x = &e->k->tensors.at[t];
    V product = l_real(l->f64, 1.0), fits = l_true(l), most = l_real(l->f64, 0x1p40);
    for (uint32_t i = 0; i < x->rank; i++) {
        V extent = emit_extent_f64(e, x->axes[i].extent);
        fits = l_and(l, fits, l_fcmp(l, LLVMRealOGE, extent, l_real(l->f64, 0.0)));
        fits = l_and(l, fits, l_fcmp(l, LLVMRealOLE, extent, most));
        product = l_fmul(l, product, extent);
    }
    return l_and(l, fits, l_fcmp(l, LLVMRealOLE, product, most));
}

static void export_bytes(const Plan *plan, TensorId t)
{
    L *l = plan->l;
    Emit *e = begin_exported(plan, t, "pack_bytes", l->i64, 0);
    V fits = shape_fits(e, t), bytes = emit_packed_bytes(e, t);
    LLVMBuildRet(l->b, l_select(l, fits, bytes, l_i64(l, 0)));
}

static void return_unless(L *l, V ok, int status)
{
    Block bad = l_block(l, "bad"), good = l_block(l, "good");
    l_branch(l, ok, good, bad);
    l_enter(l, bad);
    LLVMBuildRet(l->b, l_i32(l, status));
    l_enter(l, good);
}

static void export_pack(const Plan *plan, TensorId t)
{
    L *l = plan->l;
    Emit *e = begin_exported(plan, t, "pack", l->i32, 2);
    unsigned n = LLVMCountParams(l->fn);
    V from = LLVMGetParam(l->fn, n - 2), to = LLVMGetParam(l->fn, n - 1), null = LLVMConstNull(l->ptr);
    Packed p = packed_of(e, t);
    V rows = p.as_is.rows, columns = p.as_is.columns, one = l_i64(l, 1), data = emit_packed_data(l, to);
    V elements = l_mul(l, l_mul(l, p.matrices, rows), columns), bytes = l_mul(l, elements, l_i64(l, p.bytes));
    return_unless(l, shape_fits(e, t), STATUS_SIZE);
    V given = l_or(l, l_icmp(l, LLVMIntNE, from, null), l_icmp(l, LLVMIntEQ, elements, l_i64(l, 0)));
    return_unless(l, l_and(l, given, l_icmp(l, LLVMIntNE, to, null)), STATUS_NULL);
    V before = l_icmp(l, LLVMIntULE, l_at(l, l->i8, from, bytes), to);
    V after = l_icmp(l, LLVMIntULE, l_at(l, l->i8, to, p.total), from);
    return_unless(l, l_or(l, before, after), STATUS_OVERLAP);
    begin_packed(l, &p, to);
    V pack = pack_function(l, helper_of(p.bytes));
    V args[PACK_ARGS] = {from, data, p.matrices, rows, columns, columns, one};
    l_call(l, pack, args, PACK_ARGS);
    if (p.both) {
        V transposed[PACK_ARGS] = {
            from, l_at(l, l->i8, data, p.transposed.at), p.matrices, columns, rows, one, columns};
        l_call(l, pack, transposed, PACK_ARGS);
    }
    LLVMBuildRet(l->b, l_i32(l, STATUS_OK));
}

void emit_pack_exports(const Plan *p)
{
    for (uint32_t i = 0; i < p->k->params.len; i++) {
        if (!emit_is_packed(p->k, p->k->params.at[i]))
            continue;
        export_bytes(p, p->k->params.at[i].id);
        export_pack(p, p->k->params.at[i].id);
    }
}
