/* derive: the small builders that its files share. Every new equation has index variables of its own. */
#include "passes/derive.h"

#include <ctype.h>
#include <string.h>

Adjoint *derive_adjoint(Sweep *s, TensorId t)
{
    while (s->tensors.len <= t)
        vec_push(s->arena, &s->tensors, (Adjoint){.incoming = NONE, .target = NONE, .cotangent = NONE});
    return &s->tensors.at[t];
}

IndexId derive_index_like(Kernel *k, IndexId i)
{
    Index x = k->indices.at[i];
    return ir_index(k, x.name, x.loc, x.axis); /* names are hints; the printer keeps them apart */
}

/* A name for an index over axis `at` of t: as its readers or its definition call it, else after its extent.
 */
static Name index_name(Sweep *s, TensorId t, uint32_t at)
{
    Kernel *k = s->k;
    Module *m = k->module;
    const Adjoint *a = derive_adjoint(s, t);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->lhs == t && q->kind != EQ_CHECK && x_at(k, q->index[at])->kind == X_INDEX)
            return k->indices.at[x_at(k, q->index[at])->sym].name;
    }
    for (uint32_t i = 0; i < a->contributions.len; i++) {
        const Expr *x = x_at(k, a->contributions.at[i].subscript[at]);
        if (x->kind == X_INDEX)
            return k->indices.at[x->sym].name;
    }
    Axis axis = k->tensors.at[t].axes[at];
    const ExtentForm *f = &m->extents.at[axis.extent];
    const char *name = axis.group != NONE               ? m->groups.at[axis.group].name
                       : f->nterms && f->terms[0].ndims ? m->dims.at[f->terms[0].dims[0]].name
                                                        : "i";
    char stem[2] = {(char)tolower((unsigned char)name[0]), '\0'};
    return name_of(m->names, isalpha((unsigned char)stem[0]) ? stem : "i");
}

void derive_over(Sweep *s, TensorId t, IndexId *over)
{
    const Tensor x = s->k->tensors.at[t];
    for (uint32_t i = 0; i < x.rank; i++)
        over[i] = ir_index(s->k, index_name(s, t, i), x.loc, x.axes[i]);
}

TensorId derive_local(Sweep *s, const char *stem, Loc loc, Elem elem, const Axis *axes, uint32_t rank)
{
    Tensor t = {.name = ir_fresh_name(s->k, stem),
                .loc = loc,
                .elem = elem,
                .role = ROLE_LOCAL,
                .rank = (uint8_t)rank,
                .space = SPACE_WORK,
                .route = NONE};
    if (rank)
        memcpy(t.axes, axes, sizeof *axes * rank);
    TensorId id = ir_tensor(s->k, t);
    derive_adjoint(s, id);
    return id;
}

void derive_emit(Sweep *s, EqKind kind, Loc loc, TensorId lhs, const IndexId *over, ExprId rhs)
{
    Equation q = ir_equation(kind, loc);
    q.lhs = lhs;
    q.rhs = rhs;
    q.nindex = s->k->tensors.at[lhs].rank;
    for (uint32_t i = 0; i < q.nindex; i++)
        q.index[i] = x_index(s->k, loc, over[i]);
    vec_push(s->arena, &s->k->eqs, q);
}

ExprId derive_cast(Kernel *k, ExprId e, Elem elem) { return x_as(k, e, elem_type(elem)); }

ExprId derive_sum(Kernel *k, ExprId a, ExprId b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    return x_op2(k, x_at(k, b)->loc, OP_add, a, b);
}

ExprId derive_load(Kernel *k, TensorId t, const IndexId *over)
{
    ExprId subscripts[MAX_RANK];
    Loc loc = k->tensors.at[t].loc;
    for (uint32_t i = 0; i < k->tensors.at[t].rank; i++)
        subscripts[i] = x_index(k, loc, over[i]);
    return x_load(k, loc, t, subscripts);
}
