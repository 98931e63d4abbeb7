/* The cycle model: see Note [Cycle model] in simulate.h.
 *
 * The operations of a core are taken in the order of its program, and the times of each follow from those before it. Only
 * moves from and to global memory depend on other cores: the core that would begin one first is taken next. */
#include "emulator/simulate.h"

#include "emulator/core.h"
#include "emulator/memory.h"

typedef struct Station { /* a unit of a core */
    int64_t free;        /* when it can begin its next operation */
    int64_t done;        /* when all that it was given is done */
    int64_t *begun;      /* ring of SimSide.queue: when its last operations began */
    int64_t given;
    int64_t busy;
} Station;

typedef struct SimSide { /* a core with a program: the cube core, a vector core beside it, or one alone */
    int64_t program;     /* when its program can go on */
    int64_t queue;       /* operations that wait in front of a unit, at most */
    Station units[UNIT_COUNT];
} SimSide;

typedef struct SimFlag {
    int64_t at;  /* when it was last set */
    uint8_t sub; /* by whom */
} SimFlag;

typedef struct SimCore {
    const Ops *ops;
    uint32_t next; /* operation */
    SimSide *sides;
    Vec(SimFlag) flags;
    Span *spans;
    int64_t begin; /* of the next operation, a move that the other cores have a part in */
    int64_t data;  /* of a CPU: when what its next operation reads has come; */
    int64_t late;  /* and cycles that the operation itself waits for the rest of it */
} SimCore;

typedef struct Simulation {
    Arena *arena;
    const Trace *trace;
    const Machine *machine;
    Memory *memory;
    uint32_t nsides;
    SimulatedLaunch *out; /* of this launch */
    int64_t taken;        /* of memory's bandwidth, in this launch */
} Simulation;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; } /* whole ones */

/* ---- what an operation takes ---- */

static int is_move(const Op *op) { return op->path < PATH_COUNT; }
static int meets_memory(const Op *op)
{
    return core_is_access(op) || (is_move(op) && path_unit((Path)op->path) != UNIT_mte1);
}

/* Cycles in which the unit can do nothing else; of what does not meet global memory. */
static int64_t cycles_of(const Machine *m, const Op *op)
{
    switch ((Unit)op->unit) {
    case UNIT_cube: return op_cube_steps(m, op) * (op->bytes > 2 ? m->costs.cube_32bit : 1);
    case UNIT_mte1: return parts(op->a * op->b, op->path == PATH_l1_l0a ? m->rates.l1_l0a : m->rates.l1_l0b);
    case UNIT_vector: return op->b * parts(op->a * (op->bytes ? op->bytes : 4), m->rates.vector);
    case UNIT_scalar: return op->a * later(op->b, 1) * m->costs.scalar;
    case UNIT_mte2:
    case UNIT_fix:
    case UNIT_mte3:
    case UNIT_COUNT: break;
    }
    return 0;
}

/* Cycles from then until it is done. */
static int64_t latency_of(const Machine *m, const Op *op)
{
    switch ((Unit)op->unit) {
    case UNIT_cube: return m->costs.cube;
    case UNIT_mte1: return m->costs.mte1;
    case UNIT_vector: return m->costs.vector;
    case UNIT_fix: return m->costs.fix + m->memory.latency;
    case UNIT_mte2:
    case UNIT_mte3: return m->memory.latency;
    case UNIT_scalar:
    case UNIT_COUNT: break;
    }
    return 0;
}

static int64_t rate_of(const Machine *m, Path path)
{
    switch (path) {
    case PATH_gm_l1:
    case PATH_gm_ub: return m->rates.l2_read;
    case PATH_l0c_gm: return m->rates.l2_write;
    case PATH_ub_gm: return m->rates.ub_l2;
    case PATH_l1_l0a:
    case PATH_l1_l0b:
    case PATH_COUNT: break;
    }
    return 1;
}

