/* Placements and exchanges: a network is recorded for one rank and for each of two, which share it in several ways; two threads are
 * the ranks, and their losses, gradients and norms are those of the one. */
#include "place_fixture.h"

#include "step/memory.h"
#include "step/run.h"
#include "step/text.h"
#include "step/verify.h"

#include <math.h>
#include <pthread.h>

enum { MICRO = 2, WEIGHTS = 3 };

/* How two ranks share the network. */
typedef enum Way {
    ALONE,  /* one rank, without exchanges */
    ONE,    /* one rank, with those of PARTS */
    PARTS,  /* columns of a and rows of b; tokens between */
    COPIES, /* columns of a and rows of b; all tokens everywhere */
    BATCH,  /* tokens everywhere */
    OWN     /* each its own micro-batches */
} Way;

static const GroupAxis axis_of[] = {
    [ONE] = AXIS_tp, [PARTS] = AXIS_tp, [COPIES] = AXIS_tp, [BATCH] = AXIS_dp, [OWN] = AXIS_dp};
static const char *const weights[WEIGHTS] = {"gain", "a", "b"};
static const int64_t shapes[WEIGHTS][2] = {{H, 0}, {H, F}, {F, H}};
static const int cut_of[WEIGHTS] = {-1, 1, 0}; /* the dimension of a weight that tp cuts */

static int is_cut(Way w, int i) { return (w == PARTS || w == COPIES) && cut_of[i] >= 0; }
static int cuts_tokens(Way w) { return w == PARTS || w == BATCH || w == OWN; }

typedef struct Net {
    Arena *arena;
    KernelSet *set;
    Program *program;
    Store *store;
    Run *run;
} Net;

static BufferId weight(Recorder *r, Way w, int i, const char *name, Owner owner)
{
    int64_t shape[2] = {shapes[i][0], shapes[i][1]};
    if (is_cut(w, i))
        shape[cut_of[i]] /= RANKS;
    const BufferId b = record_tensor(r, owner, name, MOEC_F32, 0, i ? 2 : 1, shape);
    if (owner == OWNER_weight && cut_of[i] >= 0)
        record_place(r, b, AXIS_tp, PLACED_PART(cut_of[i]));
    return b;
}

static BufferId state(Recorder *r, const Net *n, const char *name, int micro)
{
    return record_tensor(r, OWNER_state, arena_printf(n->arena, "%s.%d", name, micro), MOEC_F32, 0, 0, NULL);
}

static void record_micro(Net *n, Recorder *r, Way way, const BufferId *w, int micro)
{
    const int64_t shape[] = {T / (cuts_tokens(way) ? RANKS : 1), H};
    record_at(r, PHASE_forward, 0, micro);
    const BufferId x =
        record_tensor(r, OWNER_input, arena_printf(n->arena, "x.%d", micro), MOEC_F32, 0, 2, shape);
    if (cuts_tokens(way) || way == ONE)
        record_place(r, x, axis_of[way], way == OWN ? (Placement)PLACED_OWN : PLACED_PART(0));
    BufferId m = out(record(r, "norm", ARG(x, x), ARG(gain, w[0])), "n");
    if (way == PARTS || way == ONE)
        m = record_exchange(r, TASK_allgather, AXIS_tp, m, 0);
    if (way == COPIES)
        m = record_exchange(r, TASK_copy, AXIS_tp, m, 0);
    BufferId y = out(record(r, "branch", ARG(n, m), ARG(a, w[1]), ARG(b, w[2])), "y");
    if (way == PARTS || way == ONE)
        y = record_exchange(r, TASK_reducescatter, AXIS_tp, y, 0);
    if (way == COPIES)
        y = record_exchange(r, TASK_allreduce, AXIS_tp, y, 0);
    const BufferId z = out(record(r, "add", ARG(x, x), ARG(b, y)), "y"), loss = state(r, n, "loss", micro);
    record(r, "energy", ARG(z, z), ARG(loss, loss));
    record_seed(r, loss, record_scalar(r, "one", MOEC_F32, 1));
    record_backward(r);
}

