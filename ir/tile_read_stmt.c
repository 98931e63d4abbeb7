/* Reads the statements of the tile level. */
#include "ir/event.h"
#include "ir/tile_text.h"

#include <string.h>

static StmtId read_block(TileReader *r, uint32_t line);

static Loc read_line(TileReader *r, uint32_t line)
{
    if (token_take(r, "@"))
        line = (uint32_t)token_int(r, "a line");
    return (Loc){r->file, line, line ? 1 : 0, 0};
}

static IndexId declare_index(TileReader *r, Extent extent)
{
    Loc loc = r->token.loc;
    Name name = token_word(r, "a variable");
    IndexId i = ir_index(r->k, name, loc, (Axis){extent, NONE});
    vec_push(r->m->arena, &r->scope, i);
    return i;
}

static void read_range(TileReader *r, Stmt *s)
{
    s->lo = tile_read_int(r);
    token_expect(r, "..");
    s->hi = tile_read_int(r);
}

static void read_body(TileReader *r, Stmt *s)
{
    if (++r->depth > TILE_NESTING)
        token_fail(r, DIAG_tile_syntax, r->token.loc, "nesting is deeper than %d", TILE_NESTING);
    s->first = read_block(r, s->loc.line);
    r->depth--;
}

static uint8_t read_writes(TileReader *r)
{
    if (token_take(r, "past"))
        return WRITES_PAST;
    token_expect(r, "kept");
    return WRITES_KEPT;
}

/* A number that a knob of the launch can have. */
static int64_t read_setting(TileReader *r, Knob knob)
{
    const KnobRow *row = &knob_table[knob];
    Loc loc = r->token.loc;
    int64_t value = token_int(r, row->word);
    if (!r->failed && (value < row->lo || value > row->hi))
        token_fail(r, DIAG_tile_type, loc, "%s of a launch is %lld to %lld", row->word, (long long)row->lo,
                   (long long)row->hi);
    return value;
}

static void read_launch(TileReader *r, Stmt *s)
{
    token_expect(r, "launch");
    s->name = token_word(r, "the name of a launch");
    if (token_take(r, "writes"))
        s->writes = read_writes(r);
    if (token_take(r, "ahead"))
        s->ahead = read_setting(r, KNOB_ahead);
    if (token_take(r, "threads"))
        s->threads = read_setting(r, KNOB_threads);
}

static int loop_mode(const TileReader *r)
{
    for (int mode = 0; mode < LOOP_MODES; mode++)
        if (token_is(r, loop_word((LoopMode)mode)))
            return mode;
    return -1;
}

static void read_for(TileReader *r, Stmt *s)
{
    s->mode = (uint8_t)loop_mode(r);
    token_next(r);
    TileToken var = r->token;
    token_word(r, "a loop variable");
    token_expect(r, "in");
    read_range(r, s);
    if (token_take(r, "by"))
        s->step = token_int(r, "a step");
    if (token_take(r, "band"))
        s->band = token_int(r, "the values of a band");
    if (s->band && token_take(r, "of"))
        s->buffer = tile_read_buffer(r);
    s->var = ir_index(r->k, r->failed ? name_of(r->m->names, "") : var.text, var.loc,
                      (Axis){ext_const(r->m, 0), NONE});
    vec_push(r->m->arena, &r->scope, s->var);
}

static void read_if(TileReader *r, Stmt *s)
{
    token_next(r);
    s->value = tile_read_typed(r, 1);
}

static uint8_t read_unit(TileReader *r)
{
    Loc loc = r->token.loc;
    Name word = token_word(r, "a unit");
    for (Unit u = 0; u < UNIT_COUNT; u++)
        if (strcmp(unit_name(u), word) == 0)
            return (uint8_t)u;
    token_fail(r, DIAG_tile_name, loc, "there is no unit %s", word);
    return 0;
}

/* set UNIT -> UNIT BUFFER[SLOT] */
static void read_flag(TileReader *r, Stmt *s)
{
    token_next(r);
    s->unit = read_unit(r);
    token_expect(r, "->");
    s->other_unit = read_unit(r);
    s->buffer = tile_read_buffer(r);
    s->nindex = tile_read_subscripts(r, s->index, 1);
}

static void read_set(TileReader *r, Stmt *s) { read_flag(r, s); }
static void read_wait(TileReader *r, Stmt *s) { read_flag(r, s); }

