/* Loads and stores of buffers: contiguous, uniform, or lane by lane; with the masks of Note [Masks] in
 * emit.h.
 *
 * Memory of lanes that do nothing is never touched. Where the instruction set has masked accesses they are
 * used; elsewhere the bits of the mask are walked over a copy on the stack. */
#include "backend/emit.h"

enum { PLACE_ONE, PLACE_RUN, PLACE_EACH };
typedef struct LaneAddress {
    int shape; /* PLACE_... */
    V at;      /* RUN: of lane 0; EACH: one address per lane */
} LaneAddress;

/* In a launch's body each slot has an alias scope of its own: buffers do not overlap, or are only read; those on a chip
 * may. */
void emit_alias(Emit *e, V access, uint32_t buffer)
{
    if (buffer != NONE && space_is_on_chip(e->p->buffers.at[buffer].space))
        return;
    for (uint32_t i = 0; e->launch && i < e->launch->slots.len; i++) {
        if (e->launch->slots.at[i].is_dim || e->launch->slots.at[i].id != buffer)
            continue;
        LLVMSetMetadata(access, e->l->md_scope, LLVMMetadataAsValue(e->l->ctx, e->scopes[i]));
        LLVMSetMetadata(access, e->l->md_others, LLVMMetadataAsValue(e->l->ctx, e->others[i]));
    }
}

static V subscript(Emit *e, ExprId x)
{
    Form f = emit_form(e, x);
    e->lane0 = f == FORM_UNIT;
    V v = emit_value(e, x);
    e->lane0 = 0;
    return v;
}

/* One address step per subscript, so that what a loop does not change is computed outside it. */
static V advance(Emit *e, uint32_t buffer, V at, V step, uint32_t axis)
{
    V stride = emit_stride(e, buffer, axis);
    int64_t known;
    if (!l_constant(stride, &known) || known != 1)
        step = l_mul(e->l, step, stride);
    if (l_constant(step, &known) && !known)
        return at;
    return l_at(e->l, emit_memory_type(e->l, e->p->buffers.at[buffer].elem), at, step);
}

/* Where [x, y] of a matrix in fractals, or in lines or pairs, lies, Note [Layouts] in tensor.h: the elements before row x of column 0
 * and from there on those before column y. */
typedef struct InMatrix {
    V row, column;
} InMatrix;

/* The elements before `at` along an axis in fractals: `next` in each before it, `inside` for each of those in its own. */
static V along_fractals(L *l, V at, V next, int inside)
{
    V whole = l_mul(l, l_mul(l, l_sar(l, at, 4), next), l_i64(l, LAYOUT_FRACTAL * LAYOUT_FRACTAL));
    return l_add(l, whole, l_mul(l, l_and(l, at, l_i64(l, LAYOUT_FRACTAL - 1)), l_i64(l, inside)));
}

static InMatrix in_fractals(Emit *e, uint32_t buffer, V x, V y)
{
    L *l = e->l;
    Layout layout = e->p->buffers.at[buffer].layout;
    int down = layout == LAYOUT_ZN, turned = layout == LAYOUT_NZ;
    V one = l_i64(l, 1), across = l_sar(l, emit_padded(e, buffer, !down), 4);
    return (InMatrix){along_fractals(l, x, down ? one : across, turned ? 1 : LAYOUT_FRACTAL),
                      along_fractals(l, y, down ? across : one, turned ? LAYOUT_FRACTAL : 1)};
}

static InMatrix in_matrix(Emit *e, uint32_t buffer, V x, V y)
{
    if (layout_is_fractal(e->p->buffers.at[buffer].layout))
        return in_fractals(e, buffer, x, y);
    L *l = e->l;
    const Buffer *b = &e->p->buffers.at[buffer];
    int64_t line = LAYOUT_LINE_BYTES / (int64_t)elem_bytes(b->elem), word = layout_terms(b->elem);
    V rows = emit_padded(e, buffer, 0);
    if (b->layout == LAYOUT_LINES) {
        V lines = l_mul(l, l_mul(l, l_sar(l, y, line == 32 ? 5 : 4), rows), l_i64(l, line));
        return (InMatrix){l_mul(l, x, l_i64(l, line)), l_add(l, lines, l_and(l, y, l_i64(l, line - 1)))};
    }
    V words = l_mul(l, l_sar(l, x, word == 2), l_i64(l, LAYOUT_EDGE * word));
    V panel = l_mul(l, l_sar(l, y, 5), l_mul(l, rows, l_i64(l, LAYOUT_EDGE)));
    V column = l_add(l, panel, l_mul(l, l_and(l, y, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, word)));
    return (InMatrix){word == 1 ? words : l_add(l, words, l_and(l, x, l_i64(l, word - 1))), column};
}

