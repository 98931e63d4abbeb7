/* Modules and kernels: the tables, their look-ups, and the names of types. */
#include "ir/ir.h"

#include <string.h>

const ScalarRow scalar_table[OP_COUNT] = {
#define SCALAR(name, spelling, arity, kind, cost, ulp, ga, gb, doc) \
    {#name, spelling, arity, SK_##kind, cost, ulp, {ga, gb}, doc},
#include "ir/scalar.def"
};

ScalarOp scalar_find(const char *function_name)
{
    for (ScalarOp op = 0; op < OP_COUNT; op++) {
        ScalarKind kind = scalar_table[op].kind;
        int callable = kind != SK_COMPARE && kind != SK_LOGIC;
        if (callable && strcmp(scalar_table[op].spelling, function_name) == 0)
            return op;
    }
    return OP_COUNT;
}

static const struct {
    const char *name;
    size_t bytes;
    Type type;
} elem_table[EL_COUNT] = {
    [EL_F32] = {"f32", 4, TY_F32}, [EL_BF16] = {"bf16", 2, TY_BF16}, [EL_F16] = {"f16", 2, TY_F16},
    [EL_I32] = {"i32", 4, TY_INT}, [EL_I64] = {"i64", 8, TY_INT},
};

const char *space_name(Space s)
{
    static const char *const names[SPACE_COUNT] = {"",    "work", "thread", "reg", "l1",
                                                   "l0a", "l0b",  "l0c",    "ub"};
    return names[s];
}

const char *layout_name(Layout y)
{
    static const char *const names[LAYOUT_COUNT] = {"rows", "sums", "lines", "pairs", "zN", "nZ", "zZ"};
    return names[y];
}

const char *elem_name(Elem e) { return elem_table[e].name; }
size_t elem_bytes(Elem e) { return elem_table[e].bytes; }
Type elem_type(Elem e) { return elem_table[e].type; }

const char *type_name(Type t)
{
    static const char *const names[] = {"integer", "condition", "f32", "bf16", "f16"};
    return names[t];
}

Module *ir_module(Arena *a, Diags *diags, const char *path)
{
    Module *m = arena_new_of(a, Module);
    m->arena = a;
    m->scratch = arena_scratch(a);
    m->diags = diags;
    m->path = path;
    m->names = names_new(a);
    return m;
}

Kernel *ir_kernel(Module *m, Name name, Loc loc)
{
    Kernel *k = arena_new_of(m->arena, Kernel);
    k->module = m;
    k->name = name;
    k->loc = loc;
    vec_push(m->arena, &m->kernels, k);
    return k;
}

Kernel *ir_find_kernel(const Module *m, Name name)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (m->kernels.at[i]->name == name)
            return m->kernels.at[i];
    return NULL;
}

const char *ir_no_kernel(const Module *m, const char *name, Arena *a)
{
    enum { LISTED = 12 };
    Text t = {.arena = a};
    text_add(&t, "the file has no kernel");
    if (name)
        text_add(&t, " '%s'", name);
    for (uint32_t i = 0; name && i < m->kernels.len && i < LISTED; i++)
        text_add(&t, "%s%s", i ? ", " : " (it has ", m->kernels.at[i]->name);
    if (name && m->kernels.len)
        text_add(&t, "%s)", m->kernels.len > LISTED ? ", ..." : "");
    return text_string(&t);
}

const DerivedPair *ir_find_pair(const Module *m, Name forward)
{
    for (uint32_t i = 0; i < m->pairs.len; i++)
        if (m->pairs.at[i].forward == forward)
            return &m->pairs.at[i];
    return NULL;
}

TensorId ir_tensor(Kernel *k, Tensor t)
{
    vec_push(k->module->arena, &k->tensors, t);
    return k->tensors.len - 1;
}

TensorId ir_find_tensor(const Kernel *k, Name name)
{
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].name == name)
            return t;
    return NONE;
}

RouteId ir_find_route(const Kernel *k, Name name)
{
    for (RouteId r = 0; r < k->routes.len; r++)
        if (k->routes.at[r].name == name)
            return r;
    return NONE;
}

