/* The kernels that programs may call: .moe sources, their signatures, what `derive` makes of them on request, their code.
 *
 * A set is filled with sources, asked for derived kernels while a program is recorded, and compiled once. Signatures and
 * pairs are there at once; those of requested kernels after kernels_read(); code after kernels_compile(). */
#ifndef STEP_KERNELS_H
#define STEP_KERNELS_H

#include "step/step.h"

typedef struct KernelSet KernelSet;

/* types: as options.types of moec_compile_text, or NULL. NULL when memory is exhausted. */
KernelSet *kernels_open(const char *types);
void kernels_close(KernelSet *s);
const char *kernels_error(const KernelSet *s); /* of the last call that failed */

/* Adds a source; text must live as long as the set. Kernel names are one of their kind over all sources. Returns 0, or 1
 * with an error. */
int kernels_add(KernelSet *s, const char *file, const char *text, size_t len);

/* A kernel of the sources, or one that a request made and kernels_read() has read, as the interpreter runs it. NULL: there is
 * none. */
const moec_kernel *kernels_find(const KernelSet *s, const char *name);
const char *kernels_source(const KernelSet *s, const char *name); /* the file of that kernel, or NULL */

/* The pair that `derive` makes of a kernel in its file; the first one where there are several. 0: there is none. */
typedef struct KernelPair {
    const moec_module *module;
    size_t number;
    moec_pair pair;
} KernelPair;
int kernels_pair(const KernelSet *s, const char *from, KernelPair *out);

/* What a derived backward is asked for: a mode for each gradient of the kernel's pair, in its order; `skip` where no one
 * wants it. */
typedef enum WrtMode { WRT_SKIP, WRT_WRITE, WRT_WRITE_F32, WRT_ADD, WRT_PASS } WrtMode;
typedef struct DeriveRequest {
    const char *backward, *later; /* names of the kernels; later: NULL where the pair has one kernel */
    const char *text;             /* the derive block */
    const char *source;
} DeriveRequest;
/* The same request twice is one. */
DeriveRequest kernels_request(KernelSet *s, const KernelPair *p, const WrtMode *modes);

/* Reads the sources again with all requests. Returns 0, or 1 with an error. */
int kernels_read(KernelSet *s);
/* Marks a kernel as one that needs code. */
void kernels_use(KernelSet *s, const char *name);
/* What the code of a kernel is made of, as moec_work and moec_options name it. 0: there is no such kernel. */
typedef struct KernelText {
    const char *file, *text, *types, *derive;
} KernelText;
int kernels_text(const KernelSet *s, const char *name, KernelText *out);
/* What calls of a file's kernels will be like (moec_options.tuned_for, tuned_threads), before they are compiled. */
void kernels_tuned_for(KernelSet *s, const char *file, const char *calls, int threads);
/* Makes code for the kernels that are marked. Returns 0, or 1 with an error. */
int kernels_compile(KernelSet *s);
const moec_kernel *kernels_code(const KernelSet *s, const char *name); /* NULL: it was not marked */
/* Adds a buffer for the work space of each task's kernel, for which the set must have code. Returns 0, or 1 with an error. */
int kernels_add_work(KernelSet *s, Program *p);

#endif