/* ---- programs, units and flags ---- */

/* When the operation comes to its unit and the unit can begin it. What the scalar unit does is the program itself. */
static int64_t give(const Machine *m, SimSide *side, Unit unit)
{
    Station *s = &side->units[unit];
    int64_t *begun = &s->begun[s->given++ % side->queue]; /* of the operation that must have left the queue */
    side->program = later(side->program + m->costs.issue, unit == UNIT_scalar ? 0 : *begun);
    int64_t begin = later(side->program, s->free);
    *begun = begin;
    return begin;
}

static Span hold(SimSide *side, Unit unit, int64_t begin, int64_t end, int64_t latency)
{
    Station *s = &side->units[unit];
    s->free = end;
    s->done = later(s->done, end + latency);
    if (unit == UNIT_scalar)
        side->program = end;
    return (Span){begin, end};
}

static SimFlag *flag_at(Simulation *s, SimCore *c, const Op *op)
{
    while (c->flags.len <= op->a >> 32)
        vec_push(s->arena, &c->flags, (SimFlag){0});
    return &c->flags.at[op->a >> 32];
}

/* The set that a wait is about is the flag's last one: the trace is in the order of the program. */
static int64_t flag_time(Simulation *s, SimCore *c, const Op *op)
{
    const SimFlag *f = op->b ? NULL : flag_at(s, c, op);
    if (!f)
        return 0;
    return f->at + (f->sub == op->sub ? s->machine->costs.flag : s->machine->costs.cross);
}

/* ---- a core ---- */

static SimSide *side_of(const SimCore *c, const Op *op) { return &c->sides[op->sub]; }

static void count_flops(SimulatedLaunch *out, const Op *op)
{
    if (op->unit == UNIT_cube)
        out->flops[op->bytes == 2 ? FLOPS_16BIT : FLOPS_OTHER] += 2 * op->a * op->b * op->c;
}

static void count(Simulation *s, Station *station, const Op *op, int64_t cycles)
{
    count_flops(s->out, op);
    station->busy += cycles;
    if (is_move(op))
        s->out->bytes[op->path] += op->a * op->b;
    if (op->unit == UNIT_cube)
        s->out->cube_steps += op_cube_steps(s->machine, op);
}

static Span do_here(Simulation *s, SimCore *c, const Op *op)
{
    SimSide *side = side_of(c, op);
    Station *station = &side->units[op->unit];
    int64_t begin = give(s->machine, side, (Unit)op->unit), cycles = cycles_of(s->machine, op);
    if (op->kind == TILE_wait)
        return hold(side, (Unit)op->unit, begin, later(begin, flag_time(s, c, op)), 0);
    if (op->kind == TILE_set) {
        *flag_at(s, c, op) = (SimFlag){later(begin, station->done), op->sub};
        return (Span){begin, begin};
    }
    count(s, station, op, cycles);
    return hold(side, (Unit)op->unit, begin, begin + cycles, latency_of(s->machine, op));
}

static int is_cpu(const Simulation *s) { return s->machine->kind == MACHINE_CPU; }

/* A core of a CPU does one thing at a time: it has one station, whatever the unit is called. It computes while data come. */
static Span do_on_core(Simulation *s, SimCore *c, const Op *op)
{
    SimSide *side = side_of(c, op);
    Station *core = &side->units[UNIT_scalar], *unit = &side->units[op->unit];
    int64_t begin = later(core->free, side->program);
    int64_t end = later(begin + core_cycles(s->trace, op), c->data) + c->late;
    c->late = 0;
    core->free = core->done = end;
    unit->busy += end - begin;
    if (op->unit == UNIT_cube)
        s->out->cube_steps += core_product_cycles(s->trace, op);
    if (op->unit == UNIT_vector)
        s->out->flops[FLOPS_OTHER] += op->a * op->b;
    count_flops(s->out, op);
    return (Span){begin, end};
}

