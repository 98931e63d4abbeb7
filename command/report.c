/* `moec report`: how a kernel would do on a machine. */
#include "testing/testing.h"
#include "command/command.h"
#include "emulator/emulator.h"

enum { KEY_MACHINE = COMMAND_LAST, KEY_TRACE, KEY_HTML, KEY_SEED, KEY_SCHEDULE, KEY_THREADS };

static const struct argp_option report_options[] = {
    {"machine", KEY_MACHINE, "NAME", 0, "One of `moec machines`, or FILE.json; default ascend910b2", 0},
    {"threads", KEY_THREADS, "N", 0, "Cores of a CPU that take part; default: all", 0},
    COMMAND_CALL_OPTIONS,
    {"trace", KEY_TRACE, "FILE", 0, "Write what each unit did when, for Perfetto or chrome://tracing", 0},
    {"html", KEY_HTML, "FILE", 0, "Write the report as one page, with pictures of time and of on-chip memory",
     0},
    COMMAND_TYPE_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion", 0},
    {"seed", KEY_SEED, "N", 0, "Of the routes; default 1", 0},
    COMMAND_SCHEDULE_OPTION,
    {"schedule-seed", KEY_SCHEDULE, "N", 0, "Draw every knob that no schedule fixes from its space", 0},
    {0}};

typedef struct ReportCommand {
    TestOptions check;
    CommandCall call;
    const char *trace, *html;
} ReportCommand;

static error_t parse_report(int key, char *arg, struct argp_state *state)
{
    ReportCommand *c = state->input;
    switch (key) {
    case KEY_MACHINE: c->check.machine = arg; return 0;
    case KEY_TRACE: c->trace = arg; return 0;
    case KEY_HTML: c->html = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &c->check.types); return 0;
    case 'O': c->check.no_optimize = command_number(state, "-O", arg, 0, 3) == 0; return 0;
    case KEY_SEED:
        c->check.seed = (uint64_t)command_number(state, "--seed", arg, 0, 0x7fffffffffffffff);
        return 0;
    case KEY_THREADS: c->check.threads = (int)command_number(state, "--threads", arg, 1, 1024); return 0;
    case COMMAND_SCHEDULE: c->check.schedule = command_schedule(state, "--schedule", arg); return 0;
    case KEY_SCHEDULE: c->check.schedule_seed = command_seed(state, arg); return 0;
    default: return command_call(key, arg, state, &c->call);
    }
}

int command_report(int argc, char **argv)
{
    static const struct argp argp = {
        .options = report_options,
        .parser = parse_report,
        .args_doc = "FILE.moe [KERNEL] [SIZE=N ...] [routing=CLAUSE]",
        .doc = "Compiles a kernel for a machine (for an NPU: plans it), runs that without data, and reports "
               "what a "
               "model of the machine says: time, "
               "what bounds it, bytes by path, how even the work is.",
    };
    ReportCommand c = {.check = {.seed = 1, .machine = "ascend910b2", .emulate = EMULATE_MODEL}};
    cli_parse(&argp, argc, argv, &c);
    c.check.kernel = c.call.kernel;
    c.check.sizes = c.call.sizes;
    c.check.routing = c.call.routing;
    return test_report(c.call.path, &c.check, c.trace, c.html, stdout);
}
