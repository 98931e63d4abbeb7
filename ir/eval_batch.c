/* Many terms of a float sum at a time: a walk over the nodes for each one would take most of the time that an interpretation
 * takes. Only what cannot fail from one term to the next and lies in memory at equal steps is computed so: elements whose
 * subscripts are variables, or stay, operations on floats, and what stays altogether. Each value is that of eval_run(). */
#include "ir/eval.h"

#include <math.h>

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

static void load_batch(Eval *e, const Node *n, const Loop *l, uint32_t count, Value *values)
{
    const TensorData *d = &e->tensors[n->access->tensor];
    int doubtful = 0;
    int64_t place = eval_place(e, n->access, &doubtful), step = 0;
    if (place < 0)
        return;
    for (uint32_t i = 0; i < n->access->rank; i++)
        if (n->access->subscripts[i].index == &e->index[l->index])
            step += n->access->subscripts[i].stride;
    for (uint32_t i = 0; i < count; i++, place += step)
        values[i] = (Value){{.f = d->at[place]}, doubtful ? INFINITY : d->error ? d->error[place] : 0};
}

/* Most of what an interpretation does: a product that f32 holds exactly, as those of two bf16 are, of exact operands. */
static int is_exact_product(Value a, Value b)
{
    double product = a.n.f * b.n.f;
    return a.error == 0 && b.error == 0 && (double)(float)product == product;
}

static void op_batch(Eval *e, const Node *n, const Loop *l, uint32_t count, Value *values)
{
    Value b[EVAL_BATCH];
    int product = n->op == OP_mul && !n->lifted && !n->moves;
    eval_batch(e, n->args[0], l, count, values);
    if (n->nargs > 1)
        eval_batch(e, n->args[1], l, count, b);
    else
        for (uint32_t i = 0; i < count; i++)
            b[i] = (Value){{.i = 0}, 0};
    for (uint32_t i = 0; i < count && !e->error; i++)
        if (product && is_exact_product(values[i], b[i]))
            values[i].n.f *= b[i].n.f;
        else
            values[i] = eval_op(e, n, values[i], b[i]);
}

void eval_batch(Eval *e, Node *n, const Loop *l, uint32_t count, Value *values)
{
    if (!moves_with(n, l->local)) {
        values[0] = eval_run(e, n);
        for (uint32_t i = 1; i < count; i++)
            values[i] = values[0];
    } else if (n->kind == NODE_LOAD) {
        load_batch(e, n, l, count, values);
    } else {
        op_batch(e, n, l, count, values);
    }
}
