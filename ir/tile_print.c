/* Writes the tile level as text that tile_read() takes back. */
#include "ir/event.h"
#include "ir/print.h"
#include "ir/tile.h"

typedef struct TilePrinter {
    const Kernel *k;
    Text *out;
    uint32_t indent;
    uint32_t line; /* of the enclosing statement: not repeated */
    Printer names; /* of the loop variables in scope, and the expression printer */
} TilePrinter;

/* ---- declarations ---- */

static void print_tensor(const Module *m, const Tensor *t, Text *out)
{
    text_add(out, "%s: %s", t->name, elem_name(t->elem));
    for (uint32_t i = 0; i < t->rank; i++) {
        text_add(out, i ? ", " : "[");
        axis_print(m, t->axes[i], out);
    }
    text_add(out, t->rank ? "]" : "");
    if (t->lanes)
        text_add(out, " x %u", t->lanes);
    if (t->layout != LAYOUT_ROWS)
        text_add(out, " %s%s", layout_name(t->layout), t->both ? " both" : "");
    if (space_is_on_chip(t->space))
        text_add(out, " at %lld", (long long)t->at);
}

static void print_route_type(const Module *m, const Route *r, Text *out)
{
    text_add(out, "[");
    ext_print(m, r->tokens, out);
    text_add(out, ", ");
    ext_print(m, r->choices, out);
    text_add(out, " -> %s]", m->groups.at[r->group].name);
}

static void print_param(const Kernel *k, Param p, Text *out)
{
    if (p.kind == PARAM_TENSOR) {
        text_add(out, "%s ", role_name(k->tensors.at[p.id].role));
        print_tensor(k->module, &k->tensors.at[p.id], out);
        return;
    }
    const Route *r = &k->routes.at[p.id];
    text_add(out, "%s %s: route", role_name(r->role), r->name);
    print_route_type(k->module, r, out);
}

static void print_fields(const Kernel *k, Text *out)
{
    int n = 0;
    for (TensorId t = 0; t < k->tensors.len; t++) {
        const Tensor *field = &k->tensors.at[t];
        if (field->route == NONE || !tile_uses_field(k->tiles, field->route, (RouteField)field->field))
            continue;
        text_add(out, n++ ? ", %s" : "    fields %s", field->name);
    }
    text_add(out, n ? "\n" : "");
}

/* Locals without a space were fused away or live at the equation level only. */
static void print_locals(const Kernel *k, Text *out)
{
    for (RouteId r = 0; r < k->routes.len; r++) {
        if (k->routes.at[r].role != ROLE_LOCAL)
            continue;
        text_add(out, "    route %s: ", k->routes.at[r].name);
        print_route_type(k->module, &k->routes.at[r], out);
        text_add(out, "\n");
    }
    print_fields(k, out);
    for (TensorId t = 0; t < k->tensors.len; t++) {
        const Tensor *local = &k->tensors.at[t];
        if (local->role != ROLE_LOCAL || local->space == SPACE_GM || local->route != NONE)
            continue;
        text_add(out, "    %s ", space_name(local->space));
        print_tensor(k->module, local, out);
        text_add(out, "\n");
    }
}

/* ---- statements ---- */

static void print_expr(TilePrinter *p, ExprId e) { printer_expr(&p->names, e, PREC_OR); }

static const char *buffer_name(const TilePrinter *p, TensorId t) { return p->k->tensors.at[t].name; }

static void print_subscripts(TilePrinter *p, const Stmt *s)
{
    for (uint32_t i = 0; i < s->nindex; i++) {
        text_add(p->out, i ? ", " : "[");
        print_expr(p, s->index[i]);
    }
    text_add(p->out, s->nindex ? "]" : "");
}

static void print_range(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, " in ");
    print_expr(p, s->lo);
    text_add(p->out, "..");
    print_expr(p, s->hi);
}

