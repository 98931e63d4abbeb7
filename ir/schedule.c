/* Schedules: what clauses say, as text, and whether it fits the kernel. */
#include "ir/ir.h"

#include <string.h>

const KnobRow knob_table[KNOB_COUNT] = {
#define KNOB(id, clause, word, scope, lo, hi, step, words, keeps, source, otherwise, doc) \
    {clause, word, scope, lo, hi, step, words, keeps, source, otherwise, doc},
#include "ir/schedule.def"
};

uint32_t knob_space(Knob knob, int64_t *values)
{
    const KnobRow *row = &knob_table[knob];
    uint32_t n = 0;
    if (*row->words) {
        for (int64_t v = row->lo; v <= row->hi; v++)
            values[n++] = v;
        return n;
    }
    if (row->lo == 0)
        values[n++] = 0;
    for (int64_t v = row->lo ? row->lo : row->step; v <= row->hi; v *= 2) {
        values[n++] = v;
        int64_t half = v + v / 2;
        if (half > v && half <= row->hi && (half - row->lo) % row->step == 0)
            values[n++] = half;
    }
    return n;
}

int knob_keeps_bits(Knob knob, int64_t value)
{
    return value <= knob_table[knob].keeps && knob != KNOB_fuse && knob != KNOB_store;
}

/* ---- what fits ---- */

/* One thing that a clause is about. */
typedef struct SchedulePart {
    const Clause *c;
    ScheduleName name, reader; /* name NULL: the clause has none */
} SchedulePart;

/* The tensor that the clause means by a name: that of the kernel it comes from counts first. */
static ScheduleName meant(const Kernel *k, ScheduleName n)
{
    for (TensorId t = 0; k && t < k->tensors.len; t++)
        if (k->tensors.at[t].original == n.name)
            return (ScheduleName){k->tensors.at[t].name, n.loc};
    return n;
}

static SchedulePart part_of(const Kernel *k, const Clause *c, uint32_t n)
{
    uint32_t readers = c->readers.len ? c->readers.len : 1;
    SchedulePart p = {.c = c};
    if (c->names.len)
        p.name = meant(k, c->names.at[n / readers]);
    if (c->readers.len)
        p.reader = meant(k, c->readers.at[n % readers]);
    return p;
}

static uint32_t parts(const Clause *c)
{
    return c->names.len ? c->names.len * (c->readers.len ? c->readers.len : 1) : 1;
}

static int defines(const Kernel *k, const Equation *q, Name name)
{
    if (q->dead || q->kind == EQ_CHECK)
        return 0;
    return (q->lhs != NONE && k->tensors.at[q->lhs].name == name) ||
           (q->ids != NONE && q->kind == EQ_TOP && k->tensors.at[q->ids].name == name);
}

static int is_defined(const Kernel *k, Name name)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (defines(k, &k->eqs.at[i], name))
            return 1;
    return 0;
}

static int has_reduction(const Kernel *k, ExprId e, int sums_only)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && (!sums_only || x_at(k, *n)->op == RED_SUM))
            return 1;
    return 0;
}

static int is_defined_by_sum(const Kernel *k, Name name)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (defines(k, &k->eqs.at[i], name) && has_reduction(k, k->eqs.at[i].rhs, 1))
            return 1;
    return 0;
}

static int is_defined_without(const Kernel *k, Name name)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (defines(k, &k->eqs.at[i], name) && k->eqs.at[i].kind != EQ_TOP &&
            !has_reduction(k, k->eqs.at[i].rhs, 0))
            return 1;
    return 0;
}

static int has_index(const Kernel *k, Name name)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        for (uint32_t n = 0; !k->eqs.at[i].dead && n < k->eqs.at[i].nindex; n++) {
            const Expr *x = x_at(k, k->eqs.at[i].index[n]);
            if (x->kind == X_INDEX && k->indices.at[x->sym].name == name)
                return 1;
        }
    return 0;
}

