/* Moves of what may be behind a condition. A vector core computes `if(j <= i, e[i, j], 0)` for whole rows: e's row is moved
 * as it is, also where nothing was computed because the condition does not hold, and the mask drops what was there. Such a
 * move may read what nothing has written; who knows of whom, and what is inside, is checked all the same. */
#include "emulator/check_own.h"

/* How an expression, or a list of statements, reads a buffer: 0 not at all, 1 only behind conditions, 2 always. */
static int reads(const Kernel *k, ExprId e, TensorId buffer)
{
    int most = 0;
    Nodes nodes = x_below(k, e, EVERYWHERE);
    for (uint32_t i = 0; i < nodes.n; i++) {
        const Expr *x = x_at(k, nodes.at[i]);
        int here = x->kind != X_LOAD || x->sym != buffer ? 0 : 1 + x_is_asked_for(k, e, nodes.at[i]);
        most = here > most ? here : most;
    }
    return most;
}

static int list_reads(const Kernel *k, StmtId first, TensorId buffer)
{
    int most = 0;
    tile_walk (w, k, first)
        tile_each_operand (o, w.s) {
            int here = tile_operand_is_expr(&o) ? reads(k, o.id, buffer) : 0;
            most = here > most ? here : most;
        }
    return most;
}

static int is_masked(const Kernel *k, const Stmt *s)
{
    int most = 0;
    if (s->kind != TILE_pack || k->tensors.at[s->buffer].space != SPACE_UB)
        return 0;
    tile_each (id, k, s->next) {
        const Stmt *after = tile_at(k, id);
        if (after->kind == TILE_pack && after->buffer == s->buffer)
            break;
        int here = after->kind == TILE_for ? list_reads(k, after->first, s->buffer) : 0;
        most = here > most ? here : most;
    }
    return most == 1;
}

int check_is_masked(Checker *c, StmtId pack)
{
    if (!c->masked[pack])
        c->masked[pack] = (uint8_t)(1 + is_masked(c->k, tile_at(c->k, pack)));
    return c->masked[pack] - 1;
}
