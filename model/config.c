/* config.json to ModelConfig, and the rules between its fields. */
#include "model/config_own.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

typedef struct ConfigReader {
    Arena *a;
    const char *file;
    json_t *root;
    ModelConfig *out;
    const char *error; /* the first one */
} ConfigReader;

/* Returns 0, like every reader below that refuses. */
static int refuse(ConfigReader *r, const char *name, const json_t *value, const char *rule)
{
    r->error = json_refusal(r->a, r->file, name, value, rule);
    return 0;
}

/* ---- names ---- */

static const json_t *member(const json_t *object, const char *key, size_t len)
{
    const json_t *value = json_object_getn(object, key, len);
    return json_is_null(value) ? NULL : value;
}

/* The value of `name`, which may be PART.NAME; NULL when there is none, or null. */
static const json_t *find(const json_t *root, const char *name)
{
    const char *dot = strchr(name, '.');
    if (!dot)
        return member(root, name, strlen(name));
    return member(member(root, name, (size_t)(dot - name)), dot + 1, strlen(dot + 1));
}

/* The value of a row and the name it has in this file; two names must not contradict each other. */
static int find_row(ConfigReader *r, const ConfigRow *row, const char **name, const json_t **out)
{
    ConfigAliases names = config_aliases(r->out->arch, row);
    *out = NULL;
    for (uint32_t i = 0; i < names.count; i++) {
        const json_t *value = find(r->root, names.at[i]);
        if (value && *out && !json_equal(value, *out))
            return refuse(r, names.at[i], value, arena_printf(r->a, "must be the same as %s", *name));
        if (value && !*out)
            *out = value, *name = names.at[i];
    }
    return 1;
}

/* ---- values ---- */

static int read_number(ConfigReader *r, const ConfigRow *row, const char *name, const json_t *value)
{
    static const double whole_most = 9007199254740992.0; /* 2^53 */
    double number = json_number_value(value);
    if (!json_is_number(value))
        return refuse(r, name, value, "must be a number");
    if (row->kind == CONFIG_INT && (number != floor(number) || fabs(number) > whole_most))
        return refuse(r, name, value, "must be a whole number");
    if (!config_in_range(row, number))
        return refuse(r, name, value, config_range(r->a, row));
    config_set(r->out, row, number);
    return 1;
}

static int read_flag(ConfigReader *r, const ConfigRow *row, const char *name, const json_t *value)
{
    if (!json_is_boolean(value))
        return refuse(r, name, value, "must be true or false");
    config_set(r->out, row, json_is_true(value));
    return 1;
}

static int read_choice(ConfigReader *r, const ConfigRow *row, const char *name, const json_t *value)
{
    int number = json_is_string(value) ? config_word_number(row, json_string_value(value)) : -1;
    if (number < 0)
        return refuse(r, name, value, arena_printf(r->a, "must be one of: %s", row->words));
    config_set(r->out, row, number);
    return 1;
}

static int read_row(ConfigReader *r, const ConfigRow *row)
{
    const char *name = row->name;
    const json_t *value;
    if (!find_row(r, row, &name, &value))
        return 0;
    if (!value)
        return !isnan(config_fallback(r->out->arch, row)) ||
               refuse(r, config_name(r->out->arch, row), NULL, row->doc);
    switch (row->kind) {
    case CONFIG_INT:
    case CONFIG_REAL: return read_number(r, row, name, value);
    case CONFIG_FLAG: return read_flag(r, row, name, value);
    case CONFIG_CHOICE: return read_choice(r, row, name, value);
    }
    return 0;
}

/* What only latent attention has would be lost without a word. Files of latent attention may have a head_dim: it follows. */
static int check_without_latent(ConfigReader *r, const ConfigRow *row)
{
    const char *name;
    const json_t *value;
    if (row->when != WHEN_MLA)
        return 1;
    if (!find_row(r, row, &name, &value))
        return 0;
    return !value || (json_is_number(value) && json_number_value(value) <= 0) ||
           refuse(r, name, value, "must be 0 or left out without kv_lora_rank: attention is not latent");
}

static int read_rows(ConfigReader *r)
{
    for (uint32_t i = 0; i < config_count; i++) {
        const ConfigRow *row = &config_table[i];
        if (!(config_applies(r->out, row) ? read_row(r, row) : check_without_latent(r, row)))
            return 0;
    }
    return 1;
}

/* ---- what is not a choice ---- */

static int same_value(const json_t *value, const char *text)
{
    json_t *want = json_loads(text, JSON_DECODE_ANY, NULL);
    int same = json_is_number(value) && json_is_number(want)
                   ? fabs(json_number_value(value) - json_number_value(want)) <= 0
                   : json_equal(value, want);
    json_decref(want);
    return same;
}

