/* Cells of an experiment, and the schedules of their points: given, drawn from the space, or found by a tuner. */
#include "tuner/experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int is_blank(char c) { return (unsigned char)c <= ' '; }

const char *experiment_line(Arena *a, const char *text)
{
    size_t n = strlen(text), whole = n;
    while (n && is_blank(text[n - 1]))
        n--;
    char *line = arena_strndup(a, text, n);
    for (char *p = line; *p; p++)
        if (is_blank(*p))
            *p = ' ';
    return n == whole && strcmp(line, text) == 0 ? text : line;
}

/* ---- cells ---- */

static void keep_name(Arena *a, moec_record *name)
{
    name->content = arena_strdup(a, name->content);
    name->kernel = arena_strdup(a, name->kernel);
    name->target = arena_strdup(a, name->target);
    name->machine = arena_strdup(a, name->machine);
    name->build = arena_strdup(a, name->build);
    name->sizes = arena_strdup(a, name->sizes);
    name->routing = arena_strdup(a, name->routing);
}

/* Of a changed copy of a description the user knows the path of the original. */
static const char *error_about(const GridRun *g, const GridValue *machine)
{
    const char *text = moec_error_text(g->context);
    const char *at = machine->changed ? strstr(text, machine->text) : NULL;
    return at ? arena_printf(g->e.arena, "%.*s%s with other figures%s", (int)(at - text), text,
                             machine->changed, at + strlen(machine->text))
              : text;
}

const char *cell_of(GridRun *g, const GridPoint *p, GridCell *out)
{
    const Experiment *e = &g->e;
    const GridValue *kernel = grid_value(e, p, GRID_kernels);
    *out = (GridCell){.point = *p};
    out->point.at[GRID_schedules] = 0;
    out->work = (moec_work){.path = kernel->text,
                            .kernel = kernel->kernel,
                            .sizes = grid_value(e, p, GRID_sizes)->text,
                            .routing = grid_value(e, p, GRID_routings)->text,
                            .seed = e->seed,
                            .threads = -grid_value(e, p, GRID_threads)->threads};
    out->options = (moec_options){.target = grid_value(e, p, GRID_targets)->text,
                                  .machine = grid_value(e, p, GRID_machines)->text};
    if (moec_records_name(g->context, &out->work, &out->options, &out->name))
        return arena_printf(e->arena, "%s: %s", e->file, error_about(g, grid_value(e, p, GRID_machines)));
    keep_name(e->arena, &out->name);
    return NULL;
}

static const char *now_text(Arena *a)
{
    char text[32] = "";
    time_t now = time(NULL);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime(&now));
    return arena_strdup(a, text);
}

GridRow cell_row(const GridRun *g, const GridCell *c, uint32_t schedule)
{
    GridPoint p = c->point;
    p.at[GRID_schedules] = schedule;
    GridRow r = row_of(&g->e, &p);
    r.isa = c->name.target;
    r.cpu = c->name.machine;
    r.build = c->name.build;
    r.content = c->name.content;
    r.made = now_text(g->e.arena);
    if (getloadavg(&r.load, 1) != 1)
        r.load = NAN;
    return r;
}

/* ---- drawn ---- */

static int same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static int is_new(const char (*digests)[33], uint32_t n, const char *digest)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(digests[i], digest) == 0)
            return 0;
    return 1;
}

/* Points that fit and come to different programs, none of them the default's. */
static void draw_points(GridRun *g, const GridCell *c, const TuneSpace *space, GridDraw *d)
{
    enum { TRIES = 20 /* for each point that is wanted */ };
    Random random = random_new(d->seed);
    char(*digests)[33] = arena_alloc(g->e.arena, (GRID_VALUES + 1) * sizeof *digests);
    moec_options o = c->options;
    if (moec_decide(g->context, &c->work, &o, digests[0]))
        return;
    for (int tries = 0; tries < TRIES * GRID_VALUES && d->texts.len < GRID_VALUES; tries++) {
        Point p = space_random(space, &random);
        uint32_t n = d->texts.len + 1;
        o.schedule = space_schedule(space, &p, g->e.arena);
        if (*o.schedule && !moec_decide(g->context, &c->work, &o, digests[n]) &&
            is_new((const char(*)[33])digests, n, digests[n]))
            vec_push(g->e.arena, &d->texts, experiment_line(g->e.arena, o.schedule));
        else if (tries > TRIES * (int)n + TRIES)
            return;
    }
}

static const char *draw(GridRun *g, const GridCell *c, GridDraw *d)
{
    TuneSpace space;
    const char *json;
    if (moec_space(g->context, &c->work, &c->options, &json))
        return arena_strdup(g->e.arena, moec_error_text(g->context));
    const char *error = space_read(json, d->keep_bits, g->e.arena, &space);
    if (!error)
        draw_points(g, c, &space, d);
    return error;
}

