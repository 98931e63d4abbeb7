/* `type act = bf16`: element types by name.
 *
 * Note [Type parameters]. After the checker a program holds plain element types only. The checker itself treats a type
 * parameter as a type of its own, whatever it stands for: a value of another type needs the cast act(x) where a tensor of act
 * takes it, also if both are f32. So a file that is right for one choice is right for each. The cast is the function
 * `fn act(x) = bf16(x)`. */
#include "frontend/words.h"

#include "frontend/parser.h"

#include <string.h>

/* ---- what a name stands for ---- */

static int find_plain(const char *text, Elem *out)
{
    static const Elem plain[] = {EL_F32, EL_BF16, EL_F16, EL_I32};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(elem_name(plain[i]), text) == 0) {
            *out = plain[i];
            return 1;
        }
    return 0;
}

static const char *guess_type(Sema *c, Name wanted)
{
    Guess g = guess_new(wanted);
    for (uint32_t i = 0; i < c->m->types.len; i++)
        guess_try(&g, c->m->types.at[i].name);
    return guess_help(c->arena, &g, arena_printf(c->arena, "declare it: type %s = bf16", wanted));
}

int sema_elem(Sema *c, AstName name, Elem *out)
{
    uint32_t type = namemap_get(&c->types, name.name);
    if (type != NAME_ABSENT)
        *out = c->m->types.at[type].elem;
    if (type != NAME_ABSENT || find_plain(name.name, out))
        return 1;
    if (!c->broken)
        diag_add(c->m->diags, DIAG_unknown_type, name.loc, guess_type(c, name.name), "there is no type %s",
                 name.name);
    return 0;
}

/* ---- declarations ---- */

static GivenType *find_given(Sema *c, Name name)
{
    for (uint32_t i = 0; i < c->given.len; i++)
        if (c->given.at[i].name.name == name)
            return &c->given.at[i];
    return NULL;
}

static int declared_elem(Sema *c, AstName name, Elem *out)
{
    if (!sema_elem(c, name, out))
        return 0;
    if (type_is_float(elem_type(*out)))
        return 1;
    diag_add(c->m->diags, DIAG_type_value, name.loc, "write f32, bf16 or f16", "%s is no float type",
             name.name);
    return 0;
}

void sema_type(Sema *c, const AstDecl *d)
{
    AstName *value = &d->body->name;
    TypeParam type = {.name = d->name.name};
    GivenType *given = find_given(c, type.name);
    if (!declared_elem(c, *value, &type.elem) || !sema_add_function(c, d)) {
        c->broken = 1; /* names that lead to it are not reported again */
        return;
    }
    if (given) {
        given->used = 1;
        type.elem = given->elem;
        value->name = name_of(c->m->names, elem_name(type.elem));
    }
    namemap_set(&c->types, type.name, c->m->types.len);
    vec_push(c->arena, &c->m->types, type);
}

/* ---- types that are given beside the file ---- */

static void read_given(WordReader *r)
{
    GivenType given = {.used = 0};
    given.name.name = word_name(r, "the name of a `type`", &given.name.loc);
    if (r->failed || !word_expect(r, "="))
        return;
    if (!find_plain(word_at(r)->text, &given.elem) || !type_is_float(elem_type(given.elem))) {
        word_refuse(r, "f32, bf16 or f16");
        return;
    }
    r->at++;
    if (!find_given(r->c, given.name.name)) {
        vec_push(r->c->arena, &r->c->given, given);
        return;
    }
    diag_add(r->c->m->diags, r->code, given.name.loc, "give it one type", "%s is given two types",
             given.name.name);
    r->failed = 1;
}

void sema_take_types(Sema *c, const char *text)
{
    const char *copy = arena_strndup(c->arena, text, strlen(text));
    WordReader r = {.c = c, .code = DIAG_driver_types, .end = "the end"};
    r.words = parser_read_words(c->m, diag_add_file(c->m->diags, "<types>", copy, strlen(copy)), copy);
    r.failed = !r.words;
    while (!r.failed) {
        read_given(&r);
        if (r.failed || r.at == r.words->list.len)
            return;
        word_expect(&r, ",");
    }
}

void sema_types_used(Sema *c)
{
    for (uint32_t i = 0; i < c->given.len && !c->broken; i++)
        if (!c->given.at[i].used)
            diag_add(c->m->diags, DIAG_driver_types, c->given.at[i].name.loc,
                     guess_type(c, c->given.at[i].name.name), "the program declares no type %s",
                     c->given.at[i].name.name);
}

/* ---- which values have the type of a parameter ---- */

/* The call of a function whose body is looked at. */
typedef struct TypeCall {
    const AstDecl *fn;
    const AstExpr *call;
    const struct TypeCall *outer; /* that the call stands in; NULL: an equation */
} TypeCall;

static uint32_t param_in(const KernelSema *c, const AstExpr *e, const TypeCall *in);

static uint32_t param_of_argument(const KernelSema *c, const AstExpr *e, const TypeCall *in)
{
    for (uint32_t i = 0; i < in->call->nargs; i++)
        if (in->fn->names->list.at[i].name == e->name.name)
            return param_in(c, in->call->args[i], in->outer);
    return NAME_ABSENT;
}

/* A cast gives its type, an access that of its tensor; `stop` and functions pass it on; all else is f32. */
static uint32_t param_in(const KernelSema *c, const AstExpr *e, const TypeCall *in)
{
    if (e->kind == AST_NAME && in)
        return param_of_argument(c, e, in);
    if (e->kind == AST_NAME || e->kind == AST_ACCESS)
        return namemap_get(&c->typed, e->name.name);
    if (e->kind != AST_CALL)
        return NAME_ABSENT;
    uint32_t fn = namemap_get(&c->c->functions, e->name.name), type = namemap_get(&c->c->types, e->name.name);
    if (fn == NAME_ABSENT)
        return scalar_find(e->name.name) == OP_stop ? param_in(c, e->args[0], in) : NAME_ABSENT;
    const AstDecl *d = c->c->fns.at[fn].decl;
    return type != NAME_ABSENT ? type : param_in(c, d->body, &(TypeCall){d, e, in});
}

uint32_t sema_type_param(const KernelSema *c, const AstExpr *e) { return param_in(c, e, NULL); }
