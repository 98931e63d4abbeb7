/* SPDX-License-Identifier: Apache-2.0 */
/* moert: what a caller of compiled kernels needs. C11 and C++.
 *
 * The structs of abi.def, the status codes, and small helpers. A program that links a kernel.so needs only the
 * generated header (which repeats these declarations under the same guards); libmoert adds convenience. */
#ifndef MOEC_MOERT_H
#define MOEC_MOERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MOE_SHARED_DECLARATIONS
#define MOE_SHARED_DECLARATIONS

typedef enum moe_status {
#define STATUS(name, text) MOE_##name,
#include "moec/abi.def"
} moe_status;

enum { MOE_MESSAGE_BYTES = 512 };

/* One per calling thread; zero-initialise it or use moe_ctx_new(). */
typedef struct moe_ctx {
#define CTX(field, ctype, llvm, doc) ctype field;
#include "moec/abi.def"
} moe_ctx;

/* Which expert rows each token's choices became; the caller owns the arrays. */
typedef struct moe_route {
#define ROUTE(field, ctype, llvm, doc) ctype field;
#include "moec/abi.def"
} moe_route;

/* The text of a status, without libmoert. */
static inline const char *moe_strerror(int status)
{
    switch (status) {
#define STATUS(name, text)                                                                                   \
    case MOE_##name:                                                                                         \
        return text;
#include "moec/abi.def"
    default: return "not a status";
    }
}

#endif

/* NULL when memory is exhausted. threads: as the field of moe_ctx says. */
moe_ctx *moe_ctx_new(int threads);
void moe_ctx_free(moe_ctx *ctx);
const char *moe_status_text(int status);
/* The text of the last failure, "" when there was none. */
const char *moe_ctx_message(const moe_ctx *ctx);

/* A route with its arrays, zeroed: tokens, choices, groups, rows as in moe_route. NULL when memory is exhausted, or a size
 * (or tokens * choices) is negative or beyond 2^31 - 1. */
moe_route *moe_route_new(int64_t tokens, int64_t choices, int64_t groups, int64_t rows);
/* The route of ids[tokens][choices], each the group (expert) of a choice, or -1 for none. Rows are ordered by group, token and
 * choice. capacity -1: of a group `rows T*K`; else of a group `capacity C`: each has so many rows, and choices beyond them are
 * dropped. NULL as moe_route_new() says, or when ids is NULL, an id is not in -1..groups-1 or capacity is below -1. */
moe_route *moe_route_from_ids(const int32_t *ids, int64_t tokens, int64_t choices, int64_t groups, int64_t capacity);
void moe_route_free(moe_route *route);

/* Uniform entry of a kernel: NAME__call. */
typedef int moe_entry(moe_ctx *ctx, const int64_t *dims, void *const *args);

#ifdef __cplusplus
}
#endif
#endif
