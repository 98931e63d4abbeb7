/* Where the elements of a box lie: runs of bytes. Private to emulator/. */
#ifndef EMULATOR_BOX_H
#define EMULATOR_BOX_H

#include "ir/ir.h"

/* A buffer as matrices, those of its last two axes, one after the other. */
typedef struct BoxShape {
    Layout layout;
    Elem elem;
    int64_t matrices, x, y; /* how many, and the extents of each */
    int64_t stride;         /* bytes from one to the next */
} BoxShape;

typedef struct Box {
    int64_t matrix, i, j, rows, cols; /* its first element is [matrix, i, j] */
} Box;

typedef struct BoxRun {
    int64_t at, bytes;
} BoxRun;
typedef Vec(BoxRun) Runs;

/* 0: the extents are too large to be numbers. */
int box_shape(const Kernel *k, TensorId t, const int64_t *dims, BoxShape *out);
/* element: row-major number of the first one. */
Box box_at(const BoxShape *s, int64_t element, int64_t rows, int64_t cols);
int box_is_inside(const BoxShape *s, const Box *b);
/* Of a dense buffer, one row that runs on through the rows that follow: Note [Joined axes]. All of the buffer as one row. */
void box_flatten(BoxShape *s, Box *b);
int64_t box_place(const BoxShape *s, int64_t matrix, int64_t i, int64_t j); /* the first byte of an element */
/* The bytes of a box that is inside, each once: as few runs as follow from going over it the way it lies. */
void box_runs(const BoxShape *s, const Box *b, Arena *a, Runs *out);
/* The element of the box that has this byte, as a box of one. */
Box box_find(const BoxShape *s, const Box *b, int64_t byte);

#endif
