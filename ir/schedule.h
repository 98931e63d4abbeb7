/* Schedules: blocks of clauses, whose knobs are the rows of schedule.def. And the runs of `test` blocks. */
#ifndef IR_SCHEDULE_H
#define IR_SCHEDULE_H

#include "ir/type.h"

/* A row of ir/schedule.def. */
typedef enum Knob {
#define KNOB(id, clause, word, scope, lo, hi, step, words, keeps, source, otherwise, doc) KNOB_##id,
#include "ir/schedule.def"
    KNOB_COUNT
} Knob;

/* What a knob is about, and so the form of its clause. */
typedef enum KnobScope {
    SCOPE_PRODUCT,   /* tile g, u : M = 64 N = 128     tensors that sums define */
    SCOPE_POINTWISE, /* strip a : lanes = 4096         tensors defined without one */
    SCOPE_INDEX,     /* rowblock i : rows = 64         index variables */
    SCOPE_EDGE,      /* fuse xp -> g, u at prologue    who reads what */
    SCOPE_TENSOR,    /* store xp */
    SCOPE_LAUNCH,    /* launch y : writes past      any tensor that an equation defines */
    SCOPE_KERNEL,    /* order groups heaviest_first */
    SCOPE_SPACE,     /* copies l1 = 2, l0a = 2 */
} KnobScope;
typedef enum KnobSource { SOURCE_MACHINE, SOURCE_RULE, SOURCE_NONE /* no machine that runs here reads it */ } KnobSource;

typedef struct KnobRow {
    const char *clause, *word;
    KnobScope scope;
    int64_t lo, hi, step;
    const char *words; /* names of the values 0, 1 ..., with blanks between; "": they are numbers */
    int64_t keeps;     /* values up to this one keep bits */
    KnobSource source;
    int64_t otherwise;
    const char *doc;
} KnobRow;
extern const KnobRow knob_table[KNOB_COUNT];

/* One knob of a clause. Several values, written ?{a, b}: a knob of the tuner's space, of which the first compiles. */
typedef struct Setting {
    Knob knob;
    Loc loc;
    Vec(int64_t) values;
} Setting;

typedef struct ScheduleName {
    Name name;
    Loc loc;
} ScheduleName;

typedef struct Clause {
    Vec(ScheduleName) names, readers; /* readers: of `fuse names -> readers` */
    Vec(Setting) settings;            /* at least one; all of one word `clause` */
} Clause;

typedef struct Schedule {
    Name kernel;
    Loc loc;
    Vec(Clause) clauses;
} Schedule;

/* Values of a knob's space, ascending: one and one and a half times the powers of two of the smallest, which may be 0 before
 * them. Returns how many. */
enum { KNOB_SPACE_MAX = 64 };
uint32_t knob_space(Knob knob, int64_t *values /* KNOB_SPACE_MAX places */);
void knob_put_value(Knob knob, int64_t value, Text *out); /* 64, heaviest_first */
int knob_keeps_bits(Knob knob, int64_t value);
enum { AT_PROLOGUE, AT_EPILOGUE, AT_SCATTER }; /* the words of KNOB_fuse */
enum { WRITES_BY_SIZE, WRITES_PAST, WRITES_KEPT }; /* of KNOB_writes */

typedef struct TestRouting {
    enum { ROUTING_UNIFORM, ROUTING_ZIPF, ROUTING_HOT, ROUTING_EMPTY, ROUTING_EXACT } kind;
    double value;          /* zipf exponent, empty percent, number of hot experts */
    Vec(int64_t) counts;   /* exact */
} TestRouting;

typedef struct TestRun {
    Vec(TestRouting) routings; /* combined; empty: uniform */
} TestRun;

typedef struct Test {
    Name kernel;
    Loc loc;
    Vec(struct TestSize { DimId dim; int64_t value; }) sizes;
    Vec(TestRun) runs; /* at least one */
    double tolerance;  /* 0: the numeric contract's */
    int gradcheck;
} Test;

#endif
