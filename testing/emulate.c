/* Calls of compiled plans under the emulator. */
#include "testing/emulate.h"

#include <string.h>

static const Kernel *planned(const Emulation *e, const char *name)
{
    for (uint32_t i = 0; i < e->c->module->kernels.len; i++)
        if (strcmp(e->c->module->kernels.at[i]->name, name) == 0)
            return e->c->module->kernels.at[i];
    return NULL;
}

const char *emulate_call(const Emulation *e, const char *kernel, const int64_t *dims, moe_entry *entry,
                         moe_ctx *ctx, const int64_t *passed, void *const *args, Arena *a, EmulateMode mode,
                         EmulatedCall *out)
{
    const Kernel *k = planned(e, kernel);
    if (!k)
        return arena_printf(a, "there is no plan of kernel %s", kernel);
    Emulator *emulator = emulator_new(a, e->c->machine, e->c->isas.at[0], k, dims, mode, e->chooser);
    BackendListener listener = {emulator_event, emulator_on_chip, emulator};
    e->code->api->jit_listen(&listener);
    out->status = entry(ctx, passed, args);
    e->code->api->jit_listen(NULL);
    out->trace = emulator_trace(emulator);
    const char *error = emulator_error(emulator);
    emulator_free(emulator);
    return error;
}
