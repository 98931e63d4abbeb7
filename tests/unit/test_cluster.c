/* Row-block groups: what they promise, checked on every program of the examples, the trainer and the differential
 * tests, and on random kernels.
 *
 * Each row-block group is rewritten as if it ran for two blocks of rows, one after the other: a copy of all members
 * for each, in which every row outside the block, and every element that cluster_needed() says nobody
 * reads, is not a number. Carriers add the two sums. The values must be those of the kernel before fusion. */
#include "gradient.h"
#include "random_kernel.h"

#include "passes/cluster.h"

#include <glob.h>
#include <stdlib.h>

enum { CUT = 2, BLOCKS = 2 };

static void run_passes(Program *p, const char *stop_after)
{
    PipelineOptions o = {.context = {.optimize = 1}, .stop_after = stop_after, .verify_each = 1, .limit = -1};
    if (!p->diags->errors)
        pipeline_run(p->m, &o);
    if (p->diags->errors)
        fail_msg("%s", diag_text(p->diags, p->arena));
}

/* ---- a row-block group in two blocks ---- */

typedef struct Split {
    Kernel *k;
    uint32_t cluster, block;
    TensorId *copy[BLOCKS]; /* by tensor: what stands for it in a block, NONE: itself */
    Vec(Equation) out;
} Split;

static ExprId to_copy(Kernel *k, ExprId e, void *user)
{
    const Split *b = user;
    const Expr x = *x_at(k, e);
    ExprId subscripts[MAX_RANK];
    if (x.kind != X_LOAD || b->copy[b->block][x.sym] == NONE)
        return e;
    for (uint32_t a = 0; a < x.nargs; a++)
        subscripts[a] = x_arg(k, e, a);
    return x_load(k, x.loc, b->copy[b->block][x.sym], subscripts);
}

static TensorId new_copy(Split *b, TensorId t, const char *stem)
{
    Tensor copy = b->k->tensors.at[t];
    copy.role = ROLE_LOCAL;
    copy.placed = 0;
    copy.name = ir_fresh_name(b->k, stem);
    return ir_tensor(b->k, copy);
}

static ExprId in_block(const Split *b)
{
    ExprId row = x_index(b->k, (Loc){0}, b->k->clusters.at[b->cluster].row);
    return x_op2(b->k, (Loc){0}, b->block == 0 ? OP_lt : OP_ge, row, x_int(b->k, (Loc){0}, CUT));
}

static ExprId of_elem(Kernel *k, Elem elem, ExprId e)
{
    static const ScalarOp cast[EL_COUNT] = {[EL_F32] = OP_f32, [EL_BF16] = OP_bf16, [EL_F16] = OP_f16};
    return x_at(k, e)->type == elem_type(elem) ? e : x_op1(k, (Loc){0}, cast[elem], e);
}

/* value, or not a number outside the block and where nobody reads. */
static ExprId poisoned(Split *b, const Equation *q, ExprId value)
{
    Kernel *k = b->k;
    const Tensor t = k->tensors.at[q->lhs];
    ExprId where = in_block(b), zero = x_float(k, (Loc){0}, 0);
    if (elem_type(t.elem) == TY_INT)
        return x_if(k, (Loc){0}, where, value, x_int(k, (Loc){0}, 1));
    if (t.placed)
        where = x_and(k, (Loc){0}, where, cluster_needed(k, q->lhs));
    ExprId nan = of_elem(k, t.elem, x_op2(k, (Loc){0}, OP_div, zero, zero));
    return x_if(k, (Loc){0}, where, of_elem(k, t.elem, value), nan);
}

static ExprId lhs_load(Kernel *k, const Equation *q, TensorId t) { return x_load(k, (Loc){0}, t, q->index); }

