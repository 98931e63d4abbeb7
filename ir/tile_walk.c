/* Reads the operands of statements from tile.def, and walks over trees of statements. */
#include "ir/tile.h"

#include <stddef.h>

/* ---- operands ---- */

/* An operand of a statement's row. count: where Stmt has the length of a list; 0: it is a single field. */
typedef struct OperandRow {
    uint8_t role, size;
    uint16_t at, count;
} OperandRow;

#define FIELD(role, field)                                         \
    {                                                              \
        role, sizeof(((Stmt *)0)->field), offsetof(Stmt, field), 0 \
    }
#define LIST(role, field, length)                                             \
    {                                                                         \
        role, sizeof(uint32_t), offsetof(Stmt, field), offsetof(Stmt, length) \
    }
#define VALUE(field) FIELD(OPERAND_VALUE, field)
#define CONDITION(field) FIELD(OPERAND_CONDITION, field)
#define INTEGER(field) FIELD(OPERAND_INTEGER, field)
#define INTEGERS LIST(OPERAND_INTEGER, index, nindex)
#define SUBSCRIPTS LIST(OPERAND_SUBSCRIPT, index, nindex)
#define WRITTEN(field) FIELD(OPERAND_WRITTEN, field)
#define READ(field) FIELD(OPERAND_READ, field)
#define NAMED(field) FIELD(OPERAND_NAMED, field)
#define VARIABLE(field) FIELD(OPERAND_VARIABLE, field)
#define AXES LIST(OPERAND_AXIS, bound, nbound)
#define ROUTE(field) FIELD(OPERAND_ROUTE, field)
#define NUMBER(field) FIELD(OPERAND_NUMBER, field)
#define BODY FIELD(OPERAND_BODY, first)

#define TILE(name, doc, ...) static const OperandRow name##_row[] = {__VA_ARGS__, {OPERAND_END, 0, 0, 0}};
#include "ir/tile.def"

static const OperandRow *const rows[TILE_COUNT] = {
#define TILE(name, doc, ...) name##_row,
#include "ir/tile.def"
};

static const void *field_at(const Stmt *s, uint32_t at) { return (const char *)s + at; }

static int64_t number_at(const Stmt *s, const OperandRow *row)
{
    const void *field = field_at(s, row->at);
    if (row->size == sizeof(uint8_t))
        return *(const uint8_t *)field;
    return row->size == sizeof(uint32_t) ? *(const uint32_t *)field : *(const int64_t *)field;
}

/* No longer than the field, also of a statement that is not verified yet. */
static uint32_t length_of(const Stmt *s, const OperandRow *row)
{
    uint32_t n = row->count ? *(const uint8_t *)field_at(s, row->count) : 1;
    return n < MAX_RANK ? n : MAX_RANK;
}

/* Goes on to the next operand that is present, the one at (row, n) included. */
static void settle(TileOperand *o)
{
    for (const OperandRow *row = &rows[o->of->kind][o->row]; row->role != OPERAND_END; row++, o->row++) {
        o->role = (OperandRole)row->role;
        if (o->role == OPERAND_NUMBER && !o->n) {
            o->number = number_at(o->of, row);
            return;
        }
        for (; o->role != OPERAND_NUMBER && o->n < length_of(o->of, row); o->n++) {
            o->id = ((const uint32_t *)field_at(o->of, row->at))[o->n];
            if (o->id != NONE)
                return;
        }
        o->n = 0;
    }
    o->role = OPERAND_END;
}

TileOperand tile_operand_first(const Stmt *s)
{
    TileOperand o = {.role = OPERAND_END, .of = s};
    if (s->kind < TILE_COUNT) /* else the verifier will say so */
        settle(&o);
    return o;
}

void tile_operand_next(TileOperand *o)
{
    o->n++;
    settle(o);
}

int tile_has_body(const Stmt *s)
{
    const OperandRow *row = rows[s->kind];
    while (row->role != OPERAND_END && row->role != OPERAND_BODY)
        row++;
    return row->role == OPERAND_BODY;
}

/* ---- fields that a row does not name ---- */

/* Every field of Stmt that tile_stmt() sets to NONE, and which may hold an operand. */
static const struct {
    const char *name;
    uint16_t at;
} ids[] = {
#define ID(field)                     \
    {                                 \
#field, offsetof(Stmt, field) \
    }
    ID(var),   ID(lo),     ID(hi),      ID(buffer),  ID(second),  ID(value),   ID(guard),
    ID(limit), ID(report), ID(planned), ID(route),   ID(other),   ID(from[0]), ID(from[1]),
    ID(to[0]), ID(to[1]),  ID(size[0]), ID(size[1]), ID(size[2]), ID(first),
};

static int is_named(const OperandRow *row, uint16_t at)
{
    while (row->role != OPERAND_END && row->at != at && row->count != at)
        row++;
    return row->role != OPERAND_END;
}

const char *tile_stray_field(const Stmt *s)
{
    const OperandRow *row = rows[s->kind];
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (*(const uint32_t *)field_at(s, ids[i].at) != NONE && !is_named(row, ids[i].at))
            return ids[i].name;
    if (s->nindex && !is_named(row, offsetof(Stmt, nindex)))
        return "index";
    return s->nbound && !is_named(row, offsetof(Stmt, nbound)) ? "bound" : NULL;
}

/* ---- trees ---- */

/* An id that does not exist ends its list. */
static void enter(TileWalk *w, StmtId id)
{
    w->id = id < w->k->tiles->stmts.len && w->left ? id : (StmtId)NONE;
    w->s = w->id == NONE ? NULL : tile_at(w->k, w->id);
    w->left -= w->id != NONE;
}

TileWalk tile_walk_begin(const Kernel *k, StmtId first)
{
    TileWalk w;
    w.k = k;
    w.depth = 0;
    w.left = k->tiles->stmts.len;
    w.skips = 0;
    enter(&w, first);
    return w;
}

void tile_walk_next(TileWalk *w)
{
    const Stmt *s = tile_at(w->k, w->id);
    int below = !w->skips && s->first != NONE && w->depth < TILE_NESTING;
    w->skips = 0;
    if (below)
        w->up[w->depth++] = w->id;
    enter(w, below ? s->first : s->next);
    while (w->id == NONE && w->depth)
        enter(w, tile_at(w->k, w->up[--w->depth])->next);
}

int tile_contains(const Kernel *k, StmtId first, TileKind kind)
{
    tile_walk (w, k, first)
        if (w.s->kind == kind)
            return 1;
    return 0;
}
