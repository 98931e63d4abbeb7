/* What a kernel takes, as read from the manifest of its module: enough to check arguments and to call it. */
#ifndef DRIVER_SIGNATURE_H
#define DRIVER_SIGNATURE_H

#include "ir/ir.h"
#include "moec/moec.h"

typedef struct SigTerm {
    int64_t coef;
    uint32_t ndims;
    const uint32_t *dims; /* indices into Signatures.dims */
} SigTerm;

typedef struct SigExtent {
    const char *text;
    const SigTerm *terms;
    uint32_t nterms;
} SigExtent;

typedef struct SigDim {
    const char *name;
    int64_t constant; /* -1: passed by the caller */
} SigDim;

typedef struct SigGroup {
    const char *name;
    SigExtent groups, rows;
} SigGroup;

typedef struct SigParam {
    const char *name;
    moec_param_kind kind;
    Role role;
    Elem elem;
    uint32_t rank;
    int packed, both, unread;
    const SigExtent *shape;    /* tensor */
    SigExtent tokens, choices; /* route */
    uint32_t group;
} SigParam;

typedef struct SigKernel {
    const char *name, *entry, *workspace; /* the last two NULL: there is no code */
    const uint32_t *dims; /* those a call passes, in its order */
    uint32_t ndims, nparams;
    const SigParam *params;
} SigKernel;

typedef struct SigPair {
    moec_pair pair;
    const moec_saved *saved;
    const moec_cotangent *cotangents;
    const moec_gradient *gradients;
    const char *const *handed;
} SigPair;

typedef struct Signatures {
    SigDim *dims;
    SigGroup *groups;
    SigKernel *kernels;
    const SigPair *pairs;
    uint32_t ndims, ngroups, nkernels, npairs;
} Signatures;

extern const char *const signature_modes[4]; /* by moec_mode */

/* NULL or an error text. Everything lives in the arena. */
const char *signature_read(const char *manifest, Arena *a, Signatures *out);

#endif
