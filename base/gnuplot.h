/* Curves and maps by gnuplot, a program that may be missing. */
#ifndef BASE_GNUPLOT_H
#define BASE_GNUPLOT_H

#include <stdio.h>

#include "base/file.h"

/* A picture that is being described. */
typedef struct Gnuplot {
    FILE *script;    /* for the caller to write to */
    FileWriter file; /* .svg or .png; of .gp the script itself is what is wanted */
} Gnuplot;

/* A script that draws into `out`, of that size, up to its beginning. NULL, or an error text in `a`, also where the file cannot be
 * written. */
const char *gnuplot_begin(Gnuplot *g, Arena *a, const char *out, int width, int height);
void gnuplot_quoted(FILE *script, const char *text); /* a text in single quotes */
/* Runs the script, unless it is what is wanted, and closes it. NULL or an error text; then the file holds what it held. */
const char *gnuplot_end(Gnuplot *g, Arena *a);
void gnuplot_drop(Gnuplot *g); /* instead: draws nothing */

#endif
