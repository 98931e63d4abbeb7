/* Packed parameters: the header before the panels, which a call checks or writes; and the exported functions
 * that pack row-major memory.
 *
 * Note [Packed memory]. MOE_PACKED_HEADER bytes, of which the first 32 tell what follows: four int64, the
 * layout (MOE_PACKED_LAYOUT plus the element type), the number of matrices (the product of the extents before
 * the last two), their rows and their columns. Then the panels of each matrix, in layout pairs. Code that
 * writes a packed tensor writes the header and the zeros that end each panel's rows, so that its memory may
 * hold anything before. */
#include "backend/emit_packed.h"

typedef struct Packed {
    int64_t bytes, word, line; /* of an element; elements of a word and of a line */
    V layout, matrices, rows, columns;
    V depth, panels, panel_bytes; /* rows with padding, of all matrices, of each */
    V total;                      /* bytes, the header included */
} Packed;

int emit_is_packed(const Kernel *k, Param p)
{
    return p.kind == PARAM_TENSOR && k->tensors.at[p.id].layout == LAYOUT_PAIRS;
}

static Packed packed_of(Emit *e, TensorId id)
{
    L *l = e->l;
    const Tensor *t = &e->k->tensors.at[id];
    Packed p = {.bytes = (int64_t)elem_bytes(t->elem), .matrices = l_i64(l, 1)};
    p.word = LAYOUT_WORD_BYTES / p.bytes;
    p.line = LAYOUT_LINE_BYTES / p.bytes;
    p.layout = l_i64(l, MOE_PACKED_LAYOUT + (int64_t)t->elem);
    p.rows = emit_extent(e, t->axes[t->rank - 2].extent);
    p.columns = emit_extent(e, t->axes[t->rank - 1].extent);
    for (uint32_t i = 0; i + 2 < t->rank; i++)
        p.matrices = l_mul(l, p.matrices, emit_extent(e, t->axes[i].extent));
    p.depth = l_and(l, l_add(l, p.rows, l_i64(l, p.line - 1)), l_i64(l, -p.line));
    V across = l_bin(l, LLVMUDiv, l_add(l, p.columns, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, LAYOUT_EDGE));
    p.panels = l_mul(l, p.matrices, across);
    p.panel_bytes = l_mul(l, p.depth, l_i64(l, LAYOUT_EDGE * p.bytes));
    p.total = l_add(l, l_mul(l, p.panels, p.panel_bytes), l_i64(l, MOE_PACKED_HEADER));
    return p;
}

V emit_packed_bytes(Emit *e, TensorId t) { return packed_of(e, t).total; }

static V header_at(L *l, V memory, int64_t byte) { return l_at(l, l->i8, memory, l_i64(l, byte)); }

V emit_packed_data(L *l, V memory) { return header_at(l, memory, MOE_PACKED_HEADER); }

/* ---- a call's parameters ---- */

void emit_packed_require(Emit *e, Gate *g, TensorId t, V memory)
{
    L *l = e->l;
    Packed p = packed_of(e, t);
    const char *kernel = e->k->name, *name = e->k->tensors.at[t].name;
    unsigned align = (unsigned)p.bytes;
    V has = l_load(l, l->i64, memory, align);
    gate_require(e, g, l_icmp(l, LLVMIntEQ, has, p.layout), STATUS_PACKED,
                 arena_printf(l->arena,
                              "%s: packed parameter %s has layout 0x%%llx, this kernel reads 0x%%llx; "
                              "%s_%s_pack() makes it",
                              kernel, name, kernel, name),
                 has, p.layout);
    static const char *const what[] = {"matrices", "rows", "columns"};
    V wants[] = {p.matrices, p.rows, p.columns};
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
    l_attribute(l, fn, "nounwind");
    l_attribute_text(l, fn, "target-cpu", "x86-64");
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

/* void moec.packed(ptr memory, i64 layout, i64 matrices, i64 rows, i64 columns, i64 panels, i64 panel bytes,
 * i64 from): the header, and zeros in each panel from byte `from`, where its last whole word of rows ends. */
static V begin_function(L *l)
{
    static const char name[] = "moec.packed";
    V fn = LLVMGetNamedFunction(l->mod, name);
    if (fn)
        return fn;
    Outer outer = leave_function(l);
    Ty types[8] = {l->ptr, l->i64, l->i64, l->i64, l->i64, l->i64, l->i64, l->i64};
    fn = begin_internal(l, name, l->none, types, 8);
    V memory = LLVMGetParam(fn, 0), size = LLVMGetParam(fn, 6), from = LLVMGetParam(fn, 7);
    for (int i = 0; i < MOE_PACKED_HEADER / 8; i++)
        l_store(l, i < 4 ? LLVMGetParam(fn, 1 + (unsigned)i) : l_i64(l, 0), header_at(l, memory, 8 * i), 1);
    V bytes = l_sub(l, size, from), at = l_at(l, l->i8, emit_packed_data(l, memory), from);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, bytes, l_i64(l, 0)));
    For panel = l_for(l, l_i64(l, 0), LLVMGetParam(fn, 5), 1, "panel");
    V zeros[4] = {l_at(l, l->i8, at, l_mul(l, panel.var, size)), l_int(l->i8, 0), bytes, l_false(l)};
    l_intrinsic2(l, "llvm.memset", l->ptr, l->i64, zeros, 4);
    l_end_for(l, &panel);
    l_end_when(l, &some);
    LLVMBuildRetVoid(l->b);
    come_back(l, &outer);
    return fn;
}

