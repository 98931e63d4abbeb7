/* The one path from text to bytes; see Note [One path]. */
#include "driver/driver.h"

#include "emulator/emulator.h"
#include "frontend/frontend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- input ---- */

/* Standard input can be read once, and `moec test` compiles its program several times: it is kept as long as the process. */
static const char *read_standard_input(Arena *a, Bytes *out)
{
    static Bytes kept;
    const char *error = kept.at ? NULL : output_read_file("/dev/stdin", FRONTEND_MAX_BYTES, a, out);
    if (!error && !kept.at) {
        char *copy = malloc(out->len + 1);
        if (!copy)
            return "out of memory";
        memcpy(copy, out->at, out->len + 1);
        kept = (Bytes){copy, out->len};
    }
    *out = kept;
    return error;
}

static int open_file(Compilation *c, void *user)
{
    const int standard = strcmp(user, "-") == 0;
    const char *error = standard ? read_standard_input(c->arena, &c->text)
                                 : output_read_file(user, FRONTEND_MAX_BYTES, c->arena, &c->text);
    if (!error && compile_is_replay(user))
        error = compile_restore(c, c->text);
    return error ? compile_fail(c, DIAG_driver_file, error) : DRIVER_OK;
}

int compile_open(Compilation *c, const char *path)
{
    c->path = strcmp(path, "-") == 0 ? "<stdin>" : path;
    return compile_guard(c, open_file, (void *)(uintptr_t)path);
}

void compile_text(Compilation *c, const char *name, const char *text, size_t len)
{
    c->path = name ? name : "<text>";
    c->text = (Bytes){text, len};
}

/* Each level's text says what it is in its first word: `moe 1` or `tiles 1`. */
static int is_tile_text(const Compilation *c)
{
    const char *start = c->options.start_at;
    return (start && strcmp(start, "tiles") == 0) ||
           (c->text.len > 6 && memcmp(c->text.at, "tiles ", 6) == 0);
}

static int has_warnings(const Compilation *c)
{
    for (uint32_t i = 0; i < c->diags.list.len; i++)
        if (diag_severity(c->diags.list.at[i].code) == SEV_WARNING)
            return 1;
    return 0;
}

static int passed(const Compilation *c)
{
    return c->diags.errors == 0 && !(c->options.werror && has_warnings(c)) ? DRIVER_OK : DRIVER_ERROR;
}

int compile_passed(const Compilation *c) { return passed(c); }

/* A fresh module from the text; messages of the first reading are kept, those of a repeated one are the same.
 */
static int read_module(Compilation *c, Module **out)
{
    Module *m = ir_module(c->arena, &c->diags, c->path);
    int failed;
    if (is_tile_text(c))
        failed =
            tile_read(m, diag_add_file(&c->diags, c->path, c->text.at, c->text.len), c->text.at, c->text.len);
    else
        failed = frontend_read_with(m, c->path, c->text.at, c->text.len,
                                    (FrontendExtras){.schedule = c->options.schedule,
                                                     .schedule_from = c->tuned_from,
                                                     .derive = c->options.derive,
                                                     .types = c->options.types});
    *out = m;
    return failed ? DRIVER_ERROR : passed(c);
}

int compile_reread(Compilation *c, Module **out)
{
    uint32_t kept = c->diags.list.len, errors = c->diags.errors;
    int status = read_module(c, out);
    if (!status) {
        c->diags.list.len = kept;
        c->diags.errors = errors;
    }
    return status;
}

/* ---- passes ---- */

static int check_pass_name(Compilation *c, const char *option, const char *name)
{
    if (!name || pass_find(name))
        return DRIVER_OK;
    return compile_fail(
        c, DIAG_driver_pass,
        arena_printf(c->arena, "%s: '%s' is not a pass; `moec passes` lists them", option, name));
}

