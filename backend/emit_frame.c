/* What a function computes once, in its entry block: dimensions, extents, strides, addresses, registers. */
#include "backend/emit.h"

Ty emit_memory_type(L *l, Elem elem)
{
    switch (elem) {
    case EL_F32: return l->f32;
    case EL_BF16:
    case EL_F16: return l->i16;
    case EL_I32: return l->i32;
    case EL_I64: return l->i64;
    case EL_COUNT: break;
    }
    BUG(l->arena, "backend: element type %d", (int)elem);
}

Ty emit_value_type(L *l, Elem elem) { return elem == EL_I32 || elem == EL_I64 ? l->i64 : l->f32; }

Emit emit_blank(Plan *p)
{
    return (Emit){.p = p, .l = p->l, .k = p->k, .var = NONE, .loop = NONE, .around = NONE};
}

Emit *emit_new(Plan *p, V fn, V data)
{
    Arena *a = p->l->arena;
    Emit *e = arena_new_of(a, Emit);
    *e = emit_blank(p);
    e->data = data;
    e->dim = arena_array(a, V, p->m->dims.len + 1);
    e->extent = arena_array(a, V, p->m->extents.len + 1);
    e->real = arena_array(a, V, p->m->extents.len + 1);
    e->real_dim = arena_array(a, V, p->m->dims.len + 1);
    e->index = arena_array(a, V, p->k->indices.len + 1);
    e->form = arena_array(a, uint8_t, p->k->exprs.len + 1);
    e->unsafe = arena_array(a, uint8_t, p->k->exprs.len + 1);
    e->memo[0] = arena_array(a, V, p->k->exprs.len + 1);
    e->memo[1] = arena_array(a, V, p->k->exprs.len + 1);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        Buffer *b = &p->buffers.at[i];
        b->base = NULL;
        b->regs = NULL;
        b->asked = NONE;
        b->padded[0] = b->padded[1] = b->matrix = NULL;
        for (int j = 0; j < MAX_RANK; j++)
            b->stride[j] = NULL;
    }
    l_begin(p->l, fn);
    return e;
}

V emit_data_at(Emit *e, uint32_t byte) { return l_at(e->l, e->l->i8, e->data, l_i64(e->l, byte)); }

/* Loads a dimension or buffer in the entry block: in a launch's body by way of its map. */
static V from_data(Emit *e, Ty type, int is_dim, uint32_t id, uint32_t byte)
{
    L *l = e->l;
    Block back = l_to_entry(l);
    V at = l_i64(l, byte);
    if (e->launch) {
        uint32_t slot = 0;
        while (e->launch->slots.at[slot].is_dim != is_dim || e->launch->slots.at[slot].id != id)
            if (++slot == e->launch->slots.len)
                BUG(l->arena, "backend: launch %s of kernel %s has no slot for %s %u", e->launch->body_name,
                    e->k->name, is_dim ? "dimension" : "buffer", id);
        at = l_cast(l, LLVMSExt, l_load(l, l->i32, l_at(l, l->i32, e->map, l_i64(l, slot + 1)), 4), l->i64);
    }
    V v = l_load(l, type, l_at(l, l->i8, e->data, at), 0);
    l_from_entry(l, back);
    return v;
}

V emit_dim(Emit *e, DimId d)
{
    const Dim *dim = &e->p->m->dims.at[d];
    if (dim->constant >= 0)
        return l_i64(e->l, dim->constant);
    if (!e->dim[d]) {
        if (!e->p->dim_at[d])
            BUG(e->l->arena, "backend: kernel %s uses %s, which its parameters do not mention", e->k->name,
                dim->name);
        e->dim[d] = from_data(e, e->l->i64, 1, d, e->p->dim_at[d]);
    }
    return e->dim[d];
}

static V monomial(Emit *e, const Monomial *t)
{
    V product = t->coef == 1 && t->ndims ? NULL : l_i64(e->l, t->coef);
    for (uint32_t i = 0; i < t->ndims; i++) {
        V d = emit_dim(e, t->dims[i]);
        Block back = l_to_entry(e->l);
        product = product ? LLVMBuildNSWMul(e->l->b, product, d, "") : d;
        l_from_entry(e->l, back);
    }
    return product;
}

V emit_extent(Emit *e, Extent x)
{
    const Module *m = e->p->m;
    x = m->extents.at[x].folded;
    if (e->extent[x])
        return e->extent[x];
    const ExtentForm *f = &m->extents.at[x];
    V sum = f->nterms ? NULL : l_i64(e->l, 0);
    for (uint32_t i = 0; i < f->nterms; i++) {
        V term = monomial(e, &f->terms[i]);
        Block back = l_to_entry(e->l);
        sum = sum ? LLVMBuildNSWAdd(e->l->b, sum, term, "") : term;
        l_from_entry(e->l, back);
    }
    return e->extent[x] = sum;
}

static V times(Emit *e, V a, V b)
{
    Block back = l_to_entry(e->l);
    V product = LLVMBuildNSWMul(e->l->b, a, b, "");
    l_from_entry(e->l, back);
    return product;
}

int layout_terms(Elem elem) { return LAYOUT_WORD_BYTES / (int)elem_bytes(elem); }

/* Of lines the last axis is k, of pairs the one before it. */
static int64_t padding_of(const Buffer *b, uint32_t axis)
{
    if (layout_is_fractal(b->layout))
        return LAYOUT_FRACTAL;
    int is_k = b->layout == LAYOUT_LINES ? axis == 1 : b->layout == LAYOUT_PAIRS && axis == 0;
    return is_k ? LAYOUT_LINE_BYTES / (int64_t)elem_bytes(b->elem) : LAYOUT_EDGE;
}

