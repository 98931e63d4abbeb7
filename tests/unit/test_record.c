/* The recorder: a small network is recorded, compiled and run in f32; its recorded gradients are compared with differences of
 * its loss, which an evaluation program computes that saves nothing and knows no gradients. */
#include "step/memory.h"
#include "step/record.h"
#include "step/run.h"
#include "step/text.h"
#include "step/verify.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char kernels[] =
    "moe 1\n"
    "type act = bf16\n"
    "dim T, H, F, V\n"
    "kernel embed(in id: i32[T], in w: act[V, H], out x: f32[T, H]) { x[t, h] = f32(w[id[t], h]) }\n"
    "derive (embed_fwd, embed_bwd) from embed wrt w +=\n"
    "kernel norm(in x: f32[T, H], in gain: f32[H], out n: act[T, H]) {\n"
    "  scale[t] = rsqrt(sum(h) x[t, h] * x[t, h] / H + 0.001)\n"
    "  n[t, h] = act(x[t, h] * scale[t] * gain[h])\n"
    "}\n"
    "derive (norm_fwd, norm_bwd) from norm wrt x +=, gain += save scale as f32\n"
    "kernel ffn(in x: f32[T, H], in n: act[T, H], in a: act[H, F] packed both, in b: act[F, H] packed both, "
    "out y: f32[T, H]) {\n"
    "  g[t, f] = sum(h) n[t, h] * a[h, f]\n"
    "  u[t, f] = act(gelu(g[t, f]))\n"
    "  y[t, h] = x[t, h] + sum(f) u[t, f] * b[f, h]\n"
    "}\n"
    "derive (ffn_fwd, ffn_bwd, ffn_dw) from ffn wrt x pass, n then a +=, b += save g as act\n"
    "kernel side(in n: act[T, H], in gain: f32[H], out loss: f32) {\n"
    "  loss = (sum(t, h) n[t, h] * n[t, h] * n[t, h] * gain[h]) / T\n"
    "}\n"
    "derive (side_fwd, side_bwd) from side wrt n, gain +=\n"
    "kernel stream(in x: f32[T, H], out loss: f32) { loss = sum(t, h) x[t, h] * x[t, h] * x[t, h] }\n"
    "derive (stream_fwd, stream_bwd) from stream wrt x\n"
    "kernel head(in x: f32[T, H], in w: act[H, V] packed both, in target: i32[T], out loss: f32) {\n"
    "  s[t, v] = sum(h) act(x[t, h]) * w[h, v]\n"
    "  m[t] = max(v) s[t, v]\n"
    "  z[t] = sum(v) exp(s[t, v] - stop(m[t]))\n"
    "  l[t] = log(z[t]) + stop(m[t]) - s[t, target[t]]\n  loss = (sum(t) l[t]) / T\n"
    "}\n"
    "derive (head_fwd, head_bwd) from head wrt x, w +=\n"
    "dim X, Y\n"
    "kernel rows(in p: f32[X, Y], out w: act[X, Y]) { w[x, y] = act(p[x, y]) }\n"
    "kernel pack_both(in p: f32[X, Y], out w: act[X, Y] packed both) { w[x, y] = act(p[x, y]) }\n";

enum { T = 6, H = 10, F = 12, V = 7, LAYERS = 2, MICRO = 2, WEIGHTS = 2 + 3 * LAYERS };

typedef struct Net {
    Arena *arena;
    KernelSet *set;
    Store *store;
    Run *forms, *train, *eval;
    Program *program; /* train */
} Net;

static const struct {
    const char *name;
    int rank, packed;
    int64_t shape[2];
} weights[WEIGHTS] = {{"embed", 2, 0, {V, H}}, {"head", 2, 2, {H, V}}, {"L0.gain", 1, 0, {H}},
                      {"L0.a", 2, 2, {H, F}},  {"L0.b", 2, 2, {F, H}}, {"L1.gain", 1, 0, {H}},
                      {"L1.a", 2, 2, {H, F}},  {"L1.b", 2, 2, {F, H}}};

static int64_t count_of(int w)
{
    return weights[w].shape[0] * (weights[w].rank == 2 ? weights[w].shape[1] : 1);
}

