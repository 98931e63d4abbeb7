/* `moec fmt FILE...`: .moe files in their usual layout. */
#include "command/command.h"

#include "frontend/frontend.h"

#include <stdio.h>
#include <string.h>

typedef struct FmtCommand {
    int check;
    char **paths;
    int npaths;
    /* of the file at hand */
    const char *path;
    int differs;
} FmtCommand;

enum { KEY_CHECK = COMMAND_LAST };

static const struct argp_option fmt_options[] = {
    {"check", KEY_CHECK, NULL, 0,
     "Write nothing: print the names of files that would change, and end with 1 if there are any", 0},
    {0}};

static const char *write_file(const FmtCommand *f, Bytes text, Arena *a)
{
    Output out = {.arena = a};
    const char *error = output_add(&out, f->path, text, 0);
    return error ? error : output_commit(&out);
}

static int format_file(Compilation *c, void *user)
{
    FmtCommand *f = user;
    const char *text =
        frontend_format(ir_module(c->arena, &c->diags, c->path), c->path, c->text.at, c->text.len);
    if (!text)
        return DRIVER_ERROR;
    Bytes bytes = {text, strlen(text)};
    int standard = strcmp(f->path, "-") == 0;
    f->differs = bytes.len != c->text.len || memcmp(bytes.at, c->text.at, bytes.len) != 0;
    if (f->check || (!f->differs && !standard))
        return DRIVER_OK;
    const char *error = write_file(f, bytes, c->arena);
    return error ? compile_fail(c, DIAG_driver_file, error) : DRIVER_OK;
}

static int format_path(FmtCommand *f)
{
    CompileOptions options = compile_defaults;
    options.color = command_color();
    Compilation *c = compile_new(&options);
    if (!c)
        return command_error("out of memory");
    f->differs = 0;
    int status = compile_open(c, f->path);
    if (!status)
        status = compile_guard(c, format_file, f);
    command_tell(c, status, 0);
    compile_free(c);
    if (f->check && f->differs)
        printf("%s\n", f->path);
    return status ? status : f->check && f->differs ? DRIVER_ERROR : DRIVER_OK;
}

static error_t parse_fmt(int key, char *arg, struct argp_state *state)
{
    FmtCommand *f = state->input;
    (void)arg;
    switch (key) {
    case KEY_CHECK: f->check = 1; return 0;
    case ARGP_KEY_ARGS:
        f->paths = state->argv + state->next;
        f->npaths = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "no input file"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_fmt(int argc, char **argv)
{
    static const struct argp argp = {
        .options = fmt_options,
        .parser = parse_fmt,
        .args_doc = "FILE.moe...",
        .doc = "Writes files anew in their usual layout: blanks, indents, columns of `=` and of comments. "
               "Lines stay lines, and "
               "no word changes. '-' formats the standard input to the standard output.",
    };
    FmtCommand f = {.npaths = 0};
    int worst = DRIVER_OK;
    cli_parse(&argp, argc, argv, &f);
    for (int i = 0; i < f.npaths; i++) {
        f.path = f.paths[i];
        int status = format_path(&f);
        worst = status > worst ? status : worst;
    }
    return worst;
}
