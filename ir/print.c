/* The text form of the equation level: a .moe file. What is printed reads back to the same program. */
#include "ir/print.h"

#include "ir/tile.h"

#include <string.h>

enum { LINE_LIMIT = 110 };

/* ---- equations ---- */

static int is_parameter(const Kernel *k, TensorId t)
{
    return t != NONE && k->tensors.at[t].role != ROLE_LOCAL;
}

static void put_subscripts(Printer *p, const Equation *q, int told)
{
    const Kernel *k = p->k;
    text_add(p->out, q->nindex ? "[" : "");
    for (uint32_t i = 0; i < q->nindex; i++) {
        const Expr *x = x_at(k, q->index[i]);
        text_add(p->out, i ? ", " : "");
        if (x->kind == X_INDEX && !told)
            printer_binding(p, x->sym, &q->rhs, 1);
        else
            printer_expr(p, q->index[i], PREC_OR);
    }
    text_add(p->out, q->nindex ? "]" : "");
}

/* A local takes the type of its value, so a value that was widened on the store says so. */
static void put_value(Printer *p, const Equation *q)
{
    const Tensor *t = &p->k->tensors.at[q->lhs];
    int widens = t->role == ROLE_LOCAL && elem_type(t->elem) == TY_F32 && x_at(p->k, q->rhs)->type != TY_F32;
    text_add(p->out, widens ? "f32(" : "");
    printer_expr(p, q->rhs, PREC_OR);
    text_add(p->out, widens ? ")" : "");
}

static void put_assignment(Printer *p, const Equation *q)
{
    text_add(p->out, "%s", p->k->tensors.at[q->lhs].name);
    put_subscripts(p, q, is_parameter(p->k, q->lhs));
    text_add(p->out, q->kind == EQ_ADD ? " += " : " = ");
    put_value(p, q);
}

static void put_top(Printer *p, const Equation *q)
{
    int told = is_parameter(p->k, q->lhs) || is_parameter(p->k, q->ids);
    text_add(p->out, "%s", p->k->tensors.at[q->lhs].name);
    put_subscripts(p, q, told);
    text_add(p->out, ", %s", p->k->tensors.at[q->ids].name);
    put_subscripts(p, q, 1);
    text_add(p->out, " = top(");
    printer_binding(p, q->bound, &q->rhs, 1);
    text_add(p->out, ") ");
    printer_expr(p, q->rhs, PREC_PRODUCT);
}

static void put_route(Printer *p, const Equation *q)
{
    const Route *r = &p->k->routes.at[q->route];
    text_add(p->out, "%s = route(%s", r->name, p->k->tensors.at[q->ids].name);
    if (r->role == ROLE_LOCAL)
        text_add(p->out, " -> %s", p->k->module->groups.at[r->group].name);
    text_add(p->out, ")");
}

/* A comment: checks are made again when the text is read. */
static void put_check(Printer *p, const Equation *q)
{
    const Tensor *t = &p->k->tensors.at[q->lhs];
    text_add(p->out, "// check %s%s axis %u: 0 <= ", q->at_entry ? "at entry " : "", t->name, q->axis);
    printer_expr(p, q->rhs, PREC_SUM);
    text_add(p->out, " < ");
    printer_extent(p, t->axes[q->axis].extent, PREC_SUM);
    if (q->guard != NONE) {
        text_add(p->out, " where ");
        printer_expr(p, q->guard, PREC_OR);
    }
}

static void put_equation(Printer *p, const Equation *q)
{
    switch (q->kind) {
    case EQ_ASSIGN:
    case EQ_ADD: put_assignment(p, q); break;
    case EQ_TOP: put_top(p, q); break;
    case EQ_ROUTE: put_route(p, q); break;
    case EQ_CHECK: put_check(p, q); break;
    }
    printer_leave(p, 0);
}

void ir_print_equation(const Kernel *k, const Equation *q, Text *out)
{
    Printer p = printer_new(k, out);
    put_equation(&p, q);
}

/* ---- kernels ---- */

const char *role_name(Role r) { return r == ROLE_IN ? "in" : r == ROLE_OUT ? "out" : "inout"; }

