/* Helpers by their numbers: Note [Helpers] in emit.h. */
#include "backend/emit_pack.h"
#include "backend/emit_packed.h"

void emit_helper(Plan *p, uint32_t helper)
{
    if (helper >= HELPER_PACKED)
        emit_packed_function(p, helper);
    else if (helper >= HELPER_TRANSPOSE)
        emit_transpose_function(p, helper != HELPER_TRANSPOSE);
    else if (helper >= HELPER_PACK)
        emit_pack_function(p, helper - HELPER_PACK);
    else if (helper >= HELPER_PANEL)
        emit_panel_function(p, helper - HELPER_PANEL);
    else
        emit_product_function(p, helper);
}

Isa helper_owner(Isa target, uint32_t helper)
{
    if (helper >= HELPER_PACKED)
        return ISA_COUNT;
    return helper < HELPER_PACK ? target : cpu_table[target].code;
}

int helper_exists(Isa target, uint32_t helper)
{
    return helper >= HELPER_PACK || product_exists(target, helper);
}
