/* Schedules that were tuned: which record of a kernel holds at given sizes.
 *
 * Note [Near enough] A record says something about the sizes, routing and threads at which it was made, and about what lies between
 * such. So the sizes that are asked for must lie inside the range of the records of the kernel with that routing, in each
 * dimension; the nearest of them counts, by the sum of the logarithms of the ratios, if no dimension is more than NEAR
 * times as large or small. Routings are alike if they have the same words and numbers that differ by a quarter at most. Records of
 * another compiler, instruction set or kind of CPU say nothing. */
#include "driver/driver.h"

#include "frontend/frontend.h"
#include "records/records.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double NEAR = 2, ROUTING_NEAR = 1.25;

/* ---- names ---- */

const char *tuned_build(Arena *a)
{
    return arena_printf(a, "%s LLVM %s %s", MOEC_VERSION, MOEC_LLVM_VERSION, compiler_identity);
}

const char *tuned_machine(Arena *a)
{
    CpuId id;
    cpu_id(&id);
    return arena_printf(a, "%.12s %u %u", id.vendor, id.family, id.model);
}

const char *tuned_content(Compilation *c)
{
    Text t = {.arena = c->arena};
    char hex[33];
    text_add(&t, "level %d\n", c->options.level);
    ir_digest(c->module, &t);
    hash_hex(text_string(&t), t.len, hex);
    return arena_strndup(c->arena, hex, 32);
}

const char *tuned_path(Compilation *c)
{
    const char *named = secure_getenv("MOE_TUNED");
    if (named && strcmp(named, "off") == 0)
        return NULL;
    if (named && *named)
        return arena_strdup(c->arena, named);
    const char *folder = cache_directory(c->options.cache_dir, c->arena);
    return folder ? arena_printf(c->arena, "%s/tuned.db", folder) : NULL;
}

size_t tuned_split(const char *text, const char **routing)
{
    static const char word[] = "routing=";
    const char *at = strstr(text, word);
    int begins = at && (at == text || strchr(", ", at[-1]));
    size_t len = begins ? (size_t)(at - text) : strlen(text);
    while (len && strchr(", ", text[len - 1]))
        len--;
    *routing = begins ? at + strlen(word) : NULL;
    return len;
}

const char *tuned_sizes(Module *m, const char *text, int64_t *sizes, TestRun *run)
{
    const char *routing;
    size_t len = tuned_split(text, &routing);
    for (DimId d = 0; d < m->dims.len; d++)
        sizes[d] = m->dims.at[d].constant;
    *run = (TestRun){0};
    const char *error = len ? frontend_sizes(m, arena_strndup(m->arena, text, len), sizes) : NULL;
    return error || !routing ? error : frontend_routing(m, routing, run);
}

/* ---- the record that holds ---- */

typedef struct TunedRecord {
    moec_record record;
    int64_t *sizes;
    double far; /* from what is asked */
} TunedRecord;

/* A kernel of the program that has records. */
typedef struct TunedKernel {
    const char *name;
    int ours; /* some are of this compiler and machine */
} TunedKernel;

typedef struct TunedQuery {
    Compilation *c;
    int64_t *sizes;
    TestRun run;
    const char *build, *machine, *target;
    Vec(TunedRecord) known; /* of this compiler and machine, with this routing and thread count */
    Vec(TunedKernel) kernels;
} TunedQuery;

static int is_near(double a, double b, double most) { return a <= b * most && b <= a * most; }

static int same_routing(const TestRun *a, const TestRun *b)
{
    uint32_t n = a->routings.len;
    int same = n == b->routings.len;
    for (uint32_t i = 0; same && i < n; i++) {
        const TestRouting *x = &a->routings.at[i], *y = &b->routings.at[i];
        same =
            x->kind == y->kind && is_near(x->value, y->value, ROUTING_NEAR) && x->counts.len == y->counts.len;
        for (uint32_t e = 0; same && e < x->counts.len; e++)
            same = is_near((double)x->counts.at[e], (double)y->counts.at[e], ROUTING_NEAR);
    }
    return same;
}

/* "uniform" is what no routing means. */
static TestRun plain(const TestRun *run)
{
    TestRun out = *run;
    if (out.routings.len == 1 && out.routings.at[0].kind == ROUTING_UNIFORM)
        out.routings.len = 0;
    return out;
}

static int is_ours(const TunedQuery *q, const moec_record *r)
{
    return strcmp(r->build, q->build) == 0 && strcmp(r->machine, q->machine) == 0 &&
           strcmp(r->target, q->target) == 0;
}