static int check_fixed(ConfigReader *r)
{
    static const struct {
        const char *name, *value, *rule;
    } table[] = {
#define FIXED(name, value, rule) {name, value, rule},
#include "model/config.def"
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const json_t *value = find(r->root, table[i].name);
        if (value && !same_value(value, table[i].value))
            return refuse(r, table[i].name, value, table[i].rule);
    }
    return 1;
}

/* Qwen's files give a window and say beside it that it is not used. */
static int check_window(ConfigReader *r)
{
    const json_t *window = find(r->root, "sliding_window");
    return !window || json_is_false(find(r->root, "use_sliding_window")) ||
           refuse(r, "sliding_window", window, "must be null: attention reads all positions");
}

static int check_parts(ConfigReader *r)
{
    static const char *const parts[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = find(r->root, parts[i]);
        if (part && !json_is_object(part))
            return refuse(r, parts[i], part, "must be an object");
    }
    return 1;
}

/* ---- the file ---- */

/* model_type says it; where there is none of ours, the class. One that is no word is a mistake. */
static int read_arch(ConfigReader *r)
{
    const json_t *type = find(r->root, "model_type");
    const json_t *class = json_array_get(find(r->root, "architectures"), 0);
    for (int i = 0; i < ARCH_COUNT; i++)
        if (json_is_string(type) && strcmp(json_string_value(type), config_arch_table[i].name) == 0)
            return r->out->arch = (ModelArch)i, 1;
    for (int i = 0; i < ARCH_COUNT; i++)
        if ((!type || json_string_length(type)) && json_is_string(class) && json_string_length(class) &&
            strcmp(json_string_value(class), config_arch_table[i].class) == 0)
            return r->out->arch = (ModelArch)i, 1;
    Text known = {.arena = r->a};
    for (int i = 0; i < ARCH_COUNT; i++)
        text_add(&known, "%s%s", i ? ", " : "must be one of: ", config_arch_table[i].name);
    return refuse(r, "model_type", type, text_string(&known));
}

/* The name as JSON, which is printable whatever it holds, and the field that was probably meant. */
static const char *unknown_text(ConfigReader *r, const char *name)
{
    Guess g = guess_new(name);
    for (uint32_t i = 0; i < config_count; i++) {
        const ConfigAliases names = config_aliases(r->out->arch, &config_table[i]);
        for (uint32_t j = 0; j < names.count; j++)
            guess_try(&g, names.at[j]);
    }
    json_t *text = json_string(name);
    const char *excerpt = json_excerpt(r->a, text), *help = guess_help(r->a, &g, NULL);
    json_decref(text);
    return help ? arena_printf(r->a, "%s (%s)", excerpt, help) : excerpt;
}

/* The fields of the file, or of an object in it: `before` is its name and a dot. */
static void list_unknown(ConfigReader *r, json_t *object, const char *before, ModelNames *unknown)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *name = arena_printf(r->a, "%s%s", before, key);
        if (!config_is_known(name))
            vec_push(r->a, unknown, unknown_text(r, name));
    }
}

static int read_root(ConfigReader *r)
{
    if (!json_is_object(r->root))
        return refuse(r, "the file", r->root, "must be an object");
    if (!check_parts(r) || !read_arch(r))
        return 0;
    *r->out = model_config_new(r->out->arch);
    r->out->quantized = find(r->root, "quantization_config") != NULL;
    return check_fixed(r) && check_window(r) && read_rows(r);
}

const char *model_config_read(Arena *a, const char *file, const char *text, size_t len, ModelConfig *out,
                              ModelNames *unknown)
{
    json_error_t why;
    *out = (ModelConfig){0};
    json_t *root = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return arena_printf(a, "%s:%d:%d: %s", file, why.line, why.column, why.text);
    ConfigReader r = {.a = a, .file = file, .root = root, .out = out};
    if (read_root(&r))
        r.error = model_config_check(a, file, out);
    if (!r.error && unknown) {
        list_unknown(&r, root, "", unknown);
        list_unknown(&r, json_object_get(root, "rope_scaling"), "rope_scaling.", unknown);
        list_unknown(&r, json_object_get(root, "rope_parameters"), "rope_parameters.", unknown);
    }
    json_decref(root);
    return r.error;
}

const char *model_config_load(Arena *a, const char *path, ModelConfig *out, ModelNames *unknown)
{
    MappedFile f;
    const char *error = file_map(a, path, &f);
    if (!error)
        error = model_config_read(a, path, (const char *)f.at, f.len, out, unknown);
    file_unmap(&f);
    return error;
}
