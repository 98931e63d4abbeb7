/* The file of an experiment. */
#include "tuner/experiment.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const grid_keys[GRID_AXES] = {
#define AXIS(key, column, fields) [GRID_##key] = #key,
#include "tuner/grid.def"
};
const char *const grid_columns[GRID_AXES] = {
#define AXIS(key, column, fields) [GRID_##key] = #column,
#include "tuner/grid.def"
};

/* ---- texts and paths ---- */

static const char *folder_of(Arena *a, const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? arena_strndup(a, file, (size_t)(slash - file)) : ".";
}

static const char *path_of(const Experiment *e, const char *path)
{
    return *path == '/' || strcmp(e->folder, ".") == 0 ? arena_strdup(e->arena, path)
                                                       : arena_printf(e->arena, "%s/%s", e->folder, path);
}

/* A value is its main text, or an object that has it under `key`. NULL: neither. */
static const char *text_of(const Experiment *e, const json_t *v, const char *key)
{
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, key) : v);
    return text && *text ? arena_strdup(e->arena, text) : NULL;
}

static const char *name_of_value(const Experiment *e, const json_t *v, const char *otherwise)
{
    const char *name = json_is_object(v) ? json_string_value(json_object_get(v, "name")) : NULL;
    return name && *name ? arena_strdup(e->arena, name) : otherwise;
}

/* ---- values: NULL, or what the value must be ---- */

static const char *read_kernels(Experiment *e, const json_t *v, GridValue *out)
{
    const char *text = text_of(e, v, "kernel"), *colon = text ? strrchr(text, ':') : NULL;
    if (!text)
        return "must be FILE.moe:KERNEL, or an object with \"kernel\"";
    out->kernel = colon ? colon + 1 : NULL;
    out->text = path_of(e, colon ? arena_strndup(e->arena, text, (size_t)(colon - text)) : text);
    out->name = name_of_value(e, v, out->kernel ? out->kernel : text);
    return NULL;
}

static const char *read_targets(Experiment *e, const json_t *v, GridValue *out)
{
    out->name = out->text = text_of(e, v, "");
    return out->text ? NULL : "must be the name of an instruction set, as --target takes it";
}

static const char *read_threads(Experiment *e, const json_t *v, GridValue *out)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 1 || n > 4096)
        return "must be a whole number from 1 to 4096";
    out->threads = (int)n;
    out->name = arena_printf(e->arena, "%d", out->threads);
    return NULL;
}

static const char *without_blanks(Arena *a, const char *text)
{
    Text t = {.arena = a};
    for (const char *p = text; *p; p++)
        if (*p != ' ')
            text_add_bytes(&t, p, 1);
    return text_string(&t);
}

static const char *read_sizes(Experiment *e, const json_t *v, GridValue *out)
{
    const char *text = text_of(e, v, "sizes");
    out->text = text ? without_blanks(e->arena, text) : NULL;
    out->name = name_of_value(e, v, out->text);
    return out->text ? NULL : "must be sizes as T=512,H=256, or an object with \"sizes\"";
}

static const char *read_routings(Experiment *e, const json_t *v, GridValue *out)
{
    static const char file[] = "file:";
    const char *text = text_of(e, v, "routing");
    if (!text)
        return "must be a routing as zipf(1.2), or an object with \"routing\"";
    out->name = name_of_value(e, v, text);
    if (strncmp(text, file, strlen(file)) == 0)
        text = arena_printf(e->arena, "%s%s", file, path_of(e, text + strlen(file)));
    out->text = tune_routing(text, e->arena);
    return out->text ? NULL : "must name a file with the number of rows of each group";
}

/* ---- machines ---- */

/* Of "core.memory" the figure, or NULL. */
static json_t *figure_of(json_t *machine, const char *key)
{
    char section[64];
    const char *dot = strchr(key, '.');
    if (!dot || (size_t)(dot - key) >= sizeof section)
        return NULL;
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    return json_object_get(json_object_get(machine, section), dot + 1);
}

