/* The report page of an experiment. */
#include "tuner/experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

static const char *short_sizes(const Experiment *e, const char *sizes)
{
    Text t = {.arena = e->arena};
    const GridAxis *axis = &e->axes[GRID_sizes];
    for (const char *at = sizes; *at;) {
        size_t n = strcspn(at, ",");
        const char *one = arena_strndup(e->arena, at, n);
        int differs = 0;
        for (uint32_t i = 0; i < axis->values.len; i++)
            differs |= !text_lists(axis->values.at[i].text, one);
        if (differs)
            text_add(&t, "%s%s", t.len ? " " : "", one);
        at += n + (at[n] == ',');
    }
    return t.len ? text_string(&t) : sizes;
}

const char *report_name(const Experiment *e, const GridPoint *p, GridAxisId axis)
{
    const GridValue *v = grid_value(e, p, axis);
    return axis == GRID_sizes && v->name == v->text ? short_sizes(e, v->text) : v->name;
}

static int differs(const Experiment *e, GridAxisId axis) { return e->axes[axis].values.len > 1; }

const char *report_point(const Experiment *e, const GridPoint *p, unsigned without)
{
    Text t = {.arena = e->arena};
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        if (differs(e, i) && !(without >> i & 1))
            text_add(&t, "%s%s%s", t.len ? ", " : "", report_name(e, p, i),
                     i == GRID_threads ? " threads" : "");
    return text_string(&t);
}

static void end_line(Text *t)
{
    while (t->len && t->at[t->len - 1] == ' ')
        t->len--;
    text_add(t, "\n");
}

/* A cell of a table has no bar in it. */
static void put_cell(Text *t, const char *text)
{
    for (const char *p = text; *p; p++)
        text_add(t, *p == '|' ? "\\|" : "%c", *p);
    text_add(t, " | ");
}

/* ---- how it was measured ---- */

typedef struct Measured {
    const GridRow *first, *last;
    double load_least, load_most;
} Measured;

static Measured find_measured(const GridRows *rows)
{
    Measured m = {NULL, NULL, INFINITY, 0};
    for (uint32_t i = 0; i < rows->rows.len; i++) {
        const GridRow *r = &rows->rows.at[i];
        if (strcmp(r->state, "measured") != 0)
            continue;
        m.first = m.first ? m.first : r;
        m.last = r;
        m.load_least = fmin(m.load_least, r->load);
        m.load_most = fmax(m.load_most, r->load);
    }
    return m;
}

static void put_head(const GridRun *g, Text *t)
{
    const Measured m = find_measured(&g->rows);
    const Experiment *e = &g->e;
    text_add(t, "# %s\n\n", e->title);
    if (e->doc)
        text_add(t, "%s\n\n", e->doc);
    text_add(t, "Made by `moec experiment %s`; [rows.csv](rows.csv) has all numbers.",
             strrchr(e->file, '/') ? strrchr(e->file, '/') + 1 : e->file);
    if (m.first)
        text_add(t,
                 " Measured on a CPU of kind `%s` (`%s`), %.10s to %.16s UTC, compiler `%.30s`, while the "
                 "load of its %d "
                 "cores was %.1f to %.1f, this experiment's own part included.",
                 m.first->cpu, m.first->isa, m.first->made, m.last->made, m.first->build, computer_cores(),
                 m.load_least, m.load_most);
    text_add(t, "\n\n");
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        if (!differs(e, i) && i != GRID_schedules && *e->axes[i].values.at[0].name)
            text_add(t, "- %s: `%s`\n", grid_columns[i], e->axes[i].values.at[0].name);
    text_add(t, "\n");
}

/* ---- tables ---- */

/* Columns of a table, and the order of its rows: cases that took turns stand together, and schedules of a case. */
typedef struct TableOrder {
    GridAxisId at[GRID_AXES];
    size_t n;
} TableOrder;

static TableOrder order_of(const Experiment *e)
{
    TableOrder o = {.n = 0};
    for (int beside = 0; beside < 2; beside++)
        for (GridAxisId i = 0; i < GRID_schedules; i++)
            if (i != GRID_machines && differs(e, i) && e->axes[i].beside == beside)
                o.at[o.n++] = i;
    if (differs(e, GRID_schedules))
        o.at[o.n++] = GRID_schedules;
    return o;
}

static int next_in(const Experiment *e, const TableOrder *o, GridPoint *p)
{
    for (size_t i = o->n; i-- > 0;)
        if (grid_next(e, p, 1U << o->at[i]))
            return 1;
    return 0;
}