static void put_direct(Split *b, Equation q)
{
    Kernel *k = b->k;
    TensorId *copy = b->copy[b->block], lhs = new_copy(b, q.lhs, "block");
    q.rhs = x_rewrite(k, q.rhs, to_copy, b);
    if (q.kind == EQ_ADD)
        q.rhs = x_op2(k, (Loc){0}, OP_add, x_rewrite(k, lhs_load(k, &q, q.lhs), to_copy, b), q.rhs);
    if (q.kind == EQ_TOP) {
        copy[q.ids] = new_copy(b, q.ids, "block");
        q.ids = copy[q.ids];
    } else {
        q.kind = EQ_ASSIGN;
        q.rhs = poisoned(b, &q, q.rhs);
    }
    copy[q.lhs] = lhs;
    q.lhs = lhs;
    vec_push(k->module->arena, &b->out, q);
}

static int has_row(const Kernel *k, const Equation *q, IndexId row)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind == X_INDEX && x_at(k, q->index[i])->sym == row)
            return 1;
    return 0;
}

static ExprId carried_sum(const Kernel *k, const Equation *q, IndexId row)
{
    ExprId sum = NONE;
    each_below (n, k, q->rhs, EVERYWHERE)
        for (uint32_t i = 0; i < x_at(k, *n)->nbound; i++)
            if (x_bound(k, *n, i) == row) {
                assert_true(sum == NONE);
                sum = *n;
            }
    assert_true(sum != NONE);
    return sum;
}

/* The block's part of a carrier's sum, in a tensor of its own. */
static void put_carrier(Split *b, Equation q, TensorId *part)
{
    Kernel *k = b->k;
    ExprId sum = carried_sum(k, &q, k->clusters.at[b->cluster].row);
    ExprId where = x_rewrite(k, x_and(k, (Loc){0}, in_block(b), x_condition(k, sum)), to_copy, b);
    IndexId bound[UINT8_MAX];
    uint32_t nbound = x_at(k, sum)->nbound;
    for (uint32_t i = 0; i < nbound; i++)
        bound[i] = x_bound(k, sum, i);
    q.rhs = x_reduce(k, (Loc){0}, RED_SUM, bound, nbound, x_rewrite(k, x_arg(k, sum, 0), to_copy, b), where);
    *part = new_copy(b, q.lhs, "part");
    k->tensors.at[*part].elem = EL_F32;
    q.kind = EQ_ASSIGN;
    q.lhs = *part;
    vec_push(k->module->arena, &b->out, q);
}

typedef struct Swap {
    ExprId from, to;
} Swap;

static ExprId swap(Kernel *k, ExprId e, void *user)
{
    const Swap *s = user;
    (void)k;
    return e == s->from ? s->to : e;
}

/* After the last block: what the row-block group leaves in memory. */
static void put_result(Split *b, Equation q, const TensorId *part)
{
    Kernel *k = b->k;
    IndexId row = k->clusters.at[b->cluster].row;
    if (part[0] != NONE) {
        Swap s = {carried_sum(k, &q, row),
                  x_op2(k, (Loc){0}, OP_add, lhs_load(k, &q, part[0]), lhs_load(k, &q, part[1]))};
        q.rhs = x_rewrite(k, q.rhs, swap, &s);
        vec_push(k->module->arena, &b->out, q);
        return;
    }
    TensorId lhs[2] = {q.lhs, q.ids};
    int n = q.kind == EQ_TOP ? 2 : 1;
    q.kind = EQ_ASSIGN;
    q.ids = q.bound = NONE;
    b->block = 0;
    for (int i = 0; i < n; i++) {
        if (k->tensors.at[lhs[i]].placed)
            continue;
        q.lhs = lhs[i];
        q.rhs = x_if(k, (Loc){0}, in_block(b), lhs_load(k, &q, b->copy[0][lhs[i]]),
                     lhs_load(k, &q, b->copy[1][lhs[i]]));
        vec_push(k->module->arena, &b->out, q);
    }
}

static void clear_copies(Split *b)
{
    for (uint32_t n = 0; n < BLOCKS; n++) {
        b->copy[n] = arena_array(b->k->module->arena, TensorId, 4096);
        memset(b->copy[n], 0xff, sizeof(TensorId) * 4096);
    }
}

