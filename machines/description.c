/* Descriptions of machines: from JSON text to figures, each checked against its row of figures.def. */
#include "machines/probe.h"

#include "base/json.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

const SectionRow section_table[] = {
#define SECTION(id, kinds, doc) {#id, kinds, doc},
#include "machines/figures.def"
};
/* Every section is a field of Machine; its figures are the fields of that. */
#define SECTION(id, kinds, doc) _Static_assert(sizeof((Machine *)0)->id, "");
#include "machines/figures.def"
const uint32_t section_count = sizeof section_table / sizeof *section_table;

const FigureRow figure_table[] = {
#define FIGURE(section, key, unit, probe, doc) \
    {#section, #key, unit, doc, offsetof(Machine, section.key), probe_##probe},
#include "machines/figures.def"
};
const uint32_t figure_count = sizeof figure_table / sizeof *figure_table;

/* The number of each row. */
enum {
#define FIGURE(section, key, unit, probe, doc) ROW_##section##_##key,
#include "machines/figures.def"
};

const MultipleRow multiple_table[] = {
#define MULTIPLE(section, key, of_section, of_key) {ROW_##section##_##key, ROW_##of_section##_##of_key},
#include "machines/figures.def"
};
const uint32_t multiple_count = sizeof multiple_table / sizeof *multiple_table;

const DividesRow divides_table[] = {
#define DIVIDES(section, key, bytes, of_section, of_key, power) \
    {ROW_##section##_##key, ROW_##of_section##_##of_key, bytes, power},
#include "machines/figures.def"
};
const uint32_t divides_count = sizeof divides_table / sizeof *divides_table;

const MostRow most_table[] = {
#define MOST(section, key, bits) {ROW_##section##_##key, bits},
#include "machines/figures.def"
};
const uint32_t most_count = sizeof most_table / sizeof *most_table;

const TraitRow trait_table[] = {
#define TRAIT(id, cpu, npu, doc) {#id, doc, cpu, npu},
#include "machines/figures.def"
};
const uint32_t trait_count = sizeof trait_table / sizeof *trait_table;

const Traits *machine_traits(MachineKind kind)
{
    static const Traits traits_of[] = {
        [MACHINE_CPU] =
            {
#define TRAIT(id, cpu, npu, doc) cpu,
#include "machines/figures.def"
            },
        [MACHINE_NPU] =
            {
#define TRAIT(id, cpu, npu, doc) npu,
#include "machines/figures.def"
            },
    };
    return &traits_of[kind];
}

static const struct {
    const char *name;
    MachineKind kind;
} kinds[] = {{"cpu", MACHINE_CPU}, {"npu", MACHINE_NPU}};

enum { VALUE_BITS = 50 }; /* products of two extents fit 64 bits many times over */

typedef struct DescriptionReader {
    Arena *a;
    const char *file;
    Description *out;
    const char *error; /* the first one */
} DescriptionReader;

/* FILE: KEY is VALUE: RULE. Returns 0, like every reader below that refuses. */
static int refuse(DescriptionReader *r, const char *key, const json_t *value, const char *rule)
{
    r->error = json_refusal(r->a, r->file, key, value, rule);
    return 0;
}

static int64_t *field(Machine *m, size_t at) { return (int64_t *)(void *)((char *)m + at); }

/* ---- keys ---- */

/* The n names, with commas. */
static const char *list_names(DescriptionReader *r, const char *const *names, uint32_t n)
{
    Text t = {.arena = r->a};
    for (uint32_t i = 0; i < n; i++)
        text_add(&t, "%s%s", i ? ", " : "", names[i]);
    return text_string(&t);
}

/* Refuses a key of `object` (at `path`, "" at the top) that is none of the names. */
static int only(DescriptionReader *r, json_t *object, const char *path, const char *const *names, uint32_t n)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        uint32_t i = 0;
        while (i < n && strcmp(key, names[i]) != 0)
            i++;
        if (i == n)
            return refuse(r, arena_printf(r->a, "%s%s%s", path, *path ? "." : "", key), value,
                          arena_printf(r->a, "there is no such key, here are %s", list_names(r, names, n)));
    }
    return 1;
}

