/* What the files of comm/ share: open.c (jobs, the plug-in), group.c (messages of a group, waiting, counting), door.c (exchanges of
 * programs), add.c (sums), host.c (what hosts tell each other). */
#ifndef COMM_OWN_H
#define COMM_OWN_H

#include "comm/comm.h"
#include "comm/wire.h"

/* Elements of a member's part that are exchanged and added at a time: with the slices of all members they bound the scratch memory. */
static inline int64_t comm_slice(int64_t members)
{
    enum { LEAST = 1 << 12, MOST = 1 << 18, ALL = 1 << 20 };
    const int64_t slice = ALL / members;
    return slice < LEAST ? LEAST : slice > MOST ? MOST : slice;
}

/* Elements up to which all members of an allreduce add everything: one round instead of two. */
enum { COMM_SMALL = 1 << 12 };

/* Which part of n elements a member adds up: parts differ by one element at most. */
static inline int64_t comm_part_begin(int64_t n, int64_t members, int64_t place)
{
    const int64_t more = n % members;
    return n / members * place + (place < more ? place : more);
}
static inline int64_t comm_part_elements(int64_t n, int64_t members, int64_t place)
{
    return n / members + (place < n % members);
}

struct Comm {
    CommOptions options;
    Ranks ranks;
    int64_t rank;
    const WireTable *table; /* NULL: one rank */
    Wire wire;
    CommTraffic traffic[AXIS_COUNT];
    WireMessage *messages; /* [2 ranks.number] */
    char *scratch;         /* grows to the largest exchange's */
    int64_t scratch_bytes;
    char error[512];
};

/* The members of this rank's group of an axis, or all ranks of the job. */
typedef struct CommGroup {
    Comm *c;
    int axis; /* -1: all ranks */
    int64_t members, place;
    const char *what; /* for messages */
    int tag;
    WireMessage *next; /* behind those that were added */
    double began, told;
} CommGroup;

int comm_fail(Comm *c, const char *format, ...) __attribute__((format(printf, 2, 3))); /* 1 */
char *comm_scratch(Comm *c, int64_t bytes); /* NULL with the error */

CommGroup group_of(Comm *c, int axis, const char *what, int tag);
/* Messages with the member at a place, which group_exchange() then sends and awaits. Those with oneself are none. */
void group_send(CommGroup *g, int64_t place, const void *at, int64_t bytes);
void group_receive(CommGroup *g, int64_t place, void *at, int64_t bytes);
int group_exchange(CommGroup *g); /* 0, or 1 with the error */

/* y[i] = the sum over members of parts[member][i], in their order, in f32 (i32: exact). 1: a type that is not added. */
int comm_add(moec_type type, void *y, const void *const *parts, int64_t members, int64_t n);

#endif
