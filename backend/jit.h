/* Objects in memory become callable: see BackendApi. */
#ifndef BACKEND_JIT_H
#define BACKEND_JIT_H

#include "backend/backend.h"

const char *jit_load(const char *object, size_t len, int names, Arena *a, BackendJit **out);
void *jit_symbol(BackendJit *jit, const char *name);
void jit_free(BackendJit *jit);
void jit_listen(const BackendListener *listener);

#endif