static int read_text(DescriptionReader *r, const json_t *object, const char *path, const char *key,
                     const char **out)
{
    const json_t *value = json_object_get(object, key);
    const char *name = arena_printf(r->a, "%s%s%s", path, *path ? "." : "", key);
    if (!json_is_string(value) || !json_string_length(value))
        return refuse(r, name, value, "must be a text");
    *out = arena_strndup(r->a, json_string_value(value), json_string_length(value));
    return 1;
}

/* ---- a figure ---- */

/* The figure is at most 2 to this. */
static int most_bits(const FigureRow *row)
{
    for (uint32_t i = 0; i < most_count; i++)
        if (&figure_table[most_table[i].row] == row)
            return most_table[i].bits;
    return VALUE_BITS;
}

static int read_value(DescriptionReader *r, const json_t *figure, const char *path, const FigureRow *row,
                      int64_t *out)
{
    const json_t *value = json_object_get(figure, "value");
    const char *name = arena_printf(r->a, "%s.value", path);
    if (!json_is_integer(value))
        return refuse(r, name, value, "must be a whole number");
    *out = json_integer_value(value);
    if (*out <= 0)
        return refuse(r, name, value, "must be positive");
    return *out <= (int64_t)1 << most_bits(row)
               ? 1
               : refuse(r, name, value, arena_printf(r->a, "must be at most 2^%d", most_bits(row)));
}

static int read_unit(DescriptionReader *r, const json_t *figure, const char *path, const char *want)
{
    const char *unit;
    if (!read_text(r, figure, path, "unit", &unit))
        return 0;
    return strcmp(unit, want) == 0
               ? 1
               : refuse(r, arena_printf(r->a, "%s.unit", path), json_object_get(figure, "unit"),
                        arena_printf(r->a, "must be \"%s\"", want));
}

static int read_probed(DescriptionReader *r, const json_t *figure, const char *path, const FigureRow *row,
                       int *out)
{
    const json_t *value = json_object_get(figure, "probed");
    const char *name = arena_printf(r->a, "%s.probed", path);
    if (!value)
        return 1;
    if (!json_is_boolean(value))
        return refuse(r, name, value, "must be true or false");
    *out = json_is_true(value);
    if (*out && (row->probe == probe_none || r->out->machine.kind != MACHINE_CPU))
        return refuse(r, name, value, "only cores and caches of a cpu are asked for");
    return 1;
}

static int is_core_name(const char *name)
{
    uint32_t i = 0;
    while (i < core_count && strcmp(core_table[i].name, name) != 0)
        i++;
    return i < core_count;
}

static int is_isa_name(const char *name)
{
    Isa isa;
    return cpu_find(name, &isa);
}

/* What holds in place of a figure's value elsewhere: {"NAME": {"value": 64, "source": "measured on ..."}}. */
typedef struct Others {
    const char *key;
    const char *const *sections; /* whose figures may have it, up to NULL */
    int (*is_name)(const char *name);
    const char *rule, *name_rule;
} Others;

/* Only what the cycle model reads: code must not depend on the core. */
static const Others on_cores = {"on", (const char *const[]){"core", "clock", "memory", NULL}, is_core_name,
                                "must be an object, of a figure of a cpu's core, clock or memory",
                                "must be an object, and the name that of a core (machines/cores.def)"};
static const Others with_isas = {
    "with",
    (const char *const[]){"blocks", "given_blocks", "group_blocks", "group_panel_blocks", "place_blocks",
                          "plain_place_blocks", NULL},
    is_isa_name, "must be an object, of a figure of a cpu's blocks",
    "must be an object, and the name that of an instruction set (machines/cpu.def)"};

static int may_have(const DescriptionReader *r, const Others *o, const char *section)
{
    uint32_t i = 0;
    while (o->sections[i] && strcmp(o->sections[i], section) != 0)
        i++;
    return r->out->machine.kind == MACHINE_CPU && o->sections[i];
}