/* The address of [x, y], one step per subscript as well. */
static V at_in_matrix(Emit *e, uint32_t buffer, V at, V x, V y)
{
    Ty type = emit_memory_type(e->l, e->p->buffers.at[buffer].elem);
    InMatrix m = in_matrix(e, buffer, x, y);
    return l_at(e->l, type, l_at(e->l, type, at, m.row), m.column);
}

/* So many lanes over the last axis of lines, or of pairs of f32, lie side by side when they begin at a multiple of
 * their number: none then goes beyond its line or panel. */
static int runs_in_matrix(Emit *e, const Buffer *b, ExprId x, ExprId y, uint32_t lanes)
{
    uint32_t most =
        b->layout == LAYOUT_PAIRS ? LAYOUT_EDGE : LAYOUT_LINE_BYTES / (uint32_t)elem_bytes(b->elem);
    if (layout_is_fractal(b->layout))
        return 0;
    int dense = b->layout == LAYOUT_LINES || layout_terms(b->elem) == 1;
    return dense && lanes <= most && emit_form(e, x) == FORM_UNIFORM && emit_form(e, y) == FORM_UNIT &&
           emit_multiple(e, y, lanes);
}

/* Lanes over several lines: each line's lie side by side. */
static int runs_in_lines(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    uint32_t line = LAYOUT_LINE_BYTES / (uint32_t)elem_bytes(b->elem);
    return b->layout == LAYOUT_LINES && n == 2 && e->width > line && e->width % line == 0 &&
           runs_in_matrix(e, b, index[0], index[1], line);
}

/* What subscripts mean to a place: PLACE_EACH unless they are one element or one run. */
static int shape_of(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    int shape = PLACE_ONE;
    for (uint32_t i = 0; i < n; i++) {
        Form f = emit_form(e, index[i]);
        if (f != FORM_UNIFORM)
            shape = f == FORM_UNIT && i + 1 == n && shape == PLACE_ONE ? PLACE_RUN : PLACE_EACH;
    }
    if (shape == PLACE_RUN && !layout_is_dense(b->layout) &&
        !runs_in_matrix(e, b, index[n - 2], index[n - 1], e->width))
        shape = PLACE_EACH;
    return shape;
}

static LaneAddress place_of(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    L *l = e->l;
    const Buffer *b = &e->p->buffers.at[buffer];
    Ty type = emit_memory_type(l, b->elem);
    LaneAddress p = {PLACE_ONE, emit_base(e, buffer)};
    uint32_t plain = layout_is_dense(b->layout) ? n : n - 2; /* subscripts that have a stride */
    p.shape = shape_of(e, buffer, index, n);
    for (uint32_t i = 0; i < plain; i++)
        if (p.shape != PLACE_EACH || emit_form(e, index[i]) == FORM_UNIFORM)
            p.at = advance(e, buffer, p.at, subscript(e, index[i]), i);
    if (plain < n && p.shape != PLACE_EACH)
        p.at = at_in_matrix(e, buffer, p.at, subscript(e, index[n - 2]), subscript(e, index[n - 1]));
    if (p.shape != PLACE_EACH)
        return p;
    V lanes = NULL;
    for (uint32_t i = 0; i < plain; i++) {
        if (emit_form(e, index[i]) == FORM_UNIFORM)
            continue;
        V step = l_mul(l, emit_value(e, index[i]), emit_stride(e, buffer, i));
        lanes = lanes ? l_add(l, lanes, step) : step;
    }
    if (plain < n) {
        InMatrix m = in_matrix(e, buffer, emit_value(e, index[n - 2]), emit_value(e, index[n - 1]));
        V step = l_add(l, m.row, m.column);
        lanes = lanes ? l_add(l, lanes, step) : step;
    }
    p.at = l_at(l, type, p.at, l_splat(l, lanes, e->width));
    return p;
}