/* The description with other figures, in the scratch folder. */
static const char *change_figures(Experiment *e, const char *path, json_t *figures, GridValue *out)
{
    const char *key;
    json_error_t why;
    json_t *value, *machine = json_load_file(path, 0, &why);
    const char *error = machine ? NULL : arena_printf(e->arena, "must name a description: %s", why.text);
    json_object_foreach(figures, key, value)
    {
        json_t *figure = error ? NULL : figure_of(machine, key);
        if (!error && (!figure || !json_is_integer(value)))
            error = arena_printf(e->arena, "must have whole numbers for figures of %s; \"%s\" is none", path,
                                 key);
        if (!error) {
            json_object_set(figure, "value", value);
            json_object_del(figure, "on");
        }
    }
    if (!error && !e->scratch) {
        const char *temporary = getenv("TMPDIR");
        char *folder =
            arena_printf(e->arena, "%s/moec-experiment-XXXXXX", temporary && *temporary ? temporary : "/tmp");
        e->scratch = mkdtemp(folder);
    }
    out->text = error || !e->scratch
                    ? NULL
                    : arena_printf(e->arena, "%s/%u.json", e->scratch, e->axes[GRID_machines].values.len);
    out->changed = path;
    if (!error && (!out->text || json_dump_file(machine, out->text, 0)))
        error = "cannot be written into TMPDIR";
    json_decref(machine);
    return error;
}

static const char *read_machines(Experiment *e, const json_t *v, GridValue *out)
{
    const char *text = text_of(e, v, "machine");
    json_t *figures = json_is_object(v) ? json_object_get(v, "figures") : NULL;
    if (!text)
        return "must be clock, the name of a machine, the path of a description, or an object with "
               "\"machine\"";
    out->name = name_of_value(e, v, text);
    if (strcmp(text, "clock") == 0)
        return figures ? "cannot have \"figures\": the clock has none" : NULL;
    out->text = text_ends(text, ".json") ? path_of(e, text) : text;
    if (figures && (!text_ends(text, ".json") || !json_is_object(figures)))
        return "must have an object \"figures\" and the path of the description that they change, as "
               "\"machine\"";
    return figures ? change_figures(e, out->text, figures, out) : NULL;
}

/* ---- schedules ---- */

static const char *read_drawn(const Experiment *e, const json_t *v, GridValue *out)
{
    json_int_t n = json_integer_value(json_object_get(v, "random"));
    if (n < 1 || n >= GRID_VALUES)
        return "must have as \"random\" a whole number from 1 to 1023";
    out->drawn = (uint32_t)n;
    out->name = name_of_value(e, v, "random");
    return NULL;
}

static const char *read_tuned(const Experiment *e, const json_t *v, GridValue *out)
{
    const char *routing = text_of(e, v, "routing");
    out->budget = json_number_value(json_object_get(v, "tune"));
    if (!(out->budget > 0 && out->budget <= 86400))
        return "must have as \"tune\" a number of seconds up to 86400";
    out->routing = routing ? tune_routing(routing, e->arena) : NULL;
    out->name = name_of_value(e, v, routing ? arena_printf(e->arena, "tuned at %s", routing) : "tuned");
    return NULL;
}

static const char *read_schedules(Experiment *e, const json_t *v, GridValue *out)
{
    const json_t *clauses =
        json_is_object(v) ? json_object_get(v, "text") : v; /* none are the default once more */
    json_t *seed = json_object_get(v, "seed");
    if (json_is_object(v) && !clauses + !json_object_get(v, "random") + !json_object_get(v, "tune") < 2)
        return "may have only one of \"text\", \"random\" and \"tune\"";
    out->keep_bits = json_is_true(json_object_get(v, "keep_bits"));
    out->seed = seed ? (uint64_t)json_integer_value(seed) : e->seed;
    if (json_object_get(v, "random"))
        return read_drawn(e, v, out);
    if (json_object_get(v, "tune"))
        return read_tuned(e, v, out);
    if (!json_is_string(clauses) || !*name_of_value(e, v, json_string_value(clauses)))
        return "must be clauses, or an object with \"text\", \"random\" or \"tune\"";
    out->text = arena_strdup(e->arena, json_string_value(clauses));
    out->name = name_of_value(e, v, out->text);
    return NULL;
}

/* ---- axes ---- */

static const struct {
    const char *(*read)(Experiment *e, const json_t *v, GridValue *out);
    const char *fields; /* of an object */
} axis_readers[GRID_AXES] = {
#define AXIS(key, column, fields) [GRID_##key] = {read_##key, fields},
#include "tuner/grid.def"
};

static const char *refuse(const Experiment *e, const char *key, const json_t *value, const char *rule)
{
    return json_refusal(e->arena, e->file, key, value, rule);
}

