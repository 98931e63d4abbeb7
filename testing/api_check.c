/* Compiled code against the interpreter on a caller's arguments: the test engine, with nothing random. */
#include "testing/parts.h"
#include "driver/interpret.h"
#include "driver/module.h"

#include <math.h>
#include <string.h>

/* The case of a call. Outputs are not given, so that they begin as NaN. */
static const char *case_of(const InterpretCall *call, const Reference *reference, TestCase *c)
{
    const Kernel *k = call->kernel;
    TestValue *given = arena_array(call->arena, TestValue, k->params.len + 1);
    *c = (TestCase){.arena = call->arena,
                    .k = k,
                    .reference = reference,
                    .dims = call->dims,
                    .given = given,
                    .shrink = 1};
    for (uint32_t i = 0; i < k->params.len; i++) {
        const Tensor *t = test_tensor(k, i);
        if (t && t->role != ROLE_OUT)
            given[i] = (TestValue){.data = call->args[i].data, .count = test_elements(c, t)};
        else if (!t && k->routes.at[k->params.at[i].id].role == ROLE_IN)
            given[i] = (TestValue){.route = *call->args[i].route};
    }
    return test_fill(c);
}

static int compare(InterpretCall *call, const Reference *reference, const moec_kernel *compiled, moe_ctx *ctx,
                   const int64_t *dims, void *const *args, TestScore *score)
{
    TestCase c;
    int status = interpret_read(call, ctx, dims, args);
    if (status)
        return 1;
    const char *bad = case_of(call, reference, &c);
    if (!bad) {
        TestReference want = test_reference(&c, EVAL_REFERENCE, 1);
        TestTarget target = {.code = &compiled->module->loaded, .threads = ctx ? ctx->threads : 0};
        TestResult got = test_call(&c, &target);
        bad = test_compare(&c, &want, &got, 0, score);
    }
    return bad ? call_refuse(ctx, MOE_ARGUMENT, bad), 1 : 0;
}

void test_add_score(moec_score *to, const TestScore *s)
{
    to->worst = fmax(to->worst, s->worst);
    to->compared += s->elements;
    to->doubtful += s->doubt;
    to->flipped += s->flipped;
    to->wrong += s->wrong;
    to->mischosen += s->mischosen;
}

static int same_param(const SigParam *a, const SigParam *b)
{
    return a->kind == b->kind && a->role == b->role && a->elem == b->elem && a->rank == b->rank &&
           a->packed == b->packed && a->both == b->both;
}

/* NULL, or why these two are no compiled kernel and the same one to interpret. */
static const char *pair_flaw(const moec_kernel *compiled, const moec_kernel *interpreted)
{
    if (!compiled || !interpreted || !compiled->entry || !interpreted->ir)
        return "a check takes a compiled kernel and an interpreted one";
    const SigKernel *a = compiled->sig, *b = interpreted->sig;
    int same = strcmp(a->name, b->name) == 0 && a->nparams == b->nparams && a->ndims == b->ndims;
    for (uint32_t i = 0; same && i < a->nparams; i++)
        same = same_param(&a->params[i], &b->params[i]);
    return same ? NULL : "a check takes two modules of one program";
}

int moec_kernel_check(const moec_kernel *compiled, const moec_kernel *interpreted, moe_ctx *ctx,
                      const int64_t *dims, void *const *args, moec_score *score)
{
    const char *flaw = pair_flaw(compiled, interpreted);
    if (flaw)
        return call_refuse(ctx, MOE_ARGUMENT, flaw), 1;
    flaw = call_missing(compiled, dims, args);
    if (flaw)
        return call_refuse(ctx, MOE_NULL, flaw), 1;
    jmp_buf landing;
    InterpretCall call = {.kernel = interpreted->ir, .arena = arena_new()};
    Arena *const arena = call.arena; /* not changed after setjmp */
    TestScore found = {0};
    int bad = 1;
    if (!arena || setjmp(landing)) {
        call_refuse(ctx, MOE_MEMORY, arena ? arena_message(arena) : "out of memory");
    } else {
        arena_set_landing(arena, &landing);
        bad = compare(&call, &interpreted->module->reference, compiled, ctx, dims, args, &found);
        if (score)
            test_add_score(score, &found);
    }
    arena_free(arena);
    return bad;
}
