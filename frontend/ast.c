/* The expressions of the syntax tree; declarations are built in ast_decl.c. */
#include "frontend/parser.h"

static AstExpr *new_expr(Parser *p, AstExpr e, AstExpr *const *args, uint32_t nargs)
{
    AstExpr *out = arena_new_of(p->arena, AstExpr);
    uint32_t height = 0;
    int bad = 0;
    e.args = arena_array(p->arena, AstExpr *, nargs);
    e.nargs = nargs;
    for (uint32_t i = 0; i < nargs; i++) {
        e.args[i] = args[i];
        height = args[i]->height > height ? args[i]->height : height;
        bad |= args[i]->kind == AST_BAD;
    }
    *out = e;
    if (bad) { /* reported already */
        out->kind = AST_BAD;
        out->nargs = 0;
        return out;
    }
    if (height < AST_MAX_HEIGHT) {
        out->height = (uint16_t)(height + 1);
        return out;
    }
    diag_add(p->m->diags, DIAG_nesting, e.loc, "give a part of it a name of its own in an equation above",
             "this expression is more than %d operations deep", AST_MAX_HEIGHT);
    out->kind = AST_BAD;
    out->nargs = 0;
    return out;
}

AstExpr *ast_int(Parser *p, AstInt value)
{
    return new_expr(p, (AstExpr){.kind = AST_INT, .loc = value.loc, .integer = value.value}, NULL, 0);
}

AstExpr *ast_closed(AstExpr *e)
{
    e->closed = 1;
    return e;
}

AstExpr *ast_float(Parser *p, Loc loc, double value)
{
    return new_expr(p, (AstExpr){.kind = AST_FLOAT, .loc = loc, .real = value}, NULL, 0);
}

AstExpr *ast_name(Parser *p, AstName name)
{
    return new_expr(p, (AstExpr){.kind = AST_NAME, .loc = name.loc, .name = name}, NULL, 0);
}

AstExpr *ast_access(Parser *p, Loc loc, AstName name, const AstExprs *args)
{
    return new_expr(p, (AstExpr){.kind = AST_ACCESS, .loc = loc, .name = name}, args->list.at,
                    args->list.len);
}

AstExpr *ast_call(Parser *p, Loc loc, AstName name, const AstExprs *args)
{
    return new_expr(p, (AstExpr){.kind = AST_CALL, .loc = loc, .name = name}, args->list.at, args->list.len);
}

AstExpr *ast_cast(Parser *p, Loc loc, AstName type, AstExpr *arg)
{
    type.name = name_of(p->m->names, type.name);
    return new_expr(p, (AstExpr){.kind = AST_CALL, .loc = loc, .name = type}, &arg, 1);
}

AstExpr *ast_map(Parser *p, Loc loc, AstName route, AstName field, const AstExprs *args)
{
    return new_expr(p, (AstExpr){.kind = AST_MAP, .loc = loc, .name = route, .field = field}, args->list.at,
                    args->list.len);
}

AstExpr *ast_group(Parser *p, Loc loc, AstExpr *row)
{
    return new_expr(p, (AstExpr){.kind = AST_GROUP, .loc = loc}, &row, 1);
}

AstExpr *ast_unary(Parser *p, Loc loc, ScalarOp op, AstExpr *a)
{
    return new_expr(p, (AstExpr){.kind = AST_OP, .op = (uint8_t)op, .loc = loc}, &a, 1);
}

AstExpr *ast_binary(Parser *p, Loc loc, ScalarOp op, AstExpr *a, AstExpr *b)
{
    return new_expr(p, (AstExpr){.kind = AST_OP, .op = (uint8_t)op, .loc = loc}, (AstExpr *[]){a, b}, 2);
}

AstExpr *ast_if(Parser *p, Loc loc, AstExpr *condition, AstExpr *then, AstExpr *otherwise)
{
    return new_expr(p, (AstExpr){.kind = AST_IF, .loc = loc}, (AstExpr *[]){condition, then, otherwise}, 3);
}

AstExpr *ast_reduce_head(Parser *p, Loc loc, ReduceKind kind, AstBinds *binds, AstExpr *condition)
{
    AstExpr *e =
        new_expr(p, (AstExpr){.kind = AST_REDUCE, .op = (uint8_t)kind, .loc = loc, .binds = binds}, NULL, 0);
    e->condition = condition;
    return e;
}

AstExpr *ast_reduce(Parser *p, Loc loc, AstExpr *head, AstExpr *body)
{
    AstExpr e = *head;
    e.loc = loc;
    AstExpr *both[] = {body, e.condition};
    AstExpr *out = new_expr(p, e, both, e.condition ? 2 : 1);
    return out;
}

#define ADD(type, ...)                                 \
    list = list ? list : arena_new_of(p->arena, type); \
    vec_push(p->arena, &list->list, __VA_ARGS__);      \
    return list

AstNames *ast_add_name(Parser *p, AstNames *list, AstName name) { ADD(AstNames, name); }
AstExprs *ast_add_expr(Parser *p, AstExprs *list, AstExpr *e) { ADD(AstExprs, e); }
AstBinds *ast_add_bind(Parser *p, AstBinds *list, AstBind bind) { ADD(AstBinds, bind); }
AstWords *ast_add_word(Parser *p, AstWords *list, AstWord word) { ADD(AstWords, word); }
AstWrts *ast_add_wrt(Parser *p, AstWrts *list, AstWrt wrt) { ADD(AstWrts, wrt); }

AstSubscripts *ast_add_subscript(Parser *p, AstSubscripts *list, AstExpr *value, AstExpr *extent)
{
    ADD(AstSubscripts, (AstSubscript){value, extent});
}

AstWords *ast_add_choice(Parser *p, AstWords *list, Loc open, const AstWords *inner, Loc close)
{
    list = ast_add_word(p, list, ast_sign_word(p, "?", open));
    list = ast_add_word(p, list, ast_sign_word(p, "{", open));
    for (uint32_t i = 0; i < inner->list.len; i++)
        list = ast_add_word(p, list, inner->list.at[i]);
    return ast_add_word(p, list, ast_sign_word(p, "}", close));
}

AstWord ast_integer_word(Parser *p, AstInt value)
{
    const char *text = arena_printf(p->arena, "%lld", (long long)value.value);
    return (AstWord){WORD_INT, name_of(p->m->names, text), value.value, (double)value.value, value.loc};
}

AstWord ast_sign_word(Parser *p, const char *sign, Loc loc)
{
    return (AstWord){.kind = WORD_SIGN, .text = name_of(p->m->names, sign), .loc = loc};
}
