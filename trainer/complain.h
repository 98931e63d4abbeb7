/* How moe-train says what is wrong. */
#ifndef TRAINER_COMPLAIN_H
#define TRAINER_COMPLAIN_H

#include <stdint.h>

/* Prints "moe-train: " and the message to stderr. Returns 1, the exit code of a wrong input. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same of what all ranks find alike: the first one says it. */
int complain_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same of what a rank refuses, as all others do that were started alike: the first one says it, and the launcher ends the others
 * while they wait for that. Who waits in vain says it, too. */
int complain_alike(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain_as(int64_t rank); /* the number of this rank, which stands before its messages unless it is the first */

/* Does a person see it? Launchers give ranks terminals of their own, and pass on what is written there line by line. */
int on_terminal(int fd);
#define TERMINAL_CLEAR "\033[K" /* what is left of the line that was there */

#endif
