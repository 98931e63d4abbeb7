/* pack: a box of an expression goes into a panel. */
#include "backend/emit.h"

void emit_tile_pack(Emit *e, StmtId s)
{
    (void)s;
    BUG(e->l->arena, "pack is not emitted yet");
}
