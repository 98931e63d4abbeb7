/* Note [Made helpers]. A helper (emit.h) depends on its instruction set and nothing else, and helpers take a third of the code
 * generation of a small program. So all are generated when the compiler is built: moec-make-helpers, which is the back end with
 * make_helpers.c, writes a file of objects; made_bytes.c puts it into the plug-in; and a compilation merges the objects of the
 * helpers that it calls with its own. Text, assembly and other levels than MADE_LEVEL have helpers among their functions. */
#ifndef BACKEND_MADE_H
#define BACKEND_MADE_H

#include "backend/object.h"
#include "machines/machines.h"

enum { MADE_LEVEL = 2 /* of code generation, what `moec` takes by default */ };

/* The file begins with rows; the last one has no bytes. */
typedef struct MadeRow {
    uint32_t owner, helper; /* owner: helper_owner() */
    uint64_t at, len;       /* of the object: byte in the file, bytes */
} MadeRow;

ObjectBytes made_helper(Isa owner, uint32_t helper); /* at NULL: it was not made */

/* backend.c: makes one. Returns NULL, or the error. */
const char *backend_make_helper(Isa target, uint32_t helper, Arena *a, ObjectBytes *out);

#endif