/* Each parameter counts once: what every rank has alike in each rank's sum, what it has a part of by its part of the sum. */
static void record_norm(Net *n, Recorder *r, Way way, BufferId gradient, int i)
{
    const int64_t row[] = {1, H}, one[] = {1, 1};
    const BufferId matrix = i ? gradient : record_reshape(r, gradient, 2, row);
    const BufferId s = out(record(r, "square", ARG(x, matrix)), "s");
    const BufferId sum = is_cut(way, i) ? record_exchange(r, TASK_allreduce, AXIS_tp, s, 0) : s;
    record(r, "square", ARG(x, record_reshape(r, sum, 2, one)), ARG(s, state(r, n, "norm", i)));
}

static Net record_net(Way way)
{
    Net n = {.arena = arena_new(), .set = place_set(), .store = store_new()};
    const char *error;
    BufferId w[WEIGHTS], d[WEIGHTS];
    Recorder *r = recorder_new(n.arena, n.set, "train", 1);
    if (way > ONE)
        record_group(r, axis_of[way], RANKS);
    for (int i = 0; i < WEIGHTS; i++) {
        w[i] = weight(r, way, i, weights[i], OWNER_weight);
        d[i] = weight(r, way, i, arena_printf(n.arena, "d.%s", weights[i]), OWNER_gradient);
        record_trainable(r, w[i], d[i]);
    }
    for (int micro = 0; micro < MICRO; micro++)
        record_micro(&n, r, way, w, micro);
    record_at(r, PHASE_optimizer, -1, -1);
    record_reduce_gradients(r);
    for (int i = 0; i < WEIGHTS; i++)
        record_norm(&n, r, way, d[i], i);
    n.program = recorder_finish(r, &error);
    if (!n.program)
        fail_msg("%s", error);
    return n;
}

static void place(Net *n)
{
    if (kernels_compile(n->set) || kernels_add_work(n->set, n->program))
        fail_msg("%s", kernels_error(n->set));
    memory_place(n->program);
    const char *error = step_verify(n->program, n->set);
    if (error)
        fail_msg("%s", error);
}

static void start(Net *n, ExchangeDoor door)
{
    const char *error;
    place(n);
    n->run = run_new(n->program, n->set, n->store, &(RunOptions){.threads = 1, .door = door}, &error);
    if (!n->run)
        fail_msg("%s", error);
}

static void release(Net *n)
{
    run_free(n->run);
    store_free(n->store);
    kernels_close(n->set);
    arena_free(n->arena);
}

/* ---- two ranks are two threads ---- */

typedef struct Group {
    pthread_barrier_t barrier;
    const float *x[RANKS];
} Group;

typedef struct Rank {
    Group *group;
    int number, failed;
    Net net;
} Rank;

/* The result of both ranks' operands, of `n` elements each. */
static void combine(const Rank *r, TaskKind kind, float *y, int64_t runs, int64_t n, int64_t whole_run)
{
    const Group *g = r->group;
    const int64_t run = runs ? n / runs : n;
    for (int64_t i = 0; i < n; i++) {
        if (kind == TASK_copy)
            y[i] = g->x[r->number][i];
        if (kind == TASK_allreduce)
            y[i] = g->x[0][i] + g->x[1][i];
        for (int64_t p = 0; kind == TASK_allgather && p < RANKS; p++)
            y[i / run * run * RANKS + p * run + i % run] = g->x[p][i];
    }
    for (int64_t i = 0; kind == TASK_reducescatter && i < n / RANKS; i++) {
        const int64_t from =
            i / (whole_run / RANKS) * whole_run + r->number * (whole_run / RANKS) + i % (whole_run / RANKS);
        y[i] = g->x[0][from] + g->x[1][from];
    }
}

static int exchange(void *self, const Program *p, const Task *t, void *const *buffers)
{
    Rank *r = self;
    const StepBuffer *x = &p->buffers.at[t->operands.at[0].buffer],
                     *y = &p->buffers.at[t->operands.at[1].buffer];
    const int64_t n = step_elements(x), scattered = step_runs(y, y->placed[t->axis]);
    r->group->x[r->number] = buffers[0];
    pthread_barrier_wait(&r->group->barrier);
    combine(r, t->kind, buffers[1], step_runs(x, x->placed[t->axis]), n, scattered ? n / scattered : n);
    pthread_barrier_wait(&r->group->barrier);
    return 0;
}

static void *run_rank(void *self)
{
    Rank *r = self;
    r->failed = run_program(r->net.run);
    return NULL;
}

/* ---- what goes in, what comes out ---- */

static float value_of(const char *name, int64_t i)
{
    return sinf(3.7F * (float)i + (float)name[0] + (float)name[strlen(name) - 1]);
}