static void put_ratio(Text *t, double ratio, double lower, double upper)
{
    if (isnan(ratio))
        text_add(t, " | ");
    else if (isnan(lower) || (lower == ratio && upper == ratio))
        text_add(t, "%.4g | ", ratio);
    else
        text_add(t, "%.4g (%.4g to %.4g) | ", ratio, lower, upper);
}

static const char *verdict(const GridRow *r) { return r->high < 1 ? "faster" : r->low > 1 ? "slower" : ""; }

static void put_row(const Experiment *e, const TableOrder *o, const GridPoint *p, const GridRow *r, Text *t)
{
    text_add(t, "| ");
    for (size_t i = 0; i < o->n; i++)
        put_cell(t, report_name(e, p, o->at[i]));
    if (isnan(r->seconds)) {
        put_cell(t, arena_printf(e->arena, "%s: %s", r->state, r->why));
        end_line(t);
        return;
    }
    put_ratio(t, 1e3 * r->seconds, 1e3 * r->lower, 1e3 * r->upper);
    if (grid_beside(e))
        put_ratio(t, r->first, r->first_lower, r->first_upper);
    if (differs(e, GRID_schedules)) {
        put_ratio(t, r->ratio, r->ratio_lower, r->ratio_upper);
        text_add(t, "%s |", verdict(r));
    }
    end_line(t);
}

static void put_table_head(const Experiment *e, const TableOrder *o, Text *t)
{
    int beside = grid_beside(e) != 0, schedules = differs(e, GRID_schedules);
    text_add(t, "| ");
    for (size_t i = 0; i < o->n; i++)
        text_add(t, "%s | ", grid_columns[o->at[i]]);
    text_add(t, "ms | %s%s", beside ? "of the first | " : "", schedules ? "of the default | |" : "");
    end_line(t);
    text_add(t, "|");
    for (size_t i = 0; i < o->n + 1 + (size_t)beside + 2 * (size_t)schedules; i++)
        text_add(t, "---|");
    text_add(t, "\n");
}

static void put_table(const GridRun *g, uint32_t machine, Text *t)
{
    const Experiment *e = &g->e;
    const TableOrder o = order_of(e);
    GridPoint p = {{0}};
    p.at[GRID_machines] = machine;
    const GridValue *v = grid_value(e, &p, GRID_machines);
    text_add(t, "## %s%s\n\n", v->text ? v->name : "On the clock", v->text ? ", by its model" : "");
    put_table_head(e, &o, t);
    do {
        const GridRow *r = rows_find(&g->rows, e, &p, NULL);
        if (r)
            put_row(e, &o, &p, r, t);
    } while (next_in(e, &o, &p));
    text_add(t, "\n");
}

/* ---- how models rank ---- */

/* A modelled NPU has another program, whose instruction set has the machine's name. */
int report_pair(const GridRun *g, const GridPoint *p, uint32_t machine, const GridRow **measured,
                const GridRow **predicted)
{
    GridPoint clock = *p, model = *p;
    const GridAxis *machines = &g->e.axes[GRID_machines];
    clock.at[GRID_machines] = 0;
    while (clock.at[GRID_machines] < machines->values.len &&
           machines->values.at[clock.at[GRID_machines]].text)
        clock.at[GRID_machines]++;
    model.at[GRID_machines] = machine;
    if (clock.at[GRID_machines] == machines->values.len || clock.at[GRID_machines] == machine)
        return 0;
    *measured = rows_find(&g->rows, &g->e, &clock, "measured");
    *predicted = rows_find(&g->rows, &g->e, &model, "predicted");
    return *measured && *predicted && strcmp((*predicted)->isa, (*predicted)->cpu) != 0 &&
           strcmp((*measured)->clauses, (*predicted)->clauses) == 0;
}

typedef struct Ranked {
    double measured, spread, predicted;
} Ranked;
typedef Vec(Ranked) RankedList;

static int by_prediction(const void *a, const void *b)
{
    double x = ((const Ranked *)a)->predicted, y = ((const Ranked *)b)->predicted;
    return (x > y) - (x < y);
}

