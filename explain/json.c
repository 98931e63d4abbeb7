/* What explain.c put together, as JSON. */
#include "explain/explain.h"

#include "base/json.h"

static json_t *name_or_null(const char *text) { return text ? json_string(text) : json_null(); }

static json_t *extent_value(const Explain *e, Extent x)
{
    Text t = {.arena = e->m->arena};
    int64_t value = explain_extent(e, x);
    if (value >= 0)
        return json_integer(value);
    ext_print(e->m, x, &t);
    return json_string(text_string(&t));
}

static json_t *edge_value(const Explain *e, const ExplainEdge *x)
{
    static const char *const states[] = {
        [STATE_FUSED] = "fused", [STATE_PLACED] = "placed", [STATE_STORED] = "stored"};
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:i, s:i}", "producer", x->e.producer, "consumer",
                     x->e.consumer, "state", states[x->state], "rule", name_or_null(x->e.rule), "why",
                     name_or_null(x->e.why), "bytes", extent_value(e, x->e.saved), "line", (int)x->e.loc.line,
                     "blocker_line", (int)x->e.blocker.line);
}

static json_t *product_value(const Explain *e, const ExplainProduct *x)
{
    int64_t units[3];
    explain_units(e, x->elem != EL_F32, units);
    json_t *v = json_pack("{s:s, s:i, s:s, s:s, s:o, s:b, s:b, s:b}", "tensor", x->p.lhs, "line",
                          (int)x->p.loc.line, "operands", elem_name(x->elem), "fragment",
                          x->p.fragment ? x->p.fragment : "not said", "why", name_or_null(x->p.why), "cube",
                          x->elem != EL_F32, "plain", x->p.rows == 0 && !x->is_dot, "reduction", x->is_dot);
    if (!x->p.rows)
        return v;
    json_object_set_new(
        v, "blocks",
        json_pack("[I, I, I]", (json_int_t)x->p.rows, (json_int_t)x->p.cols, (json_int_t)x->p.depth));
    json_object_set_new(v, "extents",
                        json_pack("[o, o, o]", extent_value(e, x->p.extent[0]),
                                  extent_value(e, x->p.extent[1]), extent_value(e, x->p.extent[2])));
    json_object_set_new(
        v, "rounds_to",
        json_pack("[I, I, I]", (json_int_t)units[0], (json_int_t)units[1], (json_int_t)units[2]));
    json_object_set_new(v, "left", name_or_null(x->p.left));
    json_object_set_new(v, "right", name_or_null(x->p.right));
    json_object_set_new(v, "padding", x->padding >= 0 ? json_real(x->padding) : json_null());
    return v;
}

static json_t *word_or_number(const Explain *e, Knob knob, int64_t value)
{
    Text t = {.arena = e->m->arena};
    if (!*knob_table[knob].words)
        return json_integer(value);
    knob_put_value(knob, value, &t);
    return json_string(text_string(&t));
}

static json_t *knob_value(const Explain *e, const ReportKnob *n)
{
    const KnobRow *row = &knob_table[n->knob];
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:s, s:i}", "clause", row->clause, "knob", row->word,
                     "tensor", name_or_null(n->name), "reader", name_or_null(n->reader), "value",
                     word_or_number(e, n->knob, n->value), "keeps_bits", knob_keeps_bits(n->knob, n->value),
                     "origin", origin_name(n->origin), "line", n->from ? (int)n->from->loc.line : 0);
}

/* ---- the space ---- */

/* A value as a clause writes it after the rest of it. */
static json_t *choice_value(Knob knob, const char *clause, int64_t value, Arena *a)
{
    Text t = {.arena = a};
    text_add(&t, "%s ", clause);
    knob_put_value(knob, value, &t);
    return json_pack("{s:s, s:b}", "clause", text_string(&t), "keeps_bits", knob_keeps_bits(knob, value));
}

/* As many threads as the call has, or more, are what it takes without a clause. */
static int changes_nothing(Knob knob, int64_t value, int most_threads)
{
    return knob == KNOB_threads && most_threads && value >= most_threads;
}

/* A knob of several values: "tile g : M" with a clause for each, that of now first. */
static json_t *dial_value(const Explain *e, const ReportKnob *n, int most_threads)
{
    const char *clause = explain_clause(e->m->arena, n);
    int64_t values[KNOB_SPACE_MAX + 1];
    uint32_t count = explain_values(n, values);
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        if (!i || !changes_nothing(n->knob, values[i], most_threads))
            json_array_append_new(list, choice_value(n->knob, clause, values[i], e->m->arena));
    return json_pack("{s:s, s:o, s:b}", "knob", clause, "values", list, "ordered",
                     !*knob_table[n->knob].words);
}