static int loads(const Kernel *k, ExprId e, Name name, uint8_t stop)
{
    each_below (n, k, e, stop)
        if (x_at(k, *n)->kind == X_LOAD && k->tensors.at[x_at(k, *n)->sym].name == name)
            return 1;
    return 0;
}

static int loads_in_sum(const Kernel *k, ExprId e, Name name)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && loads(k, *n, name, EVERYWHERE))
            return 1;
    return 0;
}

/* A row of sum e, which is one of a token and a choice, or is asked for its token. */
static int is_routed(const Kernel *k, ExprId e, ExprId row)
{
    const Expr *x = x_at(k, row);
    int bound = 0;
    for (uint32_t b = 0; x->kind == X_INDEX && b < x_at(k, e)->nbound; b++)
        bound |= x_bound(k, e, b) == x->sym && k->indices.at[x->sym].axis.group != NONE;
    return bound || x->kind == X_ROW;
}

/* Does sum e load `name` at a routed row? */
static int loads_row(const Kernel *k, ExprId e, Name name)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        for (uint32_t a = 0; x->kind == X_LOAD && a < x->nargs; a++)
            if (k->tensors.at[x->sym].name == name && is_routed(k, e, x_arg(k, *n, a)))
                return 1;
    }
    return 0;
}

static int loads_row_in_sum(const Kernel *k, ExprId e, Name name)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && x_at(k, *n)->op == RED_SUM && loads_row(k, *n, name))
            return 1;
    return 0;
}

/* How equations of `reader` load `producer`: bits. */
enum {
    EDGE_PROLOGUE = 1 /* inside a sum */,
    EDGE_EPILOGUE = 2 /* outside one */,
    EDGE_SCATTER = 4 /* in a sum, through a row */
};
static int edge_of(const Kernel *k, Name producer, Name reader)
{
    int edge = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!defines(k, q, reader) || q->rhs == NONE)
            continue;
        edge |= loads(k, q->rhs, producer, X_REDUCE) ? EDGE_EPILOGUE : 0;
        edge |= loads_in_sum(k, q->rhs, producer) ? EDGE_PROLOGUE : 0;
        edge |= loads_row_in_sum(k, q->rhs, producer) ? EDGE_SCATTER : 0;
    }
    return edge;
}

/* Is the edge at a place that the clause gives? */
static int is_at(const Kernel *k, SchedulePart p)
{
    static const int edges[] = {
        [AT_PROLOGUE] = EDGE_PROLOGUE, [AT_EPILOGUE] = EDGE_EPILOGUE, [AT_SCATTER] = EDGE_SCATTER};
    const Setting *at = &p.c->settings.at[0];
    int edge = edge_of(k, p.name.name, p.reader.name);
    for (uint32_t i = 0; i < at->values.len; i++)
        if (edge & edges[at->values.at[i]])
            return 1;
    return 0;
}

/* Does the clause give `at scatter` alone? */
static int is_at_scatter(const Clause *c)
{
    return c->settings.at[0].values.len == 1 && c->settings.at[0].values.at[0] == AT_SCATTER;
}

static KnobScope scope_of(const Clause *c) { return knob_table[c->settings.at[0].knob].scope; }

static const char *reading(const Kernel *k, const Equation *q)
{
    return q->lhs == NONE ? k->routes.at[q->route].name : k->tensors.at[q->lhs].name;
}

/* NULL, or why what `at scatter` names cannot be scattered, whatever passes do. */
static const char *scatter_blocks(const Kernel *k, SchedulePart p)
{
    if (!is_at_scatter(p.c))
        return NULL;
    if (!is_defined_by_sum(k, p.name.name))
        return "no sum defines it, so it is no product";
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!q->dead && q->kind != EQ_CHECK && q->rhs != NONE && !defines(k, q, p.reader.name) &&
            loads(k, q->rhs, p.name.name, EVERYWHERE))
            return arena_printf(k->module->arena, "%s reads it too", reading(k, q));
    }
    return NULL;
}

