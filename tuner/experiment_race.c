/* The points of an experiment's cells: processes that take turns, and what models say. */
#include "tuner/experiment.h"
#include "tuner/candidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double confidence = 0.95, spin = 0.03, prepare_seconds = 300, predict_seconds = 300,
                    hang_seconds = 60;

int grid_is_stopped(const GridRun *g) { return g->error || (g->o->stop && *g->o->stop); }

/* ---- rows ---- */

static const GridRow *row_of_cell(const GridRun *g, const GridCell *c, uint32_t schedule)
{
    GridPoint p = c->point;
    p.at[GRID_schedules] = schedule;
    return rows_find(&g->rows, &g->e, &p, NULL);
}

static void draw_bar(const GridRun *g)
{
    enum { WIDTH = 20 };
    char bar[WIDTH + 1];
    size_t full = g->done * WIDTH / g->all, new = g->done - g->before;
    double left = new ? (clock_seconds() - g->begin) * (double)(g->all - g->done) / (double)new : 0;
    memset(bar, '.', WIDTH);
    memset(bar, '#', full);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %zu of %zu points", bar, g->done, g->all);
    if (new)
        fprintf(stderr, ", about %.0f s left", left);
    fprintf(stderr, "\033[K");
}

static void add_rows(GridRun *g, const GridRow *rows, size_t n)
{
    const char *error = rows_add(&g->rows, rows, n);
    g->error = g->error ? g->error : error;
    g->done += n;
    if (g->o->progress)
        draw_bar(g);
}

/* ---- processes that take turns ---- */

typedef struct GridRacer {
    const GridCell *cell;
    uint32_t schedule;
    const char *text;        /* its schedule block */
    const char *state, *why; /* of one that cannot be measured; else NULL */
    Worker *worker;
    double samples[GRID_ROUNDS];
    size_t rounds;
    const struct GridRacer *base; /* the default of its cell */
    char digest[33];
    int is_known; /* it has a row already, and only takes part */
    int is_default; /* of another name: a search has kept it. It has the default's samples, for noise is no difference */
} GridRacer;

static void start(GridRun *g, GridRacer *r)
{
    moec_options o = r->cell->options;
    o.schedule = r->text && *r->text ? r->text : NULL;
    if (!r->state && !r->is_default && !(r->worker = candidate_start(g->context, &r->cell->work, &o))) {
        r->state = "failed";
        r->why = "no process could be started for it";
    }
}

static void await(GridRun *g, GridRacer *r)
{
    if (!r->worker)
        return;
    const WorkerNews *news = worker_ready(r->worker, prepare_seconds);
    if (*news->text) {
        r->state = news->wrong ? "wrong" : "failed";
        r->why = arena_strndup(g->e.arena, news->text, strcspn(news->text, "\n"));
    }
    memcpy(r->digest, news->digest, sizeof r->digest);
    worker_patience(r->worker, hang_seconds);
}

/* One that fails is left out, and the others begin again. */
static void measure(GridRun *g, GridRacer *racers, size_t n)
{
    int failed = 1;
    while (failed) {
        moec_runner runners[GRID_RACERS];
        size_t who[GRID_RACERS], many = 0;
        moec_patience p = {.fewest = (size_t)g->e.rounds, .most = GRID_ROUNDS, .seconds = g->e.seconds};
        for (size_t i = 0; i < n; i++)
            if (!racers[i].state && !racers[i].is_default) {
                p.pause = racers[i].cell->work.threads == -1 ? p.pause : spin;
                runners[many] = (moec_runner){
                    .time = worker_time, .user = racers[i].worker, .samples = racers[i].samples};
                who[many++] = i;
            }
        failed = moec_measure(runners, many, &p);
        for (size_t i = 0; i < many; i++)
            racers[who[i]].rounds = runners[i].rounds;
        if (failed) {
            GridRacer *r = &racers[who[failed - 1]];
            r->state = "failed";
            r->why = arena_printf(g->e.arena, "%s", worker_end(r->worker));
        }
    }
}

