/* moe-bench: kernels beside the limits of the machine and beside other libraries, in one process and one run.
 *
 * A case (groups.c) makes its data, proves what our kernel computes, and names runners: ours, those of each peer (peer.h),
 * and the limits that bound it (limits.h). measure.c lets them take turns; report.c prints. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <moec/moec.h>
#include <stdbool.h>
#include <stdio.h>

#include "bench/data.h"
#include "bench/peer.h"

/* What bounds a kernel, each measured by a loop of limits.c. */
typedef enum Limit {
    LIMIT_NONE,
    LIMIT_F32,    /* multiply-add of f32: flop/s */
    LIMIT_BF16,   /* sums of products of two bf16 in f32: flop/s */
    LIMIT_READ,   /* bytes/s from memory */
    LIMIT_COPY,   /* bytes/s read and written, to other memory */
    LIMIT_UPDATE, /* bytes/s read and written, in place */
    LIMIT_COUNT
} Limit;

typedef struct Options {
    int threads, runs; /* runs: rounds at least */
    double min_time;   /* seconds of rounds at least */
    bool quick, peers, list;
    const char *isa, *csv, *json, *markdown, *cases;
} Options;

typedef struct Samples {
    double *at; /* seconds of one call, one for each round */
    int n;
} Samples;

/* Something that is timed. */
typedef struct Runner {
    const char *who, *way; /* "oneDNN", "matmul, prepacked" */
    TimeCalls *time;       /* seconds of so many calls, negative: failed */
    void *self;
    int calls;     /* of one sample */
    double first;  /* seconds of a call before the rounds */
    bool measured; /* takes part in the rounds */
    Samples samples;
} Runner;

enum { MAX_RUNNERS = 24, OURS = 0 };

typedef struct Case {
    struct Bench *bench;
    const struct Group *group;
    char name[64];
    Sizes sizes;
    Memory memory; /* all that lives as long as the case */
    double flops, bytes;
    Limit compute, traffic; /* what bounds flops and bytes */
    double wanted;          /* of the best peer's time to ours; 0: nothing is asked */
    double wanted_share;    /* of the roofline */
    Runner runners[MAX_RUNNERS];
    int nrunners, limit_compute, limit_traffic; /* the limits' places among the runners, or -1 */
} Case;

typedef struct Bench {
    Options options;
    const char *isa; /* of our kernels, never "host" */
    moec_context *compiler;
    struct Module *modules;
    int cases, failed;
} Bench;

double seconds_now(void);

/* Adds a runner to a case. */
void case_runner(Case *c, const char *who, const char *way, TimeCalls *time, void *self);
/* Complains: the case's name and a reason on stderr. Returns 1. */
int case_failed(Case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- groups.c: shapes x kinds ---- */

typedef struct Shape {
    const char *name;
    int64_t E, T, K, H, F; /* experts, tokens, choices, widths; of one product: T x F x H */
    double zipf;           /* of the experts' popularity: 0 uniform */
    int empty;             /* experts without tokens */
    int64_t rows_each;     /* every expert has as many rows, instead */
    bool quick;
} Shape;

typedef struct Kind {
    const char *name, *about;
    int (*make)(Case *c, const Shape *s, const struct Kind *k); /* 1: it failed, or a result was wrong */
    int variant;
    double wanted, wanted_mean; /* peer's time to ours: each case, geometric mean of the group */
    double wanted_share;
} Kind;

typedef struct Group {
    const char *name, *about;
    const Shape *shapes; /* ends with a row of zeros */
    const Kind *kinds;
} Group;

extern const Group *const groups[]; /* ends with NULL */

/* ---- measure.c ---- */

int measure(Case *c);
double quantile(const Samples *s, double q);
/* Median over the rounds of b's time to a's. */
double ratio_of(const Samples *a, const Samples *b);

/* ---- report.c ---- */

void report_head(FILE *out);
void report_case(const Case *c, FILE *out);

#endif