/* Members at..end become two blocks of rows. Without carriers their order does not matter: the second goes
 * first. */
static void put_rowblock(Split *b, uint32_t at, uint32_t end)
{
    Kernel *k = b->k;
    const Cluster c = k->clusters.at[b->cluster];
    TensorId(*parts)[BLOCKS] = arena_alloc(k->module->arena, sizeof *parts * (end - at));
    memset(parts, 0xff, sizeof *parts * (end - at));
    clear_copies(b);
    for (uint32_t turn = 0; turn < BLOCKS; turn++) {
        b->block = c.carries ? turn : 1 - turn;
        for (uint32_t i = at; i < end; i++)
            if (has_row(k, &k->eqs.at[i], c.row))
                put_direct(b, k->eqs.at[i]);
            else
                put_carrier(b, k->eqs.at[i], &parts[i - at][b->block]);
    }
    for (uint32_t i = at; i < end; i++)
        put_result(b, k->eqs.at[i], parts[i - at]);
}

/* Two members that write one tensor are beyond this test. */
static int writes_twice(const Kernel *k, uint32_t at, uint32_t end)
{
    for (uint32_t a = at; a < end; a++)
        for (uint32_t b = at; b < a; b++)
            if (k->eqs.at[a].lhs == k->eqs.at[b].lhs)
                return 1;
    return 0;
}

/* Returns how many row-block groups k has. */
static uint32_t in_two_blocks(Kernel *k)
{
    Split b = {.k = k};
    uint32_t rowblocks = 0, n = k->eqs.len;
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i + 1;
        b.cluster = k->eqs.at[i].cluster;
        int is_rowblock = b.cluster != NONE && k->clusters.at[b.cluster].kind == CLUSTER_ROWBLOCK;
        while (is_rowblock && end < n && k->eqs.at[end].cluster == b.cluster)
            end++;
        if (is_rowblock && !writes_twice(k, i, end)) {
            put_rowblock(&b, i, end);
            rowblocks++;
        } else {
            for (uint32_t at = i; at < end; at++)
                vec_push(k->module->arena, &b.out, k->eqs.at[at]);
        }
        i = end;
    }
    k->eqs.at = b.out.at;
    k->eqs.len = b.out.len;
    k->eqs.cap = b.out.cap;
    return rowblocks;
}

/* ---- the promises of cluster.h ---- */

static void check_placed(const Kernel *k, TensorId t)
{
    const Tensor *x = &k->tensors.at[t];
    const Cluster *c = &k->clusters.at[x->placed - 1];
    uint32_t writers = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        int writes = q->kind != EQ_CHECK && (q->lhs == t || q->ids == t);
        if (writes) {
            writers++;
            for (uint32_t a = 0; a <= c->nouter; a++)
                assert_true(x_at(k, q->index[a])->sym == (a < c->nouter ? c->outer[a] : c->row));
        }
        if (q->rhs != NONE && (x_loads(k, q->rhs, t) || writes))
            assert_true(q->cluster == x->placed - 1);
    }
    assert_true(x->role == ROLE_LOCAL && writers == 1);
}

static void check_promises(const Kernel *k)
{
    for (uint32_t i = 0; i + 1 < k->eqs.len; i++) {
        uint32_t cluster = k->eqs.at[i].cluster;
        for (uint32_t j = i + 2; cluster != NONE && k->eqs.at[i + 1].cluster != cluster && j < k->eqs.len;
             j++)
            assert_true(k->eqs.at[j].cluster != cluster);
    }
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].placed)
            check_placed(k, t);
}

/* ---- programs ---- */

