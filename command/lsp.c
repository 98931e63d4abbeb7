/* `moec lsp`: the language server on the standard streams. */
#include "command/command.h"
#include "lsp/lsp.h"

#include <unistd.h>

enum { KEY_STDIO = COMMAND_LAST };

/* What editors add to the command of any server. */
static const struct argp_option lsp_options[] = {
    {"stdio", KEY_STDIO, NULL, 0, "Over the standard streams, which is the only way there is", 0}, {0}};

static error_t parse_lsp(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is too much", arg);
    return key == KEY_STDIO || key == ARGP_KEY_ARG || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

int command_lsp(int argc, char **argv)
{
    static const struct argp argp = {
        .options = lsp_options,
        .parser = parse_lsp,
        .doc =
            "A language server for editors: mistakes and their mending, types and shapes, definitions, uses, "
            "formatting. Speaks the "
            "Language Server Protocol on its standard streams; editors/README.md says how editors start it.",
    };
    cli_parse(&argp, argc, argv, NULL);
    return lsp_serve(STDIN_FILENO, STDOUT_FILENO);
}
