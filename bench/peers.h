/* The peers that are there, as the makers of cases see them. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench/bench.h"

void peers_begin(const Options *o);
/* A line for each: its version, or how to get it. */
void peers_print(const Bench *b, FILE *out);
void peers_end(void);

/* Adds every way of every peer to multiply; p NULL: nothing. */
void peers_product(Case *c, const PeerProduct *p);
/* Adds every way of PyTorch to do `what`, a function of torch_peer.py, at the case's sizes and with these choices of
 * experts (NULL: there are none). It has random data of its own. */
void peers_torch(Case *c, const char *what, const moe_route *route);
/* The case is done. */
void peers_forget(void);

/* peer_torch.c: the process. 0: it is there. */
int torch_begin(void);
void torch_end(void);
const char *torch_version(void);
void torch_ask(Case *c, const char *what, const moe_route *route);
void torch_forget(void);

#endif
