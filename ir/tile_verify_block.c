/* Verifies pack and product: Note [Block products] and Note [Layouts]. */
#include "ir/tile_verify.h"

#include <string.h>

/* ---- layouts ---- */

static int is_operand_elem(Elem e) { return e == EL_F32 || e == EL_BF16; }

/* A packed parameter of f16: read and written element by element, no operand of a product. */
static int is_packed_half(const Tensor *t) { return t->elem == EL_F16 && t->role != ROLE_LOCAL; }

void tile_verify_layouts(TileVerifier *v)
{
    for (TensorId i = 0; !v->error && i < v->k->tensors.len; i++) {
        const Tensor *t = &v->k->tensors.at[i];
        if (t->layout == LAYOUT_ROWS)
            continue;
        if (t->layout >= LAYOUT_COUNT)
            tile_broken(v, "%s has layout %d, which does not exist", t->name, (int)t->layout);
        else if (t->space == SPACE_REG || t->rank < 2)
            tile_broken(v, "%s cannot have layout %s: that needs memory and two axes", t->name,
                        layout_name(t->layout));
        else if (t->layout == LAYOUT_SUMS && t->elem != EL_F32)
            tile_broken(v, "%s has layout sums, which is for f32, not for %s", t->name, elem_name(t->elem));
        else if (!is_operand_elem(t->elem) && !is_packed_half(t))
            tile_broken(v, "%s has layout %s, which is for f32 and bf16, not for %s", t->name,
                        layout_name(t->layout), elem_name(t->elem));
    }
}

/* Elements of one cache line: where a k subscript may begin. */
static int64_t line_of(const Tensor *t) { return LAYOUT_LINE_BYTES / (int64_t)elem_bytes(t->elem); }

/* What an axis's first subscript of a block is a multiple of. */
static int64_t edge_of(const Tensor *t, uint32_t axis)
{
    switch (t->layout) {
    case LAYOUT_LINES: return axis + 1u == t->rank ? line_of(t) : 1;
    case LAYOUT_PAIRS: return axis + 1u == t->rank ? LAYOUT_EDGE : line_of(t);
    case LAYOUT_SUMS: return LAYOUT_EDGE;
    case LAYOUT_ROWS:
    case LAYOUT_ZN: /* of a plan: units move and multiply any box */
    case LAYOUT_NZ:
    case LAYOUT_ZZ:
    case LAYOUT_COUNT: break;
    }
    return 1;
}

static const char *text_of(TileVerifier *v, ExprId e)
{
    Text text = {.arena = v->a};
    ir_print_expr(v->k, e, &text);
    return text_string(&text);
}

/* ---- boxes ---- */

static void verify_edges(TileVerifier *v, const TileBox *box, const int64_t *edges)
{
    const Tensor *t = &v->k->tensors.at[box->buffer];
    for (uint32_t i = box->n < 2; !v->error && i < 2; i++)
        if (!tile_is_multiple(v, box->index[box->n - 2 + i], edges[i]))
            tile_broken(
                v,
                "subscript %s of %s is not known to be a multiple of %lld: a block begins there in axis %u",
                text_of(v, box->index[box->n - 2 + i]), t->name, (long long)edges[i], box->n - 2 + i);
}

/* Where the box has elements: it ends at x where `to` is if(.., from, x). */
static ExprId end_of(const TileVerifier *v, const TileBox *box, uint32_t side)
{
    ExprId to = box->to[side];
    int may_be_empty = to != NONE && x_at(v->k, to)->kind == X_IF && x_arg(v->k, to, 1) == box->from[side];
    return may_be_empty ? x_arg(v->k, to, 2) : to;
}

