/* Relocatable ELF files made one, so that kernels can be compiled in parallel. */
#ifndef BACKEND_OBJECT_H
#define BACKEND_OBJECT_H

#include "base/base.h"

typedef struct ObjectBytes {
    const char *at;
    size_t len;
} ObjectBytes;

/* All sections of all parts, one symbol table. Returns NULL, or what is wrong with a part. */
const char *object_merge(const ObjectBytes *parts, uint32_t n, Arena *a, ObjectBytes *out);

#endif