static const char *text_of(const Net *n, const char *a, const char *b)
{
    return arena_printf(n->arena, "%s%s", a, b);
}

static BufferId master(const Net *n, Recorder *r, int w)
{
    (void)n;
    return record_tensor(r, OWNER_weight, weights[w].name, MOEC_F32, 0, (uint32_t)weights[w].rank,
                         weights[w].shape);
}

/* What kernels read of a weight: gains as they are. */
static BufferId form(const Net *n, Recorder *r, int w)
{
    if (weights[w].rank == 1)
        return master(n, r, w);
    return record_tensor(r, OWNER_weight, text_of(n, weights[w].name, ".form"), MOEC_F32, weights[w].packed,
                         2, weights[w].shape);
}

static BufferId named(const Net *n, Recorder *r, int layer, const char *name)
{
    const char *full = layer < 0 ? name : arena_printf(n->arena, "L%d.%s", layer, name);
    for (int w = 0; w < WEIGHTS; w++)
        if (!strcmp(weights[w].name, full))
            return form(n, r, w);
    fail_msg("no weight %s", full);
    return STEP_NONE;
}

static BufferId state(const Net *n, Recorder *r, const char *name, int layer, int micro)
{
    return record_tensor(r, OWNER_state, arena_printf(n->arena, "%s.L%d.m%d", name, layer, micro), MOEC_F32,
                         0, 0, NULL);
}

static void record_micro(const Net *n, Recorder *r, int micro, int train)
{
    const int64_t tokens[] = {T};
    BufferId batch[2] = {
        record_tensor(r, OWNER_input, arena_printf(n->arena, "ids.m%d", micro), MOEC_I32, 0, 1, tokens),
        record_tensor(r, OWNER_input, arena_printf(n->arena, "targets.m%d", micro), MOEC_I32, 0, 1, tokens)};
    record_at(r, PHASE_forward, -1, micro);
    record_batch(r, batch, (const char *const[]){"ids", "targets"}, 2);
    BufferId x = out(record(r, "embed", ARG(id, batch[0]), ARG(w, named(n, r, -1, "embed"))), "x");
    BufferId side[LAYERS + 1];
    for (int l = 0; l < LAYERS; l++) {
        record_at(r, PHASE_forward, l, micro);
        const BufferId gain = named(n, r, l, "gain");
        const BufferId normed = out(record(r, "norm", ARG(x, x), ARG(gain, gain)), "n");
        side[l] = state(n, r, "side", l, micro);
        record(r, "side", ARG(n, normed), ARG(gain, gain), ARG(loss, side[l]));
        const BufferId before = x;
        x = out(record(r, "ffn", ARG(x, x), ARG(n, normed), ARG(a, named(n, r, l, "a")),
                       ARG(b, named(n, r, l, "b"))),
                "y");
        if (l > 0)
            continue;
        /* recorded behind ffn: its contribution comes before the one that ffn would pass on */
        side[LAYERS] = state(n, r, "stream", l, micro);
        record(r, "stream", ARG(x, before), ARG(loss, side[LAYERS]));
    }
    record_at(r, PHASE_forward, -1, micro);
    BufferId loss =
        record_tensor(r, OWNER_state, arena_printf(n->arena, "loss.m%d", micro), MOEC_F32, 0, 0, NULL);
    record(r, "head", ARG(x, x), ARG(w, named(n, r, -1, "head")), ARG(target, batch[1]), ARG(loss, loss));
    if (!train)
        return;
    record_seed(r, loss, record_scalar(r, "share", MOEC_F32, 1.0 / MICRO));
    for (int l = 0; l < LAYERS + 1; l++)
        record_seed(r, side[l], record_scalar(r, "share.side", MOEC_F32, 0.25 / MICRO));
    record_backward(r);
}

static Program *finish(Recorder *r)
{
    const char *error;
    Program *p = recorder_finish(r, &error);
    if (!p)
        fail_msg("%s", error);
    return p;
}

