/* Who listens to calls: Note [Log of calls] in runtime/log.h. A call becomes two files in the format safetensors, NUMBER-KERNEL.in with
 * what it reads, written before it runs so that a crash leaves it, and NUMBER-KERNEL.out with what it wrote; and a line of calls.txt.
 * Metadata of the first: kernel, sizes, threads, and the program as a replay file; of the second: status, message, seconds. */
#include "base/json.h"
#include "driver/log.h"
#include "driver/module.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One call on its way into files. */
typedef struct CallLog {
    const LoggedCall *call;
    const char *folder, *base; /* base: the folder, the number, the kernel's name */
    Arena *arena;
    const moec_kernel *k;
    Vec(LogTensor) tensors;
} CallLog;

/* ---- what the environment asks for ---- */

static const char *folder_of_calls(void)
{
    const char *folder = secure_getenv(MOE_LOG_CALLS);
    return folder && *folder ? folder : NULL;
}

static int wanted_calls, other_calls; /* was there one that MOE_LOG_ONLY names, and one that it does not? */

static int is_wanted(const char *kernel)
{
    const char *only = getenv("MOE_LOG_ONLY");
    const int wanted = !only || !*only || text_lists(only, kernel);
    __atomic_store_n(wanted ? &wanted_calls : &other_calls, 1, __ATOMIC_RELAXED);
    return wanted;
}

/* Which kernels are called is only known at the end. */
__attribute__((destructor)) static void say_unmatched(void)
{
    const char *only = getenv("MOE_LOG_ONLY");
    if (only && other_calls && !wanted_calls)
        fprintf(stderr,
                "moec: MOE_LOG_ONLY is '%s', and no kernel of that name was called: nothing is logged\n",
                only);
}

enum { KEEP_DEFAULT = 100 };

/* How many calls of this process keep their files; 0: all. It is asked once for each process. */
static unsigned long kept_calls(void)
{
    enum { DIGITS = 9 };
    const char *keep = getenv("MOE_LOG_KEEP");
    if (!keep || !*keep)
        return KEEP_DEFAULT;
    const size_t digits = strspn(keep, "0123456789");
    if (!keep[digits] && digits <= DIGITS)
        return strtoul(keep, NULL, 10);
    fprintf(stderr,
            "moec: MOE_LOG_KEEP is '%s', and must be a whole number of calls below 10^%d: %d are kept\n",
            keep, DIGITS, KEEP_DEFAULT);
    return KEEP_DEFAULT;
}

void log_calls_of(const Loaded *code)
{
    LogListener **listener = folder_of_calls() ? code_symbol(code, "moec_log") : NULL;
    if (listener)
        *listener = moec_log_call;
}

/* ---- numbers of calls: files of one folder, which several processes may write ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The number after the last one in the folder. */
static unsigned long next_number(const char *folder)
{
    unsigned long last = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        unsigned long n = strtoul(e->d_name, NULL, 10);
        last = n > last ? n : last;
    }
    if (d)
        closedir(d);
    return last + 1;
}

static void drop_call(const char *base, Arena *a)
{
    unlink(arena_printf(a, "%s" LOG_IN, base));
    unlink(arena_printf(a, "%s" LOG_OUT, base));
}

/* Forgets the call that this process made `kept` calls before. */
static void drop_old(const char *base, Arena *a)
{
    static char **ring;
    static unsigned long kept, at;
    if (!ring) {
        kept = kept_calls();
        ring = calloc(kept + 1, sizeof *ring);
    }
    if (!kept || !ring)
        return;
    if (ring[at])
        drop_call(ring[at], a);
    free(ring[at]);
    ring[at] = strdup(base);
    at = (at + 1) % kept;
}

static const char *inputs_path(const CallLog *log)
{
    return arena_printf(log->arena, "%s" LOG_IN, log->base);
}

