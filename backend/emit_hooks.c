/* The hook of each statement, declared from tile.def. The files that they are in reach each other through this table only. */
#include "backend/emit.h"

EmitTile *const emit_hooks[TILE_COUNT] = {
#define TILE(name, doc, ...) emit_tile_##name,
#include "ir/tile.def"
};
