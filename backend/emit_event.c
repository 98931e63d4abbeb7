/* Events of plans: Note [Plans] in ir/tile.h. The body of an event does to data what the plan's statement does, as loops and
 * stores; a CPU does not run the statements themselves. */
#include "backend/emit.h"

#include "ir/event.h"

static void refuse(const Emit *e, StmtId s)
{
    BUG(e->l->arena, "backend: kernel %s has a %s statement, which only an NPU does", e->k->name,
        tile_name((TileKind)tile_at(e->k, s)->kind));
}

void emit_tile_set(Emit *e, StmtId s) { refuse(e, s); }
void emit_tile_wait(Emit *e, StmtId s) { refuse(e, s); }

static void put_value(Emit *e, V values, uint32_t n, V value)
{
    l_store(e->l, value, l_at(e->l, e->l->i64, values, l_i64(e->l, n)), 8);
}

/* The numbers that the event carries, as event.def lists them. A place is where the body stores its second result. */
static V event_values(Emit *e, const Stmt *s)
{
    V values = l_slot(e->l, LLVMArrayType2(e->l->i64, MAX_RANK), "values");
    for (uint32_t i = 0; i < s->nindex; i++)
        put_value(e, values, i, emit_value(e, s->index[i]));
    if (event_places((EventKind)s->mode)) {
        const Stmt *body = tile_at(e->k, s->first);
        put_value(e, values, s->nindex, emit_address(e, body->second, body->index, body->nindex));
    }
    return values;
}

/* i32 moec_event(i64 kind, i64 statement, ptr values): not 0 where the body is to run. */
void emit_tile_event(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = tile_at(e->k, id);
    Ty params[3] = {l->i64, l->i64, l->ptr};
    V args[3] = {l_i64(l, s->mode), l_i64(l, s->planned), event_values(e, s)};
    V run = l_call(l, l_declare(l, "moec_event", l_fn_type(l, l->i32, params, 3)), args, 3);
    emit_forget(e, 0);
    When w = l_when(l, l_icmp(l, LLVMIntNE, run, l_i32(l, 0)));
    emit_body(e, s->first);
    l_end_when(l, &w);
}
