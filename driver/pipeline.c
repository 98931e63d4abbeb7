/* The pipeline: which passes run, in which order, and the runner that checks, dumps and times them. */
#include "driver/pipeline.h"

#include <string.h>

typedef enum PassId {
#define PASS(name, ...) PASS_##name,
#include "passes/passes.def"
} PassId;

/* The whole order. `when` 0: always; 1: only when optimizing.
 *
 * canonicalise runs before derive so that factors stand outside their sums where derive meets them, and after
 * it to turn gathers of cotangents into route maps; cse and dce then see equal expressions as equal ids and
 * drop what the backward need not recompute. checks comes when the accesses are final, before fuse moves them
 * into readers. cse comes again after split: two readers of one sum get equal parts. */
static const struct PipelineStep {
    PassId pass;
    int when;
} order[] = {
    {PASS_unread, 0},       {PASS_canonicalise, 0}, {PASS_derive, 0},       {PASS_interface, 0},
    {PASS_canonicalise, 0}, {PASS_cse, 0},          {PASS_dce, 0},          {PASS_checks, 0},
    {PASS_canonicalise, 0}, {PASS_fuse, 1},         {PASS_canonicalise, 0}, {PASS_dce, 0},
    {PASS_split, 0},        {PASS_canonicalise, 0}, {PASS_cse, 0},          {PASS_cluster, 1},
    {PASS_lower, 0},        {PASS_plan, 0},
};
enum { STEPS = sizeof order / sizeof *order };

const Pass pass_table[] = {
#define PASS(name, level, needs, gives, breaks, doc) \
    {#name, pass_##name, LEVEL_##level, needs, gives, breaks, doc},
#include "passes/passes.def"
};
const uint32_t pass_count = sizeof pass_table / sizeof *pass_table;

const Pass *pass_find(const char *name)
{
    for (uint32_t i = 0; i < pass_count; i++)
        if (strcmp(pass_table[i].name, name) == 0)
            return &pass_table[i];
    return NULL;
}

/* ---- runner ---- */

/* What the passes have left so far, for dumps: all of them print only what changed. */
typedef struct PipelineRunner {
    const PipelineOptions *o;
    uint32_t facts;
    const char *last; /* text after the pass before; NULL: not printed yet */
} PipelineRunner;

static void dump(const Module *m, const Pass *p, PipelineRunner *r)
{
    const PipelineOptions *o = r->o;
    if (!o->dump || !o->dump_out || (*o->dump && !text_lists(o->dump, p->name)))
        return;
    Text now = {.arena = m->arena};
    if (p->level >= LEVEL_TILES)
        tile_print(m, NULL, &now);
    else
        ir_print(m, NULL, &now);
    if (!*o->dump && r->last && strcmp(r->last, text_string(&now)) == 0)
        return;
    r->last = text_string(&now);
    vec_push(m->arena, o->dump_out, (Dump){p, r->last});
}

static void verify(const Module *m, const Pass *p)
{
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        const char *broken = k->tiles ? tile_verify(k, m->arena) : ir_verify(k, m->arena);
        if (broken)
            BUG(m->arena, "pass %s broke kernel %s: %s", p->name, k->name, broken);
    }
}

#ifdef NDEBUG
enum { VERIFY_ALWAYS = 0 };
#else
enum { VERIFY_ALWAYS = 1 };
#endif

static void run(Module *m, const Pass *p, PipelineRunner *r)
{
    const PipelineOptions *o = r->o;
    if (p->needs & ~r->facts)
        BUG(m->arena, "pass %s runs before what it needs (facts %x of %x)", p->name, r->facts & p->needs,
            p->needs);
    if (o->break_in && strcmp(o->break_in, p->name) == 0)
        BUG(m->arena, "pass %s ends here, as --break-in wants", p->name);
    double start = clock_seconds();
    p->run(m, &o->context);
    arena_release(m->scratch, (ArenaMark){0});
    if (o->time_passes && o->time_out)
        text_add(o->time_out, "%10.3f ms  %s\n", 1e3 * (clock_seconds() - start), p->name);
    r->facts = (r->facts & ~p->breaks) | p->gives;
    if ((VERIFY_ALWAYS || o->verify_each) && !m->diags->errors)
        verify(m, p);
    dump(m, p, r);
}

/* From start_at on: everything. Before it: text carries neither checks nor what the interface is, so they are made all the
 * same; the rest is taken as done. */
static int skipped(const Pass *p, int started, uint32_t *facts)
{
    if (started || p->gives & (FACT_CHECKS | FACT_UNREAD | FACT_INTERFACE))
        return 0;
    *facts = (*facts & ~p->breaks) | p->gives;
    return 1;
}

int pipeline_run(Module *m, const PipelineOptions *o)
{
    PipelineRunner r = {.o = o};
    int ran = 0, started = o->start_at == NULL;
    for (uint32_t i = 0; i < STEPS; i++) {
        const Pass *p = &pass_table[order[i].pass];
        started |= o->start_at && strcmp(o->start_at, p->name) == 0;
        if ((order[i].when && !o->context.optimize) || skipped(p, started, &r.facts))
            continue;
        if (o->below && p->level >= o->below)
            break;
        if (o->limit >= 0 && ran++ >= o->limit)
            break;
        run(m, p, &r);
        if (m->diags->errors)
            break;
        /* a pass that runs several times stops it the first time */
        if (o->stop_after && strcmp(o->stop_after, p->name) == 0)
            break;
    }
    return (int)m->diags->errors;
}
