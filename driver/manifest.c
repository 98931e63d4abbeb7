/* The manifest: what a compiled module offers, as JSON. It is embedded in the .so (symbol moec_manifest), and
 * driver/signature.c reads it back, so a kernel found in the cache is as well known as one just compiled.
 *
 * An extent is {"text": "2*F+1", "terms": [[2, "F"], [1]]}: a sum of coefficients times dimensions. */
#include "driver/driver.h"
#include "driver/signature.h"
#include "moec/moert.h"

static void add_extent(const Module *m, Extent e, Text *t)
{
    const ExtentForm *f = &m->extents.at[e];
    text_add(t, "{\"text\": \"");
    ext_print(m, e, t);
    text_add(t, "\", \"terms\": [");
    for (uint32_t i = 0; i < f->nterms; i++) {
        text_add(t, "%s[%lld", i ? ", " : "", (long long)f->terms[i].coef);
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            text_add(t, ", \"%s\"", m->dims.at[f->terms[i].dims[d]].name);
        text_add(t, "]");
    }
    text_add(t, "]}");
}

static void add_limit(Text *t, const char *key, int64_t value, int64_t none)
{
    if (value == none)
        text_add(t, ", \"%s\": null", key);
    else
        text_add(t, ", \"%s\": %lld", key, (long long)value);
}

static void add_dims(const Module *m, Text *t)
{
    text_add(t, "  \"dims\": [");
    for (uint32_t i = 0; i < m->dims.len; i++) {
        const Dim *d = &m->dims.at[i];
        text_add(t, "%s\n    {\"name\": \"%s\"", i ? "," : "", d->name);
        add_limit(t, "constant", d->constant, -1);
        add_limit(t, "max", d->max, -1);
        text_add(t, ", \"multiple\": %lld, \"prefer\": %lld}", (long long)d->multiple, (long long)d->prefer);
    }
    text_add(t, "],\n");
}

static void add_groups(const Module *m, Text *t)
{
    text_add(t, "  \"groups\": [");
    for (uint32_t i = 0; i < m->groups.len; i++) {
        const Group *g = &m->groups.at[i];
        text_add(t, "%s\n    {\"name\": \"%s\", \"kind\": \"%s\", \"groups\": ", i ? "," : "", g->name,
                 g->kind == GROUP_CAPACITY ? "capacity" : "rows");
        add_extent(m, g->groups, t);
        text_add(t, ", \"size\": ");
        add_extent(m, g->size, t);
        text_add(t, ", \"rows\": ");
        add_extent(m, g->rows, t);
        text_add(t, "}");
    }
    text_add(t, "],\n");
}

/* What a caller needs of a packed parameter: the layout, and the functions and their dimensions. */
static void add_packed(const Kernel *k, TensorId id, Text *t)
{
    const Tensor *p = &k->tensors.at[id];
    DimId *dims = arena_array(t->arena, DimId, k->module->dims.len + 1);
    uint32_t n = ir_tensor_dims(k, id, dims);
    text_add(t,
             ", \"packed\": {\"layout\": \"0x%llx\", \"both\": %s, \"bytes\": \"%s_%s_pack_bytes\", "
             "\"pack\": \"%s_%s_pack\", \"dims\": [",
             (unsigned long long)MOE_PACKED_LAYOUT + p->elem + (p->both ? MOE_PACKED_BOTH : 0),
             p->both ? "true" : "false", k->name, p->name, k->name, p->name);
    for (uint32_t i = 0; i < n; i++)
        text_add(t, "%s\"%s\"", i ? ", " : "", k->module->dims.at[dims[i]].name);
    text_add(t, "]}");
}

static void add_tensor(const Kernel *k, TensorId id, Text *t)
{
    const Tensor *p = &k->tensors.at[id];
    int by_value = p->rank == 0 && p->role == ROLE_IN;
    text_add(t, "{\"name\": \"%s\", \"kind\": \"%s\", \"role\": \"%s\", \"type\": \"%s\", \"shape\": [",
             p->name, by_value ? "scalar" : "tensor", role_name(p->role), elem_name(p->elem));
    for (uint32_t i = 0; i < p->rank; i++) {
        text_add(t, i ? ", " : "");
        add_extent(k->module, p->axes[i].extent, t);
    }
    text_add(t, "]");
    if (p->unread)
        text_add(t, ", \"read\": false");
    if (p->layout == LAYOUT_PAIRS)
        add_packed(k, id, t);
    text_add(t, "}");
}

static void add_route(const Kernel *k, const Route *r, Text *t)
{
    text_add(t, "{\"name\": \"%s\", \"kind\": \"route\", \"role\": \"%s\", \"tokens\": ", r->name,
             role_name(r->role));
    add_extent(k->module, r->tokens, t);
    text_add(t, ", \"choices\": ");
    add_extent(k->module, r->choices, t);
    text_add(t, ", \"group\": \"%s\"}", k->module->groups.at[r->group].name);
}