static int read_others(DescriptionReader *r, const json_t *figure, const FigureRow *row, const Others *o,
                       NamedFigures *out)
{
    static const char *const keys[] = {"value", "source"};
    json_t *object = json_object_get(figure, o->key), *value;
    const char *name, *where = arena_printf(r->a, "%s.%s.%s", row->section, row->key, o->key);
    if (!object)
        return 1;
    if (!json_is_object(object) || !may_have(r, o, row->section))
        return refuse(r, where, object, o->rule);
    json_object_foreach(object, name, value)
    {
        NamedFigure f;
        const char *at = arena_printf(r->a, "%s.%s", where, name);
        if (!o->is_name(name) || !json_is_object(value))
            return refuse(r, at, value, o->name_rule);
        if (!only(r, value, at, keys, sizeof keys / sizeof *keys) ||
            !read_value(r, value, at, row, &f.value) || !read_text(r, value, at, "source", &f.source))
            return 0;
        f.name = arena_printf(r->a, "%s", name);
        vec_push(r->a, out, f);
    }
    return 1;
}

static int read_figure(DescriptionReader *r, const json_t *section, const FigureRow *row)
{
    static const char *const keys[] = {"value", "unit", "source", "probed", "on", "with"};
    const char *path = arena_printf(r->a, "%s.%s", row->section, row->key);
    json_t *figure = json_object_get(section, row->key);
    Figure f = {.row = row};
    if (!json_is_object(figure))
        return refuse(r, path, figure, "must be an object with value, unit and source");
    if (!only(r, figure, path, keys, sizeof keys / sizeof *keys) ||
        !read_value(r, figure, path, row, &f.value) || !read_unit(r, figure, path, row->unit) ||
        !read_text(r, figure, path, "source", &f.source) || !read_probed(r, figure, path, row, &f.probed) ||
        !read_others(r, figure, row, &on_cores, &f.on) || !read_others(r, figure, row, &with_isas, &f.with))
        return 0;
    *field(&r->out->machine, row->at) = f.value;
    vec_push(r->a, &r->out->figures, f);
    return 1;
}

/* ---- sections, rules ---- */

static int read_section(DescriptionReader *r, const json_t *root, const SectionRow *row)
{
    const char **keys = arena_array(r->a, const char *, figure_count);
    uint32_t n = 0;
    json_t *section = json_object_get(root, row->name);
    if (!section && !(row->kinds & r->out->machine.kind))
        return 1;
    if (!json_is_object(section))
        return refuse(r, row->name, section, "must be an object of figures");
    for (uint32_t i = 0; i < figure_count; i++)
        if (strcmp(figure_table[i].section, row->name) == 0)
            keys[n++] = figure_table[i].key;
    if (!only(r, section, row->name, keys, n))
        return 0;
    for (uint32_t i = 0; i < figure_count; i++)
        if (strcmp(figure_table[i].section, row->name) == 0 && !read_figure(r, section, &figure_table[i]))
            return 0;
    return 1;
}

/* The blocks with each instruction set. */
static void fill_blocks(Description *d)
{
    Machine *m = &d->machine;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        m->of_isa[isa] = m->usual;
    for (uint32_t i = 0; i < d->figures.len; i++) {
        const Figure *f = &d->figures.at[i];
        for (uint32_t n = 0; n < f->with.len; n++) {
            Isa isa = 0;
            cpu_find(f->with.at[n].name, &isa);
            size_t from_usual = f->row->at - offsetof(Machine, usual);
            *field(m, offsetof(Machine, of_isa) + isa * sizeof *m->of_isa + from_usual) = f->with.at[n].value;
        }
    }
}

static int is_multiple(DescriptionReader *r, const FigureRow *row, const char *with, int64_t value,
                       const FigureRow *of)
{
    int64_t divisor = *field(&r->out->machine, of->at);
    if (!divisor || value % divisor == 0)
        return 1;
    r->error = arena_printf(r->a, "%s: %s.%s.%svalue is %lld: must be a multiple of %s.%s, which is %lld",
                            r->file, row->section, row->key, with, (long long)value, of->section, of->key,
                            (long long)divisor);
    return 0;
}

