/* Puts together what `moec explain FILE` shows; see explain.h. */
#include "explain/explain.h"

#include <string.h>

/* ---- edges ---- */

static const Equation *equation_of(const Kernel *k, Name lhs)
{
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!q->dead && q->kind != EQ_CHECK && q->lhs != NONE && k->tensors.at[q->lhs].name == lhs)
            return q;
    }
    return NULL;
}

/* The reports of k are about a name, so the last one counts. */
static const ReportEdge *reported_edge(const Report *r, const Kernel *k, Name producer, Name consumer)
{
    for (uint32_t i = r->edges.len; i-- > 0;) {
        const ReportEdge *e = &r->edges.at[i].e;
        if (r->edges.at[i].k == k && e->producer == producer && e->consumer == consumer)
            return e;
    }
    return NULL;
}

/* Where the value is at last, whatever was reported. */
static EdgeState state_of(const Kernel *k, const ReportEdge *e)
{
    TensorId t = ir_find_tensor(k, e->producer);
    if (e->rule || t == NONE || !equation_of(k, e->producer))
        return STATE_FUSED;
    return k->tensors.at[t].placed ? STATE_PLACED : STATE_STORED;
}

/* Written once and read once. */
static Extent traffic(const Kernel *k, Name local)
{
    Module *m = k->module;
    TensorId t = ir_find_tensor(k, local);
    if (t == NONE)
        return ext_const(m, 0);
    Extent bytes = ext_const(m, 2 * (int64_t)elem_bytes(k->tensors.at[t].elem));
    for (uint32_t a = 0; a < k->tensors.at[t].rank; a++)
        bytes = ext_mul(m, bytes, k->tensors.at[t].axes[a].extent);
    return bytes;
}

static void add_edge(const Explain *e, Explained *out, ReportEdge edge)
{
    ExplainEdge row = {.e = edge, .state = state_of(out->k, &edge)};
    if (row.state == STATE_FUSED && !row.e.rule)
        row.e.why = NULL; /* what blocked it then did not block it later */
    vec_push(e->m->arena, &out->edges, row);
}

static int is_listed(const Explained *x, Name producer)
{
    for (uint32_t i = 0; i < x->edges.len; i++)
        if (x->edges.at[i].e.producer == producer)
            return 1;
    return 0;
}

/* The edges of the program before fusion, then those of locals that passes made. `before` has names of its own. */
static void list_edges(const Explain *e, const Kernel *before, Explained *out)
{
    const Report *r = e->c->report;
    ReportPairs pairs = report_pairs(before);
    for (uint32_t i = 0; i < pairs.len; i++) {
        Name producer = name_of(e->m->names, before->tensors.at[pairs.at[i].producer].name);
        Name consumer = name_of(e->m->names, before->tensors.at[pairs.at[i].consumer].name);
        const ReportEdge *said = reported_edge(r, out->k, producer, consumer);
        ReportEdge unsaid = {.producer = producer,
                             .consumer = consumer,
                             .loc = pairs.at[i].loc,
                             .saved = traffic(out->k, producer)};
        add_edge(e, out, said ? *said : unsaid);
    }
    for (uint32_t i = 0; i < r->edges.len; i++)
        if (r->edges.at[i].k == out->k && !is_listed(out, r->edges.at[i].e.producer))
            add_edge(e, out, r->edges.at[i].e);
}

/* ---- products ---- */

const char *explain_target(const Explain *e)
{
    return compile_is_npu(e->c) ? e->c->machine->name : cpu_table[e->isa].name;
}

void explain_units(const Explain *e, int cube, int64_t units[3])
{
    const Cpu *cpu = &cpu_table[cube ? e->isa : cpu_table[e->isa].f32];
    if (compile_is_npu(e->c)) {
        const Machine *m = e->c->machine;
        units[0] = m->cube_16bit.rows;
        units[1] = m->cube_16bit.cols;
        units[2] = m->cube_16bit.depth;
        return;
    }
    units[0] =
        cpu->rows & -cpu->rows; /* rows that are left over go by the largest power of two in a fragment */
    units[1] = (int64_t)cpu->lanes * cpu->vectors;
    units[2] = cube ? cpu->terms : 1;
}

int64_t explain_extent(const Explain *e, Extent x)
{
    const Module *m = e->m;
    int64_t value;
    const ExtentForm *form = &m->extents.at[x];
    for (uint32_t t = 0; t < form->nterms; t++)
        for (uint32_t d = 0; d < form->terms[t].ndims; d++)
            if (m->dims.at[form->terms[t].dims[d]].constant < 0 && e->sizes[form->terms[t].dims[d]] < 0)
                return -1;
    return ext_eval(m, x, e->sizes, &value) ? value : -1;
}

static int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

