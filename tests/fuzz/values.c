/* .moe text: what the passes of the equation level make of a program computes the program's values.
 *
 * The reference interpreter runs each kernel at small sizes on random data, once as the front end (or derive) made it and
 * once after a later pass. Promise: the values are the same within the bounds of the numeric contract. */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "testing/parts.h"
#include "driver/reference.h"

static const char *const later[] = {"canonicalise", "derive", "checks", "fuse", "split", "cluster"};
enum { LATER = sizeof later / sizeof *later, STEPS_MAX = 20000 };

/* ---- sizes ---- */

static int64_t legal_size(const Dim *d, int64_t wanted)
{
    int64_t size = (wanted + d->multiple - 1) / d->multiple * d->multiple;
    return d->constant >= 0               ? d->constant
           : d->max >= 0 && size > d->max ? d->max / d->multiple * d->multiple
                                          : size;
}

static int64_t *small_sizes(const Module *m, FuzzPicks *picks)
{
    static const int64_t sizes[] = {3, 2, 4, 3, 2, 1, 3, 0};
    int64_t *dims = arena_array(m->arena, int64_t, m->dims.len + 1);
    for (DimId d = 0; d < m->dims.len; d++)
        dims[d] = legal_size(&m->dims.at[d], sizes[fuzz_pick(picks, 8)]);
    return dims;
}

/* At most so many elements and terms: the product of all indices of an equation, each once. */
static int64_t steps_of(const TestCase *c, const Equation *q)
{
    const Kernel *k = c->k;
    uint8_t *seen = arena_array(c->arena, uint8_t, k->indices.len + 1);
    int64_t steps = 1;
    for (uint32_t i = 0; i < q->nindex + 2u; i++) {
        ExprId e = i < q->nindex ? q->index[i] : i == q->nindex ? q->rhs : q->guard;
        if (e != NONE)
            each_below (n, k, e, EVERYWHERE)
                if (x_at(k, *n)->kind == X_INDEX)
                    seen[x_at(k, *n)->sym] = 1;
    }
    for (IndexId i = 0; i < k->indices.len && steps <= STEPS_MAX; i++) {
        int64_t extent = seen[i] ? test_extent_value(c, k->indices.at[i].axis.extent) : 1;
        steps *= extent < 0 || extent > STEPS_MAX ? STEPS_MAX + 1 : extent > 1 ? extent : 1;
    }
    return steps;
}

static int is_small(const TestCase *c)
{
    for (uint32_t q = 0; q < c->k->eqs.len; q++)
        if (steps_of(c, &c->k->eqs.at[q]) > STEPS_MAX)
            return 0;
    return 1;
}

/* ---- comparison ---- */

static int differ(double a, double b, double bound)
{
    if (isnan(a) || isnan(b) || !isfinite(bound))
        return 0; /* a factor that a pass takes out of a sum makes NaN of what was zero or infinite, or not */
    return a != b && !(fabs(a - b) <= 2 * bound);
}

static void compare(const TestCase *c, const TestReference *want, const TestReference *got, const char *pass)
{
    for (uint32_t p = 0; p < c->k->params.len; p++) {
        const Tensor *t = test_tensor(c->k, p);
        for (int64_t n = 0; t && t->role != ROLE_IN && n < c->values[p].count; n++) {
            double bound = want->bounds[p] ? want->bounds[p][n] : 0;
            if (differ(want->data[p][n], got->data[p][n], bound))
                fuzz_fail("after %s element %lld of %s in kernel %s is %.9g, not %.9g within %g", pass,
                          (long long)n, t->name, c->k->name, got->data[p][n], want->data[p][n], bound);
        }
    }
}

/* The kernel of the same name in `after` runs on the same data. */
static void check_kernel_values(Module *before, Module *after, const Kernel *k, const int64_t *dims,
                                const char *pass)
{
    Reference reference = {before, before}, later_one = {after, after};
    TestReference want, got;
    TestCase c = {.arena = before->arena, .k = k, .reference = &reference, .dims = dims};
    c.random = random_new(1);
    c.shrink = 1;
    if (!is_small(&c) || test_find_inputs(&c, 1, &want) || want.error)
        return;
    c.reference = &later_one;
    got = test_reference(&c, EVAL_REFERENCE, 0);
    if (got.error)
        fuzz_fail("after %s kernel %s stops: %s", pass, k->name, got.error);
    compare(&c, &want, &got, pass);
}

static void check_module(Module *before, Module *after, FuzzPicks picks, const char *pass)
{
    const int64_t *dims = small_sizes(before, &picks);
    for (uint32_t i = 0; i < before->kernels.len; i++) {
        const Kernel *k = before->kernels.at[i];
        if (ir_find_kernel(after, name_of(after->names, k->name)))
            check_kernel_values(before, after, k, dims, pass);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    FuzzPicks picks = fuzz_picks(data, size);
    const char *pass = later[fuzz_pick(&picks, LATER)];
    PassContext context = {.isa = ISA_avx2, .optimize = 1};
    context.schedule_seed = fuzz_pick(&picks, 2) ? 0 : 1 + fuzz_pick(&picks, 1000);
    fuzz_begin();
    FuzzText read = fuzz_text(), derived = fuzz_text(), after = fuzz_text();
    if (fuzz_read_moe(&read, text, size) == 0 &&
        fuzz_compile(&derived, text, size, &context, "derive") == 0 &&
        fuzz_compile(&after, text, size, &context, pass) == 0) {
        check_module(read.m, after.m, picks, pass);
        check_module(derived.m, after.m, picks, pass);
    }
    fuzz_free(&read);
    fuzz_free(&derived);
    fuzz_free(&after);
    fuzz_end();
    return 0;
}
