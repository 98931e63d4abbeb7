/* `moec grad FILE [KERNEL]`: the derived backward kernels as .moe text, to be read, edited and compiled like
 * any other, and what saving and recomputing cost. */
#include "command/command.h"

#include <stdio.h>
#include <string.h>

static const struct argp_option grad_options[] = {COMMAND_TYPE_OPTION, COMMAND_ALLOW_OPTION, {0}};

typedef struct GradCommand {
    CompileOptions options;
    const char *path, *kernel;
} GradCommand;

/* ---- costs ---- */

typedef struct Flops {
    const Kernel *k;
    const Equation *q;
    uint8_t *seen; /* by expression: shared nodes are computed once */
} Flops;

/* The left-hand index e of a condition `@r == e`: over all e the rows are visited once, not once for each e.
 */
static int ties_row_to_lhs(const Flops *f, ExprId condition, Extent *groups)
{
    const Kernel *k = f->k;
    ExprId parts[32];
    uint32_t n = x_conjuncts(k, condition, parts, 32);
    for (uint32_t i = 0; i < n; i++) {
        if (!x_is_op(k, parts[i], OP_eq))
            continue;
        ExprId a = x_arg(k, parts[i], 0), b = x_arg(k, parts[i], 1);
        ExprId group = x_at(k, a)->kind == X_GROUP ? a : x_at(k, b)->kind == X_GROUP ? b : (ExprId)NONE;
        ExprId index = group == a ? b : a;
        for (uint32_t d = 0; group != NONE && d < f->q->nindex; d++)
            if (f->q->index[d] == index && x_at(k, index)->kind == X_INDEX) {
                *groups = k->indices.at[x_at(k, index)->sym].axis.extent;
                return 1;
            }
    }
    return 0;
}

/* Operations of e times `times`, which is how often it is evaluated. */
static Extent count(Flops *f, ExprId e, Extent times)
{
    Module *m = f->k->module;
    const Expr *x = x_at(f->k, e);
    Extent total = ext_const(m, 0);
    if (f->seen[e])
        return total;
    f->seen[e] = 1;
    if (x->kind == X_REDUCE) {
        for (uint32_t i = 0; i < x->nbound; i++)
            times = ext_mul(m, times, f->k->indices.at[x_bound(f->k, e, i)].axis.extent);
        return ext_add(m, times, count(f, x_arg(f->k, e, 0), times));
    }
    if (x->kind == X_OP && scalar_table[x->op].cost > 0 && scalar_table[x->op].kind != SK_CAST)
        total = times;
    for (uint32_t i = 0; i < x->nargs; i++)
        total = ext_add(m, total, count(f, x_arg(f->k, e, i), times));
    return total;
}

static ExprId first_condition(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && x_condition(k, *n) != NONE)
            return x_condition(k, *n);
    return NONE;
}

static Extent equation_flops(const Kernel *k, const Equation *q)
{
    Module *m = k->module;
    Flops f = {k, q, arena_array(m->arena, uint8_t, k->exprs.len + 1)};
    Extent times = ext_const(m, 1), groups = NONE;
    ExprId condition = first_condition(k, q->rhs);
    int tied = condition != NONE && ties_row_to_lhs(&f, condition, &groups);
    for (uint32_t d = 0; d < q->nindex; d++) {
        const Expr *x = x_at(k, q->index[d]);
        Extent extent = x->kind == X_INDEX ? k->indices.at[x->sym].axis.extent : ext_const(m, 1);
        if (tied && ext_same(m, extent, groups))
            tied = 0;
        else
            times = ext_mul(m, times, extent);
    }
    return count(&f, q->rhs, times);
}

/* ---- the comment above a backward kernel ---- */

static Extent tensor_bytes(Module *m, const Tensor *t, Elem elem)
{
    Extent bytes = ext_const(m, (int64_t)elem_bytes(elem));
    for (uint32_t d = 0; d < t->rank; d++)
        bytes = ext_mul(m, bytes, t->axes[d].extent);
    return bytes;
}

