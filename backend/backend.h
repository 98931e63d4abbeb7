/* Tiles -> LLVM -> JIT or object. The front door of backend/.
 *
 * Built as a plug-in (build/lib/moec-llvm.so): driver/ opens it only when something must be compiled, and
 * finds the one symbol `backend_entry`. Nothing outside backend/ sees an LLVM type. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "ir/ir.h"
#include "ir/tile.h"
#include "machines/machines.h"

/* One module lowered for one instruction set; several of them make a .so that chooses at load time. */
typedef struct BackendInput {
    const Module *module; /* every kernel has tiles */
    Isa isa;
} BackendInput;

typedef struct BackendOptions {
    int debug;            /* -g: DWARF lines of the .moe file */
    int level;            /* -O: code generation level 0..3 */
    const char *manifest; /* JSON text to embed, or NULL */
    const char *program;  /* what it was compiled from, to embed likewise: a replay file */
    const char *build_id; /* embedded beside them */
    int unforced;         /* MOE_ISA is not about this code: it runs wherever it can */
} BackendOptions;

typedef struct BackendJit BackendJit;

typedef enum BackendOutput { OUTPUT_LLVM, OUTPUT_ASM, OUTPUT_OBJECT } BackendOutput;

/* Who listens to the events of plans, see emulator/. Of a thread; NULL: nobody, then no plan may run on it. */
typedef struct BackendListener {
    int (*event)(void *user, int64_t kind /* EventKind */, int64_t statement,
                 const int64_t *values);         /* not 0: the body is to run */
    void *(*on_chip)(void *user, int64_t space); /* the core's buffer */
    void *user;
} BackendListener;

typedef struct BackendApi {
    const char *version; /* "LLVM 22.1.8" */
    /* Each returns NULL on success, else an error text in arena a. Bytes are allocated in a. */
    const char *(*emit)(const BackendInput *inputs, uint32_t n, const BackendOptions *o, BackendOutput what,
                        Arena *a, const char **bytes, size_t *len);
    /* names: perf and gdb are to know the functions, see Note [Names of JIT code]. */
    const char *(*jit_load)(const char *object, size_t len, int names, Arena *a, BackendJit **out);
    void *(*jit_symbol)(BackendJit *jit, const char *name); /* NULL when there is none */
    void (*jit_free)(BackendJit *jit);
    void (*jit_listen)(const BackendListener *listener);
} BackendApi;

/* The plug-in's one exported symbol, but for those that gdb looks for. */
typedef const BackendApi *BackendEntry(void);
const BackendApi *backend_entry(void);

/* Note [Symbols of a compiled module]
 *   NAME(ctx, dims..., params...)       the C function of the header (language page, section 11)
 *   NAME__call(moe_ctx *, const int64_t *dims, void *const *args)   the same, uniform: args[i] points at the tensor's
 *                                       data, at the moe_route, or at the scalar's value
 *   NAME_workspace(dims...) -> int64_t  bytes of work space of a call; -1: dimensions that it refuses, or out of range
 *   NAME__workspace(const int64_t *dims) -> int64_t                 the same, uniform
 *   NAME_PARAM_pack_bytes(dims...) -> size_t, NAME_PARAM_pack(dims..., row_major, packed) -> status
 *                                       of a packed parameter, over the dimensions that its type mentions
 *   moec_manifest, moec_program, moec_build_id  const char[]
 *   moec_log                            a function that is told of each call, or NULL: Note [Log of calls] in runtime/log.h
 *   moec_process                        int32_t: the process that loaded the module, Note [Forked] in emit_entry.c.
 *                                       A .so sets it when it is loaded; 0 means not known. */

#endif