static Program *record_forms(Net *n)
{
    Recorder *r = recorder_new(n->arena, n->set, "forms", 0);
    record_at(r, PHASE_setup, -1, -1);
    for (int w = 0; w < WEIGHTS; w++)
        if (weights[w].rank == 2)
            record(r, weights[w].packed ? "pack_both" : "rows", ARG(p, master(n, r, w)),
                   ARG(w, form(n, r, w)));
    return finish(r);
}

static Program *record_net(Net *n, int train)
{
    Recorder *r = recorder_new(n->arena, n->set, train ? "train" : "eval", train);
    for (int w = 0; train && w < WEIGHTS; w++)
        record_trainable(r, form(n, r, w),
                         record_tensor(r, OWNER_gradient, text_of(n, "d.", weights[w].name), MOEC_F32, 0,
                                       (uint32_t)weights[w].rank, weights[w].shape));
    for (int m = 0; m < MICRO; m++)
        record_micro(n, r, m, train);
    return finish(r);
}

static int next_batch(void *self, void *const *buffers, const int64_t *bytes, uint32_t count)
{
    uint64_t *draw = self;
    for (uint32_t i = 0; i < count; i++)
        for (int64_t j = 0; j < bytes[i] / 4; j++)
            ((int32_t *)buffers[i])[j] =
                (int32_t)((*draw * 5 + (uint64_t)j * 3 + i * 2 + (uint64_t)j / 4) % V);
    *draw = (*draw + 1) % MICRO;
    return 0;
}

static Run *start(Net *n, Program *p, uint64_t *draw)
{
    const char *error;
    assert_int_equal(kernels_add_work(n->set, p), 0);
    memory_place(p);
    error = step_verify(p, n->set);
    if (error)
        fail_msg("%s", error);
    Run *r = run_new(p, n->set, n->store, &(RunOptions){.threads = 2, .source = {next_batch, draw}}, &error);
    if (!r)
        fail_msg("%s", error);
    return r;
}

static Net net_new(uint64_t *draw)
{
    Net n = {.arena = arena_new(), .set = kernels_open("act=f32"), .store = store_new()};
    if (kernels_add(n.set, "net.moe", kernels, strlen(kernels)))
        fail_msg("%s", kernels_error(n.set));
    Program *forms = record_forms(&n), *eval = record_net(&n, 0);
    n.program = record_net(&n, 1);
    if (kernels_compile(n.set))
        fail_msg("%s", kernels_error(n.set));
    n.forms = start(&n, forms, draw), n.eval = start(&n, eval, draw), n.train = start(&n, n.program, draw);
    return n;
}

static void net_free(Net *n)
{
    run_free(n->forms), run_free(n->eval), run_free(n->train);
    store_free(n->store);
    kernels_close(n->set);
    arena_free(n->arena);
}

static void run(Run *r)
{
    if (run_program(r))
        fail_msg("%s", run_error(r));
}

/* The loss that train differentiates, from an evaluation. */
static double loss_of(Net *n)
{
    double sum = 0;
    run(n->forms);
    run(n->eval);
    for (int m = 0; m < MICRO; m++)
        sum += (*(float *)store_at(n->store, arena_printf(n->arena, "loss.m%d", m)) +
                0.25 * *(float *)store_at(n->store, arena_printf(n->arena, "stream.L0.m%d", m))) /
               MICRO;
    for (int m = 0; m < MICRO; m++)
        for (int l = 0; l < LAYERS; l++)
            sum += 0.25 / MICRO * *(float *)store_at(n->store, arena_printf(n->arena, "side.L%d.m%d", l, m));
    return sum;
}

static void fill(Net *n)
{
    Random random = random_new(3);
    for (int w = 0; w < WEIGHTS; w++) {
        float *at = store_at(n->store, weights[w].name);
        for (int64_t i = 0; i < count_of(w); i++)
            at[i] = (float)(weights[w].rank == 1 ? 1 + 0.2 * random_normal(&random)
                                                 : 0.4 * random_normal(&random));
    }
}

