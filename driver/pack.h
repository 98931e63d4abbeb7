/* Packed memory on the host: for the interpreter, the test engine and the API. Compiled code has its own
 * (backend/emit_packed.c, where Note [Packed memory] is). */
#ifndef DRIVER_PACK_H
#define DRIVER_PACK_H

#include "ir/ir.h"

typedef struct PackShape {
    Elem elem;
    int both; /* the transposed matrices too */
    int64_t matrices, rows, columns; /* the extents before the last two multiplied; the last two */
} PackShape;

PackShape pack_shape(Elem elem, int both, const int64_t *extents, uint32_t rank);
int64_t packed_bytes(const PackShape *s); /* of packed memory, its header and padding included; -1 on overflow */
size_t pack_place(const PackShape *s, int64_t flat); /* byte of an element, given its place in row-major order */
/* Header and zeros: what a call may be given. In memory that is zero only the header is written. */
void pack_begin(const PackShape *s, void *memory);
void pack_begin_in_zeros(const PackShape *s, void *memory);
void pack_transpose(const PackShape *s, void *memory); /* `packed both`: the transposed matrices from the others */
void pack_rows(const PackShape *s, const void *row_major, void *memory);
void pack_unpack(const PackShape *s, const void *memory, void *row_major);
int pack_fits(const PackShape *s, const void *memory); /* the header says what s does */
/* NULL when a call takes this memory for a parameter of that role, else what is wrong, in arena a. */
const char *pack_refusal(const PackShape *s, Role role, const char *name, const void *memory, Arena *a);
/* NULL, or what is wrong with the panels of a kernel's output: padding that products read is zero, and transposed matrices
 * are the others transposed. */
const char *pack_flaw(const PackShape *s, const void *memory);

#endif