static void print_for(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "%s %s", loop_word((LoopMode)s->mode), printer_bind(&p->names, s->var));
    print_range(p, s);
    if (s->step != 1)
        text_add(p->out, " by %lld", (long long)s->step);
    if (s->band)
        text_add(p->out, " band %lld", (long long)s->band);
    if (s->band && s->buffer != NONE)
        text_add(p->out, " of %s", buffer_name(p, s->buffer));
}

static void print_if(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "if ");
    print_expr(p, s->value);
}

static void print_launch(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "launch %s", s->name);
    if (s->writes != WRITES_BY_SIZE) {
        text_add(p->out, " writes ");
        knob_put_value(KNOB_writes, s->writes, p->out);
    }
    if (s->ahead != knob_table[KNOB_ahead].otherwise)
        text_add(p->out, " ahead %lld", (long long)s->ahead);
    if (s->threads)
        text_add(p->out, " threads %lld", (long long)s->threads);
}

static void print_store(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "%s", buffer_name(p, s->buffer));
    print_subscripts(p, s);
    text_add(p->out, s->add ? " += " : " = ");
    print_expr(p, s->value);
}

static void print_quoted(const char *text, Text *out)
{
    text_add(out, "\"");
    for (; *text; text++)
        text_add(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text == '\n' ? ' ' : *text);
    text_add(out, "\"");
}

/* Bounds are outside the scope of the box's variables, the value is inside. */
static void print_pack(TilePrinter *p, const Stmt *s)
{
    uint32_t scope = p->names.scope.len;
    text_add(p->out, "pack %s", buffer_name(p, s->buffer));
    print_subscripts(p, s);
    for (uint32_t i = 0; i < 2; i++) {
        text_add(p->out, "%s%s in ", i ? ", " : " over ", printer_bind(&p->names, s->bound[i]));
        print_expr(p, s->from[i]);
        text_add(p->out, "..");
        print_expr(p, s->to[i]);
    }
    text_add(p->out, " = ");
    print_expr(p, s->value);
    printer_leave(&p->names, scope);
}

static void print_product(TilePrinter *p, const Stmt *s)
{
    static const char *const words[3] = {" rows ", " cols ", " depth "};
    text_add(p->out, "product %s", buffer_name(p, s->buffer));
    print_subscripts(p, s);
    text_add(p->out, " += ");
    print_expr(p, s->value);
    text_add(p->out, " * ");
    print_expr(p, s->other);
    text_add(p->out, "%s", s->transposed ? " transposed" : "");
    if (s->apart)
        text_add(p->out, " apart %u", s->apart);
    for (uint32_t i = 0; i < 3; i++) {
        text_add(p->out, "%s", words[i]);
        print_expr(p, s->size[i]);
    }
    if (s->guard != NONE) {
        text_add(p->out, " init ");
        print_expr(p, s->guard);
    }
}

static void print_flag(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "%s %s -> %s %s", tile_name((TileKind)s->kind), unit_name((Unit)s->unit),
             unit_name((Unit)s->other_unit), buffer_name(p, s->buffer));
    print_subscripts(p, s);
}

static void print_set(TilePrinter *p, const Stmt *s) { print_flag(p, s); }
static void print_wait(TilePrinter *p, const Stmt *s) { print_flag(p, s); }

static void print_event(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "event %s %u(", event_name((EventKind)s->mode), s->planned);
    for (uint32_t i = 0; i < s->nindex; i++) {
        text_add(p->out, "%s", i ? ", " : "");
        print_expr(p, s->index[i]);
    }
    text_add(p->out, ")");
}

static void print_check(TilePrinter *p, const Stmt *s)
{
    static const char *const names[] = {
#define STATUS(name, text) #name,
#include "moec/abi.def"
    };
    text_add(p->out, "check ");
    print_expr(p, s->value);
    text_add(p->out, " else %s ", names[s->status]);
    print_quoted(s->text, p->out);
    if (s->report == NONE)
        return;
    text_add(p->out, " (");
    print_expr(p, s->report);
    if (s->limit != NONE) {
        text_add(p->out, ", ");
        print_expr(p, s->limit);
    }
    text_add(p->out, ")");
}