void axis_print(const Module *m, Axis axis, Text *out)
{
    if (axis.group != NONE)
        text_add(out, "%s", m->groups.at[axis.group].name);
    else
        ext_print(m, axis.extent, out);
}

static void put_tensor_param(const Module *m, const Tensor *t, Text *out)
{
    text_add(out, "%s %s: %s", role_name(t->role), t->name, elem_name(t->elem));
    for (uint32_t i = 0; i < t->rank; i++) {
        text_add(out, i ? ", " : "[");
        axis_print(m, t->axes[i], out);
    }
    text_add(out, t->rank ? "]" : "");
    if (t->layout == LAYOUT_PAIRS)
        text_add(out, " packed%s", t->both ? " both" : "");
}

static void put_route_param(const Module *m, const Route *r, Text *out)
{
    text_add(out, "%s %s: route[", role_name(r->role), r->name);
    ext_print(m, r->tokens, out);
    text_add(out, ", ");
    ext_print(m, r->choices, out);
    text_add(out, " -> %s]", m->groups.at[r->group].name);
}

/* Parameters on lines of at most LINE_LIMIT columns, continued under the first one. */
static void put_params(const Kernel *k, size_t column, Text *out)
{
    size_t indent = column;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Text one = {.arena = out->arena};
        Param param = k->params.at[i];
        if (param.kind == PARAM_ROUTE)
            put_route_param(k->module, &k->routes.at[param.id], &one);
        else
            put_tensor_param(k->module, &k->tensors.at[param.id], &one);
        int wraps = i > 0 && column + 2 + one.len + 4 > LINE_LIMIT;
        if (wraps)
            text_add(out, ",\n%*s%s", (int)indent, "", text_string(&one));
        else
            text_add(out, "%s%s", i ? ", " : "", text_string(&one));
        column = wraps ? indent + one.len : column + one.len + (i ? 2 : 0);
    }
}

static void put_kernel(const Kernel *k, Text *out)
{
    text_add(out, "\nkernel %s(", k->name);
    put_params(k, strlen("kernel (") + strlen(k->name), out);
    text_add(out, ") {\n");
    Printer p = printer_new(k, out);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        if (k->eqs.at[i].dead || k->eqs.at[i].kind == EQ_CHECK)
            continue;
        print_cluster(k, i, out);
        text_add(out, "  ");
        put_equation(&p, &k->eqs.at[i]);
        text_add(out, "\n");
    }
    text_add(out, "}\n");
}

/* ---- declarations ---- */

typedef struct PrintUsed {
    uint8_t *dims, *groups;
} PrintUsed;

static void use_extent(const Module *m, Extent e, PrintUsed *u)
{
    const ExtentForm *f = &m->extents.at[e];
    for (uint32_t i = 0; i < f->nterms; i++)
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            u->dims[f->terms[i].dims[d]] = 1;
}

static void use_group(const Module *m, GroupId g, PrintUsed *u)
{
    if (g == NONE)
        return;
    u->groups[g] = 1;
    use_extent(m, m->groups.at[g].groups, u);
    use_extent(m, m->groups.at[g].size, u);
}

static void use_axis(const Module *m, Axis axis, PrintUsed *u)
{
    use_group(m, axis.group, u);
    if (axis.group == NONE)
        use_extent(m, axis.extent, u);
}

static void use_expr(const Kernel *k, ExprId root, PrintUsed *u)
{
    if (root == NONE)
        return;
    each_below (e, k, root, EVERYWHERE) {
        const Expr *x = x_at(k, *e);
        if (x->kind == X_EXTENT)
            use_extent(k->module, x->sym, u);
        if (x->kind == X_INDEX)
            use_axis(k->module, k->indices.at[x->sym].axis, u);
        for (uint32_t b = 0; b < x->nbound; b++)
            use_axis(k->module, k->indices.at[x_bound(k, *e, b)].axis, u);
    }
}