/* Quartiles of the ratios of two that took turns. */
static moec_spread ratios_of(const GridRacer *r, const GridRacer *base)
{
    double ratios[GRID_ROUNDS];
    for (size_t i = 0; i < r->rounds; i++)
        ratios[i] = r->samples[i] / base->samples[i];
    return moec_spread_of(ratios, r->rounds);
}

static void put_ratios(const GridRacer *r, const GridRacer *first, GridRow *row)
{
    moec_spread own = ratios_of(r, r->base);
    moec_ratio sure = moec_compare(r->samples, r->base->samples, r->rounds, confidence);
    row->ratio = own.median, row->ratio_lower = own.lower, row->ratio_upper = own.upper;
    row->low = sure.low, row->high = sure.high;
    if (!first->state) {
        moec_spread other = ratios_of(r, first);
        row->first = other.median, row->first_lower = other.lower, row->first_upper = other.upper;
    }
}

static void take_default(GridRacer *r)
{
    memcpy(r->samples, r->base->samples, sizeof r->samples);
    memcpy(r->digest, r->base->digest, sizeof r->digest);
    r->rounds = r->base->rounds;
}

static GridRow row_of_racer(const GridRun *g, const GridRacer *r, const GridRacer *first)
{
    GridRow row = cell_row(g, r->cell, r->schedule);
    moec_spread s = moec_spread_of(r->samples, r->rounds);
    row.clauses = r->text;
    row.state = r->state ? r->state : r->base->state ? "failed" : "measured";
    row.why = r->state ? r->why : r->base->state ? "the default of its case cannot be measured" : NULL;
    if (r->state || r->base->state)
        return row;
    row.seconds = s.median, row.lower = s.lower, row.upper = s.upper;
    row.rounds = (int64_t)r->rounds;
    row.bits = strcmp(r->digest, r->base->digest) == 0 ? "same" : "other";
    put_ratios(r, first, &row);
    return row;
}

static void race(GridRun *g, GridRacer *racers, size_t n)
{
    GridRow rows[GRID_RACERS];
    size_t nrows = 0;
    for (size_t i = 0; i < n; i++)
        start(g, &racers[i]);
    for (size_t i = 0; i < n; i++)
        await(g, &racers[i]);
    measure(g, racers, n);
    for (size_t i = 0; i < n; i++) {
        if (racers[i].is_default)
            take_default(&racers[i]);
        g->failed += !racers[i].schedule && racers[i].state;
        if (!racers[i].is_known)
            rows[nrows++] = row_of_racer(g, &racers[i], &racers[0]);
        worker_free(racers[i].worker);
    }
    add_rows(g, rows, nrows);
}

/* ---- batches ---- */

typedef struct MissingPoint {
    const GridCell *cell;
    uint32_t schedule;
} MissingPoint;
typedef Vec(MissingPoint) MissingPoints;

/* Of all schedules but the default. */
static MissingPoints missing_schedules(const GridRun *g, const GridCell *cells, size_t n)
{
    MissingPoints list = {0};
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 1; s < g->e.axes[GRID_schedules].values.len; s++)
            if (!row_of_cell(g, &cells[i], s))
                vec_push(g->e.arena, &list, (MissingPoint){&cells[i], s});
    return list;
}

/* The defaults of all cells race in each batch, so that all ratios are of the same rounds. */
static void race_batch(GridRun *g, const GridCell *cells, size_t n, const MissingPoint *some, size_t nsome)
{
    GridRacer *racers = calloc(n + nsome, sizeof *racers);
    if (!racers) {
        g->error = "out of memory";
        return;
    }
    for (size_t i = 0; i < n; i++)
        racers[i] = (GridRacer){.cell = &cells[i],
                                .text = "",
                                .base = &racers[i],
                                .is_known = row_of_cell(g, &cells[i], 0) != NULL};
    for (size_t i = 0; i < nsome; i++) {
        GridRacer *r = &racers[n + i];
        *r = (GridRacer){
            .cell = some[i].cell, .schedule = some[i].schedule, .base = &racers[some[i].cell - cells]};
        r->text = grid_schedule(g, r->cell, r->schedule, &r->why);
        r->state = r->text ? NULL : "failed";
        r->is_default = r->text && !*r->text;
    }
    if (!grid_is_stopped(g)) /* a search that was stopped is no schedule */
        race(g, racers, n + nsome);
    free(racers);
}