static uint8_t read_event_kind(TileReader *r)
{
    Loc loc = r->token.loc;
    Name word = token_word(r, "an event");
    for (EventKind kind = 0; kind < EVENT_COUNT; kind++)
        if (strcmp(event_name(kind), word) == 0)
            return (uint8_t)kind;
    token_fail(r, DIAG_tile_name, loc, "there is no event %s", word);
    return 0;
}

/* event KIND N(VALUES) { statements } */
static void read_event(TileReader *r, Stmt *s)
{
    token_next(r);
    s->mode = read_event_kind(r);
    int64_t number = token_int(r, "the number of a statement");
    s->planned = number < NONE ? (StmtId)number : (StmtId)NONE;
    token_expect(r, "(");
    while (!r->failed && !token_is(r, ")")) {
        if (s->nindex == MAX_RANK)
            token_fail(r, DIAG_tile_type, r->token.loc, "an event has at most %d values", MAX_RANK);
        else
            s->index[s->nindex++] = tile_read_int(r);
        if (!token_take(r, ","))
            break;
    }
    token_expect(r, ")");
}

static int read_status(TileReader *r)
{
    static const char *const names[] = {
#define STATUS(name, text) #name,
#include "moec/abi.def"
    };
    Loc loc = r->token.loc;
    Name word = token_word(r, "a status");
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(names[i], word) == 0)
            return i;
    token_fail(r, DIAG_tile_name, loc, "there is no status %s", word);
    return 0;
}

static void read_check(TileReader *r, Stmt *s)
{
    token_next(r);
    s->value = tile_read_typed(r, 1);
    token_expect(r, "else");
    s->status = read_status(r);
    if (r->token.kind != TOKEN_STRING)
        token_fail(r, DIAG_tile_syntax, r->token.loc, "a check has a text");
    s->text = r->token.text;
    token_next(r);
    if (!token_take(r, "("))
        return;
    s->report = tile_read_int(r);
    if (token_take(r, ","))
        s->limit = tile_read_int(r);
    token_expect(r, ")");
}

static void read_blocks(TileReader *r, Stmt *s)
{
    token_next(r);
    s->buffer = tile_read_buffer(r);
    token_expect(r, ",");
    s->second = tile_read_buffer(r);
    token_expect(r, "of");
    s->route = tile_read_route(r);
    token_expect(r, "by");
    s->step = token_int(r, "the rows of a block");
    if (token_take(r, "full")) {
        token_expect(r, "first");
        s->full_first = 1;
    }
}

/* pack PANEL[0, 0] over r in r0..r1, h in h0..h1 = VALUE */
static void read_pack(TileReader *r, Stmt *s)
{
    token_next(r);
    s->buffer = tile_read_buffer(r);
    s->nindex = tile_read_subscripts(r, s->index, MAX_RANK);
    token_expect(r, "over");
    for (s->nbound = 0; s->nbound < 2; s->nbound++) {
        if (s->nbound)
            token_expect(r, ",");
        s->bound[s->nbound] = declare_index(r, ext_const(r->m, 0));
        token_expect(r, "in");
        s->from[s->nbound] = tile_read_int(r);
        token_expect(r, "..");
        s->to[s->nbound] = tile_read_int(r);
    }
    token_expect(r, "=");
    s->value = tile_read_typed(r, 0);
}

static uint8_t read_apart(TileReader *r)
{
    Loc loc = r->token.loc;
    int64_t axes = token_int(r, "a number of axes");
    if (!r->failed && (axes < 1 || axes > MAX_RANK - 2))
        token_fail(r, DIAG_tile_type, loc, "1 to %d axes stand between two, not %lld", MAX_RANK - 2,
                   (long long)axes);
    return r->failed ? 0 : (uint8_t)axes;
}

/* product SUMS[0, 0] += LEFT[0, 0] * RIGHT[0, 0] transposed apart AXES rows M cols N depth K init CONDITION */
static void read_product(TileReader *r, Stmt *s)
{
    static const char *const words[3] = {"rows", "cols", "depth"};
    token_next(r);
    s->buffer = tile_read_buffer(r);
    s->nindex = tile_read_subscripts(r, s->index, MAX_RANK);
    token_expect(r, "+=");
    s->value = tile_read_load(r, r->token.loc);
    token_expect(r, "*");
    s->other = tile_read_load(r, r->token.loc);
    s->transposed = token_take(r, "transposed") != 0;
    s->apart = token_take(r, "apart") ? read_apart(r) : 0;
    for (int i = 0; i < 3; i++) {
        token_expect(r, words[i]);
        s->size[i] = tile_read_int(r);
    }
    if (token_take(r, "init"))
        s->guard = tile_read_typed(r, 1);
}