static void say_saved(Module *m, const Derive *d, const Kernel *original, Text *out)
{
    Extent bytes = ext_const(m, 0);
    text_add(out, "// saved:     ");
    for (uint32_t i = 0; i < d->save.len; i++) {
        TensorId t = ir_find_tensor(original, d->save.at[i].name);
        if (t != NONE)
            bytes = ext_add(m, bytes, tensor_bytes(m, &original->tensors.at[t], d->save.at[i].elem));
    }
    ir_print_saved(d, out);
    text_add(out, d->save.len ? "; bytes: " : "nothing; bytes: ");
    ext_print(m, bytes, out);
    text_add(out, "\n");
}

static void mark(const Kernel *k, uint8_t *marked, Name tensor)
{
    TensorId t = ir_find_tensor(k, tensor);
    if (t != NONE)
        marked[t] = 1;
}

static int reads_marked(const Kernel *k, const uint8_t *marked, ExprId e)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && marked[x_at(k, *n)->sym])
            return 1;
    return 0;
}

/* By tensor of k, a backward kernel of the pair: does it depend on a cotangent? */
static const uint8_t *of_cotangents(Module *m, const DerivedPair *pair, const Kernel *k)
{
    uint8_t *marked = arena_array(m->arena, uint8_t, k->tensors.len + 1);
    for (uint32_t i = 0; i < pair->cotangents.len; i++)
        mark(k, marked, pair->cotangents.at[i].param);
    if (k->name == pair->later) {
        const Kernel *first = ir_find_kernel(m, pair->backward);
        const uint8_t *there = of_cotangents(m, pair, first);
        for (uint32_t i = 0; i < pair->handed.len; i++)
            if (there[ir_find_tensor(first, pair->handed.at[i])])
                mark(k, marked, pair->handed.at[i]);
    }
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].lhs != NONE && k->eqs.at[i].rhs != NONE && reads_marked(k, marked, k->eqs.at[i].rhs))
            marked[k->eqs.at[i].lhs] = 1;
    return marked;
}

/* Values of the forward, or parts of them: locals that depend on no cotangent. */
static void say_recomputed(Module *m, const DerivedPair *pair, const Kernel *k, Text *out)
{
    const uint8_t *marked = of_cotangents(m, pair, k);
    Extent flops = ext_const(m, 0);
    uint32_t n = 0;
    text_add(out, "// recomputed: ");
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if ((q->kind != EQ_ASSIGN && q->kind != EQ_TOP) || k->tensors.at[q->lhs].role != ROLE_LOCAL ||
            marked[q->lhs])
            continue;
        text_add(out, "%s%s", n++ ? ", " : "", k->tensors.at[q->lhs].name);
        flops = ext_add(m, flops, equation_flops(k, q));
    }
    text_add(out, n ? "; flops: " : "nothing; flops: ");
    ext_print(m, flops, out);
    text_add(out, "\n");
}

static void say_passed(const DerivedPair *pair, Text *out)
{
    for (uint32_t i = 0; i < pair->gradients.len; i++) {
        const struct PairGradient *g = &pair->gradients.at[i];
        if (g->mode == GRAD_PASS)
            text_add(out, "// passed:    d_%s is d_%s\n", g->input, g->output);
    }
}

/* What k, the first of two backward kernels, writes for the second. */
static void say_handed(Module *m, const DerivedPair *pair, const Kernel *k, Text *out)
{
    Extent bytes = ext_const(m, 0);
    text_add(out, "// handed to %s: ", pair->later);
    for (uint32_t i = 0; i < pair->handed.len; i++) {
        const Tensor *t = &k->tensors.at[ir_find_tensor(k, pair->handed.at[i])];
        text_add(out, "%s%s as %s", i ? ", " : "", t->name, elem_name(t->elem));
        bytes = ext_add(m, bytes, tensor_bytes(m, t, t->elem));
    }
    text_add(out, pair->handed.len ? "; bytes: " : "nothing; bytes: ");
    ext_print(m, bytes, out);
    text_add(out, "\n");
}

/* ---- the command ---- */

