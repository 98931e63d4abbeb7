/* Compiles the file under test: for the interpreter, for the JIT, into a .so. */
#include "driver/check_parts.h"

#include <stdlib.h>
#include <unistd.h>

static CompileOptions options_of(const CheckOptions *o)
{
    CompileOptions c = compile_defaults;
    c.target = o->target;
    c.no_cache = 1;
    c.schedule_seed = o->schedule_seed;
    c.machine = o->machine;
    c.level = o->no_optimize ? 0 : c.level;
    return c;
}

static Compilation *open_file(const CheckOptions *o, const char *path, FILE *out, int *status)
{
    CompileOptions options = options_of(o);
    Compilation *c = compile_new(&options);
    *status = c ? compile_open(c, path) : DRIVER_ERROR;
    if (*status)
        fprintf(out, "%s", c ? c->errors : "out of memory\n");
    return c;
}

static void say_failure(const Check *check, Compilation *c, int status)
{
    fprintf(check->out, "%s", c->errors);
    compile_leave_replay(c, status, check->out);
}

/* The .so is written to a temporary file only as long as it takes to open it. */
static const char *load_bytes(Compilation *c, Bytes so, Loaded *out)
{
    const char *directory = getenv("TMPDIR");
    char *path = arena_printf(c->arena, "%s/moec-test-XXXXXX", directory && *directory ? directory : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return arena_printf(c->arena, "%s: cannot be made", path);
    size_t done = 0;
    while (done < so.len) {
        ssize_t n = write(fd, so.at + done, so.len - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    const char *error =
        close(fd) || done < so.len ? arena_printf(c->arena, "%s: cannot be written", path) : NULL;
    if (!error)
        error = jit_open_library(path, c->arena, out);
    unlink(path);
    return error;
}

static int load_so(Check *check, const char *path)
{
    int status;
    Bytes so;
    Compilation *c = check->for_so = open_file(check->o, path, check->out, &status);
    if (!status) {
        status = compile_product(c, PRODUCT_SO, &so);
        const char *error = status ? NULL : load_bytes(c, so, &check->so);
        check->has_so = !status && !error;
        if (status)
            say_failure(check, c, status);
        if (error)
            fprintf(check->out, "%s\n", error);
        status = error ? DRIVER_ERROR : status;
    }
    return status;
}

static int is_modelled(const Check *check) { return check->o->emulate == EMULATE_MODEL + 1; }

static int load_jit(Check *check, const char *path, const char *kernel)
{
    int status;
    Compilation *c = check->for_jit = open_file(check->o, path, check->out, &status);
    if (!status) {
        c->options.kernel = kernel;
        c->options.emulated = !check->o->emulate ? NOT_EMULATED : is_modelled(check) ? MODELLED : EMULATED;
        status = jit_load(c, &check->jit);
        if (status)
            say_failure(check, c, status);
    }
    return status;
}

/* The tiles that the plan was made of, as machine code. */
static int load_unplanned(Check *check, const char *path)
{
    int status;
    Compilation *c = check->for_so = open_file(check->o, path, check->out, &status);
    if (!status) {
        c->options.emulated = UNPLANNED;
        status = jit_load(c, &check->so);
        if (status)
            say_failure(check, c, status);
    }
    return status;
}

static int make_reference(Compilation *c, void *user) { return reference_make(c, user); }

int check_load(Check *check, const char *path, CheckCode code)
{
    const char *text = check->o->tiles ? check->o->tiles : path;
    int status;
    check->c = open_file(check->o, path, check->out, &status);
    if (!status) {
        status = compile_read(check->c, 1);
        if (!status)
            status = compile_guard(check->c, make_reference, &check->reference);
        if (status)
            say_failure(check, check->c, status);
    }
    if (!status && code != CODE_ALL) /* before anything is compiled, so that nonsense is refused at once */
        status = check_take_run(check);
    if (!status && code != CODE_NONE)
        status = load_jit(check, text, code == CODE_OF_KERNEL ? check->o->kernel : NULL);
    if (!status && check->o->emulate && !is_modelled(check) && !check->o->tiles)
        status = load_unplanned(check, path);
    if (!status && code == CODE_ALL && !check->o->no_aot && !check->o->emulate)
        status = load_so(check, text);
    return status;
}

void check_unload(Check *check)
{
    jit_unload(&check->jit);
    jit_unload(&check->so);
    compile_free(check->for_jit);
    compile_free(check->for_so);
    compile_free(check->c);
}
