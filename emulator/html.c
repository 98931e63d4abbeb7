/* A simulated call as one page of HTML: tables, and pictures in SVG. */
#include "emulator/box.h"
#include "emulator/report.h"

#include <string.h>

enum { WIDTH = 900, LEFT = 90, ROW = 18, MAP = 96 }; /* pixels: a picture, its labels, a unit, a memory */
enum { OPS = 1500 };                                 /* what a picture of units shows of a launch */

typedef struct Page {
    const Simulated *s;
    const Trace *t;
    Text *out;
} Page;

static const char style[] =
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 "
    "1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:.15em "
    ".7em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}h2{margin-top:1.6em}svg{display:block;margin:.4em 0}"
    "svg text{font:11px "
    "system-ui,sans-serif;fill:#444}.wait{fill:#e4e4e4}.scalar{fill:#8c8c8c}.mte2{fill:#3b7dd8}"
    ".mte1{fill:#56b4c9}.cube{fill:#d1495b}.fix{fill:#e08e45}.vector{fill:#66a182}.mte3{fill:#8d6cab}"
    ".buffer{fill:#3b7dd8;fill-opacity:.35;stroke:#3b7dd8}.copy{stroke:#3b7dd8;stroke-dasharray:4 "
    "3}.frame{fill:none;stroke:#bbb}.note{color:#666}";

/* ---- text ---- */

static void put(Page *p, const char *text) { text_add_html(p->out, text, strlen(text)); }

static void cell(Page *p, const char *tag, const char *text)
{
    text_add(p->out, "<%s>", tag);
    put(p, text);
    text_add(p->out, "</%s>", tag);
}

static const char *percent(Page *p, double share)
{
    return arena_printf(p->out->arena, "%.1f %%", 100 * share);
}
static const char *us(Page *p, int64_t cycles)
{
    return arena_printf(p->out->arena, "%.1f", simulated_us(p->t, cycles));
}

/* ---- launches ---- */

/* The lines of the program that a launch computes: more than one where equations were fused. */
static void add_lines(const Kernel *k, StmtId first, uint8_t *seen, uint32_t nseen)
{
    tile_walk (w, k, first)
        if (w.s->loc.line < nseen)
            seen[w.s->loc.line] = 1;
}

static const char *lines_of(Page *p, StmtId launch)
{
    enum { LINES = 1 << 12 };
    const Kernel *k = p->t->k;
    uint8_t *seen = arena_array(p->out->arena, uint8_t, LINES);
    Text text = {.arena = p->out->arena};
    if (k->tiles)
        add_lines(k, tile_at(k, launch)->first, seen, LINES);
    for (uint32_t i = 1; i < LINES; i++)
        if (seen[i])
            text_add(&text, text.len ? ", %u" : "%u", i);
    return text_string(&text);
}

static void put_launches(Page *p)
{
    const char *products = bound_name(p->t->machine, UNIT_cube);
    const char *const heads[] = {"launch", "lines",    "on",     "us",    "share",
                                 products, "bound by", "memory", "items", "most/mean"};
    text_add(p->out, "<h2>Launches</h2>\n<p class=\"note\">Equations of several lines in one launch are "
                     "fused.</p>\n<table><tr>");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cell(p, "th", heads[i]);
    text_add(p->out, "</tr>\n");
    for (uint32_t i = 0; i < p->t->launches.len; i++) {
        const LaunchTrace *t = &p->t->launches.at[i];
        const SimulatedLaunch *l = &p->s->launches[i];
        int64_t time = l->end - (i ? p->s->launches[i - 1].end : 0), items = 0;
        Spread cycles = spread_of(l->cycles, t->ncores);
        for (uint32_t c = 0; c < t->ncores; c++)
            items += t->items[c];
        text_add(p->out, "<tr>");
        cell(p, "td", launch_name(p->s, i, p->out->arena));
        cell(p, "td", lines_of(p, t->launch));
        cell(p, "td", place_name(t->place));
        cell(p, "td", t->place == ON_HOST ? "not timed" : us(p, time));
        cell(p, "td", p->s->cycles ? percent(p, (double)time / (double)p->s->cycles) : "");
        cell(p, "td", percent(p, cube_use(p->s, l->cube_steps, time)));
        cell(p, "td", t->place == ON_HOST ? "" : bound_text(p->t->machine, l, p->out->arena));
        cell(p, "td", bytes_text(p->out->arena, l->memory_bytes));
        cell(p, "td", arena_printf(p->out->arena, "%lld", (long long)items));
        cell(p, "td",
             arena_printf(p->out->arena, "%.2f", cycles.mean > 0 ? (double)cycles.most / cycles.mean : 1));
        text_add(p->out, "</tr>\n");
    }
    text_add(p->out, "</table>\n");
}

/* ---- what stands where, and when ---- */

typedef struct Life {
    int64_t from, to; /* cycles; to 0: never used */
} Life;

static int64_t buffer_bytes(const Trace *t, TensorId id)
{
    BoxShape s;
    return box_shape(t->k, id, t->dims, &s) ? s.matrices * s.stride : 0;
}

