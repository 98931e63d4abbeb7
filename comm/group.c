/* Messages of a group: who sends what to whom, how long they wait, what is counted. */
#include "comm/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

const char *const link_names[] = {[LINK_INSIDE] = "inside a node", [LINK_BETWEEN] = "between nodes"};

/* Seconds that a wait may still take before it is told for whom, once the process is asked to end: a launcher that ends a job kills
 * soon after it has asked. */
static const double patience = 0.3;

int comm_fail(Comm *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->error, sizeof c->error, format, args);
    va_end(args);
    return 1;
}

CommGroup group_of(Comm *c, int axis, const char *what, int tag)
{
    const int all = axis < 0;
    return (CommGroup){.c = c,
                       .axis = axis,
                       .members = all ? c->ranks.number : c->ranks.members[axis],
                       .place = all ? c->rank : ranks_place(&c->ranks, (GroupAxis)axis, c->rank),
                       .what = what,
                       .tag = tag % WIRE_TAGS,
                       .next = c->messages};
}

static int64_t rank_of(const CommGroup *g, int64_t place)
{
    return g->axis < 0 ? place : ranks_member(&g->c->ranks, (GroupAxis)g->axis, g->c->rank, place);
}

static CommLink link_to(const CommGroup *g, int64_t rank)
{
    return ranks_share_node(&g->c->ranks, g->c->rank, rank) ? LINK_INSIDE : LINK_BETWEEN;
}

/* Members are in the order of their ranks. */
static CommLink widest_link(const CommGroup *g)
{
    return ranks_share_node(&g->c->ranks, rank_of(g, 0), rank_of(g, g->members - 1)) ? LINK_INSIDE
                                                                                     : LINK_BETWEEN;
}

static void add_message(CommGroup *g, int64_t place, void *at, int64_t bytes, int is_sent)
{
    if (place != g->place)
        *g->next++ = (WireMessage){.rank = rank_of(g, place), .at = at, .bytes = bytes, .is_sent = is_sent};
}

void group_send(CommGroup *g, int64_t place, const void *at, int64_t bytes)
{
    add_message(g, place, (void *)(uintptr_t)at, bytes, 1);
}

void group_receive(CommGroup *g, int64_t place, void *at, int64_t bytes)
{
    add_message(g, place, at, bytes, 0);
}

/* ---- waiting ---- */

static const char *axis_text(const CommGroup *g) { return g->axis < 0 ? "all ranks" : axis_names[g->axis]; }

/* The first rank that has not done its part. */
static int64_t missing(const WireMessage *m, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (m[i].left)
            return m[i].rank;
    return -1;
}

static int waits(void *group, const WireMessage *m, int64_t n)
{
    CommGroup *g = group;
    Comm *c = g->c;
    const double now = clock_seconds();
    if (g->told == 0 && c->options.ending && c->options.ending())
        g->told = now + patience;
    if (g->told > 0 && now > g->told && c->options.say) {
        c->options.say("rank %lld of %lld is asked to end and waits for rank %lld in %s over %s",
                       (long long)c->rank, (long long)c->ranks.number, (long long)missing(m, n), g->what,
                       axis_text(g));
        g->told = -1;
    }
    if (now - g->began < c->options.timeout)
        return 0;
    return comm_fail(c,
                     "rank %lld of %lld waited %.1f s for rank %lld in %s over %s: that rank is lost, "
                     "stopped or slower than the "
                     "time-out",
                     (long long)c->rank, (long long)c->ranks.number, now - g->began, (long long)missing(m, n),
                     g->what, axis_text(g));
}

static int check_sizes(const CommGroup *g)
{
    Comm *c = g->c;
    for (const WireMessage *m = c->messages; m < g->next; m++)
        if (!m->is_sent && m->got != m->bytes)
            return comm_fail(
                c, "rank %lld of %lld got %lld bytes from rank %lld and expected %lld, in %s over %s",
                (long long)c->rank, (long long)c->ranks.number, (long long)m->got, (long long)m->rank,
                (long long)m->bytes, g->what, axis_text(g));
    return 0;
}

/* A signal ends it; who is asked to end does not begin it. */
static void sleep_for(const Comm *c, double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    if (seconds > 0 && !(c->options.ending && c->options.ending()))
        nanosleep(&t, NULL);
}

static void count(const CommGroup *g)
{
    CommTraffic *t = &g->c->traffic[g->axis];
    t->rounds++;
    for (const WireMessage *m = g->c->messages; m < g->next; m++)
        if (m->is_sent)
            t->bytes[link_to(g, m->rank)] += m->bytes;
    t->seconds[widest_link(g)] += clock_seconds() - g->began;
}

int group_exchange(CommGroup *g)
{
    Comm *c = g->c;
    g->began = clock_seconds(), g->told = 0;
    sleep_for(c, c->options.delay[widest_link(g)]);
    const int bad = c->table ? c->table->exchange(&c->wire, c->messages, g->next - c->messages, g->tag,
                                                  &(WireWait){waits, g})
                             : 0;
    if (bad == 1)
        return comm_fail(c, "rank %lld of %lld, in %s over %s: %s", (long long)c->rank,
                         (long long)c->ranks.number, g->what, axis_text(g), c->wire.error);
    if (bad || check_sizes(g))
        return 1;
    if (g->axis >= 0)
        count(g);
    g->next = c->messages;
    return 0;
}