V emit_padded(Emit *e, uint32_t buffer, uint32_t axis)
{
    L *l = e->l;
    Buffer *b = &e->p->buffers.at[buffer];
    if (!b->padded[axis]) {
        V extent = emit_extent(e, b->axes[b->rank - 2 + axis].extent);
        int64_t pad = padding_of(b, axis);
        Block back = l_to_entry(l);
        b->padded[axis] = l_round_up(l, extent, pad);
        l_from_entry(l, back);
    }
    return b->padded[axis];
}

/* The elements of one matrix of a buffer that is not in rows. */
static V matrix(Emit *e, uint32_t buffer)
{
    Buffer *b = &e->p->buffers.at[buffer];
    if (!b->matrix)
        b->matrix = times(e, emit_padded(e, buffer, 0), emit_padded(e, buffer, 1));
    return b->matrix;
}

V emit_stride(Emit *e, uint32_t buffer, uint32_t axis)
{
    Buffer *b = &e->p->buffers.at[buffer];
    if (b->layout == LAYOUT_SUMS && axis + 2 >= b->rank)
        return axis + 1 == b->rank ? l_i64(e->l, 1) : emit_padded(e, buffer, 1);
    if (b->layout != LAYOUT_ROWS && axis + 3 >= b->rank) {
        if (axis + 3 > b->rank)
            BUG(e->l->arena, "backend: axis %u of %s of kernel %s has no stride", axis, b->name, e->k->name);
        return matrix(e, buffer);
    }
    if (axis + 1 >= b->rank)
        return l_i64(e->l, 1);
    if (!b->stride[axis] && axis + 2 == b->rank)
        b->stride[axis] = emit_extent(e, b->axes[axis + 1].extent);
    if (!b->stride[axis])
        b->stride[axis] =
            times(e, emit_extent(e, b->axes[axis + 1].extent), emit_stride(e, buffer, axis + 1));
    return b->stride[axis];
}

V emit_elements(Emit *e, uint32_t buffer)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    if (b->layout != LAYOUT_ROWS && b->rank == 2)
        return matrix(e, buffer);
    if (b->rank < 2)
        return b->rank ? emit_extent(e, b->axes[0].extent) : l_i64(e->l, 1);
    return times(e, emit_extent(e, b->axes[0].extent), emit_stride(e, buffer, 0));
}

V emit_bytes(Emit *e, uint32_t buffer)
{
    V elements = emit_elements(e, buffer);
    Block back = l_to_entry(e->l);
    if (e->p->buffers.at[buffer].plus)
        elements = l_add(e->l, elements, l_i64(e->l, e->p->buffers.at[buffer].plus));
    V bytes = l_mul(e->l, elements, l_i64(e->l, (int64_t)elem_bytes(e->p->buffers.at[buffer].elem)));
    bytes = l_and(e->l, l_add(e->l, bytes, l_i64(e->l, 63)), l_i64(e->l, -64));
    l_from_entry(e->l, back);
    return bytes;
}

/* ptr moec_on_chip(i64 space): the first byte of the core's buffer. */
static V on_chip(Emit *e, Space space)
{
    L *l = e->l;
    V args[1] = {l_i64(l, space)};
    return l_call(l, l_declare(l, "moec_on_chip", l_fn_type(l, l->ptr, &l->i64, 1)), args, 1);
}

V emit_base(Emit *e, uint32_t buffer)
{
    Buffer *b = &e->p->buffers.at[buffer];
    if (b->base)
        return b->base;
    if (space_is_on_chip(b->space)) {
        Block back = l_to_entry(e->l);
        b->base = l_byte(e->l, on_chip(e, b->space), l_i64(e->l, b->place));
        l_from_entry(e->l, back);
        return b->base;
    }
    Ty type = b->by_value ? emit_memory_type(e->l, b->elem) : e->l->ptr;
    b->base = from_data(e, type, 0, buffer, b->at);
    if (b->space == SPACE_THREAD) {
        Block back = l_to_entry(e->l);
        V region = l_load(e->l, e->l->i64, emit_data_at(e, DATA_THREAD_BYTES), 8);
        b->base = l_at(e->l, e->l->i8, b->base, l_mul(e->l, region, e->thread));
        l_from_entry(e->l, back);
    }
    return b->base;
}

static int64_t constant_extent(Emit *e, const Buffer *b, uint32_t axis)
{
    int64_t value;
    if (!ext_is_const(e->p->m, b->axes[axis].extent, &value))
        BUG(e->l->arena, "backend: register buffer %s of kernel %s has a run-time extent", b->name,
            e->k->name);
    return value;
}

static void make_registers(Emit *e, Buffer *b)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        count *= constant_extent(e, b, i);
    b->regs = arena_array(e->l->arena, V, count);
    Ty type = l_lanes_of(e->l, emit_value_type(e->l, b->elem), b->lanes);
    for (int64_t i = 0; i < count; i++)
        b->regs[i] = l_slot(e->l, type, b->name);
}

V emit_register(Emit *e, uint32_t buffer, const int64_t *index, uint32_t n)
{
    Buffer *b = &e->p->buffers.at[buffer];
    if (!b->regs)
        make_registers(e, b);
    int64_t flat = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t extent = constant_extent(e, b, i);
        if (index[i] < 0 || index[i] >= extent)
            BUG(e->l->arena, "backend: a subscript of register buffer %s of kernel %s is outside it", b->name,
                e->k->name);
        flat = flat * extent + index[i];
    }
    return b->regs[flat];
}
