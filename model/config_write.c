/* ModelConfig to the text of a config.json. */
#include "model/config_own.h"

#include <math.h>
#include <string.h>

typedef struct ConfigWriter {
    const ModelConfig *c;
    Text *out;
    const char *part; /* the object that is open, "" for none */
    size_t part_len;
    int first; /* no field of the innermost object is written yet */
} ConfigWriter;

static void next_field(ConfigWriter *w)
{
    text_add(w->out, "%s\n%s", w->first ? "" : ",", w->part_len ? "    " : "  ");
    w->first = 0;
}

static void close_part(ConfigWriter *w)
{
    if (w->part_len)
        text_add(w->out, "\n  }");
    w->part_len = 0;
    w->first = 0;
}

/* Names of one part stand together in config.def. */
static void open_part(ConfigWriter *w, const char *name)
{
    const char *dot = strchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : 0;
    if (len == w->part_len && memcmp(name, w->part, len) == 0)
        return;
    close_part(w);
    if (!len)
        return;
    next_field(w);
    text_add(w->out, "\"%.*s\": {", (int)len, name);
    w->part = name;
    w->part_len = len;
    w->first = 1;
}

static const char *value_text(const ModelConfig *c, const ConfigRow *row, Arena *a)
{
    double value = model_config_value(c, row);
    if (row->null && value <= 0)
        return "null";
    switch (row->kind) {
    case CONFIG_INT: return arena_printf(a, "%.0f", value);
    case CONFIG_REAL: return config_number(a, value);
    case CONFIG_FLAG: return value > 0 ? "true" : "false";
    case CONFIG_CHOICE: return arena_printf(a, "\"%s\"", config_word(a, row, (int)value));
    }
    return "null";
}

/* Mixtral has one name for two widths, the dense one of which it does not use. */
static int is_written_later(const ModelConfig *c, uint32_t i)
{
    const char *name = config_name(c->arch, &config_table[i]);
    for (uint32_t j = i + 1; j < config_count; j++)
        if (config_applies(c, &config_table[j]) && strcmp(config_name(c->arch, &config_table[j]), name) == 0)
            return 1;
    return 0;
}

/* A part has the fields that are not at their fallbacks; without scaling there is none. */
static void write_row(ConfigWriter *w, const ConfigRow *row)
{
    const char *name = config_name(w->c->arch, row), *dot = strchr(name, '.');
    if (dot && fabs(model_config_value(w->c, row) - row->fallback) <= 0)
        return;
    open_part(w, name);
    next_field(w);
    text_add(w->out, "\"%s\": %s", dot ? dot + 1 : name, value_text(w->c, row, w->out->arena));
}

/* What `transformers` asks of the file, beside the fields. */
static void write_head(ConfigWriter *w)
{
    const ArchRow *arch = &config_arch_table[w->c->arch];
    if (*arch->class) {
        next_field(w);
        text_add(w->out, "\"architectures\": [\"%s\"]", arch->class);
    }
    next_field(w);
    text_add(w->out, "\"model_type\": \"%s\"", arch->name);
    next_field(w);
    text_add(w->out, "\"hidden_act\": \"silu\"");
}

void model_config_write(const ModelConfig *c, Text *out)
{
    ConfigWriter w = {.c = c, .out = out, .part = "", .first = 1};
    text_add(out, "{");
    write_head(&w);
    for (uint32_t i = 0; i < config_count; i++)
        if (config_applies(c, &config_table[i]) && !is_written_later(c, i))
            write_row(&w, &config_table[i]);
    close_part(&w);
    text_add(out, "\n}\n");
}
