/* Options as JSON: files of --config, those of a checkpoint, the first line of a log. */
#include "trainer/config_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

static json_t *text_or_null(const char *text) { return text ? json_string(text) : json_null(); }

static json_t *value_of(const Config *c, OptionId o)
{
    const void *at = option_value(c, o);
    switch (option_table[o].kind) {
    case OPTION_INT: return json_integer(*(const int64_t *)at);
    case OPTION_REAL: return json_real(*(const double *)at);
    case OPTION_TEXT:
    case OPTION_MAYBE: return text_or_null(*(const char *const *)at);
    case OPTION_FLAG: return json_boolean(*(const int *)at);
    }
    return json_null();
}

json_t *config_json(const Config *c)
{
    json_t *root = json_object(), *data = json_array();
    for (uint32_t i = 0; i < c->data.len; i++)
        json_array_append_new(data, json_string(c->data.at[i]));
    json_object_set_new(root, "data", data);
    for (OptionId o = 0; o < OPTION_data; o++)
        json_object_set_new(root, option_table[o].name, value_of(c, o));
    return root;
}

/* Without a current folder as it is. */
static const char *absolute(Arena *a, const char *path)
{
    char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    const char *whole = here ? arena_printf(a, "%s/%s", here, path) : path;
    free(here);
    return whole;
}

json_t *config_json_saved(const Config *c)
{
    json_t *root = config_json(c), *data = json_object_get(root, "data");
    for (uint32_t i = 0; i < c->data.len; i++)
        json_array_set_new(data, i, json_string(absolute(c->arena, c->data.at[i])));
    return root;
}

/* ---- reading ---- */

typedef struct OptionReader {
    Config *c;
    const char *file;
    OptionSource source;
} OptionReader;

static const char *refuse(const OptionReader *r, const char *name, const json_t *value, const char *rule)
{
    return json_refusal(r->c->arena, r->file, name, value, arena_printf(r->c->arena, "must be %s", rule));
}

static const char *copy_text(Arena *a, const json_t *value)
{
    return arena_strndup(a, json_string_value(value), json_string_length(value));
}

static int is_type(OptionKind kind, const json_t *value)
{
    switch (kind) {
    case OPTION_INT: return json_is_integer(value);
    case OPTION_REAL: return json_is_number(value);
    case OPTION_TEXT: return json_is_string(value);
    case OPTION_MAYBE: return json_is_string(value) || json_is_true(value);
    case OPTION_FLAG: return json_is_boolean(value);
    }
    return 0;
}

/* NULL, or what the value must be. */
static const char *broken(Arena *a, OptionId o, const json_t *value)
{
    static const char *const types[] = {[OPTION_INT] = NULL,
                                        [OPTION_REAL] = NULL,
                                        [OPTION_TEXT] = "a text",
                                        [OPTION_MAYBE] = "a text, or true",
                                        [OPTION_FLAG] = "true or false"};
    const OptionKind kind = option_table[o].kind;
    if (!is_type(kind, value))
        return types[kind] ? types[kind] : option_range(a, o, (double)NAN);
    return json_is_number(value) ? option_range(a, o, json_number_value(value)) : NULL;
}

static void set_value(OptionReader *r, OptionId o, const json_t *value)
{
    void *at = option_at(r->c, o);
    switch (option_table[o].kind) {
    case OPTION_INT: *(int64_t *)at = json_integer_value(value); break;
    case OPTION_REAL: *(double *)at = json_number_value(value); break;
    case OPTION_MAYBE:
    case OPTION_TEXT: *(const char **)at = json_is_true(value) ? "" : copy_text(r->c->arena, value); break;
    case OPTION_FLAG: *(int *)at = json_is_true(value); break;
    }
    r->c->source[o] = r->source;
}

/* A stronger source has said the value already. */
static const char *keep_value(const OptionReader *r, OptionId o, const json_t *value)
{
    if (r->source != FROM_CHECKPOINT || option_table[o].resumed == FREE)
        return NULL;
    if (r->c->model && option_is_of_model(o)) /* the checkpoint's value is not that of its model */
        return NULL;
    json_t *mine = value_of(r->c, o);
    const int same =
        json_is_real(mine) ? json_number_value(mine) == json_number_value(value) : json_equal(mine, value);
    const char *error =
        same ? NULL
             : arena_printf(r->c->arena, "--%s is %s, and %s has %s: a resumed run must keep it",
                            option_table[o].name, json_excerpt(r->c->arena, mine), r->file,
                            json_excerpt(r->c->arena, value));
    json_decref(mine);
    return error;
}

static const char *read_data(OptionReader *r, const json_t *value)
{
    Config *c = r->c;
    size_t i;
    json_t *path;
    if (!json_is_array(value) || !json_array_size(value))
        return refuse(r, "data", value, "a list of files and folders");
    if (c->source[OPTION_data] > r->source)
        return NULL;
    json_array_foreach(value, i, path)
    {
        if (!json_is_string(path))
            return refuse(r, "data", value, "a list of files and folders");
        vec_push(c->arena, &c->data, copy_text(c->arena, path));
    }
    c->source[OPTION_data] = r->source;
    return NULL;
}

static const char *unknown(const OptionReader *r, const char *name, const json_t *value)
{
    Guess g = guess_new(name);
    for (OptionId o = 0; o < OPTION_data; o++)
        guess_try(&g, option_table[o].name);
    return json_refusal(r->c->arena, r->file, name, value,
                        guess_help(r->c->arena, &g, "there is no such option"));
}

static const char *read_option(OptionReader *r, const char *name, const json_t *value)
{
    OptionId o = 0;
    if (!strcmp(name, "data"))
        return read_data(r, value);
    if (json_is_null(value)) /* a text that was not given */
        return NULL;
    while (o < OPTION_data && strcmp(option_table[o].name, name) != 0)
        o++;
    if (o == OPTION_data)
        return unknown(r, name, value);
    const char *rule = broken(r->c->arena, o, value);
    if (rule)
        return refuse(r, name, value, rule);
    if (r->source == FROM_CHECKPOINT && option_table[o].resumed == JOB)
        return NULL;
    if (r->c->source[o] > r->source)
        return keep_value(r, o, value);
    set_value(r, o, value);
    return NULL;
}

const char *config_apply(Config *c, const char *file, OptionSource source)
{
    OptionReader r = {c, file, source};
    const char *name, *error;
    json_t *value, *root = json_file(c->arena, file, &error);
    if (!root)
        return error;
    if (!json_is_object(root))
        error = json_refusal(c->arena, file, "the file", root, "must be one object of options");
    json_object_foreach(root, name, value) { error = error ? error : read_option(&r, name, value); }
    json_decref(root);
    return error;
}
