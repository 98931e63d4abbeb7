/* A run of an experiment: what is missing is measured, and the report written. */
#include "tuner/experiment.h"

#include "base/json.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ---- */

static const char *folder_of(Arena *a, const ExperimentOptions *o)
{
    static const char ending[] = ".json";
    if (o->out)
        return o->out;
    return text_ends(o->file, ending) ? arena_strndup(a, o->file, strlen(o->file) - strlen(ending))
                                      : arena_printf(a, "%s.rows", o->file);
}

static const char *cannot(Arena *a, const char *path)
{
    return arena_printf(a, "%s: cannot be written: %s", path, strerror(errno));
}

const char *experiment_write(Arena *a, const char *path, const char *text)
{
    FileWriter w = file_create(a, path);
    file_append(&w, text, strlen(text));
    return file_commit(&w);
}

/* The copy of the file beside the rows; NULL: there is none. */
static const char *read_copy(Arena *a, const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    return root ? json_line(a, root) : NULL;
}

static const char *open_folder(const ExperimentOptions *o, const Experiment *e, const char *folder)
{
    Arena *a = e->arena;
    const char *copy = arena_printf(a, "%s/experiment.json", folder),
               *rows = arena_printf(a, "%s/rows.csv", folder);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return cannot(a, folder);
    if (o->again && ((unlink(copy) && errno != ENOENT) || (unlink(rows) && errno != ENOENT)))
        return cannot(a, rows);
    const char *known = read_copy(a, copy);
    if (known && strcmp(known, e->text) != 0)
        return arena_printf(
            a,
            "%s: its rows are of another experiment than %s, or that has changed: --again throws them "
            "away, --out=FOLDER keeps both",
            folder, o->file);
    if (!known && access(rows, F_OK) == 0)
        return arena_printf(a, "%s: nothing says what experiment its rows are of: --again throws them away",
                            folder);
    return known ? NULL : experiment_write(a, copy, e->text);
}

/* ---- cells ---- */

static unsigned all_cells(void) { return ((1U << GRID_AXES) - 1) & ~(1U << GRID_schedules); }

/* A row of another compiler, program or computer does not belong to those that would be added. */
static const char *check_row(const GridRun *g, const GridCell *c, const GridRow *r)
{
    const char *what = strcmp(r->content, c->name.content) != 0 ? "another text of the kernel"
                       : strcmp(r->build, c->name.build) != 0   ? "another build of the compiler"
                       : strcmp(r->cpu, c->name.machine) != 0   ? "another kind of CPU"
                                                                : NULL;
    return what ? arena_printf(
                      g->e.arena,
                      "%s: has rows of %s, which do not belong to new ones: --again throws them away, "
                      "--out=FOLDER keeps both",
                      g->rows.path, what)
                : NULL;
}

/* That there is such a kernel, and that it fits the machine, hangs on neither sizes nor routing. */
static const char *check_kernel(GridRun *g, const GridCell *c)
{
    char digest[33];
    const uint32_t *at = c->point.at;
    if (at[GRID_sizes] || at[GRID_routings] || at[GRID_threads] ||
        !moec_decide(g->context, &c->work, &c->options, digest))
        return NULL;
    return arena_printf(g->e.arena, "%s: %s", g->e.file, moec_error_text(g->context));
}

static const char *check_cell(GridRun *g, const GridPoint *p)
{
    GridCell c;
    GridPoint at = *p;
    const char *error = cell_of(g, p, &c);
    error = error ? error : check_kernel(g, &c);
    do {
        const GridRow *r = error ? NULL : rows_find(&g->rows, &g->e, &at, NULL);
        g->done += r != NULL;
        error = r ? check_row(g, &c, r) : error;
    } while (!error && grid_next(&g->e, &at, 1U << GRID_schedules));
    return error;
}

/* Before anything is measured, so that nonsense is refused at once. */
static const char *check_cells(GridRun *g)
{
    GridPoint p = {{0}};
    const char *error;
    do
        error = check_cell(g, &p);
    while (!error && grid_next(&g->e, &p, all_cells()));
    return error;
}