int ir_knob_fits(const Kernel *k, Knob knob, Name name)
{
    name = meant(k, (ScheduleName){.name = name}).name;
    switch (knob_table[knob].scope) {
    case SCOPE_PRODUCT: return is_defined_by_sum(k, name);
    case SCOPE_POINTWISE: return is_defined_without(k, name);
    case SCOPE_INDEX: return has_index(k, name);
    case SCOPE_EDGE:
    case SCOPE_TENSOR:
    case SCOPE_LAUNCH: return is_defined(k, name);
    case SCOPE_KERNEL:
    case SCOPE_SPACE: break;
    }
    return 1;
}

static int fits(const Kernel *k, SchedulePart p)
{
    return ir_knob_fits(k, p.c->settings.at[0].knob, p.name.name) &&
           (scope_of(p.c) != SCOPE_EDGE || (is_at(k, p) && !scatter_blocks(k, p)));
}

int ir_fuse_fits(const Kernel *k, Name producer, Name reader, int64_t at)
{
    Setting place = {.knob = KNOB_fuse, .values = {.at = &at, .len = 1}};
    Clause c = {.settings = {.at = &place, .len = 1}};
    return fits(k, (SchedulePart){&c, meant(k, (ScheduleName){.name = producer}),
                                  meant(k, (ScheduleName){.name = reader})});
}

/* ---- reports ---- */

enum { NAMES_IN_HELP = 8 };

static void add_name(Text *t, uint32_t *n, Name name)
{
    if (*n < NAMES_IN_HELP)
        text_add(t, "%s%s", *n ? ", " : "name one of ", name);
    *n += 1;
}

static const char *defined_names(const Kernel *k)
{
    Text t = {.arena = k->module->arena};
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        TensorId lhs = k->eqs.at[i].lhs;
        if (lhs != NONE && (i == 0 || k->eqs.at[i - 1].lhs != lhs))
            add_name(&t, &n, k->tensors.at[lhs].name);
    }
    return text_string(&t);
}

static const char *index_names(const Kernel *k)
{
    Text t = {.arena = k->module->arena};
    uint32_t n = 0;
    for (IndexId i = 0; i < k->indices.len; i++) {
        Name name = k->indices.at[i].name;
        int seen = !has_index(k, name);
        for (IndexId j = 0; j < i; j++)
            seen |= k->indices.at[j].name == name;
        if (!seen)
            add_name(&t, &n, name);
    }
    return text_string(&t);
}

static void refuse_edge(const Kernel *k, SchedulePart p)
{
    Arena *a = k->module->arena;
    Name producer = p.name.name, reader = p.reader.name;
    int edge = edge_of(k, producer, reader);
    const char *help = "name an equation that reads it";
    if (edge)
        help = arena_printf(a, "put it there: `at %s`", edge & EDGE_PROLOGUE ? "prologue" : "epilogue");
    diag_add(k->module->diags, DIAG_schedule_fit, p.reader.loc, help,
             edge == 0              ? "%s does not read %s"
             : is_at_scatter(p.c)   ? "%s reads %s nowhere in a sum at rt.row(...), a row of a token"
             : edge & EDGE_PROLOGUE ? "%s reads %s inside its sum only"
                                    : "%s reads %s outside any sum only",
             reader, producer);
}

static void refuse_name(const Kernel *k, const ScheduleName *n)
{
    diag_add(k->module->diags, DIAG_schedule_name, n->loc, defined_names(k), "kernel %s defines no %s",
             k->name, n->name);
}

