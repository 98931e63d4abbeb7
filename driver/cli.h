/* The command `moec`: main.c dispatches, a file per group of subcommands. Every function returns the exit
 * code. */
#ifndef DRIVER_CLI_H
#define DRIVER_CLI_H

#include "driver/driver.h"

#include <argp.h>

/* argv[0] is "moec" or "moec NAME", for messages. */
int cli_compile(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_test(int argc, char **argv);
int cli_grad(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_passes(int argc, char **argv);
int cli_ops(int argc, char **argv);
int cli_machines(int argc, char **argv);
int cli_report_npu(int argc, char **argv);

/* Prints what the compilation reported to stderr; after an internal error writes the replay file. Returns
 * status. */
int cli_report(Compilation *c, int status, int json);
/* "moec: text" to stderr. Returns DRIVER_ERROR. */
int cli_error(const char *text);
/* A whole number in lo..hi, or a usage error in the name of `option`. */
long cli_number(struct argp_state *state, const char *option, const char *text, long lo, long hi);

uint64_t cli_seed(struct argp_state *state, const char *text); /* of --schedule-seed */

/* The options of cli_compile that the other subcommands also take: --target, -O. */
enum { CLI_TARGET = 256, CLI_LAST };

#endif