static const GridDraw *find_draw(GridRun *g, const GridDraw *wanted)
{
    for (uint32_t i = 0; i < g->draws.len; i++) {
        const GridDraw *d = &g->draws.at[i];
        if (same_text(d->path, wanted->path) && same_text(d->kernel, wanted->kernel) &&
            same_text(d->target, wanted->target) && same_text(d->machine, wanted->machine) &&
            d->seed == wanted->seed && d->keep_bits == wanted->keep_bits)
            return d;
    }
    return NULL;
}

static const char *drawn(GridRun *g, const GridCell *c, const GridValue *v, const char **why)
{
    GridDraw d = {.path = c->work.path,
                  .kernel = c->work.kernel,
                  .target = c->options.target,
                  .machine = c->options.machine,
                  .seed = v->seed,
                  .keep_bits = v->keep_bits};
    const GridDraw *known = find_draw(g, &d);
    *why = known ? NULL : draw(g, c, &d);
    if (!known && !*why) {
        vec_push(g->e.arena, &g->draws, d);
        known = &g->draws.at[g->draws.len - 1];
    }
    if (known && v->drawn <= known->texts.len)
        return known->texts.at[v->drawn - 1];
    *why = *why ? *why : "the space has no more schedules";
    return NULL;
}

/* ---- tuned ---- */

/* Where a search for these words on the axes was made, it is not made again. */
static GridRow tuned_row(const GridRun *g, const GridCell *c, const GridValue *v, uint32_t schedule)
{
    GridRow r = cell_row(g, c, schedule);
    r.state = "tuned";
    r.axis[GRID_routings] = v->routing ? v->routing : r.axis[GRID_routings];
    return r;
}

static const GridRow *find_tuned(const GridRows *rows, const GridRow *wanted)
{
    for (uint32_t i = 0; i < rows->rows.len; i++) {
        const GridRow *r = &rows->rows.at[i];
        int same = strcmp(r->state, "tuned") == 0;
        for (GridAxisId k = 0; k < GRID_AXES && same; k++)
            same = strcmp(r->axis[k], wanted->axis[k]) == 0;
        if (same)
            return r;
    }
    return NULL;
}

static const char *search(Tuning *t, const GridValue *v, GridRow *row)
{
    t->begin = clock_seconds();
    t->end = t->begin + v->budget;
    const char *error = tuning_begin(t);
    if (error)
        return error;
    if (t->space.n)
        strategy_find(t->o->strategy)->run(&t->search);
    const Trial *winner = search_duel(&t->search);
    row->clauses = winner->number ? experiment_line(t->arena, winner->schedule) : "";
    row->ratio = winner->ratio.ratio;
    row->low = winner->ratio.low;
    row->high = winner->ratio.high;
    row->seconds = winner->number ? winner->seconds : t->search.trials.at[0]->seconds;
    row->rounds = (int64_t)winner->mine.len;
    return t->broken;
}

static const char *tuned(GridRun *g, const GridCell *c, uint32_t schedule, const char **why)
{
    const GridValue *v = &g->e.axes[GRID_schedules].values.at[schedule];
    GridRow row = tuned_row(g, c, v, schedule);
    const GridRow *known = find_tuned(&g->rows, &row);
    if (known)
        return known->clauses;
    const TuneOptions o = {.work = c->work,
                           .options = c->options,
                           .machine = c->options.machine,
                           .strategy = "halving",
                           .seed = v->seed,
                           .keep_bits = v->keep_bits,
                           .stop = g->o->stop};
    Tuning t = {.o = &o, .arena = g->e.arena, .context = g->context, .work = c->work};
    t.work.routing = v->routing ? v->routing : c->work.routing;
    *why = search(&t, v, &row);
    tuning_end(&t);
    if (!*why && !grid_is_stopped(g))
        g->error = rows_add(&g->rows, &row, 1);
    return *why ? NULL : row.clauses;
}

/* ---- all ---- */

const char *grid_schedule(GridRun *g, const GridCell *c, uint32_t schedule, const char **why)
{
    const GridValue *v = &g->e.axes[GRID_schedules].values.at[schedule];
    *why = NULL;
    if (!schedule)
        return "";
    if (v->drawn)
        return drawn(g, c, v, why);
    if (v->budget > 0)
        return tuned(g, c, schedule, why);
    return strncmp(v->text, "schedule ", 9) == 0
               ? experiment_line(g->e.arena, v->text)
               : arena_printf(g->e.arena, "schedule %s { %s }", c->name.kernel, v->text);
}