/* Takes a number by making the first file. Its descriptor, or -1 and errno. */
static int open_numbered(CallLog *log)
{
    static unsigned long next;
    int fd = -1;
    if (mkdir(log->folder, 0777) != 0 && errno != EEXIST)
        return -1;
    pthread_mutex_lock(&lock);
    next = next ? next : next_number(log->folder);
    do {
        log->base = arena_printf(log->arena, "%s/%06lu-%s", log->folder, next++, log->call->kernel);
        fd = open(inputs_path(log), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EEXIST);
    if (fd >= 0)
        drop_old(log->base, log->arena);
    pthread_mutex_unlock(&lock);
    return fd;
}

/* ---- what a call reads and writes ---- */

void log_route(Arena *a, const char *param, const moe_route *r, LogTensor out[4])
{
    const LogTensor fields[4] = {
        {"start", "I64", r->start, 8 * ((size_t)r->groups + 1), 1, {r->groups + 1}},
        {"count", "I64", r->count, 8 * (size_t)r->groups, 1, {r->groups}},
        {"slot_of", "I32", r->slot_of, 4 * (size_t)r->rows, 1, {r->rows}},
        {"row_of", "I32", r->row_of, 4 * (size_t)(r->tokens * r->choices), 2, {r->tokens, r->choices}}};
    for (int i = 0; i < 4; i++) {
        out[i] = fields[i];
        out[i].name = arena_printf(a, "%s.%s", param, fields[i].name);
    }
}

/* A route whose sizes are not the call's has no memory that may be read: the call refuses it. */
static void add_route(CallLog *log, const char *name, const moe_route *r, const int64_t *sizes)
{
    LogTensor fields[4];
    if (!r->start || !r->count || !r->slot_of || !r->row_of ||
        memcmp(&r->tokens, sizes, 4 * sizeof *sizes) != 0)
        return;
    log_route(log->arena, name, r, fields);
    for (int i = 0; i < 4; i++)
        vec_push(log->arena, &log->tensors, fields[i]);
}

static const char *stored_name(Elem e)
{
    static const char *const names[EL_COUNT] = {
        [EL_F32] = "F32", [EL_BF16] = "BF16", [EL_F16] = "F16", [EL_I32] = "I32", [EL_I64] = "I64"};
    return names[e];
}

int log_param(const moec_kernel *k, uint32_t param, const int64_t *dims, LogTensor *out)
{
    const SigParam *p = &k->sig->params[param];
    int64_t bytes = moec_kernel_param_bytes(k, param, dims);
    *out =
        (LogTensor){.name = p->name, .type = stored_name(p->elem), .bytes = (size_t)bytes, .rank = p->rank};
    if (bytes < 0 || moec_kernel_param_shape(k, param, dims, out->shape))
        return 0;
    if (p->packed) {
        out->type = "U8";
        out->rank = 1;
        out->shape[0] = bytes;
    }
    return 1;
}

/* What is not there, or has no size, is left out: the call refuses it. */
static void add_param(CallLog *log, uint32_t i)
{
    const SigParam *p = &log->k->sig->params[i];
    const void *at = log->call->args[i];
    int64_t sizes[MOEC_MAX_RANK];
    LogTensor t;
    if (!at)
        return;
    if (p->kind == MOEC_ROUTE) {
        if (!moec_kernel_param_shape(log->k, i, log->call->dims, sizes))
            add_route(log, p->name, at, sizes);
    } else if (log_param(log->k, i, log->call->dims, &t)) {
        t.at = at;
        vec_push(log->arena, &log->tensors, t);
    }
}

static void add_params(CallLog *log, Role without)
{
    log->tensors.len = 0;
    for (uint32_t i = 0; i < log->k->sig->nparams; i++)
        if (log->k->sig->params[i].role != without && !log->k->sig->params[i].unread)
            add_param(log, i);
}

const char *log_sizes_text(const moec_kernel *k, const int64_t *dims, Arena *a)
{
    Text t = {.arena = a};
    for (size_t i = 0; i < moec_kernel_dims(k); i++)
        text_add(&t, i ? " %s=%lld" : "%s=%lld", moec_kernel_dim_name(k, i), (long long)dims[i]);
    return text_string(&t);
}

/* ---- files ---- */

json_t *log_entry(const LogTensor *t, uint64_t begin)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->rank; d++)
        json_array_append_new(shape, json_integer(t->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->type, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + t->bytes));
}

static json_t *header_of(const CallLog *log, json_t *metadata)
{
    json_t *header = json_pack("{s:o}", "__metadata__", metadata);
    uint64_t begin = 0;
    for (uint32_t i = 0; i < log->tensors.len; i++) {
        const LogTensor *t = &log->tensors.at[i];
        json_object_set_new(header, t->name, log_entry(t, begin));
        begin += t->bytes;
    }
    return header;
}

/* Writes the tensors; 0, or errno. */
static int write_tensors(const CallLog *log, FILE *f, json_t *metadata)
{
    const char *header = json_line(log->arena, header_of(log, metadata));
    uint64_t len = strlen(header), blanks = (8 - len % 8) % 8; /* data begin at a multiple of 8 bytes */
    len += blanks;
    fwrite(&len, sizeof len, 1, f);
    fprintf(f, "%s%.*s", header, (int)blanks, "       ");
    for (uint32_t i = 0; i < log->tensors.len; i++)
        fwrite(log->tensors.at[i].at, 1, log->tensors.at[i].bytes, f);
    return fflush(f) != 0 || ferror(f) ? errno : 0;
}

/* Writes and closes the file of that path; nothing of it stays where that fails. NULL, or why. */
static const char *write_file(const CallLog *log, const char *path, int fd, json_t *metadata)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int failed = f ? 0 : errno;
    if (f)
        failed = write_tensors(log, f, metadata);
    else
        json_decref(metadata);
    if (f && fclose(f) != 0 && !failed)
        failed = errno;
    if (failed && fd >= 0)
        unlink(path);
    return failed ? arena_printf(log->arena, "%s: %s", path, strerror(failed)) : NULL;
}