static MemoryRun run_of(const Simulation *s, const Op *op, uint32_t core)
{
    const Tensor *t = &s->trace->k->tensors.at[op->gm >> 40];
    const Machine *m = s->machine;
    uint64_t own = t->space == SPACE_THREAD ? (uint64_t)core << 34 : 0; /* up to 16 GiB for each core */
    MemoryRun run = {.place = op->gm + own, .runs = op->a, .bytes = op->b, .apart = op->c, .core = core};
    if (core_is_access(op)) {
        int asked = op->unit == UNIT_cube ? op->other != ACCESS_LATE : op->a == 1 || op->b >= m->core.page;
        run.past = op->other == ACCESS_PAST;
        run.write = op->other == ACCESS_WRITE || op->other == ACCESS_SUMS || run.past;
        run.rate = m->core.l3;
        run.alone = asked ? m->core.memory : m->core.runs;
        run.own_rate = m->core.l2;
    } else {
        run.write = op->unit != UNIT_mte2;
        run.rate = rate_of(m, (Path)op->path);
        run.alone = m->rates.gm_alone;
    }
    return run;
}

/* Of a CPU: memory that the next operation reads or writes. It computes while that comes, but for what comes late. */
static Span do_access(Simulation *s, SimCore *c, const Op *op, uint32_t core)
{
    MemoryRun run = run_of(s, op, core);
    Flow m = memory_move(s->memory, c->begin, &run);
    s->out->own_bytes += op->a * op->b;
    s->out->shared_bytes += m.shared;
    s->out->memory_bytes += m.bytes;
    s->taken += m.taken;
    if (op->other == ACCESS_ACROSS)
        c->late += m.shared / s->machine->core.across;
    if (op->other == ACCESS_SUMS)
        c->late += (m.shared - m.bytes) / s->machine->core.l3;
    if (op->other == ACCESS_UNASKED && m.bytes && op->b >= s->machine->core.page)
        c->late += s->machine->memory.latency;
    if (op->other == ACCESS_LATE)
        c->late += m.alone;
    else
        c->data = m.end;
    return (Span){c->begin, c->begin};
}

/* A move that begins at c->begin. */
static Span do_move(Simulation *s, SimCore *c, const Op *op, uint32_t core)
{
    if (core_is_access(op))
        return do_access(s, c, op, core);
    MemoryRun run = run_of(s, op, core);
    Flow m = memory_move(s->memory, c->begin + s->machine->costs.move, &run);
    SimSide *side = side_of(c, op);
    count(s, &side->units[op->unit], op, m.alone + s->machine->costs.move);
    s->out->memory_bytes += m.bytes;
    s->taken += m.taken;
    return hold(side, (Unit)op->unit, c->begin, m.end, latency_of(s->machine, op));
}

/* Goes on to the next move that others have a part in: whether there is one. */
static int go_on(Simulation *s, SimCore *c)
{
    for (; c->next < c->ops->len; c->next++) {
        const Op *op = &c->ops->at[c->next];
        if (core_is_access(op)) {
            const SimSide *side = side_of(c, op);
            c->begin = later(c->data, later(side->program, side->units[UNIT_scalar].free));
            return 1;
        }
        if (meets_memory(op)) {
            c->begin = give(s->machine, side_of(c, op), (Unit)op->unit);
            return 1;
        }
        c->spans[c->next] = is_cpu(s) ? do_on_core(s, c, op) : do_here(s, c, op);
    }
    c->begin = INT64_MAX;
    return 0;
}

static SimCore core_new(Simulation *s, const Ops *ops, int64_t begin)
{
    SimCore c = {.ops = ops,
                 .sides = arena_array(s->arena, SimSide, s->nsides),
                 .spans = arena_array(s->arena, Span, ops->len)};
    int64_t queue = later(s->machine->costs.queue, 1);
    queue = queue <= ops->len ? queue : (int64_t)ops->len + 1;
    for (uint32_t i = 0; i < s->nsides; i++) {
        c.sides[i].program = begin;
        c.sides[i].queue = queue;
        for (Unit u = 0; u < UNIT_COUNT; u++)
            c.sides[i].units[u] = (Station){.begun = arena_array(s->arena, int64_t, queue)};
    }
    return c;
}

