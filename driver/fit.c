/* What would fit an NPU, where a plan does not: smaller blocks, tried from the nearest on. */
#include "driver/driver.h"

#include <string.h>

enum { SUGGESTED = 3, HALVED_MOST = 4 };

/* Plans anew with these blocks; does all fit then? */
static int fits(Compilation *c, Isa isa, Fit *fit)
{
    Module *m;
    uint32_t kept = c->diags.list.len, errors = c->diags.errors;
    c->diags.errors = 0;
    int fitted = !compile_reread(c, &m);
    if (fitted) { /* every module has names of its own */
        fit->kernel = name_of(m->names, fit->kernel);
        fit->launch = name_of(m->names, fit->launch);
        PassContext context = {
            .isa = isa, .machine = c->machine, .optimize = c->options.level > 0, .fit = fit};
        fitted = !pipeline_run(m, &(PipelineOptions){.context = context, .limit = -1});
    }
    c->diags.list.len = kept;
    c->diags.errors = errors;
    return fitted;
}

/* Shifts with this sum, one after the other. */
static int next_shift(int *shift, int sum)
{
    if (shift[2] > 0) {
        shift[1]++;
        shift[2]--;
        return 1;
    }
    if (shift[0] == sum)
        return 0;
    shift[0]++;
    shift[1] = 0;
    shift[2] = sum - shift[0];
    return 1;
}

/* Is it smaller than one that fits in every way? Then nobody needs it. */
static int is_beyond(const int *shift, int (*found)[3], int n)
{
    for (int i = 0; i < n; i++)
        if (shift[0] >= found[i][0] && shift[1] >= found[i][1] && shift[2] >= found[i][2])
            return 1;
    return 0;
}

const char *fit_suggestions(Compilation *c, Isa isa, const Fit *failed)
{
    Text t = {.arena = c->arena};
    int found[SUGGESTED][3], n = 0;
    for (int sum = 1; sum <= HALVED_MOST && n < SUGGESTED; sum++) {
        int shift[3] = {0, 0, sum};
        do {
            Fit fit = {failed->kernel, failed->launch, {shift[0], shift[1], shift[2]}, {0, 0, 0}};
            if (is_beyond(shift, found, n) || !fits(c, isa, &fit))
                continue;
            memcpy(found[n], shift, sizeof shift);
            text_add(&t, "%stile %s : M = %lld N = %lld K = %lld", n++ ? ", or " : "", failed->launch,
                     (long long)fit.blocks[0], (long long)fit.blocks[1], (long long)fit.blocks[2]);
        } while (n < SUGGESTED && next_shift(shift, sum));
    }
    return n ? arena_printf(c->arena, "in schedule %s this fits: %s", failed->kernel, text_string(&t)) : NULL;
}
