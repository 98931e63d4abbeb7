/* The names of a text for editors: which are declared where, and which declaration each other one means. Works on what could be
 * parsed, by scopes alone, so that a text with mistakes has an outline too. */
#include "frontend/frontend.h"

#include "frontend/sema.h"

typedef struct Outliner {
    Outline *out;
    Arena *arena;
    uint32_t file;       /* names of other files are declared only */
    Vec(uint32_t) scope; /* declarations that may be meant, the innermost last */
    Name kernel;         /* that is walked, or NULL */
} Outliner;

/* ---- scopes ---- */

static uint32_t add(Outliner *o, AstName name, OutlineKind kind, uint32_t declared)
{
    vec_push(o->arena, &o->out->names, (OutlineName){name.name, name.loc, kind, declared, o->kernel});
    return o->out->names.len - 1;
}

static void declare(Outliner *o, AstName name, OutlineKind kind)
{
    if (!name.name)
        return;
    uint32_t id = add(o, name, kind, o->out->names.len);
    vec_push(o->arena, &o->scope, id);
}

static uint32_t lookup(const Outliner *o, Name name)
{
    for (uint32_t i = o->scope.len; i-- > 0;)
        if (o->out->names.at[o->scope.at[i]].name == name)
            return o->scope.at[i];
    return NONE;
}

/* The parameter or local of a kernel that was walked. */
static uint32_t lookup_in(const Outliner *o, Name kernel, Name name)
{
    for (uint32_t i = 0; i < o->out->names.len; i++) {
        const OutlineName *n = &o->out->names.at[i];
        int is_tensor = n->kind == OUTLINE_PARAM || n->kind == OUTLINE_LOCAL;
        if (n->declared == i && is_tensor && n->kernel == kernel && n->name == name)
            return i;
    }
    return NONE;
}

static void refer_to(Outliner *o, AstName name, uint32_t declared)
{
    if (declared != NONE && name.loc.file == o->file)
        add(o, name, o->out->names.at[declared].kind, declared);
}

/* A name that nothing declares is a function of the language, or a mistake. */
static void refer(Outliner *o, AstName name)
{
    uint32_t declared = name.name ? lookup(o, name.name) : NONE;
    if (declared != NONE)
        refer_to(o, name, declared);
    else if (name.name && name.loc.file == o->file)
        add(o, name, OUTLINE_WORD, NONE);
}

/* ---- expressions ---- */

static void walk(Outliner *o, const AstExpr *e);

static void walk_bind(Outliner *o, const AstBind *b)
{
    walk(o, b->in);
    walk(o, b->extent);
    declare(o, b->index, OUTLINE_INDEX);
}

static void walk_reduce(Outliner *o, const AstExpr *e)
{
    uint32_t outside = o->scope.len;
    for (uint32_t i = 0; i < e->binds->list.len; i++)
        walk_bind(o, &e->binds->list.at[i]);
    walk(o, e->condition);
    walk(o, e->args[0]);
    o->scope.len = outside;
}

static void walk(Outliner *o, const AstExpr *e)
{
    if (!e)
        return;
    if (e->kind == AST_REDUCE) {
        walk_reduce(o, e);
        return;
    }
    if (e->kind == AST_NAME || e->kind == AST_ACCESS || e->kind == AST_CALL || e->kind == AST_MAP)
        refer(o, e->name);
    for (uint32_t i = 0; i < e->nargs; i++)
        walk(o, e->args[i]);
}

static void walk_all(Outliner *o, const AstExprs *list)
{
    for (uint32_t i = 0; list && i < list->list.len; i++)
        walk(o, list->list.at[i]);
}

/* ---- kernels ---- */

static void walk_params(Outliner *o, const AstParams *params)
{
    const AstType *last = NULL; /* of several names */
    for (uint32_t i = 0; i < params->list.len; i++) {
        const AstParam *p = &params->list.at[i];
        if (p->type != last) {
            refer(o, p->type->elem);
            walk_all(o, p->type->extents);
            refer(o, p->type->group);
        }
        declare(o, p->name, OUTLINE_PARAM);
        last = p->type;
    }
}

/* The left side: a tensor, which its first equation declares, and the indices of this equation. */
static void walk_left(Outliner *o, const AstLhs *lhs)
{
    for (uint32_t i = 0; lhs->subscripts && i < lhs->subscripts->list.len; i++) {
        const AstSubscript *s = &lhs->subscripts->list.at[i];
        walk(o, s->extent);
        if (s->value->kind == AST_NAME && lookup(o, s->value->name.name) == NONE)
            declare(o, s->value->name, OUTLINE_INDEX);
        else
            walk(o, s->value);
    }
}

