/* What explain.c put together, as text. */
#include "explain/explain.h"
#include "explain/table.h"

#include <string.h>

static const char *extent_text(const Explain *e, Extent x)
{
    Text t = {.arena = e->m->arena};
    int64_t value = explain_extent(e, x);
    if (value >= 0)
        text_add(&t, "%lld", (long long)value);
    else
        ext_print(e->m, x, &t);
    return text_string(&t);
}

static const char *line_text(const Explain *e, Loc loc)
{
    if (loc.line == 0)
        return "";
    const char *path = e->c->diags.files.at[loc.file].path;
    path = strcmp(path, e->c->path) == 0 ? "" : path;
    return arena_printf(e->m->arena, "%s%sline %u", path, *path ? " " : "", loc.line);
}

/* ---- edges ---- */

static const char *state_text(const Explain *e, const ExplainEdge *x)
{
    static const char *const names[] = {
        [STATE_FUSED] = "fused", [STATE_PLACED] = "in blocks of a thread", [STATE_STORED] = "stored"};
    return x->e.rule ? arena_printf(e->m->arena, "%s: %s", names[x->state], x->e.rule) : names[x->state];
}

static void put_edges(const Explain *e, const Explained *x, Text *out)
{
    Arena *a = e->m->arena;
    ExplainTable t = {.arena = a};
    for (uint32_t i = 0; i < x->edges.len; i++) {
        const ExplainEdge *row = &x->edges.at[i];
        int stored = row->state == STATE_STORED;
        const char *why = row->e.why ? row->e.why : "";
        if (row->e.blocker.line)
            why = arena_printf(a, "%s: %s", line_text(e, row->e.blocker), why);
        table_add(
            &t, arena_printf(a, "%s -> %s", row->e.producer, row->e.consumer), state_text(e, row),
            arena_printf(a, "%s %s bytes", stored ? "would save" : "saves", extent_text(e, row->e.saved)),
            why);
    }
    table_put(&t, "edges", out);
}

/* ---- products ---- */

/* "rows T*K in E groups, each to 4, columns F to 32" */
static const char *rounding_text(const Explain *e, const ExplainProduct *p)
{
    static const char *const names[] = {"rows", "columns", "depth"};
    const GroupId group[3] = {p->p.row_group, 0, p->p.depth_group};
    int64_t units[3];
    Text t = {.arena = e->m->arena};
    explain_units(e, p->elem != EL_F32, units);
    for (int i = 0; i < 3; i++) {
        if (units[i] == 1)
            continue;
        text_add(&t, "%s%s %s", t.len ? ", " : "", names[i], extent_text(e, p->p.extent[i]));
        if (group[i])
            text_add(&t, " in %s groups, each", extent_text(e, e->m->groups.at[group[i] - 1].groups));
        text_add(&t, " to %lld", (long long)units[i]);
    }
    return text_string(&t);
}

static void put_blocks(const Explain *e, const ExplainProduct *p, Text *out)
{
    text_add(out, "      blocks %lld x %lld x %lld; left %s; right %s\n      padding", (long long)p->p.rows,
             (long long)p->p.cols, (long long)p->p.depth, p->p.left ? p->p.left : "not said",
             p->p.right ? p->p.right : "not said");
    if (p->padding >= 0)
        text_add(out, " %.1f %% of the multiply-adds:", 100 * p->padding);
    text_add(out, " %s\n", rounding_text(e, p));
}

static void put_products(const Explain *e, const Explained *x, Text *out)
{
    text_add(out, x->products.len ? "  products\n" : "");
    for (uint32_t i = 0; i < x->products.len; i++) {
        const ExplainProduct *p = &x->products.at[i];
        const char *elem = elem_name(p->elem);
        text_add(out, "    %s, %s, %s%s%s: %s", p->p.lhs, line_text(e, p->p.loc),
                 p->elem == EL_F32 ? "" : elem, p->elem == EL_F32 ? "f32" : " x ",
                 p->elem == EL_F32 ? "" : elem, p->p.fragment ? p->p.fragment : "not said");
        text_add(out, "%s%s\n", p->p.why ? "; " : "", p->p.why ? p->p.why : "");
        if (p->p.rows)
            put_blocks(e, p, out);
    }
}

/* ---- knobs ---- */

/* "tile g : M =", "fuse g -> a at", "store g": a clause without its value */
const char *explain_clause(Arena *a, const ReportKnob *n)
{
    const KnobRow *row = &knob_table[n->knob];
    Text t = {.arena = a};
    text_add(&t, "%s%s%s", row->clause, n->name ? " " : "", n->name ? n->name : "");
    text_add(&t, "%s%s", n->reader ? " -> " : "", n->reader ? n->reader : "");
    text_add(&t, "%s%s%s", n->name && *row->word && !n->reader ? " :" : "", *row->word ? " " : "", row->word);
    text_add(&t, "%s", *row->word && !*row->words ? " =" : "");
    return text_string(&t);
}

/* "M = 64", "right packed" */
static const char *setting_text(Arena *a, const ReportKnob *n)
{
    const KnobRow *row = &knob_table[n->knob];
    Text t = {.arena = a};
    text_add(&t, "%s%s", row->word, *row->words ? " " : " = ");
    knob_put_value(n->knob, n->value, &t);
    return text_string(&t);
}

/* "tile g : M = 64" */
const char *explain_knob(Arena *a, const ReportKnob *n)
{
    Text t = {.arena = a};
    text_add(&t, "%s", explain_clause(a, n));
    if (knob_table[n->knob].scope != SCOPE_TENSOR) {
        text_add(&t, " ");
        knob_put_value(n->knob, n->value, &t);
    }
    return text_string(&t);
}

