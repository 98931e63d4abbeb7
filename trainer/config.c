/* Options from the command line; config_json.c has those of files. */
#include "trainer/config_table.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/command.h"
#include "trainer/complain.h"

enum { KEY_FIRST = 0x100 }; /* the key of option o is KEY_FIRST + o */

#define ROW(field, option, kind_, resumed_, ...) \
    {.name = option, .kind = kind_, .resumed = resumed_, .at = offsetof(Config, field), __VA_ARGS__},

const OptionRow option_table[OPTION_data] = {
#define GROUP(title)
#define INT(field, option, value, least_, most_, arg, resumed, doc) \
    ROW(field, option, OPTION_INT, resumed, .least = least_, .most = most_)
#define REAL(field, option, value, low_, high_, arg, resumed, doc) \
    ROW(field, option, OPTION_REAL, resumed, .low = low_, .high = high_)
#define TEXT(field, option, value, arg, resumed, doc) ROW(field, option, OPTION_TEXT, resumed)
#define MAYBE(field, option, arg, resumed, doc) ROW(field, option, OPTION_MAYBE, resumed)
#define FLAG(field, option, resumed, doc) ROW(field, option, OPTION_FLAG, resumed)
#include "trainer/config.def"
};

#define OPTION(field, option, arg, flags, doc) {option, KEY_FIRST + OPTION_##field, arg, flags, doc, 0},

static const struct argp_option options[] = {
    OPTION(data, "data", "PATH", 0,
           "a file or folder of text to learn from, or PREFIX of files of tokens PREFIX.bin and PREFIX.idx; "
           "may be repeated (default: /usr/include)")
#define GROUP(title) {0, 0, 0, 0, title ":", 0},
#define INT(field, option, value, least, most, arg, resumed, doc) \
    OPTION(field, option, arg, 0, doc " (" #value ")")
#define REAL(field, option, value, least, most, arg, resumed, doc) \
    OPTION(field, option, arg, 0, doc " (" #value ")")
#define TEXT(field, option, value, arg, resumed, doc) OPTION(field, option, arg, 0, doc)
#define MAYBE(field, option, arg, resumed, doc) OPTION(field, option, arg, OPTION_ARG_OPTIONAL, doc)
#define FLAG(field, option, resumed, doc) OPTION(field, option, 0, 0, doc)
#include "trainer/config.def"
        {0},
};

/* ---- values ---- */

const char *option_range(Arena *a, OptionId o, double value)
{
    const OptionRow *row = &option_table[o];
    if (row->kind == OPTION_INT && !(value >= (double)row->least && value <= (double)row->most))
        return arena_printf(a, "a whole number from %lld to %lld", (long long)row->least,
                            (long long)row->most);
    if (row->kind == OPTION_REAL && !(value >= row->low && value <= row->high))
        return arena_printf(a, "a number from %.9g to %.9g", row->low, row->high);
    return NULL;
}

static void refuse_value(Config *c, struct argp_state *s, OptionId o, const char *text)
{
    argp_failure(s, CLI_USAGE, 0, "--%s takes %s, not `%s`", option_table[o].name,
                 option_range(c->arena, o, NAN), text);
}

static void read_int(Config *c, struct argp_state *s, OptionId o, const char *text)
{
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < option_table[o].least || v > option_table[o].most)
        refuse_value(c, s, o, text);
    *(int64_t *)option_at(c, o) = v;
}

static void read_real(Config *c, struct argp_state *s, OptionId o, const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end || option_range(c->arena, o, v))
        refuse_value(c, s, o, text);
    *(double *)option_at(c, o) = v;
}

static void read_value(Config *c, struct argp_state *s, OptionId o, const char *text)
{
    switch (option_table[o].kind) {
    case OPTION_INT: read_int(c, s, o, text); return;
    case OPTION_REAL: read_real(c, s, o, text); return;
    case OPTION_TEXT: *(const char **)option_at(c, o) = text; return;
    case OPTION_MAYBE: *(const char **)option_at(c, o) = text ? text : ""; return;
    case OPTION_FLAG: *(int *)option_at(c, o) = 1; return;
    }
}

