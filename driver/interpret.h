/* The reference interpreter on the arguments of a call. */
#ifndef DRIVER_INTERPRET_H
#define DRIVER_INTERPRET_H

#include "ir/ir.h"
#include "driver/driver.h"
#include "moec/moec.h"

/* What the interpreter takes: dimensions by DimId, arguments by parameter as doubles. */
typedef struct InterpretCall {
    const Kernel *kernel; /* whose signature the call has */
    Arena *arena;
    int64_t *dims;
    EvalArg *args;
} InterpretCall;

/* Fills c->dims and c->args from a call's. Outputs get memory, their elements are not read. Returns a moe_status. */
int interpret_read(InterpretCall *c, moe_ctx *ctx, const int64_t *dims, void *const *args);

/* Makes a module of a compilation whose text is given, without machine code. The module owns c on success. */
int interpret_module(Compilation *c, moec_module **out);

#endif