/* The claims hold where the box has elements: an empty one is nowhere. */
static int holds_inside(TileVerifier *v, const TileBox *box, uint32_t side, const TileSum *below,
                        const TileSum *above)
{
    uint32_t open = v->ranges.len;
    ExprId end = end_of(v, box, side);
    if (box->from[side] != NONE && end != NONE)
        vec_push(v->a, &v->ranges, ((TileRange){NONE, box->from[side], end, 1, 0}));
    int holds = tile_sum_at_most_zero(v, below) && tile_sum_at_most_zero(v, above);
    v->ranges.len = open;
    return holds;
}

/* 0 <= place and place + length <= the extent of the axis. */
static void verify_inside(TileVerifier *v, const TileBox *box, uint32_t side)
{
    const Tensor *t = &v->k->tensors.at[box->buffer];
    uint32_t axis = box->n - 2 + side;
    TileSum below = {0}, above = {0};
    tile_sum_expr(v, &below, box->index[axis], -1);
    tile_sum_expr(v, &above, box->index[axis], 1);
    tile_sum_expr(v, &above, end_of(v, box, side), 1);
    tile_sum_expr(v, &above, box->from[side], -1);
    tile_sum_extent(v, &above, t->axes[axis].extent, -1);
    if (holds_inside(v, box, side, &below, &above))
        return;
    Text extent = {.arena = v->a};
    ext_print(v->k->module, t->axes[axis].extent, &extent);
    tile_broken(v, "a block at %s of axis %u of %s, %s%s%s elements long, is not known to fit 0..%s",
                text_of(v, box->index[axis]), axis, t->name, text_of(v, box->to[side]),
                box->from[side] == NONE ? "" : " - ",
                box->from[side] == NONE ? "" : text_of(v, box->from[side]), text_string(&extent));
}

static void verify_box(TileVerifier *v, const TileBox *box, const int64_t *edges)
{
    verify_edges(v, box, edges);
    for (uint32_t i = box->n < 2; !v->error && i < 2; i++)
        verify_inside(v, box, i);
}

/* How far a block that is written touches what follows it in an axis: panels up to whole lines in k; they and sums with
 * room up to multiples of 32 in rows and columns; else not at all. */
static int64_t touched(const Tensor *t, uint32_t axis, TileKind kind)
{
    uint32_t k_axis = t->layout == LAYOUT_LINES ? t->rank - 1u : t->rank - 2u;
    if (layout_is_fractal(t->layout))
        return 1;
    if (kind == TILE_product)
        return sums_have_room(t->space, t->layout) ? LAYOUT_EDGE : 1;
    return layout_is_dense(t->layout) ? 1 : axis == k_axis ? line_of(t) : LAYOUT_EDGE;
}

static void verify_block_write(TileVerifier *v, TileBox box, TileKind kind)
{
    const Tensor *t = &v->k->tensors.at[box.buffer];
    for (uint32_t i = 0; i < 2; i++)
        box.edge[i] = touched(t, t->rank - 2u + i, kind);
    tile_verify_access(v, &box, 1);
    tile_written(v, box.buffer);
}

/* pack and product go over whole blocks by themselves. */
static void verify_place(TileVerifier *v)
{
    if (v->vector != NONE)
        tile_broken(v, "must not stand in a vector loop");
    for (uint32_t l = 0; l < v->loops.len; l++)
        if (tile_at(v->k, v->loops.at[l])->mode == LOOP_UNROLL)
            tile_broken(v, "must not stand in an unroll loop");
}

static void verify_plain(TileVerifier *v, ExprId e, TileWant want, const char *what)
{
    tile_verify_expr(v, e, want);
    if (!v->error && tile_has_lanes(v, e))
        tile_broken(v, "%s has lanes", what);
}