V emit_address(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    return place_of(e, buffer, index, n).at;
}

/* ---- masked contiguous memory ---- */

static int has_masked_memory(const Emit *e, Elem elem)
{
    int word = elem_bytes(elem) >= elem_bytes(EL_F32);
    return cpu_can(e->p->cpu, CPU_MASKS) || (cpu_can(e->p->cpu, CPU_MASKED_WORDS) && word);
}

/* Behind the pointer some versions of LLVM take an alignment. */
static V masked_call(Emit *e, const char *name, Ty type, const V args[3], unsigned pointer, Elem elem)
{
    enum { N = 3 };
    L *l = e->l;
    Ty types[2] = {type, LLVMTypeOf(args[pointer])};
    V fn = LLVMGetIntrinsicDeclaration(l->mod, LLVMLookupIntrinsicID(name, strlen(name)), types, 2),
      all[N + 1];
    unsigned total = 0;
    for (unsigned i = 0; i < N; i++) {
        all[total++] = args[i];
        if (i == pointer && llvm_masked_takes_align(fn, N))
            all[total++] = l_i32(l, (int64_t)elem_bytes(elem));
    }
    return l_call(l, fn, all, total);
}

/* The mask of contiguous lanes. A thread's buffer whose last subscript counts from the loop's first lane,
 * and whose last extent is a multiple of the lanes, has a place for every lane of the last trip: nothing
 * to mask there. */
static V run_mask(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    const Buffer *t = &e->p->buffers.at[buffer];
    const Expr *x = x_at(e->k, index[n - 1]);
    int64_t extent;
    if (t->space != SPACE_THREAD || e->loop == NONE || !layout_is_dense(t->layout) || x->kind != X_OP ||
        x->op != OP_sub || !ext_is_const(e->k->module, t->axes[n - 1].extent, &extent) ||
        extent % e->width != 0)
        return emit_mask(e);
    const Expr *var = x_at(e->k, x_arg(e->k, index[n - 1], 0));
    int counts = var->kind == X_INDEX && var->sym == e->var &&
                 x_arg(e->k, index[n - 1], 1) == e->p->p->stmts.at[e->loop].lo;
    return counts ? e->cond : emit_mask(e);
}

/* The elements of a run whose lanes are in the mask, zeros elsewhere, by CPU_MASKED_WORDS. A generic masked load is not safe
 * there: where a constant mask has lanes that nobody looks at LLVM (22) makes their bits undefined, takes undefined bits for
 * set, and reads the whole vector. It keeps the mask of the instruction's own intrinsic. */
static V load_masked_words(Emit *e, uint32_t buffer, Elem elem, V at, V mask)
{
    L *l = e->l;
    Ty element = emit_memory_type(l, elem);
    int wide = elem_bytes(elem) == 8;
    uint32_t lanes = wide ? 4 : 8;
    V all = NULL;
    for (uint32_t i = 0; i < e->width; i += lanes) {
        V args[2] = {l_at(l, element, at, l_i64(l, i)),
                     l_cast(l, LLVMSExt, l_part(l, mask, i, lanes), wide ? l->i64 : l->i32)};
        V v = l_intrinsic(l, wide ? "llvm.x86.avx2.maskload.q.256" : "llvm.x86.avx2.maskload.d.256", NULL,
                          args, 2);
        emit_alias(e, v, buffer);
        all = all ? l_join(l, all, v) : v;
    }
    return l_bits(l, all, element);
}

/* Note [Folded masks]. LLVM 22 folds a masked load into an instruction of the same mask (X86InstrInfo.cpp, foldMemoryOperandImpl).
 * Where that instruction overwrites an operand that is still needed, its two-address pass takes the load out again, without
 * the mask: lanes that do nothing are read, beyond a tensor's end or before its begin. So what was loaded is fenced: no
 * instruction, but nothing is folded across it. Integers are not: sums have no lanes over them, and behind a fence LLVM
 * finds no instruction that extends them to subscripts where their mask is constant. */