static void same_values(const Program *before, const Program *after, const char *kernel, const Size *sizes,
                        const char *what)
{
    Call one = call_new(before->arena, program_kernel(before, kernel), sizes, 3, 1);
    Call two = call_new(after->arena, program_kernel(after, kernel), sizes, 3, 1);
    call_run(&one, EVAL_EXACT);
    call_run(&two, EVAL_EXACT);
    for (uint32_t i = 0; i < one.k->params.len; i++)
        for (int64_t n = 0; n < one.elements[i]; n++) {
            double a = one.args[i].data[n], b = two.args[i].data[n];
            if (!(fabs(a - b) <= 1e-9 * (1 + fabs(a))) && !(isnan(a) && isnan(b)) && a != b)
                fail_msg("%s, kernel %s, parameter %u, element %lld: %.9g, in two blocks %.9g", what, kernel,
                         i, (long long)n, a, b);
        }
}

static int has_rowblock(const Kernel *k)
{
    for (uint32_t c = 0; c < k->clusters.len; c++)
        if (k->clusters.at[c].kind == CLUSTER_ROWBLOCK)
            return 1;
    return 0;
}

static uint32_t check_program(const char *text, const Size *sizes, const char *what)
{
    Program before = program_read(text), after = program_read(text);
    uint32_t rowblocks = 0;
    run_passes(&before, "checks");
    run_passes(&after, "cluster");
    for (uint32_t i = 0; i < after.m->kernels.len; i++) {
        Kernel *k = after.m->kernels.at[i];
        check_promises(k);
        if (has_rowblock(k))
            same_values(&before, &after, k->name, sizes, what);
        uint32_t own = in_two_blocks(k);
        rowblocks += own;
        if (own)
            same_values(&before, &after, k->name, sizes, what);
    }
    program_free(&before);
    program_free(&after);
    return rowblocks;
}

/* ---- rules, each by a kernel and the row-block groups it has ---- */

typedef struct Rule {
    const char *what, *signature, *body, *rowblocks;
} Rule;

static const char declarations[] = "moe 1\ndim B, S, T, D, C, V\n";

/* The comments that name the row-block groups, in one line; then what subscripts are checked against. */
static const char *rowblocks_of(const Program *p)
{
    Text all = {.arena = p->arena}, out = {.arena = p->arena};
    const Kernel *k = program_kernel(p, "f");
    ir_print(p->m, k, &all);
    for (const char *at = text_string(&all); (at = strstr(at, "// row blocks ")) != NULL;) {
        const char *end = strchr(at, '\n');
        text_add(&out, "%s%.*s", out.len ? " | " : "", (int)(end - at - 14), at + 14);
        at = end;
    }
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].kind == EQ_CHECK) {
            text_add(&out, " | check < ");
            ext_print(p->m, k->tensors.at[k->eqs.at[i].lhs].axes[k->eqs.at[i].axis].extent, &out);
        }
    return text_string(&out);
}

