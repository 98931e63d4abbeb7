/* Shared by the files of the tile verifier: the tree and its statements (tile_verify.c), what threads and lanes
 * may do (tile_verify_race.c). Private to ir/. */
#ifndef IR_TILE_VERIFY_H
#define IR_TILE_VERIFY_H

#include "ir/tile.h"

typedef struct TileVerifier {
    const Kernel *k;
    Arena *a;
    const char *error; /* the first; everything stops */
    StmtId launch, at; /* being looked at */
    uint8_t *seen;     /* by statement: a tree has each once */
    /* Variables in scope and the statements that declare them (a bucket declares several). */
    Vec(IndexId) scope;
    Vec(StmtId) loops;
    StmtId vector;     /* the enclosing vector loop, or NONE */
    /* The nodes last collected. */
    uint32_t *stamp, now;
    Vec(ExprId) nodes;
    Vec(ExprId) stack;
    /* By index and by tensor: which parallel and owned loops of the launch it depends on, a bit each. */
    uint32_t *index_taint, *tensor_taint;
    uint32_t parallel, owned; /* bits of the enclosing loops */
} TileVerifier;

void tile_broken(TileVerifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills v->nodes with the nodes under e, each once, not going below nodes that `prune` holds for (NULL: none). */
void tile_collect(TileVerifier *v, ExprId e, int (*prune)(const Kernel *k, const Expr *x));
/* The value differs from lane to lane. */
int tile_has_lanes(TileVerifier *v, ExprId e);
/* Known once all unroll loops are expanded; its range then. */
int tile_unrolled_range(TileVerifier *v, ExprId e, int64_t *lo, int64_t *hi);

/* Marks what depends on the parallel variables of a launch; to be called before its stores are verified. */
void tile_mark_launch(TileVerifier *v, StmtId launch);
/* The rules of Note [Parallel] and Note [Lanes] for a statement that writes `buffer` at `index`. */
void tile_verify_write(TileVerifier *v, TensorId buffer, const ExprId *index, uint32_t nindex);
void tile_verify_lanes(TileVerifier *v, const Stmt *s);

#endif
