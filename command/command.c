/* What all subcommands share: errors, numbers, the report of a compilation. */
#include "command/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *command_tuned_for(struct argp_state *state, const char *arg)
{
    if (!*arg)
        argp_error(state, "--tuned-for takes sizes, as T=2048,H=1024");
    return arg;
}

const char *command_schedule(struct argp_state *state, const char *option, const char *arg)
{
    static char text[2][1 << 16]; /* a process runs one command, of two schedules at most */
    static int used;
    if (strchr(arg, '{'))
        return arg;
    if (used == 2)
        argp_error(state, "%s is given too often: '%s'", option, arg);
    FILE *f = fopen(arg, "r");
    if (!f)
        argp_error(state, "%s takes `schedule NAME { ... }` or a file that has it, not '%s'", option, arg);
    size_t len = fread(text[used], 1, sizeof text[used], f);
    if (ferror(f) || len == sizeof text[used])
        argp_error(state, "%s: %s is too long or cannot be read", option, arg);
    fclose(f);
    return text[used++];
}

enum { LIST_ROOM = 4096 };

/* Behind what the list has, which has room for LIST_ROOM characters. */
static void join(struct argp_state *state, const char *option, char *list, const char *arg)
{
    const size_t len = strlen(list), more = strlen(arg) + (len > 0);
    if (len + more >= LIST_ROOM)
        argp_error(state, "%s is given too often", option);
    snprintf(list + len, LIST_ROOM - len, "%s%s", len ? "," : "", arg);
}

/* A process runs one command, so each has one list. */

void command_type(struct argp_state *state, const char *arg, const char **types)
{
    static char joined[LIST_ROOM];
    join(state, "--type", joined, arg);
    *types = joined;
}

void command_allow(struct argp_state *state, const char *arg, const char **allow)
{
    static char joined[LIST_ROOM];
    char bad[32];
    if (!diag_may_allow(arg, bad, sizeof bad))
        argp_error(state, "--allow takes codes of warnings and hints, as W1003, not '%s'", bad);
    join(state, "--allow", joined, arg);
    *allow = joined;
}

void command_needs(struct argp_state *state, int given, const char *option, int has, const char *needs)
{
    if (given && !has)
        argp_error(state, "%s has no effect without %s", option, needs);
}

void command_tuned(struct argp_state *state, const CompileOptions *o)
{
    command_needs(state, o->tuned_threads != 0, "--threads", o->tuned_for != NULL, "--tuned-for");
    if (o->schedule && o->tuned_for)
        argp_error(state, "--tuned-for looks for a schedule, and --schedule gives one");
}

void command_target(struct argp_state *state, const char *target, const char *machine)
{
    Arena *a = target && machine ? arena_new() : NULL;
    Description d = {.machine = {.kind = MACHINE_CPU}};
    const int npu = a && !machine_open(a, machine, &d) && d.machine.kind == MACHINE_NPU;
    arena_free(a);
    if (npu)
        argp_error(state, "--target has no effect with the machine %s: an NPU has no such instruction set",
                   machine);
}

/* ---- one kernel at sizes ---- */

void command_file(char *arg, const char **path, const char **kernel)
{
    char *colon = access(arg, F_OK) == 0 ? NULL : strrchr(arg, ':');
    *path = arg;
    if (!colon)
        return;
    *colon = '\0';
    if (access(arg, F_OK) == 0)
        *kernel = colon + 1;
    else
        *colon = ':';
}

/* "T=8192, H=64, routing=zipf(1.2), empty(40%)" */
static void take_sizes(struct argp_state *state, const char *arg, CommandCall *call)
{
    static char joined[4096]; /* a process runs one command */
    const char *routing;
    size_t len = strlen(joined), more = tuned_split(arg, &routing);
    if (routing)
        call->routing = routing;
    if (!more)
        return;
    if (len + more + 1 >= sizeof joined)
        argp_error(state, "there are too many sizes");
    snprintf(joined + len, sizeof joined - len, "%s%.*s", len ? " " : "", (int)more, arg);
    call->sizes = joined;
}

static void take_argument(struct argp_state *state, char *arg, CommandCall *call)
{
    if (!call->path)
        command_file(arg, &call->path, &call->kernel);
    else if (strchr(arg, '='))
        take_sizes(state, arg, call);
    else if (!call->kernel)
        call->kernel = arg;
    else
        argp_error(state, "'%s' is too much", arg);
}

error_t command_call(int key, char *arg, struct argp_state *state, CommandCall *call)
{
    switch (key) {
    case COMMAND_SIZES: take_sizes(state, arg, call); return 0;
    case COMMAND_ROUTING: call->routing = arg; return 0;
    case ARGP_KEY_ARG: take_argument(state, arg, call); return 0;
    case ARGP_KEY_END:
        if (!call->path)
            argp_error(state, "no input file");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_color(void)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    int dumb = !terminal || strcmp(terminal, "dumb") == 0;
    return isatty(STDERR_FILENO) && !(off && *off) && !dumb;
}

int command_tell(Compilation *c, int status, int json)
{
    fputs(json ? c->errors_json : c->errors, stderr);
    if (json)
        fputs("\n", stderr);
    compile_leave_replay(c, status, stderr);
    return status;
}

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t stopped;
static const char *stop_text;

static void stop(int number)
{
    stopped = 1;
    signal(number, SIG_DFL);
    if (write(STDERR_FILENO, stop_text, strlen(stop_text)) < 0)
        return;
}

const volatile int *command_stop(const char *text)
{
    stop_text = text;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (signal(SIGHUP, stop) == SIG_IGN)
        signal(SIGHUP, SIG_IGN);
    return &stopped;
}
