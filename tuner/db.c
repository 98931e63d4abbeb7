/* `moec db`: what the records have. */
#include "tuner/tuner.h"

#include "base/gnuplot.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

static const char *const states[] = {[MOEC_TRIED] = "tried",
                                     [MOEC_BEST] = "best",
                                     [MOEC_KEPT] = "default",
                                     [MOEC_FAILED] = "failed",
                                     [MOEC_WRONG] = "wrong"};

static const char *state_of(const moec_record *r)
{
    return r->state >= MOEC_TRIED && r->state <= MOEC_WRONG ? states[r->state] : "unknown";
}

/* A visit of all records. */
typedef struct Db {
    const DbOptions *o;
    FILE *out;
    moec_context *context;
    moec_records *records;
    Arena *arena;
    int64_t count;
} Db;

/* Where nobody has tuned yet there is no file. NULL: there is one. */
static const char *missing(const Db *db)
{
    const char *path = db->o->path || !db->context ? db->o->path : moec_records_default(db->context);
    return path && access(path, F_OK) != 0 && errno == ENOENT ? path : NULL;
}

static int db_open(Db *db, const DbOptions *o, FILE *out, int write)
{
    *db = (Db){.o = o, .out = out, .context = moec_context_new(), .arena = arena_new()};
    const char *none = write ? NULL : missing(db);
    if (none)
        return fprintf(stderr, "moec: there are no records: %s does not exist\n", none), 1;
    if (!db->arena)
        return fprintf(stderr, "moec: out of memory\n"), 1;
    int failed = !db->context || moec_records_open(db->context, o->path, write, &db->records);
    if (failed)
        fprintf(stderr, "moec: %s", moec_error_text(db->context));
    return failed;
}

static int db_close(Db *db, int failed)
{
    if (failed && db->records)
        fprintf(stderr, "moec: %s: %s\n", moec_records_path(db->records), moec_records_error(db->records));
    moec_records_close(db->records);
    moec_context_free(db->context);
    arena_free(db->arena);
    return failed != 0;
}

/* ---- ls ---- */

/* What is in a file is anyone's. The texts live as long as the visit. */
static moec_record shown(Db *db, const moec_record *r)
{
    moec_record s = *r;
    s.content = text_shown(db->arena, r->content, "");
    s.kernel = text_shown(db->arena, r->kernel, "");
    s.target = text_shown(db->arena, r->target, "");
    s.machine = text_shown(db->arena, r->machine, "");
    s.build = text_shown(db->arena, r->build, "");
    s.sizes = text_shown(db->arena, r->sizes, "");
    s.routing = text_shown(db->arena, r->routing, "");
    s.why = text_shown(db->arena, r->why, "");
    s.schedule = text_shown(db->arena, r->schedule, "\n");
    return s;
}

static int list_one(void *user, const moec_record *record)
{
    Db *db = user;
    const moec_record s = shown(db, record), *r = &s;
    if (!db->o->all && r->state != MOEC_BEST && r->state != MOEC_KEPT)
        return 0;
    if (!db->count++)
        fprintf(db->out, "%6s %-8s %-16s %-12s %7s %10s %7s  %s\n", "id", "state", "kernel", "target",
                "threads", "ms", "ratio", "sizes, routing");
    fprintf(db->out, "%6lld %-8s %-16s %-12s %7d %10.4g %7.3f  %s%s%s\n", (long long)r->id, state_of(r),
            r->kernel, r->target, r->threads, 1e3 * r->seconds, r->ratio, r->sizes, *r->routing ? ", " : "",
            r->routing);
    return 0;
}

int db_list(const DbOptions *o, FILE *out)
{
    Db db = {.o = o, .context = moec_context_new()};
    const char *none = o->path ? NULL : missing(&db);
    if (none)
        fprintf(out, "there are no records: %s does not exist yet\n", none);
    moec_context_free(db.context);
    if (none)
        return 0;
    int failed = db_open(&db, o, out, 0);
    return db_close(&db, failed || moec_records_each(db.records, list_one, &db));
}

/* ---- show ---- */

static void show_time(FILE *out, const char *name, double seconds)
{
    if (!isnan(seconds))
        fprintf(out, "%-10s %.6g ms\n", name, 1e3 * seconds);
}