/* Rows of all runs of a group together: as they are (*rows) and each run rounded up (the result); -1: not known. */
static double runs(const Explain *e, GroupId g, int64_t unit, int64_t all, int64_t *rows)
{
    int64_t groups = explain_extent(e, e->m->groups.at[g].groups), sum = 0;
    double padded = 0;
    if (groups < 0)
        return -1;
    for (int64_t i = 0; i < groups; i++) {
        int64_t run = all / groups + (i < all % groups);
        if (e->rows)
            run = i < e->rows->counts.len ? e->rows->counts.at[i] : 0;
        sum += run;
        padded += (double)round_up(run, unit);
    }
    *rows = sum;
    return padded;
}

/* The part of the multiply-adds that goes to padding, or -1. */
static double padding_of(const Explain *e, const ExplainProduct *x)
{
    const GroupId group[3] = {x->p.row_group, 0, x->p.depth_group};
    int64_t units[3];
    double useful = 1, all = 1;
    explain_units(e, x->elem != EL_F32, units);
    for (int i = 0; i < 3; i++) {
        int64_t v = explain_extent(e, x->p.extent[i]);
        double padded = v < 0 ? -1 : (double)round_up(v, units[i]);
        if (v >= 0 && group[i])
            padded = runs(e, group[i] - 1, units[i], v, &v);
        if (padded < 0)
            return -1;
        useful *= (double)v;
        all *= padded;
    }
    return all > 0 ? 1 - useful / all : 0;
}

/* d_k2 of d_k, or a place that is said to be of it: the lowering's own for what an equation adds up block by block. */
static int is_copy_of(const Kernel *k, Name made, const Tensor *of)
{
    size_t len = strlen(of->name);
    if (equation_of(k, made))
        return 0;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].name == made &&
            k->tensors.at[t].original == (of->original ? of->original : of->name))
            return 1;
    return strncmp(made, of->name, len) == 0 && made[len] &&
           strspn(made + len, "0123456789") == strlen(made + len);
}

/* Is the report about the equation of the sum, or about one that shares its sums? */
static int is_about(const Explained *x, const ReportProduct *p, const ReportSum *s)
{
    const Tensor *lhs = &x->k->tensors.at[s->q->lhs];
    const Equation *q = equation_of(x->k, p->lhs);
    if (p->lhs == lhs->name || is_copy_of(x->k, p->lhs, lhs))
        return 1;
    return q && q->cluster != NONE && q->cluster == s->q->cluster &&
           x->k->clusters.at[q->cluster].kind == CLUSTER_EPILOGUE;
}

/* The first report about a sum that is not taken yet: an equation's sums are reported in their order. */
static const ReportProduct *reported_product(const Report *r, const Explained *x, const ReportSum *s,
                                             uint8_t *taken)
{
    for (uint32_t i = 0; s->q->lhs != NONE && i < r->products.len; i++) {
        const ReportProduct *p = &r->products.at[i].p;
        if (taken[i] || r->products.at[i].k != x->k || p->cube != (s->elem != EL_F32) || !is_about(x, p, s))
            continue;
        taken[i] = 1;
        return p;
    }
    return NULL;
}

static void add_product(const Explain *e, Explained *out, ExplainProduct p)
{
    if (p.p.rows && compile_is_npu(e->c))
        p.p.fragment = "cube";
    p.padding = p.reported && p.p.rows ? padding_of(e, &p) : -1;
    vec_push(e->m->arena, &out->products, p);
}

static int same_rows(const Explain *e, Extent x, GroupId group)
{
    return group && ext_same(e->m, x, e->m->groups.at[group - 1].rows);
}

static ExplainProduct unreported(const Explained *x, const ReportSum *s)
{
    ExplainProduct p = {.elem = s->elem, .is_dot = s->is_dot, .padding = -1};
    p.p.lhs = s->q->lhs == NONE ? "" : x->k->tensors.at[s->q->lhs].name;
    p.p.loc = s->loc;
    p.p.fragment = s->is_dot ? "reduction" : "plain loops";
    p.p.why = s->is_dot ? "operands share all free indices (no GEMM)" : "the lowering says nothing of it";
    return p;
}

