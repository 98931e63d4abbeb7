/* Which modules a step is to do without: a greedy choice, the most bytes for a second first, of which what is not needed is taken
 * back. */
#include <stdio.h>
#include <string.h>

#include "step/memory.h"
#include "trainer/complain.h"
#include "trainer/plan.h"

/* A module under a pass, and for how many of its layers it is chosen, from the first one on. */
typedef struct ModuleUnit {
    StepPass pass;
    const char *module;
    int64_t layers, chosen; /* all layers of the program; so many of them */
} ModuleUnit;

typedef struct PlanChooser {
    Session *session;
    const Program *recorded;
    const Prices *prices;
    Vec(ModuleUnit) units;
    Vec(uint32_t) order; /* of the units that were chosen */
    int failed;
} PlanChooser;

Program *plan_passes(Session *s, Arena *a, const Program *recorded, const char *const choices[PASS_COUNT])
{
    Program *p = step_copy(a, recorded);
    if (session_passes(p, choices))
        return NULL;
    if (kernels_add_work(s->kernels, p)) {
        complain("%s", kernels_error(s->kernels));
        return NULL;
    }
    memory_lifetimes(p);
    return p;
}

PlanCost plan_cost(const Program *p, const Prices *prices)
{
    PlanCost c = {.peak = memory_peak(p).bytes, .seconds = prices ? prices_sum(prices, p) : -1};
    const int64_t *kept = memory_live(p, OWNER_activation);
    for (TaskId t = 0; t < p->tasks.len; t++)
        c.kept = kept[t] > c.kept ? kept[t] : c.kept;
    c.bytes = p->arena_bytes > c.peak ? p->arena_bytes : c.peak;
    for (Owner owner = 0; owner < OWNER_COUNT; owner++)
        if (owner_persists[owner])
            c.bytes += memory_owned(p, owner);
    return c;
}

/* ---- units ---- */

static int is_unit(const PlanChooser *c, StepPass pass, const char *module)
{
    for (uint32_t i = 0; i < c->units.len; i++)
        if (c->units.at[i].pass == pass && !strcmp(c->units.at[i].module, module))
            return 1;
    return 0;
}

static PlanChooser chooser(Session *s, const Program *recorded, const Prices *prices)
{
    PlanChooser c = {.session = s, .recorded = recorded, .prices = prices};
    int64_t layers = 0;
    for (TaskId t = 0; t < recorded->tasks.len; t++)
        layers = recorded->tasks.at[t].layer >= layers ? recorded->tasks.at[t].layer + 1 : layers;
    for (StepPass pass = 0; pass < PASS_COUNT; pass++)
        for (TaskId t = 0; t < recorded->tasks.len; t++) {
            const char *module = recorded->tasks.at[t].module;
            if (module && !is_unit(&c, pass, module))
                vec_push(s->arena, &c.units, (ModuleUnit){pass, module, layers, 0});
        }
    return c;
}

/* The units that are chosen, as the option of a pass. */
static const char *choice_of(const PlanChooser *c, StepPass pass)
{
    Text t = {.arena = c->session->arena};
    for (uint32_t i = 0; i < c->units.len; i++) {
        const ModuleUnit *u = &c->units.at[i];
        if (u->pass != pass || !u->chosen)
            continue;
        text_add(&t, "%s%s", t.len ? "," : "", u->module);
        if (u->chosen < u->layers)
            text_add(&t, u->chosen == 1 ? ":0" : ":0-%lld", (long long)u->chosen - 1);
    }
    return t.len ? text_string(&t) : NULL;
}

static Program *program_of(PlanChooser *c, Arena *a)
{
    const char *choices[PASS_COUNT];
    for (StepPass pass = 0; pass < PASS_COUNT; pass++)
        choices[pass] = choice_of(c, pass);
    return plan_passes(c->session, a, c->recorded, choices);
}

/* placed: gaps between places count too. */
static PlanCost cost_with(PlanChooser *c, int placed)
{
    Arena *scratch = arena_new();
    Program *p = scratch ? program_of(c, scratch) : NULL;
    if (p && placed)
        memory_place(p);
    const PlanCost cost = p ? plan_cost(p, c->prices) : (PlanCost){0};
    c->failed |= !p;
    if (scratch)
        arena_free(scratch);
    return cost;
}

static PlanCost cost_of(PlanChooser *c) { return cost_with(c, 0); }

/* ---- the table ---- */

