/* moe-bench: kernels beside the limits of this machine and beside other libraries, in one process and one run.
 *
 * A case is a shape and a kind of a group (groups.c). Its maker (case_NAME.c) makes data, proves what our kernel computes,
 * and names *runners*: ours, those of each peer (peers.h); limits.c adds the loops that bound it. measure.c lets them take
 * turns; report.c and export.c print. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <moec/moec.h>
#include <stdbool.h>
#include <stdio.h>

#include "bench/data.h"
#include "bench/peer.h"

typedef struct Options {
    int threads, runs; /* runs: rounds at least */
    double min_time;   /* seconds of rounds at least */
    bool quick, peers, list;
    const char *isa, *cases, *csv, *json, *markdown;
    char **command; /* as it was called */
} Options;

/* What bounds a kernel, each measured by a loop of limits.c. */
typedef enum Limit {
    LIMIT_F32,    /* multiply-add of f32: flop/s */
    LIMIT_BF16,   /* sums of products of two bf16 in f32: flop/s */
    LIMIT_READ,   /* bytes/s from memory */
    LIMIT_COPY,   /* bytes/s read and written by memcpy */
    LIMIT_UPDATE, /* bytes/s read and written in place */
} Limit;

typedef enum BenchPart { OURS, PEER, COMPUTE, TRAFFIC } BenchPart;

/* Something that is timed. */
typedef struct BenchRunner {
    BenchPart part;
    int threads;
    const char *who, *way; /* "oneDNN", "matmul, prepacked" */
    TimeCalls *time;
    void *self;
    double first;    /* seconds of a call before the rounds */
    bool measured;   /* takes part in the rounds */
    double *samples; /* seconds of one call, one for each round */
    int rounds;
} BenchRunner;

enum { MAX_RUNNERS = 24 };

typedef struct Case {
    struct Bench *bench;
    const struct BenchGroup *group;
    const struct BenchShape *shape;
    const struct Kind *kind;
    char name[64];
    const char *isa;
    int threads;
    BenchSizes sizes;
    BenchMemory memory;          /* of the data, until it has been measured */
    double flops, bytes;    /* that it cannot do with less */
    Limit compute, traffic; /* what bounds them */
    double workspace;       /* bytes, of ours */
    BenchRunner runners[MAX_RUNNERS];
    int nrunners;
} Case;

typedef struct Bench {
    Options options;
    const char *isa; /* of our kernels, never "host" */
    bool forced;     /* it was asked for by name, so that it bounds the limits too */
    moec_context *compiler;
    struct BenchModule *modules;
    struct Limits *limits;
    BenchMemory memory; /* of the results */
    Case **cases;  /* measured */
    int ncases, failed;
} Bench;

/* ---- groups.c ---- */

typedef struct BenchShape {
    const char *name;
    int64_t E, T, K, H, F; /* experts, tokens, choices, widths; a maker may mean others by them */
    double zipf;           /* popularity of experts falls with rank^-zipf: 0 uniform */
    int64_t empty;         /* experts without tokens */
    int64_t each;          /* instead: every expert has so many rows */
    bool quick;            /* measured by --quick too */
} BenchShape;

typedef struct Kind {
    const char *name, *about;
    int (*make)(Case *c); /* 1: it complained */
    int variant;          /* what the maker makes */
    const char *isa;      /* this instead of the bench's */
    bool alone;           /* without peers */
    bool gain;            /* on two threads, beside one */
    double ratio,
        mean; /* asked of the best peer's time to ours: in each case, in the geometric mean of the group */
    double share;   /* asked of what the limit reaches; of a gain: of the limit's */
    double seconds; /* asked of a call, at most */
} Kind;

typedef struct BenchGroup {
    const char *name, *about;
    const BenchShape *shapes; /* up to a row without a name */
    const Kind *kinds;
} BenchGroup;

extern const BenchGroup groups[]; /* up to one without a name */

/* ---- case.c ---- */

/* Makes, measures and keeps a case, or complains. */
int case_run(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name);
void case_runner(Case *c, BenchPart part, int threads, const char *who, const char *way, TimeCalls *time,
                 void *self);
/* The choices of experts that the shape asks for. */
moe_route *route_for(Case *c);
/* The case's name and a reason on stderr. Returns 1. */
int case_failed(const Case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- measure.c ---- */

double bench_seconds(void);
int measure(Case *c);
moec_spread bench_spread(const BenchRunner *r); /* seconds of one call of a measured runner */
/* Median over the rounds of b's time to a's. */
double ratio_of(const BenchRunner *a, const BenchRunner *b);

/* ---- verdict.c: what the samples say ---- */

typedef struct Verdict {
    const BenchRunner *ours, *peer, *limit; /* peer: the best, or NULL; limit: the one that is nearest, or NULL */
    double seconds, rate;              /* of work by second: flops, or bytes where memory limits it */
    const char *unit;                  /* of 10^9 of the rate */
    double ratio;                      /* of the peer's time to ours */
    double share;                      /* of what the limit reaches */
    double gain, limit_gain;           /* of more threads; 0: not asked */
    bool below;                        /* less than was asked */
} Verdict;

Verdict verdict_of(const Case *c);
/* Geometric mean of the ratios of the cases of a group and kind; 0: there are fewer than two. */
double mean_ratio(const Bench *b, const BenchGroup *g, const Kind *k);

/* ---- report.c, export.c ---- */

/* Machine, limits and peers. */
void report_machine(const Bench *b, FILE *out);
void report_head(FILE *out);
void report_case(const Case *c, FILE *out);
void report_end(const Bench *b, FILE *out);
/* Writes what the options ask for. 1: it complained. */
int export(const Bench *b);

#endif
