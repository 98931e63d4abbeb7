/* `__tvm_ffi_NAME` of each kernel: a stub that hands the table of its parameters to moec_tvm_call() of runtime/tvm_ffi.c, which
 * is merged into each object. JIT code has none. */
#include "backend/emit.h"

#include <string.h>

typedef struct TvmTable {
    const Plan *p;
    Vec(int64_t) numbers;
} TvmTable;

enum { KIND_TENSOR, KIND_PACKED, KIND_SCALAR, KIND_ROUTE };

static void add(TvmTable *t, int64_t number) { vec_push(t->p->l->arena, &t->numbers, number); }

/* The place of a dimension among those that are passed, constants apart; NONE: it is no argument. */
static uint32_t place_of(const Plan *p, DimId d)
{
    for (uint32_t i = 0; i < p->ndims; i++)
        if (p->dims[i] == d)
            return i;
    return NONE;
}

static void add_extent(TvmTable *t, Extent e)
{
    const Module *m = t->p->k->module;
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    add(t, f->nterms);
    for (uint32_t i = 0; i < f->nterms; i++) {
        add(t, f->terms[i].coef);
        add(t, f->terms[i].ndims);
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            add(t, place_of(t->p, f->terms[i].dims[d]));
    }
}

static void add_param(TvmTable *t, Param x)
{
    const Kernel *k = t->p->k;
    if (x.kind == PARAM_ROUTE) {
        const Route *r = &k->routes.at[x.id];
        const Group *g = &k->module->groups.at[r->group];
        const Extent extents[4] = {r->tokens, r->choices, g->groups, g->rows};
        add(t, KIND_ROUTE);
        add(t, 0);
        add(t, 4);
        for (int i = 0; i < 4; i++)
            add_extent(t, extents[i]);
        return;
    }
    const Tensor *p = &k->tensors.at[x.id];
    int by_value = t->p->buffers.at[x.id].by_value, packed = p->layout == LAYOUT_PAIRS;
    add(t, by_value ? KIND_SCALAR : packed ? KIND_PACKED : KIND_TENSOR);
    add(t, p->elem);
    add(t, p->rank);
    for (uint32_t i = 0; i < p->rank; i++)
        add_extent(t, p->axes[i].extent);
}

/* Is an axis of some tensor, or of a route, just this dimension? */
static int is_axis(const Module *m, Extent e, DimId d)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    return f->nterms == 1 && f->terms[0].ndims == 1 && f->terms[0].coef == 1 && f->terms[0].dims[0] == d;
}

static int has_axis(const Kernel *k, DimId d)
{
    const Module *m = k->module;
    int found = 0;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param x = k->params.at[i];
        const Tensor *t = x.kind == PARAM_TENSOR ? &k->tensors.at[x.id] : NULL;
        const Route *r = t ? NULL : &k->routes.at[x.id];
        if (r)
            found |= is_axis(m, r->tokens, d) || is_axis(m, r->choices, d) ||
                     is_axis(m, m->groups.at[r->group].groups, d) ||
                     is_axis(m, m->groups.at[r->group].rows, d);
        for (uint32_t a = 0; t && t->layout != LAYOUT_PAIRS && a < t->rank; a++)
            found |= is_axis(m, t->axes[a].extent, d);
    }
    return found;
}

static V table_of(const Plan *p)
{
    TvmTable t = {.p = p};
    add(&t, p->ndims);
    add(&t, p->k->params.len);
    for (uint32_t i = 0; i < p->ndims; i++)
        add(&t, !has_axis(p->k, p->dims[i]));
    for (uint32_t i = 0; i < p->k->params.len; i++)
        add_param(&t, p->k->params.at[i]);
    V *all = arena_array(p->l->arena, V, t.numbers.len);
    for (uint32_t i = 0; i < t.numbers.len; i++)
        all[i] = l_i64(p->l, t.numbers.at[i]);
    return l_table(p->l, p->l->i64, all, t.numbers.len, "parameters");
}

/* The kernel's name, then those of its dimensions and parameters, each with an end of its own. */
static V names_of(const Plan *p)
{
    Text t = {.arena = p->l->arena};
    const Kernel *k = p->k;
    text_add_bytes(&t, k->name, strlen(k->name) + 1);
    for (uint32_t i = 0; i < p->ndims; i++)
        text_add_bytes(&t, k->module->dims.at[p->dims[i]].name,
                       strlen(k->module->dims.at[p->dims[i]].name) + 1);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param x = k->params.at[i];
        Name name = x.kind == PARAM_ROUTE ? k->routes.at[x.id].name : k->tensors.at[x.id].name;
        text_add_bytes(&t, name, strlen(name) + 1);
    }
    return l_bytes(p->l, t.at, t.len);
}

void emit_tvm(const Plan *p, V call)
{
    L *l = p->l;
    Ty four[4] = {l->ptr, l->ptr, l->i32, l->ptr}, six[6] = {l->ptr, l->ptr, l->ptr, l->ptr, l->i32, l->ptr};
    V fn = LLVMAddFunction(l->mod, arena_printf(l->arena, "__tvm_ffi_%s", p->k->name),
                           l_fn_type(l, l->i32, four, 4));
    l_plain(l, fn);
    l_quick(l, fn);
    l_begin(l, fn);
    V args[6] = {table_of(p),         names_of(p),         call,
                 LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
    LLVMBuildRet(l->b, l_call(l, l_declare(l, "moec_tvm_call", l_fn_type(l, l->i32, six, 6)), args, 6));
}
