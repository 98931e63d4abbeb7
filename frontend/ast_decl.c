/* Declarations and equations of the syntax tree. Words that are ordinary names elsewhere are looked at here.
 */
#include "frontend/parser.h"

#include <string.h>

/* A word that means something in this clause only: says so when another stands there. */
static void expect_word(Parser *p, AstName found, const char *word)
{
    if (!found.name || strcmp(found.name, word) == 0)
        return;
    diag_add(p->m->diags, DIAG_syntax, found.loc, arena_printf(p->arena, "write `%s`", word),
             "`%s` cannot stand here; expected `%s`", found.name, word);
    diag_edit(p->m->diags, found.loc, word);
    p->file->broken = 1;
}

static AstDecl *new_decl(Parser *p, AstDeclKind kind, Loc loc, AstName name)
{
    AstDecl *d = arena_new_of(p->arena, AstDecl);
    d->kind = kind;
    d->loc = loc;
    d->name = name;
    return d;
}

/* ---- equations ---- */

AstLhs *ast_lhs(Parser *p, Loc loc, AstName name, const AstSubscripts *subscripts)
{
    AstLhs *lhs = arena_new_of(p->arena, AstLhs);
    *lhs = (AstLhs){name, loc, subscripts};
    return lhs;
}

AstEquation *ast_equation(Parser *p, Loc loc, EqKind kind, const AstLhs *lhs, AstExpr *rhs)
{
    AstEquation *q = arena_new_of(p->arena, AstEquation);
    *q = (AstEquation){.kind = kind, .loc = loc, .lhs = lhs, .rhs = rhs};
    return q;
}

AstEquation *ast_top(Parser *p, Loc loc, const AstLhs *lhs, const AstLhs *ids, AstBind bound, AstExpr *rhs)
{
    AstEquation *q = ast_equation(p, loc, EQ_TOP, lhs, rhs);
    q->ids_lhs = ids;
    q->bound = bound;
    return q;
}

AstEquation *ast_route(Parser *p, Loc loc, const AstLhs *lhs, AstName ids, AstName group)
{
    AstEquation *q = ast_equation(p, loc, EQ_ROUTE, lhs, NULL);
    q->ids = ids;
    q->group = group;
    return q;
}

AstEquations *ast_add_equation(Parser *p, AstEquations *list, const AstEquation *q)
{
    list = list ? list : arena_new_of(p->arena, AstEquations);
    if (q)
        vec_push(p->arena, &list->list, q);
    else
        list->broken = 1;
    return list;
}

/* ---- parameters ---- */

AstName ast_elem(Parser *p, Loc loc, Elem elem)
{
    return (AstName){name_of(p->m->names, elem_name(elem)), loc};
}

AstPacked ast_packed(Parser *p, Loc loc, AstName both)
{
    expect_word(p, both, "both");
    return (AstPacked){loc, both.name != NULL};
}

AstType *ast_tensor_type(Parser *p, Loc loc, AstName elem, const AstExprs *extents, AstPacked packed)
{
    AstType *t = arena_new_of(p->arena, AstType);
    *t = (AstType){.loc = loc, .elem = elem, .extents = extents, .packed = packed};
    return t;
}

AstType *ast_route_type(Parser *p, Loc loc, AstExpr *tokens, AstExpr *choices, AstName group)
{
    AstType *t = arena_new_of(p->arena, AstType);
    const AstExprs *extents = ast_add_expr(p, ast_add_expr(p, NULL, tokens), choices);
    *t = (AstType){.loc = loc, .is_route = 1, .extents = extents, .group = group};
    return t;
}

AstParams *ast_params(Parser *p, Role role, const AstNames *names, const AstType *type)
{
    AstParams *list = arena_new_of(p->arena, AstParams);
    for (uint32_t i = 0; i < names->list.len; i++)
        vec_push(p->arena, &list->list, (AstParam){role, names->list.at[i], type});
    return list;
}

AstParams *ast_add_params(Parser *p, AstParams *list, AstParams *more)
{
    for (uint32_t i = 0; i < more->list.len; i++)
        vec_push(p->arena, &list->list, more->list.at[i]);
    return list;
}

/* ---- declarations ---- */

AstDecl *ast_use(Parser *p, Loc loc, AstName path) { return new_decl(p, DECL_USE, loc, path); }

