/* Experiments as files: a grid of kernels, machines, instruction sets, threads, sizes, routings and schedules, a row for each point.
 *
 * Note [Cells] A cell is a point without its schedule. In each one the compiler's own choices, the schedule "default", are measured
 * in the same rounds as the other schedules. Axes that the file names in `beside` vary inside a race: the cells of a race take turns,
 * too, and are compared with the first of them.
 *
 * Note [Rows] What a race gives is added to rows.csv when it is over, in whole lines; who is killed loses the race that runs, and the part
 * of a line that may be left is cut off. A row is known by its words on the axes, and a run measures what has no row yet. Beside the rows
 * lies the file that they are of: with another one, another compiler or another kind of CPU they would not belong together, so
 * the run is refused.
 *
 * experiment_read.c: the file. experiment_rows.c: rows.csv. experiment_schedule.c: cells and their schedules. experiment_race.c:
 * processes that take turns, and predictions. experiment.c: the run. experiment_report.c: report.md and its picture. */
#ifndef TUNER_EXPERIMENT_H
#define TUNER_EXPERIMENT_H

#include <stdio.h>

#include "base/base.h"
#include "moec/moec.h"
#include "tuner/tuner.h"
#include "tuner/worker.h"

typedef enum GridAxisId {
#define AXIS(key, column, fields) GRID_##key,
#include "tuner/grid.def"
    GRID_AXES
} GridAxisId;
extern const char *const grid_columns[GRID_AXES];

enum {
    GRID_VALUES = 1024,  /* of an axis */
    GRID_POINTS = 16384, /* of an experiment */
    GRID_CELLS = 8,      /* that take turns */
    GRID_RACERS = 14,    /* processes at a time */
    GRID_ROUNDS = 400
};

/* A value of an axis. */
typedef struct GridValue {
    const char *name;    /* in rows and reports */
    const char *text;    /* path of the kernel, sizes, routing, target, machine (NULL: the clock), schedule */
    const char *changed; /* the description of which `text` has a copy with other figures; NULL: it is none */
    const char *kernel;  /* of that file; NULL: its first */
    const char *routing; /* of a schedule that is tuned: for this one; NULL: for that of its cell */
    int threads;
    double budget;       /* of a schedule: above 0: what a tuner finds in so many seconds */
    uint32_t drawn;      /* n: the n-th schedule that is drawn from the space; 0: none */
    uint64_t seed;
    int keep_bits;       /* of schedules that are drawn or tuned */
} GridValue;

typedef struct GridAxis {
    Vec(GridValue) values;
    int beside;
} GridAxis;

typedef struct GridPoint {
    uint32_t at[GRID_AXES];
} GridPoint;

typedef struct Experiment {
    Arena *arena;
    const char *file, *folder; /* the folder of the file, to which its paths are relative */
    const char *title, *doc;
    const char *text;          /* the file's, without layout */
    const char *scratch;       /* a folder of descriptions of machines that the file changes; NULL: there are none */
    GridAxis axes[GRID_AXES];
    uint64_t seed;
    int64_t rounds;
    double seconds; /* of a race, at least */
} Experiment;

/* ---- experiment_read.c ---- */

/* NULL or an error text, which names file, key, value and rule. */
const char *experiment_read(const char *file, Arena *a, Experiment *out);
void experiment_close(Experiment *e); /* removes the scratch folder */
const GridValue *grid_value(const Experiment *e, const GridPoint *p, GridAxisId axis);
/* The next point in their order, of the axes in `moving` (a set of bits); 0 after the last, which is followed by the first. */
int grid_next(const Experiment *e, GridPoint *p, unsigned moving);
unsigned grid_beside(const Experiment *e); /* the axes that take turns */
double grid_points(const Experiment *e, unsigned axes);

/* ---- experiment_rows.c ---- */