static void walk_equation(Outliner *o, const AstEquation *q)
{
    const AstLhs *sides[] = {q->lhs, q->ids_lhs};
    for (int i = 0; i < 2; i++)
        if (sides[i] && lookup(o, sides[i]->name.name) == NONE)
            declare(o, sides[i]->name, OUTLINE_LOCAL);
        else if (sides[i])
            refer(o, sides[i]->name);
    uint32_t outside = o->scope.len;
    for (int i = 0; i < 2; i++)
        if (sides[i])
            walk_left(o, sides[i]);
    refer(o, q->ids);
    refer(o, q->group);
    walk_bind(o, &q->bound);
    walk(o, q->rhs);
    o->scope.len = outside;
}

static void walk_kernel(Outliner *o, const AstDecl *d)
{
    uint32_t outside = o->scope.len;
    o->kernel = d->name.name;
    walk_params(o, d->params);
    for (uint32_t i = 0; i < d->equations->list.len; i++)
        walk_equation(o, d->equations->list.at[i]);
    o->kernel = NULL;
    o->scope.len = outside;
}

/* ---- what is about kernels ---- */

static void refer_in(Outliner *o, Name kernel, AstName name)
{
    uint32_t declared = name.name ? lookup_in(o, kernel, name.name) : NONE;
    refer_to(o, name, declared != NONE ? declared : name.name ? lookup(o, name.name) : NONE);
}

static void walk_derive(Outliner *o, const AstDecl *d)
{
    for (uint32_t i = 0; d->wrts && i < d->wrts->list.len; i++)
        refer_in(o, d->name.name, d->wrts->list.at[i].name);
    for (uint32_t i = 0; d->saves && i < d->saves->list.len; i++) {
        refer_in(o, d->name.name, d->saves->list.at[i].name);
        refer(o, d->saves->list.at[i].elem);
        refer_in(o, d->name.name, d->saves->list.at[i].in);
    }
}

static void walk_block(Outliner *o, const AstDecl *d)
{
    for (uint32_t i = 0; i < d->words->list.len; i++) {
        const AstWord *w = &d->words->list.at[i];
        if (w->kind == WORD_NAME)
            refer_in(o, d->name.name, (AstName){w->text, w->loc});
    }
}

static void walk_fn(Outliner *o, const AstDecl *d)
{
    uint32_t outside = o->scope.len;
    for (uint32_t i = 0; d->names && i < d->names->list.len; i++)
        declare(o, d->names->list.at[i], OUTLINE_INDEX);
    walk(o, d->body);
    o->scope.len = outside;
}

static void walk_decl(Outliner *o, const AstDecl *d)
{
    switch (d->kind) {
    case DECL_GROUP:
        walk(o, d->groups);
        walk(o, d->size);
        break;
    case DECL_FN: walk_fn(o, d); break;
    case DECL_KERNEL: walk_kernel(o, d); break;
    case DECL_DERIVE:
        refer(o, d->name);
        walk_derive(o, d);
        break;
    case DECL_SCHEDULE:
    case DECL_TEST:
        refer(o, d->name);
        walk_block(o, d);
        break;
    case DECL_USE:
    case DECL_TYPE:
    case DECL_DIM: break;
    }
}

/* ---- declarations ---- */

static void declare_decl(Outliner *o, const AstDecl *d)
{
    switch (d->kind) {
    case DECL_TYPE: declare(o, d->name, OUTLINE_TYPE); break;
    case DECL_DIM:
        for (uint32_t i = 0; i < d->names->list.len; i++)
            declare(o, d->names->list.at[i], OUTLINE_DIM);
        break;
    case DECL_GROUP: declare(o, d->name, OUTLINE_GROUP); break;
    case DECL_FN: declare(o, d->name, OUTLINE_FN); break;
    case DECL_KERNEL: declare(o, d->name, OUTLINE_KERNEL); break;
    case DECL_DERIVE:
        declare(o, d->forward, OUTLINE_KERNEL);
        declare(o, d->backward, OUTLINE_KERNEL);
        declare(o, d->later, OUTLINE_KERNEL);
        break;
    case DECL_USE:
    case DECL_SCHEDULE:
    case DECL_TEST: break;
    }
}

Outline *frontend_outline(Module *m, const char *path, const char *text, size_t len)
{
    Outline *out = arena_new_of(m->arena, Outline);
    Outliner o = {.out = out, .arena = m->arena, .file = m->diags->files.len};
    const Sema *c = sema_read(m, path, text, len, (FrontendExtras){0});
    for (uint32_t i = 0; i < c->uses.len; i++)
        add(&o, c->uses.at[i], OUTLINE_FILE, NONE);
    for (uint32_t i = 0; i < c->decls.len; i++)
        declare_decl(&o, c->decls.at[i]);
    for (uint32_t i = 0; i < c->decls.len; i++)
        if (c->decls.at[i]->kind == DECL_KERNEL) /* before what names their tensors */
            walk_decl(&o, c->decls.at[i]);
    for (uint32_t i = 0; i < c->decls.len; i++)
        if (c->decls.at[i]->kind != DECL_KERNEL)
            walk_decl(&o, c->decls.at[i]);
    return out;
}
