#include "driver/pack.h"

#include "moec/moert.h"

#include <string.h>

PackShape pack_shape(Elem elem, int both, const int64_t *extents, uint32_t rank)
{
    PackShape s = {elem, both, 1, extents[rank - 2], extents[rank - 1]};
    for (uint32_t i = 0; i + 2 < rank; i++)
        s.matrices *= extents[i];
    return s;
}

static int64_t matrix_elements(const PackShape *s)
{
    return layout_elements(LAYOUT_PAIRS, s->elem, s->rows, s->columns);
}

/* The transposed matrices of `packed both`, as matrices of their own. */
static PackShape transposed_shape(const PackShape *s)
{
    return (PackShape){s->elem, 0, s->matrices, s->columns, s->rows};
}

static size_t transposed_byte(const PackShape *s)
{
    return (size_t)(s->matrices * matrix_elements(s)) * elem_bytes(s->elem);
}

int64_t packed_bytes(const PackShape *s)
{
    const int64_t most = (int64_t)1 << 40;
    int64_t elements, bytes;
    PackShape transposed = transposed_shape(s);
    if (s->matrices > most || s->rows > most || s->columns > most ||
        __builtin_mul_overflow(s->rows + LAYOUT_EDGE, s->columns + LAYOUT_EDGE, &elements) ||
        __builtin_add_overflow(matrix_elements(s), s->both ? matrix_elements(&transposed) : 0, &elements) ||
        __builtin_mul_overflow(elements, s->matrices, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)elem_bytes(s->elem), &bytes) ||
        __builtin_add_overflow(bytes, MOE_PACKED_HEADER, &bytes))
        return -1;
    return bytes;
}

size_t pack_place(const PackShape *s, int64_t flat)
{
    int64_t column = flat % s->columns, row = flat / s->columns % s->rows,
            matrix = flat / s->columns / s->rows;
    int64_t place =
        matrix * matrix_elements(s) + layout_place(LAYOUT_PAIRS, s->elem, s->rows, s->columns, row, column);
    return MOE_PACKED_HEADER + (size_t)place * elem_bytes(s->elem);
}

static void header_of(const PackShape *s, int64_t header[4])
{
    header[0] = MOE_PACKED_LAYOUT + (int64_t)s->elem + (s->both ? MOE_PACKED_BOTH : 0);
    header[1] = s->matrices;
    header[2] = s->rows;
    header[3] = s->columns;
}

void pack_begin_in_zeros(const PackShape *s, void *memory)
{
    int64_t header[4];
    header_of(s, header);
    memcpy(memory, header, sizeof header);
}

void pack_begin(const PackShape *s, void *memory)
{
    memset(memory, 0, (size_t)packed_bytes(s));
    pack_begin_in_zeros(s, memory);
}

/* The element of the transposed matrices that is the n-th of the others in row-major order. */
static size_t transposed_place(const PackShape *s, int64_t n)
{
    PackShape transposed = transposed_shape(s);
    int64_t column = n % s->columns, row = n / s->columns % s->rows, matrix = n / s->columns / s->rows;
    return transposed_byte(s) + pack_place(&transposed, (matrix * s->columns + column) * s->rows + row);
}

static int64_t count_of(const PackShape *s) { return s->matrices * s->rows * s->columns; }

void pack_transpose(const PackShape *s, void *memory)
{
    size_t size = elem_bytes(s->elem);
    for (int64_t n = 0; s->both && n < count_of(s); n++)
        memcpy((char *)memory + transposed_place(s, n), (char *)memory + pack_place(s, n), size);
}

void pack_rows(const PackShape *s, const void *row_major, void *memory)
{
    size_t size = elem_bytes(s->elem);
    pack_begin(s, memory);
    for (int64_t n = 0; n < count_of(s); n++)
        memcpy((char *)memory + pack_place(s, n), (const char *)row_major + (size_t)n * size, size);
    pack_transpose(s, memory);
}

void pack_unpack(const PackShape *s, const void *memory, void *row_major)
{
    size_t size = elem_bytes(s->elem);
    for (int64_t n = 0; n < count_of(s); n++)
        memcpy((char *)row_major + (size_t)n * size, (const char *)memory + pack_place(s, n), size);
}

int pack_fits(const PackShape *s, const void *memory)
{
    int64_t header[4];
    header_of(s, header);
    return memcmp(memory, header, sizeof header) == 0;
}

const char *pack_refusal(const PackShape *s, Role role, const char *name, const void *memory, Arena *a)
{
    static const char *const what[] = {NULL, "matrices", "rows", "columns"};
    int64_t has[4], wants[4];
    memcpy(has, memory, sizeof has);
    header_of(s, wants);
    if (role == ROLE_IN && has[0] == wants[0] + MOE_PACKED_BOTH && !s->both)
        has[0] = wants[0]; /* more than is read */
    if (has[0] != wants[0])
        return arena_printf(a, "packed parameter %s has layout 0x%llx, this kernel reads 0x%llx", name,
                            (unsigned long long)has[0], (unsigned long long)wants[0]);
    for (int i = 1; i < 4; i++)
        if (has[i] != wants[i])
            return arena_printf(a, "%s was packed with %lld %s, the call's dimensions make it %lld", name,
                                (long long)has[i], what[i], (long long)wants[i]);
    return NULL;
}

/* Rows beyond the last, in the columns that exist. */
static int is_padded(const PackShape *s, const char *memory)
{
    static const char zero[8];
    size_t size = elem_bytes(s->elem);
    PackShape padded = *s;
    int64_t line = LAYOUT_LINE_BYTES / (int64_t)size;
    padded.rows = (s->rows + line - 1) / line * line;
    for (int64_t n = 0; n < count_of(&padded); n++)
        if (n / padded.columns % padded.rows >= s->rows &&
            memcmp(memory + pack_place(&padded, n), zero, size) != 0)
            return 0;
    return 1;
}

const char *pack_flaw(const PackShape *s, const void *memory)
{
    const char *at = memory;
    PackShape transposed = transposed_shape(s);
    if (!is_padded(s, at) || (s->both && !is_padded(&transposed, at + transposed_byte(s))))
        return "padding that is not zero";
    for (int64_t n = 0; s->both && n < count_of(s); n++)
        if (memcmp(at + transposed_place(s, n), at + pack_place(s, n), elem_bytes(s->elem)) != 0)
            return "transposed matrices that are others";
    return NULL;
}