static void print_blocks(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "blocks %s, %s of %s by %lld", buffer_name(p, s->buffer), buffer_name(p, s->second),
             p->k->routes.at[s->route].name, (long long)s->step);
    text_add(p->out, s->full_first ? " full first" : "");
}

static void print_bucket(TilePrinter *p, const Stmt *s)
{
    uint32_t scope = p->names.scope.len;
    text_add(p->out, "bucket %s, %s over ", buffer_name(p, s->buffer), buffer_name(p, s->second));
    for (uint32_t i = 0; i < s->nbound; i++) {
        text_add(p->out, i ? ", %s: " : "%s: ", printer_bind(&p->names, s->bound[i]));
        axis_print(p->k->module, p->k->indices.at[s->bound[i]].axis, p->out);
    }
    text_add(p->out, " by ");
    print_expr(p, s->value);
    text_add(p->out, " into ");
    print_expr(p, s->limit);
    if (s->guard != NONE) {
        text_add(p->out, " where ");
        print_expr(p, s->guard);
    }
    printer_leave(&p->names, scope);
}

static void print_top(TilePrinter *p, const Stmt *s)
{
    uint32_t scope = p->names.scope.len;
    text_add(p->out, "top %s, %s", buffer_name(p, s->buffer), buffer_name(p, s->second));
    print_subscripts(p, s);
    text_add(p->out, " count ");
    print_expr(p, s->limit);
    text_add(p->out, " over %s", printer_bind(&p->names, s->var));
    print_range(p, s);
    text_add(p->out, " of ");
    print_expr(p, s->value);
    printer_leave(&p->names, scope);
}

static void print_route(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "route %s from %s", p->k->routes.at[s->route].name, buffer_name(p, s->second));
}

static void print_valid(TilePrinter *p, const Stmt *s)
{
    text_add(p->out, "valid %s", p->k->routes.at[s->route].name);
}

static void (*const printers[TILE_COUNT])(TilePrinter *, const Stmt *) = {
#define TILE(name, doc, ...) print_##name,
#include "ir/tile.def"
};

static void print_statements(TilePrinter *p, StmtId first);

static void print_body(TilePrinter *p, const Stmt *s)
{
    uint32_t line = p->line;
    p->line = s->loc.line;
    p->indent += 4;
    text_add(p->out, " {\n");
    print_statements(p, s->first);
    p->indent -= 4;
    p->line = line;
    text_add(p->out, "%*s}\n", (int)p->indent, "");
}

static void print_statements(TilePrinter *p, StmtId first)
{
    tile_each (id, p->k, first) {
        const Stmt *s = tile_at(p->k, id);
        uint32_t scope = p->names.scope.len;
        text_add(p->out, "%*s", (int)p->indent, "");
        printers[s->kind](p, s);
        if (s->loc.line != p->line)
            text_add(p->out, " @%u", s->loc.line);
        if (tile_has_body(s))
            print_body(p, s);
        else
            text_add(p->out, "\n");
        printer_leave(&p->names, scope);
    }
}

static void print_kernel(const Kernel *k, Text *out)
{
    TilePrinter p = {.k = k, .out = out, .indent = 4, .names = printer_new(k, out)};
    text_add(out, "\nkernel %s(", k->name);
    for (uint32_t i = 0; i < k->params.len; i++) {
        text_add(out, i ? ", " : "");
        print_param(k, k->params.at[i], out);
    }
    text_add(out, ") {\n    cost ");
    ext_print(k->module, k->tiles->work, out);
    text_add(out, "\n");
    print_locals(k, out);
    print_statements(&p, k->tiles->first);
    text_add(out, "}\n");
}

void tile_print(const Module *m, const Kernel *kernel, Text *out)
{
    text_add(out, "tiles 1\n\n");
    for (uint32_t i = 0; i < m->dims.len; i++)
        print_dim(&m->dims.at[i], out);
    for (uint32_t i = 0; i < m->groups.len; i++)
        print_group(m, &m->groups.at[i], out);
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if ((!kernel || kernel == m->kernels.at[i]) && m->kernels.at[i]->tiles)
            print_kernel(m->kernels.at[i], out);
}
