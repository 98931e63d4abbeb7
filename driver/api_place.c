/* The public function about kernels that several processes call, each on a part. */
#include "driver/module.h"

_Static_assert((int)MOEC_WHOLE == (int)PLACE_WHOLE && (int)MOEC_SUM == (int)PLACE_SUM &&
                   (int)MOEC_ANY == (int)PLACE_ANY,
               "the places of moec.h are those of ir/place.h");

static int place(const moec_kernel *k, moe_ctx *ctx, int *places, Arena *a)
{
    jmp_buf landing;
    if (setjmp(landing))
        return call_refuse(ctx, MOE_MEMORY, arena_message(a));
    arena_set_landing(a, &landing);
    const char *error = ir_place(reference_of(&k->module->reference, k->ir), places, a);
    return error ? call_refuse(ctx, MOE_ARGUMENT, error) : MOE_OK;
}

int moec_kernel_place(const moec_kernel *k, moe_ctx *ctx, int *places)
{
    if (!k || (!places && k->sig->nparams))
        return call_refuse(ctx, MOE_NULL, "no kernel, or no places");
    if (!k->ir)
        return call_refuse(ctx, MOE_ARGUMENT, "this module was compiled without the option to interpret it");
    Arena *a = arena_new();
    if (!a)
        return call_refuse(ctx, MOE_MEMORY, "out of memory");
    const int status = place(k, ctx, places, a);
    arena_free(a);
    return status;
}