/* Kendall's tau of the pairs that differ by more than the spread of either. */
static double tau_of(const RankedList *list, uint32_t *pairs)
{
    double sum = 0;
    *pairs = 0;
    for (uint32_t i = 0; i < list->len; i++)
        for (uint32_t j = 0; j < i; j++) {
            const Ranked *a = &list->at[i], *b = &list->at[j];
            double d = a->measured - b->measured, said = a->predicted - b->predicted;
            if (fabs(d) <= fmax(a->spread, b->spread))
                continue;
            ++*pairs;
            sum += said * d > 0 ? 1 : said * d < 0 ? -1 : 0;
        }
    return *pairs ? sum / *pairs : NAN;
}

/* How much longer than the best one the best of the model's first tenth takes. */
static double cost_of_choice(RankedList *list)
{
    double best = INFINITY, chosen = INFINITY;
    qsort(list->at, list->len, sizeof *list->at, by_prediction);
    for (uint32_t i = 0; i < list->len; i++) {
        best = fmin(best, list->at[i].measured);
        if (i < (list->len + 9) / 10)
            chosen = fmin(chosen, list->at[i].measured);
    }
    return chosen / best;
}

static RankedList ranked_by(const GridRun *g, GridPoint p, uint32_t machine)
{
    RankedList list = {0};
    const GridRow *m, *said;
    do
        if (report_pair(g, &p, machine, &m, &said))
            vec_push(g->e.arena, &list, (Ranked){m->ratio, m->ratio_upper - m->ratio_lower, said->ratio});
    while (grid_next(&g->e, &p, 1U << GRID_schedules));
    return list;
}

static void put_ranks(const GridRun *g, Text *t)
{
    const Experiment *e = &g->e;
    GridPoint p = {{0}};
    int any = 0;
    do {
        uint32_t pairs;
        RankedList list = ranked_by(g, p, p.at[GRID_machines]);
        if (list.len < RANKED_LEAST)
            continue;
        if (!any++)
            text_add(t, "## How models rank schedules\n\nKendall's tau over the pairs of schedules whose "
                        "measured ratios differ by "
                        "more than the quartiles of either; and how many times as long as the fastest "
                        "schedule the best of the "
                        "model's first tenth takes.\n\n| case | schedules | pairs | tau | chosen / best "
                        "|\n|---|---|---|---|---|\n");
        double tau = tau_of(&list, &pairs);
        text_add(t, "| %s | %u | %u | %.2f | %.3f |\n", report_point(e, &p, 1U << GRID_schedules), list.len,
                 pairs, tau, cost_of_choice(&list));
    } while (grid_next(e, &p, ((1U << GRID_AXES) - 1) & ~(1U << GRID_schedules)));
    if (any)
        text_add(t, "\n");
}

/* Of a model that is only asked for an order the times say little. */
static int is_ranked(const GridRun *g, uint32_t machine)
{
    GridPoint p = {{0}};
    p.at[GRID_machines] = machine;
    do
        if (ranked_by(g, p, machine).len >= RANKED_LEAST)
            return 1;
    while (grid_next(&g->e, &p, ((1U << GRID_AXES) - 1) & ~(1U << GRID_schedules | 1U << GRID_machines)));
    return 0;
}

/* ---- all ---- */

static void put_schedules(const GridRun *g, Text *t)
{
    int any = 0;
    for (uint32_t i = 0; i < g->rows.rows.len; i++) {
        const GridRow *r = &g->rows.rows.at[i];
        if (strcmp(r->state, "tuned") != 0)
            continue;
        if (!any++)
            text_add(t, "## What the tuner found\n\n");
        text_add(t, "- %s, %s %s %s: `%s`\n", r->axis[GRID_schedules], r->axis[GRID_kernels],
                 r->axis[GRID_sizes], r->axis[GRID_routings], *r->clauses ? r->clauses : "keep the default");
    }
    if (any)
        text_add(t, "\n");
}

const char *report_write(const GridRun *g, const char *folder)
{
    Arena *a = g->e.arena;
    Text t = {.arena = a};
    const char *error = NULL;
    put_head(g, &t);
    if (report_draw(g, arena_printf(a, "%s/report.svg", folder), &error))
        text_add(&t, "![drawn by gnuplot](report.svg)\n\n");
    if (error)
        fprintf(stderr, "moec: no picture: %s\n", error);
    for (uint32_t i = 0; i < g->e.axes[GRID_machines].values.len; i++)
        if (!is_ranked(g, i))
            put_table(g, i, &t);
    put_ranks(g, &t);
    put_schedules(g, &t);
    t.at[--t.len] = '\0'; /* one line's end at the end */
    return experiment_write(a, arena_printf(a, "%s/report.md", folder), text_string(&t));
}