typedef struct GridRow {
    const char *axis[GRID_AXES];
    const char *state, *why, *clauses, *bits, *isa, *cpu, *build, *content, *made;
    double seconds, lower, upper, ratio, ratio_lower, ratio_upper, low, high, first, first_lower, first_upper, load;
    int64_t rounds;
} GridRow;

typedef struct GridRows {
    Arena *arena;
    const char *path;
    Vec(GridRow) rows;
    int fd; /* below 0: only read */
} GridRows;

/* Reads what is there, cuts off the part of a line, and stays open for rows_add() if `write`. NULL or an error text. */
const char *rows_open(GridRows *r, Arena *a, const char *path, int write);
void rows_close(GridRows *r);
GridRow row_of(const Experiment *e, const GridPoint *p); /* a new one; its numbers are NaN */
/* The row of a point; state NULL: any but `tuned`. NULL: there is none. */
const GridRow *rows_find(const GridRows *r, const Experiment *e, const GridPoint *p, const char *state);
/* Adds rows in whole lines, so that they stay whatever happens then. NULL or an error text. */
const char *rows_add(GridRows *r, const GridRow *rows, size_t n);

/* ---- experiment_schedule.c, experiment_race.c ---- */

/* As rows have it: one line without blanks at its end; the text itself where it is one. */
const char *experiment_line(Arena *a, const char *text);

/* Schedules that were drawn from the space of a kernel. */
typedef struct GridDraw {
    const char *path, *kernel, *target, *machine;
    uint64_t seed;
    int keep_bits;
    Vec(const char *) texts; /* fewer than the file asks for where the space has no more */
} GridDraw;

typedef struct GridRun {
    const ExperimentOptions *o;
    Experiment e;
    GridRows rows;
    Vec(GridDraw) draws;
    moec_context *context;
    FILE *out;
    double begin;
    size_t done, before, all; /* points with a row, before this run, and of the grid */
    uint32_t failed;          /* cells whose default could not be measured or predicted */
    const char *error;        /* NULL, or why nothing more can be measured */
} GridRun;

/* A point without its schedule, ready to be called. */
typedef struct GridCell {
    GridPoint point;
    moec_work work;
    moec_options options;
    moec_record name; /* content, target, machine, build */
} GridCell;

/* NULL or an error text. */
const char *cell_of(GridRun *g, const GridPoint *p, GridCell *out);
/* The schedule block of a point of the cell; "": the default. NULL with *why: there is none. */
const char *grid_schedule(GridRun *g, const GridCell *c, uint32_t schedule, const char **why);
/* The row of a point, with what is known before anything is measured. */
GridRow cell_row(const GridRun *g, const GridCell *c, uint32_t schedule);
/* Gives the missing points of these cells rows: all are on the clock, or all on one modelled machine. */
void grid_race(GridRun *g, const GridCell *cells, size_t n);
int grid_is_stopped(const GridRun *g);

/* Whole or not there: written beside its path, and then it gets its name. NULL or an error text. */
const char *experiment_write(Arena *a, const char *path, const char *text);

/* ---- experiment_report.c, experiment_plot.c ---- */

enum { RANKED_LEAST = 8 /* schedules of a case, for a model's order to say something */ };

/* A value as reports show it: of sizes only those that differ between values. */
const char *report_name(const Experiment *e, const GridPoint *p, GridAxisId axis);
/* The values of the axes that differ, but for those in `without` (a set of bits). */
const char *report_point(const Experiment *e, const GridPoint *p, unsigned without);
/* The measured row of a point and what a modelled CPU says of the same schedule. 0: one of both is missing. */
int report_pair(const GridRun *g, const GridPoint *p, uint32_t machine, const GridRow **measured, const GridRow **predicted);
/* Writes report.svg. 0: there is nothing to draw. NULL or an error text in *error. */
int report_draw(const GridRun *g, const char *path, const char **error);

/* Writes report.md, and report.svg where gnuplot is installed. NULL or an error text. */
const char *report_write(const GridRun *g, const char *folder);

#endif