static const Rule rules[] = {
    {"softmax of a product", "in x: f32[T, D], in w: f32[D, V], out y: f32[T, V]",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n m[t] = max(v) s[t, v] \n y[t, v] = exp(s[t, v] - m[t])",
     "over t: s, m, y; thread-local: s, m"},
    {"two products around an activation",
     "in x: f32[T, D], in w: f32[D, V], in u: f32[V, D], out y: f32[T, D]",
     "g[t, v] = sum(d) x[t, d] * w[d, v] \n y[t, d] = sum(v) exp(g[t, v]) * u[v, d]", ""},
    {"a row looks at the one before", "in x: f32[T, D], in w: f32[D, V], out y: f32[T, V]",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n m[t] = max(v) s[t, v] \n"
     "y[t, v] = exp(s[t, v] - m[t]) + if(t >= 1, m[t - 1], 0)",
     ""},
    {"a row looks at all rows", "in x: f32[T, D], in w: f32[D, V], out z: f32[T], out y: f32[T, T]",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n m[t] = max(v) s[t, v] \n"
     "z[t] = sum(v) exp(s[t, v] - m[t]) \n y[t, u] = z[t] * m[u]",
     "over t: s, m, z; thread-local: s"},
    {"a check stands before the access, also where a copy has gone into its reader",
     "in x: f32[T, V], in u: f32[T], in w: bf16[V, D], out y: f32[T, D]",
     "m[t] = max(v) x[t, v] \n p[t] = exp(x[t, 0] - m[t]) * u[t] \n id[t] = i32(p[t] * 0) \n"
     "wl[v, d] = f32(w[v, d]) \n"
     "y[t, d] = wl[id[t], d] * m[t] + x[t, 0] * p[t] + (sum(v) x[t, v] * m[t])",
     "over t: m, p, id | over t: part, y; thread-local: part | check < V | check < V"},
    {"a member waits for what a carrier sums",
     "in q, k: f32[B, S, D], out y: f32[B, S, D], out c: f32[B, S, D]",
     "s[b, i, j] = sum(d) q[b, i, d] * k[b, j, d] \n m[b, i] = max(j) s[b, i, j] \n"
     "e[b, i, j] = exp(s[b, i, j] - m[b, i]) \n c[b, j, d] = sum(i) e[b, i, j] * q[b, i, d] \n"
     "y[b, i, d] = sum(j) e[b, i, j] * c[b, j, d]",
     "over i for b: s, m, e; thread-local: s, m"},
    {"a sum over all rows, nothing outer", "in x: f32[T, D], in w: f32[D, V], out y: f32[V]",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n m[t] = max(v) s[t, v] \n y[v] = sum(t) exp(s[t, v] - m[t])",
     "over t, in parts: s, m, y; thread-local: s, m"},
    {"a product over all rows, nothing outer", "in x: f32[T, D], in w: f32[D, V], out y: f32[D, V]",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n m[t] = max(v) s[t, v] \n y[d, v] = sum(t) x[t, d] * exp(s[t, v] "
     "- m[t])",
     "over t: s, m, part; thread-local: s, m"},
    {"linked by rows alone", "in x, g: f32[T, D], out y: f32[T, D], out z: f32[D]",
     "m[t] = max(d) x[t, d] \n y[t, d] = x[t, d] - m[t] \n z[d] = sum(t) x[t, d] * g[t, d]",
     "over t, in parts: m, y, z; thread-local: m"},
    {"rows that no member reads", "in x, g: f32[T, D], out y: f32[T, D], out z: f32[D]",
     "m[t] = max(d) x[t, d] \n y[t, d] = x[t, d] - m[t] \n z[d] = sum(t) g[t, d] * g[t, d]",
     "over t: m, y; thread-local: m"},
    {"a sum of single elements of rows", "in x: f32[T, D], in w: f32[D, V], in y: i32[T], out loss: f32",
     "s[t, v] = sum(d) x[t, d] * w[d, v] \n z[t] = sum(v) exp(s[t, v]) \n loss = sum(t) (log(z[t]) - s[t, "
     "y[t]])",
     "over t: s, z, row; thread-local: s, z | check < V"},
    {"columns first, and a subscript that is checked",
     "in x: f32[B, S, D], in w: f32[B, C, D], in y: i32[B, S], out r: f32[B, S]",
     "s[j, b, i] = sum(d) w[b, j, d] * x[b, i, d] \n z[b, i] = sum(j) exp(s[j, b, i]) \n r[b, i] = s[y[b, "
     "i], b, i] / z[b, i]",
     "over i for b: s, r; thread-local: s | check < C"},
    {"read under a condition and without one", "in q, k, v: f32[B, S, D], out y: f32[B, S, D]",
     "s[b, i, j] = sum(d) q[b, i, d] * k[b, j, d] \n m[b, i] = max(j where j <= i) s[b, i, j] \n"
     "e[b, i, j] = if(j <= i, exp(s[b, i, j]), 0) + exp(s[b, i, j] - m[b, i]) \n"
     "y[b, i, d] = sum(j) e[b, i, j] * v[b, j, d]",
     "over i for b: s, m, e, y; thread-local: s, m, e"},
    {"a guard that keeps a subscript inside", "in x: f32[T, V], out y: f32[T, V]",
     "a[t, v] = if(v >= 1, exp(x[t, v - 1]) + exp(x[t, v]) + exp(exp(x[t, v])), 0) \n m[t] = max(v where v "
     ">= 1) a[t, v] \n"
     "y[t, v] = if(v >= 1, exp(a[t, v] - m[t]), 0)",
     "over t: a, m, y; thread-local: a, m"},
    {"a sum before and after its tensor is written", "in x: f32[T, V], inout p: f32[T, V], out y, z: f32[T]",
     "y[t] = exp(sum(v) p[t, v] * x[t, v]) \n p[t, v] = x[t, v] * y[t] \n z[t] = exp(sum(v) p[t, v] * x[t, "
     "v]) * 2",
     "over t: y, p, z"},
    {"one sum in two members",
     "in x: f32[T, D], in w: f32[D, V], in u: f32[T, V], out y, z: f32[T], out e: f32[T, V]",
     "s[t, v] = exp(sum(d) x[t, d] * w[d, v]) \n m[t] = max(v) s[t, v] \n e[t, v] = s[t, v] - m[t] \n"
     "y[t] = exp(sum(v) e[t, v] * u[t, v]) \n z[t] = 2 * exp(sum(v) e[t, v] * u[t, v]) + m[t]",
     "over t: s, m, e, sums, y, z; thread-local: s, m, sums"},
    {"a carrier's tensor is read before", "in q, k: f32[B, S, D], inout c: f32[B, S, D], out y: f32[B, S]",
     "s[b, i, j] = sum(d) q[b, i, d] * k[b, j, d] \n m[b, i] = max(j) s[b, i, j] \n"
     "y[b, i] = sum(j) exp(s[b, i, j] - m[b, i]) * c[b, j, 0] \n"
     "c[b, j, d] += sum(i) exp(s[b, i, j] - m[b, i]) * q[b, i, d]",
     "over i for b: s, m, y, part; thread-local: s, m | check < D"},
    {"a sum beside the one over rows", "in q, k: f32[B, S, D], in w: f32[D, D], out c, y: f32[B, S, D]",
     "s[b, i, j] = sum(d) q[b, i, d] * k[b, j, d] \n m[b, i] = max(j) s[b, i, j] \n"
     "e[b, i, j] = exp(s[b, i, j] - m[b, i]) \n y[b, i, d] = sum(j) e[b, i, j] * k[b, j, d] \n"
     "c[b, j, d] = (sum(i) e[b, i, j] * q[b, i, d]) + (sum(h) k[b, j, h] * w[h, d])",
     "over i for b: s, m, e, y; thread-local: s, m"},
    {"members that write one tensor", "in x: f32[T, 2, D], out y: f32[T, 2, D]",
     "m[t, c] = max(d) x[t, c, d] \n y[t, 0, d] = x[t, 0, d] - m[t, 0] \n y[t, 1, d] = x[t, 1, d] - m[t, 1]",
     ""},
};

static void each_rule(void **state)
{
    (void)state;
    static const Size sizes[] = {{"B", 1}, {"S", 6}, {"C", 7}, {"T", 5}, {"V", 6}, {NULL, 0}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%skernel f(%s) {\n%s\n}\n", declarations, rules[i].signature,
                 rules[i].body);
        Program p = program_read(text);
        run_passes(&p, "cluster");
        if (strcmp(rowblocks_of(&p), rules[i].rowblocks) != 0)
            fail_msg("%s: expected `%s`, got `%s`", rules[i].what, rules[i].rowblocks, rowblocks_of(&p));
        check_program(text, sizes, rules[i].what);
        program_free(&p);
    }
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 18);
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 18) - 1, f) > 0);
    fclose(f);
    return text;
}

