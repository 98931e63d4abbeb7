/* `type act = bf16`: element types by name.
 *
 * Note [Type parameters]. After the checker a program holds plain element types only. The checker itself treats a type
 * parameter as a type of its own, whatever it stands for: a value of another type needs the cast act(x) where a tensor of act
 * takes it, also if both are f32. So a file that is right for one choice is right for each. The cast is the function
 * `fn act(x) = bf16(x)`. */
#include "frontend/words.h"

#include "frontend/advice.h"

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

static Guess guess_type(Sema *c, Name wanted)
{
    Guess g = guess_new(wanted);
    for (uint32_t i = 0; i < c->m->types.len; i++)
        guess_try(&g, c->m->types.at[i].name);
    return g;
}

/* What is said about a type that nobody declared, after its message. */
static const char *type_help(Sema *c, const Guess *g)
{
    if (habit_type(g->wanted))
        return arena_printf(c->arena, "there are f32, bf16, f16 and i32: write %s", habit_type(g->wanted));
    return guess_help(c->arena, g,
                      arena_printf(c->arena, "declare it above, as in type %s = bf16", g->wanted));
}

int sema_elem(Sema *c, AstName name, Elem *out)
{
    uint32_t type = namemap_get(&c->types, name.name);
    if (type != NAME_ABSENT)
        *out = c->m->types.at[type].elem;
    if (type != NAME_ABSENT || find_plain(name.name, out))
        return 1;
    if (c->broken)
        return 0;
    Guess g = guess_type(c, name.name);
    diag_add(c->m->diags, DIAG_unknown_type, name.loc, type_help(c, &g), "there is no type %s", name.name);
    if (habit_type(name.name))
        diag_edit(c->m->diags, name.loc, habit_type(name.name));
    else
        guess_edit(c->m->diags, &g, name.loc);
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
    const char *copy = arena_strdup(c->arena, text);
    WordReader r = {.c = c, .code = DIAG_driver_types, .end = "the end"};
    const char *option = arena_printf(c->arena, "--type %s", copy);
    r.words = parser_read_words(c->m, diag_add_file(c->m->diags, option, copy, strlen(copy)), copy);
    r.failed = !r.words;
    for (uint32_t i = 0; r.words && i < r.words->list.len; i++)
        r.words->list.at[i].loc.line = 0; /* the option is its own place */
    if (r.words && !r.words->list.len) {
        diag_add(c->m->diags, DIAG_driver_types, (Loc){0}, "write --type NAME=TYPE",
                 "--type gives no element type");
        return;
    }
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
        if (!c->given.at[i].used) {
            Guess g = guess_type(c, c->given.at[i].name.name);
            diag_add(c->m->diags, DIAG_driver_types, c->given.at[i].name.loc, type_help(c, &g),
                     "the program declares no type %s", g.wanted);
        }
}

/* ---- which values have the type of a parameter ---- */

/* What a value has its type from, as far as it is known. */
typedef struct TypeWalk {
    const Sema *c;
    const KernelSema *kernel; /* of an equation, or NULL */
    Fn *fn;                   /* whose body it is, or NULL */
    uint32_t type;
} TypeWalk;

static void join_type(TypeWalk *w, uint32_t type)
{
    w->type = w->type == TYPE_OPEN || w->type == type ? type : TYPE_MIXED;
}

static void join_argument(TypeWalk *w, uint32_t argument)
{
    for (uint32_t i = 0; i < w->fn->passed.len; i++)
        if (w->fn->passed.at[i] == argument)
            return;
    vec_push(w->c->arena, &w->fn->passed, argument);
}

static void join_name(TypeWalk *w, Name name)
{
    if (w->kernel) {
        join_type(w, namemap_get(&w->kernel->typed, name));
        return;
    }
    const AstNames *names = w->fn->decl->names;
    for (uint32_t i = 0; i < names->list.len; i++)
        if (names->list.at[i].name == name) {
            join_argument(w, i);
            return;
        }
    join_type(w, TYPE_PLAIN);
}

static void join_value(TypeWalk *w, const AstExpr *e);

static void join_call(TypeWalk *w, const AstExpr *e)
{
    uint32_t id = namemap_get(&w->c->functions, e->name.name);
    if (id == NAME_ABSENT) {
        if (scalar_find(e->name.name) == OP_stop || scalar_find(e->name.name) == OP_shift)
            join_value(w, e->args[0]);
        else
            join_type(w, TYPE_PLAIN);
        return;
    }
    const Fn *fn = &w->c->fns.at[id];
    if (fn->type != TYPE_OPEN)
        join_type(w, fn->type);
    for (uint32_t i = 0; i < fn->passed.len; i++)
        join_value(w, e->args[fn->passed.at[i]]);
}

/* A cast gives its type, an access that of its tensor; `stop`, `shift`, `if` and functions pass types on. */
static void join_value(TypeWalk *w, const AstExpr *e)
{
    if (e->kind == AST_NAME || e->kind == AST_ACCESS) {
        join_name(w, e->name.name);
    } else if (e->kind == AST_CALL) {
        join_call(w, e);
    } else if (e->kind == AST_IF) {
        join_value(w, e->args[1]);
        join_value(w, e->args[2]);
    } else {
        join_type(w, TYPE_PLAIN);
    }
}

void sema_type_fn(const Sema *c, Fn *fn)
{
    TypeWalk w = {.c = c, .fn = fn, .type = TYPE_OPEN};
    if (fn->decl->kind == DECL_TYPE)
        w.type = namemap_get(&c->types, fn->decl->name.name);
    else
        join_value(&w, fn->decl->body);
    fn->type = w.type;
}

uint32_t sema_type_param(const KernelSema *c, const AstExpr *e)
{
    TypeWalk w = {.c = c->c, .kernel = c, .type = TYPE_OPEN};
    join_value(&w, e);
    return w.type;
}
