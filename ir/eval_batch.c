/* Many terms of a float sum at a time: a walk over the nodes for each one would take most of the time that an interpretation
 * takes. Only what cannot fail from one term to the next and lies in memory at equal steps is computed so: elements whose
 * subscripts are variables, or stay, operations on floats, and what stays altogether. Each value is that of eval_run(). */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 16 }; /* of values that wait on the stack */

static int moves_with(const Node *n, uint8_t local) { return n->deps >> local & 1; }

static int is_in_steps(const EvalAccess *a, uint8_t local)
{
    for (uint32_t i = 0; i < a->rank; i++)
        if (!a->subscripts[i].index && moves_with(a->subscripts[i].node, local))
            return 0;
    return 1;
}

static int can_batch(const Node *n, uint8_t local, uint32_t depth)
{
    if (!moves_with(n, local))
        return 1;
    if (n->memo || !type_is_float((Type)n->type) || depth == DEPTH_MAX)
        return 0;
    if (n->kind == NODE_LOAD)
        return is_in_steps(n->access, local);
    for (uint32_t i = 0; n->kind == NODE_OP && i < n->nargs; i++)
        if (!can_batch(n->args[i], local, depth + 1))
            return 0;
    return n->kind == NODE_OP;
}

int eval_can_batch(const Node *n, const Loop *l)
{
    for (uint32_t i = 0; i < l->conditions.len; i++)
        if (l->conditions.at[i]->faults)
            return 0;
    return l->local < MANY_INDICES && can_batch(n, l->local, 0);
}

static void load_batch(Eval *e, const Node *n, const Loop *l, uint32_t count, Values *v)
{
    const TensorData *d = &e->tensors[n->access->tensor];
    int doubtful = 0;
    int64_t place = eval_place(e, n->access, &doubtful), step = 0;
    if (place < 0)
        return;
    for (uint32_t i = 0; i < n->access->rank; i++)
        if (n->access->subscripts[i].index == &e->index[l->index])
            step += n->access->subscripts[i].stride;
    const double *at = d->at + place, *error = d->error ? d->error + place : NULL;
    v->exact = !doubtful && !error;
    for (uint32_t i = 0; i < count; i++)
        v->at[i] = at[i * step];
    for (uint32_t i = 0; i < count && !v->exact; i++)
        v->error[i] = doubtful ? INFINITY : error[i * step];
}

static void same_batch(Value one, uint32_t count, Values *v)
{
    v->exact = one.error == 0;
    for (uint32_t i = 0; i < count; i++)
        v->at[i] = one.n.f;
    for (uint32_t i = 0; i < count && !v->exact; i++)
        v->error[i] = one.error;
}

static Value value_of(const Values *v, uint32_t i)
{
    return (Value){{.f = v->at[i]}, v->exact ? 0 : v->error[i]};
}

/* Most of what an interpretation does: products that f32 holds exactly, as those of two bf16 are, of exact operands. Where there is
 * another one v is as before. */
static int multiply_exactly(Values *v, const Values *b, uint32_t count)
{
    double products[EVAL_BATCH];
    uint64_t other = 0;
    if (!v->exact || !b->exact)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        products[i] = v->at[i] * b->at[i];
        other |= (double)(float)products[i] != products[i]; /* NaN too */
    }
    if (!other)
        memcpy(v->at, products, count * sizeof products[0]);
    return !other;
}

static void op_batch(Eval *e, const Node *n, const Loop *l, uint32_t count, Values *v)
{
    Values b;
    eval_batch(e, n->args[0], l, count, v);
    if (n->nargs > 1)
        eval_batch(e, n->args[1], l, count, &b);
    else
        same_batch((Value){{.i = 0}, 0}, count, &b);
    if (e->error || (n->op == OP_mul && !n->lifted && !n->moves && multiply_exactly(v, &b, count)))
        return;
    int exact = 1;
    for (uint32_t i = 0; i < count && !e->error; i++) {
        Value r = eval_op(e, n, value_of(v, i), value_of(&b, i));
        v->at[i] = r.n.f;
        v->error[i] = r.error;
        exact &= r.error == 0;
    }
    v->exact = exact;
}

void eval_batch(Eval *e, Node *n, const Loop *l, uint32_t count, Values *v)
{
    if (!moves_with(n, l->local))
        same_batch(eval_run(e, n), count, v);
    else if (n->kind == NODE_LOAD)
        load_batch(e, n, l, count, v);
    else
        op_batch(e, n, l, count, v);
}