/* The target: memory, as many subscripts as axes, two of them at least. */
static int verify_target(TileVerifier *v, const Stmt *s, const char *what)
{
    if (!tile_is_buffer(v, s->buffer, what))
        return 0;
    const Tensor *t = &v->k->tensors.at[s->buffer];
    if (t->space == SPACE_REG)
        tile_broken(v, "%s %s is in registers: blocks are in memory", what, t->name);
    else if (t->role == ROLE_IN)
        tile_broken(v, "%s %s is an input", what, t->name);
    else if (s->nindex != t->rank || t->rank < (s->kind == TILE_pack && layout_is_dense(t->layout) ? 1u : 2u))
        tile_broken(
            v, "%s %s has %u axes and %u subscripts; a block has two at least, but for a row that is packed",
            what, t->name, t->rank, s->nindex);
    for (uint32_t i = 0; !v->error && i < s->nindex; i++)
        verify_plain(v, s->index[i], WANT_INT, "a subscript");
    return !v->error;
}

static TileBox target_box(const Stmt *s)
{
    TileBox box = {.buffer = s->buffer, .n = s->nindex};
    memcpy(box.index, s->index, sizeof box.index);
    for (uint32_t i = 0; i < 2; i++) {
        box.from[i] = NONE;
        box.to[i] = NONE;
    }
    return box;
}

/* ---- pack ---- */

static void declare_box(TileVerifier *v, const Stmt *s)
{
    for (uint32_t i = 0; i < 2; i++) {
        tile_declare(v, s->bound[i]);
        vec_push(v->a, &v->ranges, ((TileRange){s->bound[i], s->from[i], s->to[i], 1, 0}));
    }
}

static void verify_packed_value(TileVerifier *v, const Stmt *s)
{
    const Tensor *t = &v->k->tensors.at[s->buffer];
    uint32_t scope = v->scope.len;
    declare_box(v, s);
    verify_plain(v, s->value, WANT_VALUE, "the value");
    tile_leave(v, scope);
    if (!v->error && x_loads(v->k, s->value, s->buffer))
        tile_broken(v, "%s is packed from itself", t->name);
    else if (!v->error && !tile_fits(t->elem, x_at(v->k, s->value)))
        tile_broken(v, "a value of type %s is packed into %s, which is %s",
                    type_name((Type)x_at(v->k, s->value)->type), t->name, elem_name(t->elem));
}

void tile_verify_pack(TileVerifier *v, const Stmt *s)
{
    verify_place(v);
    if (s->nbound != 2)
        tile_broken(v, "its box has %u axes, not two", s->nbound);
    if (v->error || !verify_target(v, s, "the panel"))
        return;
    TileBox box = target_box(s);
    const Tensor *t = &v->k->tensors.at[s->buffer];
    for (uint32_t i = 0; i < 2; i++) {
        box.from[i] = s->from[i];
        box.to[i] = s->to[i];
        verify_plain(v, s->from[i], WANT_INT, "the box");
        verify_plain(v, s->to[i], WANT_INT, "the box");
    }
    Path path = v->error ? PATH_COUNT : tile_path(v->k, s);
    int stores = path < PATH_COUNT &&
                 space_is_memory(t->space); /* of a plan: not more is known of it than of a store */
    if (!v->error && !stores)
        verify_box(v, &box, (int64_t[]){edge_of(t, t->rank - 2u), edge_of(t, t->rank - 1u)});
    verify_packed_value(v, s);
    if (!v->error && stores)
        tile_verify_writing(v, s->buffer, s); /* as a store of its first element */
    else if (!v->error)
        verify_block_write(v, box, TILE_pack);
}

/* ---- product ---- */

static void verify_sums(TileVerifier *v, const Tensor *t)
{
    if (t->space == SPACE_L0C && t->elem == EL_F32 && t->layout == LAYOUT_ZN)
        return;
    if (t->elem != EL_F32 || !layout_is_dense(t->layout))
        tile_broken(v, "the sums %s are %s in layout %s; they must be f32, row-major", t->name,
                    elem_name(t->elem), layout_name(t->layout));
    int fixed = t->layout != LAYOUT_SUMS && sums_have_room(t->space, t->layout);
    for (uint32_t i = t->rank - 2u; !v->error && fixed && i < t->rank; i++) {
        int64_t extent;
        if (!ext_is_const(v->k->module, t->axes[i].extent, &extent) || extent % LAYOUT_EDGE)
            tile_broken(v, "axis %u of the sums %s is no constant multiple of %d", i, t->name, LAYOUT_EDGE);
    }
}

