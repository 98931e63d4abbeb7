/* Messages about JSON values; see json.h. */
#include "base/json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *dumped(Arena *a, json_t *value, size_t flags)
{
    char *text = value ? json_dumps(value, flags | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!text)
        arena_escape(a, ESCAPE_MEMORY, "no memory for a text of JSON");
    const char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

/* Digits with which all reals of a value read back as they are: 15 keep decimals as people write them. */
enum { DECIMAL_DIGITS = 15, ALL_DIGITS = 17 };

static int reads_back(double real)
{
    char text[40];
    snprintf(text, sizeof text, "%.*g", DECIMAL_DIGITS, real);
    return fabs(strtod(text, NULL) - real) <= 0;
}

static int are_decimals(const json_t *value)
{
    const char *key;
    json_t *part;
    size_t i;
    int yes = !json_is_real(value) || reads_back(json_real_value(value));
    json_object_foreach((json_t *)(uintptr_t)value, key, part) yes = yes && are_decimals(part);
    json_array_foreach(value, i, part) yes = yes && are_decimals(part);
    return yes;
}

static size_t digits_of(const json_t *value)
{
    const size_t digits = value && are_decimals(value) ? DECIMAL_DIGITS : ALL_DIGITS;
    return JSON_REAL_PRECISION(digits);
}

const char *json_text(Arena *a, json_t *value) { return dumped(a, value, JSON_INDENT(2) | digits_of(value)); }

const char *json_line(Arena *a, json_t *value) { return dumped(a, value, JSON_COMPACT | digits_of(value)); }

json_t *json_file(Arena *a, const char *path, const char **error)
{
    struct stat st;
    json_error_t why = {.line = 0};
    const int folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    json_t *root = folder ? NULL : json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    *error = root           ? NULL
             : folder       ? arena_printf(a, "%s: is a directory, and must be a file of JSON", path)
             : why.line > 0 ? arena_printf(a, "%s:%d:%d: %s", path, why.line, why.column, why.text)
                            : arena_printf(a, "%s", why.text);
    return root;
}

const char *json_excerpt(Arena *a, const json_t *value)
{
    char *text =
        json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    const char *excerpt =
        text ? arena_printf(a, "%.60s%s", text, strlen(text) > 60 ? "..." : "") : "?"; /* too deep to print */
    free(text);
    return excerpt;
}

const char *json_refusal(Arena *a, const char *file, const char *key, const json_t *value, const char *rule)
{
    if (!value)
        return arena_printf(a, "%s: %s is missing: %s", file, key, rule);
    return arena_printf(a, "%s: %s is %s: %s", file, key, json_excerpt(a, value), rule);
}

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