/* A word that is no option is the text of `--resume DIR`, which argp only knows as --resume=DIR. */
static void read_word(Config *c, struct argp_state *s, const char *word)
{
    if (c->resume && !*c->resume)
        c->resume = word;
    else
        argp_error(s, "`%s` is not an option; data is given with --data", word);
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    Config *c = s->input;
    if (key == ARGP_KEY_ARG) {
        read_word(c, s, arg);
        return 0;
    }
    if (key < KEY_FIRST || key >= KEY_FIRST + OPTION_COUNT)
        return ARGP_ERR_UNKNOWN;
    const OptionId o = (OptionId)(key - KEY_FIRST);
    c->source[o] = FROM_COMMAND_LINE;
    if (o == OPTION_data)
        vec_push(c->arena, &c->data, arg);
    else
        read_value(c, s, o, arg);
    return 0;
}

/* ---- all of them ---- */

/* An option of the command line that has no effect without another one. */
static const struct {
    OptionId option, needs;
} needs_of[] = {{OPTION_keep, OPTION_save},         {OPTION_file_limit, OPTION_save},
                {OPTION_swap_folder, OPTION_swap},  {OPTION_trace_after, OPTION_trace},
                {OPTION_trace_steps, OPTION_trace}, {OPTION_tune_seconds, OPTION_tune}};

static int is_given(const Config *c, OptionId o)
{
    const void *at = option_value(c, o);
    return option_table[o].kind == OPTION_FLAG ? *(const int *)at : *(const char *const *)at != NULL;
}

static const char *missing_need(const Config *c)
{
    for (size_t i = 0; i < sizeof needs_of / sizeof *needs_of; i++)
        if (c->source[needs_of[i].option] == FROM_COMMAND_LINE && !is_given(c, needs_of[i].needs))
            return arena_printf(c->arena, "--%s has no effect without --%s",
                                option_table[needs_of[i].option].name, option_table[needs_of[i].needs].name);
    return NULL;
}

int option_is_of_model(OptionId o)
{
    return (o > OPTION_model && o <= OPTION_rotary_base && o != OPTION_sequence) || o == OPTION_balance;
}

static int is_same(const Config *a, const Config *b, OptionId o)
{
    return option_table[o].kind == OPTION_INT
               ? *(const int64_t *)option_value(a, o) == *(const int64_t *)option_value(b, o)
               : !memcmp(option_value(a, o), option_value(b, o), sizeof(double));
}

/* A file may say what is anyway so: that of a checkpoint has all options. */
static int is_asked(const Config *c, const Config *usual, OptionId o)
{
    return c->source[o] == FROM_COMMAND_LINE || (c->source[o] == FROM_FILE && !is_same(c, usual, o));
}

/* The first option of the model that somebody gave; OPTION_data: there is none. */
static OptionId given_of_model(const Config *c)
{
    Config usual = config_default();
    OptionId o = 0;
    while (o < OPTION_data && !(option_is_of_model(o) && is_asked(c, &usual, o)))
        o++;
    config_free(&usual);
    return o;
}

static const char *source_file(const Config *c, OptionId o)
{
    return c->source[o] == FROM_FILE ? c->config : c->source[o] == FROM_CHECKPOINT ? c->checkpoint : NULL;
}

static const char *unused_beside_model(const Config *c)
{
    const char *file = source_file(c, OPTION_model);
    const OptionId o = c->model ? given_of_model(c) : OPTION_data;
    return o == OPTION_data
               ? NULL
               : arena_printf(c->arena, "--%s has no effect beside --model%s%s: its config.json says that",
                              option_table[o].name, file ? " of " : "", file ? file : "");
}

static int is_utf8(const char *text)
{
    json_t *copy = json_string(text);
    json_decref(copy);
    return copy != NULL;
}

/* A text that JSON cannot hold would be missing from the log, and from the checkpoint that a run goes on from. */
static const char *odd_text(const Config *c)
{
    static const char *const rule = "--%s is not UTF-8, and --log and --save write all options as JSON";
    for (OptionId o = 0; o < OPTION_data; o++)
        if ((option_table[o].kind == OPTION_TEXT || option_table[o].kind == OPTION_MAYBE) && is_given(c, o) &&
            !is_utf8(*(const char *const *)option_value(c, o)))
            return arena_printf(c->arena, rule, option_table[o].name);
    for (uint32_t i = 0; i < c->data.len; i++)
        if (!is_utf8(c->data.at[i]))
            return arena_printf(c->arena, rule, "data");
    return NULL;
}

