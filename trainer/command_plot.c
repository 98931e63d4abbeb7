/* moe-train plot: curves of a log, drawn by gnuplot; plot_load.c draws maps. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gnuplot.h"
#include "base/json.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/plot.h"

typedef struct PlotOptions {
    const char *log, *out, *load;
} PlotOptions;

enum { KEY_OUT = 0x100, KEY_LOAD, POINTS = 1000 /* of a curve at most */ };

static const struct argp_option options[] = {
    {"out", KEY_OUT, "FILE", 0, "a .svg or .png (LOG.svg, or LOG.load.svg)", 0},
    {"load", KEY_LOAD, "LAYERS", 0,
     "instead of curves a map of each expert's load over the steps, of layers like 0,3 or all; the log must "
     "be of a run with --load-every",
     0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    PlotOptions *o = s->input;
    switch (key) {
    case KEY_OUT: o->out = arg; return 0;
    case KEY_LOAD: o->load = arg; return 0;
    case ARGP_KEY_ARG:
        if (o->log)
            argp_error(s, "takes one LOG");
        o->log = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->log)
            argp_error(s, "LOG is missing");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the log ---- */

typedef enum PlotColumn {
    PLOT_STEP,
    PLOT_LOSS,
    PLOT_BALANCE,
    PLOT_IMBALANCE,
    PLOT_NORM,
    PLOT_LR,
    PLOT_RATE,
    PLOT_COLUMNS
} PlotColumn;

typedef struct PlotRow {
    double at[PLOT_COLUMNS];
} PlotRow;
typedef Vec(PlotRow) PlotRows;

typedef struct PlotData {
    Arena *arena;
    PlotRows steps, validations; /* of the latter step and loss */
    double tokens;               /* of a step */
    int64_t broken;              /* lines that are no JSON, such as the last one of a run that was killed */
} PlotData;

/* NAN where there is none. */
static double number_of(const json_t *event, const char *name)
{
    const json_t *v = json_object_get(event, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* A run that goes on from an older checkpoint makes steps again: the last ones count. */
static void add_row(Arena *a, PlotRows *rows, PlotRow row)
{
    while (rows->len && rows->at[rows->len - 1].at[PLOT_STEP] >= row.at[PLOT_STEP])
        rows->len--;
    vec_push(a, rows, row);
}

static void read_event(void *data, const json_t *event)
{
    PlotData *d = data;
    const char *kind = json_string_value(json_object_get(event, "event"));
    const json_t *run = json_object_get(event, "options");
    if (kind && !strcmp(kind, "options"))
        d->tokens = number_of(run, "batch") * number_of(run, "sequence");
    else if (kind && !strcmp(kind, "step"))
        add_row(d->arena, &d->steps,
                (PlotRow){{number_of(event, "step"), number_of(event, "loss"), number_of(event, "balance"),
                           number_of(event, "imbalance"), number_of(event, "norm"), number_of(event, "lr"),
                           d->tokens / number_of(event, "seconds")}});
    else if (kind && !strcmp(kind, "validation"))
        add_row(d->arena, &d->validations, (PlotRow){{number_of(event, "step"), number_of(event, "loss")}});
}

int64_t plot_read(const char *path, void (*take)(void *self, const json_t *event), void *self)
{
    char *line = NULL;
    size_t room = 0;
    int64_t broken = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        complain("%s: cannot be read: %s", path, strerror(errno));
        return -1;
    }
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        json_t *event = json_loadb(line, (size_t)n, 0, NULL);
        broken += !event;
        take(self, event);
        json_decref(event);
    }
    free(line);
    fclose(f);
    return broken;
}

static int read_log(PlotData *d, const char *path)
{
    d->broken = plot_read(path, read_event, d);
    if (d->broken < 0 || d->steps.len)
        return d->broken < 0;
    return complain("%s: has no steps: it must be what --log of a training run wrote", path);
}

/* ---- the script ---- */

/* At most POINTS rows, each the mean of as many steps. */
static void write_rows(FILE *f, const char *name, const PlotRows *rows, uint32_t each)
{
    fprintf(f, "$%s << EOD\n", name);
    for (uint32_t i = 0; i < rows->len; i += each) {
        const uint32_t n = rows->len - i < each ? rows->len - i : each;
        for (int c = 0; c < PLOT_COLUMNS; c++) {
            double sum = 0;
            for (uint32_t j = 0; j < n; j++)
                sum += rows->at[i + j].at[c];
            fprintf(f, isfinite(sum) ? "%.9g " : "NaN ", sum / n);
        }
        fputc('\n', f);
    }
    fprintf(f, "EOD\n");
}

static void write_curves(FILE *f, const PlotData *d)
{
    fprintf(
        f,
        "set xrange [%.0f:%.0f]\n"
        "set ylabel 'nat per token'\nplot $steps using 1:2 with lines lw 1.5 title 'loss'%s\n"
        "set ylabel 'load of experts'\nset yrange [1:*]\n"
        "plot $steps using 1:3 with lines lw 1.5 title 'balance loss (1: even)', "
        "$steps using 1:4 with lines lw 1.5 title 'most loaded expert / mean'\nset yrange [*:*]\n"
        "set ylabel 'norm of the gradients'\nset y2label 'learning rate'\nset y2tics\nset ytics nomirror\n"
        "plot $steps using 1:5 with lines lw 1.5 title 'norm', "
        "$steps using 1:6 axes x1y2 with lines lw 1.5 title 'learning rate'\n"
        "unset y2label\nunset y2tics\nset ytics mirror\n"
        "set ylabel 'tokens/s'\nset yrange [0:*]\nset xlabel 'step'\n"
        "plot $steps using 1:7 with lines lw 1.5 notitle\n",
        fmin(d->steps.at[0].at[PLOT_STEP], d->steps.at[d->steps.len - 1].at[PLOT_STEP] - 1),
        d->steps.at[d->steps.len - 1].at[PLOT_STEP],
        d->validations.len ? ", $validations using 1:2 with points pt 7 ps 0.8 title 'validation'" : "");
}

static int draw(const PlotData *d, const PlotOptions *o)
{
    const uint32_t each = (d->steps.len + POINTS - 1) / POINTS;
    Gnuplot g;
    const char *error = gnuplot_begin(&g, d->arena, o->out, 900, 1100);
    if (error)
        return complain("%s", error);
    FILE *f = g.script;
    fprintf(f, "set grid lc rgb '#dddddd'\nset key top right\n");
    write_rows(f, "steps", &d->steps, each);
    write_rows(f, "validations", &d->validations, 1);
    fprintf(f, "set multiplot layout 4,1 title ");
    gnuplot_quoted(f, each > 1 ? arena_printf(d->arena, "%s, each point the mean of %u steps", o->log, each)
                               : o->log);
    fprintf(f, " noenhanced\n");
    write_curves(f, d);
    error = gnuplot_end(&g, d->arena);
    if (error)
        return complain("%s", error);
    printf("%s: %u steps%s\n", o->out, d->steps.len, d->broken ? ", some lines of the log are no JSON" : "");
    return 0;
}

static int plot_curves(Arena *a, const PlotOptions *o)
{
    PlotData d = {.arena = a};
    return read_log(&d, o->log) || draw(&d, o);
}

int command_plot(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, "LOG", "Draws loss, load, gradients and throughput of a log.", 0, 0, 0};
    PlotOptions o = {0};
    cli_parse(&argp, argc, argv, &o);
    Arena *a = arena_new();
    if (!a)
        return complain("out of memory");
    if (!o.out)
        o.out = arena_printf(a, o.load ? "%s.load.svg" : "%s.svg", o.log);
    const int bad = o.load ? plot_load(a, o.log, o.load, o.out) : plot_curves(a, &o);
    arena_free(a);
    return bad;
}
