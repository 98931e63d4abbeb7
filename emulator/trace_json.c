/* A simulated call in Chrome's trace-event format. */
#include "base/json.h"
#include "emulator/report.h"

#include <math.h>

enum { CORES = 8, OPS = 200000 }; /* what a viewer still opens quickly: that many cores, operations of each */

/* The events are written one by one: all of them as one value would take gigabytes. */
typedef struct JsonWriter {
    const Simulated *s;
    Text *out;
    int begun; /* something stands in the list */
} JsonWriter;

/* Takes the reference. */
static void put_event(JsonWriter *w, json_t *event)
{
    Arena *a = arena_scratch(w->out->arena);
    ArenaMark mark = arena_mark(a);
    text_add(w->out, w->begun ? ",\n%s" : "\n%s", json_line(a, event));
    arena_release(a, mark);
    w->begun = 1;
}

/* Of the model's time in microseconds, four digits behind the point. */
static json_t *microseconds(double us) { return json_real(nearbyint(us * 1e4) / 1e4); }

/* What took its time. */
static json_t *span_event(uint32_t process, uint32_t thread, double from, double took, const char *name)
{
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:s}", "ph", "X", "pid", (json_int_t)process, "tid",
                     (json_int_t)thread, "ts", microseconds(from), "dur", microseconds(took), "name", name);
}

/* Processes and threads are named by events of their own. */
static void name_event(JsonWriter *w, const char *what, uint32_t process, uint32_t thread, const char *name)
{
    put_event(w, json_pack("{s:s, s:I, s:I, s:s, s:{s:s}}", "ph", "M", "pid", (json_int_t)process, "tid",
                           (json_int_t)thread, "name", what, "args", "name", name));
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
    json_t *event = span_event(process, thread_of(op), simulated_us(t, span.from),
                               simulated_us(t, span.to - span.from), op_text(w->s, op, w->out->arena));
    json_object_set_new(event, "cat", json_string(tile_name((TileKind)op->kind)));
    json_object_set_new(
        event, "args",
        json_pack("{s:I}", "line", (json_int_t)(t->k->tiles ? t->k->tiles->stmts.at[op->stmt].loc.line : 0)));
    put_event(w, event);
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
        json_t *event = span_event(0, 0, simulated_us(s->trace, l->begin),
                                   simulated_us(s->trace, l->end - l->begin), launch_name(s, i, out->arena));
        json_object_set_new(event, "args",
                            json_pack("{s:s}", "bound by", bound_name(s->trace->machine, l->bound)));
        put_event(&w, event);
        put_launch(&w, i, left, used);
    }
    for (CoreKind place = ON_SCALAR; place <= ON_CORES; place++)
        for (uint32_t c = 0; c < CORES; c++) {
            uint32_t p = process_of(place, c);
            least = left[p] < least ? left[p] : least;
            if (left[p] < OPS)
                name_core(&w, place, c, &used[p * threads_of(&w)]);
        }
    const char *cut = arena_printf(out->arena, "%s%s", cores > CORES ? "cores after the first 8; " : "",
                                   least == 0 ? "operations of a core after the first 200000" : "");
    json_t *other =
        json_pack("{s:s, s:s, s:s, s:s}", "kernel", s->trace->k->name, "machine", s->trace->machine->name,
                  "model", "not a measurement; docs/accuracy.md says how far off", "left out", cut);
    text_add(out, "\n],\"otherData\":%s}\n", json_line(out->arena, other));
}
