/* The tuner: looks for schedules that make a kernel faster than the compiler's own choices do, at given sizes and routing. Uses the
 * public API only, as anybody's tuner could.
 *
 * space.h: points. search.h: trials and strategies. worker.h: processes. case.c: the judge of one case, which races candidates in
 * processes beside the default. tune.c: all cases of a command, and what is printed. experiment.h: grids of cases. */
#ifndef TUNER_TUNER_H
#define TUNER_TUNER_H

#include <stdio.h>

#include "moec/moec.h"
#include "tuner/search.h"

enum { TUNE_CASES = 16 };

typedef struct TuneOptions {
    moec_work work;                  /* path, kernel, seed */
    moec_options options;            /* target, types ... */
    const char *sizes[TUNE_CASES];   /* every one with every routing and thread count */
    const char *routings[TUNE_CASES]; /* NULL: uniform; "file:PATH": how many rows each group has */
    int threads[TUNE_CASES];
    int nsizes, nroutings, nthreads;
    double budget;                   /* seconds, of all cases together */
    const char *machine;             /* its model judges instead of the clock; NULL: the clock */
    const char *strategy;            /* of search.def */
    uint64_t seed;
    int keep_bits, list_space;
    const char *records;             /* path of the database; NULL: that of moec_records_open() */
    int no_records;
    int progress;                    /* a line that changes, on stderr */
    volatile const int *stop;        /* not 0: end soon, with what is known; NULL: never */
} TuneOptions;

/* Prints results to `out`. 0; 1: an error, which is printed to stderr. */
int tune(const TuneOptions *o, FILE *out);
/* "zipf(1.2)+empty(40%)" as a `test` block writes it; of "file:PATH" the counts. NULL: it cannot be read (errno),
 * or is no list of counts (errno is 0), or there is no word. */
const char *tune_routing(const char *word, Arena *a);

/* ---- one case ---- */

/* What is tuned: a kernel at sizes, a routing and a thread count. */
typedef struct Tuning {
    const TuneOptions *o;
    Arena *arena;
    moec_context *context;
    moec_work work;
    TuneSpace space;
    Judge judge;
    Search search;
    double begin, end; /* of its time */
    const char *label; /* "ffn T=2048 ..., zipf(1.2); avx512bf16, 1 thread" */
    char digest[33];   /* of the default's results */
    char check_sizes[160];
    struct LiveSet *live;
    moec_records *records; /* NULL: nothing is kept */
    moec_record name;      /* of the case */
    int begun_again;    /* processes of the default that were killed, and replaced by another one */
    const char *broken; /* NULL, or why nothing can be measured */
    const char *lost;   /* NULL, or why records are kept no more */
} Tuning;

/* NULL or an error text. The judge by the clock, and by the model of o->machine. */
const char *tuning_begin(Tuning *t);
void tuning_end(Tuning *t);

/* ---- keep.c: records ---- */

/* NULL or an error text. */
const char *keep_begin(Tuning *t);
/* Writes what was measured since the last time. */
void keep_trials(Tuning *t);
/* Writes the verdict. */
void keep_winner(Tuning *t, const Trial *winner);
void keep_end(Tuning *t);

/* ---- db.c: `moec db` ---- */

typedef struct DbOptions {
    const char *path; /* NULL: as above */
    int all;          /* also what only was tried */
    int other_builds; /* to be pruned */
    double older;     /* seconds: what is older is to be pruned; 0: nothing is */
    int64_t id;
    const char *output; /* of the plot: .svg, .png; .gp: the script for gnuplot */
} DbOptions;

/* Print to out; 0, or 1 and an error on stderr. */
int db_list(const DbOptions *o, FILE *out);
int db_show(const DbOptions *o, FILE *out);
int db_prune(const DbOptions *o, FILE *out);
int db_plot(const DbOptions *o);

/* ---- experiment.h: `moec experiment` ---- */

typedef struct ExperimentOptions {
    const char *file, *out; /* out NULL: the path of the file without its ending */
    int only_report, again; /* again: rows that are there are thrown away */
    int progress;
    volatile const int *stop;
} ExperimentOptions;

/* Runs it and writes the report; prints to `out`. 0; 1: an error, which is printed to stderr. */
int experiment(const ExperimentOptions *o, FILE *out);

#endif