static void use_tensor(Page *p, Life *lives, TensorId t, Span span)
{
    if (t >= p->t->k->tensors.len || !space_is_on_chip(p->t->k->tensors.at[t].space))
        return;
    if (!lives[t].to || span.from < lives[t].from)
        lives[t].from = span.from;
    if (span.to > lives[t].to)
        lives[t].to = span.to;
}

static void use_loads(Page *p, Life *lives, ExprId e, Span span)
{
    each_below (x, p->t->k, e, EVERYWHERE)
        if (x_at(p->t->k, *x)->kind == X_LOAD)
            use_tensor(p, lives, x_at(p->t->k, *x)->sym, span);
}

static void use_operands(Page *p, Life *lives, const Stmt *s, Span span)
{
    tile_each_operand (o, s)
        if (tile_operand_is_expr(&o))
            use_loads(p, lives, o.id, span);
        else if (o.role == OPERAND_WRITTEN || o.role == OPERAND_READ)
            use_tensor(p, lives, o.id, span);
}

static void use_statement(Page *p, Life *lives, StmtId id, Span span)
{
    const Stmt *s = tile_at(p->t->k, id);
    use_operands(p, lives, s, span);
    tile_walk (w, p->t->k, s->first)
        use_operands(p, lives, w.s, span);
}

static Life *lives_of(Page *p, uint32_t launch, uint32_t core)
{
    Life *lives = arena_array(p->out->arena, Life, p->t->k->tensors.len + 1);
    const Ops *ops = &p->t->launches.at[launch].ops[core];
    for (uint32_t i = 0; p->t->k->tiles && i < ops->len; i++)
        if (ops->at[i].kind != TILE_set && ops->at[i].kind != TILE_wait)
            use_statement(p, lives, ops->at[i].stmt, p->s->launches[launch].spans[core][i]);
    return lives;
}

static int64_t capacity_of(const Machine *m, Space s)
{
    const OnChip *all[SPACE_COUNT] = {[SPACE_L1] = &m->l1,
                                      [SPACE_L0A] = &m->l0a,
                                      [SPACE_L0B] = &m->l0b,
                                      [SPACE_L0C] = &m->l0c,
                                      [SPACE_UB] = &m->ub};
    return all[s] ? all[s]->bytes : 1;
}

static double across(int64_t at, int64_t from, int64_t to)
{
    return LEFT + (double)(WIDTH - LEFT) * (double)(at - from) / (double)(to > from ? to - from : 1);
}

/* Lines between the copies of a block, which are the first axis. */
static void put_copies(Page *p, const Tensor *x, double left, double right, double top, double high)
{
    int64_t copies = 1;
    if (x->rank > 2)
        ext_eval(p->t->k->module, x->axes[0].extent, p->t->dims, &copies);
    for (int64_t i = 1; i < copies && i < MAP; i++)
        text_add(p->out, "<path class=\"copy\" d=\"M%.1f %.1fH%.1f\"/>", left,
                 top + high * (double)i / (double)copies, right);
}

static void put_buffer(Page *p, TensorId id, Life life, int64_t from, int64_t to)
{
    const Tensor *x = &p->t->k->tensors.at[id];
    int64_t bytes = buffer_bytes(p->t, id), capacity = capacity_of(p->t->machine, x->space);
    double left = across(life.from, from, to), top = MAP * (double)x->at / (double)capacity,
           high = MAP * (double)bytes / (double)capacity;
    text_add(p->out, "<rect class=\"buffer\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
             left, top, across(life.to, from, to) - left, high);
    put(p, arena_printf(p->out->arena, "%s: bytes %lld to %lld, from %s to %s us", x->name, (long long)x->at,
                        (long long)(x->at + bytes), us(p, life.from), us(p, life.to)));
    text_add(p->out, "</title></rect>");
    put_copies(p, x, left, across(life.to, from, to), top, high);
    text_add(p->out, "<text x=\"%.1f\" y=\"%.1f\">", left + 4, top + (high > 12 ? 12 : high));
    put(p, x->name);
    text_add(p->out, "</text>\n");
}

static void put_space(Page *p, Space space, const Life *lives, int64_t from, int64_t to)
{
    uint32_t n = 0;
    for (TensorId t = 0; t < p->t->k->tensors.len; t++)
        n += lives[t].to && p->t->k->tensors.at[t].space == space;
    if (!n)
        return;
    text_add(p->out,
             "<svg role=\"img\" aria-label=\"%s\" width=\"%d\" height=\"%d\"><rect class=\"frame\" x=\"%d\" "
             "y=\"0\" "
             "width=\"%d\" height=\"%d\"/><text x=\"0\" y=\"12\">%s</text><text x=\"0\" y=\"26\">%s</text>\n",
             space_name(space), WIDTH, MAP + 2, LEFT, WIDTH - LEFT, MAP, space_name(space),
             bytes_text(p->out->arena, capacity_of(p->t->machine, space)));
    for (TensorId t = 0; t < p->t->k->tensors.len; t++)
        if (lives[t].to && p->t->k->tensors.at[t].space == space)
            put_buffer(p, t, lives[t], from, to);
    text_add(p->out, "</svg>\n");
}

/* ---- what the units of a core do ---- */