static const char *origin_text(const Explain *e, const ReportKnob *n)
{
    Arena *a = e->m->arena;
    switch (n->origin) {
    case ORIGIN_MACHINE: return arena_printf(a, "machine %s", explain_target(e));
    case ORIGIN_RULE: return "usual value";
    case ORIGIN_SCHEDULE: return arena_printf(a, "schedule, %s", line_text(e, n->from->loc));
    case ORIGIN_SEED: return "drawn by --schedule-seed";
    case ORIGIN_COUNT: break;
    }
    return "";
}

static const char *bits_text(Knob knob, int64_t value)
{
    return knob_keeps_bits(knob, value) ? "keeps bits" : "changes bits";
}

static const char *unused_text(const ExplainUnused *u)
{
    return knob_table[u->setting->knob].source == SOURCE_NONE ? "not used on this machine"
                                                              : "not used: nothing here asks for it";
}

static void put_unused(const Explain *e, const ExplainUnused *u, ExplainTable *t)
{
    Clause one = *u->clause;
    Text text = {.arena = e->m->arena};
    one.settings.at = (Setting *)(uintptr_t)u->setting;
    one.settings.len = 1;
    ir_print_clause(NULL, &one, &text);
    text_string(&text);
    table_add(t, arena_strndup(e->m->arena, text.at + 2, text.len - 3),
              bits_text(u->setting->knob, u->setting->values.at[0]),
              arena_printf(e->m->arena, "schedule, %s", line_text(e, u->setting->loc)), unused_text(u));
}

/* Does n go on the line of `before`: another number of the same clause, from the same place? */
static int continues(const Explain *e, const ReportKnob *before, const ReportKnob *n)
{
    return knob_table[n->knob].scope == SCOPE_PRODUCT && knob_table[before->knob].scope == SCOPE_PRODUCT &&
           n->knob > before->knob && n->name == before->name &&
           strcmp(origin_text(e, n), origin_text(e, before)) == 0;
}

static void put_knobs(const Explain *e, const Explained *x, Text *out)
{
    ExplainTable t = {.arena = e->m->arena};
    for (uint32_t i = 0; i < x->knobs.len; i++) {
        const ReportKnob *n = &x->knobs.at[i];
        Text line = {.arena = e->m->arena};
        text_add(&line, "%s", explain_knob(e->m->arena, n));
        for (; i + 1 < x->knobs.len && continues(e, &x->knobs.at[i], &x->knobs.at[i + 1]); i++)
            text_add(&line, " %s", setting_text(e->m->arena, &x->knobs.at[i + 1]));
        table_add(&t, text_string(&line), bits_text(n->knob, n->value), origin_text(e, n), "");
    }
    for (uint32_t i = 0; i < x->unused.len; i++)
        put_unused(e, &x->unused.at[i], &t);
    table_put(&t, "knobs", out);
}

void explain_text(const Explain *e, Text *out)
{
    for (uint32_t i = 0; i < e->kernels.len; i++) {
        const Explained *x = &e->kernels.at[i];
        text_add(out, "%skernel %s for %s\n", i ? "\n" : "", x->k->name, explain_target(e));
        put_edges(e, x, out);
        put_products(e, x, out);
        put_knobs(e, x, out);
    }
}

/* ---- the space ---- */

uint32_t explain_values(const ReportKnob *n, int64_t *values)
{
    int64_t space[KNOB_SPACE_MAX];
    uint32_t count = n->from ? n->from->values.len : knob_space(n->knob, space), out = 1;
    const int64_t *from = n->from ? n->from->values.at : space;
    values[0] = n->value;
    for (uint32_t i = 0; i < count; i++)
        if (from[i] != n->value)
            values[out++] = from[i];
    return out;
}

static void put_choices(const ReportKnob *n, Text *out)
{
    int64_t values[KNOB_SPACE_MAX + 1];
    uint32_t count = explain_values(n, values);
    text_add(out, count > 1 ? "?{" : "");
    for (uint32_t i = 0; i < count; i++) {
        text_add(out, i ? ", " : "");
        knob_put_value(n->knob, values[i], out);
    }
    text_add(out, count > 1 ? "}" : "");
}

int explain_is_clause(const Explained *x, uint32_t i)
{
    KnobScope scope = knob_table[x->knobs.at[i].knob].scope;
    return scope == SCOPE_EDGE || scope == SCOPE_TENSOR;
}

int explain_is_dial(const Explained *x, uint32_t i)
{
    const ReportKnob *n = &x->knobs.at[i];
    for (uint32_t other = 0; other < i; other++)
        if (x->knobs.at[other].knob == n->knob && x->knobs.at[other].name == n->name)
            return 0;
    return !explain_is_clause(x, i);
}

static void put_space_of(const Explained *x, Text *out)
{
    text_add(out, "schedule %s {\n", x->k->name);
    for (uint32_t i = 0; i < x->knobs.len; i++) {
        const ReportKnob *n = &x->knobs.at[i];
        if (explain_is_clause(x, i))
            text_add(out, "  %s\n", explain_knob(out->arena, n));
        if (!explain_is_dial(x, i))
            continue;
        text_add(out, "  %s ", explain_clause(out->arena, n));
        put_choices(n, out);
        text_add(out, "\n");
    }
    for (uint32_t i = 0; i < x->choices.len; i++)
        text_add(out, "  // %s\n", explain_knob(out->arena, &x->choices.at[i]));
    text_add(out, "}\n");
}

void explain_space(const Explain *e, Text *out)
{
    for (uint32_t i = 0; i < e->kernels.len; i++)
        put_space_of(&e->kernels.at[i], out);
}
