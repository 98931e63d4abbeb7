/* moe-train plan --ranks: which ranks share what, and what each of them sends. */
#include <stdio.h>

#include "comm/comm.h"
#include "step/verify_ranks.h"
#include "trainer/complain.h"
#include "trainer/plan.h"

int plan_ranks(Arena *a, const PlanOptions *o, Ranks *out)
{
    const char *rule = ranks_plan(a, o->ranks, &o->asked, out);
    return rule ? complain("--ranks %lld: %s", (long long)o->ranks, rule) : 0;
}

static double seconds_of_verifying(Arena *a, const Ranks *ranks, const Program *p, const char **error)
{
    const Program **programs = arena_array(a, const Program *, ranks->number);
    for (int64_t i = 0; i < ranks->number; i++)
        programs[i] = p;
    const double begin = clock_seconds();
    *error = step_verify_ranks(a, ranks, programs);
    return clock_seconds() - begin;
}

static int64_t count_exchanges(const Program *p, GroupAxis axis)
{
    int64_t n = 0;
    for (TaskId t = 0; t < p->tasks.len; t++)
        n += task_lanes[p->tasks.at[t].kind] == LANE_net && p->tasks.at[t].axis == axis &&
             p->members[axis] > 1;
    return n;
}

/* Groups of an axis lie in the nodes in more than one way; rank 0 stands for all. */
static void print_traffic(const Program *p, const Ranks *ranks)
{
    printf("\nrank 0 sends in a step, rows to all experts alike:\n%-6s %10s %16s %16s\n", "axis", "exchanges",
           "inside a node", "between nodes");
    for (GroupAxis a = 0; a < AXIS_COUNT; a++) {
        const CommTraffic t = comm_planned(p, ranks, 0, a);
        if (count_exchanges(p, a))
            printf("%-6s %10lld %16s %16s\n", axis_names[a], (long long)count_exchanges(p, a),
                   model_bytes_text(p->arena, (double)t.bytes[LINK_INSIDE]),
                   model_bytes_text(p->arena, (double)t.bytes[LINK_BETWEEN]));
    }
}

int plan_print_ranks(Session *s, const Program *p)
{
    Text t = {.arena = s->arena};
    const char *error;
    ranks_print(&s->ranks, &t);
    printf("\n%s\n", text_string(&t));
    const int64_t shown = s->ranks.number < 8 ? s->ranks.number : 8;
    for (int64_t i = 0; i < shown; i++)
        printf("  %s, node %lld\n", ranks_text(s->arena, &s->ranks, i), (long long)ranks_node(&s->ranks, i));
    if (shown < s->ranks.number)
        printf("  ...\n");
    const double seconds = seconds_of_verifying(s->arena, &s->ranks, p, &error);
    if (error)
        return complain("the programs of the ranks: %s", error);
    print_traffic(p, &s->ranks);
    printf("all ranks verified: %.2f s\n", seconds);
    return 0;
}
