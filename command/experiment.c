/* `moec experiment`: measures a grid of kernels, sizes, routings, schedules and machines, and writes a report. */
#include "command/command.h"
#include "tuner/tuner.h"

#include <unistd.h>

enum { KEY_AGAIN = COMMAND_LAST, KEY_REPORT };

static const struct argp_option experiment_options[] = {
    {"out", 'o', "FOLDER", 0, "Where rows and report are kept; default: FILE without .json", 0},
    {"again", KEY_AGAIN, NULL, 0, "Throw away the rows that are there", 0},
    {"report", KEY_REPORT, NULL, 0, "Measure nothing: only write the report of the rows that are there", 0},
    {0}};

static error_t parse_experiment(int key, char *arg, struct argp_state *state)
{
    ExperimentOptions *o = state->input;
    switch (key) {
    case 'o': o->out = arg; return 0;
    case KEY_AGAIN: o->again = 1; return 0;
    case KEY_REPORT: o->only_report = 1; return 0;
    case ARGP_KEY_ARG:
        if (o->file)
            argp_error(state, "'%s' is too much", arg);
        o->file = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->file)
            argp_error(state, "no input file");
        if (o->again && o->only_report)
            argp_error(state, "--again would leave no rows for --report");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_experiment(int argc, char **argv)
{
    static const struct argp argp = {
        .options = experiment_options,
        .parser = parse_experiment,
        .args_doc = "FILE.json",
        .doc = "Measures each point of a grid of kernels, sizes, routings, schedules, instruction sets and "
               "threads beside the "
               "compiler's own choices, or asks the models of machines; keeps rows as they are made, goes on "
               "after a kill, "
               "and writes a report.",
    };
    ExperimentOptions o = {.progress = isatty(STDERR_FILENO)};
    cli_parse(&argp, argc, argv, &o);
    o.stop =
        command_stop("\nmoec: this race to its end, then the report; Ctrl-C again ends at once; the same "
                     "command goes on\n");
    return experiment(&o, stdout) ? DRIVER_ERROR : DRIVER_OK;
}
