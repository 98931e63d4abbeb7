/* The ranks of a job, and the door through which their programs exchange.
 *
 * Note [Sums in rank order]. An engine adds in an order of its own, which may differ from run to run. So what is added up is exchanged
 * in parts: each member gets its part from all, adds in the order of their places, in f32, and (allreduce) sends the sum to all. The
 * bits depend on the number of ranks only.
 *
 * Note [The end of a job]. A rank that waits longer than the time-out, or gets another number of bytes than it expects, learns with
 * which rank and in which exchange, and whoever runs it ends all ranks (comm_close). So no rank waits for ever for one that is lost. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "step/ranks.h"
#include "step/run.h"

typedef struct Comm Comm;

typedef enum CommLink { LINK_INSIDE, LINK_BETWEEN, LINK_COUNT } CommLink; /* a node, nodes */
extern const char *const link_names[LINK_COUNT];

typedef struct CommOptions {
    RanksAsked asked;
    double timeout;             /* seconds that a rank waits for others */
    double delay[LINK_COUNT];   /* seconds that each exchange sleeps, to stand for a network; by the widest link of its group */
    int (*ending)(void);        /* a signal has asked this process to end; NULL: none does */
    int (*say)(const char *, ...); /* for whom it waits when it is asked to end */
} CommOptions;

int comm_is_launched(void);       /* was this process started by mpirun or its like? */
int64_t comm_launched_rank(void); /* its number, by the launcher; 0: there is none, or it does not say */
/* All ranks of the job, planned as asked; without a launcher one rank, for which nothing is loaded. NULL with *error, in the arena. */
Comm *comm_open(Arena *a, const CommOptions *o, const char **error);
/* All ranks reach it, and the engine is left; or this rank has failed, and ends the others, who may wait for it: then it does not
 * return. NULL does nothing. */
void comm_close(Comm *c, int failed);

const Ranks *comm_ranks(const Comm *c);
int64_t comm_rank(const Comm *c);
const char *comm_engine(const Comm *c); /* "Open MPI 4.1.4"; of one rank "none" */
const char *comm_error(const Comm *c);  /* of the call that failed last */

ExchangeDoor comm_door(Comm *c);
/* Every rank's `bytes`, in the order of ranks, for all. `what` for messages. Returns 0, or 1 with comm_error(). */
int comm_gather(Comm *c, const char *what, const void *mine, int64_t bytes, void *all);
/* The bytes of one rank for rank 0: these two call it. */
int comm_fetch(Comm *c, const char *what, int64_t from, const void *mine, int64_t bytes, void *to);

/* Note [One time line]. Every rank has a clock, clock_seconds(). Rank 0 asks each of the others for its time, some times, and takes the
 * fastest answer: the other clock was read between question and answer, so half of the time between them is the error. */
typedef struct CommClock {
    double ahead, error; /* seconds that a rank's clock is ahead of the one of rank 0 */
} CommClock;
/* all: of every rank, on rank 0. Every rank calls it. */
int comm_clocks(Comm *c, CommClock *all);

/* What the exchanges of an axis took since the start, or since comm_count_anew(). Bytes that this rank sent, by the link to whom; seconds by the widest link of
 * the group. */
typedef struct CommTraffic {
    int64_t rounds, bytes[LINK_COUNT]; /* an allreduce has two rounds of messages */
    double seconds[LINK_COUNT];
} CommTraffic;
CommTraffic comm_traffic(const Comm *c, GroupAxis axis);
void comm_count_anew(Comm *c);
/* The bytes that one run of a program sends from a rank, from its tensors' sizes; rows of an alltoallv as if every member got as many. */
CommTraffic comm_planned(const Program *p, const Ranks *r, int64_t rank, GroupAxis axis);
int64_t comm_memory(const Program *p); /* bytes that the door needs for the program's exchanges */

#endif
