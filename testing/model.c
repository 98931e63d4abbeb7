/* A kernel's plan, on memory that is only pretended, through the emulator and the cycle model. */
#include "testing/parts.h"

/* The trace of a large call, sampled (emulator/sample.c), and what the model knows of caches. */
static const size_t TRACE_BYTES = (size_t)4 << 30;

static const int32_t *choose(void *user, Name ids, int64_t tokens, int64_t k, int64_t n)
{
    TestModelled *m = user;
    TestCase *c = m->args.c;
    double *choices = arena_array(c->arena, double, tokens *k + 1);
    int32_t *out = arena_array(c->arena, int32_t, tokens * k + 1);
    test_choices(c, tokens, k, n, choices);
    for (int64_t i = 0; i < tokens * k; i++)
        out[i] = (int32_t)choices[i];
    TestDrawn d = {ids, out, tokens * k};
    vec_push(c->arena, &m->drawn, d);
    return d.at;
}

/* The code is made for what the description says; the model may know what this CPU says of itself. */
static const char *ask_machine(const TestFile *file, Arena *a)
{
    Description *d = arena_new_of(a, Description);
    const char *error = machine_open(a, file->o->machine, d);
    if (error)
        return error;
    machine_ask(d);
    if (file->o->threads && d->machine.kind == MACHINE_CPU)
        d->machine.cores.cube = d->machine.cores.vector = file->o->threads;
    file->for_jit->machine = &d->machine;
    return NULL;
}

static const char *run(TestFile *file, TestCase *c, TestModelled *m, const Trace **trace)
{
    moe_entry *entry;
    moe_ctx *ctx = moe_ctx_new(1);
    EmulatedCall emulated = {0};
    Chooser chooser = {choose, m};
    Emulation emulation = {file->for_jit, &file->jit, &chooser};
    const char *error = ctx ? test_entry(&file->jit, c->k, c->arena, &entry) : "out of memory";
    if (!error)
        error = test_arguments(c, &m->args);
    if (!error)
        error = emulate_call(&emulation, c->k->name, c->dims, entry, ctx, m->args.dims, m->args.at, c->arena,
                             EMULATE_MODEL, &emulated);
    if (!error && emulated.status)
        error = arena_printf(c->arena, "%s", moe_ctx_message(ctx));
    test_arguments_free(&m->args);
    m->args.c = c;
    moe_ctx_free(ctx);
    *trace = emulated.trace;
    return error;
}

const char *test_model(TestFile *file, TestCase *c, TestModelled *out)
{
    const Trace *trace = NULL;
    *out = (TestModelled){.args = {.c = c}};
    const char *error = ask_machine(file, c->arena);
    if (error)
        return error;
    arena_set_limit(c->arena, TRACE_BYTES);
    error = run(file, c, out, &trace);
    if (!error)
        out->simulated = simulate(c->arena, trace);
    return error;
}