static int is_fenced(Elem elem, V mask) { return mask && elem_type(elem) != TY_INT; }

static V fenced(L *l, Elem elem, V v)
{
    Ty type = LLVMTypeOf(v), floats = LLVMVectorType(l->f32, l_width(v) * (uint32_t)elem_bytes(elem) / 4);
    V word = LLVMBuildBitCast(l->b, v, floats, "");
    return LLVMBuildBitCast(l->b, l_intrinsic(l, "llvm.arithmetic.fence", floats, &word, 1), type, "");
}

V emit_load_run(Emit *e, uint32_t buffer, Elem elem, V at, V mask)
{
    L *l = e->l;
    Ty type = l_lanes_of(l, emit_memory_type(l, elem), e->width);
    V v;
    if (mask && !has_masked_memory(e, elem)) {
        Ty one = emit_memory_type(l, elem);
        V slot = l_slot(l, type, "masked");
        l_store(l, LLVMConstNull(type), slot, 0);
        EachLane lanes = l_each_lane(l, mask);
        v = l_load(l, one, l_at(l, one, at, lanes.lane), 0);
        emit_alias(e, v, buffer);
        l_store(l, v, l_at(l, one, slot, lanes.lane), 0);
        l_end_lanes(l, &lanes);
        return l_load(l, type, slot, 0);
    }
    if (mask && !cpu_can(e->p->cpu, CPU_MASKS))
        return load_masked_words(e, buffer, elem, at, mask);
    if (mask) {
        V args[3] = {at, mask, LLVMConstNull(type)};
        v = masked_call(e, "llvm.masked.load", type, args, 0, elem);
    } else {
        v = l_load(l, type, at, 0);
    }
    emit_alias(e, v, buffer);
    return is_fenced(elem, mask) ? fenced(l, elem, v) : v;
}

V emit_load_first(Emit *e, Elem elem, V at, V n)
{
    L *l = e->l;
    if (has_masked_memory(e, elem))
        return emit_load_run(e, NONE, elem, at, emit_first_lanes(e, n));
    Ty type = LLVMVectorType(emit_memory_type(l, elem), e->width);
    V slot = l_slot(l, type, "first");
    l_store(l, LLVMConstNull(type), slot, 0);
    n = l_min(l, n, l_i64(l, e->width));
    LLVMBuildMemCpy(l->b, slot, 1, at, 1, l_mul(l, n, l_i64(l, (int64_t)elem_bytes(elem))));
    return l_load(l, type, slot, 0);
}

void emit_store_run(Emit *e, uint32_t buffer, V at, V raw, V mask)
{
    L *l = e->l;
    Elem elem = e->p->buffers.at[buffer].elem;
    raw = l_splat(l, raw, e->width);
    if (mask && !has_masked_memory(e, elem)) {
        Ty one = emit_memory_type(l, elem);
        V slot = l_slot(l, LLVMTypeOf(raw), "masked");
        l_store(l, raw, slot, 0);
        EachLane lanes = l_each_lane(l, mask);
        V v = l_load(l, one, l_at(l, one, slot, lanes.lane), 0);
        emit_alias(e, l_store(l, v, l_at(l, one, at, lanes.lane), 0), buffer);
        l_end_lanes(l, &lanes);
        return;
    }
    if (!emit_stream(e, buffer, at, raw, mask))
        emit_store_kept(e, buffer, at, raw, mask);
}

void emit_store_kept(Emit *e, uint32_t buffer, V at, V raw, V mask)
{
    V args[3] = {raw, at, mask};
    emit_alias(
        e,
        mask ? masked_call(e, "llvm.masked.store", LLVMTypeOf(raw), args, 1, e->p->buffers.at[buffer].elem)
             : l_store(e->l, raw, at, 0),
        buffer);
}

/* ---- every second element ---- */

/* Note [Pairs]. x[p, 0] and x[p, 1] with lanes over p, as rotary positions have them: twice as many elements pass, and every second
 * one of them is in the mask. (Not a layout's pairs.) */
