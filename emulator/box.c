/* Boxes as runs of bytes. */
#include "emulator/box.h"

static int product(int64_t *a, int64_t b) { return !__builtin_mul_overflow(*a, b, a); }

int box_shape(const Kernel *k, TensorId id, const int64_t *dims, BoxShape *out)
{
    const Tensor *t = &k->tensors.at[id];
    *out = (BoxShape){.layout = t->layout, .elem = t->elem, .matrices = 1, .x = 1, .y = 1};
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t extent;
        int64_t *to = i + 1u == t->rank ? &out->y : i + 2u == t->rank ? &out->x : &out->matrices;
        if (!ext_eval(k->module, t->axes[i].extent, dims, &extent) || !product(to, extent))
            return 0;
    }
    int64_t room = out->matrices, far = (int64_t)elem_bytes(t->elem);
    if (!product(&room, out->x + LAYOUT_LINE_BYTES) || !product(&room, out->y + LAYOUT_LINE_BYTES) ||
        !product(&room, far))
        return 0;
    out->stride = layout_elements(t->layout, t->elem, out->x, out->y) * far;
    return 1;
}

Box box_at(const BoxShape *s, int64_t element, int64_t rows, int64_t cols)
{
    int64_t size = s->x * s->y;
    if (element < 0 || size == 0)
        return (Box){.matrix = -1, .rows = rows, .cols = cols};
    return (Box){element / size, element % size / s->y, element % s->y, rows, cols};
}

int box_is_inside(const BoxShape *s, const Box *b)
{
    return b->matrix >= 0 && b->matrix < s->matrices && b->rows <= s->x - b->i && b->cols <= s->y - b->j;
}

int64_t box_place(const BoxShape *s, int64_t matrix, int64_t i, int64_t j)
{
    return matrix * s->stride +
           layout_place(s->layout, s->elem, s->x, s->y, i, j) * (int64_t)elem_bytes(s->elem);
}

void box_flatten(BoxShape *s, Box *b)
{
    int64_t bytes = (int64_t)elem_bytes(s->elem);
    if (!layout_is_dense(s->layout) || b->matrix < 0 || b->matrix >= s->matrices)
        return;
    *b = (Box){0, 0, box_place(s, b->matrix, b->i, b->j) / bytes, 1, b->cols};
    *s = (BoxShape){LAYOUT_ROWS, s->elem, 1, 1, s->matrices * s->stride / bytes, s->matrices * s->stride};
}

/* ---- runs ---- */

typedef struct RunWriter {
    const BoxShape *s;
    const Box *b;
    Arena *arena;
    Runs *out;
} RunWriter;

static void add(RunWriter *w, int64_t i, int64_t j, int64_t elements)
{
    int64_t at = box_place(w->s, w->b->matrix, i, j), bytes = elements * (int64_t)elem_bytes(w->s->elem);
    BoxRun *last = w->out->len ? &w->out->at[w->out->len - 1] : NULL;
    if (last && last->at + last->bytes == at)
        last->bytes += bytes;
    else
        vec_push(w->arena, w->out, (BoxRun){at, bytes});
}

static int64_t next_fractal(int64_t i, int64_t end)
{
    int64_t next = (i / LAYOUT_FRACTAL + 1) * LAYOUT_FRACTAL;
    return next < end ? next : end;
}

/* What the box has of one fractal: elements i..ito, j..jto. */
static void add_fractal(RunWriter *w, int64_t i, int64_t ito, int64_t j, int64_t jto)
{
    if (ito - i == LAYOUT_FRACTAL && jto - j == LAYOUT_FRACTAL)
        add(w, i, j, LAYOUT_FRACTAL * LAYOUT_FRACTAL);
    else if (w->s->layout == LAYOUT_NZ)
        for (; j < jto; j++)
            add(w, i, j, ito - i);
    else
        for (; i < ito; i++)
            add(w, i, j, jto - j);
}

static void add_fractals(RunWriter *w)
{
    int64_t iend = w->b->i + w->b->rows, jend = w->b->j + w->b->cols;
    if (w->s->layout == LAYOUT_ZN) {
        for (int64_t j = w->b->j, jto; j < jend; j = jto) {
            jto = next_fractal(j, jend);
            for (int64_t i = w->b->i, ito; i < iend; i = ito) {
                ito = next_fractal(i, iend);
                add_fractal(w, i, ito, j, jto);
            }
        }
        return;
    }
    for (int64_t i = w->b->i, ito; i < iend; i = ito) {
        ito = next_fractal(i, iend);
        for (int64_t j = w->b->j, jto; j < jend; j = jto) {
            jto = next_fractal(j, jend);
            add_fractal(w, i, ito, j, jto);
        }
    }
}

void box_runs(const BoxShape *s, const Box *b, Arena *a, Runs *out)
{
    RunWriter w = {s, b, a, out};
    out->len = 0;
    if (layout_is_fractal(s->layout)) {
        add_fractals(&w);
        return;
    }
    for (int64_t i = b->i; i < b->i + b->rows; i++)
        if (layout_is_dense(s->layout))
            add(&w, i, b->j, b->cols);
        else
            for (int64_t j = b->j; j < b->j + b->cols; j++)
                add(&w, i, j, 1);
}

Box box_find(const BoxShape *s, const Box *b, int64_t byte)
{
    for (int64_t i = b->i; i < b->i + b->rows; i++)
        for (int64_t j = b->j; j < b->j + b->cols; j++) {
            int64_t at = box_place(s, b->matrix, i, j);
            if (at <= byte && byte < at + (int64_t)elem_bytes(s->elem))
                return (Box){b->matrix, i, j, 1, 1};
        }
    return (Box){b->matrix, b->i, b->j, 1, 1};
}