static void use_kernel(const Kernel *k, PrintUsed *u)
{
    const Module *m = k->module;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        if (p.kind == PARAM_ROUTE) {
            use_extent(m, k->routes.at[p.id].tokens, u);
            use_extent(m, k->routes.at[p.id].choices, u);
            use_group(m, k->routes.at[p.id].group, u);
            continue;
        }
        for (uint32_t a = 0; a < k->tensors.at[p.id].rank; a++)
            use_axis(m, k->tensors.at[p.id].axes[a], u);
    }
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind == EQ_ROUTE)
            use_group(m, k->routes.at[q->route].group, u);
        for (uint32_t s = 0; s < q->nindex; s++)
            use_expr(k, q->index[s], u);
        use_expr(k, q->rhs, u);
        if (q->bound != NONE)
            use_axis(m, k->indices.at[q->bound].axis, u);
    }
}

void print_dim(const Dim *d, Text *out)
{
    text_add(out, "dim %s", d->name);
    if (d->max >= 0)
        text_add(out, " <= %lld", (long long)d->max);
    if (d->multiple > 1 || d->prefer > 1)
        text_add(out, " : %% %lld", (long long)d->multiple);
    if (d->prefer > 1)
        text_add(out, " prefer %lld", (long long)d->prefer);
    if (d->constant >= 0)
        text_add(out, " = %lld", (long long)d->constant);
    text_add(out, "\n");
}

void print_group(const Module *m, const Group *g, Text *out)
{
    text_add(out, "group %s : ", g->name);
    ext_print(m, g->groups, out);
    text_add(out, g->kind == GROUP_CAPACITY ? " capacity " : " rows ");
    ext_print(m, g->size, out);
    text_add(out, "\n");
}

static void put_declarations(const Module *m, const Kernel *only, Text *out)
{
    PrintUsed u = {arena_array(out->arena, uint8_t, m->dims.len + 1),
                   arena_array(out->arena, uint8_t, m->groups.len + 1)};
    if (only)
        use_kernel(only, &u);
    text_add(out, "moe 1\n\n");
    for (uint32_t d = 0; d < m->dims.len; d++)
        if (!only || u.dims[d])
            print_dim(&m->dims.at[d], out);
    for (uint32_t g = 0; g < m->groups.len; g++)
        if (!only || u.groups[g])
            print_group(m, &m->groups.at[g], out);
}

/* ---- requests ---- */

void ir_print_saved(const Derive *d, Text *out)
{
    for (uint32_t i = 0; i < d->save.len; i++) {
        const struct DeriveSave *s = &d->save.at[i];
        text_add(out, "%s%s as %s", i ? ", " : "", s->name, elem_name(s->elem));
        if (s->in)
            text_add(out, " in %s", s->in);
    }
}

/* A request that has run is a pair of kernels, which are printed instead. */
static void put_derive(const Module *m, const Derive *d, Text *out)
{
    static const char *const mode[] = {"", " as f32", " +=", " pass"}; /* by GradMode */
    if (ir_find_kernel(m, d->forward) || ir_find_kernel(m, d->backward))
        return;
    text_add(out, "\nderive (%s, %s%s%s) from %s wrt ", d->forward, d->backward, d->later ? ", " : "",
             d->later ? d->later : "", d->kernel);
    for (uint32_t i = 0; i < d->wrt.len; i++) {
        const struct DeriveWrt *w = &d->wrt.at[i];
        int first_later = w->later && !d->wrt.at[i - 1].later;
        text_add(out, "%s%s%s", first_later ? " then " : i ? ", " : "", w->name, mode[w->mode]);
    }
    text_add(out, "%s", d->save.len ? " save " : "");
    ir_print_saved(d, out);
    text_add(out, "%s\n", d->cotangents_f32 ? " cotangents f32" : "");
}

static void put_schedule(const Schedule *s, const Kernel *k, Name kernel, Text *out)
{
    Text clauses = {.arena = out->arena};
    for (uint32_t i = 0; i < s->clauses.len; i++)
        ir_print_clause(k, &s->clauses.at[i], &clauses);
    text_add(out, "\nschedule %s {\n%s}\n", kernel, text_string(&clauses));
}

