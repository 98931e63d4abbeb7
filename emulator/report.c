/* The report as text: how long, why, what moved, how evenly. */
#include "emulator/report.h"

#include "emulator/core.h"

/* ---- shared ---- */

static int is_cpu(const Simulated *s) { return s->trace->machine->kind == MACHINE_CPU; }

Spread spread_of(const int64_t *values, uint32_t n)
{
    Spread s = {.least = n ? values[0] : 0, .most = n ? values[0] : 0};
    for (uint32_t i = 0; i < n; i++) {
        s.least = values[i] < s.least ? values[i] : s.least;
        s.most = values[i] > s.most ? values[i] : s.most;
        s.mean += (double)values[i] / n;
    }
    return s;
}

double cube_use(const Simulated *s, int64_t steps, int64_t cycles)
{
    return cycles ? (double)steps / ((double)cycles * (double)s->trace->machine->cores.cube) : 0;
}

const char *place_name(CoreKind p)
{
    static const char *const names[] = {"host", "scalar unit", "vector cores", "cube cores", "cores"};
    return names[p];
}

const char *launch_name(const Simulated *s, uint32_t launch, Arena *a)
{
    const TileProgram *p = s->trace->k->tiles;
    StmtId id = s->trace->launches.at[launch].launch;
    const char *name = p && p->stmts.at[id].name ? p->stmts.at[id].name : NULL;
    return name ? name : arena_printf(a, "launch %u", launch);
}

/* Where nothing is busy for most of the time, units wait for each other. */
const char *bound_text(const Machine *m, const SimulatedLaunch *l, Arena *a)
{
    double share = l->share[l->bound];
    return arena_printf(a, "%s%s %.0f %%", share < 0.6 && m->kind == MACHINE_NPU ? "waits, " : "",
                        bound_name(m, l->bound), 100 * share);
}

const char *bytes_text(Arena *a, int64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    uint32_t u = 0;
    while (value >= 1000 && u + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        u++;
    }
    return arena_printf(a,
                        value < 10 && u    ? "%.2f %s"
                        : value < 100 && u ? "%.1f %s"
                                           : "%.0f %s",
                        value, units[u]);
}

static const char *tensor_name(const Kernel *k, uint64_t tensor)
{
    return tensor < k->tensors.len ? k->tensors.at[tensor].name : "?";
}

const char *op_text(const Simulated *s, const Op *op, Arena *a)
{
    const Kernel *k = s->trace->k;
    long long n = (long long)op->a, m = (long long)op->b, d = (long long)op->c;
    switch ((TileKind)op->kind) {
    case TILE_pack:
        if (is_cpu(s))
            return arena_printf(a, "%s %lld x %lld", op->c ? "pack and transpose" : "pack", n, m);
        if (op->path >= PATH_COUNT || path_unit((Path)op->path) == UNIT_mte1)
            return arena_printf(a, "%s %lld x %lld B",
                                op->path < PATH_COUNT ? path_name((Path)op->path) : "move", n, m);
        return arena_printf(a, "%s %s %lld x %lld B", path_name((Path)op->path), tensor_name(k, op->gm >> 40),
                            n, m);
    case TILE_product: return arena_printf(a, "product %lld x %lld x %lld", n, m, d);
    case TILE_wait: return arena_printf(a, "wait for %s", unit_name((Unit)op->other));
    case TILE_set: return arena_printf(a, "set for %s", unit_name((Unit)op->other));
    case TILE_for:
    case TILE_store: return arena_printf(a, "%lld elements x %lld", n, m);
    case TILE_launch:
    case TILE_if:
    case TILE_event:
    case TILE_check:
    case TILE_blocks:
    case TILE_bucket:
    case TILE_top:
    case TILE_route:
    case TILE_valid:
    case TILE_COUNT: break;
    }
    return tile_name((TileKind)op->kind);
}

/* ---- the text ---- */

static double us(const Simulated *s, int64_t cycles) { return simulated_us(s->trace, cycles); }

static int64_t total_steps(const Simulated *s)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s->trace->launches.len; i++)
        n += s->launches[i].cube_steps;
    return n;
}

/* Of all cores, in a cycle. */
static double flops(const Simulated *s)
{
    const Machine *m = s->trace->machine;
    const Blocks *cube = &m->cube_16bit;
    int64_t core = is_cpu(s) ? core_flops(s->trace) : 2 * cube->rows * cube->cols * cube->depth;
    return (double)(core * m->cores.cube);
}

const char *report_error(const Simulated *s, Arena *a)
{
    if (is_cpu(s))
        return arena_printf(
            a,
            "a model, not a measurement: it puts schedules of a product in order (docs/npu.md says how "
            "well), and is known to be off by up to %d %% for them, unknown for the rest; checks, routes "
            "and sorts are not timed",
            SIMULATE_CPU_ERROR);
    return "a model, not a measurement; what runs on the host is not timed. Factors between the model and "
           "published times, "
           "in the median and at most (docs/accuracy.md):"
#define ACCURACY(class, times, median, worst) "\n  " #median ", " #worst " of " #times ": " class
#include "emulator/accuracy.def"
        ;
}

static void put_head(const Simulated *s, Text *out)
{
    const Machine *m = s->trace->machine;
    text_add(out, "%s on %s: %.1f us, %lld cycles at %lld MHz\n", s->trace->k->name, m->name,
             us(s, s->cycles), (long long)s->cycles, (long long)m->clock.core);
    text_add(out, "%s: %.1f %% of %.1f %s\n", bound_name(m, UNIT_cube),
             100 * cube_use(s, total_steps(s), s->cycles),
             flops(s) * (double)m->clock.core * (is_cpu(s) ? 1e-3 : 1e-6), is_cpu(s) ? "Gflop/s" : "Tflop/s");
    text_add(out, "%s\n", report_error(s, out->arena));
}