/* The words of --dump-ir=a,b. */
static int check_dump_names(Compilation *c)
{
    for (const char *at = c->options.dump; at && *at;) {
        size_t len = strcspn(at, ",");
        if (check_pass_name(c, "--dump-ir", arena_strndup(c->arena, at, len)))
            return DRIVER_ERROR;
        at += len + (at[len] == ',');
    }
    return DRIVER_OK;
}

static int check_pass_names(Compilation *c)
{
    const CompileOptions *o = &c->options;
    int tiles = o->start_at && strcmp(o->start_at, "tiles") == 0;
    return check_pass_name(c, "--stop-after", o->stop_after) ||
           check_pass_name(c, "--start-at", tiles ? NULL : o->start_at) ||
           check_pass_name(c, "--break-in", o->break_in) || check_dump_names(c);
}

/* Tile text was written by anyone: it is verified like what `lower` makes, but its faults are the user's. */
static int take_tiles(Compilation *c, Module *m)
{
    interface_select(m, c->options.kernels);
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const char *broken = tile_verify(m->kernels.at[i], c->arena);
        if (broken)
            return compile_fail(c, DIAG_tile_broken, broken);
    }
    return passed(c);
}

/* Tells beside the error what would fit. */
static void explain_fit(Compilation *c, Isa isa, const Fit *fit)
{
    uint32_t i = 0;
    while (i < c->diags.list.len && c->diags.list.at[i].code != DIAG_plan_fit)
        i++;
    if (i == c->diags.list.len)
        return;
    const char *help = fit_suggestions(c, isa, fit); /* which reports, so that the list may move */
    c->diags.list.at[i].help = help;
}

/* For one target; up to the pass `stop_after` (NULL: all), and only what leaves a level before `below` (LEVEL_EQUATIONS: all). */
static int run_passes(Compilation *c, Module *m, Isa isa, const char *stop_after, Level below)
{
    const CompileOptions *o = &c->options;
    if (is_tile_text(c))
        return take_tiles(c, m);
    Fit fit = {.kernel = NULL};
    PipelineOptions p = {
        .context = {.isa = isa,
                    .machine = c->machine,
                    .fit = &fit,
                    .optimize = o->level > 0,
                    .report = c->report,
                    .kernels = o->kernels,
                    .schedule_seed = o->schedule_seed},
        .start_at = o->start_at,
        .stop_after = o->stop_after ? o->stop_after : stop_after,
        .below = o->emulated == UNPLANNED && !below ? LEVEL_PLAN : below,
        .dump = o->dump,
        .break_in = o->break_in,
        .verify_each = o->verify_each,
        .time_passes = o->time_passes,
        .limit = o->limit,
        .dump_out = &c->dump,
        .time_out = &c->times,
    };
    int failed = pipeline_run(m, &p);
    if (fit.launch && !c->terse)
        explain_fit(c, isa, &fit);
    return failed ? DRIVER_ERROR : passed(c);
}

int compile_module(Compilation *c, const char *stop_after, Module **out)
{
    int status = compile_reread(c, out);
    return status ? status : run_passes(c, *out, c->isas.at[0], stop_after, LEVEL_EQUATIONS);
}

/* ---- the cache ---- */

/* Options that look inside the compiler, or that need its messages, must let it work. */
static int may_use_cache(const Compilation *c) { return !options_are_work(&c->options) && !is_tile_text(c); }

/* Everything that makes the bytes. With -g also the places in the text. */
static void make_key(Compilation *c)
{
    Text t = {.arena = c->arena};
    text_add(&t, "moec cache 1\n%s\n", plugin_build_id(c->arena));
    options_key(&c->options, &t);
    for (uint32_t i = 0; i < c->isas.n; i++)
        text_add(&t, "%s\n", cpu_table[c->isas.at[i]].name);
    ir_digest(c->module, &t);
    for (uint32_t i = 0; c->options.debug && i < c->diags.files.len; i++) {
        text_add(&t, "%s\n", c->diags.files.at[i].path);
        text_add_bytes(&t, c->diags.files.at[i].text, c->diags.files.at[i].len);
    }
    hash_hex(text_string(&t), t.len, c->key);
}