/* ---- launches ---- */

static int64_t core_end(const Simulation *s, const SimCore *c)
{
    int64_t end = 0;
    for (uint32_t i = 0; i < s->nsides; i++)
        for (Unit u = 0; u < UNIT_COUNT; u++)
            end = later(end, later(c->sides[i].program, c->sides[i].units[u].done));
    return end;
}

static int64_t cycles_of_ns(const Machine *m, int64_t ns)
{
    return (int64_t)((double)ns * (double)m->clock.core / 1000);
}

/* The busiest unit of each kind, and what the whole launch is bound by; from: when the launch before was over. */
static void sum_up(Simulation *s, const LaunchTrace *l, const SimCore *cores, int64_t from)
{
    SimulatedLaunch *o = s->out;
    const Machine *m = s->machine;
    int64_t most[BOUND_COUNT] = {0}, time = later(o->end - from, 1);
    for (uint32_t c = 0; c < l->ncores; c++)
        for (uint32_t i = 0; i < s->nsides; i++)
            for (Unit u = 0; u < UNIT_COUNT; u++) {
                int64_t busy = cores[c].sides[i].units[u].busy;
                o->busy[u] += busy;
                o->nunits[u] += busy > 0;
                most[u] = later(most[u], busy);
            }
    most[BOUND_MEMORY] = s->taken * m->clock.core / (m->memory.gm_rate * 1000);
    most[BOUND_LAUNCH] = o->begin - from;
    for (int b = 0; b < BOUND_COUNT; b++) {
        o->share[b] = (double)most[b] / (double)time;
        if (o->share[b] > o->share[o->bound])
            o->bound = b;
    }
}

/* Vector cores beside cube cores are started if they have work. */
static int64_t cores_started(const Simulation *s, const LaunchTrace *l)
{
    for (uint32_t c = 0; c < l->ncores; c++)
        for (uint32_t i = 0; i < l->ops[c].len; i++)
            if (l->ops[c].at[i].sub)
                return (int64_t)l->ncores * s->nsides;
    return l->ncores;
}

static int64_t start_cycles(const Simulation *s, const LaunchTrace *l)
{
    const Machine *m = s->machine;
    if (l->place == ON_HOST)
        return 0;
    return is_cpu(s) ? m->core.launch
                     : cycles_of_ns(m, m->costs.launch + cores_started(s, l) * m->costs.start);
}

/* No model may be faster than the machine: whatever is counted takes as long as all cores, or memory, need for it. Memory's
 * bandwidth is given away in spans of cycles, of which the last may be used at its begin. */
static void check_peak(const Simulation *s)
{
    const SimulatedLaunch *o = s->out;
    const Machine *m = s->machine;
    double cycles = (double)(o->end - o->begin), cores = (double)m->cores.cube;
    double bytes = (double)memory_per_span(m) / MEMORY_SPAN * (cycles + 2 * MEMORY_SPAN);
    if ((double)o->cube_steps > cycles * cores)
        BUG(s->arena, "the model has %lld steps of products in %.0f cycles of %.0f cores",
            (long long)o->cube_steps, cycles, cores);
    if ((double)o->memory_bytes > bytes)
        BUG(s->arena, "the model moves %lld bytes of memory in %.0f cycles, which have %.0f",
            (long long)o->memory_bytes, cycles, bytes);
}

