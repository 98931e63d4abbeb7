#include "driver/interpret.h"

#include "driver/element.h"
#include "driver/module.h"
#include "driver/pack.h"
#include "passes/passes.h"

#include <stdlib.h>

/* -1 when it overflows or a dimension is negative. */
static int64_t count_elements(const InterpretCall *c, const Tensor *t)
{
    int64_t n = 1, extent;
    for (int d = 0; d < t->rank; d++)
        if (!ext_eval(c->kernel->module, t->axes[d].extent, c->dims, &extent) || extent < 0 ||
            __builtin_mul_overflow(n, extent, &n))
            return -1;
    return n;
}

/* The shape of a packed parameter; 0: its memory would be too large. */
static int packed_shape(const InterpretCall *c, const Tensor *t, PackShape *s)
{
    int64_t extents[MAX_RANK];
    for (int d = 0; d < t->rank; d++)
        ext_eval(c->kernel->module, t->axes[d].extent, c->dims, &extents[d]);
    *s = pack_shape(t->elem, t->both, extents, t->rank);
    return packed_bytes(s) >= 0;
}

static int load_packed(InterpretCall *c, moe_ctx *ctx, const Tensor *t, const void *data, int64_t n,
                       EvalArg *arg)
{
    PackShape s;
    if (!packed_shape(c, t, &s))
        return call_refuse(ctx, MOE_SIZE, t->name);
    if (!data)
        return call_refuse(ctx, MOE_NULL, t->name);
    const char *refusal = t->role == ROLE_OUT ? NULL : pack_refusal(&s, t->role, t->name, data, c->arena);
    if (refusal)
        return call_refuse(ctx, MOE_PACKED, refusal);
    arg->data = arena_array(c->arena, double, n + 1);
    for (int64_t i = 0; t->role != ROLE_OUT && i < n; i++)
        arg->data[i] = element_read(t->elem, (const char *)data + pack_place(&s, i));
    return MOE_OK;
}

static int load_tensor(InterpretCall *c, moe_ctx *ctx, const Tensor *t, const void *data, EvalArg *arg)
{
    int64_t n = count_elements(c, t);
    if (n < 0)
        return call_refuse(ctx, MOE_SIZE, t->name);
    if (t->layout == LAYOUT_PAIRS && !t->unread)
        return load_packed(c, ctx, t, data, n, arg);
    if (!data && n && !t->unread)
        return call_refuse(ctx, MOE_NULL, t->name);
    arg->data = arena_array(c->arena, double, n + 1);
    for (int64_t i = 0; t->role != ROLE_OUT && !t->unread && i < n; i++)
        arg->data[i] = element_read(t->elem, (const char *)data + (size_t)i * elem_bytes(t->elem));
    return MOE_OK;
}

static int load_route(InterpretCall *c, moe_ctx *ctx, const Route *r, const moe_route *from, EvalArg *arg)
{
    if (!from)
        return call_refuse(ctx, MOE_NULL, r->name);
    arg->route = arena_new_of(c->arena, EvalRoute);
    *arg->route = (EvalRoute){from->tokens, from->choices, from->groups, from->rows, from->start,
                              from->count,  from->slot_of, from->row_of, 0};
    return MOE_OK;
}

static int load_args(InterpretCall *c, moe_ctx *ctx, void *const *args)
{
    const Kernel *k = c->kernel;
    c->args = arena_array(c->arena, EvalArg, k->params.len + 1);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        int status = p.kind == PARAM_ROUTE ? load_route(c, ctx, &k->routes.at[p.id], args[i], &c->args[i])
                                           : load_tensor(c, ctx, &k->tensors.at[p.id], args[i], &c->args[i]);
        if (status)
            return status;
    }
    return MOE_OK;
}

static void store_tensor(const InterpretCall *c, const Tensor *t, const double *data, char *to)
{
    PackShape s;
    int packed = t->layout == LAYOUT_PAIRS;
    int64_t n = count_elements(c, t);
    if (packed) {
        packed_shape(c, t, &s);
        pack_begin(&s, to);
    }
    for (int64_t i = 0; i < n; i++)
        element_write(t->elem, data[i], to + (packed ? pack_place(&s, i) : (size_t)i * elem_bytes(t->elem)));
    if (packed)
        pack_transpose(&s, to);
}

