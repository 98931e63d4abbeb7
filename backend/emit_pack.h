/* What the files of packs share: emit_pack_function.c, emit_pack.c, emit_pack_run.c. */
#ifndef BACKEND_EMIT_PACK_H
#define BACKEND_EMIT_PACK_H

#include "backend/emit.h"

/* A box on its way into a panel: of a statement, whose value is evaluated, or of a function, which is given rows. */
typedef struct Pack {
    Emit *e;
    L *l;
    const Stmt *s;         /* of a function NULL */
    V rows;                /* the addresses of the rows' first elements; a row runs along the axis of lanes */
    Elem source;           /* of rows */
    Elem elem;             /* of the panel */
    Layout layout;         /* likewise */
    V lo[2], n[2];         /* of the box: first index, extents */
    V at, block;           /* the panel's first element; bytes from a line block or panel to the next */
    uint32_t terms, width; /* elements of a word; lanes */
    uint8_t axis;          /* of lanes */
    V other, left;         /* the index of the other axis; how many of its elements are left */
    int past;              /* lines are stored past the caches, Note [Streams] */
} Pack;
void pack_init(Pack *x); /* terms and width, from the layout, the element type and the axis */

/* emit_pack_function.c: functions of packs, by layout, axis of lanes and types; those that store past the caches have kinds of their own. */
uint32_t pack_kind(Layout layout, uint8_t axis, Elem source, Elem elem);
uint32_t pack_past_kind(uint8_t axis, Elem elem);
Ty pack_type(L *l); /* void (ptr rows, i64 nrows, i64 n, ptr to, i64 block) */
V pack_helper(const Plan *p, uint32_t kind);
void emit_pack_function(Plan *p, uint32_t kind);

/* emit_pack.c */
uint8_t pack_lane_axis(const Plan *p, const Stmt *s); /* the axis of a pack's box that lanes go over */
uint64_t pack_helpers(const Plan *p, const Stmt *s);  /* bits of what it calls */

/* emit_pack_run.c: packs of rows as they lie. `read` is what the value reads, or NONE when it is something else. */
ExprId pack_run(const Plan *p, const Stmt *s);
void emit_pack_run(Pack *x, ExprId read);
uint64_t pack_run_helpers(const Plan *p, const Stmt *s, Elem source); /* bits of what a pack of such rows calls */
/* Bytes of the panel to the n-th element along an axis of the box; of k and columns n is whole lines or panels. */
V pack_bytes(const Pack *x, uint8_t axis, V n);

#endif
