/* `moec replay`: the calls of a log (driver/log.h) again, against their recorded results and against the interpreter. */
#include "testing/parts.h"
#include "driver/log.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a file ---- */

/* Mapped so that a call may write to what it holds, without changing the file. */
typedef struct ReplayFile {
    const char *path;
    char *map;
    size_t len;
    json_t *header;
    const char *data; /* behind the header */
} ReplayFile;

static void close_file(ReplayFile *f)
{
    json_decref(f->header);
    if (f->map)
        munmap(f->map, f->len);
    *f = (ReplayFile){.path = NULL};
}

static const char *map_file(Arena *a, const char *path, ReplayFile *f)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s) != 0) {
        const char *error = arena_printf(a, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return error;
    }
    f->path = path;
    f->len = (size_t)s.st_size;
    void *map = f->len ? mmap(NULL, f->len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    f->map = map == MAP_FAILED ? NULL : map;
    return f->map ? NULL
                  : arena_printf(a, "%s: cannot be read: %s", path, f->len ? strerror(errno) : "it is empty");
}

static const char *open_file(Arena *a, const char *path, ReplayFile *f)
{
    uint64_t len = 0;
    const char *error = map_file(a, path, f);
    if (!error && f->len >= sizeof len)
        memcpy(&len, f->map, sizeof len);
    if (!error && (f->len < sizeof len || len > f->len - sizeof len || !len))
        error = arena_printf(a, "%s: not a file of the format safetensors", path);
    if (error)
        return error;
    f->header = json_loadb(f->map + sizeof len, len, 0, NULL);
    f->data = f->map + sizeof len + len;
    return json_is_object(f->header) ? NULL : arena_printf(a, "%s: its header is no JSON object", path);
}

/* NULL: there is no such word. */
static const char *metadata(const ReplayFile *f, const char *name)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), name));
}

/* The bytes of a tensor, which must be as it would be logged; NULL: it is not there, or *error says what is wrong. */
static void *tensor(Arena *a, const ReplayFile *f, const LogTensor *t, const char **error)
{
    const json_t *entry = json_object_get(f->header, t->name);
    json_int_t begin = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    size_t all = f->len - (size_t)(f->data - f->map);
    if (!entry)
        return NULL;
    json_t *expected = log_entry(t, (uint64_t)begin);
    if (!json_equal(entry, expected))
        *error = arena_printf(a, "%s: %s is %s, but the kernel takes %s", f->path, t->name,
                              json_excerpt(a, entry), json_excerpt(a, expected));
    else if (begin < 0 || (uint64_t)begin > all || t->bytes > all - (uint64_t)begin)
        *error = arena_printf(a, "%s: %s is not inside the file", f->path, t->name);
    json_decref(expected);
    return *error ? NULL : f->map + (f->data - f->map) + begin;
}

/* A number of the metadata, which a call wrote there by %d. */
static const char *take_number(Arena *a, const ReplayFile *f, const char *name, int *out)
{
    const char *word = metadata(f, name);
    *out = word ? atoi(word) : 0;
    return word && strcmp(word, arena_printf(a, "%d", *out)) == 0
               ? NULL
               : arena_printf(a, "%s: its %s is no whole number", f->path, name);
}

/* ---- a call ---- */

typedef struct ReplayedCall {
    const ReplayOptions *o;
    FILE *out;
    Arena *arena;
    const char *base;    /* the path without its ending */
    ReplayFile in, done; /* done: map NULL where the call did not end */
    moec_context *context;
    moec_module *compiled, *interpreted;
    const moec_kernel *k;
    moe_ctx *ctx;
    int64_t *dims;
    void **args;
    int differs;
} ReplayedCall;

