/* Inside libmoec: one compilation from text to bytes, and the parts it is made of.
 *
 * Note [One path]. The API, the command line and the test engine all go through compile_product():
 *   text -> frontend_read -> cache? -> pipeline_run, once for each instruction set -> backend -> ld -> cache
 * Every step runs under a landing place for arena escapes, so that running out of memory and bugs of the
 * compiler come back as a status, like the user's errors do. */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include "backend/backend.h"
#include "base/base.h"
#include "ir/ir.h"
#include "machines/machines.h"
#include "driver/pipeline.h"

#include <pthread.h>
#include <stdio.h>

/* What the public functions return and the command exits with. */
typedef enum DriverStatus {
    DRIVER_OK = 0,
    DRIVER_ERROR = 1,
    DRIVER_USAGE = 2,
    DRIVER_INTERNAL = 3
} DriverStatus;

typedef enum CompileProduct {
    PRODUCT_IR,    /* the equation level: .moe text */
    PRODUCT_TILES, /* the tile level, for the first instruction set */
    PRODUCT_LLVM,
    PRODUCT_ASM,
    PRODUCT_OBJECT,
    PRODUCT_SO,
    PRODUCT_HEADER,
    PRODUCT_MANIFEST,
    PRODUCT_COUNT
} CompileProduct;

typedef struct IsaList {
    Isa at[ISA_COUNT];
    uint32_t n;
} IsaList;

/* Of an NPU: a plan is no code; becomes code for the emulator; or what was to be planned is compiled as it is. */
typedef enum Emulated { NOT_EMULATED, EMULATED, MODELLED, UNPLANNED } Emulated;

typedef const char *Option_text;
typedef int Option_number;
typedef uint64_t Option_seed;
typedef struct CompileOptions {
#define OPTION(kind, field, value, cache, doc) Option_##kind field;
#include "driver/options.def"
} CompileOptions;

extern const CompileOptions compile_defaults;

typedef struct Bytes {
    const char *at;
    size_t len;
} Bytes;

typedef struct CacheEntry {
    const char *path; /* the .so, fit for dlopen */
    Bytes so, header;
} CacheEntry;

/* The back end on its way into the process. */
typedef struct PluginLoad {
    pthread_t thread;
    const char *path; /* NULL: no thread was started */
} PluginLoad;

typedef struct Compilation {
    Arena *arena;
    Diags diags;
    CompileOptions options;
    IsaList isas;
    const Machine *machine; /* of options.machine, or NULL */
    CompileProduct product;        /* what is made, or was last */
    const char *path; /* of the text, for messages and `use` */
    Bytes text;
    Module *module;     /* as read; after a pipeline run: as the passes left it */
    Bytes header;       /* made together with PRODUCT_SO and PRODUCT_OBJECT */
    Bytes object;       /* what code_load() gave the JIT, if a .so of this compilation would have the same; else empty */
    const char *cache;  /* its directory; NULL: not used */
    char key[33];       /* the name of the entry */
    int from_cache;     /* it was found there */
    int turn;           /* -1, or what cache_take_turn() returned */
    int terse;          /* nobody reads what would fit instead of what does not */
    PluginLoad load;
    Report *report;     /* NULL, or where passes report */
    Text tuned;         /* of each kernel: which record its schedule is from, or why none is */
    const char *tuned_from; /* NULL, or what messages call the schedules of these records */
    DumpList dump;      /* what --dump-ir asks for */
    Text times;         /* what --time-passes wrote */
    char failure[1024]; /* text of an escape: memory or a bug ... */
    char failure_json[700];
    const char *errors; /* all diagnostics as text and as JSON; of an escape its text */
    const char *errors_json;
} Compilation;

/* ---- compile.c ---- */

Compilation *compile_new(const CompileOptions *o); /* NULL when memory is exhausted */
void compile_free(Compilation *c);
/* Give the text: from a file, or from memory (kept by reference). */
int compile_open(Compilation *c, const char *path);
void compile_text(Compilation *c, const char *name, const char *text, size_t len);
/* Makes one product (PRODUCT_COUNT: the last one that the machine has); bytes live as long as c. Call it once for each
 * Compilation. */
