/* What the project's programs do alike: commands, options out of tables of argp(3), help, manual pages and completion out of the
 * same tables, exit codes. */
#ifndef BASE_CLI_H
#define BASE_CLI_H

#include <stddef.h>

struct argp;

/* Exit codes. */
enum {
    CLI_OK,
    CLI_ERROR,    /* of the input: also files that cannot be read or written */
    CLI_USAGE,    /* of the command line */
    CLI_INTERNAL, /* of the program itself */
};

/* A word behind the program's name. */
typedef struct CliCommand {
    const char *name, *doc;
    int (*run)(int argc, char **argv); /* argv[0] is "PROGRAM NAME", for messages; returns the exit code */
} CliCommand;

typedef struct Cli {
    const char *name, *version;
    const CliCommand *commands;
    size_t ncommands;
    int (*otherwise)(int argc, char **argv); /* where the first word is no command */
    int takes_files;                         /* its first word may be a file, then */
} Cli;

/* Runs a command. Adds `help [COMMAND]`, -h and --version; refuses a first word that is neither a command nor a file, and says
 * what was probably meant. A standard output that cannot be written is an error. To be the whole of main. */
int cli_main(const Cli *p, int argc, char **argv);

/* argp_parse of a command, with what all of them have besides: -h, and for installers --man-page, --option-names. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

#endif