static void check_weight(Net *n, int w)
{
    float *at = store_at(n->store, weights[w].name);
    const float *d = store_at(n->store, text_of(n, "d.", weights[w].name));
    double largest = 0;
    for (int64_t i = 0; i < count_of(w); i++)
        largest = fmax(largest, fabs(d[i]));
    assert_true(largest > 0);
    for (int64_t i = 0; i < count_of(w); i += 3) {
        const float old = at[i], h = 0.02f;
        at[i] = old + h;
        const double up = loss_of(n);
        at[i] = old - h;
        const double down = loss_of(n);
        at[i] = old;
        const double slope = (up - down) / (2 * h);
        if (fabs(slope - d[i]) > 0.01 * largest + 1e-4)
            fail_msg("%s[%lld]: recorded %g, by differences %g", weights[w].name, (long long)i, d[i], slope);
    }
}

static void test_gradients(void **state)
{
    (void)state;
    uint64_t draw = 0;
    Net n = net_new(&draw);
    fill(&n);
    for (int step = 0; step < 2;
         step++) { /* the second step starts from the first one's gradients, and must not add to them */
        run(n.forms);
        run(n.train);
    }
    for (int w = 0; w < WEIGHTS; w++)
        check_weight(&n, w);
    net_free(&n);
}

static void test_program(void **state)
{
    (void)state;
    uint64_t draw = 0;
    Net n = net_new(&draw);
    Text text = {.arena = n.arena}, again = {.arena = n.arena};
    const char *error;
    step_print(n.program, &text);
    Program *read = step_read(n.arena, text_string(&text), text.len, &error);
    if (!read)
        fail_msg("%s\n%s", error, text_string(&text));
    memory_lifetimes(read);
    step_print(read, &again);
    assert_string_equal(text_string(&text), text_string(&again));
    assert_null(step_verify(read, n.set));
    /* d_y of a layer's ffn is d_x of the next ones; n, read twice, is summed in f32 */
    assert_non_null(strstr(text_string(&text), "wrt x pass"));
    assert_true(n.program->arena_bytes <= memory_peak(n.program).bytes * 105 / 100 + STEP_ALIGN);
    net_free(&n);
}

/* Operands stand by their use in text, and reach the kernels as they did: the same gradients, bit for bit. */
static void test_text_runs(void **state)
{
    (void)state;
    uint64_t draw = 0;
    Net n = net_new(&draw);
    Text text = {.arena = n.arena};
    const char *error;
    step_print(n.program, &text);
    Program *read = step_read(n.arena, text_string(&text), text.len, &error);
    if (!read)
        fail_msg("%s", error);
    float *first[WEIGHTS];
    fill(&n);
    run(n.forms);
    run(n.train);
    for (int w = 0; w < WEIGHTS; w++) {
        const size_t bytes = (size_t)count_of(w) * sizeof(float);
        float *d = store_at(n.store, text_of(&n, "d.", weights[w].name));
        first[w] = arena_array(n.arena, float, (size_t)count_of(w));
        memcpy(first[w], d, bytes);
        memset(d, 0, bytes);
    }
    Run *again = start(&n, read, &draw);
    run(again);
    for (int w = 0; w < WEIGHTS; w++)
        assert_memory_equal(first[w], store_at(n.store, text_of(&n, "d.", weights[w].name)),
                            (size_t)count_of(w) * sizeof(float));
    run_free(again);
    net_free(&n);
}

