#include "trainer/config.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_FIRST = 0x100,
    KEY_DATA = KEY_FIRST,
    KEY_GROUP,
#define GROUP(title)
#define INT(field, ...) KEY_##field,
#define REAL(field, ...) KEY_##field,
#define TEXT(field, ...) KEY_##field,
#define FLAG(field, ...) KEY_##field,
#include "trainer/config.def"
};

#define STR_(x) #x
#define STR(x) STR_(x)

static const struct argp_option options[] = {
    {"data", KEY_DATA, "PATH", 0, "a file or folder to learn from, may be repeated (default: /usr/include)",
     0},
#define GROUP(title) {0, 0, 0, 0, title ":", 0},
#define INT(field, option, value, least, most, arg, doc) \
    {option, KEY_##field, arg, 0, doc " (" #value ")", 0},
#define REAL(field, option, value, least, most, arg, doc) \
    {option, KEY_##field, arg, 0, doc " (" #value ")", 0},
#define TEXT(field, option, value, arg, doc) {option, KEY_##field, arg, 0, doc, 0},
#define FLAG(field, option, doc) {option, KEY_##field, 0, 0, doc, 0},
#include "trainer/config.def"
    {0},
};

static int64_t int_value(struct argp_state *s, const char *option, const char *text, int64_t least,
                         int64_t most)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < least || v > most)
        argp_failure(s, CLI_USAGE, 0, "--%s takes a whole number from %lld to %lld, not `%s`", option,
                     (long long)least, (long long)most, text);
    return v;
}

static double real_value(struct argp_state *s, const char *option, const char *text, double least,
                         double most)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        argp_failure(s, CLI_USAGE, 0, "--%s takes a number from %g to %g, not `%s`", option, least, most,
                     text);
    return v;
}

static void add_data(Config *c, char *path)
{
    char **grown = realloc(c->data, (c->ndata + 1) * sizeof *grown);
    if (!grown) {
        fprintf(stderr, "moe-train: out of memory\n");
        exit(1);
    }
    c->data = grown;
    c->data[c->ndata++] = path;
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    Config *c = s->input;
    switch (key) {
    case KEY_DATA: add_data(c, arg); return 0;
#define GROUP(title)
#define INT(field, option, value, least, most, argument, doc) \
    case KEY_##field:                                         \
        c->field = int_value(s, option, arg, least, most);    \
        return 0;
#define REAL(field, option, value, least, most, argument, doc) \
    case KEY_##field:                                          \
        c->field = real_value(s, option, arg, least, most);    \
        return 0;
#define TEXT(field, option, value, argument, doc) \
    case KEY_##field:                             \
        c->field = arg;                           \
        return 0;
#define FLAG(field, option, doc) \
    case KEY_##field:            \
        c->field = 1;            \
        return 0;
#include "trainer/config.def"
    case ARGP_KEY_ARG: argp_error(s, "`%s` is not an option; data is given with --data", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Rules between options. Returns the broken one, or NULL. */
static const char *broken_rule(const Config *c)
{
    if (!c->model && c->width % (2 * c->heads))
        return "--width must be a multiple of twice --heads: rotary positions turn pairs";
    if (!c->model && c->top_k > c->experts)
        return "--top-k is larger than --experts";
    if (c->batch % c->micro_batches)
        return "--micro-batches must divide --batch";
    if (c->batch * c->sequence > INT32_MAX / 64)
        return "--batch times --sequence is beyond 33554431";
    if (!c->prompt[0])
        return "--prompt must not be empty";
    return NULL;
}

Config config_read(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse_option,
        0,
        "Trains a decoder-only mixture-of-experts language model on bytes. Every computation on tensors is a "
        "kernel written in .moe and compiled when the program starts. Other commands: `moe-train eval`, "
        "`moe-train generate` and "
        "`moe-train plan`, each with a --help of its own.\v"
        "The number in brackets is the default.",
        0,
        0,
        0};
    Config c = {
#define GROUP(title)
#define INT(field, option, value, ...) .field = value,
#define REAL(field, option, value, ...) .field = value,
#define TEXT(field, option, value, ...) .field = value,
#define FLAG(field, option, doc)
#include "trainer/config.def"
    };
    cli_parse(&argp, argc, argv, &c);
    const char *rule = broken_rule(&c);
    if (rule) {
        fprintf(stderr, "moe-train: %s\n", rule);
        exit(CLI_USAGE);
    }
    static char system_headers[] = "/usr/include";
    if (!c.ndata)
        add_data(&c, system_headers);
    return c;
}

void config_free(Config *c) { free(c->data); }

void config_make_tiny(Config *c)
{
    c->layers = 1, c->width = 32, c->heads = 2, c->experts = 4, c->top_k = 2;
    c->expert_width = 16, c->shared_width = 16, c->sequence = 16;
    c->batch = 2, c->micro_batches = 2, c->steps = 10, c->warmup = 3;
    c->validation_batches = 1;
}

void print_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < ' ' || *p >= 127)
            fprintf(out, "\\u%04x", *p);
        else
            fputc(*p, out);
    }
    fputc('"', out);
}

void config_json(const Config *c, FILE *out)
{
    fprintf(out, "{\"data\": [");
    for (size_t i = 0; i < c->ndata; i++) {
        fputs(i ? ", " : "", out);
        print_json_text(out, c->data[i]);
    }
    fputc(']', out);
#define GROUP(title)
#define INT(field, option, ...) fprintf(out, ", \"%s\": %lld", option, (long long)c->field);
#define REAL(field, option, ...) fprintf(out, ", \"%s\": %.9g", option, c->field);
#define TEXT(field, option, ...)        \
    fprintf(out, ", \"%s\": ", option); \
    if (c->field)                       \
        print_json_text(out, c->field); \
    else                                \
        fputs("null", out);
#define FLAG(field, option, doc) fprintf(out, ", \"%s\": %s", option, c->field ? "true" : "false");
#include "trainer/config.def"
    fputc('}', out);
}
