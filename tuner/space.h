/* The space of a kernel's schedules, as moec_space() lists it: knobs, and points as one value for each. */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include "base/base.h"

typedef struct SpaceValue {
    const char *clause; /* "tile g : M = 64"; NULL: none is written */
    double number;      /* of an ordered knob */
    int keeps_bits;
} SpaceValue;

typedef struct SpaceKnob {
    const char *name;
    const SpaceValue *values; /* the first is what the compiler takes by itself */
    uint32_t n;
    int ordered; /* values are numbers, from the second on ascending */
} SpaceKnob;

enum { SPACE_KNOBS = 96, SPACE_VALUES = 255 };

typedef struct TuneSpace {
    const char *kernel, *target;
    const char *const *fixed; /* clauses that the file has and that stay */
    const SpaceKnob *knobs;
    uint32_t nfixed, n;
    uint32_t left_out; /* values that change bits, where they are to be kept */
} TuneSpace;

/* By knob: the number of its value. All 0 is the default. */
typedef struct Point {
    uint8_t at[SPACE_KNOBS];
} Point;

/* From the JSON of moec_space(). NULL or an error text. */
const char *space_read(const char *json, int keep_bits, Arena *a, TuneSpace *out);
double space_size(const TuneSpace *s); /* points */
/* Its schedule block; "" for the default of a kernel without clauses of its own. */
const char *space_schedule(const TuneSpace *s, const Point *p, Arena *a);
const char *space_clauses(const TuneSpace *s, const Point *p, Arena *a); /* those that differ, for people; "the default" */
int space_keeps_bits(const TuneSpace *s, const Point *p);
Point space_random(const TuneSpace *s, Random *r);
/* Up to `most` points that differ from p in one knob, of an ordered one by a step: out[] has room for that many. How many. */
uint32_t space_neighbours(const TuneSpace *s, const Point *p, Point *out, uint32_t most);
/* The next point in the order of all; 0 after the last, which is followed by the default. */
int space_next(const TuneSpace *s, Point *p);
int space_same(const TuneSpace *s, const Point *a, const Point *b);

#endif