static const char *check_fields(const Experiment *e, GridAxisId id, const json_t *v)
{
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)(uintptr_t)v, key, field)
    {
        if (!text_lists(axis_readers[id].fields, key))
            return arena_printf(e->arena, "has \"%s\", and may have only %s", key, axis_readers[id].fields);
    }
    return NULL;
}

static const char *add_value(Experiment *e, GridAxisId id, GridValue v)
{
    GridAxis *axis = &e->axes[id];
    if (axis->values.len == GRID_VALUES)
        return arena_printf(e->arena, "is one more than %d values", GRID_VALUES);
    v.name = experiment_line(e->arena, v.name);
    for (uint32_t i = 0; i < axis->values.len; i++)
        if (strcmp(axis->values.at[i].name, v.name) == 0)
            return arena_printf(e->arena, "must have another name than '%s': there is one", v.name);
    vec_push(e->arena, &axis->values, v);
    return NULL;
}

/* Of schedules that are drawn one value each. */
static const char *add_values(Experiment *e, GridAxisId id, GridValue v)
{
    const char *rule = v.drawn ? NULL : add_value(e, id, v), *name = v.name;
    for (uint32_t i = 1, n = v.drawn; i <= n && !rule; i++) {
        v.drawn = i;
        v.name = arena_printf(e->arena, "%s %u", name, i);
        rule = add_value(e, id, v);
    }
    return rule;
}

static const char *read_axis(Experiment *e, GridAxisId id, const json_t *list)
{
    size_t i;
    json_t *v;
    if (!json_is_array(list) || (!json_array_size(list) && id != GRID_schedules))
        return refuse(e, grid_keys[id], list, "must be a list of values");
    json_array_foreach((json_t *)(uintptr_t)list, i, v)
    {
        GridValue value = {.name = NULL};
        const char *rule = json_is_object(v) ? check_fields(e, id, v) : NULL;
        if (!rule)
            rule = axis_readers[id].read(e, v, &value);
        if (!rule)
            rule = add_values(e, id, value);
        if (rule)
            return refuse(e, arena_printf(e->arena, "%s[%zu]", grid_keys[id], i), v, rule);
    }
    return NULL;
}

/* What an axis is that the file does not have. */
static const char *add_default(Experiment *e, GridAxisId id)
{
    static const GridValue values[GRID_AXES] = {[GRID_machines] = {.name = "clock"},
                                                [GRID_targets] = {.name = "host"},
                                                [GRID_threads] = {.name = "1", .threads = 1},
                                                [GRID_routings] = {.name = ""}};
    if (values[id].name)
        return add_value(e, id, values[id]);
    return id == GRID_schedules ? NULL : refuse(e, grid_keys[id], NULL, "what is it about?");
}

static GridAxisId axis_named(const char *key)
{
    GridAxisId id = 0;
    while (id < GRID_AXES && (!key || strcmp(grid_keys[id], key) != 0))
        id++;
    return id;
}

static const char *read_beside(Experiment *e, const json_t *list)
{
    size_t i;
    json_t *v;
    if (!json_is_array(list))
        return refuse(e, "beside", list, "must be a list of axes");
    json_array_foreach((json_t *)(uintptr_t)list, i, v)
    {
        GridAxisId id = axis_named(json_string_value(v));
        if (id == GRID_AXES || id == GRID_machines || id == GRID_schedules)
            return refuse(e, "beside", v, "must be kernels, targets, threads, sizes or routings");
        e->axes[id].beside = 1;
    }
    return NULL;
}

/* ---- the file ---- */

static const char *read_number(const Experiment *e, const json_t *root, const char *key, double least,
                               double most, double *out)
{
    const json_t *v = json_object_get(root, key);
    double value = json_number_value(v);
    if (v && (!json_is_number(v) || !(value >= least && value <= most)))
        return refuse(e, key, v, arena_printf(e->arena, "must be a number from %g to %g", least, most));
    *out = v ? value : *out;
    return NULL;
}

static const char *read_texts(Experiment *e, const json_t *root)
{
    json_t *title = json_object_get(root, "title"), *doc = json_object_get(root, "doc");
    if (title && !json_is_string(title))
        return refuse(e, "title", title, "must be a text");
    if (doc && !json_is_string(doc))
        return refuse(e, "doc", doc, "must be a text");
    e->title = title ? arena_strdup(e->arena, json_string_value(title)) : e->file;
    e->doc = doc ? arena_strdup(e->arena, json_string_value(doc)) : NULL;
    return NULL;
}

