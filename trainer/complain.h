/* How moe-train says what is wrong. */
#ifndef TRAINER_COMPLAIN_H
#define TRAINER_COMPLAIN_H

/* Prints "moe-train: " and the message to stderr. Returns 1, the exit code of a wrong input. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define TERMINAL_CLEAR "\033[K" /* what is left of the line that was there */

#endif