static int is_second(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    int64_t stride = 0;
    uint32_t lanes = 0;
    if (!cpu_can(e->p->cpu, CPU_MASKS) || !layout_is_dense(e->p->buffers.at[buffer].layout) || e->width < 2 ||
        e->width > 32)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        Form f = emit_form(e, index[i]);
        lanes += f != FORM_UNIFORM;
        if (f == FORM_LANES || (f == FORM_UNIT && !l_constant(emit_stride(e, buffer, i), &stride)))
            return 0;
    }
    return lanes == 1 && stride == 2;
}

static V address_of_first(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    V at = emit_base(e, buffer);
    for (uint32_t i = 0; i < n; i++)
        at = advance(e, buffer, at, subscript(e, index[i]), i);
    return at;
}

/* Lane i of the mask, or 1, in lane 2 i; 0 in the others. */
static V mask_of_second(Emit *e)
{
    L *l = e->l;
    V mask = emit_mask(e), every = l_i64(l, 0x5555555555555555), bits = every;
    if (mask) {
        V args[2] = {LLVMBuildZExtOrBitCast(l->b, l_lane_bits(l, mask), l->i64, ""), every};
        bits = l_intrinsic(l, "llvm.x86.bmi.pdep.64", NULL, args, 2);
    }
    bits = LLVMBuildTruncOrBitCast(l->b, bits, LLVMIntTypeInContext(l->ctx, 2 * e->width), "");
    return LLVMBuildBitCast(l->b, bits, LLVMVectorType(l->i1, 2 * e->width), "");
}

static V load_second(Emit *e, uint32_t buffer, V at)
{
    L *l = e->l;
    Elem elem = e->p->buffers.at[buffer].elem;
    Ty type = l_lanes_of(l, emit_memory_type(l, elem), 2 * e->width);
    V args[3] = {at, mask_of_second(e), LLVMConstNull(type)}, lane[LANES_MAX];
    V v = masked_call(e, "llvm.masked.load", type, args, 0, elem);
    emit_alias(e, v, buffer);
    for (uint32_t i = 0; i < e->width; i++)
        lane[i] = l_i32(l, 2 * i);
    return LLVMBuildShuffleVector(l->b, fenced(l, elem, v), LLVMGetPoison(type),
                                  LLVMConstVector(lane, e->width), "");
}

static void store_second(Emit *e, uint32_t buffer, V at, V raw)
{
    L *l = e->l;
    V lane[LANES_MAX];
    raw = l_splat(l, raw, e->width);
    for (uint32_t i = 0; i < 2 * e->width; i++)
        lane[i] = l_i32(l, i / 2);
    raw = LLVMBuildShuffleVector(l->b, raw, LLVMGetPoison(LLVMTypeOf(raw)),
                                 LLVMConstVector(lane, 2 * e->width), "");
    /* Fenced: LLVM 22 takes a shuffle that is stored under a mask for an interleaving one, and crashes over the mask. */
    raw = fenced(l, e->p->buffers.at[buffer].elem, raw);
    emit_store_kept(e, buffer, at, raw, mask_of_second(e));
}

/* ---- lane by lane ---- */

static V load_each(Emit *e, uint32_t buffer, V at)
{
    L *l = e->l;
    Elem elem = e->p->buffers.at[buffer].elem;
    Ty one = emit_memory_type(l, elem), type = l_lanes_of(l, one, e->width);
    V mask = emit_mask(e);
    if (cpu_can(e->p->cpu, CPU_GATHERS) && elem_bytes(elem) >= elem_bytes(EL_F32)) {
        /* zeros elsewhere: what is compared with poison is no mask, whatever it is joined with */
        V args[3] = {at, mask ? mask : l_int(l_lanes_of(l, l->i1, e->width), 1), LLVMConstNull(type)};
        V v = masked_call(e, "llvm.masked.gather", type, args, 0, elem);
        emit_alias(e, v, buffer);
        return v;
    }
    if (mask)
        at = l_select(l, mask, at, l_splat(l, e->p->shared->nowhere, e->width));
    V all = LLVMGetPoison(type);
    for (uint32_t i = 0; i < e->width; i++) {
        V v = l_load(l, one, l_lane(l, at, l_i32(l, i)), 0);
        emit_alias(e, v, buffer);
        all = LLVMBuildInsertElement(l->b, all, v, l_i32(l, i), "");
    }
    return all;
}

