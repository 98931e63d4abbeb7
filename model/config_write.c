/* ModelConfig to the text of a config.json. */
#include "model/config_own.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

/* 10000 is written without a point, as other programs write it. */
static json_t *number(double value)
{
    const int whole = fabs(value) < 1e15 && fabs(value - trunc(value)) <= 0;
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *value_of(const ModelConfig *c, const ConfigRow *row, Arena *a)
{
    const double value = model_config_value(c, row);
    if (row->null && value <= 0)
        return json_null();
    switch (row->kind) {
    case CONFIG_INT:
    case CONFIG_REAL: return number(value);
    case CONFIG_FLAG: return json_boolean(value > 0);
    case CONFIG_CHOICE: return json_string(config_word(a, row, (int)value));
    }
    return json_null();
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

/* The object inside `root` of that name, a new one at its end where there is none. */
static json_t *part_of(json_t *root, const char *name)
{
    if (!json_object_get(root, name))
        json_object_set_new(root, name, json_object());
    return json_object_get(root, name);
}

/* A part, `rope_scaling.factor`, has the fields that are not at their fallbacks; without scaling there is none. */
static void write_row(json_t *root, const ModelConfig *c, const ConfigRow *row, Arena *a)
{
    const char *name = config_name(c->arch, row), *dot = strchr(name, '.');
    if (!dot)
        json_object_set_new(root, name, value_of(c, row, a));
    else if (fabs(model_config_value(c, row) - row->fallback) > 0)
        json_object_set_new(part_of(root, arena_strndup(a, name, (size_t)(dot - name))), dot + 1,
                            value_of(c, row, a));
}

/* What `transformers` asks of the file, beside the fields. */
static void write_head(json_t *root, const ModelConfig *c)
{
    const ArchRow *arch = &config_arch_table[c->arch];
    if (*arch->class)
        json_object_set_new(root, "architectures", json_pack("[s]", arch->class));
    json_object_set_new(root, "model_type", json_string(arch->name));
    json_object_set_new(root, "hidden_act", json_string("silu"));
}

void model_config_write(const ModelConfig *c, Text *out)
{
    json_t *root = json_object();
    write_head(root, c);
    for (uint32_t i = 0; i < config_count; i++)
        if (config_applies(c, &config_table[i]) && !is_written_later(c, i))
            write_row(root, c, &config_table[i], out->arena);
    text_add(out, "%s\n", json_text(out->arena, root));
}
