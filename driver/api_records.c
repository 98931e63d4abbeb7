/* The public functions about records of what was tuned. */
#include "driver/driver.h"
#include "driver/module.h"
#include "frontend/frontend.h"
#include "records/records.h"

#include <stdlib.h>
#include <string.h>

struct moec_records {
    Records *records;
    char *path;
};

typedef struct OpenRecords {
    const char *path;
    int write;
    moec_records *out;
} OpenRecords;

static int open_records(Compilation *c, void *user)
{
    OpenRecords *o = user;
    const char *path = o->path ? o->path : tuned_path(c);
    if (!path)
        return compile_fail(c, DIAG_driver_file,
                            "there is no place for records: MOE_TUNED is off, or there is no cache");
    const char *error =
        records_open(path, o->write ? RECORDS_WRITE : RECORDS_READ, c->arena, &o->out->records);
    o->out->path = error ? NULL : strdup(path);
    return error ? compile_fail(c, DIAG_driver_file, error) : DRIVER_OK;
}

int moec_records_open(moec_context *c, const char *path, int write, moec_records **out)
{
    if (out)
        *out = NULL;
    int status = api_begin(c, NULL, out ? NULL : "out");
    moec_records *r = status ? NULL : calloc(1, sizeof *r);
    OpenRecords o = {path, write, r};
    if (!status && r)
        status = compile_guard(api_compilation(c), open_records, &o);
    if (!r || status) {
        moec_records_close(r);
        return status ? status : DRIVER_ERROR;
    }
    *out = r;
    return DRIVER_OK;
}

static int find_default(Compilation *c, void *user)
{
    *(const char **)user = tuned_path(c);
    return DRIVER_OK;
}

const char *moec_records_default(moec_context *c)
{
    const char *path = NULL;
    if (!api_begin(c, NULL, NULL))
        compile_guard(api_compilation(c), find_default, &path);
    return path;
}

void moec_records_close(moec_records *r)
{
    if (!r)
        return;
    records_close(r->records);
    free(r->path);
    free(r);
}

const char *moec_records_path(const moec_records *r) { return r ? r->path : NULL; }
const char *moec_records_error(const moec_records *r)
{
    return r ? records_error(r->records) : "there are no records";
}
int moec_records_add(moec_records *r, const moec_record *record)
{
    return !r || !record || records_add(r->records, record);
}

int moec_records_each(moec_records *r, int (*f)(void *user, const moec_record *record), void *user)
{
    return !r || !f || records_each(r->records, NULL, f, user);
}

int moec_records_prune(moec_records *r, const char *build, int64_t before, int64_t *removed)
{
    int64_t n = 0;
    int bad = !r || records_prune(r->records, build, before, &n);
    if (removed)
        *removed = n;
    return bad;
}

/* ---- what names a case ---- */

typedef struct NameRecord {
    const moec_work *work;
    moec_record *out;
} NameRecord;

static const char *sizes_text(const Module *m, const int64_t *sizes)
{
    Text t = {.arena = m->arena};
    for (DimId d = 0; d < m->dims.len; d++)
        if (sizes[d] >= 0 && m->dims.at[d].constant < 0)
            text_add(&t, "%s%s=%lld", t.len ? " " : "", m->dims.at[d].name, (long long)sizes[d]);
    return text_string(&t);
}

static int name_record(Compilation *c, void *user)
{
    const NameRecord *n = user;
    const moec_work *w = n->work;
    if (compile_prepare(c))
        return DRIVER_ERROR;
    Module *m = c->module;
    int64_t *sizes = arena_array(c->arena, int64_t, m->dims.len + 1);
    TestRun run;
    const char *error = tuned_sizes(m, w->sizes ? w->sizes : "", sizes, &run);
    if (!error && w->routing)
        error = frontend_routing(m, w->routing, &run);
    if (error)
        return compile_fail(c, DIAG_driver_sizes, error);
    const char *first = m->kernels.len ? m->kernels.at[0]->name : "",
               *routing = w->routing ? w->routing : "uniform";
    *n->out = (moec_record){.content = tuned_content(c),
                            .kernel = arena_printf(c->arena, "%s", w->kernel ? w->kernel : first),
                            .target = compile_is_npu(c) ? c->machine->name : cpu_table[c->isas.at[0]].name,
                            .machine = c->machine ? c->machine->name : tuned_machine(c->arena),
                            .build = tuned_build(c->arena),
                            .sizes = sizes_text(m, sizes),
                            .routing = m->groups.len ? arena_printf(c->arena, "%s", routing) : "",
                            .schedule = "",
                            .why = "",
                            .threads = w->threads ? abs(w->threads) : 1};
    return DRIVER_OK;
}

int moec_records_name(moec_context *c, const moec_work *w, const moec_options *o, moec_record *out)
{
    NameRecord n = {w, out};
    int status = api_begin_work(c, w, o, out, "out");
    if (!status)
        status = api_read_work(c, w);
    return status ? status : compile_guard(api_compilation(c), name_record, &n);
}
