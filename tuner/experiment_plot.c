/* The picture of an experiment's report. */
#include "tuner/experiment.h"

#include "base/gnuplot.h"

#include <math.h>

/* ---- ratios along an axis ---- */

/* Axes that take turns first, because their ratios are of the same rounds; then the one with most values. */
static GridAxisId along(const Experiment *e)
{
    GridAxisId best = GRID_schedules;
    for (GridAxisId i = 0; i < GRID_schedules; i++) {
        uint32_t n = i == GRID_machines ? 0 : e->axes[i].values.len;
        if (n > 1 && (best == GRID_schedules || e->axes[i].beside > e->axes[best].beside ||
                      (e->axes[i].beside == e->axes[best].beside && n > e->axes[best].values.len)))
            best = i;
    }
    return best;
}

static unsigned all_but(GridAxisId axis) { return ((1U << GRID_AXES) - 1) & ~(1U << axis); }

static int write_curve(const GridRun *g, GridPoint p, GridAxisId x, unsigned number, FILE *f)
{
    int any = 0;
    fprintf(f, "$curve%u << END\n", number);
    do {
        const GridRow *r = rows_find(&g->rows, &g->e, &p, NULL);
        int beside = grid_beside(&g->e) != 0;
        double ratio = r ? (beside ? r->first : r->ratio) : NAN,
               lower = r ? (beside ? r->first_lower : r->ratio_lower) : NAN,
               upper = r ? (beside ? r->first_upper : r->ratio_upper) : NAN;
        any |= isfinite(ratio);
        if (isfinite(ratio))
            fprintf(f, "%u %.6g %.6g %.6g\n", p.at[x], ratio, isnan(lower) ? ratio : lower,
                    isnan(upper) ? ratio : upper);
    } while (grid_next(&g->e, &p, 1U << x));
    fprintf(f, "END\n");
    return any;
}

static void write_names(const Experiment *e, GridAxisId x, FILE *f)
{
    GridPoint p = {{0}};
    fprintf(f, "set xlabel '%s'\nset xrange [-0.5:%u.5]\nset xtics rotate by -20 (", grid_columns[x],
            e->axes[x].values.len - 1);
    do {
        fprintf(f, "%s", p.at[x] ? ", " : "");
        gnuplot_quoted(f, report_name(e, &p, x));
        fprintf(f, " %u", p.at[x]);
    } while (grid_next(e, &p, 1U << x));
    fprintf(f, ") noenhanced\n");
}

/* A default against itself tells nothing, unless cases are compared. */
static int is_flat(const Experiment *e, const GridPoint *p, GridAxisId x)
{
    return !grid_beside(e) && x != GRID_schedules && e->axes[GRID_schedules].values.len > 1 &&
           !p->at[GRID_schedules];
}

static void draw_along(const GridRun *g, GridAxisId x, FILE *f)
{
    enum { CURVES = 24 };
    const Experiment *e = &g->e;
    GridPoint points[CURVES], p = {{0}};
    unsigned n = 0;
    do
        if (n < CURVES && !is_flat(e, &p, x) && write_curve(g, p, x, n, f))
            points[n++] = p;
    while (grid_next(e, &p, all_but(x)));
    write_names(e, x, f);
    fprintf(f, "set ylabel 'time, of that of %s: median and quartiles'\nplot 1 lc rgb '#999999' notitle",
            grid_beside(e) ? "the first case" : "the default");
    for (unsigned i = 0; i < n; i++) {
        fprintf(f,
                ", $curve%u using 1:2 with lines lc %u notitle, $curve%u with yerrorbars pt 7 ps 0.6 lc %u "
                "title ",
                i, i + 1, i, i + 1);
        gnuplot_quoted(f, report_point(e, &points[i], 1U << x));
        fprintf(f, " noenhanced");
    }
    fprintf(f, "\n");
}

/* ---- predicted against measured ---- */

static int write_pairs(const GridRun *g, uint32_t machine, FILE *f)
{
    GridPoint p = {{0}};
    const GridRow *m, *said;
    int n = 0;
    fprintf(f, "$model%u << END\n", machine);
    do
        if (report_pair(g, &p, machine, &m, &said)) {
            fprintf(f, "%.6g %.6g\n", m->ratio, said->ratio);
            n++;
        }
    while (grid_next(&g->e, &p, all_but(GRID_machines)));
    fprintf(f, "END\n");
    return n;
}

static int has_ranks(const GridRun *g)
{
    FILE *nowhere = fopen("/dev/null", "w");
    int most = 0;
    for (uint32_t i = 0; nowhere && i < g->e.axes[GRID_machines].values.len; i++) {
        int n = write_pairs(g, i, nowhere);
        most = n > most ? n : most;
    }
    if (nowhere)
        fclose(nowhere);
    return most >= RANKED_LEAST;
}

static void draw_pairs(const GridRun *g, FILE *f)
{
    const GridAxis *machines = &g->e.axes[GRID_machines];
    for (uint32_t i = 0; i < machines->values.len; i++)
        write_pairs(g, i, f);
    fprintf(
        f,
        "set logscale xy\nset xlabel 'measured, of the default'\nset ylabel 'by the model, of the default'\n"
        "plot x lc rgb '#999999' notitle");
    for (uint32_t i = 0; i < machines->values.len; i++)
        if (machines->values.at[i].text) {
            fprintf(f, ", $model%u with points pt 7 ps 0.5 title ", i);
            gnuplot_quoted(f, machines->values.at[i].name);
            fprintf(f, " noenhanced");
        }
    fprintf(f, "\n");
}

/* ---- */

int report_draw(const GridRun *g, const char *path, const char **error)
{
    Gnuplot plot;
    GridAxisId x = along(&g->e);
    if (!g->done || (x == GRID_schedules && g->e.axes[x].values.len < 2))
        return 0;
    *error = gnuplot_begin(&plot, g->e.arena, path, 900, 500);
    if (*error)
        return 0;
    fprintf(plot.script, "set grid\nset rmargin -1\nset key outside right noenhanced\n");
    if (has_ranks(g))
        draw_pairs(g, plot.script);
    else
        draw_along(g, x, plot.script);
    *error = gnuplot_end(&plot, g->e.arena);
    return !*error;
}