/* A clause that can be given or not. */
static json_t *switch_value(const Explain *e, const ReportKnob *n)
{
    const char *clause = explain_knob(e->m->arena, n);
    return json_pack("{s:s, s:[{s:n, s:b}, {s:s, s:b}], s:b}", "knob", clause, "values", "clause",
                     "keeps_bits", 1, "clause", clause, "keeps_bits", knob_keeps_bits(n->knob, n->value),
                     "ordered", 0);
}

char *explain_space_json(const Explain *e, const Explained *x, int most_threads)
{
    json_t *knobs = json_array(), *fixed = json_array();
    for (uint32_t i = 0; i < x->knobs.len; i++)
        if (explain_is_clause(x, i))
            json_array_append_new(fixed, json_string(explain_knob(e->m->arena, &x->knobs.at[i])));
        else if (explain_is_dial(x, i))
            json_array_append_new(knobs, dial_value(e, &x->knobs.at[i], most_threads));
    for (uint32_t i = 0; i < x->choices.len; i++)
        json_array_append_new(knobs, switch_value(e, &x->choices.at[i]));
    json_t *all = json_pack("{s:s, s:s, s:o, s:o}", "kernel", x->k->name, "target", explain_target(e),
                            "fixed", fixed, "knobs", knobs);
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    return text;
}

static json_t *unused_value(const ExplainUnused *u)
{
    const KnobRow *row = &knob_table[u->setting->knob];
    return json_pack("{s:s, s:s, s:i, s:b}", "clause", row->clause, "knob", row->word, "line",
                     (int)u->setting->loc.line, "machine_lacks_it", row->source == SOURCE_NONE);
}

static json_t *operands_value(const ReportOperands *p)
{
    return json_pack("{s:o, s:s, s:o, s:s, s:s, s:o, s:I}", "left", name_or_null(p->left), "left_type",
                     elem_name(p->left_elem), "right", name_or_null(p->right), "right_type",
                     elem_name(p->right_elem), "right_from", p->right_from, "sums", name_or_null(p->sums),
                     "sums_terms", (json_int_t)p->sums_terms);
}

/* A decision of the lowering; numbers that do not apply are 0. */
static json_t *nest_value(const ReportNest *n)
{
    json_t *writes = json_array(), *products = json_array();
    for (uint32_t i = 0; i < n->writes.len; i++)
        json_array_append_new(writes, json_string(n->writes.at[i]));
    for (uint32_t i = 0; i < n->products.len; i++)
        json_array_append_new(products, operands_value(&n->products.at[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:o}", "launch", n->launch,
                     "kind", n->kind, "writes", writes, "row", name_or_null(n->row), "column",
                     name_or_null(n->lane), "rows", (json_int_t)n->rows, "rows_packed", (json_int_t)n->part,
                     "rows_unrolled", (json_int_t)n->unrolled, "rows_even", n->even, "columns",
                     (json_int_t)n->cols, "lanes", (json_int_t)n->width, "terms", (json_int_t)n->depth,
                     "products", products);
}

static json_t *decisions_value(const Explain *e, const Kernel *k)
{
    const Report *r = e->c->report;
    json_t *list = json_array();
    for (uint32_t n = 0; n < r->nests.len; n++)
        if (r->nests.at[n].k == k)
            json_array_append_new(list, nest_value(&r->nests.at[n].n));
    return list;
}

static json_t *kernel_value(const Explain *e, const Explained *x)
{
    json_t *edges = json_array(), *products = json_array(), *knobs = json_array(), *choices = json_array(),
           *unused = json_array();
    for (uint32_t i = 0; i < x->edges.len; i++)
        json_array_append_new(edges, edge_value(e, &x->edges.at[i]));
    for (uint32_t i = 0; i < x->products.len; i++)
        json_array_append_new(products, product_value(e, &x->products.at[i]));
    for (uint32_t i = 0; i < x->knobs.len; i++)
        json_array_append_new(knobs, knob_value(e, &x->knobs.at[i]));
    for (uint32_t i = 0; i < x->choices.len; i++)
        json_array_append_new(choices, knob_value(e, &x->choices.at[i]));
    for (uint32_t i = 0; i < x->unused.len; i++)
        json_array_append_new(unused, unused_value(&x->unused.at[i]));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "kernel", x->k->name, "edges", edges, "products",
                     products, "decisions", decisions_value(e, x->k), "knobs", knobs, "choices", choices,
                     "unused", unused);
}

static json_t *hints_value(const Explain *e)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->c->diags.list.len; i++) {
        const Diag *d = &e->c->diags.list.at[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "code", diag_code_name(d->code), "line",
                                              (int)d->loc.line, "message", d->message));
    }
    return list;
}

const char *explain_json(const Explain *e)
{
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < e->kernels.len; i++)
        json_array_append_new(kernels, kernel_value(e, &e->kernels.at[i]));
    json_t *all = json_pack("{s:s, s:o, s:o}", "target", explain_target(e), "kernels", kernels, "hints",
                            hints_value(e));
    return json_text(e->m->arena, all);
}
