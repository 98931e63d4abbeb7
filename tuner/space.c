/* Points of the space, and their schedules as text. */
#include "tuner/space.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* "tile g : M = 64" */
static double number_of(const char *clause)
{
    const char *last = clause ? strrchr(clause, ' ') : NULL;
    return last ? strtod(last, NULL) : 0;
}

static const char *copy(Arena *a, const char *text) { return text ? arena_strdup(a, text) : NULL; }

static int by_number(const void *a, const void *b)
{
    const SpaceValue *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static SpaceKnob read_knob(json_t *v, int keep_bits, Arena *a, uint32_t *left_out)
{
    size_t i;
    json_t *one, *list = json_object_get(v, "values");
    SpaceValue *values = arena_array(a, SpaceValue, json_array_size(list) + 1);
    SpaceKnob k = {.name = copy(a, json_string_value(json_object_get(v, "knob"))),
                   .values = values,
                   .ordered = json_is_true(json_object_get(v, "ordered"))};
    json_array_foreach(list, i, one)
    {
        const char *clause = json_string_value(json_object_get(one, "clause"));
        int keeps = json_is_true(json_object_get(one, "keeps_bits"));
        int dropped = k.n == SPACE_VALUES || (keep_bits && !keeps && i > 0);
        *left_out += (uint32_t)dropped;
        if (!dropped)
            values[k.n++] = (SpaceValue){copy(a, clause), number_of(clause), keeps};
    }
    if (k.ordered && k.n > 2)
        qsort(values + 1, k.n - 1, sizeof *values, by_number);
    return k;
}

static void read_fixed(json_t *list, Arena *a, TuneSpace *out)
{
    size_t i;
    json_t *v;
    const char **fixed = arena_array(a, const char *, json_array_size(list) + 1);
    json_array_foreach(list, i, v) fixed[out->nfixed++] = copy(a, json_string_value(v));
    out->fixed = fixed;
}

const char *space_read(const char *json, int keep_bits, Arena *a, TuneSpace *out)
{
    size_t i;
    json_error_t why;
    json_t *v, *all = json_loads(json, 0, &why);
    *out = (TuneSpace){.kernel = copy(a, json_string_value(json_object_get(all, "kernel"))),
                       .target = copy(a, json_string_value(json_object_get(all, "target")))};
    json_t *list = json_object_get(all, "knobs");
    SpaceKnob *knobs = arena_array(a, SpaceKnob, json_array_size(list) + 1);
    json_array_foreach(list, i, v)
    {
        SpaceKnob k = read_knob(v, keep_bits, a, &out->left_out);
        if (k.n > 1 && out->n < SPACE_KNOBS)
            knobs[out->n++] = k;
    }
    out->knobs = knobs;
    read_fixed(json_object_get(all, "fixed"), a, out);
    json_decref(all);
    return out->kernel ? NULL : "the space of schedules cannot be read";
}

/* ---- points ---- */

double space_size(const TuneSpace *s)
{
    double points = 1;
    for (uint32_t i = 0; i < s->n; i++)
        points *= s->knobs[i].n;
    return points;
}

static const char *clause_at(const TuneSpace *s, const Point *p, uint32_t knob)
{
    return s->knobs[knob].values[p->at[knob]].clause;
}

/* Values that the compiler takes by itself are not written: they may depend on others. */
const char *space_schedule(const TuneSpace *s, const Point *p, Arena *a)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < s->nfixed; i++)
        text_add(&t, "  %s\n", s->fixed[i]);
    for (uint32_t i = 0; i < s->n; i++)
        if (p->at[i] && clause_at(s, p, i))
            text_add(&t, "  %s\n", clause_at(s, p, i));
    return t.len ? arena_printf(a, "schedule %s {\n%s}\n", s->kernel, text_string(&t)) : "";
}

const char *space_clauses(const TuneSpace *s, const Point *p, Arena *a)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < s->n; i++)
        if (p->at[i] && clause_at(s, p, i))
            text_add(&t, "%s%s", t.len ? "; " : "", clause_at(s, p, i));
    return t.len ? text_string(&t) : "the default";
}

int space_keeps_bits(const TuneSpace *s, const Point *p)
{
    int keeps = 1;
    for (uint32_t i = 0; i < s->n; i++)
        keeps &= !p->at[i] || s->knobs[i].values[p->at[i]].keeps_bits;
    return keeps;
}

/* Half of the knobs stay as they are: far from the default most points are bad. */
Point space_random(const TuneSpace *s, Random *r)
{
    Point p = {{0}};
    for (uint32_t i = 0; i < s->n; i++)
        if (random_below(r, 2))
            p.at[i] = (uint8_t)random_below(r, s->knobs[i].n);
    return p;
}

/* The value of an ordered knob that is `step` places further in the order of numbers; the present one if there is none. */
static uint8_t step_from(const SpaceKnob *k, uint8_t at, int step)
{
    uint8_t best = at;
    double from = k->values[at].number;
    for (uint32_t i = 0; i < k->n; i++) {
        double d = (k->values[i].number - from) * step;
        if (d > 0 && (best == at || d < (k->values[best].number - from) * step))
            best = (uint8_t)i;
    }
    return best;
}

static uint32_t add(Point p, uint32_t knob, uint8_t value, Point *out, uint32_t n, uint32_t most)
{
    if (value == p.at[knob] || n == most)
        return n;
    p.at[knob] = value;
    out[n] = p;
    return n + 1;
}

uint32_t space_neighbours(const TuneSpace *s, const Point *p, Point *out, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const SpaceKnob *k = &s->knobs[i];
        if (k->ordered) {
            n = add(*p, i, step_from(k, p->at[i], -1), out, n, most);
            n = add(*p, i, step_from(k, p->at[i], 1), out, n, most);
        }
        for (uint32_t v = 0; v < k->n && !k->ordered; v++)
            n = add(*p, i, (uint8_t)v, out, n, most);
    }
    return n;
}

int space_next(const TuneSpace *s, Point *p)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (++p->at[i] < s->knobs[i].n)
            return 1;
        p->at[i] = 0;
    }
    return 0;
}

int space_same(const TuneSpace *s, const Point *a, const Point *b) { return memcmp(a->at, b->at, s->n) == 0; }
