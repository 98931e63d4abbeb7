/* Names of JIT code for perf and gdb: see jit_names.c. */
#ifndef BACKEND_JIT_NAMES_H
#define BACKEND_JIT_NAMES_H

#include "backend/jit.h"
#include "backend/object.h"

typedef struct JitNames JitNames; /* what gdb knows of an object */

/* The object with a global symbol at the begin of each section that is loaded, so that the JIT can tell where it is. */
ObjectBytes jit_names_mark(ObjectBytes object, Arena *a);
/* Tells perf and gdb of a marked object that the JIT loaded. NULL: gdb was not told. */
JitNames *jit_names_tell(ObjectBytes marked, BackendJit *jit, Arena *a);
void jit_names_free(JitNames *names); /* before the code is gone; NULL: there is nothing to do */

#endif