/* Rank's part of dimension `cut` (-1: all) of what is [rows, columns] on one rank: an element's number there. */
static int64_t whole_number(int64_t i, int64_t rows, int64_t columns, int cut, int rank)
{
    const int64_t part = cut == 1 ? columns / RANKS : columns;
    if (cut < 0)
        return i;
    return cut == 0 ? rank * rows / RANKS * columns + i : i / part * columns + rank * part + i % part;
}

static void fill(Net *n, Way way, int rank)
{
    for (int i = 0; i < WEIGHTS; i++) {
        float *at = store_at(n->store, weights[i]);
        const int64_t columns = i ? shapes[i][1] : 1,
                      all = shapes[i][0] * columns / (is_cut(way, i) ? RANKS : 1);
        for (int64_t j = 0; j < all; j++)
            at[j] = value_of(weights[i],
                             whole_number(j, shapes[i][0], columns, is_cut(way, i) ? cut_of[i] : -1, rank));
    }
    for (int m = 0; m < MICRO; m++) {
        const char *name = arena_printf(n->arena, "x.%d", m);
        float *x = store_at(n->store, name);
        for (int64_t j = 0; j < T * H / (cuts_tokens(way) ? RANKS : 1); j++)
            x[j] = value_of(name, whole_number(j, T, H, cuts_tokens(way) ? 0 : -1, rank));
    }
}

static void near(const char *what, double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-4 * (1 + fabs(wanted))))
        fail_msg("%s: %g, on one rank %g", what, got, wanted);
}

static double number(const Net *n, const char *name, int i)
{
    return (double)*(float *)store_at(n->store, arena_printf(n->arena, "%s.%d", name, i));
}

static void compare(const Net *alone, Rank *ranks, Way way)
{
    for (int m = 0; m < MICRO; m++)
        near("loss",
             number(&ranks[0].net, "loss", m) + (way == COPIES ? 0 : number(&ranks[1].net, "loss", m)),
             number(alone, "loss", m));
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < WEIGHTS; i++) {
            const char *name = arena_printf(alone->arena, "d.%s", weights[i]);
            const float *got = store_at(ranks[r].net.store, name), *wanted = store_at(alone->store, name);
            const int64_t columns = i ? shapes[i][1] : 1,
                          all = shapes[i][0] * columns / (is_cut(way, i) ? RANKS : 1);
            for (int64_t j = 0; j < all; j++)
                near(name, (double)got[j],
                     (double)
                         wanted[whole_number(j, shapes[i][0], columns, is_cut(way, i) ? cut_of[i] : -1, r)]);
            near("norm", number(&ranks[r].net, "norm", i), number(alone, "norm", i));
        }
}

