/* The manifest: what a compiled module offers, as JSON. It is embedded in the .so (symbol moec_manifest), and
 * driver/signature.c reads it back, so a kernel found in the cache is as well known as one just compiled.
 *
 * An extent is {"text": "2*F+1", "terms": [[2, "F"], [1]]}: a sum of coefficients times dimensions. */
#include "driver/driver.h"
#include "base/json.h"
#include "driver/signature.h"
#include "moec/moert.h"

static json_t *names_of(const Module *m, const DimId *dims, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(m->dims.at[dims[i]].name));
    return list;
}

static json_t *term_of(const Module *m, const Monomial *t)
{
    json_t *list = json_pack("[I]", (json_int_t)t->coef);
    for (uint32_t d = 0; d < t->ndims; d++)
        json_array_append_new(list, json_string(m->dims.at[t->dims[d]].name));
    return list;
}

static json_t *extent_of(const Module *m, Extent e)
{
    const ExtentForm *f = &m->extents.at[e];
    Text text = {.arena = m->arena};
    json_t *terms = json_array();
    for (uint32_t i = 0; i < f->nterms; i++)
        json_array_append_new(terms, term_of(m, &f->terms[i]));
    ext_print(m, e, &text);
    return json_pack("{s:s, s:o}", "text", text_string(&text), "terms", terms);
}

/* -1: there is none. */
static json_t *limit_of(int64_t value) { return value == -1 ? json_null() : json_integer(value); }

static json_t *dims_of(const Module *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->dims.len; i++) {
        const Dim *d = &m->dims.at[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:I, s:I}", "name", d->name, "constant",
                                              limit_of(d->constant), "max", limit_of(d->max), "multiple",
                                              (json_int_t)d->multiple, "prefer", (json_int_t)d->prefer));
    }
    return list;
}

static json_t *groups_of(const Module *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->groups.len; i++) {
        const Group *g = &m->groups.at[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", g->name, "kind",
                                              g->kind == GROUP_CAPACITY ? "capacity" : "rows", "groups",
                                              extent_of(m, g->groups), "size", extent_of(m, g->size), "rows",
                                              extent_of(m, g->rows)));
    }
    return list;
}

/* ---- kernels ---- */

/* What a caller needs of a packed parameter: the layout, and the functions and their dimensions. */
static json_t *packed_of(const Kernel *k, TensorId id)
{
    const Module *m = k->module;
    const Tensor *p = &k->tensors.at[id];
    DimId *dims = arena_array(m->arena, DimId, m->dims.len + 1);
    uint32_t n = ir_tensor_dims(k, id, dims);
    unsigned long long layout =
        (unsigned long long)MOE_PACKED_LAYOUT + p->elem + (p->both ? MOE_PACKED_BOTH : 0);
    return json_pack("{s:s, s:b, s:s, s:s, s:o}", "layout", arena_printf(m->arena, "0x%llx", layout), "both",
                     p->both, "bytes", arena_printf(m->arena, "%s_%s_pack_bytes", k->name, p->name), "pack",
                     arena_printf(m->arena, "%s_%s_pack", k->name, p->name), "dims", names_of(m, dims, n));
}

static json_t *tensor_of(const Kernel *k, TensorId id)
{
    const Tensor *p = &k->tensors.at[id];
    int by_value = p->rank == 0 && p->role == ROLE_IN;
    json_t *shape = json_array();
    for (uint32_t i = 0; i < p->rank; i++)
        json_array_append_new(shape, extent_of(k->module, p->axes[i].extent));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", p->name, "kind", by_value ? "scalar" : "tensor",
                  "role", role_name(p->role), "type", elem_name(p->elem), "shape", shape);
    if (p->unread)
        json_object_set_new(o, "read", json_false());
    if (p->layout == LAYOUT_PAIRS)
        json_object_set_new(o, "packed", packed_of(k, id));
    return o;
}

static json_t *route_of(const Kernel *k, const Route *r)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "name", r->name, "kind", "route", "role",
                     role_name(r->role), "tokens", extent_of(k->module, r->tokens), "choices",
                     extent_of(k->module, r->choices), "group", k->module->groups.at[r->group].name);
}