static const char *broken_rule(const Config *c)
{
    const char *unused = unused_beside_model(c), *odd = c->log || c->save ? odd_text(c) : NULL;
    if (unused || odd)
        return unused ? unused : odd;
    if (!c->model && c->width % (2 * c->heads))
        return "--width must be a multiple of twice --heads: rotary positions turn pairs";
    if (!c->model && c->top_k > c->experts)
        return "--top-k is larger than --experts";
    if (c->batch % c->micro_batches)
        return "--micro-batches must divide --batch";
    if (c->dp > 1 && c->batch % (c->micro_batches * c->dp))
        return "--dp times --micro-batches must divide --batch";
    if (row_factor_rule(c->row_factor))
        return row_factor_rule(c->row_factor);
    if (c->spike > 0 && c->spike < 1)
        return "--spike must be 0 or at least 1: below it a usual norm is a spike";
    if (c->batch * c->sequence > INT32_MAX / 64)
        return "--batch times --sequence is beyond 33554431";
    if (!c->prompt[0])
        return "--prompt must not be empty";
    if (strcmp(c->on_spike, "stop") && strcmp(c->on_spike, "skip"))
        return "--on-spike takes `stop` or `skip`";
    if (c->save_every && !c->save)
        return "--save-every needs the folder of --save";
    if (c->load_every && !c->log)
        return "--load-every needs the file of --log";
    if (c->choices && c->choices_from && !strcmp(c->choices, c->choices_from))
        return "--choices and --choices-from are one file";
    if (c->resume && !*c->resume && !c->save)
        return "--resume without a folder needs that of --save";
    return missing_need(c);
}

Config config_default(void)
{
    Config c = {
#define GROUP(title)
#define INT(field, option, value, ...) .field = value,
#define REAL(field, option, value, ...) .field = value,
#define TEXT(field, option, value, ...) .field = value,
#define MAYBE(...)
#define FLAG(...)
#include "trainer/config.def"
        .arena = arena_new(),
    };
    if (!c.arena)
        exit(complain("out of memory"));
    return c;
}

Config config_read(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse_option,
        0,
        "Trains a decoder-only mixture-of-experts language model on bytes or tokens. Every computation on "
        "tensors is a "
        "kernel written in .moe and compiled when the program starts. Other commands: `moe-train eval`, "
        "`generate`, `analyse`, `plot` and `plan`, each with a --help of its own.\v"
        "The number in brackets is the default.",
        0,
        0,
        0};
    Config c = config_default();
    cli_parse(&argp, argc, argv, &c);
    const char *error = c.config ? config_apply(&c, c.config, FROM_FILE) : NULL;
    if (error)
        exit(complain_alike("%s", error));
    return c;
}

/* The whole numbers that a rule is about, and where they are from: "; --top-k is 9 in c.json, --experts is 4". */
static const char *values_of(const Config *c, const char *rule)
{
    Text t = {.arena = c->arena};
    for (OptionId o = 0; o < OPTION_data; o++) {
        const char *name = arena_printf(c->arena, "--%s", option_table[o].name), *at = strstr(rule, name);
        const size_t len = strlen(name);
        while (at && (at[len] == '-' || isalnum((unsigned char)at[len]))) /* the name goes on */
            at = strstr(at + len, name);
        if (!at || option_table[o].kind != OPTION_INT)
            continue;
        text_add(&t, "%s%s is %lld", t.len ? ", " : "; ", name,
                 (long long)*(const int64_t *)option_value(c, o));
        if (source_file(c, o))
            text_add(&t, " in %s", source_file(c, o));
    }
    return text_string(&t);
}

void config_finish(Config *c)
{
    const char *rule = broken_rule(c);
    if (rule) {
        complain_alike("%s%s", rule, values_of(c, rule));
        exit(CLI_USAGE);
    }
    if (c->source[OPTION_warmup] >= FROM_FILE && c->warmup > c->steps)
        complain_once(
            "warning: --warmup %lld is beyond --steps %lld: the learning rate only comes up to %.3g of "
            "--lr %g",
            (long long)c->warmup, (long long)c->steps, c->lr * (double)c->steps / (double)c->warmup, c->lr);
    if (!c->data.len)
        vec_push(c->arena, &c->data, "/usr/include");
}

void config_free(Config *c) { arena_free(c->arena); }

void config_make_tiny(Config *c)
{
    c->layers = 1, c->width = 32, c->heads = 2, c->experts = 4, c->top_k = 2;
    c->expert_width = 16, c->shared_width = 16, c->sequence = 16;
    c->batch = 2, c->micro_batches = 2, c->steps = 10, c->warmup = 3;
    c->validation_batches = 1;
}