/* "T=33 K=2", in the kernel's order. */
static const char *take_sizes(ReplayedCall *r)
{
    const char *at = metadata(&r->in, "sizes");
    r->dims = arena_array(r->arena, int64_t, moec_kernel_dims(r->k) + 1);
    for (size_t i = 0; i < moec_kernel_dims(r->k); i++) {
        const char *name = moec_kernel_dim_name(r->k, i);
        size_t n = strlen(name);
        at += at && *at == ' ';
        if (!at || strncmp(at, name, n) != 0 || at[n] != '=')
            return arena_printf(r->arena, "%s: there is no size of %s where the program has one", r->in.path,
                                name);
        char *end;
        r->dims[i] = strtoll(at + n + 1, &end, 10);
        at = end;
    }
    const char *sizes = metadata(&r->in, "sizes"), *read = log_sizes_text(r->k, r->dims, r->arena);
    return sizes && strcmp(sizes, read) == 0
               ? NULL
               : arena_printf(r->arena, "%s: its sizes are not those of the kernel, as in '%s'", r->in.path,
                              read);
}

static const char *take_route(ReplayedCall *r, uint32_t i, const int64_t *sizes)
{
    moe_route *route = arena_new_of(r->arena, moe_route);
    const int reads = moec_kernel_param_role(r->k, i) != MOEC_OUT;
    const char *error = NULL;
    LogTensor fields[4];
    void *memory[4] = {NULL};
    *route = (moe_route){.tokens = sizes[0], .choices = sizes[1], .groups = sizes[2], .rows = sizes[3]};
    log_route(r->arena, moec_kernel_param_name(r->k, i), route, fields);
    for (int f = 0; f < 4 && !error; f++)
        memory[f] =
            reads ? tensor(r->arena, &r->in, &fields[f], &error) : arena_alloc(r->arena, fields[f].bytes + 1);
    route->start = memory[0];
    route->count = memory[1];
    route->slot_of = memory[2];
    route->row_of = memory[3];
    r->args[i] = reads && !route->start ? NULL : route;
    return error;
}

static const char *take_param(ReplayedCall *r, uint32_t i)
{
    int64_t sizes[MOEC_MAX_RANK];
    LogTensor t;
    const char *error = NULL;
    if (moec_kernel_param_kind(r->k, i) == MOEC_ROUTE)
        return moec_kernel_param_shape(r->k, i, r->dims, sizes) ? NULL : take_route(r, i, sizes);
    if (!log_param(r->k, i, r->dims, &t))
        return NULL; /* the call refuses these sizes */
    if (moec_kernel_param_role(r->k, i) == MOEC_OUT)
        r->args[i] = arena_alloc(r->arena, t.bytes + 1);
    else if (moec_kernel_param_read(r->k, i))
        r->args[i] = tensor(r->arena, &r->in, &t, &error);
    return error;
}

static const char *take_arguments(ReplayedCall *r)
{
    const char *error = take_sizes(r);
    r->args = arena_array(r->arena, void *, moec_kernel_params(r->k) + 1);
    for (uint32_t i = 0; i < moec_kernel_params(r->k) && !error; i++)
        error = take_param(r, i);
    return error;
}

/* ---- the program ---- */

static const char *compile(ReplayedCall *r, int interpret, moec_module **out)
{
    const char *program = metadata(&r->in, "program");
    if (!program || !*program)
        return arena_printf(r->arena, "%s has no program: it was too large to be carried by its module",
                            r->in.path);
    Compilation c = {.arena = r->arena, .path = r->in.path};
    const char *error = compile_restore(&c, (Bytes){program, strlen(program)});
    if (error)
        return arena_printf(r->arena, "%s: its program: %s", r->in.path, error);
    c.options.target = r->o->target ? r->o->target : c.options.target;
    c.options.kernels = interpret ? NULL : c.options.kernels;
    return module_compile(r->context, &c.options, interpret, r->base, c.text, out)
               ? moec_error_text(r->context)
               : NULL;
}

static const char *take_kernel(ReplayedCall *r)
{
    const char *name = metadata(&r->in, "kernel");
    int threads = 0;
    const char *error =
        name ? compile(r, 0, &r->compiled)
             : arena_printf(r->arena, "%s is no logged call: it does not say which kernel", r->in.path);
    if (!error)
        error = take_number(r->arena, &r->in, "threads", &threads);
    if (error)
        return error;
    r->k = moec_module_kernel(r->compiled, name);
    r->ctx = moe_ctx_new(threads);
    if (!r->k || !moec_kernel_entry(r->k))
        return arena_printf(r->arena, "%s: its program has no kernel %s", r->in.path, name);
    return r->ctx ? NULL : "out of memory";
}

/* ---- what came out ---- */