int compile_cached(Compilation *c, CacheEntry *entry)
{
    c->cache = may_use_cache(c) ? cache_directory(c->options.cache_dir, c->arena) : NULL;
    if (!c->cache)
        return 0;
    make_key(c);
    c->from_cache = cache_find(c->cache, c->key, c->arena, entry);
    if (!c->from_cache) { /* somebody else may be at it */
        c->turn = cache_take_turn(c->cache, c->key, c->arena);
        c->from_cache = cache_find(c->cache, c->key, c->arena, entry);
    }
    if (c->from_cache)
        c->header = entry->header;
    return c->from_cache;
}

/* ---- products ---- */

static const char *text_of(Compilation *c, void (*print)(const Module *, const Kernel *, Text *),
                           const Module *m)
{
    Text t = {.arena = c->arena};
    print(m, NULL, &t);
    return text_string(&t);
}

static Bytes bytes_of(const char *text) { return (Bytes){text, strlen(text)}; }

static int all_lowered(const Module *m)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (!m->kernels.at[i]->tiles)
            return 0;
    return 1;
}

/* Is a kernel of m a plan, which the back end could not compile? */
static const char *find_plan(const Module *m)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (m->kernels.at[i]->tiles && tile_is_plan(m->kernels.at[i]))
            return m->kernels.at[i]->name;
    return NULL;
}

/* Fills inputs[] with the module lowered for each instruction set; c->module becomes the first of them. */
static int lower_all(Compilation *c, BackendInput *inputs)
{
    for (uint32_t i = 0; i < c->isas.n; i++) {
        Module *m = c->module;
        if (i > 0 && compile_reread(c, &m))
            return DRIVER_ERROR;
        if (run_passes(c, m, c->isas.at[i], NULL, LEVEL_EQUATIONS))
            return DRIVER_ERROR;
        for (uint32_t k = 0;
             (c->options.emulated == EMULATED || c->options.emulated == MODELLED) && k < m->kernels.len; k++)
            if (m->kernels.at[k]->tiles)
                emulator_expand(m->kernels.at[k], c->machine, c->isas.at[i]);
        inputs[i] = (BackendInput){m, c->isas.at[i]};
    }
    if (!all_lowered(c->module))
        return compile_fail(c, DIAG_driver_pass,
                            "the passes were stopped before `lower`, so there is nothing to compile; "
                            "--emit=ir shows what there is");
    return DRIVER_OK;
}

enum { PROGRAM_MAX = 1 << 14 }; /* operations of a kernel: some 100 kB in each module */

/* The program as text that needs no other file; NULL: it is too large for that. */
static const char *program_of(Compilation *c)
{
    if (is_tile_text(c))
        return compile_program(c, c->text);
    return ir_prints_within(c->module, PROGRAM_MAX)
               ? compile_program(c, bytes_of(text_of(c, ir_print, c->module)))
               : NULL;
}

/* --time-passes also shows the steps after the last pass. */
static void say_time(Compilation *c, double since, const char *step)
{
    if (c->options.time_passes)
        text_add(&c->times, "%10.3f ms  %s\n", 1e3 * (clock_seconds() - since), step);
}

/* NULL, or why no machine code is made for the machine. */
static const char *no_code_for_machine(const Compilation *c)
{
    if (!compile_is_npu(c) || c->options.emulated)
        return NULL;
    return arena_printf(c->arena,
                        "there is no code for %s: `moec --machine %s --emit=tiles` writes the plan, `moec "
                        "test --machine %s --emulate` runs it",
                        c->machine->name, c->options.machine, c->options.machine);
}