static uint32_t check_files(const char *pattern)
{
    static const Size sizes[] = {{"S", 9}, {"T", 5}, {"V", 6}, {"C", 4}, {"W", 4}, {NULL, 0}};
    uint32_t rowblocks = 0;
    glob_t files;
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char *text = read_file(files.gl_pathv[i]);
        rowblocks += check_program(text, sizes, files.gl_pathv[i]);
        free(text);
    }
    globfree(&files);
    return rowblocks;
}

static void programs(void **state)
{
    (void)state;
    assert_true(check_files("examples/*.moe") >= 11);
    assert_true(check_files("model/*.moe") >= 12);
    assert_true(check_files("tests/differential/attention*.moe") >= 20);
    assert_true(check_files("tests/differential/r*.moe") >= 15);
}

static void random_kernels(void **state)
{
    (void)state;
    static const Size sizes[] = {{"T", 3}, {"K", 2}, {"E", 3}, {"H", 2},
                                 {"V", 4}, {"S", 4}, {"P", 2}, {NULL, 0}};
    uint32_t rowblocks = 0;
    Arena *a = arena_new();
    for (uint64_t seed = 1; seed <= 100; seed++) {
        char what[32];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        rowblocks += check_program(random_kernel(a, seed), sizes, what);
    }
    arena_free(a);
    printf("%u row-block groups\n", rowblocks);
}

