/* Note [Log of calls]. With MOE_LOG_CALLS=DIR in the environment each call of a compiled kernel leaves its program, sizes, arguments and
 * results in DIR, from which `moec replay` repeats it.
 *
 * Each module has a pointer `moec_log`, NULL as long as nobody listens; so a call that is not logged pays for one load. Who loads a
 * module with libmoec sets it there (driver/log.c); a .so that a program loads itself points it at a function of runtime/log.c,
 * which opens libmoec at the first call. Then both NAME and NAME__call hand the call, in its uniform form, to moec_logged(). */
#ifndef RUNTIME_LOG_H
#define RUNTIME_LOG_H

#include "moec/moert.h"

/* One call. program: a replay file (driver/replay.c) of the module; entry: runs the kernel without logging. */
typedef struct LoggedCall {
    const char *manifest, *program, *kernel;
    moe_entry *entry;
    moe_ctx *ctx;
    const int64_t *dims;
    void *const *args;
} LoggedCall;

/* Makes the call and returns its status. */
typedef int LogListener(const LoggedCall *call);

#define MOE_LOG_CALLS "MOE_LOG_CALLS"

#endif