/* The first byte that differs; len: none does. */
static size_t first_difference(const void *a, const void *b, size_t len)
{
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < len && x[i] == y[i])
        i++;
    return i;
}

/* One piece of memory against what the log has of it; typed: as elements, else as bytes. */
static const char *compare_bits(ReplayedCall *r, const LogTensor *t, const void *got, Elem elem, int typed)
{
    const char *error = NULL;
    const unsigned char *want = tensor(r->arena, &r->done, t, &error);
    if (error || !want)
        return error;
    size_t size = typed ? elem_bytes(elem) : 1, at = first_difference(got, want, t->bytes) / size * size;
    const char *type = typed ? elem_name(elem) : "bytes";
    fprintf(r->out, "  %s: %zu %s, ", t->name, t->bytes / size, type);
    if (at >= t->bytes) {
        fprintf(r->out, "the recorded bits\n");
        return NULL;
    }
    r->differs = 1;
    if (typed)
        fprintf(r->out, "other bits from element %zu on: %.9g was %.9g\n", at / size,
                element_read(elem, (const unsigned char *)got + at), element_read(elem, want + at));
    else
        fprintf(r->out, "other bits from byte %zu on\n", at);
    return NULL;
}

static const char *compare_param(ReplayedCall *r, uint32_t i)
{
    const char *error = NULL;
    if (!r->args[i] || moec_kernel_param_role(r->k, i) == MOEC_IN)
        return NULL;
    LogTensor t, fields[4];
    if (moec_kernel_param_kind(r->k, i) != MOEC_ROUTE)
        return log_param(r->k, i, r->dims, &t)
                   ? compare_bits(r, &t, r->args[i], (Elem)moec_kernel_param_type(r->k, i),
                                  !moec_kernel_param_packed(r->k, i))
                   : NULL;
    log_route(r->arena, moec_kernel_param_name(r->k, i), r->args[i], fields);
    for (int f = 0; f < 4 && !error; f++)
        error = compare_bits(r, &fields[f], fields[f].at, f < 2 ? EL_I64 : EL_I32, 1);
    return error;
}

static const char *compare_recorded(ReplayedCall *r, int status)
{
    const char *error = NULL;
    int then;
    if (!r->done.map) {
        fprintf(r->out, "  the recorded call did not end; this one ends with: %s\n", moe_status_text(status));
        return NULL;
    }
    error = take_number(r->arena, &r->done, "status", &then);
    if (error)
        return error;
    if (then == MOE_OVERLAP &&
        !status) { /* addresses are not recorded, and here each argument has memory of its own */
        fprintf(r->out, "  refused when it was recorded, which cannot be repeated: %s\n",
                moe_status_text(then));
        return NULL;
    }
    if (status != then) {
        const char *message = metadata(&r->done, "message");
        fprintf(r->out, "  now: %s; recorded: %s\n", moe_status_text(status),
                message && *message ? message : moe_status_text(then));
        r->differs = 1;
    }
    if (status)
        fprintf(r->out, "  %s\n", moe_ctx_message(r->ctx));
    for (uint32_t i = 0; i < moec_kernel_params(r->k) && !error && !status; i++)
        error = compare_param(r, i);
    return error;
}

enum { CHECKED_MAX = 1 << 24 }; /* elements of a parameter: beyond that the interpreter takes too long */

/* Why the interpreter is left out; NULL: it is not. */
static const char *unchecked(const ReplayedCall *r)
{
    for (uint32_t i = 0; i < moec_kernel_params(r->k); i++) {
        if (moec_kernel_param_elements(r->k, i, r->dims) > CHECKED_MAX)
            return "it would take minutes at these sizes";
        if (!r->args[i] && moec_kernel_param_read(r->k, i))
            return "the call gave less than the kernel reads";
    }
    return NULL;
}