/* ---- which elements are needed ---- */

static void expect_needed(const char *where, const char *tensor, const char *expected)
{
    char text[1024];
    snprintf(text, sizeof text,
             "%skernel f(in q, k, v: f32[B, S, D], in w: i32, out o: f32[B, S, D]) {\n"
             "s[b, i, j] = sum(d) q[b, i, d] * k[b, j, d]\n m[b, i] = max(j where %s) s[b, i, j]\n"
             "e[b, i, j] = exp(s[b, i, j] - m[b, i])\n z[b, i] = sum(j where %s) e[b, i, j]\n"
             "o[b, i, d] = (sum(j where %s) e[b, i, j] * v[b, j, d]) / z[b, i]\n}\n",
             declarations, where, where, where);
    Program p = program_read(text);
    run_passes(&p, "cluster");
    Kernel *k = (Kernel *)program_kernel(&p, "f");
    ExprId needed = cluster_needed(k, ir_find_tensor(k, name_of(p.m->names, tensor)));
    Text got = {.arena = p.arena};
    if (needed != NONE)
        ir_print_expr(k, needed, &got);
    assert_string_equal(text_string(&got), expected);
    program_free(&p);
}

static void needed(void **state)
{
    (void)state;
    expect_needed("j <= i", "s", "j <= i");
    expect_needed("j <= i", "e", "j <= i");
    expect_needed("j <= i", "z", "");
    expect_needed("j <= i and j > i - 4", "s", "j <= i and j > i - 4");
    expect_needed("j <= i and i - j <= w", "s", "j <= i and i - j <= w");
    expect_needed("j <= i or j <= i - 2", "s", "(j <= i or j <= i - 2) and j <= i");
    expect_needed("j >= 0", "s", "");
}

/* A row-block group ends where a launch does: 43 norms, each of the one before, are too many equations for one. */
static void long_chain(void **state)
{
    (void)state;
    Text text = {.arena = arena_new()};
    text_add(&text, "moe 1\ndim T, H\nkernel f(in x: f32[T, H], out y: f32[T, H]) {\na0[t, h] = x[t, h]\n");
    for (int n = 1; n <= 43; n++)
        text_add(&text, "s%d[t] = sum(h) a%d[t, h]\na%d[t, h] = a%d[t, h] - s%d[t] / H\n", n, n - 1, n, n - 1,
                 n);
    text_add(&text, "y[t, h] = a43[t, h]\n}\n");
    Program p = program_read(text_string(&text));
    run_passes(&p, "lower");
    const Kernel *k = p.m->kernels.at[0];
    uint32_t members[8] = {0};
    assert_in_range(k->clusters.len, 1, 8);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].cluster != NONE)
            members[k->eqs.at[i].cluster]++;
    for (uint32_t c = 0; c < k->clusters.len; c++)
        assert_in_range(members[c], 2, CLUSTER_MAX);
    program_free(&p);
    arena_free(text.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(needed), cmocka_unit_test(long_chain),
                                       cmocka_unit_test(each_rule), cmocka_unit_test(programs),
                                       cmocka_unit_test(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