static void add_code(Name kernel, Text *t)
{
    text_add(t,
             "\"function\": \"%s\", \"entry\": \"%s__call\",\n     \"workspace\": "
             "\"%s_workspace\", "
             "\"workspace_entry\": \"%s__workspace\",\n     ",
             kernel, kernel, kernel, kernel);
}

static void add_kernel(const Kernel *k, int has_code, Text *t)
{
    DimId *dims = arena_array(t->arena, DimId, k->module->dims.len + 1);
    uint32_t ndims = ir_kernel_dims(k, dims);
    text_add(t, "{\"name\": \"%s\", ", k->name);
    if (has_code)
        add_code(k->name, t);
    text_add(t, "\"dims\": [");
    for (uint32_t i = 0; i < ndims; i++)
        text_add(t, "%s\"%s\"", i ? ", " : "", k->module->dims.at[dims[i]].name);
    text_add(t, "],\n     \"params\": [");
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        text_add(t, "%s\n       ", i ? "," : "");
        if (p.kind == PARAM_ROUTE)
            add_route(k, &k->routes.at[p.id], t);
        else
            add_tensor(k, p.id, t);
    }
    text_add(t, "]}");
}

/* ---- pairs ---- */

/* A key that some objects lack; name NULL: this one does. */
static void add_name(Text *t, const char *key, Name name)
{
    if (name)
        text_add(t, ", \"%s\": \"%s\"", key, name);
}

static void add_gradients(const DerivedPair *p, Text *t)
{
    text_add(t, "],\n     \"gradients\": [");
    for (uint32_t i = 0; i < p->gradients.len; i++) {
        const struct PairGradient *g = &p->gradients.at[i];
        text_add(t, "%s{\"input\": \"%s\"", i ? ", " : "", g->input);
        add_name(t, "param", g->param);
        add_name(t, "output", g->output);
        text_add(t, ", \"mode\": \"%s\"%s}", signature_modes[g->mode], g->later ? ", \"later\": true" : "");
    }
}

static void add_pair(const DerivedPair *p, Text *t)
{
    text_add(t, "{\"from\": \"%s\", \"forward\": \"%s\", \"backward\": \"%s\"", p->from, p->forward,
             p->backward);
    add_name(t, "later", p->later);
    text_add(t, ",\n     \"saved\": [");
    for (uint32_t i = 0; i < p->saved.len; i++)
        text_add(t, "%s{\"local\": \"%s\", \"param\": \"%s\", \"type\": \"%s\"}", i ? ", " : "",
                 p->saved.at[i].local, p->saved.at[i].param, p->saved.at[i].type);
    text_add(t, "],\n     \"cotangents\": [");
    for (uint32_t i = 0; i < p->cotangents.len; i++)
        text_add(t, "%s{\"output\": \"%s\", \"param\": \"%s\"}", i ? ", " : "", p->cotangents.at[i].output,
                 p->cotangents.at[i].param);
    add_gradients(p, t);
    text_add(t, "],\n     \"handed\": [");
    for (uint32_t i = 0; i < p->handed.len; i++)
        text_add(t, "%s\"%s\"", i ? ", " : "", p->handed.at[i]);
    text_add(t, "]}");
}

static void add_pairs(const Module *m, Text *t)
{
    text_add(t, "],\n  \"pairs\": [");
    for (uint32_t i = 0; i < m->pairs.len; i++) {
        text_add(t, "%s\n    ", i ? "," : "");
        add_pair(&m->pairs.at[i], t);
    }
    text_add(t, "]");
}

static void add_types(const Module *m, Text *t)
{
    text_add(t, "  \"types\": [");
    for (uint32_t i = 0; i < m->types.len; i++)
        text_add(t, "%s{\"name\": \"%s\", \"type\": \"%s\"}", i ? ", " : "", m->types.at[i].name,
                 elem_name(m->types.at[i].elem));
    text_add(t, "],\n");
}

const char *manifest_text(const Module *m, const IsaList *isas, const char *build_id, Arena *a)
{
    Text t = {.arena = a};
    text_add(&t, "{\n  \"moec\": \"%s\", \"language\": 1, \"build\": \"%s\",\n  \"isas\": [", MOEC_VERSION,
             build_id);
    for (uint32_t i = 0; i < isas->n; i++)
        text_add(&t, "%s\"%s\"", i ? ", " : "", cpu_table[isas->at[i]].name);
    text_add(&t,
             "],\n  \"numerics\": {\"contract\": 1, \"arithmetic\": \"f32\", \"rounding\": \"nearest even\", "
             "\"sum_bound\": \"(n + 2) * 2^-24 * sum |terms|\", \"deterministic\": true},\n");
    add_types(m, &t);
    add_dims(m, &t);
    add_groups(m, &t);
    text_add(&t, "  \"kernels\": [");
    for (uint32_t i = 0; i < m->kernels.len + m->interfaces.len; i++) {
        int has_code = i < m->kernels.len;
        text_add(&t, "%s\n    ", i ? "," : "");
        add_kernel(has_code ? m->kernels.at[i] : m->interfaces.at[i - m->kernels.len], has_code, &t);
    }
    add_pairs(m, &t);
    text_add(&t, "\n}\n");
    return text_string(&t);
}
