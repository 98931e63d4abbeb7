#include "step/ranks.h"

/* ---- the plan ---- */

/* Axes of tokens fill the ranks from tp outward; those of experts fill a stage. */
static void set_groups(Ranks *r, int64_t tp, int64_t ep, int64_t dp)
{
    const int64_t cp = 1, pp = 1, stage = tp * cp * dp, experts = tp * ep;
    const int64_t members[AXIS_COUNT] = {
        [AXIS_tp] = tp, [AXIS_cp] = cp, [AXIS_ep] = experts, [AXIS_dp] = dp, [AXIS_edp] = stage / experts,
        [AXIS_pp] = pp};
    const int64_t stride[AXIS_COUNT] = {[AXIS_tp] = 1,       [AXIS_cp] = tp,       [AXIS_ep] = 1,
                                        [AXIS_dp] = tp * cp, [AXIS_edp] = experts, [AXIS_pp] = stage};
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        r->members[a] = members[a], r->stride[a] = stride[a];
}

Ranks ranks_one(void)
{
    Ranks r = {.number = 1, .per_node = 1};
    set_groups(&r, 1, 1, 1);
    return r;
}

/* 0 is what was left out. */
static int64_t or_else(int64_t asked, int64_t otherwise) { return asked ? asked : otherwise; }

static const char *broken_rule(Arena *a, int64_t number, const RanksAsked *k)
{
    if (number < 1 || k->tp < 1 || k->ep < 1 || k->dp < 1 || k->per_node < 1)
        return "numbers of ranks are at least 1";
    if (k->tp > number || k->dp > number || k->tp * k->dp != number)
        return arena_printf(a,
                            "tp %lld times dp %lld must be the number of ranks, %lld (ep takes its ranks "
                            "from those of tp and dp)",
                            (long long)k->tp, (long long)k->dp, (long long)number);
    if (k->dp % k->ep)
        return arena_printf(
            a,
            "--ep %lld must divide dp %lld = %lld ranks / tp %lld: --ep counts ranks of dp, and "
            "groups of ep = tp %lld x --ep %lld ranks, each with all experts, fill the ranks",
            (long long)k->ep, (long long)k->dp, (long long)number, (long long)k->tp, (long long)k->tp,
            (long long)k->ep);
    if (number > k->per_node && number % k->per_node)
        return arena_printf(a, "%lld ranks do not fill nodes of %lld", (long long)number,
                            (long long)k->per_node);
    return NULL;
}

const char *ranks_plan(Arena *a, int64_t number, const RanksAsked *asked, Ranks *out)
{
    const int64_t tp = or_else(asked->tp, 1), rest = number / tp;
    const RanksAsked all = {.tp = tp,
                            .ep = or_else(asked->ep, 1),
                            .dp = or_else(asked->dp, rest ? rest : 1),
                            .per_node = or_else(asked->per_node, number)};
    const char *rule = broken_rule(a, number, &all);
    if (rule)
        return rule;
    *out = (Ranks){.number = number, .per_node = all.per_node < number ? all.per_node : number};
    set_groups(out, all.tp, all.ep, all.dp);
    return NULL;
}

/* ---- questions ---- */

int64_t ranks_place(const Ranks *r, GroupAxis axis, int64_t rank)
{
    return rank / r->stride[axis] % r->members[axis];
}

int64_t ranks_member(const Ranks *r, GroupAxis axis, int64_t rank, int64_t place)
{
    return rank + (place - ranks_place(r, axis, rank)) * r->stride[axis];
}

int64_t ranks_group(const Ranks *r, GroupAxis axis, int64_t rank)
{
    const int64_t span = r->stride[axis] * r->members[axis];
    return rank / span * r->stride[axis] + rank % r->stride[axis];
}

int64_t ranks_node(const Ranks *r, int64_t rank) { return rank / r->per_node; }

int ranks_share_node(const Ranks *r, int64_t a, int64_t b) { return ranks_node(r, a) == ranks_node(r, b); }

/* ---- text ---- */

/* ep is not what the user gave where tp extends it. */
static const char *how_ep_comes_about(Arena *a, const Ranks *r)
{
    const int64_t tp = r->members[AXIS_tp], ep = r->members[AXIS_ep];
    return tp > 1 ? arena_printf(a, " = tp %lld x --ep %lld", (long long)tp, (long long)(ep / tp)) : "";
}

void ranks_print(const Ranks *r, Text *t)
{
    const long long nodes = r->number / r->per_node;
    int axes = 0;
    text_add(t, "%lld rank%s on %lld node%s", (long long)r->number, r->number == 1 ? "" : "s", nodes,
             nodes == 1 ? "" : "s");
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (r->members[a] > 1)
            text_add(t, "%s %s %lld%s", axes++ ? "," : ":", axis_names[a], (long long)r->members[a],
                     a == AXIS_ep ? how_ep_comes_about(t->arena, r) : "");
}

const char *ranks_text(Arena *a, const Ranks *r, int64_t rank)
{
    Text t = {.arena = a};
    int axes = 0;
    text_add(&t, "rank %lld of %lld", (long long)rank, (long long)r->number);
    for (GroupAxis x = 0; x < AXIS_COUNT; x++)
        if (r->members[x] > 1)
            text_add(&t, "%s %s %lld/%lld", axes++ ? "," : ":", axis_names[x],
                     (long long)ranks_place(r, x, rank), (long long)r->members[x]);
    return text_string(&t);
}
