/* The rows of config.def as data, and questions about them. */
#include "model/config_own.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRED NAN

const ArchRow config_arch_table[ARCH_COUNT] = {
#define ARCH(id, class, doc) {#id, class, doc},
#include "model/config.def"
};

#define ROW(kind, field, when, name, words, null, least, most, fallback, doc) \
    {kind, WHEN_##when, #field, name, doc, words, offsetof(ModelConfig, field), null, least, most, fallback},
const ConfigRow config_table[] = {
#define INT(field, when, name, least, most, fallback, doc) \
    ROW(CONFIG_INT, field, when, name, NULL, 0, least, most, fallback, doc)
#define SOME(field, when, name, most, doc) ROW(CONFIG_INT, field, when, name, NULL, 1, 0, most, 0, doc)
#define REAL(field, when, name, least, most, fallback, doc) \
    ROW(CONFIG_REAL, field, when, name, NULL, 0, least, most, fallback, doc)
#define FLAG(field, when, name, fallback, doc) \
    ROW(CONFIG_FLAG, field, when, name, NULL, 0, 0, 1, fallback, doc)
#define CHOICE(field, Type, when, name, words, fallback, doc) \
    ROW(CONFIG_CHOICE, field, when, name, words, 0, 0, 255, fallback, doc)
#include "model/config.def"
};
const uint32_t config_count = sizeof config_table / sizeof *config_table;

/* The number of each row. */
enum {
#define INT(field, ...) ROW_##field,
#define REAL(field, ...) ROW_##field,
#define FLAG(field, ...) ROW_##field,
#define CHOICE(field, ...) ROW_##field,
#include "model/config.def"
};

enum { ARCH_any = ARCH_COUNT };

static const struct {
    uint32_t row;
    int arch;
    const char *name;
} alias_table[] = {
#define NAME(field, arch, name) {ROW_##field, ARCH_##arch, name},
#include "model/config.def"
};
enum { ALIASES = sizeof alias_table / sizeof *alias_table };

static const struct {
    uint32_t row;
    int arch;
    double value;
} default_table[] = {
#define DEFAULT(arch, field, value) {ROW_##field, ARCH_##arch, value},
#include "model/config.def"
};
enum { DEFAULTS = sizeof default_table / sizeof *default_table };

/* Names that are read by no row. */
static const char *const other_names[] = {
#define FIXED(name, value, rule) name,
#define IGNORED(name) name,
#include "model/config.def"
};

/* ---- names ---- */

static void add_aliases(ConfigAliases *out, int arch, const ConfigRow *row)
{
    for (uint32_t i = 0; i < ALIASES; i++)
        if (alias_table[i].arch == arch && &config_table[alias_table[i].row] == row &&
            out->count < CONFIG_ALIASES)
            out->at[out->count++] = alias_table[i].name;
}

ConfigAliases config_aliases(ModelArch arch, const ConfigRow *row)
{
    ConfigAliases out = {0};
    add_aliases(&out, (int)arch, row);
    if (out.count < CONFIG_ALIASES)
        out.at[out.count++] = row->name;
    add_aliases(&out, ARCH_any, row);
    return out;
}

const char *config_name(ModelArch arch, const ConfigRow *row) { return config_aliases(arch, row).at[0]; }

int config_is_known(const char *name)
{
    for (uint32_t i = 0; i < config_count; i++)
        if (strcmp(config_table[i].name, name) == 0)
            return 1;
    for (uint32_t i = 0; i < ALIASES; i++)
        if (strcmp(alias_table[i].name, name) == 0)
            return 1;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(other_names[i], name) == 0)
            return 1;
    return 0;
}

/* ---- values ---- */

double config_fallback(ModelArch arch, const ConfigRow *row)
{
    for (uint32_t i = 0; i < DEFAULTS; i++)
        if (default_table[i].arch == (int)arch && &config_table[default_table[i].row] == row)
            return default_table[i].value;
    return row->fallback;
}

int config_applies(const ModelConfig *c, const ConfigRow *row)
{
    switch (row->when) {
    case WHEN_ALWAYS: return 1;
    case WHEN_MLA: return model_is_latent(c);
    case WHEN_GQA: return !model_is_latent(c);
    }
    return 0;
}

void config_set(ModelConfig *c, const ConfigRow *row, double value)
{
    char *at = (char *)c + row->at;
    int64_t whole = row->kind == CONFIG_REAL ? 0 : (int64_t)value;
    int word = (int)whole;
    switch (row->kind) {
    case CONFIG_INT: memcpy(at, &whole, sizeof whole); break;
    case CONFIG_REAL: memcpy(at, &value, sizeof value); break;
    case CONFIG_FLAG:
    case CONFIG_CHOICE: memcpy(at, &word, sizeof word); break;
    }
}

/* An enum is stored as an int. */
#define CHOICE(field, Type, ...) _Static_assert(sizeof(Type) == sizeof(int), "");
#include "model/config.def"

double model_config_value(const ModelConfig *c, const ConfigRow *row)
{
    const char *at = (const char *)c + row->at;
    int64_t whole;
    double real;
    int word;
    switch (row->kind) {
    case CONFIG_INT: return memcpy(&whole, at, sizeof whole), (double)whole;
    case CONFIG_REAL: return memcpy(&real, at, sizeof real), real;
    case CONFIG_FLAG:
    case CONFIG_CHOICE: return memcpy(&word, at, sizeof word), word;
    }
    return 0;
}

ModelConfig model_config_new(ModelArch arch)
{
    ModelConfig c = {.arch = arch};
    for (uint32_t i = 0; i < config_count; i++) {
        double fallback = config_fallback(arch, &config_table[i]);
        config_set(&c, &config_table[i], isnan(fallback) ? 0 : fallback);
    }
    return c;
}

int config_word_number(const ConfigRow *row, const char *word)
{
    size_t len = strlen(word);
    int number = 0;
    for (const char *at = row->words; *at; number++) {
        size_t n = strcspn(at, " ");
        if (n == len && memcmp(at, word, n) == 0)
            return number;
        at += n + (at[n] == ' ');
    }
    return -1;
}

const char *config_word(Arena *a, const ConfigRow *row, int number)
{
    const char *at = row->words;
    while (number-- > 0)
        at += strcspn(at, " ") + 1;
    return arena_strndup(a, at, strcspn(at, " "));
}

const char *config_number(Arena *a, double value)
{
    const char *text = arena_printf(a, "%.0f", value);
    if (fabs(value) < 1e15 && fabs(strtod(text, NULL) - value) <= 0)
        return text;
    for (int digits = 1; digits <= 17; digits++) {
        text = arena_printf(a, "%.*g", digits, value);
        if (fabs(strtod(text, NULL) - value) <= 0)
            break;
    }
    return text;
}
