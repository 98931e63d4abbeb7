/* What a process has of a weight, and where that is in the tensors of a file. */
#include "model/weights_plan.h"

#include <math.h>

enum { PIECE = 1 << 16 /* elements that are converted at a time */ };

WeightSlice weight_slice_whole(const ModelWeight *w, float *at)
{
    const int64_t n = model_weight_elements(w);
    return (WeightSlice){.part = {n, 0, n, n}, .end = n, .at = at};
}

/* ---- in our order ---- */

/* The elements from i on that lie behind each other in the weight, too. */
static int64_t run_from(const WeightSlice *s, int64_t i)
{
    const int64_t left = s->part.run - i % s->part.run;
    return left < s->end - i ? left : s->end - i;
}

static void put_run(FilePatch *f, uint64_t at, StoredType type, const float *values, int64_t n)
{
    unsigned char room[PIECE * sizeof(float)];
    if (type == STORED_F32) { /* as they are */
        file_put(f, at, values, (size_t)n * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t piece = n - i < PIECE ? n - i : PIECE;
        stored_convert(type, values + i, piece, room);
        file_put(f, at + (uint64_t)i * stored_type_bytes(type), room,
                 (size_t)piece * stored_type_bytes(type));
    }
}

void weight_slice_put(FilePatch *f, uint64_t at, StoredType type, const WeightSlice *s)
{
    for (int64_t i = s->begin, n; s->at && i < s->end; i += n) {
        n = run_from(s, i);
        put_run(f, at + (uint64_t)weight_part_at(&s->part, i) * stored_type_bytes(type), type,
                s->at + i - s->begin, n);
    }
}

void weight_slice_take(const StoredTensor *t, const WeightSlice *s)
{
    for (int64_t i = s->begin, n; s->at && i < s->end; i += n) {
        n = run_from(s, i);
        stored_read(t, weight_part_at(&s->part, i), n, s->at + i - s->begin);
    }
}

int64_t weight_slice_odd(const WeightSlice *s)
{
    for (int64_t i = s->begin; s->at && i < s->end; i++)
        if (!isfinite(s->at[i - s->begin]))
            return weight_part_at(&s->part, i);
    return -1;
}

/* ---- in theirs: transposed ----
 * A part has whole rows, or the same columns of all rows, so a slice of it is a row from some column on, whole rows, and a row up to
 * some column. */

/* Rows and columns of our matrix: theirs is [columns, all_rows]. */
typedef struct Rect {
    int64_t row, rows, column, columns, all_rows;
    float *at;
    int64_t stride; /* elements between rows in memory */
} Rect;

/* Of tensor number `part` of the weight, at most three. */
static int rects_of(const ModelWeight *w, const WeightSlice *s, int64_t part, Rect out[3])
{
    const int64_t R = planned_rows(w), C = w->columns,
                  width = s->part.stride == C && s->part.run < C ? s->part.run : C,
                  row = part * R - s->part.first / C,
                  column = s->part.first % C; /* row: among those of the part */
    const int64_t begin = s->begin > row * width ? s->begin : row * width,
                  end = s->end < (row + R) * width ? s->end : (row + R) * width;
    int n = 0;
    for (int64_t i = begin, next; s->at && i < end; i = next) {
        const int64_t whole = i % width ? 0 : (end - i) / width, left = width - i % width;
        next = i + (whole ? whole * width : left < end - i ? left : end - i);
        out[n++] = (Rect){.row = i / width - row,
                          .rows = whole ? whole : 1,
                          .column = column + i % width,
                          .columns = whole ? width : next - i,
                          .all_rows = R,
                          .at = s->at + i - s->begin,
                          .stride = width};
    }
    return n;
}

/* Columns c0 to c0 + n - 1 of it, [n, rows]. */
static void transpose_columns(const Rect *x, int64_t c0, int64_t n, float *out)
{
    for (int64_t r0 = 0; r0 < x->rows; r0 += TRANSPOSE_BLOCK)
        for (int64_t c = 0; c < n; c++)
            for (int64_t r = r0; r < x->rows && r < r0 + TRANSPOSE_BLOCK; r++)
                out[c * x->rows + r] = x->at[r * x->stride + c0 + c];
}

/* Where all rows are here, columns lie behind each other in the file. */
static void put_rect(Arena *scratch, FilePatch *f, uint64_t at, StoredType type, const Rect *x)
{
    const uint64_t size = stored_type_bytes(type);
    const int64_t most = x->rows < PIECE / TRANSPOSE_BLOCK ? PIECE / x->rows : TRANSPOSE_BLOCK;
    float *block = arena_array(scratch, float, most * x->rows);
    for (int64_t c = 0, n; c < x->columns; c += n) {
        n = x->columns - c < most ? x->columns - c : most;
        transpose_columns(x, c, n, block);
        const uint64_t to = at + (uint64_t)((x->column + c) * x->all_rows + x->row) * size;
        const int together = x->rows == x->all_rows;
        for (int64_t i = 0; i < (together ? 1 : n); i++)
            put_run(f, to + (uint64_t)(i * x->all_rows) * size, type, block + i * x->rows,
                    together ? n * x->rows : x->rows);
    }
}

static int64_t block_at(int64_t from, int64_t extent)
{
    return extent - from < TRANSPOSE_BLOCK ? extent - from : TRANSPOSE_BLOCK;
}

static void take_block(const StoredTensor *t, const Rect *x, int64_t r0, int64_t c0)
{
    float block[TRANSPOSE_BLOCK][TRANSPOSE_BLOCK];
    const int64_t nr = block_at(r0, x->rows), nc = block_at(c0, x->columns);
    for (int64_t c = 0; c < nc; c++)
        stored_read(t, (x->column + c0 + c) * x->all_rows + x->row + r0, nr, block[c]);
    for (int64_t r = 0; r < nr; r++)
        for (int64_t c = 0; c < nc; c++)
            x->at[(r0 + r) * x->stride + c0 + c] = block[c][r];
}

void planned_put(Arena *a, FilePatch *f, uint64_t at, const ModelWeight *w, const PlannedTensor *t,
                 const WeightSlice *s)
{
    Rect rects[3];
    if (!planned_is_transposed(w)) {
        weight_slice_put(f, at, t->stored.type, s);
        return;
    }
    Arena *scratch = arena_scratch(a);
    const ArenaMark mark = arena_mark(scratch);
    const int n = rects_of(w, s, t->part, rects);
    for (int i = 0; i < n; i++)
        put_rect(scratch, f, at, t->stored.type, &rects[i]);
    arena_release(scratch, mark);
}

void planned_take(const StoredTensor *from, const ModelWeight *w, const PlannedTensor *t,
                  const WeightSlice *s)
{
    Rect rects[3];
    if (!planned_is_transposed(w)) {
        weight_slice_take(from, s);
        return;
    }
    const int n = rects_of(w, s, t->part, rects);
    for (int i = 0; i < n; i++)
        for (int64_t c = 0; c < rects[i].columns; c += TRANSPOSE_BLOCK)
            for (int64_t r = 0; r < rects[i].rows; r += TRANSPOSE_BLOCK)
                take_block(from, &rects[i], r, c);
}