int compile_product(Compilation *c, CompileProduct what, Bytes *out);
/* Links c->object, which code_load() left. */
int compile_link(Compilation *c, Bytes *so);
/* Only reads (and with `derive` also derives): c->module is there on success. */
int compile_read(Compilation *c, int derive);
/* Runs f under the landing place; what it returns, or the status of an escape. */
int compile_guard(Compilation *c, int (*f)(Compilation *c, void *user), void *user);

/* The steps, each to be run under compile_guard. */
int compile_passed(const Compilation *c);                     /* DRIVER_ERROR: there are errors, or warnings that are errors */
int compile_prepare(Compilation *c);                        /* targets, names of passes, c->module as read */
/* A module of its own, read again and through the passes up to `stop_after` (NULL: all), for the first target. */
int compile_module(Compilation *c, const char *stop_after, Module **out);
int compile_cached(Compilation *c, CacheEntry *entry);      /* 1: found */
int compile_emit(Compilation *c, CompileProduct what, Bytes *out); /* object, assembly or LLVM; and c->header */
int compile_reread(Compilation *c, Module **out); /* a module of its own as read; messages are not repeated */
int compile_fail(Compilation *c, DiagCode code, const char *text); /* reports; DRIVER_ERROR */
/* What runs stands for an NPU: it is generic code, whatever this CPU can do and MOE_ISA forces. */
static inline int compile_is_npu(const Compilation *c)
{
    return c->machine && c->machine->kind == MACHINE_NPU;
}

/* ---- options.c ---- */

/* A line `NAME=VALUE` for each row of options.def, but not for a text that is NULL. */
void options_print(const CompileOptions *o, const char *before, Text *t);
/* Sets the option NAME to a value as options_print() writes it; 0 when one of both is none. */
int options_take(CompileOptions *o, const char *name, const char *from, Arena *a);
int options_are_work(const CompileOptions *o);         /* one of them keeps the cache out */
CompileOptions options_of_code(const CompileOptions *o); /* those that code depends on, and else the defaults ... */
void options_key(const CompileOptions *o, Text *t);      /* ... as text */

/* ---- replay.c ---- */

/* Note [Replay] An internal error leaves PATH.replay: the text, every option, and what was to be made. compile_open() of
 * that file restores them all, so `moec PATH.replay` repeats the error, wherever `use` finds its files: beside PATH. */
int compile_is_replay(const char *path);
/* Writes it; its path, or NULL when it cannot be written. */
const char *compile_replay(Compilation *c);
/* Likewise if the status is that of an internal error, and says so. */
void compile_leave_replay(Compilation *c, int status, FILE *out);
/* A replay file of what is compiled now, `text`, with the options that code depends on: each module carries it. */
const char *compile_program(Compilation *c, Bytes text);
/* Restores text, options and product from the bytes of a replay file. NULL or an error text. */
const char *compile_restore(Compilation *c, Bytes file);

/* ---- tuned.c ---- */

/* Who made the code: changes whenever a source of the compiler does. */
extern const char compiler_identity[];
/* What records of tuned schedules call this build, and this kind of CPU. */
const char *tuned_build(Arena *a);
const char *tuned_machine(Arena *a);
/* A hash of the program as it was read, with its own schedules. */
const char *tuned_content(Compilation *c);
/* The file of records: $MOE_TUNED, or beside the compile cache. NULL: MOE_TUNED=off, or there is no place for it. */
const char *tuned_path(Compilation *c);
/* The length of the sizes in "T=2048, routing=zipf(1.2)"; *routing is the clause, which is the rest, or NULL. */
size_t tuned_split(const char *text, const char **routing);
/* "T=2048,routing=zipf(1.2)": sizes by DimId (-1 where not named), and the routing. NULL or an error text. */
const char *tuned_sizes(Module *m, const char *text, int64_t *sizes, TestRun *run);
/* Schedule blocks for the kernels of c->module that records know at options.tuned_for; c->tuned says which and why. NULL: none. */
const char *tuned_schedules(Compilation *c);

/* ---- target.c ---- */

/* "host", "all" or names with commas, NULL: host; MOE_ISA forces what host means. Returns NULL or an error
 * text. */
