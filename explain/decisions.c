/* `moec explain --decisions`: how each launch is laid over loops, as the lowering decided before it emitted anything. */
#include "explain/explain.h"
#include "explain/table.h"

/* "blocks of 512, 128 at a time" */
static const char *blocks_text(Arena *a, int64_t most, int64_t part, int even)
{
    if (part && part < most)
        return arena_printf(a, "blocks of %s%lld, packed %lld at a time", even ? "equal size up to " : "",
                            (long long)most, (long long)part);
    return arena_printf(a, "blocks of %lld", (long long)most);
}

static const char *names_text(Arena *a, const ReportNest *n)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < n->writes.len; i++)
        text_add(&t, "%s%s", i ? ", " : "", n->writes.at[i]);
    return text_string(&t);
}

static const char *sums_text(Arena *a, const ReportOperands *p)
{
    if (!p->sums)
        return "accumulated in a block of the thread";
    if (!p->sums_terms)
        return arena_printf(a, "accumulated in %s", p->sums);
    return arena_printf(a, "accumulated in %s, of more than %lld terms in a block of the thread", p->sums,
                        (long long)p->sums_terms);
}

static void add_product(ExplainTable *t, const ReportOperands *p)
{
    Arena *a = t->arena;
    table_add(t, "product",
              arena_printf(a, "%s (%s, packed)", p->left ? p->left : "computed", elem_name(p->left_elem)),
              arena_printf(a, "* %s (%s, %s)", p->right ? p->right : "computed", elem_name(p->right_elem),
                           p->right_from),
              sums_text(a, p));
}

static void put_nest(const ReportNest *n, Text *out)
{
    Arena *a = out->arena;
    ExplainTable t = {.arena = a};
    table_add(&t, "writes", names_text(a, n), "", "");
    if (n->row)
        table_add(&t, "rows", n->row, blocks_text(a, n->rows, n->part, n->even), "");
    if (n->lane)
        table_add(&t, "columns", n->lane,
                  n->cols ? arena_printf(a, "blocks of %lld", (long long)n->cols) : "all",
                  arena_printf(a, "%lld lanes", (long long)n->width));
    if (n->depth)
        table_add(&t, "terms", "", arena_printf(a, "slabs of %lld", (long long)n->depth), "");
    for (uint32_t i = 0; i < n->products.len; i++)
        add_product(&t, &n->products.at[i]);
    table_put(&t, arena_printf(a, "launch %s: %s", n->launch, n->kind), out);
}

void explain_decisions(const Explain *e, Text *out)
{
    const Report *r = e->c->report;
    for (uint32_t i = 0; i < e->kernels.len; i++) {
        const Kernel *k = e->kernels.at[i].k;
        text_add(out, "%skernel %s for %s\n", i ? "\n" : "", k->name, explain_target(e));
        for (uint32_t n = 0; n < r->nests.len; n++)
            if (r->nests.at[n].k == k)
                put_nest(&r->nests.at[n].n, out);
    }
}