/* Row-major memory that a right operand is read from is, like what a pack reads, inside by what the program says. Of a box whose
 * axes stand apart nothing more is known, so nothing may write it. */
static void verify_place_of(TileVerifier *v, const Stmt *s, const Tensor *t, const TileBox *box)
{
    if (t->layout != LAYOUT_ROWS)
        verify_box(v, box, (int64_t[]){edge_of(t, t->rank - 2u), edge_of(t, t->rank - 1u)});
    else if (t->rank < 2u + s->apart || t->space == SPACE_REG)
        tile_broken(v, "the right operand %s is no matrix in memory", t->name);
    else if (s->apart && t->role != ROLE_IN)
        tile_broken(v, "the axes of the right operand %s stand apart, and it is no input", t->name);
}

static int multiplies(const Stmt *s, Layout y, uint32_t side, int cube)
{
    int turned = s->transposed || s->apart;
    if (cube)
        return y == (side ? LAYOUT_NZ : LAYOUT_ZZ) && !turned;
    return y == LAYOUT_ROWS || (side ? y == LAYOUT_PAIRS && !turned : y == LAYOUT_LINES);
}

static const char *layouts_for(const Stmt *s, uint32_t side, int cube)
{
    if (cube)
        return side ? "nZ" : "zZ";
    return !side ? "lines or rows" : s->transposed || s->apart ? "rows" : "pairs or rows";
}

/* Of a left operand in rows whole lines of terms are read, which are inside by what the program says; of an input only the rows
 * of the product, as far as it is inside; of a thread's memory 32 rows at a time, whatever is in them. */
static void verify_left_rows(TileVerifier *v, const Stmt *s, const Tensor *t, const TileBox *box)
{
    int64_t rows;
    int input = t->role == ROLE_IN && t->elem == EL_F32 && t->rank >= 2;
    int own = t->space == SPACE_THREAD && t->rank == 2 && t->elem == EL_BF16 &&
              ext_is_const(v->k->module, t->axes[0].extent, &rows) && rows % LAYOUT_EDGE == 0;
    if (!input && !own)
        tile_broken(v,
                    "the left operand %s in rows is no f32 input, and no bf16 memory of a thread with a "
                    "multiple of %d rows",
                    t->name, LAYOUT_EDGE);
    else if (!tile_is_multiple(v, s->size[2], line_of(t)))
        tile_broken(v, "the left operand %s is in rows and its terms, %s, are not known to be whole lines",
                    t->name, text_of(v, s->size[2]));
    else if (own)
        verify_edges(v, box, (int64_t[]){LAYOUT_EDGE, 1});
    if (!v->error && own)
        verify_inside(v, box, 0);
}

/* side: 0 the left operand [.., row, k], 1 the right one [.., k, column]. */
static void verify_operand(TileVerifier *v, const Stmt *s, uint32_t side)
{
    static const char *const words[2] = {"left", "right"};
    static const Space spaces[2] = {SPACE_L0A, SPACE_L0B};
    ExprId e = side ? s->other : s->value;
    verify_plain(v, e, WANT_VALUE, "an operand");
    if (v->error)
        return;
    if (x_at(v->k, e)->kind != X_LOAD) {
        tile_broken(v, "the %s operand is no place in a buffer", words[side]);
        return;
    }
    const Tensor *t = &v->k->tensors.at[x_at(v->k, e)->sym];
    int cube = v->k->tensors.at[s->buffer].space == SPACE_L0C;
    if (!multiplies(s, t->layout, side, cube)) {
        tile_broken(v, "the %s operand %s has layout %s; it must be %s", words[side], t->name,
                    layout_name(t->layout), layouts_for(s, side, cube));
        return;
    }
    if (cube && t->space != spaces[side]) {
        tile_broken(v, "the %s operand %s is in %s; the cube reads %s", words[side], t->name,
                    space_name(t->space), space_name(spaces[side]));
        return;
    }
    TileBox box = tile_box_of(v->k, e);
    box.to[side && s->transposed] = side ? s->size[2] : s->size[0];
    box.to[!(side && s->transposed)] = side ? s->size[1] : s->size[2];
    if (side == 0 && t->layout == LAYOUT_ROWS)
        verify_left_rows(v, s, t, &box);
    else
        verify_place_of(v, s, t, &box);
    if (!v->error)
        tile_verify_access(v, &box, 0);
}