static int width_of(const Simulated *s, int bound) { return bound < UNIT_COUNT ? is_cpu(s) ? 8 : 6 : 13; }

static void put_launches(const Simulated *s, Text *out)
{
    const int width = width_of(s, UNIT_cube);
    text_add(out, "\n%-28s %5s  %-12s %9s %6s %*s  %s\n", "launch", "line", "on", "us", "share", width,
             bound_name(s->trace->machine, UNIT_cube), "bound by");
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        const LaunchTrace *t = &s->trace->launches.at[i];
        const SimulatedLaunch *l = &s->launches[i];
        int64_t from = i ? s->launches[i - 1].end : 0;
        uint32_t line = s->trace->k->tiles ? s->trace->k->tiles->stmts.at[t->launch].loc.line : 0;
        text_add(out, "%-28s %5u  %-12s ", launch_name(s, i, out->arena), line, place_name(t->place));
        if (t->place == ON_HOST) {
            text_add(out, "%9s\n", "-");
            continue;
        }
        text_add(out, "%9.1f %5.1f%% %*.1f%%  %s\n", us(s, l->end - from),
                 s->cycles ? 100 * (double)(l->end - from) / (double)s->cycles : 0, width - 1,
                 100 * cube_use(s, l->cube_steps, l->end - from),
                 bound_text(s->trace->machine, l, out->arena));
    }
}

/* How busy the busiest unit of each kind is. */
static void put_units(const Simulated *s, Text *out)
{
    text_add(out, "\n%-28s", "busy, %");
    for (int b = 0; b < BOUND_COUNT; b++)
        if (bound_name(s->trace->machine, b))
            text_add(out, " %*s", width_of(s, b), bound_name(s->trace->machine, b));
    text_add(out, "\n");
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        if (s->trace->launches.at[i].place == ON_HOST)
            continue;
        text_add(out, "%-28s", launch_name(s, i, out->arena));
        for (int b = 0; b < BOUND_COUNT; b++)
            if (bound_name(s->trace->machine, b))
                text_add(out, " %*.1f", width_of(s, b), 100 * s->launches[i].share[b]);
        text_add(out, "\n");
    }
}

static void put_bytes(const Simulated *s, Text *out)
{
    int64_t sum[PATH_COUNT] = {0}, memory = 0;
    text_add(out, "\n%-28s", "bytes by path");
    for (Path p = 0; p < PATH_COUNT; p++)
        text_add(out, " %9s", path_name(p));
    text_add(out, " %13s\n", "global memory");
    for (uint32_t i = 0; i <= s->trace->launches.len; i++) {
        int last = i == s->trace->launches.len;
        const SimulatedLaunch *l = last ? NULL : &s->launches[i];
        if (l && s->trace->launches.at[i].place == ON_HOST)
            continue;
        text_add(out, "%-28s", last ? "together" : launch_name(s, i, out->arena));
        for (Path p = 0; p < PATH_COUNT; p++) {
            sum[p] += l ? l->bytes[p] : 0;
            text_add(out, " %9s", bytes_text(out->arena, l ? l->bytes[p] : sum[p]));
        }
        memory += l ? l->memory_bytes : 0;
        text_add(out, " %13s\n", bytes_text(out->arena, l ? l->memory_bytes : memory));
    }
}

/* What a CPU's caches and memory give and take. */
static void put_levels(const Simulated *s, Text *out)
{
    text_add(out, "\n%-28s %13s %13s %13s\n", "bytes from and to", "second cache", "last cache", "memory");
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        const SimulatedLaunch *l = &s->launches[i];
        int64_t bytes[] = {l->own_bytes, l->shared_bytes, l->memory_bytes};
        if (s->trace->launches.at[i].place == ON_HOST)
            continue;
        text_add(out, "%-28s", launch_name(s, i, out->arena));
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++)
            text_add(out, " %13s", bytes_text(out->arena, bytes[b]));
        text_add(out, "\n");
    }
}

static void put_balance(const Simulated *s, Text *out)
{
    text_add(out, "\n%-28s %5s  %21s  %30s  %s\n", "balance over cores", "cores", "items least/mean/most",
             "us least/mean/most", "most/mean");
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        const LaunchTrace *t = &s->trace->launches.at[i];
        if (t->place == ON_HOST)
            continue;
        Spread items = spread_of(t->items, t->ncores), cycles = spread_of(s->launches[i].cycles, t->ncores);
        double clock = (double)s->trace->machine->clock.core;
        text_add(out, "%-28s %5u  %6lld/%7.1f/%6lld  %9.1f/%10.1f/%9.1f  %.2f\n",
                 launch_name(s, i, out->arena), t->ncores, (long long)items.least, items.mean,
                 (long long)items.most, us(s, cycles.least), cycles.mean / clock, us(s, cycles.most),
                 cycles.mean > 0 ? (double)cycles.most / cycles.mean : 1);
    }
}

/* Launches that were not looked at whole. */
static void put_sampled(const Simulated *s, Text *out)
{
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        const LaunchTrace *t = &s->trace->launches.at[i];
        if (launch_is_sampled(t))
            text_add(out,
                     "\n%s is a large launch: %lld of its %lld items were looked at, and its times and bytes "
                     "scaled\n",
                     launch_name(s, i, out->arena), (long long)t->looked_at, (long long)launch_items(t));
    }
}

void report_text(const Simulated *s, Text *out)
{
    put_head(s, out);
    put_launches(s, out);
    put_units(s, out);
    (is_cpu(s) ? put_levels : put_bytes)(s, out);
    put_balance(s, out);
    put_sampled(s, out);
}
