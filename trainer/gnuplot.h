/* Curves and maps by gnuplot, a program that may be missing. */
#ifndef TRAINER_GNUPLOT_H
#define TRAINER_GNUPLOT_H

#include <stdio.h>

/* A script that draws into `out`, a .svg or .png of that size, up to its beginning. NULL with a message printed, also where the file
 * cannot be written. */
FILE *gnuplot_begin(const char *out, int width, int height);
void gnuplot_quoted(FILE *script, const char *text); /* a text in single quotes */
/* Runs the script and closes it. Returns 0, or 1 with a message printed. */
int gnuplot_end(FILE *script);

#endif
