/* The manifest read back; see signature.h and manifest.c. */
#include "driver/signature.h"

#include "base/json.h"

#include <string.h>

/* The first thing that is missing or of the wrong kind ends the reading: `bad` names it. */
typedef struct SigReader {
    Arena *arena;
    Signatures *out;
    const char *bad;
} SigReader;

static const char *text_at(SigReader *r, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        r->bad = r->bad ? r->bad : key;
    return text ? arena_strdup(r->arena, text) : "";
}

static const json_t *array_at(SigReader *r, const json_t *object, const char *key)
{
    const json_t *array = json_object_get(object, key);
    if (!json_is_array(array))
        r->bad = r->bad ? r->bad : key;
    return array;
}

static uint32_t dim_named(SigReader *r, const char *name)
{
    for (uint32_t i = 0; name && i < r->out->ndims; i++)
        if (strcmp(r->out->dims[i].name, name) == 0)
            return i;
    r->bad = r->bad ? r->bad : "a dimension";
    return 0;
}

static uint32_t group_named(SigReader *r, const char *name)
{
    for (uint32_t i = 0; i < r->out->ngroups; i++)
        if (strcmp(r->out->groups[i].name, name) == 0)
            return i;
    r->bad = r->bad ? r->bad : "a group";
    return 0;
}

static const uint32_t *read_dim_list(SigReader *r, const json_t *array, size_t from, uint32_t *count)
{
    size_t n = json_array_size(array);
    uint32_t *dims = arena_array(r->arena, uint32_t, n + 1);
    *count = 0;
    for (size_t i = from; i < n; i++)
        dims[(*count)++] = dim_named(r, json_string_value(json_array_get(array, i)));
    return dims;
}

static SigExtent read_extent(SigReader *r, const json_t *object)
{
    const json_t *array = array_at(r, object, "terms");
    uint32_t n = (uint32_t)json_array_size(array);
    SigTerm *terms = arena_array(r->arena, SigTerm, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *term = json_array_get(array, i);
        if (!json_is_integer(json_array_get(term, 0)))
            r->bad = r->bad ? r->bad : "a coefficient";
        terms[i].coef = json_integer_value(json_array_get(term, 0));
        terms[i].dims = read_dim_list(r, term, 1, &terms[i].ndims);
    }
    return (SigExtent){text_at(r, object, "text"), terms, n};
}

static void read_dims(SigReader *r, const json_t *root)
{
    const json_t *array = array_at(r, root, "dims");
    r->out->ndims = (uint32_t)json_array_size(array);
    r->out->dims = arena_array(r->arena, SigDim, r->out->ndims + 1);
    for (uint32_t i = 0; i < r->out->ndims; i++) {
        const json_t *object = json_array_get(array, i);
        const json_t *constant = json_object_get(object, "constant");
        r->out->dims[i] = (SigDim){text_at(r, object, "name"),
                                   json_is_integer(constant) ? json_integer_value(constant) : -1};
    }
}

static void read_groups(SigReader *r, const json_t *root)
{
    const json_t *array = array_at(r, root, "groups");
    r->out->ngroups = (uint32_t)json_array_size(array);
    r->out->groups = arena_array(r->arena, SigGroup, r->out->ngroups + 1);
    for (uint32_t i = 0; i < r->out->ngroups; i++) {
        const json_t *object = json_array_get(array, i);
        r->out->groups[i] =
            (SigGroup){text_at(r, object, "name"), read_extent(r, json_object_get(object, "groups")),
                       read_extent(r, json_object_get(object, "rows"))};
    }
}

static Elem elem_named(SigReader *r, const char *name)
{
    for (Elem e = 0; e < EL_COUNT; e++)
        if (strcmp(elem_name(e), name) == 0)
            return e;
    r->bad = r->bad ? r->bad : "a type";
    return EL_F32;
}

static void read_route(SigReader *r, const json_t *object, SigParam *p)
{
    p->kind = MOEC_ROUTE;
    p->tokens = read_extent(r, json_object_get(object, "tokens"));
    p->choices = read_extent(r, json_object_get(object, "choices"));
    p->group = group_named(r, text_at(r, object, "group"));
}

static SigParam read_param(SigReader *r, const json_t *object)
{
    const char *kind = text_at(r, object, "kind"), *role = text_at(r, object, "role");
    SigParam p = {.name = text_at(r, object, "name"),
                  .role = strcmp(role, "in") == 0    ? ROLE_IN
                          : strcmp(role, "out") == 0 ? ROLE_OUT
                                                     : ROLE_INOUT};
    if (strcmp(kind, "route") == 0) {
        read_route(r, object, &p);
        return p;
    }
    const json_t *shape = array_at(r, object, "shape");
    SigExtent *extents = arena_array(r->arena, SigExtent, json_array_size(shape) + 1);
    p.kind = strcmp(kind, "scalar") == 0 ? MOEC_SCALAR : MOEC_TENSOR;
    p.elem = elem_named(r, text_at(r, object, "type"));
    p.unread = json_is_false(json_object_get(object, "read"));
    p.rank = (uint32_t)json_array_size(shape);
    p.packed = json_is_object(json_object_get(object, "packed"));
    p.both = json_is_true(json_object_get(json_object_get(object, "packed"), "both"));
    for (uint32_t i = 0; i < p.rank; i++)
        extents[i] = read_extent(r, json_array_get(shape, i));
    p.shape = extents;
    return p;
}

