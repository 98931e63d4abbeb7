/* What was probably meant by a word that is unknown. */
#ifndef BASE_GUESS_H
#define BASE_GUESS_H

#include "base/diag.h"

/* The candidate that is nearest to `wanted`, when one is near enough: try each, then ask. */
typedef struct Guess {
    const char *wanted, *best;
    uint32_t distance;
} Guess;
Guess guess_new(const char *wanted);
void guess_try(Guess *g, const char *candidate);
const char *guess_help(Arena *a, const Guess *g,
                       const char *otherwise); /* "did you mean `x`?", else the other help */

/* The candidate as an edit of the report that was just made, instead of the text at loc. */
void guess_edit(Diags *d, const Guess *g, Loc loc);

#endif