static void refuse(const Kernel *k, SchedulePart p)
{
    Diags *d = k->module->diags;
    KnobScope scope = scope_of(p.c);
    if (scope == SCOPE_INDEX)
        diag_add(d, DIAG_schedule_name, p.name.loc, index_names(k),
                 "no equation of kernel %s has an index %s on its left", k->name, p.name.name);
    else if (!is_defined(k, p.name.name))
        refuse_name(k, &p.name);
    else if (scope == SCOPE_EDGE && !is_defined(k, p.reader.name))
        refuse_name(k, &p.reader);
    else if (scope == SCOPE_EDGE && is_at(k, p))
        diag_add(d, DIAG_schedule_fit, p.name.loc, "leave it out: the tensor then stands in memory",
                 "%s cannot go into %s at scatter: %s", p.name.name, p.reader.name, scatter_blocks(k, p));
    else if (scope == SCOPE_EDGE)
        refuse_edge(k, p);
    else if (scope == SCOPE_PRODUCT)
        diag_add(d, DIAG_schedule_fit, p.name.loc, "name a tensor that a sum defines",
                 "no sum defines %s, so it has no blocks", p.name.name);
    else
        diag_add(d, DIAG_schedule_fit, p.name.loc, "give blocks instead, by `tile`",
                 "a reduction defines %s, so it is not handed out in strips", p.name.name);
}

int ir_check_schedule(const Kernel *k, const Schedule *s)
{
    for (uint32_t i = 0; i < s->clauses.len; i++) {
        const Clause *c = &s->clauses.at[i];
        for (uint32_t n = 0; n < parts(c); n++)
            if (!fits(k, part_of(k, c, n))) {
                refuse(k, part_of(k, c, n));
                return 1;
            }
    }
    return 0;
}

/* ---- text ---- */

void knob_put_value(Knob knob, int64_t value, Text *out)
{
    const char *word = knob_table[knob].words;
    for (int64_t i = 0; i < value && *word; i++)
        word += strcspn(word, " ") + 1;
    if (*word)
        text_add_bytes(out, word, strcspn(word, " "));
    else
        text_add(out, "%lld", (long long)value);
}

static void put_values(const Setting *s, Text *out)
{
    text_add(out, s->values.len > 1 ? "?{" : "");
    for (uint32_t i = 0; i < s->values.len; i++) {
        text_add(out, i ? ", " : "");
        knob_put_value(s->knob, s->values.at[i], out);
    }
    text_add(out, s->values.len > 1 ? "}" : "");
}

static void put_setting(const Setting *s, Text *out)
{
    const KnobRow *row = &knob_table[s->knob];
    text_add(out, " %s%s", row->word, *row->words ? " " : " = ");
    put_values(s, out);
}

static void put_settings(const Clause *c, Text *out)
{
    KnobScope scope = scope_of(c);
    for (uint32_t i = 0; scope != SCOPE_TENSOR && i < c->settings.len; i++) {
        text_add(out, scope == SCOPE_SPACE && i ? "," : "");
        put_setting(&c->settings.at[i], out);
    }
    text_add(out, "\n");
}

/* `  fuse xp, xq -> g` without the settings, names as k has them. */
static void put_head(const Kernel *k, const Clause *c, Text *out)
{
    KnobScope scope = scope_of(c);
    text_add(out, "  %s", knob_table[c->settings.at[0].knob].clause);
    for (uint32_t i = 0; i < c->names.len; i++)
        text_add(out, "%s %s", i ? "," : "", meant(k, c->names.at[i]).name);
    for (uint32_t i = 0; i < c->readers.len; i++)
        text_add(out, "%s %s", i ? "," : " ->", meant(k, c->readers.at[i]).name);
    int has_colon =
        scope == SCOPE_PRODUCT || scope == SCOPE_POINTWISE || scope == SCOPE_INDEX || scope == SCOPE_LAUNCH;
    text_add(out, has_colon ? " :" : "");
}

void ir_print_clause(const Kernel *k, const Clause *c, Text *out)
{
    uint32_t fitting = 0;
    for (uint32_t n = 0; k && n < parts(c); n++)
        fitting += (uint32_t)fits(k, part_of(k, c, n));
    if (!k || fitting == parts(c)) {
        put_head(k, c, out);
        put_settings(c, out);
        return;
    }
    for (uint32_t n = 0; n < parts(c); n++) {
        SchedulePart p = part_of(k, c, n);
        Clause one = {.settings = c->settings};
        one.names.at = &p.name;
        one.names.len = 1;
        one.readers.at = &p.reader;
        one.readers.len = p.reader.name != NULL;
        if (fits(k, p))
            ir_print_clause(NULL, &one, out);
    }
}
