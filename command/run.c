/* `moec run` and `moec test`: options of the test engine (check.h). */
#include "testing/testing.h"
#include "command/command.h"
#include "emulator/emulator.h"

#include <string.h>

enum {
    KEY_INTERP = COMMAND_LAST,
    KEY_SEED,
    KEY_THREADS,
    KEY_SWEEP,
    KEY_KERNEL,
    KEY_NO_AOT,
    KEY_NO_GRADCHECK,
    KEY_EVERY_ISA,
    KEY_SCHEDULE,
    KEY_TILES,
    KEY_MACHINE,
    KEY_EMULATE,
    KEY_NO_TIME
};

typedef struct RunCommand {
    TestOptions check;
    CommandCall call;
    int is_run;
} RunCommand;

static const struct argp_option run_options[] = {
    {"interp", KEY_INTERP, NULL, 0, "The reference interpreter instead of compiled code", 0},
    {"target", COMMAND_TARGET, "ISA", 0, "Instruction set, as in `moec --target`", 0},
    COMMAND_TYPE_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion", 0},
    {"tiles", KEY_TILES, "FILE", 0, "Compiled code from this tile text (`moec --emit=tiles`), maybe edited",
     0},
    COMMAND_CALL_OPTIONS,
    {"seed", KEY_SEED, "N", 0, "Of the random data; default 1", 0},
    {"threads", KEY_THREADS, "N", 0, "That many, for small sizes too; 0 (default): what OpenMP would take",
     0},
    COMMAND_SCHEDULE_OPTION,
    {"schedule-seed", KEY_SCHEDULE, "N", 0, "Draw every knob that no schedule fixes from its space", 0},
    {"no-time", KEY_NO_TIME, NULL, 0, "Only the outputs, which are the same each time", 0},
    {0}};

static const struct argp_option test_options[] = {
    {"target", COMMAND_TARGET, "ISA", 0, "Instruction set, as in `moec --target`", 0},
    COMMAND_TYPE_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion", 0},
    {"tiles", KEY_TILES, "FILE", 0, "Compiled code from this tile text (`moec --emit=tiles`), maybe edited",
     0},
    {"machine", KEY_MACHINE, "NAME", 0, "Blocks of this machine, as in `moec --machine`", 0},
    {"emulate", KEY_EMULATE, "MODE", OPTION_ARG_OPTIONAL,
     "Run the plan for the machine, an NPU, instead of machine code; 'check': and hold every access against "
     "the flags",
     0},
    {"kernel", KEY_KERNEL, "NAME", 0, "Only this kernel", 0},
    {"sweep", KEY_SWEEP, NULL, 0, "Besides the test blocks, every kernel at a set of awkward sizes", 0},
    {"no-aot", KEY_NO_AOT, NULL, 0, "Leave out the .so", 0},
    {"every-isa", KEY_EVERY_ISA, NULL, 0,
     "Beside the target's the code for each other instruction set that this CPU runs", 0},
    {"no-gradcheck", KEY_NO_GRADCHECK, NULL, 0,
     "Leave out finite differences, which are about the equations, not about code", 0},
    {"seed", KEY_SEED, "N", 0, "Of the random data; default 1", 0},
    COMMAND_SCHEDULE_OPTION,
    {"schedule-seed", KEY_SCHEDULE, "N", 0, "Draw every knob that no schedule fixes from its space", 0},
    {"quiet", 'q', NULL, 0, "Only failures and the last line", 0},
    {0}};

static void settle(const RunCommand *c, struct argp_state *state)
{
    const TestOptions *o = &c->check;
    const char *unused = o->tiles           ? "--tiles"
                         : o->target        ? "--target"
                         : o->threads       ? "--threads"
                         : o->no_optimize   ? "-O"
                         : o->schedule      ? "--schedule"
                         : o->schedule_seed ? "--schedule-seed"
                                            : NULL;
    if (o->interpret && unused)
        argp_error(state, "%s is about compiled code, which --interp leaves out", unused);
    if (o->every_isa && o->machine)
        argp_error(state, "--every-isa is about machine code, which is not for the machine %s", o->machine);
    command_target(state, o->target, o->machine);
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
    RunCommand *c = state->input;
    switch (key) {
    case KEY_MACHINE: c->check.machine = arg; return 0;
    case KEY_EMULATE:
        if (arg && strcmp(arg, "check") != 0)
            argp_error(state, "--emulate=%s: there is only --emulate and --emulate=check", arg);
        c->check.emulate = arg ? EMULATE_CHECK : EMULATE_RUN;
        return 0;
    case KEY_INTERP: c->check.interpret = 1; return 0;
    case COMMAND_TARGET: c->check.target = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &c->check.types); return 0;
    case KEY_TILES: c->check.tiles = arg; return 0;
    case 'O': c->check.no_optimize = command_number(state, "-O", arg, 0, 3) == 0; return 0;
    case KEY_SEED:
        c->check.seed = (uint64_t)command_number(state, "--seed", arg, 0, 0x7fffffffffffffff);
        return 0;
    case KEY_THREADS: c->check.threads = (int)command_number(state, "--threads", arg, 0, 4096); return 0;
    case COMMAND_SCHEDULE: c->check.schedule = command_schedule(state, "--schedule", arg); return 0;
    case KEY_SCHEDULE: c->check.schedule_seed = command_seed(state, arg); return 0;
    case KEY_SWEEP: c->check.sweep = 1; return 0;
    case KEY_KERNEL: c->call.kernel = arg; return 0;
    case KEY_NO_AOT: c->check.no_aot = 1; return 0;
    case KEY_EVERY_ISA: c->check.every_isa = 1; return 0;
    case KEY_NO_GRADCHECK: c->check.no_gradcheck = 1; return 0;
    case 'q': c->check.quiet = 1; return 0;
    case KEY_NO_TIME: c->check.no_time = 1; return 0;
    case ARGP_KEY_ARG:
        if (!c->is_run && c->call.path && (c->call.kernel || strchr(arg, '=')))
            argp_error(state, "'%s' is too much: the sizes are those of the test blocks", arg);
        return command_call(key, arg, state, &c->call);
    case ARGP_KEY_END: settle(c, state); return command_call(key, arg, state, &c->call);
    default: return command_call(key, arg, state, &c->call);
    }
}

static int run_engine(int argc, char **argv, const struct argp *argp, int is_run)
{
    RunCommand c = {.is_run = is_run, .check = {.seed = 1}};
    cli_parse(argp, argc, argv, &c);
    c.check.kernel = c.call.kernel;
    c.check.sizes = c.call.sizes;
    c.check.routing = c.call.routing;
    return is_run ? test_once(c.call.path, &c.check, stdout) : test_file(c.call.path, &c.check, stdout);
}

int command_run(int argc, char **argv)
{
    static const struct argp argp = {
        .options = run_options,
        .parser = parse_run,
        .args_doc = "FILE.moe [KERNEL] [SIZE=N ...] [routing=CLAUSE]",
        .doc = "Runs one kernel on random data, describes its outputs and prints the time of a call.",
    };
    return run_engine(argc, argv, &argp, 1);
}

int command_test(int argc, char **argv)
{
    static const struct argp argp = {
        .options = test_options,
        .parser = parse_run,
        .args_doc = "FILE.moe [KERNEL]",
        .doc = "Runs the test blocks of a file: interpreter, JIT and .so against each other.",
    };
    return run_engine(argc, argv, &argp, 0);
}