/* Once for each process: a program is not to be flooded. */
static void say_failure(const CallLog *log, const char *why)
{
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        fprintf(stderr, "moec: %s: calls are not logged: %s\n", log->folder, why);
}

static const char *write_inputs(CallLog *log)
{
    const LoggedCall *c = log->call;
    add_params(log, ROLE_OUT);
    const char *threads = arena_printf(log->arena, "%d", c->ctx ? c->ctx->threads : 0);
    json_t *metadata = json_pack("{s:s, s:s, s:s, s:s, s:s}", "moec", MOEC_VERSION, "kernel", c->kernel,
                                 "sizes", log_sizes_text(log->k, c->dims, log->arena), "threads", threads,
                                 "program", c->program ? c->program : "");
    const int fd = open_numbered(log);
    return write_file(log, fd < 0 && !log->base ? log->folder : inputs_path(log), fd, metadata);
}

/* Appends a line, or nothing of it; a file that was made for it goes too. NULL, or why. */
static const char *append_line(const CallLog *log, const char *path, const char *line)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const int failed = fd < 0 ? errno : file_add(fd, line, strlen(line));
    if (failed && fd >= 0 && lseek(fd, 0, SEEK_END) == 0)
        unlink(path);
    if (fd >= 0)
        close(fd);
    return failed ? arena_printf(log->arena, "%s: %s", path, strerror(failed)) : NULL;
}

static void write_line(const CallLog *log, int status, double seconds)
{
    const char *line = arena_printf(log->arena, "%s  %s  %.3f ms  %s\n", strrchr(log->base, '/') + 1,
                                    log_sizes_text(log->k, log->call->dims, log->arena), 1e3 * seconds,
                                    moe_strerror(status));
    const char *why = append_line(log, arena_printf(log->arena, "%s/calls.txt", log->folder), line);
    if (why)
        say_failure(log, why);
}

static void write_results(CallLog *log, int status, double seconds)
{
    const moe_ctx *ctx = log->call->ctx;
    log->tensors.len = 0;
    if (!status)
        add_params(log, ROLE_IN);
    json_t *metadata =
        json_pack("{s:s, s:s, s:s}", "status", arena_printf(log->arena, "%d", status), "message",
                  status ? moe_ctx_message(ctx) : "", "seconds", arena_printf(log->arena, "%.9f", seconds));
    const char *path = arena_printf(log->arena, "%s" LOG_OUT, log->base);
    const char *why =
        write_file(log, path, open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), metadata);
    if (why)
        say_failure(log, why);
    write_line(log, status, seconds);
}

/* ---- the call ---- */

/* The kernel as the manifest describes it; NULL and the reason. */
static const moec_kernel *describe(const LoggedCall *call, Arena *a, const char **error)
{
    moec_module *m = arena_new_of(a, moec_module);
    moec_kernel *k = arena_new_of(a, moec_kernel);
    *error =
        call->manifest ? signature_read(call->manifest, a, &m->signatures) : "the module has no manifest";
    k->module = m;
    for (uint32_t i = 0; !*error && i < m->signatures.nkernels; i++)
        if (strcmp(m->signatures.kernels[i].name, call->kernel) == 0)
            k->sig = &m->signatures.kernels[i];
    return k->sig ? k : NULL;
}

/* May the call be logged, and are its inputs written? */
static int begin(CallLog *log)
{
    const LoggedCall *c = log->call;
    const char *why = NULL;
    log->k = describe(c, log->arena, &why);
    if (!log->k)
        why = why ? why : "the manifest does not have the kernel";
    else if (call_missing(log->k, c->dims, c->args))
        return 0; /* the call refuses it */
    if (!why)
        why = write_inputs(log);
    if (why)
        say_failure(log, why);
    return !why;
}

/* The log runs under a landing place of its own, and never between the kernel and its caller's stack. */
static int begin_guarded(CallLog *log)
{
    jmp_buf landing;
    if (setjmp(landing)) {
        say_failure(log, arena_message(log->arena));
        return 0;
    }
    arena_set_landing(log->arena, &landing);
    int begun = begin(log);
    arena_set_landing(log->arena, NULL);
    return begun;
}

static void end_guarded(CallLog *log, int status, double seconds)
{
    jmp_buf landing;
    if (setjmp(landing)) {
        say_failure(log, arena_message(log->arena));
        return;
    }
    arena_set_landing(log->arena, &landing);
    write_results(log, status, seconds);
    arena_set_landing(log->arena, NULL);
}

int moec_log_call(const LoggedCall *call)
{
    CallLog log = {.call = call, .folder = folder_of_calls()};
    int wanted = log.folder && is_wanted(call->kernel) && (log.arena = arena_new()) != NULL;
    int logged = wanted && begin_guarded(&log);
    double start = clock_seconds();
    int status = call->entry(call->ctx, call->dims, call->args);
    double seconds = clock_seconds() - start;
    if (logged)
        end_guarded(&log, status, seconds);
    if (log.arena)
        arena_free(log.arena);
    return status;
}