static TunedKernel *add_kernel(TunedQuery *q, const char *name)
{
    for (uint32_t i = 0; i < q->kernels.len; i++)
        if (strcmp(q->kernels.at[i].name, name) == 0)
            return &q->kernels.at[i];
    vec_push(q->c->arena, &q->kernels, (TunedKernel){.name = arena_strdup(q->c->arena, name)});
    return &q->kernels.at[q->kernels.len - 1];
}

static int take_record(void *user, const moec_record *r)
{
    TunedQuery *q = user;
    Module *m = q->c->module;
    TestRun run = {0};
    if (r->state != MOEC_BEST && r->state != MOEC_KEPT)
        return 0;
    TunedKernel *kernel = add_kernel(q, r->kernel);
    if (!is_ours(q, r))
        return 0;
    kernel->ours = 1;
    TunedRecord out = {.record = *r, .sizes = arena_array(m->arena, int64_t, m->dims.len + 1)};
    out.record.kernel = kernel->name;
    out.record.schedule = arena_strdup(q->c->arena, r->schedule);
    out.record.sizes = arena_strdup(q->c->arena, r->sizes);
    out.record.routing = arena_strdup(q->c->arena, r->routing);
    if (r->threads != (q->c->options.tuned_threads ? abs(q->c->options.tuned_threads) : 1) ||
        tuned_sizes(m, r->sizes, out.sizes, &run) || (*r->routing && frontend_routing(m, r->routing, &run)))
        return 0;
    run = plain(&run);
    if (same_routing(&run, &q->run))
        vec_push(q->c->arena, &q->known, out);
    return 0;
}

/* Does the size of d lie between those of the kernel's records? */
static int is_inside(const TunedQuery *q, const char *kernel, DimId d)
{
    int64_t least = INT64_MAX, most = -1;
    for (uint32_t i = 0; i < q->known.len; i++) {
        const TunedRecord *r = &q->known.at[i];
        if (strcmp(r->record.kernel, kernel) != 0 || r->sizes[d] < 0)
            continue;
        least = r->sizes[d] < least ? r->sizes[d] : least;
        most = r->sizes[d] > most ? r->sizes[d] : most;
    }
    return most < 0 || (q->sizes[d] >= least && q->sizes[d] <= most);
}

/* Infinite: too far. A dimension that the record does not have is none of the kernel's. */
static double distance(const TunedQuery *q, const TunedRecord *r)
{
    double sum = 0;
    for (DimId d = 0; d < q->c->module->dims.len; d++) {
        double a = (double)q->sizes[d], b = (double)r->sizes[d];
        if (r->sizes[d] < 0 || q->sizes[d] == r->sizes[d])
            continue;
        if (q->sizes[d] <= 0 || r->sizes[d] <= 0 || !is_near(a, b, NEAR))
            return INFINITY;
        sum += fabs(log(a / b));
    }
    return sum;
}

/* Of equally near ones the last that was made. */
static const TunedRecord *nearest(TunedQuery *q, const char *kernel)
{
    const TunedRecord *best = NULL;
    for (uint32_t i = 0; i < q->known.len; i++) {
        TunedRecord *r = &q->known.at[i];
        r->far = strcmp(r->record.kernel, kernel) == 0 ? distance(q, r) : INFINITY;
        if (r->far < INFINITY && (!best || r->far <= best->far))
            best = r;
    }
    return best;
}

static const char *why_none(const TunedQuery *q, const TunedKernel *kernel)
{
    for (uint32_t i = 0; i < q->known.len; i++)
        if (strcmp(q->known.at[i].record.kernel, kernel->name) == 0)
            return "its records are of other sizes";
    return kernel->ours ? "its records are of another routing or thread count"
                        : "its records are of another compiler, instruction set or kind of CPU";
}

/* Whoever names the calls counts on a schedule. */
static void warn(Compilation *c, const char *help, const char *why)
{
    diag_add(&c->diags, DIAG_tuned_unread, (Loc){0}, help, "%s", why);
    text_add(&c->tuned, "%s\n", why);
}

/* That records are of other calls can be mended by who names the calls; that they are of another compiler cannot. */
static void settle_without(TunedQuery *q, const TunedKernel *kernel)
{
    const char *why =
        arena_printf(q->c->arena, "kernel %s: no tuned schedule: %s", kernel->name, why_none(q, kernel));
    if (kernel->ours)
        warn(q->c,
             "tune it for such calls, or name calls like those of its records, which `moec db ls` lists",
             why);
    else
        text_add(&q->c->tuned, "%s\n", why);
}

