/* Calls of compiled plans under the emulator, for `moec test --emulate` and `moec report`. */
#ifndef TESTING_EMULATE_H
#define TESTING_EMULATE_H

#include "driver/driver.h"
#include "emulator/emulator.h"
#include "moec/moert.h"

/* Code of plans: c was compiled with `emulated`. */
typedef struct Emulation {
    const Compilation *c;
    const Loaded *code;
    const Chooser *chooser; /* NULL, or of mode model */
} Emulation;

typedef struct EmulatedCall {
    int status; /* of the kernel */
    const Trace *trace;
} EmulatedCall;

/* Runs the kernel's entry on this thread. dims: by DimId; passed, args: as the entry takes them. NULL, or what the checker found.
 * Texts and trace live in a. */
const char *emulate_call(const Emulation *e, const char *kernel, const int64_t *dims, moe_entry *entry,
                         moe_ctx *ctx, const int64_t *passed, void *const *args, Arena *a, EmulateMode mode,
                         EmulatedCall *out);

#endif