static void two_ranks_are_one(Way way)
{
    Group group;
    pthread_t threads[RANKS];
    Rank ranks[RANKS];
    Net alone = record_net(ALONE);
    start(&alone, (ExchangeDoor){0});
    fill(&alone, ALONE, 0);
    assert_int_equal(run_program(alone.run), 0);
    pthread_barrier_init(&group.barrier, NULL, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (Rank){.group = &group, .number = i, .net = record_net(way)};
        start(&ranks[i].net, (ExchangeDoor){exchange, &ranks[i], NULL});
        fill(&ranks[i].net, way, i);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    assert_false(ranks[0].failed || ranks[1].failed);
    compare(&alone, ranks, way);
    for (int i = 0; i < RANKS; i++)
        release(&ranks[i].net);
    release(&alone);
    pthread_barrier_destroy(&group.barrier);
}

static void columns_with_parts_of_tokens(void **state_of_test)
{
    (void)state_of_test;
    two_ranks_are_one(PARTS);
}

static void columns_with_all_tokens(void **state_of_test)
{
    (void)state_of_test;
    two_ranks_are_one(COPIES);
}

static void parts_of_the_batch(void **state_of_test)
{
    (void)state_of_test;
    two_ranks_are_one(BATCH);
}

static void own_micro_batches(void **state_of_test)
{
    (void)state_of_test;
    two_ranks_are_one(OWN);
}

/* In a group of one all is whole, exchanges copy, and the bits are those without them. */
static void groups_of_one(void **state_of_test)
{
    (void)state_of_test;
    Net with = record_net(ONE), without = record_net(ALONE);
    start(&with, (ExchangeDoor){0}), start(&without, (ExchangeDoor){0});
    fill(&with, ONE, 0), fill(&without, ALONE, 0);
    assert_int_equal(run_program(with.run) + run_program(without.run), 0);
    for (int i = 0; i < WEIGHTS; i++) {
        const char *name = arena_printf(with.arena, "d.%s", weights[i]);
        assert_memory_equal(store_at(with.store, name), store_at(without.store, name),
                            (size_t)(shapes[i][0] * (i ? shapes[i][1] : 1)) * sizeof(float));
    }
    release(&with), release(&without);
}

/* ---- text, and what cannot run here ---- */

static Program *read_back(const Net *n, const char *text)
{
    const char *error;
    Program *p = step_read(n->arena, text, strlen(text), &error);
    if (!p)
        fail_msg("%s\n%s", error, text);
    return p;
}

static const char *print(const Net *n, Program *p)
{
    Text t = {.arena = n->arena};
    memory_lifetimes(p);
    step_print(p, &t);
    return text_string(&t);
}

/* The text with one piece replaced is refused by the verifier. */
static void refuse_text(const Net *n, const char *text, const char *from, const char *to, const char *words)
{
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("no `%s` in\n%s", from, text);
    Program *p =
        read_back(n, arena_printf(n->arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    const char *error = step_verify(p, n->set);
    if (!error || !strstr(error, words))
        fail_msg("`%s` for `%s`: %s", to, from, error ? error : "accepted");
}

static void text_and_verifier(void **state_of_test)
{
    (void)state_of_test;
    Net n = record_net(PARTS);
    place(&n);
    const char *text = print(&n, n.program), *error;
    assert_string_equal(text, print(&n, read_back(&n, text)));
    assert_null(step_verify(read_back(&n, text), n.set));
    assert_non_null(strstr(text, "group tp 2\n"));
    assert_non_null(strstr(text, "buffer branch.y.L0.m0 activation f32[6, 4] over tp sum"));
    assert_non_null(strstr(text, "buffer d.gain.partial gradient f32[4] over tp sum"));
    assert_non_null(
        strstr(text, "allgather tp forward L0 m0 reads x=norm.n.L0.m0 writes y=norm.n.L0.m0.allgather"));
    assert_non_null(strstr(text, "allgather tp backward L0 m1"));
    assert_non_null(strstr(text, "reducescatter tp backward L0 m1"));
    assert_non_null(strstr(text, "allreduce tp optimizer reads x=d.gain.partial writes y=d.gain\n"));
    refuse_text(&n, text, "branch.y.L0.m0 activation f32[6, 4] over tp sum",
                "branch.y.L0.m0 activation f32[6, 4]", "`y` is not placed as the kernel's equations make it");
    refuse_text(&n, text, "gain weight f32[4]", "gain weight f32[4] over tp sum",
                "not linear in a partial sum");
    refuse_text(&n, text, "gain weight f32[4]", "gain weight f32[4] over tp part 1",
                "in parts of dimension 1 is no placement");
    refuse_text(&n, text, "gain weight f32[4]", "gain weight f32[4] over tp mixed",
                "whose views are placed apart");
    refuse_text(&n, text, "gain weight f32[4]", "gain weight f32[4] over dp sum",
                "a partial sum, in a group of one");
    refuse_text(&n, text, "group tp 2", "group tp 3", "do not fit the group of 3");
    refuse_text(&n, text, "group tp 2", "group tp 0", "group tp has 0 members");
    refuse_text(&n, text, "allgather tp forward", "allreduce tp forward",
                "`x`, norm.n.L0.m0, is in parts of dimension 0");
    refuse_text(&n, text, "allgather tp forward", "allgather dp forward", "do not fit the group of 1");
    refuse_text(&n, text, "allgather tp forward", "send tp +1 forward", "it has 2 operands");
    refuse_text(&n, text, "allgather tp forward", "alltoallv tp forward", "reads no plain tensor as `sent`");
    assert_null(run_new(n.program, n.set, n.store, &(RunOptions){.threads = 1}, &error));
    assert_non_null(
        strstr(error, "(allgather over tp): its group has 2 ranks, and this program runs on one"));
    release(&n);
}

/* What each member has of its own goes into nothing that all have alike, but by a sum. */
static void own_is_refused(void **state_of_test)
{
    (void)state_of_test;
    Net n = record_net(OWN);
    place(&n);
    const char *text = print(&n, n.program);
    assert_string_equal(text, print(&n, read_back(&n, text)));
    assert_non_null(strstr(text, "allreduce dp optimizer reads x=d.a.partial writes y=d.a\n"));
    refuse_text(&n, text, "buffer norm.n.L0.m0 activation f32[3, 4] over dp own",
                "buffer norm.n.L0.m0 activation f32[3, 4]",
                "norm.n.L0.m0, which is whole, beside each member's own");
    refuse_text(&n, text, "buffer norm.n.L0.m0 activation f32[3, 4] over dp own",
                "buffer norm.n.L0.m0 activation f32[3, 4] over dp part 0",
                "norm.n.L0.m0, which is in parts of dimension 0, beside each member's own");
    refuse_text(&n, text, "gain weight f32[4]", "gain weight f32[4] over dp sum",
                "gain, which is a partial sum, beside each member's own");
    refuse_text(&n, text, "d.a.partial gradient f32[4, 8] over dp sum", "d.a.partial gradient f32[4, 8]",
                "d.a.partial, which is whole, beside each member's own");
    release(&n);
}

/* ---- rows and messages, in a group of one ---- */

static void rows_and_messages(void **state_of_test)
{
    (void)state_of_test;
    Net n = {.arena = arena_new(), .set = place_set(), .store = store_new()};
    const int64_t shape[] = {T, H}, one = 1, room[] = {T + 2, H};
    const char *error;
    Recorder *r = recorder_new(n.arena, n.set, "train", 1);
    const BufferId x = record_tensor(r, OWNER_weight, "x", MOEC_F32, 0, 2, shape),
                   counts = record_tensor(r, OWNER_input, "counts", MOEC_I32, 0, 1, &one),
                   w = record_tensor(r, OWNER_weight, "w", MOEC_F32, 0, 2, room),
                   got = record_tensor(r, OWNER_activation, "got", MOEC_F32, 0, 2, room);
    record_trainable(r, x, record_tensor(r, OWNER_gradient, "d.x", MOEC_F32, 0, 2, shape));
    const BufferId rows = record_alltoallv(r, AXIS_ep, x, counts, counts, T + 2);
    record_send(r, AXIS_pp, 1, rows);
    record_recv(r, AXIS_pp, -1, got);
    const BufferId loss = record_tensor(r, OWNER_state, "loss", MOEC_F32, 0, 0, NULL);
    const BufferId y = out(record(r, "scale_by", ARG(x, got), STOP(w, w)), "y");
    record(r, "energy", ARG(z, y), ARG(loss, loss));
    /* and another contribution to x, beside that of the exchange */
    const BufferId side = record_tensor(r, OWNER_state, "side", MOEC_F32, 0, 0, NULL);
    record(r, "energy", ARG(z, x), ARG(loss, side));
    record_seed(r, loss, record_scalar(r, "one", MOEC_F32, 1));
    record_seed(r, side, record_scalar(r, "two", MOEC_F32, 2));
    record_backward(r);
    n.program = recorder_finish(r, &error);
    if (!n.program)
        fail_msg("%s", error);
    start(&n, (ExchangeDoor){0});
    float *at = store_at(n.store, "x"), *by = store_at(n.store, "w");
    for (int i = 0; i < (T + 2) * H; i++)
        by[i] = i < T * H ? at[i] = (float)i - 3.0F, 0.5F : 7.0F;
    *(int32_t *)store_at(n.store, "counts") = T - 1;
    if (run_program(n.run))
        fail_msg("%s", run_error(n.run));
    const float *d = store_at(n.store, "d.x");
    for (int i = 0; i < T * H; i++) /* the last row was not sent */
        near("d.x", (double)d[i],
             (i < (T - 1) * H ? 3 * 0.125 : 0) * (double)(at[i] * at[i]) + 6 * (double)(at[i] * at[i]));
    *(int32_t *)store_at(n.store, "counts") = T + 1;
    assert_int_equal(run_program(n.run), 1);
    assert_non_null(strstr(run_error(n.run), "alltoallv"));
    release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_with_parts_of_tokens),
        cmocka_unit_test(columns_with_all_tokens),
        cmocka_unit_test(parts_of_the_batch),
        cmocka_unit_test(own_micro_batches),
        cmocka_unit_test(own_is_refused),
        cmocka_unit_test(groups_of_one),
        cmocka_unit_test(text_and_verifier),
        cmocka_unit_test(rows_and_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