void plan_print_choices(Session *s, const Program *recorded, const Prices *prices)
{
    PlanChooser c = chooser(s, recorded, prices);
    const PlanCost plain = cost_of(&c);
    printf("\nof all layers, alone   less memory    more time\n");
    for (uint32_t i = 0; i < c.units.len && !c.failed; i++) {
        ModuleUnit *u = &c.units.at[i];
        u->chosen = u->layers;
        const PlanCost cost = cost_of(&c);
        u->chosen = 0;
        printf("  %-9s %-9s %9.1f MiB %9.2f ms\n", pass_names[u->pass], u->module,
               (double)(plain.bytes - cost.bytes) / 0x1p20, 1e3 * (cost.seconds - plain.seconds));
    }
    if (plain.seconds >= 0)
        printf("  a step without passes: %.2f ms\n", 1e3 * plain.seconds);
}

/* ---- the choice ---- */

static double worth(PlanCost before, PlanCost after)
{
    const double saved = (double)(before.bytes - after.bytes), more = after.seconds - before.seconds;
    return saved <= 0 ? saved : saved / (more > 1e-6 ? more : 1e-6);
}

/* Adds the unit that saves most for its time. Returns 0 when all are chosen. */
static int add_best(PlanChooser *c, PlanCost *now)
{
    uint32_t best = STEP_NONE;
    double best_worth = 0;
    PlanCost best_cost = *now;
    for (uint32_t i = 0; i < c->units.len; i++) {
        ModuleUnit *u = &c->units.at[i];
        if (u->chosen)
            continue;
        u->chosen = u->layers;
        const PlanCost cost = cost_of(c);
        u->chosen = 0;
        if (best == STEP_NONE || worth(*now, cost) > best_worth)
            best = i, best_worth = worth(*now, cost), best_cost = cost;
    }
    if (best == STEP_NONE)
        return 0;
    c->units.at[best].chosen = c->units.at[best].layers;
    vec_push(c->session->arena, &c->order, best);
    *now = best_cost;
    return 1;
}

/* The fewest layers with which it still fits. */
static void take_back(PlanChooser *c, ModuleUnit *u, int64_t memory)
{
    int64_t lo = 0, hi = u->chosen; /* it fits with hi */
    while (lo < hi && !c->failed) {
        u->chosen = lo + (hi - lo) / 2;
        if (cost_of(c).bytes <= memory)
            hi = u->chosen;
        else
            lo = u->chosen + 1;
    }
    u->chosen = hi;
}

static int choose_within(PlanChooser *c, int64_t memory)
{
    PlanCost now = cost_of(c);
    while (now.bytes > memory && !c->failed)
        if (!add_best(c, &now))
            return 0;
    for (uint32_t i = c->order.len; i-- > 0;)
        take_back(c, &c->units.at[c->order.at[i]], memory);
    return !c->failed;
}

static void print_rest(PlanChooser *c, int64_t memory)
{
    Program *p = program_of(c, c->session->arena);
    if (!p)
        return;
    const MemoryPeak peak = memory_peak(p);
    const Task *t = &p->tasks.at[peak.task];
    Text owned = {.arena = c->session->arena};
    for (Owner owner = 0; owner < OWNER_COUNT; owner++)
        if (owner_persists[owner] && memory_owned(p, owner) >= 1 << 19)
            text_add(&owned, " %ss %.1f,", owner_names[owner], (double)memory_owned(p, owner) / 0x1p20);
    complain("--memory: nothing fits %.1f MiB; with all choices %.1f MiB remain:%s buffers of task %u "
             "(%s%s%s of layer %d) %.1f, of which work space %.1f",
             (double)memory / 0x1p20, (double)plan_cost(p, NULL).bytes / 0x1p20, text_string(&owned),
             peak.task, task_names[t->kind], t->kernel == STEP_NONE ? "" : " ",
             t->kernel == STEP_NONE ? "" : p->kernels.at[t->kernel].name, t->layer,
             (double)peak.bytes / 0x1p20, (double)memory_live(p, OWNER_work)[peak.task] / 0x1p20);
}

int plan_choose(Session *s, const Program *recorded, const Prices *prices, PlanOptions *o)
{
    /* gaps between places may ask for a little more than the largest sum of live buffers */
    static const double targets[] = {1, 0.98, 0.95, 0.9, 0.8};
    PlanChooser c = {0};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        c = chooser(s, recorded, prices);
        if (!choose_within(&c, (int64_t)(targets[i] * (double)o->memory)))
            break;
        if (cost_with(&c, 1).bytes > o->memory)
            continue;
        for (StepPass pass = 0; pass < PASS_COUNT; pass++)
            o->choices[pass] = choice_of(&c, pass);
        return 0;
    }
    print_rest(&c, o->memory);
    return 1;
}