AstDecl *ast_dim_rule(Parser *p, AstInt multiple, AstName word, AstInt prefer)
{
    expect_word(p, word, "prefer");
    AstDecl *d = new_decl(p, DECL_DIM, multiple.loc, (AstName){NULL, multiple.loc});
    d->multiple = multiple;
    d->prefer = prefer;
    return d;
}

AstDecl *ast_dim(Parser *p, Loc loc, const AstNames *names, AstInt max, const AstDecl *rule, AstInt constant)
{
    AstInt absent = {-1, loc};
    AstDecl *d = new_decl(p, DECL_DIM, loc, (AstName){NULL, loc});
    d->names = names;
    d->max = max;
    d->multiple = rule ? rule->multiple : absent;
    d->prefer = rule ? rule->prefer : absent;
    d->constant = constant;
    return d;
}

AstDecl *ast_group_decl(Parser *p, Loc loc, AstName name, AstExpr *groups, AstName word, AstExpr *size)
{
    AstDecl *d = new_decl(p, DECL_GROUP, loc, name);
    d->groups = groups;
    d->size = size;
    d->group_kind = strcmp(word.name, "capacity") == 0 ? GROUP_CAPACITY : GROUP_ROWS;
    if (d->group_kind == GROUP_ROWS)
        expect_word(p, word, "rows");
    return d;
}

AstDecl *ast_fn(Parser *p, Loc loc, AstName name, const AstNames *params, AstExpr *body)
{
    AstDecl *d = new_decl(p, DECL_FN, loc, name);
    d->names = params;
    d->body = body;
    return d;
}

AstDecl *ast_type_decl(Parser *p, Loc loc, AstName name, AstName elem)
{
    AstName x = {name_of(p->m->names, "x"), elem.loc};
    AstExpr *cast = ast_cast(p, elem.loc, elem, ast_name(p, x));
    AstDecl *d = ast_fn(p, loc, name, ast_add_name(p, NULL, x), cast);
    d->kind = DECL_TYPE;
    return d;
}

AstDecl *ast_kernel(Parser *p, Loc loc, AstName name, const AstParams *params, const AstEquations *equations)
{
    AstDecl *d = new_decl(p, DECL_KERNEL, loc, name);
    d->params = params ? params : arena_new_of(p->arena, AstParams);
    d->equations = equations ? equations : arena_new_of(p->arena, AstEquations);
    return d;
}

AstWrts *ast_then(Parser *p, AstWrts *first, const AstWrts *later)
{
    for (uint32_t i = 0; i < later->list.len; i++) {
        AstWrt w = later->list.at[i];
        w.later = 1;
        ast_add_wrt(p, first, w);
    }
    return first;
}

AstSaves *ast_add_save(Parser *p, AstSaves *list, AstSave save)
{
    list = list ? list : arena_new_of(p->arena, AstSaves);
    vec_push(p->arena, &list->list, save);
    return list;
}

AstDecl *ast_derive_names(Parser *p, AstName forward, AstName backward, AstName later)
{
    AstDecl *d = new_decl(p, DECL_DERIVE, forward.loc, (AstName){NULL, forward.loc});
    d->forward = forward;
    d->backward = backward;
    d->later = later;
    return d;
}

AstDecl *ast_derive(AstDecl *names, Loc loc, AstName kernel, const AstWrts *wrts, const AstSaves *saves,
                    int cotangents_f32)
{
    names->loc = loc;
    names->name = kernel;
    names->wrts = wrts;
    names->saves = saves;
    names->cotangents_f32 = cotangents_f32;
    return names;
}

AstDecl *ast_block(Parser *p, Loc loc, AstDeclKind kind, AstName kernel, const AstWords *words)
{
    AstDecl *d = new_decl(p, kind, loc, kernel);
    d->words = words ? words : arena_new_of(p->arena, AstWords);
    return d;
}

void ast_add_decl(Parser *p, const AstDecl *decl)
{
    if (decl)
        vec_push(p->arena, &p->file->decls, decl);
    else
        p->file->broken = 1;
}

void ast_version(Parser *p, AstInt version)
{
    if (version.value != 1) {
        diag_add(p->m->diags, DIAG_version_unknown, version.loc, "write the version that it reads",
                 "this compiler reads version 1 of the language, not %lld", (long long)version.value);
        diag_edit(p->m->diags, version.loc, "1");
    }
}