/* Every sum of products that the lowering met, reported or not. */
static void list_products(const Explain *e, Explained *out)
{
    const Report *r = e->c->report;
    ReportSums sums = report_sums(out->k);
    uint8_t *taken = arena_array(e->m->arena, uint8_t, r->products.len + 1);
    for (uint32_t i = 0; i < sums.len; i++) {
        const ReportSum *s = &sums.at[i];
        const ReportProduct *said = reported_product(r, out, s, taken);
        ExplainProduct p = unreported(out, s);
        if (said && (said->rows || !s->is_dot)) {
            p.p = *said;
            p.p.lhs = out->k->tensors.at[s->q->lhs].name;
            p.p.loc = s->loc;
            p.p.row_group = same_rows(e, said->extent[0], s->row_group) ? s->row_group : 0;
            p.p.depth_group = same_rows(e, said->extent[2], s->depth_group) ? s->depth_group : 0;
            p.reported = 1;
        }
        add_product(e, out, p);
    }
    for (uint32_t i = 0; i < r->products.len; i++)
        if (!taken[i] && r->products.at[i].k == out->k && r->products.at[i].p.rows) {
            const ReportProduct *p = &r->products.at[i].p;
            add_product(e, out, (ExplainProduct){.p = *p, .elem = p->cube ? EL_BF16 : EL_F32, .reported = 1});
        }
}

/* ---- knobs ---- */

static int is_used(const Explained *x, const Setting *s)
{
    for (uint32_t i = 0; i < x->knobs.len; i++)
        if (x->knobs.at[i].from == s)
            return 1;
    return 0;
}

static void list_unused(const Explain *e, Explained *out, Name kernel)
{
    for (uint32_t i = 0; i < e->m->schedules.len; i++) {
        const Schedule *s = &e->m->schedules.at[i];
        for (uint32_t n = 0; s->kernel == kernel && n < s->clauses.len; n++) {
            const Clause *c = &s->clauses.at[n];
            for (uint32_t j = 0; j < c->settings.len; j++)
                if (!is_used(out, &c->settings.at[j]))
                    vec_push(e->m->arena, &out->unused, (ExplainUnused){c, &c->settings.at[j]});
        }
    }
}

/* Gives the knob the name that a clause can give it. 0: none can. */
static int name_as_written(const Explain *e, const Kernel *before, ReportKnob *n)
{
    for (uint32_t i = 0; i < n->names.len; i++)
        if (ir_knob_fits(before, n->knob, name_of(e->before->names, n->names.at[i]))) {
            n->name = n->names.at[i];
            return 1;
        }
    return n->names.len == 0;
}

/* Is it an edge of the program as it was written? Fusion asks again for what it has put together. */
static int is_edge(const Explained *x, const ReportKnob *n)
{
    for (uint32_t i = 0; i < x->edges.len; i++)
        if (x->edges.at[i].e.producer == n->name && x->edges.at[i].e.consumer == n->reader)
            return 1;
    return 0;
}

/* Makes the clause of what a schedule said of an edge. 0: it said nothing. */
static int name_edge(const Explained *x, ReportKnob *n)
{
    if (n->origin == ORIGIN_RULE || (n->origin == ORIGIN_SEED && n->value) || !is_edge(x, n))
        return 0;
    if (n->value) {
        n->value = n->from->values.at[0];
    } else {
        n->knob = KNOB_store;
        n->reader = NULL;
        n->value = 1;
    }
    return 1;
}

static void add_knob(const Explain *e, ExplainKnobs *list, ReportKnob n)
{
    for (uint32_t i = 0; i < list->len; i++) {
        const ReportKnob *old = &list->at[i];
        if (old->knob == n.knob && old->name == n.name && old->reader == n.reader && old->value == n.value)
            return;
    }
    vec_push(e->m->arena, list, n);
}

static void list_knobs(const Explain *e, const Kernel *before, Explained *out)
{
    const Report *r = e->c->report;
    for (uint32_t i = 0; i < r->knobs.len; i++) {
        ReportKnob n = r->knobs.at[i].n;
        int edge = knob_table[n.knob].scope == SCOPE_EDGE;
        if (r->knobs.at[i].k == out->k && (edge ? name_edge(out, &n) : name_as_written(e, before, &n)))
            add_knob(e, &out->knobs, n);
    }
    list_unused(e, out, out->k->name);
}

/* ---- choices ---- */

/* Does a schedule fuse or store it? */
static int is_said(const Explained *x, Name producer)
{
    for (uint32_t i = 0; i < x->knobs.len; i++)
        if (x->knobs.at[i].name == producer &&
            (x->knobs.at[i].knob == KNOB_store || x->knobs.at[i].knob == KNOB_fuse))
            return 1;
    return 0;
}

static void choose_store(const Explain *e, Explained *out, const ExplainEdge *x)
{
    TensorId t = ir_find_tensor(out->k, x->e.producer);
    if (x->state != STATE_STORED && t != NONE && out->k->tensors.at[t].role == ROLE_LOCAL)
        add_knob(e, &out->choices, (ReportKnob){.knob = KNOB_store, .name = x->e.producer, .value = 1});
}

