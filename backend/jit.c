/* LLJIT over objects. What compiled code calls is defined here by address, so that it resolves whether or not
 * the host program exports it; nothing else is searched for. */
#include "backend/jit.h"

#include "backend/jit_names.h"
#include "backend/llvm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct BackendJit {
    LLVMOrcLLJITRef jit;
    JitNames *names; /* NULL: gdb was not told of it */
};

/* libgomp's entry points; omp.h does not declare the first two. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);

static __thread const BackendListener *listener;

void jit_listen(const BackendListener *l) { listener = l; }

static int moec_event(int64_t kind, int64_t statement, const int64_t *values)
{
    return listener->event(listener->user, kind, statement, values);
}

static void *moec_on_chip(int64_t space) { return listener->on_chip(listener->user, space); }

typedef void Function(void);

typedef struct Provided {
    const char *name;
    Function *fn;
} Provided;

static const Provided provided[] = {
    {"GOMP_parallel", (Function *)GOMP_parallel},
    {"GOMP_barrier", (Function *)GOMP_barrier},
    {"omp_get_thread_num", (Function *)omp_get_thread_num},
    {"omp_get_num_threads", (Function *)omp_get_num_threads},
    {"omp_get_max_threads", (Function *)omp_get_max_threads},
    {"moec_event", (Function *)moec_event},
    {"moec_on_chip", (Function *)moec_on_chip},
    {"snprintf", (Function *)snprintf},
    {"dprintf", (Function *)dprintf},
    {"secure_getenv", (Function *)secure_getenv},
    {"clock_gettime", (Function *)clock_gettime},
    {"open", (Function *)open},
    {"fstat", (Function *)fstat},
    {"read", (Function *)read},
    {"close", (Function *)close},
    {"geteuid", (Function *)geteuid},
    {"syscall", (Function *)syscall},
    {"memcmp", (Function *)memcmp},
    {"bcmp", (Function *)bcmp},
    {"aligned_alloc", (Function *)aligned_alloc},
    {"free", (Function *)free},
    {"getenv", (Function *)getenv},
    {"getpid", (Function *)getpid},
    {"strcmp", (Function *)strcmp},
    {"memset", (Function *)memset},
    {"memcpy", (Function *)memcpy},
    {"memmove", (Function *)memmove},
};

static const char *kept(Arena *a, LLVMErrorRef error)
{
    char *text = LLVMGetErrorMessage(error);
    const char *copy = arena_printf(a, "LLVM JIT: %s", text);
    LLVMDisposeErrorMessage(text);
    return copy;
}

static LLVMErrorRef define_provided(LLVMOrcLLJITRef jit)
{
    enum { N = sizeof provided / sizeof *provided };
    LLVMOrcCSymbolMapPair pairs[N];
    for (int i = 0; i < N; i++) {
        pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, provided[i].name);
        pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)provided[i].fn;
        pairs[i].Sym.Flags.GenericFlags =
            LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
        pairs[i].Sym.Flags.TargetFlags = 0;
    }
    return LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), LLVMOrcAbsoluteSymbols(pairs, N));
}

const char *jit_load(const char *object, size_t len, int names, Arena *a, BackendJit **out)
{
    ObjectBytes given = {object, len};
    LLVMOrcLLJITRef jit;
    LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit, NULL);
    if (error)
        return kept(a, error);
    error = define_provided(jit);
    if (!error) {
        if (names)
            given = jit_names_mark(given, a);
        /* the buffer goes to the JIT, whether it succeeds or not */
        LLVMMemoryBufferRef buffer =
            LLVMCreateMemoryBufferWithMemoryRangeCopy(given.at, given.len, "kernel.o");
        error = LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), buffer);
    }
    BackendJit *j = error ? NULL : malloc(sizeof *j);
    if (j) {
        *j = (BackendJit){.jit = jit};
        if (names)
            j->names = jit_names_tell(given, j, a);
        *out = j;
        return NULL;
    }
    const char *text = error ? kept(a, error) : "LLVM JIT: out of memory";
    LLVMConsumeError(LLVMOrcDisposeLLJIT(jit));
    return text;
}

void *jit_symbol(BackendJit *jit, const char *name)
{
    LLVMOrcExecutorAddress address = 0;
    LLVMErrorRef error = LLVMOrcLLJITLookup(jit->jit, &address, name);
    if (error) {
        LLVMConsumeError(error);
        return NULL;
    }
    return (void *)(uintptr_t)address;
}

void jit_free(BackendJit *jit)
{
    if (!jit)
        return;
    jit_names_free(jit->names);
    LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->jit));
    free(jit);
}