/* A schedule also holds for what is derived from its kernel: once that is a kernel of its own, it has its own block. */
static void put_schedules(const Module *m, Text *out)
{
    for (uint32_t i = 0; i < m->schedules.len; i++) {
        const Schedule *s = &m->schedules.at[i];
        put_schedule(s, ir_find_kernel(m, s->kernel), s->kernel, out);
    }
    for (uint32_t i = 0; i < m->schedules.len; i++)
        for (uint32_t n = 0; n < m->kernels.len; n++) {
            const Kernel *k = m->kernels.at[n];
            if (k->derived && k->derived->kernel == m->schedules.at[i].kernel)
                put_schedule(&m->schedules.at[i], k, k->name, out);
        }
}

static void put_routing(const TestRouting *r, Text *out)
{
    switch (r->kind) {
    case ROUTING_UNIFORM: text_add(out, "uniform"); break;
    case ROUTING_ZIPF: text_add(out, "zipf(%.9g)", r->value); break;
    case ROUTING_HOT: text_add(out, "hot(%.9g)", r->value); break;
    case ROUTING_EMPTY: text_add(out, "empty(%.9g%%)", r->value); break;
    case ROUTING_EXACT:
        for (uint32_t i = 0; i < r->counts.len; i++)
            text_add(out, "%s%lld", i ? ", " : "exact(", (long long)r->counts.at[i]);
        text_add(out, ")");
        break;
    }
}

/* Is there still a `derive` of the kernel? Behind the pass that makes its kernels there is not. */
static int is_derived(const Module *m, Name kernel)
{
    for (uint32_t i = 0; i < m->derives.len; i++)
        if (m->derives.at[i].kernel == kernel)
            return 1;
    return 0;
}

static void put_test(const Module *m, const Test *t, Text *out)
{
    text_add(out, "\ntest %s {", t->kernel);
    for (uint32_t i = 0; i < t->sizes.len; i++)
        text_add(out, " %s=%lld", m->dims.at[t->sizes.at[i].dim].name, (long long)t->sizes.at[i].value);
    for (uint32_t i = 0, printed = 0; i < t->runs.len; i++) {
        const TestRun *run = &t->runs.at[i];
        for (uint32_t j = 0; j < run->routings.len; j++) {
            text_add(out, j ? ", " : printed ? "; " : "; routing ");
            put_routing(&run->routings.at[j], out);
            printed = 1;
        }
    }
    if (t->tolerance > 0)
        text_add(out, "; tol %.9g", t->tolerance);
    text_add(out, "%s }\n", t->gradcheck && is_derived(m, t->kernel) ? "; gradcheck" : "");
}

/* Of the tiles, if there are some, else of the equations. */
static uint64_t printed_nodes(const Kernel *k)
{
    uint64_t n = 0;
    for (uint32_t q = 0; !k->tiles && q < k->eqs.len && n <= PRINTED_MAX; q++)
        n += x_written_nodes(k, k->eqs.at[q].rhs, PRINTED_MAX);
    for (StmtId id = 0; k->tiles && id < k->tiles->stmts.len && n <= PRINTED_MAX; id++) {
        tile_each_operand (o, tile_at(k, id))
            n += tile_operand_is_expr(&o) ? x_written_nodes(k, o.id, PRINTED_MAX) : 0;
    }
    return n;
}

int ir_prints_within(const Module *m, uint64_t operations)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (printed_nodes(m->kernels.at[i]) > operations)
            return 0;
    return 1;
}

int ir_is_printable(const Module *m)
{
    int fits = 1;
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        if (printed_nodes(k) <= PRINTED_MAX)
            continue;
        diag_add(m->diags, DIAG_program_size, k->loc, "give what its functions compute more than once a name",
                 "kernel %s has more than %d operations as text, which writes what is shared at each use",
                 k->name, PRINTED_MAX);
        fits = 0;
    }
    return fits;
}

void ir_print(const Module *m, const Kernel *kernel, Text *out)
{
    put_declarations(m, kernel, out);
    if (kernel) {
        put_kernel(kernel, out);
        return;
    }
    for (uint32_t i = 0; i < m->kernels.len; i++)
        put_kernel(m->kernels.at[i], out);
    for (uint32_t i = 0; i < m->derives.len; i++)
        put_derive(m, &m->derives.at[i], out);
    put_schedules(m, out);
    for (uint32_t i = 0; i < m->tests.len; i++)
        put_test(m, &m->tests.at[i], out);
}
