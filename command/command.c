/* What all subcommands share: errors, numbers, the report of a compilation. */
#include "command/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int command_error(const char *text)
{
    fprintf(stderr, "moec: %s\n", text);
    return DRIVER_ERROR;
}

long command_number(struct argp_state *state, const char *option, const char *text, long lo, long hi)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < lo || value > hi)
        argp_error(state, "%s takes a whole number from %ld to %ld, not '%s'", option, lo, hi, text);
    return value;
}

uint64_t command_seed(struct argp_state *state, const char *text)
{
    return (uint64_t)command_number(state, "--schedule-seed", text, 0, 0x7fffffffffffffff);
}

int command_tell(Compilation *c, int status, int json)
{
    fputs(json ? c->errors_json : c->errors, stderr);
    if (json)
        fputs("\n", stderr);
    compile_leave_replay(c, status, stderr);
    return status;
}
