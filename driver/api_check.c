/* Compiled code against the interpreter on a caller's arguments: the test engine, with nothing random. */
#include "driver/check_parts.h"
#include "driver/interpret.h"
#include "driver/module.h"

#include <math.h>

/* The case of a call. Outputs are not given, so that they begin as NaN. */
static const char *case_of(const InterpretCall *call, CheckCase *c)
{
    const Kernel *k = call->kernel;
    CheckValue *given = arena_array(call->arena, CheckValue, k->params.len + 1);
    *c = (CheckCase){.arena = call->arena, .k = k, .dims = call->dims, .given = given, .shrink = 1};
    for (uint32_t i = 0; i < k->params.len; i++) {
        const Tensor *t = check_tensor(k, i);
        if (t && t->role != ROLE_OUT)
            given[i] = (CheckValue){.data = call->args[i].data, .count = check_elements(c, t)};
        else if (!t && k->routes.at[k->params.at[i].id].role == ROLE_IN)
            given[i] = (CheckValue){.route = *call->args[i].route};
    }
    return check_fill(c);
}

static int compare(InterpretCall *call, const moec_kernel *compiled, moe_ctx *ctx, const int64_t *dims,
                   void *const *args, CheckScore *score)
{
    CheckCase c;
    int status = interpret_read(call, ctx, dims, args);
    if (status)
        return 1;
    const char *bad = case_of(call, &c);
    if (!bad) {
        CheckReference want = check_reference(&c, EVAL_REFERENCE, 1);
        CheckTarget target = {.code = &compiled->module->loaded, .threads = ctx->threads};
        CheckResult got = check_call(&c, &target);
        bad = check_compare(&c, &want, &got, 0, score);
    }
    return bad ? interpret_refuse(ctx, MOE_ARGUMENT, bad), 1 : 0;
}

static void add_score(moec_score *to, const CheckScore *s)
{
    to->worst = fmax(to->worst, s->worst);
    to->compared += s->compared;
    to->doubtful += s->doubt;
    to->turned += s->turned;
}

int moec_kernel_check(const moec_kernel *compiled, const moec_kernel *interpreted, moe_ctx *ctx,
                      const int64_t *dims, void *const *args, moec_score *score)
{
    jmp_buf landing;
    InterpretCall call = {.kernel = interpreted->ir, .arena = arena_new()};
    Arena *const arena = call.arena; /* not changed after setjmp */
    CheckScore found = {0};
    int bad = 1;
    if (!compiled->entry || !interpreted->ir)
        interpret_refuse(ctx, MOE_ARGUMENT, "a check takes a compiled kernel and an interpreted one");
    else if (!arena || setjmp(landing))
        interpret_refuse(ctx, MOE_MEMORY, arena ? arena_message(arena) : "out of memory");
    else {
        arena_set_landing(arena, &landing);
        bad = compare(&call, compiled, ctx, dims, args, &found);
        add_score(score, &found);
    }
    arena_free(arena);
    return bad;
}
