/* What the files of block products share: a product function being emitted, and who emits what of it. */
#ifndef BACKEND_EMIT_PRODUCT_H
#define BACKEND_EMIT_PRODUCT_H

#include "backend/emit.h"

enum { HEIGHTS_MAX = 3, VECTORS_MAX = 8 }; /* of a fragment */
/* A product function being emitted. A unit is 4 bytes of a line: one f32 or two bf16 terms. */
typedef struct EmitProduct {
    Emit *e;
    L *l;
    Elem left, right;
    uint32_t lanes, rows, vectors; /* the fragment */
    uint32_t heights[HEIGHTS_MAX], nheights; /* rows of a fragment that may be chosen, the most first */
    uint32_t tail;                 /* the lowest height but for one or two rows */
    uint32_t part;                 /* words that it goes over at a time */
    uint32_t rows_read;            /* Cpu.rows_read */
    uint32_t panels;               /* that rows of one fragment go over in turn: Cpu.streams */
    uint32_t streams;              /* of a right operand in rows: Cpu.row_streams */
    uint32_t per_word;             /* units that a row of words of the right panel covers */
    uint32_t trip;                 /* units that the inner loop goes over at a time, */
    uint32_t unroll;               /* and where there are so many: Cpu.unroll */
    V c, c_row, a, a_block, b, b_panel;
    V a_row;    /* bytes from a row of a block to the next one */
    int left_in_rows; /* f32, of an input: no row may be read that is not there */
    V nrows, ncols, units;
    V begin;    /* i1: what the sums are before the first unit is zero; old ones may be anything */
    V exact;    /* i1: nothing beside the block may be written */
    V far;      /* i1: the right operand may be in memory; only tiles look */
    V below;    /* bytes from the sums of a panel's first column to those below the block; 0: no sums are asked for */
    V coming;   /* bytes from a fragment's sums to those that are asked for; NULL, 0: none are */
    V column;   /* the fragment's first */
    V own;      /* rows of 32 sums: a place for a fragment that is not whole */
    V next;     /* what is asked for meanwhile, in so many streams; NULL: nothing is */
    uint32_t asks; /* bytes of it for a row of words; 0: as many as a fragment reads */
    V stream;   /* bytes from a stream of it to the next one */
    V step;     /* and from `run` bytes of a stream to its next ones; NULL: they follow each other */
    uint32_t run;
    V share;      /* what the fragments of all rows ask for together, CPU_WIDE: the next trip's; NULL: nothing */
    V share_step, share_row; /* bytes of it that a trip asks for, and from the share of a row to the next one's */
    V kept;     /* where a fragment keeps the vectors of its units, as an f32 panel; NULL: nowhere */
    int wide;   /* CPU_WIDE */
    int keeps;  /* CPU_WIDENS_ONCE or CPU_WIDE, where there is something to widen */
    V init;     /* i1: this part of the units begins the sums, at zero */
    V zeros;    /* ZERO_BYTES of zeros: what a fragment's first row of sums is then read from */
    V from_row; /* bytes to the next row there: 0, or c_row */
    /* Of a right operand in rows (emit_rows.c): b_panel is the bytes to the next row; */
    int in_rows, transposed;
    V got[VECTORS_MAX]; /* what the loads of a unit have found, its vectors or two rows of pairs; */
    V mask[2]; /* what the loads of a unit find; */
    V copied;  /* and where there are no masks rows of the last columns */
} EmitProduct;
enum { ZERO_BYTES = 256, FEW_ROWS = 2, SHARED_LINES = 8 };

/* Adds `units` units' products to the fragment of `rows` rows at c; operands at a and b. `units` is a multiple of
 * FRAGMENT_UNITS, of tiles of whole lines. */
enum { FRAGMENT_UNITS = 2 };
typedef void EmitFragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units);
/* `fragment` of machines/cpu.def: vector in emit_fragment.c, which also multiplies f32; tile, soft in emit_amx.c; no. */
#define CPU(id, family, word, lanes, rows, vectors, part, unroll, terms, rows_read, streams, row_streams, f32, code, fragment, ...) \
    EmitFragment emit_##fragment##_fragment;
#include "machines/cpu.def"

