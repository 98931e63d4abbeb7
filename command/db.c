/* `moec db`: the records of tuned schedules. */
#include "command/command.h"
#include "tuner/tuner.h"

#include <string.h>

enum { KEY_DB = COMMAND_LAST, KEY_ALL, KEY_BUILDS, KEY_OLDER };

static const struct argp_option db_options[] = {
    {"db", KEY_DB, "FILE", 0, "The database; default: $MOE_TUNED, or beside the compile cache", 0},
    {"all", KEY_ALL, NULL, 0, "ls: also what was only tried", 0},
    {"other-builds", KEY_BUILDS, NULL, 0, "prune: what other builds of the compiler made", 0},
    {"older", KEY_OLDER, "DAYS", 0, "prune: what was made longer ago", 0},
    {"output", 'o', "FILE", 0, "plot: FILE.svg or .png by gnuplot, or .gp: the script for it", 0},
    {0}};

typedef struct DbCommand {
    DbOptions o;
    const char *what;
} DbCommand;

static void take_argument(DbCommand *c, char *arg, struct argp_state *state)
{
    if (!c->what)
        c->what = arg;
    else if (strcmp(c->what, "show") == 0 && !c->o.id)
        c->o.id = command_number(state, "show", arg, 1, 0x7fffffffffffffff);
    else
        argp_error(state, "'%s' is too much", arg);
}

static void check(const DbCommand *c, struct argp_state *state)
{
    static const char *const words[] = {"ls", "show", "prune", "plot"};
    int known = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known |= c->what && strcmp(c->what, words[i]) == 0;
    if (!known)
        argp_error(state, "say what: ls, show ID, prune or plot");
    if (strcmp(c->what, "show") == 0 && !c->o.id)
        argp_error(state, "show takes the number of a record");
    if (strcmp(c->what, "prune") == 0 && !c->o.other_builds && !(c->o.older > 0))
        argp_error(state, "prune takes --other-builds, --older or both");
    if (strcmp(c->what, "plot") == 0 && !c->o.output)
        argp_error(state, "plot takes -o FILE");
    command_needs(state, c->o.all, "--all", strcmp(c->what, "ls") == 0, "ls");
    command_needs(state, c->o.other_builds, "--other-builds", strcmp(c->what, "prune") == 0, "prune");
    command_needs(state, c->o.older > 0, "--older", strcmp(c->what, "prune") == 0, "prune");
    command_needs(state, c->o.output != NULL, "-o", strcmp(c->what, "plot") == 0, "plot");
}

static error_t parse_db(int key, char *arg, struct argp_state *state)
{
    DbCommand *c = state->input;
    switch (key) {
    case KEY_DB: c->o.path = arg; return 0;
    case KEY_ALL: c->o.all = 1; return 0;
    case KEY_BUILDS: c->o.other_builds = 1; return 0;
    case KEY_OLDER: c->o.older = 86400.0 * (double)command_number(state, "--older", arg, 1, 100000); return 0;
    case 'o': c->o.output = arg; return 0;
    case ARGP_KEY_ARG: take_argument(c, arg, state); return 0;
    case ARGP_KEY_END: check(c, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_db(int argc, char **argv)
{
    static const struct argp argp = {
        .options = db_options,
        .parser = parse_db,
        .args_doc = "ls\nshow ID\nprune\nplot",
        .doc = "The records that `moec tune` makes: lists them, shows one, removes old ones, or draws what "
               "was predicted "
               "and measured.",
    };
    DbCommand c = {.what = NULL};
    cli_parse(&argp, argc, argv, &c);
    int failed = strcmp(c.what, "ls") == 0     ? db_list(&c.o, stdout)
                 : strcmp(c.what, "show") == 0 ? db_show(&c.o, stdout)
                 : strcmp(c.what, "plot") == 0 ? db_plot(&c.o)
                                               : db_prune(&c.o, stdout);
    return failed ? DRIVER_ERROR : DRIVER_OK;
}