static int show_one(void *user, const moec_record *record)
{
    Db *db = user;
    const moec_record s = shown(db, record), *r = &s;
    char when[32] = "at no time that has a date"; /* in a damaged file */
    const time_t made = (time_t)r->made;
    struct tm date;
    if (r->id != db->o->id)
        return 0;
    db->count++;
    if (localtime_r(&made, &date))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &date);
    fprintf(db->out, "record     %lld, made %s: %s\n", (long long)r->id, when, state_of(r));
    fprintf(db->out, "kernel     %s of the program %s\n", r->kernel, r->content);
    fprintf(db->out, "at         %s%s%s, %d thread%s\n", r->sizes, *r->routing ? ", " : "", r->routing,
            r->threads, r->threads == 1 ? "" : "s");
    fprintf(db->out, "on         %s, %s, compiler %s\n", r->target, r->machine, r->build);
    show_time(db->out, "time", r->seconds);
    show_time(db->out, "default", r->default_seconds);
    show_time(db->out, "predicted", r->predicted);
    if (!isnan(r->ratio) && isfinite(r->high)) /* of few rounds there is no interval */
        fprintf(db->out, "ratio      %.4f, %.4f to %.4f, of %lld rounds\n", r->ratio, r->low, r->high,
                (long long)r->rounds);
    else if (!isnan(r->ratio))
        fprintf(db->out, "ratio      %.4f, of %lld rounds\n", r->ratio, (long long)r->rounds);
    fprintf(db->out, "%s%s%s%s", *r->why ? "why        " : "", r->why, *r->why ? "\n" : "", r->schedule);
    return 1;
}

int db_show(const DbOptions *o, FILE *out)
{
    Db db;
    int failed = db_open(&db, o, out, 0);
    failed = failed || moec_records_each(db.records, show_one, &db);
    if (!failed && !db.count) {
        fprintf(stderr, "moec: there is no record %lld\n", (long long)o->id);
        return db_close(&db, 0), 1;
    }
    return db_close(&db, failed);
}

/* ---- prune ---- */

int db_prune(const DbOptions *o, FILE *out)
{
    static const char program[] = "moe 1\nkernel k(out y: f32) { y = 0 }\n"; /* any, to be told the build */
    const moec_work work = {.path = "<build>", .text = program};
    moec_record own;
    int64_t removed = 0;
    Db db;
    int failed = db_open(&db, o, out, 1);
    if (!failed && moec_records_name(db.context, &work, NULL, &own)) {
        fprintf(stderr, "moec: %s", moec_error_text(db.context));
        return db_close(&db, 0), 1;
    }
    failed =
        failed || moec_records_prune(db.records, o->other_builds ? own.build : NULL,
                                     o->older > 0 ? (int64_t)time(NULL) - (int64_t)o->older : 0, &removed);
    if (!failed)
        fprintf(out, "%lld records removed\n", (long long)removed);
    return db_close(&db, failed);
}

/* ---- plot ---- */

static int put_point(void *user, const moec_record *r)
{
    Db *db = user;
    if (r->state != MOEC_TRIED || isnan(r->seconds))
        return 0;
    db->count++;
    fprintf(db->out, "%.9g %.9g %lld %.9g\n", 1e3 * r->predicted, 1e3 * r->seconds, (long long)r->made,
            r->ratio);
    return 0;
}

static const char picture[] =
    "set multiplot layout 2,1\nset grid\nset key left\n"
    "set title 'predicted and measured time of schedules'\nset logscale xy\nset xlabel 'predicted ms'\n"
    "set ylabel 'measured ms'\nplot $all using 1:2 with points pt 7 ps 0.4 title 'schedules', x title 'as "
    "predicted'\n"
    "unset logscale\nset title 'time of schedules to that of the default'\nset xlabel 'minutes'\nset ylabel "
    "'ratio'\n"
    "stats $all using 3 nooutput\nbest = 1e9\n"
    "plot $all using (($3-STATS_min)/60.):4 with points pt 7 ps 0.4 title 'tried', "
    "$all using (($3-STATS_min)/60.):(best = ($4 < best ? $4 : best)) with steps lw 2 title 'best so far'\n"
    "unset multiplot\n";

/* Points first, as a block of the script, so that one file has everything. */
static const char *draw(Db *db, Arena *a)
{
    Gnuplot g;
    const char *error = gnuplot_begin(&g, a, db->o->output, 900, 1000);
    if (error)
        return error;
    db->out = g.script;
    fprintf(g.script, "$all << END\n");
    if (moec_records_each(db->records, put_point, db))
        error = arena_printf(a, "%s: %s", moec_records_path(db->records), moec_records_error(db->records));
    fprintf(g.script, "END\n%s", picture);
    if (!error && !db->count)
        error = arena_printf(a, "there are no measured schedules in %s", moec_records_path(db->records));
    if (!error)
        return gnuplot_end(&g, a);
    gnuplot_drop(&g);
    return error;
}

int db_plot(const DbOptions *o)
{
    Db db;
    if (db_open(&db, o, NULL, 0))
        return db_close(&db, 1);
    Arena *a = arena_new();
    const char *error = a ? draw(&db, a) : "out of memory";
    if (error)
        fprintf(stderr, "moec: %s\n", error);
    if (a)
        arena_free(a);
    return db_close(&db, 0), error != NULL;
}
