/* The .h of a compiled module: everything a C or C++ program needs to call its kernels. */
#include "driver/driver.h"

#include <string.h>

static void add_field(Text *t, const char *type, const char *field, const char *doc)
{
    int pointer = type[strlen(type) - 1] == '*';
    text_add(t, "    %s%s%s; /* %s */\n", type, pointer ? "" : " ", field, doc);
}

/* Stands in every generated header, and in moert.h, under one guard; made from the same rows. */
static void add_shared(Text *t)
{
    text_add(
        t, "#ifndef MOE_SHARED_DECLARATIONS\n#define MOE_SHARED_DECLARATIONS\n\ntypedef enum moe_status {\n");
#define STATUS(name, text) text_add(t, "    MOE_%s, /* %s */\n", #name, text);
#include "moec/abi.def"
    text_add(t, "} moe_status;\n\nenum { MOE_MESSAGE_BYTES = 512 };\n\n"
                "/* One per calling thread; zero-initialise it. A kernel also takes NULL. */\n"
                "typedef struct moe_ctx {\n");
#define CTX(field, ctype, llvm, doc) add_field(t, #ctype, #field, doc);
#include "moec/abi.def"
    text_add(t, "} moe_ctx;\n\n"
                "/* Which expert rows each token's choices became; the caller owns the arrays. */\n"
                "typedef struct moe_route {\n");
#define ROUTE(field, ctype, llvm, doc) add_field(t, #ctype, #field, doc);
#include "moec/abi.def"
    text_add(t, "} moe_route;\n\n"
                "static inline const char *moe_strerror(int status)\n{\n    switch (status) {\n");
#define STATUS(name, text) text_add(t, "    case MOE_%s: return \"%s\";\n", #name, text);
#include "moec/abi.def"
    text_add(t, "    default: return \"not a status\";\n    }\n}\n\n#endif\n\n");
}

/* A name in a declaration is only documentation, so one that C would not take gets an underscore. */
static const char *c_name(Name name, Arena *a)
{
    static const char *const taken[] = {
        "ctx",      "alignas", "alignof",  "and",       "asm",      "auto",      "bool",     "break",
        "case",     "catch",   "char",     "class",     "const",    "constexpr", "continue", "decltype",
        "default",  "delete",  "do",       "double",    "else",     "enum",      "explicit", "export",
        "extern",   "false",   "float",    "for",       "friend",   "goto",      "if",       "inline",
        "int",      "long",    "mutable",  "namespace", "new",      "noexcept",  "not",      "nullptr",
        "operator", "or",      "private",  "protected", "public",   "register",  "restrict", "return",
        "short",    "signed",  "sizeof",   "static",    "struct",   "switch",    "template", "this",
        "throw",    "true",    "try",      "typedef",   "typename", "union",     "unsigned", "using",
        "virtual",  "void",    "volatile", "while",     "xor",      "NULL",      "int32_t",  "int64_t",
        "uint16_t", "moe_ctx", "moe_route"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], name) == 0)
            return arena_printf(a, "%s_", name);
    return name;
}

static const char *c_type(Elem e)
{
    switch (e) {
    case EL_F32: return "float";
    case EL_BF16:
    case EL_F16: return "uint16_t";
    case EL_I32: return "int32_t";
    case EL_I64: return "int64_t";
    case EL_COUNT: break;
    }
    return "void";
}

static void add_tensor(const Kernel *k, const Tensor *p, const char *end, Text *t)
{
    const char *name = c_name(p->name, t->arena);
    int by_value = p->rank == 0 && p->role == ROLE_IN;
    text_add(t, "%s%s %s%s%s /* %s %s", p->role == ROLE_IN && !by_value ? "const " : "", c_type(p->elem),
             by_value ? "" : "*", name, end, role_name(p->role), elem_name(p->elem));
    for (uint32_t i = 0; i < p->rank; i++) {
        text_add(t, i ? ", " : "[");
        axis_print(k->module, p->axes[i], t);
    }
    text_add(t, "%s%s%s */\n", p->rank ? "]" : "", p->layout == LAYOUT_PAIRS ? " packed" : "",
             p->both ? " both" : "");
}