static void add_code(Name kernel, json_t *o, Arena *a)
{
    json_object_set_new(o, "function", json_string(kernel));
    json_object_set_new(o, "entry", json_string(arena_printf(a, "%s__call", kernel)));
    json_object_set_new(o, "workspace", json_string(arena_printf(a, "%s_workspace", kernel)));
    json_object_set_new(o, "workspace_entry", json_string(arena_printf(a, "%s__workspace", kernel)));
}

static json_t *kernel_of(const Kernel *k, int has_code)
{
    Arena *a = k->module->arena;
    DimId *dims = arena_array(a, DimId, k->module->dims.len + 1);
    uint32_t ndims = ir_kernel_dims(k, dims);
    json_t *o = json_pack("{s:s}", "name", k->name), *params = json_array();
    if (has_code)
        add_code(k->name, o, a);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        json_array_append_new(params,
                              p.kind == PARAM_ROUTE ? route_of(k, &k->routes.at[p.id]) : tensor_of(k, p.id));
    }
    json_object_set_new(o, "dims", names_of(k->module, dims, ndims));
    json_object_set_new(o, "params", params);
    return o;
}

static json_t *kernels_of(const Module *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->kernels.len; i++)
        json_array_append_new(list, kernel_of(m->kernels.at[i], 1));
    for (uint32_t i = 0; i < m->interfaces.len; i++)
        json_array_append_new(list, kernel_of(m->interfaces.at[i], 0));
    return list;
}

/* ---- pairs ---- */

/* A key that some objects lack; name NULL: this one does. */
static void add_name(json_t *o, const char *key, Name name)
{
    if (name)
        json_object_set_new(o, key, json_string(name));
}

static json_t *gradients_of(const DerivedPair *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->gradients.len; i++) {
        const struct PairGradient *g = &p->gradients.at[i];
        json_t *o = json_pack("{s:s}", "input", g->input);
        add_name(o, "param", g->param);
        add_name(o, "output", g->output);
        add_name(o, "mode", signature_modes[g->mode]);
        if (g->later)
            json_object_set_new(o, "later", json_true());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *pair_of(const DerivedPair *p)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "from", p->from, "forward", p->forward, "backward", p->backward);
    json_t *saved = json_array(), *cotangents = json_array(), *handed = json_array();
    for (uint32_t i = 0; i < p->saved.len; i++)
        json_array_append_new(saved, json_pack("{s:s, s:s, s:s}", "local", p->saved.at[i].local, "param",
                                               p->saved.at[i].param, "type", p->saved.at[i].type));
    for (uint32_t i = 0; i < p->cotangents.len; i++)
        json_array_append_new(cotangents, json_pack("{s:s, s:s}", "output", p->cotangents.at[i].output,
                                                    "param", p->cotangents.at[i].param));
    for (uint32_t i = 0; i < p->handed.len; i++)
        json_array_append_new(handed, json_string(p->handed.at[i]));
    add_name(o, "later", p->later);
    json_object_set_new(o, "saved", saved);
    json_object_set_new(o, "cotangents", cotangents);
    json_object_set_new(o, "gradients", gradients_of(p));
    json_object_set_new(o, "handed", handed);
    return o;
}

static json_t *pairs_of(const Module *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->pairs.len; i++)
        json_array_append_new(list, pair_of(&m->pairs.at[i]));
    return list;
}

/* ---- all ---- */

static json_t *isas_of(const IsaList *isas)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < isas->n; i++)
        json_array_append_new(list, json_string(cpu_table[isas->at[i]].name));
    return list;
}

static json_t *types_of(const Module *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->types.len; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", m->types.at[i].name, "type",
                                              elem_name(m->types.at[i].elem)));
    return list;
}

const char *manifest_text(const Module *m, const IsaList *isas, const char *build_id, Arena *a)
{
    json_t *numerics =
        json_pack("{s:i, s:s, s:s, s:s, s:b}", "contract", 4, "arithmetic", "f32", "rounding", "nearest even",
                  "sum_bound", "(n + 2) * 2^-24 * sum |terms|", "deterministic", 1);
    return json_text(a, json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "moec", MOEC_VERSION,
                                  "language", 1, "build", build_id, "isas", isas_of(isas), "numerics",
                                  numerics, "types", types_of(m), "dims", dims_of(m), "groups", groups_of(m),
                                  "kernels", kernels_of(m), "pairs", pairs_of(m)));
}
