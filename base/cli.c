#include "base/cli.h"

#include "base/guess.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of this process. */
static const Cli *program;
static const struct argp
    *parsed; /* state->root_argp is not what the command gave: argp puts its own around it */

/* ---- manual pages ---- */

/* roff takes a backslash, a minus sign, and a dot or quote at a line's beginning for its own. */
static void print_roff(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || text[i - 1] == '\n') && (text[i] == '.' || text[i] == '\''))
            printf("\\&");
        if (text[i] == '\\')
            printf("\\e");
        else if (text[i] == '-')
            printf("\\-");
        else
            putchar(text[i]);
    }
}

/* Lines that begin with a space stand as they are. */
static void print_text(const char *text)
{
    for (size_t n; *text; text += n, text += *text == '\n') {
        n = strcspn(text, "\n");
        if (*text == ' ')
            printf(".br\n");
        print_roff(text, n);
        putchar('\n');
    }
}

static int is_short(const struct argp_option *o) { return o->key > ' ' && o->key < 127; }

static void print_argument(const struct argp_option *o, const char *before)
{
    const int may_lack = o->flags & OPTION_ARG_OPTIONAL;
    if (!o->arg)
        return;
    printf(may_lack ? "[%s\\fI" : "%s\\fI", before);
    print_roff(o->arg, strlen(o->arg));
    printf(may_lack ? "\\fR]" : "\\fR");
}

static void print_option(const struct argp_option *o)
{
    if (!o->name && !o->key) { /* a heading */
        if (o->doc) {
            printf(".SS ");
            print_roff(o->doc, strcspn(o->doc, ":"));
            putchar('\n');
        }
        return;
    }
    printf(".TP\n");
    if (is_short(o)) {
        printf("\\fB\\-%c\\fR", o->key);
        if (!o->name)
            print_argument(o, " ");
    }
    if (o->name) {
        printf(is_short(o) ? ", \\fB\\-\\-" : "\\fB\\-\\-");
        print_roff(o->name, strlen(o->name));
        printf("\\fR");
        print_argument(o, "=");
    }
    putchar('\n');
    print_text(o->doc ? o->doc : "");
}

static int is_shown(const struct argp_option *o) { return !(o->flags & (OPTION_HIDDEN | OPTION_ALIAS)); }

static int is_last(const struct argp_option *o) { return !o->name && !o->key && !o->doc && !o->group; }

static void print_page(const struct argp *argp, const char *name)
{
    const char *doc = argp->doc ? argp->doc : "", *more = strchr(doc, '\v');
    const size_t first = strcspn(doc, ".\v");
    printf(".TH \"");
    for (const char *c = name; *c; c++)
        putchar(*c == ' ' ? '-' : *c);
    printf("\" 1 \"\" \"%s %s\"\n.SH NAME\n%s \\- ", program->name, program->version, name);
    print_roff(doc, first);
    printf("\n.SH SYNOPSIS\n");
    for (const char *at = argp->args_doc ? argp->args_doc : ""; at; at = strchr(at, '\n'), at += at != NULL) {
        printf(".B %s\n[OPTION...] ", name);
        print_roff(at, strcspn(at, "\n"));
        printf("\n.br\n");
    }
    printf(".SH DESCRIPTION\n");
    print_roff(doc, strcspn(doc, "\v"));
    printf("\n.SH OPTIONS\n");
    for (const struct argp_option *o = argp->options; o && !is_last(o); o++)
        if (is_shown(o))
            print_option(o);
    if (more) {
        printf(".SH NOTES\n");
        print_text(more + 1);
    }
}

/* ---- completion ---- */

static void print_names(const struct argp *argp, int with_commands)
{
    for (size_t i = 0; with_commands && i < program->ncommands; i++)
        printf("%s\n", program->commands[i].name);
    for (const struct argp_option *o = argp->options; o && !is_last(o); o++)
        if (is_shown(o) && o->name)
            printf(o->arg && !(o->flags & OPTION_ARG_OPTIONAL) ? "--%s=\n" : "--%s\n", o->name);
    printf("--help\n");
}

