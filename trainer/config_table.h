/* Inside trainer/: the rows of config.def as data. */
#ifndef TRAINER_CONFIG_TABLE_H
#define TRAINER_CONFIG_TABLE_H

#include "trainer/config.h"

typedef enum OptionKind { OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_MAYBE, OPTION_FLAG } OptionKind;
typedef enum OptionResumed { FREE, SAME, JOB } OptionResumed;

typedef struct OptionRow {
    const char *name;
    OptionKind kind;
    OptionResumed resumed;
    size_t at;            /* of the field in Config */
    int64_t least, most;  /* of a whole number */
    double low, high;     /* of another one */
} OptionRow;
extern const OptionRow option_table[OPTION_data]; /* by OptionId; --data is a list and has no row */

static inline void *option_at(Config *c, OptionId o) { return (char *)c + option_table[o].at; }
static inline const void *option_value(const Config *c, OptionId o) { return (const char *)c + option_table[o].at; }

/* Is it one that a config.json says in its place, so that it has no effect beside --model? */
int option_is_of_model(OptionId o);

/* NULL, or the rule that the value breaks. */
const char *option_range(Arena *a, OptionId o, double value);

#endif