/* The same of a tile program that was read. */
static const char *no_code_for_plan(const Compilation *c)
{
    const char *plan = c->options.emulated ? NULL : find_plan(c->module);
    if (!plan)
        return NULL;
    return arena_printf(
        c->arena, "kernel %s is a plan, which only an NPU runs: `moec test --machine NAME --emulate` does it",
        plan);
}

int compile_emit(Compilation *c, CompileProduct what, Bytes *out)
{
    static const enum BackendOutput outputs[PRODUCT_COUNT] = {
        [PRODUCT_LLVM] = OUTPUT_LLVM, [PRODUCT_ASM] = OUTPUT_ASM, [PRODUCT_OBJECT] = OUTPUT_OBJECT};
    BackendInput inputs[ISA_COUNT];
    const char *error = no_code_for_machine(c);
    if (error)
        return compile_fail(c, DIAG_driver_machine, error);
    plugin_load_begin(&c->load, c->arena);
    const char *program = program_of(c); /* before passes change it */
    if (lower_all(c, inputs))
        return DRIVER_ERROR;
    error = no_code_for_plan(c);
    if (error)
        return compile_fail(c, DIAG_driver_machine, error);
    double start = clock_seconds();
    const BackendApi *api = plugin_open(c->arena, &error);
    if (!api)
        return compile_fail(c, DIAG_driver_backend, error);
    say_time(c, start, "(load the back end)");
    start = clock_seconds();
    const char *build = plugin_build_id(c->arena);
    BackendOptions o = {
        .debug = c->options.debug,
        .level = c->options.emulated ? 0 : c->options.level, /* the emulator is called at each statement */
        .manifest = manifest_text(c->module, &c->isas, build, c->arena),
        .program = program,
        .build_id = build,
        .unforced = compile_is_npu(c),
    };
    c->header = bytes_of(header_text(c->module, c->arena));
    error = api->emit(inputs, c->isas.n, &o, outputs[what], c->arena, &out->at, &out->len);
    say_time(c, start, "(machine code)");
    return error ? compile_fail(c, DIAG_driver_backend, error) : DRIVER_OK;
}

static int link_object(Compilation *c, Bytes object, Bytes *so)
{
    double start = clock_seconds();
    const char *error = link_shared(object, c->options.soname, c->arena, so);
    say_time(c, start, "(link)");
    return error ? compile_fail(c, DIAG_driver_backend, error) : DRIVER_OK;
}

static int link_loaded(Compilation *c, void *user) { return link_object(c, c->object, user); }

int compile_link(Compilation *c, Bytes *so) { return compile_guard(c, link_loaded, so); }

static int make_so(Compilation *c, Bytes *out)
{
    CacheEntry entry;
    Bytes object;
    if (compile_cached(c, &entry)) {
        *out = entry.so;
        link_pin(*out);
        return DRIVER_OK;
    }
    if (compile_emit(c, PRODUCT_OBJECT, &object) || link_object(c, object, out))
        return DRIVER_ERROR;
    if (c->cache)
        cache_store(c->cache, c->key, *out, c->header, c->arena);
    link_pin(*out);
    return DRIVER_OK;
}

static int make_tiles(Compilation *c, Bytes *out)
{
    if (run_passes(c, c->module, c->isas.at[0], NULL, LEVEL_EQUATIONS))
        return DRIVER_ERROR;
    if (!all_lowered(c->module))
        return compile_fail(c, DIAG_driver_pass,
                            "the passes were stopped before `lower`: there are no tiles");
    if (!ir_is_printable(c->module))
        return DRIVER_ERROR;
    *out = bytes_of(text_of(c, tile_print, c->module));
    return DRIVER_OK;
}

/* `lower` needs what the passes before it made, so the equation level ends with the last of those. */
static int make_equations(Compilation *c, Bytes *out)
{
    if (run_passes(c, c->module, c->isas.at[0], NULL, LEVEL_TILES) || !ir_is_printable(c->module))
        return DRIVER_ERROR;
    *out = bytes_of(text_of(c, ir_print, c->module));
    return DRIVER_OK;
}