/* In lane order, so that the highest of several lanes on one place stays, and sums see each other. */
static void store_each(Emit *e, uint32_t buffer, V at, V value, int add)
{
    L *l = e->l;
    Elem elem = e->p->buffers.at[buffer].elem;
    Ty one = emit_memory_type(l, elem);
    V mask = emit_mask(e);
    if (!mask)
        mask = l_int(l_lanes_of(l, l->i1, e->width), 1);
    value = l_splat(l, value, e->width);
    V values = l_slot(l, LLVMTypeOf(value), "values"), places = l_slot(l, LLVMTypeOf(at), "places");
    l_store(l, value, values, 0);
    l_store(l, at, places, 8);
    EachLane lanes = l_each_lane(l, mask);
    V place = l_load(l, l->ptr, l_at(l, l->ptr, places, lanes.lane), 8);
    Ty scalar = LLVMGetElementType(LLVMTypeOf(value));
    V v = l_load(l, scalar, l_at(l, scalar, values, lanes.lane), 0);
    if (add) {
        V old = l_load(l, one, place, 0);
        emit_alias(e, old, buffer);
        v = emit_scalar(e, OP_add, emit_decode(e, elem, old), v);
    }
    emit_alias(e, l_store(l, emit_encode(e, elem, v), place, 0), buffer);
    l_end_lanes(l, &lanes);
}

/* Under a condition with lanes no lane may be left to read for. */
static V load_one(Emit *e, uint32_t buffer, V at)
{
    L *l = e->l;
    if (e->cond)
        at = l_select(l, l_any(l, emit_mask(e)), at, e->p->shared->nowhere);
    V v = l_load(l, emit_memory_type(l, e->p->buffers.at[buffer].elem), at, 0);
    emit_alias(e, v, buffer);
    return v;
}