/* bucket ORDER, FIRST over t: T, k: K by KEY into N where CONDITION */
static void read_bucket(TileReader *r, Stmt *s)
{
    token_next(r);
    s->buffer = tile_read_buffer(r);
    token_expect(r, ",");
    s->second = tile_read_buffer(r);
    token_expect(r, "over");
    do {
        IndexId i = declare_index(r, ext_const(r->m, 0));
        token_expect(r, ":");
        r->k->indices.at[i].axis = tile_read_axis(r);
        if (s->nbound == MAX_RANK)
            token_fail(r, DIAG_tile_type, r->token.loc, "a bucket space has at most %d variables", MAX_RANK);
        else
            s->bound[s->nbound++] = i;
    } while (!r->failed && token_take(r, ","));
    token_expect(r, "by");
    s->value = tile_read_int(r);
    token_expect(r, "into");
    s->limit = tile_read_int(r);
    if (token_take(r, "where"))
        s->guard = tile_read_typed(r, 1);
}

/* top VALUES, IDS [t] K over e in 0..E of VALUE */
static void read_top(TileReader *r, Stmt *s)
{
    token_next(r);
    s->buffer = tile_read_buffer(r);
    token_expect(r, ",");
    s->second = tile_read_buffer(r);
    s->nindex = tile_read_subscripts(r, s->index, MAX_RANK - 1);
    token_expect(r, "count");
    s->limit = tile_read_int(r);
    token_expect(r, "over");
    TileToken var = r->token;
    token_word(r, "a variable");
    token_expect(r, "in");
    read_range(r, s);
    s->var = ir_index(r->k, r->failed ? name_of(r->m->names, "") : var.text, var.loc,
                      (Axis){ext_const(r->m, 0), NONE});
    vec_push(r->m->arena, &r->scope, s->var);
    token_expect(r, "of");
    s->value = tile_read_typed(r, 0);
}

static void read_route(TileReader *r, Stmt *s)
{
    token_next(r);
    s->route = tile_read_route(r);
    token_expect(r, "from");
    s->second = tile_read_buffer(r);
}

static void read_valid(TileReader *r, Stmt *s)
{
    token_next(r);
    s->route = tile_read_route(r);
}

static void read_store(TileReader *r, Stmt *s)
{
    s->buffer = tile_read_buffer(r);
    s->nindex = tile_read_subscripts(r, s->index, MAX_RANK);
    s->add = token_is(r, "+=") ? 1 : 0;
    if (!token_take(r, "+="))
        token_expect(r, "=");
    s->value = tile_read_typed(r, 0);
}

/* A buffer may have the name of a statement; a store goes on with one of these. */
static int at_store(const TileReader *r)
{
    static const char *const signs[] = {"[", "=", "+=", "."};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (r->ahead.kind == TOKEN_SIGN && strcmp(r->ahead.text, signs[i]) == 0)
            return 1;
    return 0;
}

static TileKind statement_kind(const TileReader *r)
{
    if (at_store(r))
        return TILE_store;
    if (loop_mode(r) >= 0)
        return TILE_for;
    for (TileKind kind = 0; kind < TILE_COUNT; kind++)
        if (kind != TILE_launch && token_is(r, tile_name(kind)))
            return kind;
    return TILE_store;
}

static void (*const readers[TILE_COUNT])(TileReader *, Stmt *) = {
#define TILE(name, doc, ...) read_##name,
#include "ir/tile.def"
};

/* `line`: that of the enclosing statement, taken over where none is written. Variables are in scope as far as the body. */
static StmtId read_statement(TileReader *r, TileKind kind, uint32_t line)
{
    uint32_t scope = r->scope.len;
    Stmt s = tile_stmt(kind, (Loc){0});
    readers[kind](r, &s);
    s.loc = read_line(r, line);
    if (tile_has_body(&s))
        read_body(r, &s);
    r->scope.len = scope;
    return tile_add(r->k, s);
}

/* { statements }: the first of them, or NONE. */
static StmtId read_block(TileReader *r, uint32_t line)
{
    StmtId first = NONE, last = NONE;
    token_expect(r, "{");
    while (!r->failed && !token_is(r, "}") && r->token.kind != TOKEN_END) {
        StmtId s = read_statement(r, statement_kind(r), line);
        if (last == NONE)
            first = s;
        else
            r->k->tiles->stmts.at[last].next = s;
        last = s;
    }
    token_expect(r, "}");
    return first;
}

StmtId tile_read_launch(TileReader *r) { return read_statement(r, TILE_launch, 0); }