static int make_interface(Compilation *c, CompileProduct what, Bytes *out)
{
    if (run_passes(c, c->module, c->isas.at[0], "interface", LEVEL_EQUATIONS))
        return DRIVER_ERROR;
    if (what == PRODUCT_HEADER)
        *out = bytes_of(header_text(c->module, c->arena));
    else
        *out = bytes_of(manifest_text(c->module, &c->isas, plugin_build_id(c->arena), c->arena));
    return DRIVER_OK;
}

/* ---- the front ---- */

static int open_machine(Compilation *c)
{
    Description *d = arena_new_of(c->arena, Description);
    const char *error = c->options.machine ? machine_open(c->arena, c->options.machine, d) : NULL;
    if (error)
        return compile_fail(c, DIAG_driver_machine, error);
    if (c->options.machine)
        c->machine = &d->machine;
    if (c->options.emulated && c->options.emulated != MODELLED && !compile_is_npu(c))
        return compile_fail(
            c, DIAG_driver_machine,
            arena_printf(c->arena,
                         "only plans for NPUs are emulated: --emulate needs a --machine that is one%s%s",
                         c->options.machine ? ", not " : "", c->options.machine ? c->options.machine : ""));
    return DRIVER_OK;
}

/* A plan is the same for every instruction set; the emulator runs the plainest. */
static int choose_isas(Compilation *c)
{
    const char *target = c->options.target, *plainest = cpu_table[cpu_plainest()].name;
    const char *error = target_parse(!target && compile_is_npu(c) ? plainest : target, c->arena, &c->isas);
    if (compile_is_npu(c))
        c->isas = (IsaList){{cpu_plainest()}, 1};
    return error ? compile_fail(c, DIAG_driver_target, error) : DRIVER_OK;
}

/* What was tuned for the sizes of options.tuned_for is taken as if the caller had given it: options.schedule is the last word. */
static int take_tuned(Compilation *c)
{
    if (!c->options.tuned_for || c->options.schedule || c->options.schedule_seed || is_tile_text(c))
        return DRIVER_OK;
    const char *schedules = tuned_schedules(c);
    if (!schedules)
        return passed(c);
    c->options.schedule = schedules;
    return compile_reread(c, &c->module);
}

int compile_prepare(Compilation *c)
{
    return open_machine(c) || choose_isas(c) || check_pass_names(c) || read_module(c, &c->module) ||
           take_tuned(c);
}

static int make_product(Compilation *c, void *user)
{
    Bytes *out = user;
    int status = compile_prepare(c);
    if (status)
        return status;
    if (c->product == PRODUCT_COUNT)
        c->product = compile_is_npu(c) ? PRODUCT_TILES : PRODUCT_OBJECT;
    switch (c->product) {
    case PRODUCT_IR: return make_equations(c, out);
    case PRODUCT_TILES: return make_tiles(c, out);
    case PRODUCT_HEADER:
    case PRODUCT_MANIFEST: return make_interface(c, c->product, out);
    case PRODUCT_LLVM:
    case PRODUCT_ASM:
    case PRODUCT_OBJECT: return compile_emit(c, c->product, out);
    case PRODUCT_SO: return make_so(c, out);
    case PRODUCT_COUNT: break;
    }
    BUG(c->arena, "there is no product %d", (int)c->product);
}

int compile_product(Compilation *c, CompileProduct what, Bytes *out)
{
    *out = (Bytes){NULL, 0};
    c->product = what;
    return compile_guard(c, make_product, out);
}

static int only_read(Compilation *c, void *user)
{
    int derive = *(int *)user;
    return compile_prepare(c) ||
           (derive ? run_passes(c, c->module, c->isas.at[0], "interface", LEVEL_EQUATIONS) : DRIVER_OK);
}

int compile_read(Compilation *c, int derive) { return compile_guard(c, only_read, &derive); }