/* Against the interpreter; both work on copies of the arguments. */
static const char *check(ReplayedCall *r)
{
    moec_score score = {0};
    const char *why = r->o->no_check ? NULL : unchecked(r);
    if (why)
        fprintf(r->out, "  interpreter: left out, because %s\n", why);
    if (why || r->o->no_check)
        return NULL;
    const char *error = compile(r, 1, &r->interpreted);
    if (error)
        return error;
    const moec_kernel *k = moec_module_kernel(r->interpreted, metadata(&r->in, "kernel"));
    if (moec_kernel_check(r->k, k, r->ctx, r->dims, r->args, &score)) {
        fprintf(r->out, "  interpreter: FAILED: %s\n", moe_ctx_message(r->ctx));
        r->differs = 1;
    } else {
        fprintf(r->out, "  interpreter: error %.2g of bound, ok\n", score.worst);
    }
    return NULL;
}

static const char *open_both(ReplayedCall *r)
{
    const char *error = open_file(r->arena, arena_printf(r->arena, "%s" LOG_IN, r->base), &r->in);
    const char *done = arena_printf(r->arena, "%s" LOG_OUT, r->base);
    if (!error && access(done, F_OK) == 0)
        error = open_file(r->arena, done, &r->done);
    return error;
}

static const char *replay(ReplayedCall *r)
{
    const char *error = open_both(r);
    if (!error)
        error = take_kernel(r);
    if (!error)
        error = take_arguments(r);
    if (error)
        return error;
    fprintf(r->out, "%s: %s\n", r->base, log_sizes_text(r->k, r->dims, r->arena));
    fflush(r->out); /* a call may crash */
    error = check(r);
    return error ? error : compare_recorded(r, moec_kernel_entry(r->k)(r->ctx, r->dims, r->args));
}

static int replay_guarded(ReplayedCall *r)
{
    jmp_buf landing;
    const char *error;
    if (setjmp(landing)) {
        error = arena_message(r->arena);
    } else {
        arena_set_landing(r->arena, &landing);
        error = replay(r);
    }
    if (error)
        fprintf(r->out, "error: %s%s", error, error[strlen(error) - 1] == '\n' ? "" : "\n");
    return error || r->differs ? DRIVER_ERROR : DRIVER_OK;
}

/* Of either file of a call. */
static const char *base_of(Arena *a, const char *path)
{
    static const char *const endings[] = {LOG_IN, LOG_OUT};
    for (size_t i = 0; i < 2; i++)
        if (text_ends(path, endings[i]))
            return arena_strndup(a, path, strlen(path) - strlen(endings[i]));
    return path;
}

static int replay_one(const char *path, const ReplayOptions *o, FILE *out)
{
    ReplayedCall r = {.o = o, .out = out, .arena = arena_new(), .context = moec_context_new()};
    int status = DRIVER_ERROR;
    if (r.arena && r.context) {
        r.base = base_of(r.arena, path);
        status = replay_guarded(&r);
    }
    moec_module_free(r.interpreted);
    moec_module_free(r.compiled);
    moec_context_free(r.context);
    moe_ctx_free(r.ctx);
    close_file(&r.in);
    close_file(&r.done);
    if (r.arena)
        arena_free(r.arena);
    return status;
}

/* Is there neither a file nor a folder, nor a call of that name? Of a path with the ending of a call only the file was meant. */
static int is_nothing(const char *path)
{
    struct stat s;
    char call[4096];
    const size_t length = strlen(path), ending = strlen(LOG_IN);
    snprintf(call, sizeof call, "%s" LOG_IN, path);
    return stat(path, &s) != 0 && stat(call, &s) != 0 &&
           (length < ending || strcmp(path + length - ending, LOG_IN) != 0);
}

int test_replay(const char *path, const ReplayOptions *o, FILE *out)
{
    struct stat s;
    char pattern[4096];
    glob_t found;
    if (is_nothing(path)) {
        fprintf(out, "error: there is no folder %s, and no call %s" LOG_IN "\n", path, path);
        return DRIVER_ERROR;
    }
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
        return replay_one(path, o, out);
    snprintf(pattern, sizeof pattern, "%s/*" LOG_IN, path);
    int worst = DRIVER_OK, none = glob(pattern, 0, NULL, &found) != 0;
    for (size_t i = 0; !none && i < found.gl_pathc; i++)
        worst |= replay_one(found.gl_pathv[i], o, out);
    if (none)
        fprintf(out, "error: %s has no logged calls (*" LOG_IN ")\n", path);
    else
        globfree(&found);
    return none ? DRIVER_ERROR : worst;
}