/* Clauses that fit one kernel may be wrong for another, which its rows say; what fits none is nonsense. */
static const char *check_schedule(GridRun *g, uint32_t schedule)
{
    GridPoint p = {{0}};
    GridCell c;
    const char *why, *refused = NULL;
    char digest[33];
    do {
        const char *error = cell_of(g, &p, &c);
        if (error)
            return error;
        moec_options o = c.options;
        o.schedule = grid_schedule(g, &c, schedule, &why);
        if (!moec_decide(g->context, &c.work, &o, digest))
            return NULL;
        refused = refused ? refused
                          : arena_strndup(g->e.arena, moec_error_text(g->context),
                                          strlen(moec_error_text(g->context)));
    } while (grid_next(&g->e, &p, 1U << GRID_kernels | 1U << GRID_machines | 1U << GRID_targets));
    return arena_printf(g->e.arena, "%s: schedules: \"%s\" fits no kernel: %s", g->e.file,
                        g->e.axes[GRID_schedules].values.at[schedule].text, refused);
}

static const char *check_schedules(GridRun *g)
{
    const char *error = NULL;
    for (uint32_t i = 1; i < g->e.axes[GRID_schedules].values.len && !error; i++)
        if (g->e.axes[GRID_schedules].values.at[i].text)
            error = check_schedule(g, i);
    return error;
}

/* The cells that take turns with that at p. */
static void run_race(GridRun *g, GridPoint p)
{
    GridCell cells[GRID_CELLS];
    size_t n = 0;
    do
        g->error = cell_of(g, &p, &cells[n++]);
    while (!g->error && grid_next(&g->e, &p, grid_beside(&g->e)));
    if (!g->error)
        grid_race(g, cells, n);
}

static void run_all(GridRun *g)
{
    GridPoint p = {{0}};
    do
        run_race(g, p);
    while (!grid_is_stopped(g) && grid_next(&g->e, &p, all_cells() & ~grid_beside(&g->e)));
    if (g->o->progress)
        fprintf(stderr, "\r\033[K");
}

/* ---- all ---- */

static void say_failures(const GridRun *g)
{
    for (uint32_t i = 0; i < g->rows.rows.len; i++) {
        const GridRow *r = &g->rows.rows.at[i];
        if (r->why && *r->why && strcmp(r->axis[GRID_schedules], "default") == 0)
            fprintf(stderr, "moec: %s %s %s: the default %s: %s\n", r->axis[GRID_kernels],
                    r->axis[GRID_sizes], r->axis[GRID_machines], r->state, r->why);
    }
}

static const char *finish(GridRun *g, const char *folder, size_t before)
{
    const char *error = g->error ? g->error : report_write(g, folder);
    say_failures(g);
    if (!error)
        fprintf(g->out, "%s/report.md: %zu of %zu points, %zu of them now%s\n", folder, g->done, g->all,
                g->done - before, g->done < g->all ? "; the same command goes on with the others" : "");
    return error;
}

static const char *run(GridRun *g, const char *folder)
{
    const ExperimentOptions *o = g->o;
    Arena *a = g->e.arena;
    g->all = (size_t)grid_points(&g->e, (1U << GRID_AXES) - 1);
    const char *error =
        o->only_report ? NULL : check_cells(g); /* without rows yet: nothing is made for nonsense */
    error = error || o->only_report ? error : check_schedules(g);
    g->done = 0;
    error = error || o->only_report ? error : open_folder(o, &g->e, folder);
    error = error ? error : rows_open(&g->rows, a, arena_printf(a, "%s/rows.csv", folder), !o->only_report);
    if (!error && !o->only_report)
        error = check_cells(g);
    g->before = g->done;
    if (!error && !o->only_report)
        run_all(g);
    for (uint32_t i = 0; !error && o->only_report && i < g->rows.rows.len; i++)
        g->before = g->done += strcmp(g->rows.rows.at[i].state, "tuned") != 0;
    error = error ? error : finish(g, folder, g->before);
    rows_close(&g->rows);
    return error;
}

int experiment(const ExperimentOptions *o, FILE *out)
{
    Arena *a = arena_new();
    GridRun g = {
        .o = o, .out = out, .context = moec_context_new(), .begin = clock_seconds(), .rows = {.fd = -1}};
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* of a worker that has gone; its pipe says so */
    const char *error = a && g.context ? experiment_read(o->file, a, &g.e) : "out of memory";
    if (!error)
        error = run(&g, folder_of(a, o));
    if (error)
        fprintf(stderr, "moec: %s%s", error, error[strlen(error) - 1] == '\n' ? "" : "\n");
    signal(SIGPIPE, before);
    experiment_close(&g.e);
    moec_context_free(g.context);
    if (a)
        arena_free(a);
    return error || g.failed;
}
