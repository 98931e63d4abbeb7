/* product: block products, a function for each target and types. */
#include "backend/emit.h"

void emit_tile_product(Emit *e, StmtId s)
{
    (void)s;
    BUG(e->l->arena, "product is not emitted yet");
}
