/* A simulated call in Chrome's trace-event format. */
#include "emulator/report.h"

#include <string.h>

enum { CORES = 8, OPS = 200000 }; /* what a viewer still opens quickly: that many cores, operations of each */

static void put_quoted(Text *out, const char *text)
{
    text_add(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        text_add(out, *c == '"' || *c == '\\' ? "\\%c" : *c < ' ' ? "\\u%04x" : "%c", *c);
    text_add(out, "\"");
}

typedef struct JsonWriter {
    const Simulated *s;
    Text *out;
    int begun; /* something stands in the list */
} JsonWriter;

static void begin_event(JsonWriter *w, const char *phase, uint32_t process, uint32_t thread)
{
    text_add(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", w->begun ? "," : "", phase, process, thread);
    w->begun = 1;
}

/* Processes and threads are named by events of their own. */
static void name_event(JsonWriter *w, const char *what, uint32_t process, uint32_t thread, const char *name)
{
    begin_event(w, "M", process, thread);
    text_add(w->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    put_quoted(w->out, name);
    text_add(w->out, "}}");
}

static uint32_t thread_of(const Op *op) { return (uint32_t)op->sub * UNIT_COUNT + op->unit; }

static uint32_t threads_of(const JsonWriter *w)
{
    const Machine *m = w->s->trace->machine;
    return (uint32_t)(1 + (m->cores.vector + m->cores.cube - 1) / m->cores.cube) * UNIT_COUNT;
}

/* Cube cores and vector cores alone are different processes, though the core may be the same. */
static uint32_t process_of(CoreKind place, uint32_t core) { return 1 + (uint32_t)place * CORES + core; }

static void name_core(JsonWriter *w, CoreKind place, uint32_t core, const uint8_t *used)
{
    Arena *a = w->out->arena;
    uint32_t process = process_of(place, core);
    static const char *const words[] = {"host", "scalar unit", "vector core", "cube core", "core"};
    name_event(w, "process_name", process, 0, arena_printf(a, "%s %u", words[place], core));
    for (uint32_t t = 0; t < threads_of(w); t++)
        if (used[t])
            name_event(w, "thread_name", process, t,
                       t < UNIT_COUNT ? bound_name(w->s->trace->machine, (int)t)
                                      : arena_printf(a, "vector core %u: %s", t / UNIT_COUNT - 1,
                                                     unit_name(t % UNIT_COUNT)));
}

static void put_op(JsonWriter *w, const Op *op, Span span, uint32_t process)
{
    const Trace *t = w->s->trace;
    begin_event(w, "X", process, thread_of(op));
    text_add(w->out, ",\"ts\":%.4f,\"dur\":%.4f,\"name\":", simulated_us(t, span.from),
             simulated_us(t, span.to - span.from));
    put_quoted(w->out, op_text(w->s, op, w->out->arena));
    text_add(w->out, ",\"cat\":\"%s\",\"args\":{\"line\":%u}}", tile_name((TileKind)op->kind),
             t->k->tiles ? t->k->tiles->stmts.at[op->stmt].loc.line : 0);
}

static void put_launch(JsonWriter *w, uint32_t launch, int64_t *left, uint8_t *named)
{
    const LaunchTrace *t = &w->s->trace->launches.at[launch];
    const SimulatedLaunch *l = &w->s->launches[launch];
    for (uint32_t c = 0; t->place != ON_HOST && c < t->ncores && c < CORES; c++) {
        uint32_t process = process_of(t->place, c), n = t->ops[c].len;
        uint8_t *used = &named[process * threads_of(w)];
        for (uint32_t i = 0; i < n && left[process] > 0; i++) {
            const Op *op = &t->ops[c].at[i];
            if (op->kind == TILE_set || l->spans[c][i].to == l->spans[c][i].from)
                continue;
            used[thread_of(op)] = 1;
            put_op(w, op, l->spans[c][i], process);
            left[process]--;
        }
    }
}

void report_trace(const Simulated *s, Text *out)
{
    enum { PROCESSES = 1 + (ON_CORES + 1) * CORES };
    JsonWriter w = {.s = s, .out = out};
    int64_t *left = arena_array(out->arena, int64_t, PROCESSES), least = OPS;
    uint8_t *used = arena_array(out->arena, uint8_t, PROCESSES * threads_of(&w));
    uint32_t cores = 0;
    for (uint32_t p = 0; p < PROCESSES; p++)
        left[p] = OPS;
    text_add(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    name_event(&w, "process_name", 0, 0, "launches");
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        const SimulatedLaunch *l = &s->launches[i];
        cores = s->trace->launches.at[i].ncores > cores ? s->trace->launches.at[i].ncores : cores;
        begin_event(&w, "X", 0, 0);
        text_add(out, ",\"ts\":%.4f,\"dur\":%.4f,\"name\":", simulated_us(s->trace, l->begin),
                 simulated_us(s->trace, l->end - l->begin));
        put_quoted(out, launch_name(s, i, out->arena));
        text_add(out, ",\"args\":{\"bound by\":\"%s\"}}", bound_name(s->trace->machine, l->bound));
        put_launch(&w, i, left, used);
    }
    for (CoreKind place = ON_SCALAR; place <= ON_CORES; place++)
        for (uint32_t c = 0; c < CORES; c++) {
            uint32_t p = process_of(place, c);
            least = left[p] < least ? left[p] : least;
            if (left[p] < OPS)
                name_core(&w, place, c, &used[p * threads_of(&w)]);
        }
    text_add(out, "\n],\"otherData\":{\"kernel\":");
    put_quoted(out, s->trace->k->name);
    text_add(out, ",\"machine\":");
    put_quoted(out, s->trace->machine->name);
    text_add(out,
             ",\"model\":\"not a measurement; docs/accuracy.md says how far off\",\"left out\":\"%s%s\"}}\n",
             cores > CORES ? "cores after the first 8; " : "",
             least == 0 ? "operations of a core after the first 200000" : "");
}
