/* The life of a case. */
#include "bench/limits.h"
#include "bench/ours.h"
#include "bench/peers.h"

#include <stdarg.h>
#include <stdlib.h>

void case_runner(Case *c, BenchPart part, int threads, const char *who, const char *way, TimeCalls *time,
                 void *self)
{
    if (c->nrunners == MAX_RUNNERS)
        abort();
    c->runners[c->nrunners++] =
        (BenchRunner){.part = part, .threads = threads, .who = who, .way = way, .time = time, .self = self};
}

int case_failed(const Case *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "moe-bench: %s: ", c->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return 1;
}

moe_route *route_for(Case *c)
{
    const BenchShape *s = c->shape;
    return s->each ? even_route(&c->memory, s->E, s->each)
                   : random_route(&c->memory, s->T, s->K, s->E, s->zipf, s->empty);
}

static void take_sizes(Case *c, const BenchShape *s)
{
    SIZE(c->sizes, 'E') = s->E;
    SIZE(c->sizes, 'T') = s->each ? s->E * s->each : s->T;
    SIZE(c->sizes, 'K') = s->K;
    SIZE(c->sizes, 'H') = s->H;
    SIZE(c->sizes, 'F') = s->F;
}

static Case *case_new(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name)
{
    Case *c = memory_get(&b->memory, sizeof *c);
    *c = (Case){.bench = b,
                .group = g,
                .shape = s,
                .kind = k,
                .isa = k->isa ? k->isa : b->isa,
                .threads = b->options.threads};
    snprintf(c->name, sizeof c->name, "%s", name);
    if (k->gain && c->threads == 1)
        c->threads = 2;
    take_sizes(c, s);
    return c;
}

/* The first runner again, and the limits, on one thread. */
static int add_one_thread(Case *c)
{
    BenchCall *call = ours_on(c, c->runners[0].self, 1);
    if (!call)
        return 1;
    case_runner(c, OURS, 1, "ours", "one thread", ours_time, call);
    limits_add(c, 1);
    return 0;
}

int case_run(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name)
{
    if (k->isa && !ours_has(b, k->isa)) {
        printf("%-28s this CPU lacks %s\n", name, k->isa);
        return 0;
    }
    Case *c = case_new(b, g, s, k, name);
    int bad = k->make(c);
    if (!bad)
        limits_add(c, c->threads);
    bad = bad || (k->gain && add_one_thread(c)) || measure(c);
    if (!bad) {
        b->cases[b->ncases++] = c;
        report_case(c, stdout);
    }
    peers_forget();
    memory_free(&c->memory);
    return bad;
}