static int is_wanted(const Kernel *k, const char *name)
{
    const Derive *d = k->derived;
    if (!d || d->forward == k->name)
        return 0;
    return !name || strcmp(name, d->kernel) == 0 || strcmp(name, k->name) == 0 ||
           strcmp(name, d->forward) == 0;
}

/* Why nothing is printed. */
static int fail_without(Compilation *c, const char *kernel)
{
    const Module *m = c->module;
    Text t = {.arena = c->arena};
    if (kernel && !ir_find_kernel(m, name_of(m->names, kernel)))
        return compile_fail(c, DIAG_driver_kernel, ir_no_kernel(m, kernel, c->arena));
    const char *of = kernel ? kernel : m->kernels.len ? m->kernels.at[0]->name : "f";
    text_add(&t, kernel ? "nothing is derived from '%s'" : "the file has no `derive`", kernel);
    text_add(&t, ": derive (%s_fwd, %s_bwd) from %s wrt ... asks for it", of, of, of);
    for (uint32_t i = 0, n = 0; i < m->kernels.len; i++)
        if (is_wanted(m->kernels.at[i], NULL))
            text_add(&t, "%s%s", n++ ? ", " : "; derived are ", m->kernels.at[i]->name);
    return compile_fail(c, DIAG_driver_grad, text_string(&t));
}

static int print_backwards(Compilation *c, void *user)
{
    const GradCommand *g = user;
    Module *m = c->module;
    Text head = {.arena = c->arena}, body = {.arena = c->arena};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        Kernel *k = m->kernels.at[i];
        const Kernel *original = k->derived ? ir_find_kernel(m, k->derived->kernel) : NULL;
        if (!original || !is_wanted(k, g->kernel))
            continue;
        text_add(&head, "// %s, derived from %s\n", k->name, original->name);
        say_saved(m, k->derived, original, &head);
        const DerivedPair *pair = ir_find_pair(m, k->derived->forward);
        say_recomputed(m, pair, k, &head);
        if (k->name == pair->backward)
            say_passed(pair, &head);
        if (k->name == pair->backward && pair->later)
            say_handed(m, pair, k, &head);
    }
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (is_wanted(m->kernels.at[i], g->kernel))
            m->kernels.at[kept++] = m->kernels.at[i];
    if (kept == 0)
        return fail_without(c, g->kernel);
    m->kernels.len = kept;
    m->derives.len = m->schedules.len = m->tests.len = 0;
    if (!ir_is_printable(m))
        return DRIVER_ERROR;
    ir_print(m, NULL, &body);
    printf("%s%s", text_string(&head), text_string(&body));
    return DRIVER_OK;
}

static error_t parse_grad(int key, char *arg, struct argp_state *state)
{
    GradCommand *g = state->input;
    if (key == COMMAND_TYPE) {
        command_type(state, arg, &g->options.types);
        return 0;
    }
    if (key == COMMAND_ALLOW) {
        command_allow(state, arg, &g->options.allow);
        return 0;
    }
    if (key == ARGP_KEY_ARG && g->kernel)
        argp_error(state, "'%s' is too much", arg);
    if (key == ARGP_KEY_ARG)
        *(g->path ? &g->kernel : &g->path) = arg;
    if (key == ARGP_KEY_END && !g->path)
        argp_error(state, "no input file");
    return key == ARGP_KEY_ARG || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

int command_grad(int argc, char **argv)
{
    static const struct argp argp = {
        .options = grad_options,
        .parser = parse_grad,
        .args_doc = "FILE.moe [KERNEL]",
        .doc = "Prints the derived backward kernels as .moe text, with the bytes of saving and the flops of "
               "recomputing.",
    };
    GradCommand g = {.options = compile_defaults};
    cli_parse(&argp, argc, argv, &g);
    g.options.stop_after = "dce";
    g.options.color = command_color();
    Compilation *c = compile_new(&g.options);
    if (!c)
        return command_error("out of memory");
    int status = compile_open(c, g.path);
    if (!status)
        status = compile_read(c, 1);
    if (!status)
        status = compile_guard(c, print_backwards, &g);
    command_tell(c, status, 0);
    compile_free(c);
    return status;
}