typedef struct HtmlRows {
    uint32_t n, *of; /* by side * UNIT_COUNT + unit: 1 + row, 0: none */
} HtmlRows;

static uint32_t unit_number(const Op *op) { return (uint32_t)op->sub * UNIT_COUNT + op->unit; }

/* The first operations of a core, as many as a picture shows: where they end. */
static uint32_t shown(const Ops *ops)
{
    uint32_t i = 0, n = 0;
    for (; i < ops->len && n < OPS; i++)
        n += ops->at[i].kind != TILE_set && ops->at[i].kind != TILE_wait;
    return i;
}

static HtmlRows rows_of(Page *p, const Ops *ops, uint32_t n)
{
    HtmlRows rows = {.of = arena_array(p->out->arena, uint32_t, 256 * UNIT_COUNT)};
    for (uint32_t i = 0; i < n; i++)
        rows.of[unit_number(&ops->at[i])] = 1;
    for (uint32_t u = 0; u < 256 * UNIT_COUNT; u++)
        rows.of[u] = rows.of[u] ? ++rows.n : 0;
    return rows;
}

static void put_op(Page *p, const Op *op, Span span, uint32_t row, int64_t from, int64_t to)
{
    double left = across(span.from, from, to), wide = across(span.to, from, to) - left;
    if (op->kind == TILE_set || span.to == span.from)
        return;
    text_add(p->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\"><title>",
             op->kind == TILE_wait ? "wait" : unit_name((Unit)op->unit), left, row * ROW + 2,
             wide < 0.3 ? 0.3 : wide, ROW - 4);
    put(p, arena_printf(p->out->arena, "%s, %s to %s us", op_text(p->s, op, p->out->arena), us(p, span.from),
                        us(p, span.to)));
    text_add(p->out, "</title></rect>\n");
}

static void put_units(Page *p, uint32_t launch, uint32_t core)
{
    const Ops *ops = &p->t->launches.at[launch].ops[core];
    const Span *spans = p->s->launches[launch].spans[core];
    uint32_t n = shown(ops);
    int64_t from = p->s->launches[launch].begin, to = from;
    HtmlRows rows = rows_of(p, ops, n);
    for (uint32_t i = 0; i < n; i++)
        to = spans[i].to > to ? spans[i].to : to;
    text_add(p->out, "<p>Units, %s to %s us%s:</p>\n", us(p, from), us(p, to),
             n < ops->len ? arena_printf(p->out->arena, " (the first %d operations of %u)", OPS, ops->len)
                          : "");
    text_add(p->out, "<svg role=\"img\" aria-label=\"units\" width=\"%d\" height=\"%u\">\n", WIDTH,
             rows.n * ROW);
    for (uint32_t u = 0; u < 256 * UNIT_COUNT; u++)
        if (rows.of[u])
            text_add(p->out,
                     u < UNIT_COUNT ? "<text x=\"0\" y=\"%u\">%s</text>\n"
                                    : "<text x=\"0\" y=\"%u\">%s, vector %u</text>\n",
                     rows.of[u] * ROW - 5, bound_name(p->t->machine, (int)(u % UNIT_COUNT)), u / UNIT_COUNT);
    for (uint32_t i = 0; i < n; i++)
        put_op(p, &ops->at[i], spans[i], rows.of[unit_number(&ops->at[i])] - 1, from, to);
    text_add(p->out, "</svg>\n");
}

static void put_launch(Page *p, uint32_t launch)
{
    const LaunchTrace *t = &p->t->launches.at[launch];
    const SimulatedLaunch *l = &p->s->launches[launch];
    uint32_t core = 0;
    while (core + 1 < t->ncores && !t->ops[core].len)
        core++;
    if (t->place == ON_HOST || !t->ncores || !t->ops[core].len)
        return;
    text_add(p->out, "<h2>");
    put(p, arena_printf(p->out->arena, "%s, core %u", launch_name(p->s, launch, p->out->arena), core));
    text_add(p->out, "</h2>\n");
    put_units(p, launch, core);
    if (t->place == ON_CORES) /* its caches fill themselves */
        return;
    const Life *lives = lives_of(p, launch, core);
    text_add(p->out, "<p>On-chip memory: addresses down, %s to %s us across.</p>\n", us(p, l->begin),
             us(p, l->end));
    for (Space s = SPACE_L1; s < SPACE_COUNT; s++)
        put_space(p, s, lives, l->begin, l->end);
}

void report_html(const Simulated *s, Text *out)
{
    Page p = {.s = s, .t = s->trace, .out = out};
    const char *title = arena_printf(out->arena, "%s on %s", s->trace->k->name, s->trace->machine->name);
    text_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>");
    put(&p, title);
    text_add(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
    put(&p, title);
    text_add(out, "</h1>\n<p>%s us, %lld cycles. ", us(&p, s->cycles), (long long)s->cycles);
    put(&p, report_error(s, out->arena));
    text_add(out, "</p>\n");
    put_launches(&p);
    for (uint32_t i = 0; i < s->trace->launches.len; i++)
        put_launch(&p, i);
    text_add(out, "</body>\n</html>\n");
}