/* ---- one command ---- */

enum { KEY_PAGE = 0x70000, KEY_NAMES };

static const struct argp_option common_options[] = {{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0},
                                                    {"man-page", KEY_PAGE, NULL, OPTION_HIDDEN, NULL, 0},
                                                    {"option-names", KEY_NAMES, NULL, OPTION_HIDDEN, NULL, 0},
                                                    {0}};

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key == 'h') {
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
    } else if (key == KEY_PAGE) {
        print_page(parsed, state->name);
        exit(CLI_OK);
    } else if (key == KEY_NAMES) {
        print_names(parsed, strcmp(state->name, program->name) == 0);
        exit(CLI_OK);
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    static const struct argp common = {.options = common_options, .parser = parse_common};
    const struct argp_child children[] = {{&common, 0, NULL, 0}, {0}};
    struct argp own = *argp;
    own.children = children;
    parsed = argp;
    argp_parse(&own, argc, argv, 0, NULL, input);
}

/* ---- all of them ---- */

/* A file that is opened must not become a standard stream that was closed: writes to it would go there. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
            _exit(CLI_ERROR);
}

/* Also for what argp prints and exits after: a full or closed standard output is an error. */
static void check_stdout(void)
{
    const int failed = ferror(stdout);
    if ((fflush(stdout) != 0 || failed) && errno != EPIPE) {
        fprintf(stderr, "%s: standard output cannot be written: %s\n", program->name, strerror(errno));
        _exit(CLI_ERROR);
    }
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "%s %s\n", program->name, program->version);
}

static const CliCommand *find_command(const char *name)
{
    for (size_t i = 0; i < program->ncommands; i++)
        if (strcmp(program->commands[i].name, name) == 0)
            return &program->commands[i];
    return NULL;
}

static int refuse_word(const char *word)
{
    Guess g = guess_new(word);
    for (size_t i = 0; i < program->ncommands; i++)
        guess_try(&g, program->commands[i].name);
    fprintf(stderr, "%s: there is no command%s '%s'", program->name, program->takes_files ? " or file" : "",
            word);
    if (g.best)
        fprintf(stderr, "; did you mean `%s %s`?\n", program->name, g.best);
    else
        fprintf(stderr, "; `%s help` lists the commands\n", program->name);
    return CLI_USAGE;
}

/* What ends like a file was meant as one: whoever opens it says what is wrong. */
static int may_be_file(const char *word)
{
    return program->takes_files && (strpbrk(word, "./") || strcmp(word, "-") == 0 || access(word, F_OK) == 0);
}

static int run_command(const CliCommand *c, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "%s %s", program->name, c->name);
    argv[0] = name;
    return c->run(argc, argv);
}

static int help(const char *command)
{
    static char option[] = "--help", *words[] = {NULL, option, NULL};
    char name[64];
    const CliCommand *c = command ? find_command(command) : NULL;
    if (command && !c)
        return refuse_word(command);
    snprintf(name, sizeof name, "%s", program->name);
    words[0] = name;
    return c ? run_command(c, 2, words) : program->otherwise(2, words);
}

int cli_main(const Cli *p, int argc, char **argv)
{
    program = p;
    hold_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a limit on file size is an error of writing, not the end */
    atexit(check_stdout);
    argp_err_exit_status = CLI_USAGE;
    argp_program_version_hook = print_version;
    char *word = argc > 1 && *argv[1] != '-' ? argv[1] : NULL;
    const CliCommand *c = word ? find_command(word) : NULL;
    if (c)
        return run_command(c, argc - 1, argv + 1);
    if (word && strcmp(word, "help") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    if (word && !may_be_file(word))
        return refuse_word(word);
    char name[32];
    snprintf(name, sizeof name, "%s", p->name);
    if (argc > 0)
        argv[0] = name;
    return p->otherwise(argc, argv);
}