static void read_kernel(SigReader *r, const json_t *object, SigKernel *k)
{
    const json_t *array = array_at(r, object, "params");
    k->name = text_at(r, object, "name");
    if (json_object_get(object, "entry")) {
        k->entry = text_at(r, object, "entry");
        k->workspace = text_at(r, object, "workspace_entry");
    }
    k->dims = read_dim_list(r, array_at(r, object, "dims"), 0, &k->ndims);
    k->nparams = (uint32_t)json_array_size(array);
    SigParam *params = arena_array(r->arena, SigParam, k->nparams + 1);
    for (uint32_t i = 0; i < k->nparams; i++)
        params[i] = read_param(r, json_array_get(array, i));
    k->params = params;
}

static void read_kernels(SigReader *r, const json_t *root)
{
    const json_t *array = array_at(r, root, "kernels");
    r->out->nkernels = (uint32_t)json_array_size(array);
    r->out->kernels = arena_array(r->arena, SigKernel, r->out->nkernels + 1);
    for (uint32_t i = 0; i < r->out->nkernels; i++)
        read_kernel(r, json_array_get(array, i), &r->out->kernels[i]);
}

/* ---- pairs ---- */

const char *const signature_modes[4] = {"write", "write_f32", "add", "pass"};

/* The text at the key, NULL if there is none. */
static const char *maybe_text_at(SigReader *r, const json_t *object, const char *key)
{
    return json_object_get(object, key) ? text_at(r, object, key) : NULL;
}

static moec_mode read_mode(SigReader *r, const json_t *object)
{
    const char *name = text_at(r, object, "mode");
    for (int mode = 0; mode < 4; mode++)
        if (strcmp(signature_modes[mode], name) == 0)
            return (moec_mode)mode;
    r->bad = r->bad ? r->bad : "a mode";
    return MOEC_WRITE;
}

static moec_saved read_saved(SigReader *r, const json_t *object)
{
    return (moec_saved){text_at(r, object, "local"), text_at(r, object, "param"), text_at(r, object, "type")};
}

static moec_cotangent read_cotangent(SigReader *r, const json_t *object)
{
    return (moec_cotangent){text_at(r, object, "output"), text_at(r, object, "param")};
}

static moec_gradient read_gradient(SigReader *r, const json_t *object)
{
    return (moec_gradient){.input = text_at(r, object, "input"),
                           .param = maybe_text_at(r, object, "param"),
                           .output = maybe_text_at(r, object, "output"),
                           .mode = read_mode(r, object),
                           .later = json_is_true(json_object_get(object, "later"))};
}

static const char *read_handed(SigReader *r, const json_t *text)
{
    const char *name = json_string_value(text);
    if (!name)
        r->bad = r->bad ? r->bad : "handed";
    return name ? arena_strdup(r->arena, name) : "";
}

/* The elements of an array as a C array of type, and how many there are. */
#define READ_ARRAY(r, object, key, type, read, out, count)                      \
    do {                                                                        \
        const json_t *array_ = array_at(r, object, key);                        \
        type *at_ = arena_array((r)->arena, type, json_array_size(array_) + 1); \
        for (size_t i_ = 0; i_ < json_array_size(array_); i_++)                 \
            at_[i_] = read(r, json_array_get(array_, i_));                      \
        *(out) = at_;                                                           \
        *(count) = json_array_size(array_);                                     \
    } while (0)

static SigPair read_pair(SigReader *r, const json_t *object)
{
    SigPair p = {.pair = {text_at(r, object, "from"), text_at(r, object, "forward"),
                          text_at(r, object, "backward"), maybe_text_at(r, object, "later"), 0, 0, 0, 0}};
    READ_ARRAY(r, object, "saved", moec_saved, read_saved, &p.saved, &p.pair.saved);
    READ_ARRAY(r, object, "cotangents", moec_cotangent, read_cotangent, &p.cotangents, &p.pair.cotangents);
    READ_ARRAY(r, object, "gradients", moec_gradient, read_gradient, &p.gradients, &p.pair.gradients);
    READ_ARRAY(r, object, "handed", const char *, read_handed, &p.handed, &p.pair.handed);
    return p;
}

static void read_pairs(SigReader *r, const json_t *root)
{
    size_t n;
    READ_ARRAY(r, root, "pairs", SigPair, read_pair, &r->out->pairs, &n);
    r->out->npairs = (uint32_t)n;
}

const char *signature_read(const char *manifest, Arena *a, Signatures *out)
{
    json_error_t error;
    SigReader r = {.arena = a, .out = out};
    json_t *root = json_loads(manifest, 0, &error);
    if (!root)
        return arena_printf(a, "the manifest is not JSON: %s", error.text);
    read_dims(&r, root);
    read_groups(&r, root);
    read_kernels(&r, root);
    read_pairs(&r, root);
    json_decref(root);
    return r.bad ? arena_printf(a, "the manifest is wrong at \"%s\"", r.bad) : NULL;
}
