/* What hosts tell each other between the exchanges of programs: numbers, parts of weights, the time. */
#include "comm/own.h"

#include <math.h>
#include <string.h>

enum { HOST_TAG = WIRE_TAGS - 1 }; /* of no task */

int comm_gather(Comm *c, const char *what, const void *mine, int64_t bytes, void *all)
{
    CommGroup g = group_of(c, -1, what, HOST_TAG);
    memcpy((char *)all + g.place * bytes, mine, (size_t)bytes);
    for (int64_t m = 0; m < g.members; m++) {
        group_send(&g, m, mine, bytes);
        group_receive(&g, m, (char *)all + m * bytes, bytes);
    }
    return group_exchange(&g);
}

int comm_fetch(Comm *c, const char *what, int64_t from, const void *mine, int64_t bytes, void *to)
{
    CommGroup g = group_of(c, -1, what, HOST_TAG);
    if (g.place)
        group_send(&g, 0, mine, bytes);
    else
        group_receive(&g, from, to, bytes);
    return group_exchange(&g);
}

/* ---- clocks: Note [One time line] ---- */

enum { QUESTIONS = 32 }; /* for each rank: the first ones find it asleep */

static int ask_once(Comm *c, int64_t rank, CommClock *best)
{
    CommGroup g = group_of(c, -1, "the clocks", HOST_TAG);
    const double asked = clock_seconds();
    double theirs = 0;
    group_send(&g, rank, &asked, sizeof asked);
    group_receive(&g, rank, &theirs, sizeof theirs);
    if (group_exchange(&g))
        return 1;
    const double answered = clock_seconds(), error = (answered - asked) / 2;
    if (error < best->error)
        *best = (CommClock){theirs - (asked + answered) / 2, error};
    return 0;
}

static int answer_once(Comm *c)
{
    CommGroup g = group_of(c, -1, "the clocks", HOST_TAG);
    double asked;
    group_receive(&g, 0, &asked, sizeof asked);
    if (group_exchange(&g))
        return 1;
    const double mine = clock_seconds();
    group_send(&g, 0, &mine, sizeof mine);
    return group_exchange(&g);
}

static int ask(Comm *c, int64_t rank, CommClock *best)
{
    int bad = 0;
    *best = (CommClock){.error = HUGE_VAL};
    for (int i = 0; i < QUESTIONS && !bad; i++)
        bad = ask_once(c, rank, best);
    return bad;
}

int comm_clocks(Comm *c, CommClock *all)
{
    int bad = 0;
    for (int i = 0; i < QUESTIONS && c->rank && !bad; i++)
        bad = answer_once(c);
    if (!c->rank)
        all[0] = (CommClock){0, 0};
    for (int64_t r = 1; r < c->ranks.number && !c->rank && !bad; r++)
        bad = ask(c, r, &all[r]);
    return bad;
}