RouteId ir_group_route(const Kernel *k, GroupId g)
{
    for (RouteId r = 0; r < k->routes.len; r++)
        if (k->routes.at[r].group == g)
            return r;
    return NONE;
}

IndexId ir_index(Kernel *k, Name name, Loc loc, Axis axis)
{
    vec_push(k->module->arena, &k->indices, (Index){name, loc, axis});
    return k->indices.len - 1;
}

int ir_is_declared(const Module *m, Name name)
{
    for (uint32_t i = 0; i < m->dims.len; i++)
        if (m->dims.at[i].name == name)
            return 1;
    for (uint32_t i = 0; i < m->groups.len; i++)
        if (m->groups.at[i].name == name)
            return 1;
    return 0;
}

static void mark_dims(const Module *m, Extent e, uint8_t *used)
{
    if (e >= m->extents.len)
        return; /* a route or index that the reader has not finished */
    const ExtentForm *f = &m->extents.at[e];
    for (uint32_t i = 0; i < f->nterms; i++)
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            used[f->terms[i].dims[d]] = 1;
}

static void mark_group(const Module *m, GroupId g, uint8_t *used)
{
    if (g == NONE)
        return;
    mark_dims(m, m->groups.at[g].groups, used);
    mark_dims(m, m->groups.at[g].size, used);
}

static void mark_param(const Kernel *k, Param p, uint8_t *used)
{
    const Module *m = k->module;
    if (p.kind == PARAM_ROUTE) {
        const Route *r = &k->routes.at[p.id];
        mark_dims(m, r->tokens, used);
        mark_dims(m, r->choices, used);
        mark_group(m, r->group, used);
        return;
    }
    const Tensor *t = &k->tensors.at[p.id];
    for (uint32_t i = 0; i < t->rank; i++) {
        mark_dims(m, t->axes[i].extent, used);
        mark_group(m, t->axes[i].group, used);
    }
}

/* A size that only locals, routes or expressions mention must be known too: the places of a capacity group, the K
 * of a `top` that stays inside. */
static void mark_inside(const Kernel *k, uint8_t *used)
{
    const Module *m = k->module;
    for (uint32_t t = 0; t < k->tensors.len; t++)
        mark_param(k, (Param){.kind = PARAM_TENSOR, .id = t}, used);
    for (uint32_t r = 0; r < k->routes.len; r++)
        mark_param(k, (Param){.kind = PARAM_ROUTE, .id = r}, used);
    for (uint32_t i = 0; i < k->indices.len; i++)
        mark_dims(m, k->indices.at[i].axis.extent, used);
    for (uint32_t e = 0; e < k->exprs.len; e++)
        if (k->exprs.at[e].kind == X_EXTENT)
            mark_dims(m, k->exprs.at[e].sym, used);
}

/* The marked ones that are not constant, ascending. */
static uint32_t passed_dims(const Module *m, const uint8_t *used, DimId *out)
{
    uint32_t n = 0;
    for (DimId d = 0; d < m->dims.len; d++)
        if (used[d] && m->dims.at[d].constant < 0)
            out[n++] = d;
    return n;
}

uint32_t ir_kernel_dims(const Kernel *k, DimId *out)
{
    uint8_t *used = arena_alloc(k->module->arena, k->module->dims.len + 1);
    mark_inside(k, used);
    return passed_dims(k->module, used, out);
}

uint32_t ir_tensor_dims(const Kernel *k, TensorId t, DimId *out)
{
    uint8_t *used = arena_alloc(k->module->arena, k->module->dims.len + 1);
    mark_param(k, (Param){.kind = PARAM_TENSOR, .id = t}, used);
    return passed_dims(k->module, used, out);
}

Equation ir_equation(EqKind kind, Loc loc)
{
    Equation q = {.kind = kind,
                  .cluster = NONE,
                  .loc = loc,
                  .lhs = NONE,
                  .rhs = NONE,
                  .ids = NONE,
                  .bound = NONE,
                  .route = NONE,
                  .guard = NONE};
    for (int i = 0; i < MAX_RANK; i++)
        q.index[i] = NONE;
    return q;
}

void ir_compact(Kernel *k)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (!k->eqs.at[i].dead)
            k->eqs.at[kept++] = k->eqs.at[i];
    k->eqs.len = kept;
}
