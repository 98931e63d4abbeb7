#include "step/team.h"

/* Note [Fewer threads]: a loop of a kernel ends when its slowest thread does. Where another process wants one of two cores, a
 * thread has half of that core, the other thread waits for it, and the two together are no faster than one that has a core for
 * itself; what they lose on handing over makes them slower. So a run whose threads are often taken from their cores tries
 * fewer: some runs in turns, then the faster number stays. It is one thread fewer first, then two, then four, because several cores
 * may be wanted, and nothing is won before the last of them is left. With fewer than were asked for it tries one more now and then,
 * because other work ends. The numbers that kernels compute do not depend on it (docs/language.md, section 5). A run that no
 * other work disturbs never tries anything. */
enum {
    TRIAL_RUNS = 6,   /* in turns, so half of them each */
    PAUSE_LEAST = 8,  /* runs after a trial that changed the number, or before the first one */
    PAUSE_MOST = 128, /* doubled after each that did not, up to this */
    PREEMPTED =
        250, /* times in a second, from which other work counts; measured: 80 to 130 alone, 1500 beside a busy process */
};
#define CLEARLY_SLOWER 1.2 /* ends a trial after two runs */

Team team_new(int most)
{
    return (Team){.most = most, .now = most, .stride = 1, .pause = PAUSE_LEAST, .left = PAUSE_LEAST};
}

int team_threads(const Team *t) { return t->other && t->tried % 2 ? t->other : t->now; }

static int least_one(int n) { return n > 1 ? n : 1; }

/* What is worth a trial; 0: nothing is. Where both are, they take turns. */
static int candidate(const Team *t, int disturbed)
{
    const int fewer = disturbed && t->now > 1 ? least_one(t->now - t->stride) : 0;
    const int more = t->now < t->most ? t->now + 1 : 0;
    return fewer && more ? (t->went_down ? more : fewer) : fewer + more;
}

static int is_decided(const Team *t)
{
    return t->tried == TRIAL_RUNS || (t->tried == 2 && t->spent[1] > CLEARLY_SLOWER * t->spent[0]);
}

static void settle(Team *t)
{
    const int better = t->spent[1] < t->spent[0];
    const int doubled = t->pause < PAUSE_MOST ? 2 * t->pause : t->pause;
    t->went_down = t->other < t->now;
    if (t->went_down)
        t->stride = better || t->other == 1 ? 1 : 2 * t->stride;
    t->now = better ? t->other : t->now;
    t->left = t->pause = better ? PAUSE_LEAST : doubled;
    t->other = 0;
}

void team_took(Team *t, double seconds, long preempted)
{
    const int disturbed = preempted > 1 && (double)preempted > PREEMPTED * seconds;
    if (t->other) {
        t->spent[t->tried++ % 2] += seconds;
        if (is_decided(t))
            settle(t);
    } else if (t->left > 0) {
        t->left--;
    } else {
        t->other = candidate(t, disturbed);
        t->tried = 0, t->spent[0] = t->spent[1] = 0;
    }
}
