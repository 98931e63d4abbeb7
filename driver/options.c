/* The rows of options.def: defaults, as lines of text and back, and what the cache asks about them. */
#include "driver/driver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const CompileOptions compile_defaults = {
#define OPTION(kind, field, value, cache, doc) .field = (value),
#include "driver/options.def"
};

/* ---- one value ---- */

/* A value is one line: what would end it is written as %0A. */
static void print_text(Text *t, Option_text value)
{
    for (const char *at = value; *at; at++)
        text_add(t, (unsigned char)*at < ' ' || *at == '%' ? "%%%02X" : "%c", (unsigned char)*at);
}

static void print_number(Text *t, Option_number value) { text_add(t, "%d", value); }

static void print_seed(Text *t, Option_seed value) { text_add(t, "%" PRIu64, value); }

static int has_text(Option_text value) { return value != NULL; }

static int has_number(Option_number value)
{
    (void)value;
    return 1;
}

static int has_seed(Option_seed value)
{
    (void)value;
    return 1;
}

static int take_text(const char *from, Arena *a, Option_text *out)
{
    Text t = {.arena = a};
    for (const char *at = from; *at; at++) {
        unsigned byte = (unsigned char)*at;
        if (*at == '%') {
            char digits[3] = {at[1], at[1] ? at[2] : '\0', '\0'}, *end;
            byte = (unsigned)strtoul(digits, &end, 16);
            if (end != digits + 2)
                return 0;
            at += 2;
        }
        text_add(&t, "%c", byte);
    }
    *out = text_string(&t);
    return 1;
}

static int take_number(const char *from, Arena *a, Option_number *out)
{
    char *end;
    (void)a;
    errno = 0;
    long value = strtol(from, &end, 10);
    *out = (int)value;
    return end != from && !*end && !errno && value == *out;
}

static int take_seed(const char *from, Arena *a, Option_seed *out)
{
    char *end;
    (void)a;
    errno = 0;
    *out = strtoull(from, &end, 10);
    return end != from && !*end && !errno;
}

static int same_text(Option_text a, Option_text b) { return a == b || (a && b && strcmp(a, b) == 0); }

static int same_number(Option_number a, Option_number b) { return a == b; }

static int same_seed(Option_seed a, Option_seed b) { return a == b; }

/* ---- all rows ---- */

enum { KEY, WORK, FREE };

void options_print(const CompileOptions *o, const char *before, Text *t)
{
#define OPTION(kind, field, value, cache, doc) \
    if (has_##kind(o->field)) {                \
        text_add(t, "%s%s=", before, #field);  \
        print_##kind(t, o->field);             \
        text_add(t, "\n");                     \
    }
#include "driver/options.def"
}

int options_take(CompileOptions *o, const char *name, const char *from, Arena *a)
{
#define OPTION(kind, field, value, cache, doc) \
    if (strcmp(name, #field) == 0)             \
        return take_##kind(from, a, &o->field);
#include "driver/options.def"
    return 0;
}

int options_are_work(const CompileOptions *o)
{
    int work = 0;
#define OPTION(kind, field, value, cache, doc) \
    work |= (cache) == WORK && !same_##kind(o->field, compile_defaults.field);
#include "driver/options.def"
    return work;
}

CompileOptions options_of_code(const CompileOptions *o)
{
    CompileOptions key = compile_defaults;
#define OPTION(kind, field, value, cache, doc) \
    if ((cache) == KEY)                        \
        key.field = o->field;
#include "driver/options.def"
    return key;
}

void options_key(const CompileOptions *o, Text *t)
{
    CompileOptions key = options_of_code(o);
    options_print(&key, "", t);
}