const char *target_parse(const char *text, Arena *a, IsaList *out);
/* Leaves the fastest one that this CPU runs (the highest of those up to what MOE_ISA forces); NULL or an error text. */
const char *target_for_this_cpu(IsaList *list, Arena *a);
/* Rates that were probed, for the next process and for each .so; 0: there is no place for them. */
int target_keep_rates(const CpuRates *rates, Arena *a);

/* ---- machine.c ---- */

/* The description of that name, or in the file NAME.json. NULL or an error text. */
const char *machine_open(Arena *a, const char *name, Description *out);

/* ---- fit.c ---- */

/* Clauses with which the launch that did not fit does, at most three, the nearest first; NULL: none was found. */
const char *fit_suggestions(Compilation *c, Isa isa, const Fit *failed);

/* ---- plugin.c ---- */

const BackendApi *plugin_open(Arena *a, const char **error);
/* Loading LLVM takes longer than all passes: a thread begins with it, plugin_open() finds it done or waits. */
void plugin_load_begin(PluginLoad *load, Arena *a);
void plugin_load_end(PluginLoad *load);
const char *plugin_directory(Arena *a); /* where the plug-in is, "." when it is not found */
/* Changes whenever the compiler or its back end does: hash of both files' build ids. */
const char *plugin_build_id(Arena *a);

/* ---- jit.c ---- */

/* Code in this process: from the JIT or from a cached .so. */
typedef struct Loaded {
    void *library; /* dlopen */
    BackendJit *jit;
    const BackendApi *api;
} Loaded;

int code_load(Compilation *c, Loaded *out);
/* Loads a .so that was written to `path`. NULL or an error text. */
const char *code_open_library(const char *path, Arena *a, Loaded *out);
void *code_symbol(const Loaded *l, const char *name);
/* This process calls the code, even if it was forked after the library was loaded; its parent has no threads of OpenMP. */
void code_claim(const Loaded *l);
void code_unload(Loaded *l);

/* ---- cache.c ---- */

/* Where entries live, made when missing: the folder `moec-cache` in the wanted one, or in the one that the environment
 * names. NULL when there is no usable place (which is never an error). */
const char *cache_directory(const char *wanted, Arena *a);
/* 1 when a whole, uncorrupted entry was found. */
int cache_find(const char *directory, const char *key, Arena *a, CacheEntry *out);
/* Waits for another process, or thread, that makes this entry: Note [Turns]. Returns what cache_end_turn() takes. */
int cache_take_turn(const char *directory, const char *key, Arena *a);
void cache_end_turn(int *turn);
void cache_store(const char *directory, const char *key, Bytes so, Bytes header, Arena *a);

/* ---- link.c ---- */

/* Turns an object into a .so. Returns NULL or an error text; no temporary file is left in either case. */
const char *link_shared(Bytes object, const char *soname, Arena *a, Bytes *so); /* soname NULL: none */
/* Marks a .so to stay loaded after dlclose. Note [Pool] A kernel's .so may be what brought the OpenMP library
 * into a process; unloading both takes the code away from under the pool's waiting threads. What users get is
 * therefore pinned; what this library loads itself can go, because jit.c holds the OpenMP library. */
void link_pin(Bytes so);

/* ---- header.c, manifest.c ---- */

const char *header_text(const Module *m, Arena *a);
const char *manifest_text(const Module *m, const IsaList *isas, const char *build_id, Arena *a);

/* ---- output.c ---- */

/* Files that appear together or not at all: written beside, renamed by output_commit. */
typedef struct OutputFile {
    const char *path, *target, *beside; /* beside NULL: not a regular file, written on commit */
    Bytes bytes;
} OutputFile;

typedef struct Output {
    Arena *arena;
    Vec(OutputFile) files;
} Output;

/* Return NULL or an error text; after an error nothing is left behind. Path "-" is the standard output. */
const char *output_add(Output *o, const char *path, Bytes bytes, int executable);
const char *output_commit(Output *o);
/* The whole file, at most `limit` bytes; NULL or an error text. */
const char *output_read_file(const char *path, size_t limit, Arena *a, Bytes *out);

#endif