static void choose_fuse(const Explain *e, const Kernel *before, Explained *out, const ReportChoice *c)
{
    Name from = name_of(e->before->names, c->producer), to = name_of(e->before->names, c->consumer);
    int64_t at = c->scatter                                    ? AT_SCATTER
                 : ir_fuse_fits(before, from, to, AT_PROLOGUE) ? AT_PROLOGUE
                                                               : AT_EPILOGUE;
    ReportKnob n = {.knob = KNOB_fuse, .name = c->producer, .reader = c->consumer, .value = at};
    if (ir_fuse_fits(before, from, to, at))
        add_knob(e, &out->choices, n);
}

static void list_choices(const Explain *e, const Kernel *before, Explained *out)
{
    const Report *r = e->c->report;
    for (uint32_t i = 0; i < out->edges.len; i++)
        if (!is_said(out, out->edges.at[i].e.producer))
            choose_store(e, out, &out->edges.at[i]);
    for (uint32_t i = 0; i < r->choices.len; i++)
        if (r->choices.at[i].k == out->k && !is_said(out, r->choices.at[i].c.producer))
            choose_fuse(e, before, out, &r->choices.at[i].c);
}

/* ---- all ---- */

int explain_make(Explain *e)
{
    int status = compile_module(e->c, "checks", &e->before);
    e->c->report = report_new(e->c->arena);
    e->isa = e->c->isas.at[0];
    return status ? status : compile_module(e->c, NULL, &e->m);
}

int explain_collect(Explain *e, const char *kernel)
{
    Compilation *c = e->c;
    for (uint32_t i = 0; i < e->m->kernels.len; i++) {
        const Kernel *k = e->m->kernels.at[i];
        Explained x = {.k = k};
        if (kernel && strcmp(kernel, k->name) != 0)
            continue;
        const Kernel *before = ir_find_kernel(e->before, name_of(e->before->names, k->name));
        list_edges(e, before, &x);
        list_products(e, &x);
        list_knobs(e, before, &x);
        list_choices(e, before, &x);
        vec_push(c->arena, &e->kernels, x);
    }
    if (!kernel || e->kernels.len)
        return DRIVER_OK;
    return compile_fail(c, DIAG_driver_kernel, ir_no_kernel(e->m, kernel, c->arena));
}

/* ---- hints ---- */

/* The dimension that an extent is, constants apart; NONE: another one. */
static DimId dim_of(const Module *m, Extent x)
{
    const ExtentForm *f = &m->extents.at[x];
    return f->nterms == 1 && f->terms[0].ndims == 1 ? f->terms[0].dims[0] : (DimId)NONE;
}

/* A dimension that misses its `prefer`, where that costs most. */
typedef struct Miss {
    const Explained *x;
    const ExplainProduct *p;
    int axis;
    int64_t size;
    double waste; /* of the multiply-adds, in percent; -1: no miss */
} Miss;

static void weigh(const Explain *e, DimId d, Miss try, Miss *worst)
{
    int64_t units[3];
    const Dim *dim = &e->m->dims.at[d];
    try.size = explain_extent(e, try.p->p.extent[try.axis]);
    if (dim_of(e->m, try.p->p.extent[try.axis]) != d || try.size <= 0 || try.size % dim->prefer == 0)
        return;
    explain_units(e, try.p->elem != EL_F32, units);
    try.waste = 100 * (1 - (double)try.size / (double)round_up(try.size, units[try.axis]));
    if (try.waste > worst->waste)
        *worst = try;
}

static void hint(Explain *e, DimId d)
{
    static const char *const names[] = {"rows", "columns", "depth"};
    Miss worst = {.waste = -1};
    for (uint32_t i = 0; i < e->kernels.len; i++)
        for (uint32_t n = 0; n < e->kernels.at[i].products.len; n++)
            for (int axis = 0; axis < 3; axis++) {
                const ExplainProduct *p = &e->kernels.at[i].products.at[n];
                if (p->p.rows)
                    weigh(e, d, (Miss){.x = &e->kernels.at[i], .p = p, .axis = axis}, &worst);
            }
    if (worst.waste < 0)
        return;
    const Dim *dim = &e->m->dims.at[d];
    diag_add(&e->c->diags, DIAG_prefer_missed, dim->loc,
             arena_printf(e->m->arena, "%lld would fill whole blocks",
                          (long long)round_up(worst.size, dim->prefer)),
             "%s = %lld misses `prefer %lld`: as the %s of %s in kernel %s, %.1f %% of the multiply-adds go "
             "to padding, "
             "and the last %lld go in a block that is not full",
             dim->name, (long long)worst.size, (long long)dim->prefer, names[worst.axis], worst.p->p.lhs,
             worst.x->k->name, worst.waste, (long long)(worst.size % dim->prefer));
}

void explain_hints(Explain *e)
{
    for (DimId d = 0; d < e->m->dims.len; d++)
        if (e->m->dims.at[d].prefer > 1)
            hint(e, d);
}
