/* Plans, Note [Plans] in ir/tile.h: events, and where on-chip buffers are. What a plan's statements do to data is in the bodies
 * of events, as loops and stores; the statements themselves are not for a CPU. */
#include "backend/emit.h"

static void refuse(const Emit *e, StmtId s)
{
    BUG(e->l->arena, "backend: kernel %s has a %s statement, which only an NPU does", e->k->name,
        tile_name((TileKind)e->p->p->stmts.at[s].kind));
}

void emit_tile_set(Emit *e, StmtId s) { refuse(e, s); }
void emit_tile_wait(Emit *e, StmtId s) { refuse(e, s); }

/* i32 moec_event(i64 statement, i64 n, ptr values): not 0 where the body is to run. That of a `top` has one value more, where
 * the first number is to go. */
void emit_tile_event(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = &e->p->p->stmts.at[id];
    Ty params[3] = {l->i64, l->i64, l->ptr};
    V values = l_slot(l, LLVMArrayType2(l->i64, MAX_RANK), "values");
    for (uint32_t i = 0; i < s->nindex; i++)
        l_store(l, emit_value(e, s->index[i]), l_at(l, l->i64, values, l_i64(l, i)), 8);
    const Stmt *body = s->first == NONE ? s : &e->p->p->stmts.at[s->first];
    uint32_t n = s->nindex;
    if (body->kind == TILE_top && n < MAX_RANK)
        l_store(l, emit_address(e, body->second, body->index, body->nindex),
                l_at(l, l->i64, values, l_i64(l, n++)), 8);
    V args[3] = {l_i64(l, s->planned), l_i64(l, n), values};
    V run = l_call(l, l_declare(l, "moec_event", l_fn_type(l, l->i32, params, 3)), args, 3);
    emit_forget(e, 0);
    When w = l_when(l, l_icmp(l, LLVMIntNE, run, l_i32(l, 0)));
    emit_body(e, s->first);
    l_end_when(l, &w);
}

/* ptr moec_on_chip(i64 space): the first byte of the core's buffer. */
V emit_on_chip(Emit *e, Space space)
{
    L *l = e->l;
    V args[1] = {l_i64(l, space)};
    return l_call(l, l_declare(l, "moec_on_chip", l_fn_type(l, l->ptr, &l->i64, 1)), args, 1);
}