/* What was looked at stands for all items of the launch: Note [Sampling] in sample.c. */
static void scale(const LaunchTrace *l, SimulatedLaunch *out)
{
    if (!launch_is_sampled(l))
        return;
    double by = l->work_scale;
    int64_t *sums[] = {&out->memory_bytes, &out->own_bytes,          &out->shared_bytes,
                       &out->cube_steps,   &out->flops[FLOPS_16BIT], &out->flops[FLOPS_OTHER]};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] = (int64_t)(by * (double)*sums[i]);
    for (Path p = 0; p < PATH_COUNT; p++)
        out->bytes[p] = (int64_t)(by * (double)out->bytes[p]);
    for (Unit u = 0; u < UNIT_COUNT; u++)
        out->busy[u] = (int64_t)(by * (double)out->busy[u]);
    for (uint32_t c = 0; c < l->ncores; c++)
        out->cycles[c] = (int64_t)(l->time_scale * (double)out->cycles[c]);
    out->end = out->begin + (int64_t)(l->time_scale * (double)(out->end - out->begin));
}

/* The one whose next operation begins first; NULL: all are done. */
static SimCore *first_to_move(SimCore *cores, uint32_t n)
{
    SimCore *first = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (cores[i].begin < (first ? first->begin : INT64_MAX))
            first = &cores[i];
    return first;
}

static void run_cores(Simulation *s, SimCore *cores, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        go_on(s, &cores[i]);
    for (SimCore *c; (c = first_to_move(cores, n)) != NULL;) {
        c->spans[c->next] = do_move(s, c, &c->ops->at[c->next], (uint32_t)(c - cores));
        c->next++;
        go_on(s, c);
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t end = core_end(s, &cores[i]);
        s->out->cycles[i] = end - s->out->begin;
        s->out->end = later(s->out->end, end);
    }
}

static void simulate_launch(Simulation *s, const LaunchTrace *l, SimulatedLaunch *out, int64_t from)
{
    const Machine *m = s->machine;
    s->out = out;
    s->taken = 0;
    s->nsides = 1 + (l->place == ON_CUBE ? (uint32_t)parts(m->cores.vector, m->cores.cube) : 0);
    *out = (SimulatedLaunch){.begin = from + start_cycles(s, l),
                             .spans = arena_array(s->arena, Span *, l->ncores),
                             .cycles = arena_array(s->arena, int64_t, l->ncores)};
    out->end = out->begin;
    memory_launch(s->memory, out->begin);
    SimCore *cores = arena_array(s->arena, SimCore, l->ncores);
    for (uint32_t i = 0; i < l->ncores; i++) {
        cores[i] = core_new(s, &l->ops[i], out->begin);
        out->spans[i] = cores[i].spans;
    }
    if (l->place != ON_HOST)
        run_cores(s, cores, l->ncores);
    sum_up(s, l, cores, from);
    check_peak(s);
    scale(l, out);
}

Simulated *simulate(Arena *a, const Trace *trace)
{
    Simulated *out = arena_new_of(a, Simulated);
    Simulation s = {
        .arena = a, .trace = trace, .machine = trace->machine, .memory = memory_new(a, trace->machine)};
    out->trace = trace;
    out->launches = arena_array(a, SimulatedLaunch, trace->launches.len);
    for (uint32_t i = 0; i < trace->launches.len; i++) {
        simulate_launch(&s, &trace->launches.at[i], &out->launches[i], out->cycles);
        out->cycles = out->launches[i].end;
    }
    return out;
}

double simulated_us(const Trace *t, int64_t cycles)
{
    return (double)cycles / (double)t->machine->clock.core;
}

const char *bound_name(const Machine *m, int bound)
{
    static const char *const work[UNIT_COUNT] = {
        [UNIT_cube] = "products", [UNIT_mte2] = "packs", [UNIT_vector] = "loops"};
    if (bound == BOUND_MEMORY)
        return m->kind == MACHINE_CPU ? "memory" : "global memory";
    if (bound == BOUND_LAUNCH)
        return "launch";
    return m->kind == MACHINE_CPU ? work[bound] : unit_name((Unit)bound);
}