/* Which types are multiplied: (f32, f32), (f32, bf16), (bf16, bf16). */
static void verify_types(TileVerifier *v, const Stmt *s)
{
    const Tensor *left = &v->k->tensors.at[x_at(v->k, s->value)->sym];
    const Tensor *right = &v->k->tensors.at[x_at(v->k, s->other)->sym];
    if ((left->elem == EL_BF16 && right->elem != EL_BF16) || !is_operand_elem(right->elem))
        tile_broken(v, "%s is %s and %s is %s: no target multiplies these", left->name, elem_name(left->elem),
                    right->name, elem_name(right->elem));
    else if (left->layout == LAYOUT_ROWS && (right->layout != LAYOUT_PAIRS || right->elem != left->elem))
        tile_broken(v, "the left operand %s is in rows, but %s is no panel of its type", left->name,
                    right->name);
    if (x_at(v->k, s->value)->sym == s->buffer || x_at(v->k, s->other)->sym == s->buffer)
        tile_broken(v, "the sums are an operand");
}

void tile_verify_product(TileVerifier *v, const Stmt *s)
{
    verify_place(v);
    if (v->error || !verify_target(v, s, "the block of sums"))
        return;
    TileBox box = target_box(s);
    for (uint32_t i = 0; i < 3; i++)
        verify_plain(v, s->size[i], WANT_INT, "a size");
    if (s->guard != NONE)
        verify_plain(v, s->guard, WANT_CONDITION, "the condition of `init`");
    box.to[0] = s->size[0];
    box.to[1] = s->size[1];
    const Tensor *sums = &v->k->tensors.at[s->buffer];
    if (!v->error)
        verify_sums(v, sums);
    if (!v->error)
        verify_box(v, &box,
                   (int64_t[]){edge_of(sums, sums->rank - 2u), touched(sums, sums->rank - 1u, TILE_product)});
    for (uint32_t i = 0; i < 2; i++)
        verify_operand(v, s, i);
    if (!v->error)
        verify_types(v, s);
    if (!v->error && s->guard == NONE)
        tile_verify_read(v, s->buffer);
    if (!v->error)
        verify_block_write(v, box, TILE_product);
}

/* ---- set and wait ---- */

static void verify_flag(TileVerifier *v, const Stmt *s)
{
    verify_place(v);
    if (!tile_is_buffer(v, s->buffer, "the buffer"))
        return;
    const Tensor *t = &v->k->tensors.at[s->buffer];
    if (t->space == SPACE_REG)
        tile_broken(v, "%s is a register: flags are about memory", t->name);
    else if (s->unit >= UNIT_COUNT || s->other_unit >= UNIT_COUNT || s->unit == s->other_unit)
        tile_broken(v, "a flag about %s is between two units", t->name);
    else if (s->nindex > 1 || s->nindex > t->rank)
        tile_broken(v, "a flag about %s has %u subscripts; one tells the slot", t->name, s->nindex);
    for (uint32_t i = 0; !v->error && i < s->nindex; i++)
        verify_plain(v, s->index[i], WANT_INT, "a slot");
}

void tile_verify_set(TileVerifier *v, const Stmt *s) { verify_flag(v, s); }
void tile_verify_wait(TileVerifier *v, const Stmt *s) { verify_flag(v, s); }
