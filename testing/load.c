/* Compiles the file under test: for the interpreter, for the JIT, into a .so. */
#include "testing/parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CompileOptions options_of(const TestOptions *o)
{
    CompileOptions c = compile_defaults;
    c.target = o->target;
    c.no_cache = 1;
    c.schedule_seed = o->schedule_seed;
    c.machine = o->machine;
    c.types = o->types;
    c.schedule = o->schedule;
    c.derive = o->derive;
    c.level = o->no_optimize ? 0 : c.level;
    return c;
}

static Compilation *open_file(const TestOptions *o, const char *path, FILE *errors, int *status)
{
    CompileOptions options = options_of(o);
    Compilation *c = compile_new(&options);
    *status = c ? DRIVER_OK : DRIVER_ERROR;
    if (c && o->text)
        compile_text(c, path, o->text, strlen(o->text));
    else if (c)
        *status = compile_open(c, path);
    if (*status)
        fprintf(errors, "%s", c ? c->errors : "out of memory\n");
    return c;
}

static void say_failure(const TestFile *file, Compilation *c, int status)
{
    fprintf(file->errors, "%s", c->errors);
    compile_leave_replay(c, status, file->errors);
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
        error = code_open_library(path, c->arena, out);
    unlink(path);
    return error;
}

/* Of the JIT's object, or where the .so is for several instruction sets, of one of its own. */
static int make_so(TestFile *file, const char *path, Bytes *so)
{
    Compilation *c = file->for_jit;
    int status;
    if (c->object.at) {
        status = compile_link(c, so);
    } else {
        c = file->for_so = open_file(file->o, path, file->errors, &status);
        if (status)
            return status;
        status = compile_product(c, PRODUCT_SO, so);
    }
    if (status)
        say_failure(file, c, status);
    return status;
}

static int load_so(TestFile *file, const char *path)
{
    Bytes so;
    const int status = make_so(file, path, &so);
    if (status)
        return status;
    const char *error = load_bytes(file->for_jit, so, &file->so);
    if (error)
        fprintf(file->errors, "%s\n", error);
    file->has_so = !error;
    return error ? DRIVER_ERROR : DRIVER_OK;
}

static int is_modelled(const TestFile *file) { return file->o->emulate == EMULATE_MODEL; }

static int load_jit(TestFile *file, const char *path, const char *kernel)
{
    int status;
    Compilation *c = file->for_jit = open_file(file->o, path, file->errors, &status);
    if (!status) {
        c->options.kernels = kernel;
        c->options.emulated = !file->o->emulate ? NOT_EMULATED : is_modelled(file) ? MODELLED : EMULATED;
        status = code_load(c, &file->jit);
        if (status)
            say_failure(file, c, status);
    }
    return status;
}

static int load_other(TestFile *file, const char *path, Isa isa)
{
    TestOptions o = *file->o;
    TestOther *other = &file->others[file->other_count++];
    int status;
    o.target = other->name = cpu_table[isa].name;
    other->c = open_file(&o, path, file->errors, &status);
    if (!status) {
        status = code_load(other->c, &other->code);
        if (status)
            say_failure(file, other->c, status);
    }
    return status;
}

/* Variants of others are left out, and what stands in for tiles where the CPU has them. */
static int is_worth_a_run(const TestFile *file, Isa isa)
{
    const Cpu *cpu = &cpu_table[isa];
    return isa != file->for_jit->isas.at[0] && cpu_has(isa) && !cpu_can(cpu, CPU_VARIANT) &&
           !(cpu_can(cpu, CPU_BY_NAME) && cpu_can(&cpu_table[cpu_best()], CPU_TILES));
}

static int load_others(TestFile *file, const char *path)
{
    int status = DRIVER_OK;
    for (Isa isa = 0; isa < ISA_COUNT && !status; isa++)
        if (is_worth_a_run(file, isa))
            status = load_other(file, path, isa);
    return status;
}

/* The tiles that the plan was made of, as machine code. */
static int load_unplanned(TestFile *file, const char *path)
{
    int status;
    Compilation *c = file->for_so = open_file(file->o, path, file->errors, &status);
    if (!status) {
        c->options.emulated = UNPLANNED;
        status = code_load(c, &file->so);
        if (status)
            say_failure(file, c, status);
    }
    return status;
}

typedef struct GuardedWork {
    TestFile *file;
    TestWork *work;
    void *user;
} GuardedWork;

static int do_work(Compilation *c, void *user)
{
    const GuardedWork *g = user;
    const char *error = g->work(g->file, g->user);
    if (error)
        fprintf(g->file->errors, "%s: error: %s\n", c->path, error);
    return error ? DRIVER_ERROR : DRIVER_OK;
}

int test_guard(TestFile *file, TestWork *work, void *user)
{
    const int status = compile_guard(file->c, do_work, &(GuardedWork){file, work, user});
    if (arena_escaped(file->c->arena) != ESCAPE_NONE)
        fprintf(file->errors, "%s", file->c->errors);
    return status;
}

const char *test_entry(const Loaded *code, const Kernel *k, Arena *a, moe_entry **entry)
{
    const char *symbol = arena_printf(a, "%s__call", k->name);
    *entry = (moe_entry *)(uintptr_t)code_symbol(code, symbol);
    return *entry ? NULL : arena_printf(a, "has no symbol %s", symbol);
}

static int make_reference(Compilation *c, void *user) { return reference_make(c, user); }

int test_load(TestFile *file, const char *path, TestCode code)
{
    const char *text = file->o->tiles ? file->o->tiles : path;
    int status;
    file->c = open_file(file->o, path, file->errors, &status);
    if (!status) {
        status = compile_read(file->c, 1);
        if (!status)
            status = compile_guard(file->c, make_reference, &file->reference);
        if (status)
            say_failure(file, file->c, status);
    }
    if (!status && code != CODE_ALL) /* before anything is compiled, so that nonsense is refused at once */
        status = test_take_run(file);
    if (!status && code != CODE_NONE)
        status = load_jit(file, text, code == CODE_OF_KERNEL ? file->o->kernel : NULL);
    if (!status && file->o->emulate && !is_modelled(file) && !file->o->tiles)
        status = load_unplanned(file, path);
    if (!status && code == CODE_ALL && !file->o->no_aot && !file->o->emulate)
        status = load_so(file, text);
    if (!status && file->o->every_isa)
        status = load_others(file, text);
    return status;
}

void test_unload(TestFile *file)
{
    code_unload(&file->jit);
    code_unload(&file->so);
    for (uint32_t i = 0; i < file->other_count; i++) {
        code_unload(&file->others[i].code);
        compile_free(file->others[i].c);
    }
    compile_free(file->for_jit);
    compile_free(file->for_so);
    compile_free(file->c);
}