static void race_on_clock(GridRun *g, const GridCell *cells, size_t n)
{
    MissingPoints list = missing_schedules(g, cells, n);
    size_t batch = GRID_RACERS - n;
    int any = 0;
    for (size_t at = 0; at < list.len && !grid_is_stopped(g); at += batch, any = 1)
        race_batch(g, cells, n, list.at + at, list.len - at < batch ? list.len - at : batch);
    for (size_t i = 0; i < n && !any && !grid_is_stopped(g); i++)
        if (!row_of_cell(g, &cells[i], 0)) {
            race_batch(g, cells, n, NULL, 0);
            any = 1;
        }
}

/* ---- models ---- */

static GridRow predicted_row(const GridRun *g, const MissingPoint *m, const char *text, double seconds,
                             const char *why, const GridCell *first)
{
    GridRow row = cell_row(g, m->cell, m->schedule);
    row.clauses = text;
    row.state = isnan(seconds) ? "failed" : "predicted";
    row.why = !isnan(seconds) ? NULL : why ? why : "the model cannot run it";
    row.seconds = seconds;
    const GridRow *base = m->schedule ? row_of_cell(g, m->cell, 0) : &row,
                  *other = m->cell == first && !m->schedule ? &row : row_of_cell(g, first, 0);
    row.ratio = base ? seconds / base->seconds : NAN;
    row.first = other ? seconds / other->seconds : NAN;
    return row;
}

/* As many as there are cores, at a time. */
static void predict_batch(GridRun *g, const MissingPoint *some, size_t n, const GridCell *first)
{
    Worker *workers[GRID_RACERS] = {NULL};
    GridRow rows[GRID_RACERS];
    const char *texts[GRID_RACERS], *why[GRID_RACERS];
    for (size_t i = 0; i < n; i++) {
        moec_options o = some[i].cell->options;
        texts[i] = grid_schedule(g, some[i].cell, some[i].schedule, &why[i]);
        o.schedule = texts[i] && *texts[i] ? texts[i] : NULL;
        workers[i] = texts[i] ? prediction_start(g->context, &some[i].cell->work, &o) : NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (workers[i]) {
            worker_ready(workers[i], prepare_seconds);
            worker_ask(workers[i], 1);
        }
    for (size_t i = 0; i < n; i++) {
        double seconds = NAN;
        if (workers[i]) {
            worker_patience(workers[i], predict_seconds);
            seconds = worker_answer(workers[i], 1);
        }
        rows[i] = predicted_row(g, &some[i], texts[i], seconds < 0 ? (double)NAN : seconds, why[i], first);
        g->failed += !some[i].schedule && isnan(rows[i].seconds);
        worker_free(workers[i]);
    }
    if (!grid_is_stopped(g))
        add_rows(g, rows, n);
}

static void predict_all(GridRun *g, const MissingPoints *list, const GridCell *first)
{
    const size_t cores = (size_t)computer_cores(), batch = cores < GRID_RACERS ? cores : GRID_RACERS;
    for (size_t at = 0; at < list->len && !grid_is_stopped(g); at += batch)
        predict_batch(g, list->at + at, list->len - at < batch ? list->len - at : batch, first);
}

/* The first default, to which all are compared, then the other ones, to which their cells are, then the rest. */
static void ask_model(GridRun *g, const GridCell *cells, size_t n)
{
    MissingPoints first = {0}, defaults = {0};
    for (size_t i = 0; i < n; i++)
        if (!row_of_cell(g, &cells[i], 0) && i)
            vec_push(g->e.arena, &defaults, (MissingPoint){&cells[i], 0});
        else if (!row_of_cell(g, &cells[i], 0))
            vec_push(g->e.arena, &first, (MissingPoint){&cells[i], 0});
    predict_all(g, &first, &cells[0]);
    predict_all(g, &defaults, &cells[0]);
    MissingPoints rest = missing_schedules(g, cells, n);
    predict_all(g, &rest, &cells[0]);
}

void grid_race(GridRun *g, const GridCell *cells, size_t n)
{
    if (cells[0].options.machine)
        ask_model(g, cells, n);
    else
        race_on_clock(g, cells, n);
}