/* The two functions of a packed parameter. Pointers have no names here: a dimension might have the same. */
static void add_pack(const Kernel *k, TensorId id, Text *t)
{
    const Tensor *p = &k->tensors.at[id];
    DimId *dims = arena_array(t->arena, DimId, k->module->dims.len + 1);
    uint32_t n = ir_tensor_dims(k, id, dims);
    text_add(t, "size_t %s_%s_pack_bytes(", k->name, p->name);
    for (uint32_t i = 0; i < n; i++)
        text_add(t, "%sint64_t %s", i ? ", " : "", c_name(k->module->dims.at[dims[i]].name, t->arena));
    text_add(t, "%s); /* memory of %s; 0: too large */\nint %s_%s_pack(", n ? "" : "void", p->name, k->name,
             p->name);
    for (uint32_t i = 0; i < n; i++)
        text_add(t, "int64_t %s, ", c_name(k->module->dims.at[dims[i]].name, t->arena));
    text_add(t, "const %s * /* row-major */,\n        %s * /* packed */);\n", c_type(p->elem),
             c_type(p->elem));
}

static void add_route(const Kernel *k, const Route *r, const char *end, Text *t)
{
    text_add(t, "%smoe_route *%s%s /* %s route[", r->role == ROLE_IN ? "const " : "",
             c_name(r->name, t->arena), end, role_name(r->role));
    ext_print(k->module, r->tokens, t);
    text_add(t, ", ");
    ext_print(k->module, r->choices, t);
    text_add(t, " -> %s] */\n", k->module->groups.at[r->group].name);
}

static void add_kernel(const Kernel *k, Text *t)
{
    const Module *m = k->module;
    DimId *dims = arena_array(t->arena, DimId, m->dims.len + 1);
    uint32_t ndims = ir_kernel_dims(k, dims);
    text_add(t, "int %s(moe_ctx *ctx", k->name);
    for (uint32_t i = 0; i < ndims; i++)
        text_add(t, ", int64_t %s", c_name(m->dims.at[dims[i]].name, t->arena));
    text_add(t, k->params.len ? ",\n" : ");\n");
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        const char *end = i + 1 < k->params.len ? "," : ");";
        text_add(t, "        ");
        if (p.kind == PARAM_ROUTE)
            add_route(k, &k->routes.at[p.id], end, t);
        else
            add_tensor(k, &k->tensors.at[p.id], end, t);
    }
    text_add(t, "int64_t %s_workspace(", k->name);
    for (uint32_t i = 0; i < ndims; i++)
        text_add(t, "%sint64_t %s", i ? ", " : "", c_name(m->dims.at[dims[i]].name, t->arena));
    text_add(t, "%s); /* bytes of work space of a call; -1: out of range */\n", ndims ? "" : "void");
    for (uint32_t i = 0; i < k->params.len; i++)
        if (k->params.at[i].kind == PARAM_TENSOR && k->tensors.at[k->params.at[i].id].layout == LAYOUT_PAIRS)
            add_pack(k, k->params.at[i].id, t);
    text_add(t, "\n");
}

static void add_dims(const Module *m, Text *t)
{
    for (uint32_t i = 0; i < m->dims.len; i++) {
        const Dim *d = &m->dims.at[i];
        text_add(t, " *   %s", d->name);
        if (d->constant >= 0)
            text_add(t, " = %lld, not passed", (long long)d->constant);
        if (d->max >= 0)
            text_add(t, " <= %lld", (long long)d->max);
        if (d->multiple > 1)
            text_add(t, ", a multiple of %lld", (long long)d->multiple);
        text_add(t, "\n");
    }
    for (uint32_t i = 0; i < m->groups.len; i++) {
        const Group *g = &m->groups.at[i];
        text_add(t, " *   %s: ", g->name);
        ext_print(m, g->groups, t);
        text_add(t, g->kind == GROUP_CAPACITY ? " runs of " : " runs, together at most ");
        ext_print(m, g->size, t);
        text_add(t, g->kind == GROUP_CAPACITY ? " places\n" : " rows\n");
    }
}

const char *header_text(const Module *m, Arena *a)
{
    Text body = {.arena = a}, t = {.arena = a};
    char hash[33];
    text_add(&body,
             "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    add_shared(&body);
    text_add(
        &body,
        "/* Each returns a moe_status: 0 is success, moe_strerror() has the text, ctx->message the details.\n"
        " * bf16 and f16 are passed as their bits. Packed memory is made by KERNEL_PARAM_pack(). Sizes:\n");
    add_dims(m, &body);
    text_add(&body, " */\n\n");
    for (uint32_t i = 0; i < m->kernels.len; i++)
        add_kernel(m->kernels.at[i], &body);
    text_add(&body, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    hash_hex(text_string(&body), body.len, hash);
    hash[16] = '\0';
    text_add(
        &t,
        "/* Written by moec %s; do not edit. */\n#ifndef MOEC_KERNELS_%s_H\n#define MOEC_KERNELS_%s_H\n\n",
        MOEC_VERSION, hash, hash);
    text_add_bytes(&t, body.at, body.len);
    return text_string(&t);
}
