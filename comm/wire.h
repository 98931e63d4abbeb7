/* What the door needs of an engine: messages between numbered ranks. A plug-in (mpi.c) gives it without a type of its own, so that
 * what asks for it is built without the engine. Called by one thread. */
#ifndef COMM_WIRE_H
#define COMM_WIRE_H

#include <stdint.h>

/* To or from a rank. Of one that is received `bytes` is what is expected, and `got` what came. */
typedef struct WireMessage {
    int64_t rank;
    void *at;
    int64_t bytes, got;
    int is_sent, left; /* left: pieces that are under way */
} WireMessage;

/* Asked again and again while messages are under way. Returns 0, or 1: give up. */
typedef struct WireWait {
    int (*waits)(void *self, const WireMessage *m, int64_t n);
    void *self;
} WireWait;

typedef struct Wire {
    int64_t ranks, rank;
    double timeout; /* seconds that starting and ending may take (or half a minute), before the process ends instead */
    char engine[64], error[192]; /* error: of the call that failed */
} Wire;

/* The plug-in's table, under the name `moe_wire`. */
typedef struct WireTable {
    int version;
    /* Joins the job: fills ranks, rank and engine. Returns 0, or 1 with w->error. */
    int (*start)(Wire *w);
    /* Sends and receives all of them under a tag, 0 to WIRE_TAGS - 1; messages of one tag between two ranks keep their order. It
     * sleeps rather than spins. Returns 0; 1 with w->error; 2 where `wait` gave up. */
    int (*exchange)(Wire *w, WireMessage *m, int64_t n, int tag, const WireWait *wait);
    void (*end)(Wire *w);             /* all ranks reach it */
    void (*abort)(Wire *w, int code); /* ends all ranks, and does not return */
} WireTable;
enum { WIRE_VERSION = 1, WIRE_TAGS = 32768 };

#endif
