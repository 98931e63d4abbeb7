/* Files of logged calls: written by log.c, read by testing/replay.c. */
#ifndef DRIVER_LOG_H
#define DRIVER_LOG_H

#include "base/json.h"
#include "driver/module.h"
#include "runtime/log.h"

#define LOG_IN ".in.safetensors"
#define LOG_OUT ".out.safetensors"

/* A tensor of such a file. */
typedef struct LogTensor {
    const char *name, *type; /* F32, BF16, F16, I32, I64, U8 */
    const void *at;
    size_t bytes;
    uint32_t rank;
    int64_t shape[MOEC_MAX_RANK];
} LogTensor;

/* What stands of a parameter that is no route: 0: these sizes are refused. And of a route that has its sizes. */
int log_param(const moec_kernel *k, uint32_t param, const int64_t *dims, LogTensor *out);
void log_route(Arena *a, const char *param, const moe_route *r, LogTensor out[4]);
/* The entry of a header, for data that begin there. */
json_t *log_entry(const LogTensor *t, uint64_t begin);

const char *log_sizes_text(const moec_kernel *k, const int64_t *dims, Arena *a); /* "T=33 K=2" */

/* Calls of this code are logged, if the environment asks for it. */
void log_calls_of(const Loaded *code);

/* What moec_log is set to; a kernel.so looks for it in libmoec. */
int moec_log_call(const LoggedCall *call);

#endif