/* Text in which a call was changed is refused before it runs. */
static void refuse_call(const Net *n, const char *text, const char *from, const char *to, const char *words)
{
    const char *at = strstr(text, from), *error;
    if (!at)
        fail_msg("no `%s` in\n%s", from, text);
    const char *changed = arena_printf(n->arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    Program *p = step_read(n->arena, changed, strlen(changed), &error);
    if (p)
        error = step_verify(p, n->set);
    if (!error || !strstr(error, words))
        fail_msg("`%s` for `%s`: %s", to, from, error ? error : "accepted");
}

static void test_refused_calls(void **state)
{
    (void)state;
    uint64_t draw = 0;
    Net n = net_new(&draw);
    Text printed = {.arena = n.arena};
    step_print(n.program, &printed);
    const char *text = text_string(&printed);
    static const struct {
        const char *from, *to, *words;
    } bad[] = {
        {"task 1 kernel embed_fwd", "task 1 kernel norm_fwd",
         "dimension 2 of the kernel is none, of the task V"},
        {"dims T=6 H=10 V=7 reads id", "dims T=6 H=10 reads id",
         "dimension 2 of the kernel is V, of the task none"},
        {"dims T=6 H=10 V=7 reads id", "dims H=10 T=6 V=7 reads id",
         "dimension 0 of the kernel is T, of the task H"},
        {"dims T=6 H=10 V=7 reads id", "dims T=6 H=10 V=8 reads id",
         "axis 0 of `w` is 8 at these dimensions, of embed.form 7"},
        {"reads id=ids.m0, w=embed.form", "reads w=embed.form", "nothing is given for `id`"},
        {"reads id=ids.m0,", "reads id=ids.m0, v=targets.m0,", "the kernel has no parameter `v`"},
        {"reads id=ids.m0,", "reads id=ids.m0, id=targets.m0,", "`id` is given twice"},
        {"reads id=ids.m0,", "reads id=share,", "`id` is i32, share is f32"},
        {"writes x=embed.x.m0", "updates x=embed.x.m0", "updates `x`, which is not what the kernel does"},
        {"gain=L0.gain", "gain=L0.a.form", "`gain` and L0.a.form are not packed in the same way"},
        {"gain=L0.gain", "gain=d.L0.a", "`gain` has 1 axes, d.L0.a has 2"},
        {"a=L0.a.form", "a=d.L0.a", "`a` and d.L0.a are not packed in the same way"},
        {"packed both bytes 4160", "packed both bytes 4096",
         "`w` is packed in 4160 bytes, head.form has 4096"},
        {" work work.4", "", "its work space has 0 bytes, the kernel needs "},
        {" work work.4", " work ids.m0", "ids.m0 is no work space of a kernel"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_call(&n, text, bad[i].from, bad[i].to, bad[i].words);
    refuse_call(&n, "step s\narena 0\nkernel f of net.moe\ntask 0 batch forward\n", "batch", "kernel f",
                "no source has that kernel");
    net_free(&n);
}

/* Only weights want gradients, which the second of two backward kernels makes: it is asked for alone. */
static void test_only_weights(void **state)
{
    (void)state;
    Arena *a = arena_new();
    KernelSet *set = kernels_open("act=f32");
    const char *error;
    assert_int_equal(kernels_add(set, "net.moe", kernels, strlen(kernels)), 0);
    Recorder *r = recorder_new(a, set, "weights", 1);
    const int64_t tokens[] = {T, H}, shape_a[] = {H, F}, shape_b[] = {F, H};
    const BufferId x = record_tensor(r, OWNER_input, "x", MOEC_F32, 0, 2, tokens),
                   wa = record_tensor(r, OWNER_weight, "a", MOEC_F32, 2, 2, shape_a),
                   wb = record_tensor(r, OWNER_weight, "b", MOEC_F32, 2, 2, shape_b);
    record_trainable(r, wa, record_tensor(r, OWNER_gradient, "d.a", MOEC_F32, 0, 2, shape_a));
    record_trainable(r, wb, record_tensor(r, OWNER_gradient, "d.b", MOEC_F32, 0, 2, shape_b));
    const BufferId y = out(record(r, "ffn", ARG(x, x), ARG(n, x), ARG(a, wa), ARG(b, wb)), "y");
    const BufferId loss = out(record(r, "stream", ARG(x, y)), "loss");
    record_seed(r, loss, record_scalar(r, "one", MOEC_F32, 1));
    record_backward(r);
    Program *p = recorder_finish(r, &error);
    if (!p)
        fail_msg("%s", error);
    const Task *last = &p->tasks.at[p->tasks.len - 1];
    assert_non_null(strstr(p->kernels.at[last->kernel].derive, "from ffn wrt a as f32, b as f32 save"));
    assert_int_equal(last->phase, PHASE_backward);
    kernels_close(set);
    arena_free(a);
}

static void expect_refused(const char *words, void (*recording)(Recorder *, BufferId w, BufferId ids))
{
    Arena *a = arena_new();
    KernelSet *set = kernels_open(NULL);
    assert_int_equal(kernels_add(set, "net.moe", kernels, strlen(kernels)), 0);
    Recorder *r = recorder_new(a, set, "bad", 1);
    const int64_t shape[] = {V, H}, tokens[] = {T};
    const BufferId w = record_tensor(r, OWNER_weight, "w", MOEC_BF16, 0, 2, shape);
    recording(r, w, record_tensor(r, OWNER_input, "ids", MOEC_I32, 0, 1, tokens));
    const char *error;
    assert_null(recorder_finish(r, &error));
    if (!strstr(error, words))
        fail_msg("expected `%s`, got `%s`", words, error);
    kernels_close(set);
    arena_free(a);
}

static void no_kernel(Recorder *r, BufferId w, BufferId ids)
{
    (void)w;
    record(r, "embedding", ARG(id, ids));
}

static void no_parameter(Recorder *r, BufferId w, BufferId ids)
{
    record(r, "embed", ARG(id, ids), ARG(v, w));
}

static void no_argument(Recorder *r, BufferId w, BufferId ids)
{
    (void)w;
    record(r, "embed", ARG(id, ids), SIZE(V, 3), SIZE(H, 4));
}

static void other_size(Recorder *r, BufferId w, BufferId ids)
{
    record(r, "embed", ARG(id, ids), ARG(w, w), SIZE(H, 4));
}

static void no_size(Recorder *r, BufferId w, BufferId ids)
{
    (void)w;
    record(r, "embed", ARG(id, ids));
}

static void wrong_rank(Recorder *r, BufferId w, BufferId ids)
{
    (void)ids;
    record(r, "embed", ARG(id, w), ARG(w, w));
}

static void wrong_type(Recorder *r, BufferId w, BufferId ids)
{
    (void)ids;
    const int64_t tokens[] = {T};
    record(r, "embed", ARG(id, record_reshape(r, record_part(r, "part", w, 0, 1, tokens), 1, tokens)),
           ARG(w, w));
}

static void no_derive(Recorder *r, BufferId w, BufferId ids)
{
    (void)ids;
    const int64_t shape[] = {V, H};
    const BufferId p = record_tensor(r, OWNER_weight, "p", MOEC_F32, 0, 2, shape);
    record_trainable(r, p, record_tensor(r, OWNER_gradient, "d.p", MOEC_F32, 0, 2, shape));
    record(r, "rows", ARG(p, p), ARG(w, w));
}

static void no_wrt(Recorder *r, BufferId w, BufferId ids)
{
    const int64_t shape[] = {V, H}, hidden[] = {H};
    record_trainable(r, w, record_tensor(r, OWNER_gradient, "d.w", MOEC_F32, 0, 2, shape));
    const BufferId x = out(record(r, "embed", ARG(id, ids), ARG(w, w)), "x");
    const BufferId gain = record_tensor(r, OWNER_weight, "gain", MOEC_F32, 0, 1, hidden);
    const BufferId n = out(record(r, "norm", ARG(x, x), ARG(gain, gain)), "n");
    const BufferId loss = out(record(r, "side", ARG(n, n), ARG(gain, gain)), "loss");
    record_seed(r, loss, record_scalar(r, "one", MOEC_F32, 1));
    record_seed(r, loss, record_scalar(r, "one", MOEC_F32, 1));
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused("there is no kernel embedding", no_kernel);
    expect_refused("kernel embed has no parameter `v`", no_parameter);
    expect_refused("nothing is given for its parameter `w`", no_argument);
    expect_refused("no tensor gives dimension H", no_size);
    expect_refused("kernel embed: ", other_size);
    expect_refused("`id` has 1 axes, w has 2", wrong_rank);
    expect_refused("`id` is i32, part is bf16", wrong_type);
    expect_refused("its file has no `derive` block for it", no_derive);
    expect_refused("its gradient is given twice", no_wrt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),    cmocka_unit_test(test_program),
        cmocka_unit_test(test_text_runs),    cmocka_unit_test(test_refused_calls),
        cmocka_unit_test(test_only_weights), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