/* emit_fragment.c */
void emit_keep(const EmitProduct *x, V unit, uint32_t vector, V v); /* a vector of the right operand, in x->kept */
void emit_ask_streams(const EmitProduct *x, V i, int64_t bytes); /* for the i-th so many bytes of x->next, in turn of its streams */
V emit_unit_at(const EmitProduct *x, V a, V unit); /* where a unit stands in the first row of the left operand */

/* emit_amx.c: the sums of one row of tiles, 16 rows of two panels' columns, which stay in registers between steps of 32 terms. */
enum { TILE_FEW_ROWS = 16, TILE_STRIP = 4, TILE_STEP = 32 };
void emit_tile_strip_begin(EmitProduct *x, V c, V *sum); /* from c on; x->init */
void emit_tile_strip_step(EmitProduct *x, V a, V panel, int64_t other, V *sum); /* the other panel is so many bytes behind it */
void emit_tile_strip_end(EmitProduct *x, V c, V *sum);
void emit_tile_rows(EmitProduct *x, V rows, V c, V a, V b, V units); /* of whole fragments of tiles */

/* emit_product_heights.c: fragments of all rows. */
EmitFragment *emit_fragment_of(Isa target, Elem left);
int emit_multiplies_tiles(const EmitProduct *x);
int emit_calls_panel_function(Isa target, Elem left); /* Note [Panel function] in emit_product.c */
void emit_choose_fragment(EmitProduct *x);                           /* its extents, and heights that it may have */
EmitProduct emit_wide_fragment(const EmitProduct *x, uint32_t most); /* of all columns of a panel, and so many rows at most */
V emit_fits_wide(const EmitProduct *x);                              /* i1: such a one has all rows */
uint32_t emit_product_width(const EmitProduct *x);                   /* columns of a fragment */
V emit_product_few(const EmitProduct *x);     /* i1: rows are so few that fragments are to be wide, */
V emit_product_many(const EmitProduct *x);    /* or so many (CPU_WIDE) */
V emit_product_keeps(const EmitProduct *x);   /* i1: fragments of many rows keep what they widen, of x->part units at most */
V emit_product_streams(const EmitProduct *x); /* i1: so few that what streams through is to be read once */
V emit_product_units(const EmitProduct *x, V depth); /* of so many terms, rounded up to what fragments take at once */
void emit_begin_sums(EmitProduct *x, V unit);        /* at zero where the call says so and this is the first unit */
/* The one from `row` on, of the height that fits, which is returned; c and a are of row 0. Where nothing beside the block may be
 * written, one that is not whole is computed in a place of its own. */
V emit_product_fragment(EmitProduct *x, V row, V c, V a, V b, V units);
/* Those of the rows from `row` on, then smaller ones, for a fragment's columns of b, which is a panel. */
void emit_product_fragments(EmitProduct *x, V row, V c, V a, V b, V units);
/* The rows from `done` on, to which c and a are moved: they read what a fragment has kept, and ask for nothing. */
EmitProduct emit_rows_left(const EmitProduct *x, V done, V *c, V *a);

/* emit_product_panel.c: all rows for the columns of a panel, from x->column on. */
V emit_panel_declared(const Plan *p, Elem left, Elem right);     /* the panel function */
void emit_product_panel(EmitProduct *x, V c, V a, V b, V units); /* what the panel function does */
void emit_product_rows(EmitProduct *x, V c, V a, V b, V units);  /* by a call of it, where there is one */

/* emit_product_parts.c, emit_rows.c, emit_rows_transposed.c, emit_rows_packed.c: all of a block, of a right operand in panels; in rows;
 * in rows that are its columns; in either, where fragments do not read rows. */
void emit_panels_product(EmitProduct *x);
void emit_rows_product(EmitProduct *x, V depth);
void emit_rows_transposed_product(EmitProduct *x, V depth);
void emit_rows_packed_product(EmitProduct *x, V depth);
int emit_packs_units(const Cpu *cpu, Elem left, int transposed); /* the last one by itself, without a pack function */

/* emit_rows.c: a unit of an operand in rows, counted from b: loads, then a vector after the other. */
void emit_rows_begin(EmitProduct *x, V b, V unit);
V emit_rows_vector(EmitProduct *x, uint32_t v);
void emit_rows_keep(EmitProduct *x, V b, V unit); /* all of them, in x->kept */
void emit_rows_masks(EmitProduct *x, V columns, V terms); /* of its loads, so many columns and terms being left */

#endif
