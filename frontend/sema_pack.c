/* `wp = pack(w)` and `wt = pack_t(w)`: sugar for an equation of elements; Note [Sugar] in ir/ir.h. */
#include "frontend/sema.h"

#include <string.h>

int is_pack(const KernelSema *c, const AstExpr *e)
{
    return e->kind == AST_CALL &&
           (strcmp(e->name.name, "pack") == 0 || strcmp(e->name.name, "pack_t") == 0) &&
           namemap_get(&c->c->functions, e->name.name) == NAME_ABSENT;
}

static int left_ok(KernelSema *c, const AstEquation *q, const char *function)
{
    Name name = q->lhs->name.name;
    uint32_t id;
    if (q->lhs->subscripts || q->kind == EQ_ADD)
        sema_error(c, DIAG_pack, q->lhs->loc, "leave the subscripts out",
                   "%s defines a whole tensor, so its left-hand side is `%s =`", function, name);
    else if (symbol_get(c, name, SYMBOL_TENSOR, &id) && c->k->tensors.at[id].role != ROLE_LOCAL &&
             c->k->tensors.at[id].layout != LAYOUT_PAIRS)
        sema_error(c, DIAG_pack, q->lhs->loc,
                   arena_printf(c->m->arena, "write `packed` after the type of %s", name),
                   "%s is not a packed parameter", name);
    return !c->failed;
}

/* What is packed, or NONE. */
static TensorId packed_tensor(KernelSema *c, const AstExpr *call)
{
    const AstExpr *arg = call->nargs == 1 ? call->args[0] : NULL;
    Name function = call->name.name;
    if (!arg || arg->kind != AST_NAME)
        return sema_error(c, DIAG_pack, arg ? arg->loc : call->loc,
                          arena_printf(c->m->arena, "write %s(w)", function),
                          "%s takes one tensor, by its name", function);
    TensorId t = sema_find_tensor(c, arg->name);
    if (t != NONE && c->k->tensors.at[t].rank < 2)
        return sema_error(c, DIAG_pack, arg->loc, "write an equation of its elements",
                          "%s has too few axes for %s", arg->name.name, function);
    return t;
}

static AstExpr *new_name(KernelSema *c, Loc loc, Name name)
{
    AstExpr *e = arena_new_of(c->m->arena, AstExpr);
    *e = (AstExpr){.kind = AST_NAME, .height = 1, .loc = loc, .name = {name, loc}};
    return e;
}

const AstEquation *sema_pack(KernelSema *c, const AstEquation *q)
{
    static const char *const stems[MAX_RANK] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    if (!is_pack(c, q->rhs))
        return q;
    Arena *a = c->m->arena;
    int transposed = strcmp(q->rhs->name.name, "pack_t") == 0;
    TensorId of = left_ok(c, q, q->rhs->name.name) ? packed_tensor(c, q->rhs) : (TensorId)NONE;
    if (of == NONE)
        return NULL;
    uint32_t rank = c->k->tensors.at[of].rank;
    AstSubscripts *left = arena_new_of(a, AstSubscripts);
    AstExpr *access = arena_new_of(a, AstExpr);
    *access = (AstExpr){.kind = AST_ACCESS, .height = 2, .loc = q->rhs->loc, .name = q->rhs->args[0]->name};
    access->args = arena_array(a, AstExpr *, rank + 1);
    access->nargs = rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t to = transposed && i + 2 >= rank ? 2 * rank - 3 - i : i;
        Name name = ir_fresh_name(c->k, stems[i]);
        vec_push(a, &left->list, (AstSubscript){new_name(c, q->lhs->loc, name), NULL});
        access->args[to] = new_name(c, q->rhs->loc, name);
    }
    AstLhs *lhs = arena_new_of(a, AstLhs);
    AstEquation *out = arena_new_of(a, AstEquation);
    *lhs = *q->lhs;
    *out = *q;
    lhs->subscripts = left;
    out->lhs = lhs;
    out->rhs = access;
    return out;
}
