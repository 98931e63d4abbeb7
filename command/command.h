/* The command `moec`: main.c dispatches by commands.def, a file for each group of subcommands. Each returns the exit code. */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "driver/driver.h"

#include <argp.h>

/* argv[0] is "moec" or "moec NAME", for messages. */
int command_compile(int argc, char **argv);
#define COMMAND(name, arguments, doc) int command_##name(int argc, char **argv);
#include "command/commands.def"

/* ---- command.c ---- */

/* Prints what the compilation reported to stderr; after an internal error writes the replay file. Returns
 * status. */
int command_tell(Compilation *c, int status, int json);
/* Whether messages on stderr are coloured: a terminal, and NO_COLOR (no-color.org) is not set. */
int command_color(void);
/* "moec: text" to stderr. Returns DRIVER_ERROR. */
int command_error(const char *text);
/* From now on the first Ctrl-C, SIGTERM or SIGHUP (but under nohup) prints the text and sets the flag that is returned; the second one ends
 * the program. */
const volatile int *command_stop(const char *text);
/* A whole number in lo..hi, or a usage error in the name of `option`. */
long command_number(struct argp_state *state, const char *option, const char *text, long lo, long hi);

const char *command_tuned_for(struct argp_state *state, const char *arg); /* of --tuned-for */
uint64_t command_seed(struct argp_state *state, const char *text); /* of --schedule-seed */

/* Of --schedule, or another option like it: a schedule's text, or the path of a file that has it. Gives the text, which lives as long as
 * the process, or is a usage error. */
const char *command_schedule(struct argp_state *state, const char *option, const char *arg);

/* Add an argument of --type, or of --allow, to those before, which are in *types or *allow with commas between them. */
void command_type(struct argp_state *state, const char *arg, const char **types);
void command_allow(struct argp_state *state, const char *arg, const char **allow);

/* A usage error where an option was given without the one that it is about. */
void command_needs(struct argp_state *state, int given, const char *option, int has, const char *needs);

/* Usage errors of options about --tuned-for: --threads without it, --schedule beside it. */
void command_tuned(struct argp_state *state, const CompileOptions *o);

/* A usage error where --target says an instruction set and --machine an NPU, which has none. */
void command_target(struct argp_state *state, const char *target, const char *machine);

/* The options of command_compile that the other subcommands also take: --target, -O, --type, --allow, --schedule; and those of CommandCall. */
enum { COMMAND_TARGET = 256, COMMAND_TYPE, COMMAND_ALLOW, COMMAND_SCHEDULE, COMMAND_SIZES, COMMAND_ROUTING, COMMAND_LAST };
#define COMMAND_TYPE_OPTION \
    {"type", COMMAND_TYPE, "NAME=TYPE,...", 0, "Element types instead of those of the file's `type` declarations", 0}
#define COMMAND_SCHEDULE_OPTION \
    {"schedule", COMMAND_SCHEDULE, "TEXT|FILE", 0, "Schedule blocks instead of the file's", 0}
#define COMMAND_ALLOW_OPTION \
    {"allow", COMMAND_ALLOW, "CODE,...", 0, "Give no warnings of these codes; `// allow CODE` in or above a line does so for it", 0}

/* One kernel at sizes, as a command line names it: FILE.moe [KERNEL] [SIZE=N ...] [routing=CLAUSE], where FILE.moe:KERNEL,
 * --sizes=SIZE=N,...[,routing=CLAUSE] and --routing=CLAUSE say the same. Texts live as long as the process; NULL: not said. */
typedef struct CommandCall {
    const char *path, *kernel;
    const char *sizes; /* "T=33 K=2" */
    const char *routing;
} CommandCall;
#define COMMAND_CALL_OPTIONS \
    {"sizes", COMMAND_SIZES, "T=2048,...", 0, "Sizes of dimensions; without the option they are arguments: T=2048 ...", 0}, \
    {"routing", COMMAND_ROUTING, "CLAUSE", 0, \
     "How rows fall to groups: uniform, zipf(1.2), hot(2), empty(40%), exact(...), with commas; or routing=CLAUSE", 0}
/* Takes the keys of these options and arguments. ARGP_ERR_UNKNOWN: the key is another. */
error_t command_call(int key, char *arg, struct argp_state *state, CommandCall *call);
/* FILE or FILE:KERNEL; the kernel stays as it is where arg names none. */
void command_file(char *arg, const char **path, const char **kernel);

#endif