static void begin_packed(L *l, const Packed *p, V memory)
{
    V words = l_bin(l, LLVMUDiv, p->rows, l_i64(l, p->word));
    V from = l_mul(l, words, l_i64(l, LAYOUT_EDGE * LAYOUT_WORD_BYTES));
    V args[8] = {memory, p->layout, p->matrices, p->rows, p->columns, p->panels, p->panel_bytes, from};
    l_call(l, begin_function(l), args, 8);
}

void emit_packed_begin(Emit *e, TensorId t, V memory)
{
    Packed p = packed_of(e, t);
    begin_packed(e->l, &p, memory);
}

/* ---- packing ---- */

/* The element of the tensor that stands in a cell of a word of rows, zero outside: cells go column by column. */
static V packed_element(L *l, Ty elem, int64_t word, V fn, V matrix, V block, V first_row, V cell)
{
    V from = LLVMGetParam(fn, 0), rows = LLVMGetParam(fn, 3), columns = LLVMGetParam(fn, 4);
    V row = l_add(l, l_mul(l, first_row, l_i64(l, word)), l_bin(l, LLVMURem, cell, l_i64(l, word)));
    V column = l_add(l, l_mul(l, block, l_i64(l, LAYOUT_EDGE)), l_bin(l, LLVMUDiv, cell, l_i64(l, word)));
    V inside = l_and(l, l_icmp(l, LLVMIntSLT, row, rows), l_icmp(l, LLVMIntSLT, column, columns));
    V flat = l_add(l, l_mul(l, l_add(l, l_mul(l, matrix, rows), row), columns), column);
    V zero = LLVMConstNull(elem);
    Block before = l_here(l);
    When in = l_when(l, inside);
    V v = l_load(l, elem, l_at(l, elem, from, flat), 0);
    Block loaded = l_here(l);
    l_end_when(l, &in);
    return l_phi(l, elem, zero, before, v, loaded);
}

/* void moec.pack.BYTES(ptr from, ptr to, i64 matrices, i64 rows, i64 columns) */
static V pack_function(L *l, const Packed *p)
{
    const char *name = arena_printf(l->arena, "moec.pack.%d", (int)p->bytes);
    V fn = LLVMGetNamedFunction(l->mod, name);
    if (fn)
        return fn;
    Outer outer = leave_function(l);
    Ty elem = p->bytes == 2 ? l->i16 : l->i32, types[5] = {l->ptr, l->ptr, l->i64, l->i64, l->i64};
    fn = begin_internal(l, name, l->none, types, 5);
    V zero = l_i64(l, 0), cells = l_i64(l, LAYOUT_EDGE * p->word), edge = l_i64(l, LAYOUT_EDGE);
    V lines = l_bin(l, LLVMUDiv, l_add(l, LLVMGetParam(fn, 3), l_i64(l, p->line - 1)), l_i64(l, p->line));
    V words = l_mul(l, lines, l_i64(l, p->line / p->word));
    V blocks = l_bin(l, LLVMUDiv, l_add(l, LLVMGetParam(fn, 4), l_i64(l, LAYOUT_EDGE - 1)), edge);
    For matrix = l_for(l, zero, LLVMGetParam(fn, 2), 1, "matrix");
    For block = l_for(l, zero, blocks, 1, "block");
    For word = l_for(l, zero, words, 1, "word");
    For cell = l_for(l, zero, cells, 1, "cell");
    V v = packed_element(l, elem, p->word, fn, matrix.var, block.var, word.var, cell.var);
    V panel = l_add(l, l_mul(l, matrix.var, blocks), block.var);
    V place = l_add(l, l_mul(l, l_add(l, l_mul(l, panel, words), word.var), cells), cell.var);
    l_store(l, v, l_at(l, elem, LLVMGetParam(fn, 1), place), 0);
    l_end_for(l, &cell);
    l_end_for(l, &word);
    l_end_for(l, &block);
    l_end_for(l, &matrix);
    LLVMBuildRetVoid(l->b);
    come_back(l, &outer);
    return fn;
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
    l_attribute(l, fn, "nounwind");
    l_attribute_text(l, fn, "target-cpu", "x86-64");
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
    V elements = l_mul(l, l_mul(l, p.matrices, p.rows), p.columns),
      bytes = l_mul(l, elements, l_i64(l, p.bytes));
    return_unless(l, shape_fits(e, t), STATUS_SIZE);
    V given = l_or(l, l_icmp(l, LLVMIntNE, from, null), l_icmp(l, LLVMIntEQ, elements, l_i64(l, 0)));
    return_unless(l, l_and(l, given, l_icmp(l, LLVMIntNE, to, null)), STATUS_NULL);
    V before = l_icmp(l, LLVMIntULE, l_at(l, l->i8, from, bytes), to);
    V after = l_icmp(l, LLVMIntULE, l_at(l, l->i8, to, p.total), from);
    return_unless(l, l_or(l, before, after), STATUS_OVERLAP);
    begin_packed(l, &p, to);
    V args[5] = {from, emit_packed_data(l, to), p.matrices, p.rows, p.columns};
    l_call(l, pack_function(l, &p), args, 5);
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
