/* Other libraries that can do what a case does. Each peer lives in a library of its own (bench/peer_NAME.c) that is opened
 * when it is there, so that moe-bench runs without them; PyTorch is a process (torch_peer.py). */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdint.h>

/* Seconds of so many calls in a row; negative: it failed. */
typedef double TimeCalls(void *self, int calls);

/* A product of ragged groups of rows, already permuted; one group: a plain product.
 *   PRODUCT_FWD  y[r, f]    = sum(h) x[r, h] * w[e, h, f]
 *   PRODUCT_DX   x[r, h]    = sum(f) y[r, f] * w[e, h, f]
 *   PRODUCT_DW   w[e, h, f] += sum(r in e) x[r, h] * y[r, f]    w in f32 */
typedef enum ProductKind { PRODUCT_FWD, PRODUCT_DX, PRODUCT_DW } ProductKind;

typedef struct PeerProduct {
    ProductKind kind;
    int bf16;      /* else f32 */
    int prepacked; /* 1: weights may be brought into any layout before */
    int threads;
    int64_t experts, depth, width; /* H, F */
    const int64_t *start;          /* [experts + 1] first row of each group */
    void *x, *w, *y;               /* [rows, H], [experts, H, F], [rows, F] */
} PeerProduct;

/* What a peer calls for each way it has to do something. It goes on owning nothing: `drop` frees self. */
typedef void AddWay(void *to, const char *who, const char *way, TimeCalls *time, void *self,
                    void (*drop)(void *));

/* The one symbol of a peer's library, `peer`. */
typedef struct Peer {
    const char *name;
    const char *(*version)(void);
    void (*product)(const PeerProduct *p, AddWay *add, void *to);
} Peer;

#endif
