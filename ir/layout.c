/* Where elements lie in memory: Note [Layouts] in tensor.h. */
#include "ir/ir.h"

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t layout_elements(Layout layout, Elem e, int64_t x, int64_t y)
{
    int64_t line = LAYOUT_LINE_BYTES / (int64_t)elem_bytes(e);
    switch (layout) {
    case LAYOUT_ROWS: return x * y;
    case LAYOUT_SUMS: return round_up(x, LAYOUT_EDGE) * round_up(y, LAYOUT_EDGE);
    case LAYOUT_LINES: return round_up(x, LAYOUT_EDGE) * round_up(y, line);
    case LAYOUT_PAIRS: return round_up(x, line) * round_up(y, LAYOUT_EDGE);
    case LAYOUT_ZN:
    case LAYOUT_NZ:
    case LAYOUT_ZZ: return round_up(x, LAYOUT_FRACTAL) * round_up(y, LAYOUT_FRACTAL);
    case LAYOUT_COUNT: break;
    }
    return 0;
}

/* The elements of the fractals before that of [i, j]: those below each other first, or beside each other first. */
static int64_t fractals_before(int below_first, int64_t x, int64_t y, int64_t i, int64_t j)
{
    int64_t row = i / LAYOUT_FRACTAL, column = j / LAYOUT_FRACTAL, size = LAYOUT_FRACTAL * LAYOUT_FRACTAL;
    return (below_first ? column * (round_up(x, LAYOUT_FRACTAL) / LAYOUT_FRACTAL) + row
                        : row * (round_up(y, LAYOUT_FRACTAL) / LAYOUT_FRACTAL) + column) *
           size;
}

int64_t layout_place(Layout layout, Elem e, int64_t x, int64_t y, int64_t i, int64_t j)
{
    int64_t line = LAYOUT_LINE_BYTES / (int64_t)elem_bytes(e);
    int64_t word = LAYOUT_WORD_BYTES / (int64_t)elem_bytes(e);
    switch (layout) {
    case LAYOUT_ROWS: return i * y + j;
    case LAYOUT_SUMS: return i * round_up(y, LAYOUT_EDGE) + j;
    case LAYOUT_LINES: return (j / line * round_up(x, LAYOUT_EDGE) + i) * line + j % line;
    case LAYOUT_PAIRS:
        return j / LAYOUT_EDGE * LAYOUT_EDGE * round_up(x, line) +
               (i / word * LAYOUT_EDGE + j % LAYOUT_EDGE) * word + i % word;
    case LAYOUT_ZN:
    case LAYOUT_ZZ:
        return fractals_before(layout == LAYOUT_ZN, x, y, i, j) + i % LAYOUT_FRACTAL * LAYOUT_FRACTAL +
               j % LAYOUT_FRACTAL;
    case LAYOUT_NZ:
        return fractals_before(0, x, y, i, j) + j % LAYOUT_FRACTAL * LAYOUT_FRACTAL + i % LAYOUT_FRACTAL;
    case LAYOUT_COUNT: break;
    }
    return 0;
}