static void store_results(const InterpretCall *c, void *const *args)
{
    const Kernel *k = c->kernel;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        if (p.kind == PARAM_ROUTE || k->tensors.at[p.id].role == ROLE_IN)
            continue;
        store_tensor(c, &k->tensors.at[p.id], c->args[i].data, args[i]);
    }
}

int interpret_read(InterpretCall *c, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    const Module *m = c->kernel->module;
    DimId *passed = arena_array(c->arena, DimId, m->dims.len + 1);
    uint32_t n = ir_kernel_dims(c->kernel, passed);
    c->dims = arena_array(c->arena, int64_t, m->dims.len + 1);
    for (uint32_t i = 0; i < n; i++)
        c->dims[passed[i]] = dims[i];
    return load_args(c, ctx, args);
}

static int run(InterpretCall *c, const Reference *reference, moe_ctx *ctx, const int64_t *dims,
               void *const *args)
{
    int status = interpret_read(c, ctx, dims, args);
    if (status)
        return status;
    const char *error =
        ir_eval(reference_of(reference, c->kernel), EVAL_REFERENCE, c->dims, c->args, NULL, c->arena);
    if (error)
        return call_refuse(ctx, MOE_COMPUTED, arena_printf(c->arena, "%s: %s", c->kernel->name, error));
    store_results(c, args);
    return MOE_OK;
}

static int call(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    jmp_buf landing;
    InterpretCall c = {.kernel = k->ir, .arena = arena_new()};
    if (!c.arena)
        return call_refuse(ctx, MOE_MEMORY, "out of memory");
    Arena *const arena = c.arena; /* not changed after setjmp */
    int status;
    if (setjmp(landing)) {
        status = call_refuse(ctx, MOE_MEMORY, arena_message(arena));
    } else {
        arena_set_landing(arena, &landing);
        status = run(&c, &k->module->reference, ctx, dims, args);
    }
    arena_free(arena);
    return status;
}

/* A parameter whose values nobody needs has none here (moec_kernel_param_read), so what would read them, and perhaps
 * refuse them, is not run: no output depends on it. */
static void drop_unread(const Reference *reference, const Kernel *k)
{
    for (uint32_t i = 0; i < k->params.len; i++)
        if (k->params.at[i].kind == PARAM_TENSOR && k->tensors.at[k->params.at[i].id].unread) {
            dce_kernel(reference_of(reference, k));
            return;
        }
}

static int describe(Compilation *c, void *user)
{
    moec_module *m = user;
    if (reference_make(c, &m->reference))
        return DRIVER_ERROR;
    for (uint32_t i = 0; i < c->module->kernels.len; i++)
        drop_unread(&m->reference, c->module->kernels.at[i]);
    m->manifest = manifest_text(c->module, &c->isas, "interpreter", c->arena);
    const char *error = signature_read(m->manifest, c->arena, &m->signatures);
    if (error)
        return compile_fail(c, DIAG_driver_backend, error);
    m->kernels = arena_array(c->arena, moec_kernel, m->signatures.nkernels + 1);
    for (uint32_t i = 0; i < m->signatures.nkernels; i++) {
        const SigKernel *sig = &m->signatures.kernels[i];
        Name name = name_of(c->module->names, sig->name);
        m->kernels[i] = (moec_kernel){
            .module = m, .sig = sig, .run = moec_kernel_interpret, .ir = ir_find_kernel(c->module, name)};
    }
    return DRIVER_OK;
}

int interpret_module(Compilation *c, moec_module **out)
{
    moec_module *m = calloc(1, sizeof *m);
    int status = m ? compile_read(c, 1) : DRIVER_ERROR;
    if (!status)
        status = compile_guard(c, describe, m);
    if (status) {
        free(m);
        return status;
    }
    m->own = c;
    *out = m;
    return DRIVER_OK;
}

int moec_kernel_interpret(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    const char *missing = call_missing(k, dims, args);
    if (missing)
        return call_refuse(ctx, MOE_NULL, missing);
    if (!k->ir)
        return call_refuse(ctx, MOE_ARGUMENT, "this module was compiled without the option to interpret it");
    return call(k, ctx, dims, args);
}
