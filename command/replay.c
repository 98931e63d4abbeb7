/* `moec replay`: calls of a log again. */
#include "testing/testing.h"
#include "command/command.h"

#include <stdlib.h>

enum { KEY_NO_CHECK = COMMAND_LAST };

static const struct argp_option replay_options[] = {
    {"target", COMMAND_TARGET, "ISA", 0,
     "Instruction set, as in `moec --target`; default: those that the module was compiled for", 0},
    {"no-check", KEY_NO_CHECK, NULL, 0, "Only the recorded bits: leave the interpreter out", 0},
    {0}};

typedef struct ReplayCommand {
    ReplayOptions o;
    char **paths;
    int npaths;
} ReplayCommand;

static error_t parse_replay(int key, char *arg, struct argp_state *state)
{
    ReplayCommand *c = state->input;
    switch (key) {
    case COMMAND_TARGET: c->o.target = arg; return 0;
    case KEY_NO_CHECK: c->o.no_check = 1; return 0;
    case ARGP_KEY_ARGS:
        c->paths = state->argv + state->next;
        c->npaths = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "no folder of calls, and no call"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_replay(int argc, char **argv)
{
    static const struct argp argp = {
        .options = replay_options,
        .parser = parse_replay,
        .args_doc = "DIR...\nCALL.in.safetensors...",
        .doc =
            "Repeats calls of kernels that were logged because MOE_LOG_CALLS=DIR was in the environment of a "
            "program, and compares "
            "their results with the recorded bits and with the interpreter. Ends with 1 where they differ.",
    };
    ReplayCommand c = {.npaths = 0};
    int worst = DRIVER_OK;
    cli_parse(&argp, argc, argv, &c);
    unsetenv("MOE_LOG_CALLS"); /* or these calls are logged as well */
    for (int i = 0; i < c.npaths; i++)
        worst |= test_replay(c.paths[i], &c.o, stdout);
    return worst;
}