static const char *read_settings(Experiment *e, const json_t *root)
{
    double seed = 1, rounds = 11;
    const char *error = read_texts(e, root);
    e->seconds = 1;
    error = error ? error : read_number(e, root, "seed", 0, 0x1p53, &seed);
    error = error ? error : read_number(e, root, "rounds", 1, GRID_ROUNDS / 4, &rounds);
    error = error ? error : read_number(e, root, "seconds", 0, 3600, &e->seconds);
    e->seed = (uint64_t)seed;
    e->rounds = (int64_t)rounds;
    return error;
}

static const char *check_keys(const Experiment *e, const json_t *root)
{
    static const char *const others[] = {"title", "doc", "seed", "rounds", "seconds", "beside"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        int known = axis_named(key) != GRID_AXES;
        Guess g = guess_new(key);
        for (GridAxisId id = 0; id < GRID_AXES; id++)
            guess_try(&g, grid_keys[id]);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            known |= strcmp(others[i], key) == 0;
            guess_try(&g, others[i]);
        }
        if (!known)
            return refuse(e, key, value, guess_help(e->arena, &g, "there is no such key"));
    }
    return NULL;
}

static const char *check_size(const Experiment *e)
{
    if (grid_points(e, (1U << GRID_AXES) - 1) > GRID_POINTS)
        return arena_printf(e->arena, "%s: its %.0f points are more than %d", e->file,
                            grid_points(e, (1U << GRID_AXES) - 1), GRID_POINTS);
    if (grid_points(e, grid_beside(e)) > GRID_CELLS)
        return arena_printf(e->arena, "%s: beside: %.0f cases would take turns, and at most %d can", e->file,
                            grid_points(e, grid_beside(e)), GRID_CELLS);
    return NULL;
}

/* What rows depend on: neither words about it nor layout. */
static const char *plain_text(const Experiment *e, json_t *root)
{
    json_t *plain = json_copy(root);
    json_object_del(plain, "title");
    json_object_del(plain, "doc");
    return json_line(e->arena, plain);
}

static const char *read_root(Experiment *e, json_t *root)
{
    if (!json_is_object(root))
        return refuse(e, "the file", root, "must be one object");
    const char *error = check_keys(e, root);
    error = error ? error : read_settings(e, root);
    if (!error)
        error = add_value(e, GRID_schedules, (GridValue){.name = "default"});
    for (GridAxisId id = 0; id < GRID_AXES && !error; id++) {
        const json_t *list = json_object_get(root, grid_keys[id]);
        error = list ? read_axis(e, id, list) : add_default(e, id);
    }
    if (!error && json_object_get(root, "beside"))
        error = read_beside(e, json_object_get(root, "beside"));
    e->text = plain_text(e, root);
    return error ? error : check_size(e);
}

const char *experiment_read(const char *file, Arena *a, Experiment *out)
{
    const char *error;
    json_t *root = json_file(a, file, &error);
    *out = (Experiment){.arena = a, .file = file, .folder = folder_of(a, file)};
    if (!root)
        return error;
    error = read_root(out, root);
    json_decref(root);
    return error;
}

void experiment_close(Experiment *e)
{
    const GridAxis *machines = &e->axes[GRID_machines];
    size_t n = e->scratch ? strlen(e->scratch) : 0;
    for (uint32_t i = 0; n && i < machines->values.len; i++)
        if (machines->values.at[i].text && strncmp(machines->values.at[i].text, e->scratch, n) == 0)
            unlink(machines->values.at[i].text);
    if (n)
        rmdir(e->scratch);
}

/* ---- the grid ---- */

const GridValue *grid_value(const Experiment *e, const GridPoint *p, GridAxisId axis)
{
    return &e->axes[axis].values.at[p->at[axis]];
}

int grid_next(const Experiment *e, GridPoint *p, unsigned moving)
{
    for (GridAxisId i = GRID_AXES; i-- > 0;) {
        if (!(moving >> i & 1))
            continue;
        if (++p->at[i] < e->axes[i].values.len)
            return 1;
        p->at[i] = 0;
    }
    return 0;
}

unsigned grid_beside(const Experiment *e)
{
    unsigned set = 0;
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        set |= (unsigned)e->axes[i].beside << i;
    return set;
}

double grid_points(const Experiment *e, unsigned axes)
{
    double n = 1;
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        n *= axes >> i & 1 ? e->axes[i].values.len : 1;
    return n;
}