/* Figures that were not given are 0 and keep every rule. */
static int check_multiple(DescriptionReader *r, const FigureRow *row, const FigureRow *of)
{
    for (uint32_t i = 0; i < r->out->figures.len; i++) {
        const Figure *f = &r->out->figures.at[i];
        for (uint32_t n = 0; f->row == row && n < f->with.len; n++)
            if (!is_multiple(r, row, arena_printf(r->a, "with.%s.", f->with.at[n].name), f->with.at[n].value,
                             of))
                return 0;
    }
    return is_multiple(r, row, "", *field(&r->out->machine, row->at), of);
}

static int check_divides(DescriptionReader *r, const DividesRow *rule)
{
    const FigureRow *row = &figure_table[rule->row], *of = &figure_table[rule->of];
    int64_t value = *field(&r->out->machine, row->at), extent = *field(&r->out->machine, of->at);
    int64_t whole = rule->bytes * (rule->power == 2 ? extent * extent : extent);
    if (!value || whole % value == 0)
        return 1;
    r->error = arena_printf(r->a, "%s: %s.%s.value is %lld: must divide %d * %s.%s%s, which is %lld", r->file,
                            row->section, row->key, (long long)value, rule->bytes, of->section, of->key,
                            rule->power == 2 ? "^2" : "", (long long)whole);
    return 0;
}

/* ---- the head ---- */

static int read_name(DescriptionReader *r, const json_t *root)
{
    const char *name;
    if (!read_text(r, root, "", "name", &name))
        return 0;
    size_t n = 0;
    while (islower((unsigned char)name[n]) || isdigit((unsigned char)name[n]) || name[n] == '_')
        n++;
    if (name[n] || n >= sizeof r->out->machine.name)
        return refuse(r, "name", json_object_get(root, "name"),
                      "must be a to z, 0 to 9 and _, at most 31 of them");
    memcpy(r->out->machine.name, name, n + 1);
    return 1;
}

static int read_kind(DescriptionReader *r, const json_t *root)
{
    const char *kind;
    if (!read_text(r, root, "", "kind", &kind))
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            r->out->machine.kind = kinds[i].kind;
    return r->out->machine.kind
               ? 1
               : refuse(r, "kind", json_object_get(root, "kind"), "must be \"cpu\" or \"npu\"");
}

static int read_head(DescriptionReader *r, json_t *root)
{
    const char **keys = arena_array(r->a, const char *, section_count + 3);
    uint32_t n = 0;
    keys[n++] = "name";
    keys[n++] = "kind";
    keys[n++] = "doc";
    for (uint32_t i = 0; i < section_count; i++)
        keys[n++] = section_table[i].name;
    return only(r, root, "", keys, n) && read_name(r, root) && read_kind(r, root) &&
           read_text(r, root, "", "doc", &r->out->doc);
}

static void read_root(DescriptionReader *r, json_t *root)
{
    if (!json_is_object(root)) {
        refuse(r, "the file", root, "must be an object");
        return;
    }
    if (!read_head(r, root))
        return;
    for (uint32_t i = 0; i < section_count; i++)
        if (!read_section(r, root, &section_table[i]))
            return;
    for (uint32_t i = 0; i < multiple_count; i++)
        if (!check_multiple(r, &figure_table[multiple_table[i].row], &figure_table[multiple_table[i].of]))
            return;
    for (uint32_t i = 0; i < divides_count; i++)
        if (!check_divides(r, &divides_table[i]))
            return;
    fill_blocks(r->out);
}

const char *machine_read(Arena *a, const char *file, const char *text, size_t len, Description *out)
{
    json_error_t why;
    DescriptionReader r = {.a = a, .file = file, .out = out};
    *out = (Description){.doc = ""};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return arena_printf(a, "%s:%d:%d: %s", file, why.line, why.column, why.text);
    read_root(&r, root);
    json_decref(root);
    return r.error;
}

void machine_ask(Description *d)
{
    for (uint32_t i = 0; i < d->figures.len; i++) {
        const Figure *f = &d->figures.at[i];
        const char *source = f->source;
        int64_t value = machine_here(f, &source);
        if (value)
            *field(&d->machine, f->row->at) = value;
    }
}