/* Subscripts of registers are constant once loops are unrolled. */
static V register_at(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    int64_t at[MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        if (!l_constant(emit_value(e, index[i]), &at[i]))
            BUG(e->l->arena, "backend: a subscript of register buffer %s of kernel %s is not constant",
                e->p->buffers.at[buffer].name, e->k->name);
    return emit_register(e, buffer, at, n);
}

V emit_load(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    if (b->space == SPACE_REG) {
        V slot = register_at(e, buffer, index, n);
        return LLVMBuildLoad2(e->l->b, LLVMGetAllocatedType(slot), slot, "");
    }
    if (b->by_value)
        return emit_decode(e, b->elem, emit_base(e, buffer));
    if (is_second(e, buffer, index, n))
        return emit_decode(e, b->elem, load_second(e, buffer, address_of_first(e, buffer, index, n)));
    LaneAddress p = place_of(e, buffer, index, n);
    if (p.shape == PLACE_RUN)
        emit_ahead(e, buffer, index, n, p.at);
    V raw = p.shape == PLACE_ONE   ? load_one(e, buffer, p.at)
            : p.shape == PLACE_RUN ? emit_load_run(e, buffer, b->elem, p.at, run_mask(e, buffer, index, n))
                                   : load_each(e, buffer, p.at);
    return emit_decode(e, b->elem, raw);
}

static void store_register(Emit *e, uint32_t buffer, V slot, V value)
{
    L *l = e->l;
    const Buffer *b = &e->p->buffers.at[buffer];
    Ty type = LLVMGetAllocatedType(slot);
    value = emit_value_type(l, b->elem) == l->f32 ? emit_to_float(e, value) : value;
    if (b->elem == EL_BF16 || b->elem == EL_F16)
        value = emit_decode(e, b->elem, emit_encode(e, b->elem, value));
    value = l_splat(l, value, b->lanes);
    if (!b->lanes && l_width(value))
        BUG(l->arena, "backend: lanes are stored to register %s of kernel %s, which has none", b->name,
            e->k->name);
    /* Lanes beyond the end may hold anything in a register that no other loop reads. */
    V mask = b->lanes && b->home == e->loop && e->loop != NONE ? e->cond : emit_mask(e);
    if (!b->lanes)
        mask = e->cond ? l_any(l, mask) : NULL;
    if (mask) /* only then is the old value read: else it would stay alive from trip to trip */
        value = l_select(l, mask, value, LLVMBuildLoad2(l->b, type, slot, ""));
    LLVMBuildStore(l->b, value, slot);
}

static void store_one(Emit *e, uint32_t buffer, V at, V raw)
{
    L *l = e->l;
    if (l_width(raw))
        BUG(l->arena, "backend: lanes are stored to one element of %s of kernel %s",
            e->p->buffers.at[buffer].name, e->k->name);
    if (!e->cond) {
        emit_alias(e, l_store(l, raw, at, 0), buffer);
        return;
    }
    When w = l_when(l, l_any(l, emit_mask(e)));
    emit_alias(e, l_store(l, raw, at, 0), buffer);
    l_end_when(l, &w);
}

static void store_lines(Emit *e, uint32_t buffer, const ExprId *index, V raw)
{
    L *l = e->l;
    uint32_t line = LAYOUT_LINE_BYTES / (uint32_t)elem_bytes(e->p->buffers.at[buffer].elem), width = e->width;
    V mask = emit_mask(e), row = subscript(e, index[0]), first = subscript(e, index[1]);
    raw = l_splat(l, raw, width);
    e->width = line;
    for (uint32_t i = 0; i < width; i += line) {
        V at = at_in_matrix(e, buffer, emit_base(e, buffer), row, l_add(l, first, l_i64(l, i)));
        emit_store_run(e, buffer, at, l_part(l, raw, i, line), mask ? l_part(l, mask, i, line) : NULL);
    }
    e->width = width;
}

void emit_store(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, V value)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    if (b->space == SPACE_REG) {
        store_register(e, buffer, register_at(e, buffer, index, n), value);
        return;
    }
    if (is_second(e, buffer, index, n)) {
        store_second(e, buffer, address_of_first(e, buffer, index, n), emit_encode(e, b->elem, value));
        return;
    }
    if (runs_in_lines(e, buffer, index, n)) {
        store_lines(e, buffer, index, emit_encode(e, b->elem, value));
        return;
    }
    LaneAddress p = place_of(e, buffer, index, n);
    if (p.shape == PLACE_EACH)
        store_each(e, buffer, p.at, value, 0);
    else if (p.shape == PLACE_RUN)
        emit_store_run(e, buffer, p.at, emit_encode(e, b->elem, value), run_mask(e, buffer, index, n));
    else
        store_one(e, buffer, p.at, emit_encode(e, b->elem, value));
}

int emit_add_each(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, ExprId value)
{
    if (e->p->buffers.at[buffer].space == SPACE_REG)
        return 0;
    LaneAddress p = place_of(e, buffer, index, n);
    if (p.shape != PLACE_EACH)
        return 0;
    store_each(e, buffer, p.at, emit_value(e, value), 1);
    return 1;
}

/* ---- for sorts ---- */

V emit_get(Emit *e, uint32_t buffer, V position)
{
    Elem elem = e->p->buffers.at[buffer].elem;
    Ty type = emit_memory_type(e->l, elem);
    V v = l_load(e->l, type, l_at(e->l, type, emit_base(e, buffer), position), 0);
    emit_alias(e, v, buffer);
    return emit_decode(e, elem, v);
}

void emit_put(Emit *e, uint32_t buffer, V position, V value)
{
    Elem elem = e->p->buffers.at[buffer].elem;
    V at = l_at(e->l, emit_memory_type(e->l, elem), emit_base(e, buffer), position);
    emit_alias(e, l_store(e->l, emit_encode(e, elem, value), at, 0), buffer);
}

V emit_position(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    if (!layout_is_dense(e->p->buffers.at[buffer].layout))
        BUG(e->l->arena, "backend: %s of kernel %s has no flat positions", e->p->buffers.at[buffer].name,
            e->k->name);
    V sum = l_i64(e->l, 0);
    for (uint32_t i = 0; i < n; i++)
        sum = l_add(e->l, sum, l_mul(e->l, emit_value(e, index[i]), emit_stride(e, buffer, i)));
    return sum;
}