/* Schedules that hold, and what messages call them. */
typedef struct TunedSchedules {
    Text text, from;
} TunedSchedules;

static void settle(TunedQuery *q, const char *path, const TunedKernel *kernel, TunedSchedules *schedules)
{
    const Module *m = q->c->module;
    const TunedRecord *r = nearest(q, kernel->name);
    for (DimId d = 0; r && d < m->dims.len; d++)
        if (r->sizes[d] >= 0 && !is_inside(q, kernel->name, d))
            r = NULL;
    if (!r) {
        settle_without(q, kernel);
        return;
    }
    const moec_record *found = &r->record;
    text_add(&schedules->text, "%s", found->schedule);
    if (*found->schedule)
        text_add(&schedules->from, schedules->from.len ? ", record %lld" : "schedule of record %lld",
                 (long long)found->id);
    text_add(&q->c->tuned, "kernel %s: %s, record %lld of %s: at %s%s%s ", kernel->name,
             found->state == MOEC_BEST ? "a tuned schedule" : "the default", (long long)found->id, path,
             found->sizes, *found->routing ? ", " : "", found->routing);
    if (found->state == MOEC_BEST)
        text_add(&q->c->tuned, "it took %.3f of the default's time (%.3f to %.3f)\n", found->ratio,
                 found->low, found->high);
    else
        text_add(&q->c->tuned, "nothing was faster\n");
}

/* Which nobody who compiles needs to be able to write. */
static const char *system_path(void)
{
    const char *named = secure_getenv("MOE_TUNED_SYSTEM");
    return named && *named ? named : MOEC_TUNED_SYSTEM;
}

/* A database that cannot be read costs only what it would have brought. */
static void read_records(TunedQuery *q, const char *path, RecordsMode mode, TunedSchedules *schedules)
{
    Records *records;
    if (!path || access(path, R_OK) != 0)
        return;
    const char *error = records_open(path, mode, q->c->arena, &records);
    if (!error && records_each(records, tuned_content(q->c), take_record, q))
        error = arena_printf(q->c->arena, "%s: %s", path, records_error(records));
    records_close(records);
    if (error)
        warn(q->c, "move the file away, or name another one by MOE_TUNED",
             arena_printf(q->c->arena, "no tuned schedules: %s", error));
    for (uint32_t i = 0; !error && i < q->kernels.len; i++)
        settle(q, path, &q->kernels.at[i], schedules);
    if (schedules->from.len)
        text_add(&schedules->from, " of %s", path);
}

static const char *open_query(Compilation *c, TunedQuery *q)
{
    Module *m = c->module;
    *q = (TunedQuery){.c = c, .sizes = arena_array(m->arena, int64_t, m->dims.len + 1)};
    q->build = tuned_build(c->arena);
    q->machine = c->machine ? c->machine->name : tuned_machine(c->arena);
    q->target = compile_is_npu(c) ? c->machine->name : cpu_table[c->isas.at[0]].name;
    const char *error = tuned_sizes(m, c->options.tuned_for, q->sizes, &q->run);
    q->run = plain(&q->run);
    return error;
}

const char *tuned_schedules(Compilation *c)
{
    TunedQuery q;
    TunedSchedules schedules = {.text = {.arena = c->arena}, .from = {.arena = c->arena}};
    const char *error = open_query(c, &q), *path = tuned_path(c), *off = secure_getenv("MOE_TUNED");
    if (error) {
        compile_fail(c, DIAG_driver_sizes,
                     arena_printf(c->arena, "--tuned-for=%s: %s", c->options.tuned_for, error));
        return NULL;
    }
    if (c->isas.n != 1) {
        warn(c, "name one by --target",
             "no tuned schedules: they are of one instruction set, and here are several");
        return NULL;
    }
    read_records(&q, path, RECORDS_READ, &schedules);
    if (!q.kernels.len && !(off && strcmp(off, "off") == 0))
        read_records(&q, system_path(), RECORDS_FROZEN, &schedules);
    if (!c->tuned.len)
        text_add(&c->tuned,
                 path ? "no tuned schedules: no record of this program in %s\n" : "no tuned schedules: %s\n",
                 path ? path : "there is no place for records: MOE_TUNED is off, or there is no cache");
    c->tuned_from = schedules.text.len ? text_string(&schedules.from) : NULL;
    return schedules.text.len ? text_string(&schedules.text) : NULL;
}
