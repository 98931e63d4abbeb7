/* Several ranks exchange by a door of their own, without a model: started by tests/train_ranks.py under mpirun with the name of a
 * case. Prints what is wrong and ends all ranks. */
#include "comm/comm.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Probe {
    Arena *arena;
    Comm *comm;
    ExchangeDoor door;
    int64_t ranks, rank;
} Probe;

static int fail(Probe *p, const char *what, int64_t i, double got, double wanted)
{
    fprintf(stderr, "probe: rank %d: %s [%d] is %g, not %g\n", (int)p->rank, what, (int)i, got, wanted);
    return 1;
}

/* A program of one exchange over dp. */
static Program *program_of(Probe *p, TaskKind kind, int peer)
{
    Program *program = step_new(p->arena, "probe");
    program->members[AXIS_dp] = p->ranks;
    vec_push(p->arena, &program->tasks,
             (Task){.kind = kind, .axis = AXIS_dp, .peer = peer, .kernel = STEP_NONE});
    return program;
}

static void add_tensor(Probe *p, Program *program, const char *name, moec_type type, int64_t rows,
                       int64_t columns, Placement placed)
{
    StepBuffer b = {.name = name, .type = type, .rank = 2, .shape = {rows, columns}, .base = STEP_NONE};
    b.bytes = rows * columns * step_type_bytes(type);
    b.placed[AXIS_dp] = placed;
    const BufferId id = step_add(program, b);
    vec_push(p->arena, &program->tasks.at[0].operands, (Operand){name, id, USE_READ});
}

static int go(Probe *p, Program *program, void *const *buffers)
{
    if (!p->door.exchange(p->door.self, program, program->tasks.at, buffers))
        return 0;
    fprintf(stderr, "probe: %s\n", p->door.why(p->door.self));
    return 1;
}

/* Thirds and large numbers, so that another order of additions has other bits. */
static float value(int64_t rank, int64_t i)
{
    return (float)(i % 7 == 0 ? 1 << 20 : 1) * (float)(rank + 1) / 3.0F + (float)(i % 1001) / 7.0F;
}

/* The sum in rank order. */
static float summed(const Probe *p, int64_t i)
{
    float sum = value(0, i);
    for (int64_t r = 1; r < p->ranks; r++)
        sum += value(r, i);
    return sum;
}

static float *filled(const Probe *p, int64_t n)
{
    float *x = arena_array(p->arena, float, n + 1);
    for (int64_t i = 0; i < n; i++)
        x[i] = value(p->rank, i);
    return x;
}

static int same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

static int sums(Probe *p)
{
    static const int64_t sizes[] = {1, 3, 4096, 4099, 1200011}; /* small, uneven, several slices */
    int bad = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && !bad; s++) {
        Program *program = program_of(p, TASK_allreduce, 0);
        add_tensor(p, program, "x", MOEC_F32, sizes[s], 1, PLACED_SUM);
        add_tensor(p, program, "y", MOEC_F32, sizes[s], 1, PLACED_WHOLE);
        float *y = arena_array(p->arena, float, sizes[s]);
        bad = go(p, program, (void *[]){filled(p, sizes[s]), y});
        for (int64_t i = 0; i < sizes[s] && !bad; i++)
            if (!same(y[i], summed(p, i)))
                bad = fail(p, "allreduce", i, (double)y[i], (double)summed(p, i));
    }
    return bad;
}

/* Row and column of element i of part `rank` of a [rows, columns], cut along dim: its number in the whole. */
static int64_t whole_number(const Probe *p, int64_t i, int64_t rank, int64_t rows, int64_t columns, int dim)
{
    const int64_t width = dim ? columns / p->ranks : columns;
    const int64_t row = i / width + (dim ? 0 : rank * (rows / p->ranks)),
                  column = i % width + (dim ? rank * width : 0);
    return row * columns + column;
}

static int parts(Probe *p)
{
    const int64_t rows = 6 * p->ranks, columns = 5 * p->ranks, n = rows * columns, part = n / p->ranks;
    int bad = 0;
    for (int dim = 0; dim < 2 && !bad; dim++) {
        const int64_t r = dim ? rows : rows / p->ranks, c = dim ? columns / p->ranks : columns;
        Program *scatter = program_of(p, TASK_reducescatter, 0), *gather = program_of(p, TASK_allgather, 0);
        float *x = filled(p, n), *y = arena_array(p->arena, float, part),
              *all = arena_array(p->arena, float, n);
        add_tensor(p, scatter, "x", MOEC_F32, rows, columns, PLACED_SUM);
        add_tensor(p, scatter, "y", MOEC_F32, r, c, PLACED_PART(dim));
        add_tensor(p, gather, "x", MOEC_F32, r, c, PLACED_PART(dim));
        add_tensor(p, gather, "y", MOEC_F32, rows, columns, PLACED_WHOLE);
        bad = go(p, scatter, (void *[]){x, y}) || go(p, gather, (void *[]){y, all});
        for (int64_t i = 0; i < part && !bad; i++)
            if (!same(y[i], summed(p, whole_number(p, i, p->rank, rows, columns, dim))))
                bad = fail(p, "reducescatter", i, (double)y[i], 0);
        for (int64_t i = 0; i < n && !bad; i++)
            if (!same(all[i], summed(p, i)))
                bad = fail(p, "allgather", i, (double)all[i], (double)summed(p, i));
    }
    return bad;
}

/* bf16 is added in f32 and rounded once: 256 + 1 + 1 is 258, and 257 alone would become 256. */
static int halves(Probe *p)
{
    uint16_t x[3] = {p->rank ? 0x3f80 : 0x4380, 0x3f80, 0x7fc0}, y[3];
    Program *program = program_of(p, TASK_allreduce, 0);
    add_tensor(p, program, "x", MOEC_BF16, 3, 1, PLACED_SUM);
    add_tensor(p, program, "y", MOEC_BF16, 3, 1, PLACED_WHOLE);
    if (go(p, program, (void *[]){x, y}))
        return 1;
    if (p->ranks == 3 && y[0] != 0x4381)
        return fail(p, "bf16", 0, y[0], 0x4381);
    return (y[2] & 0x7f80) == 0x7f80 && (y[2] & 0x7f) ? 0
                                                      : fail(p, "bf16 that is no number", 2, y[2], 0x7fc0);
}

/* Rank r sends m + 2 r rows to member m, each with both numbers. wrong: the last rank expects a row more of the first. */
static int rows(Probe *p, int wrong)
{
    enum { ROOM = 64 };
    int32_t sent[8], received[8];
    float x[ROOM * 2], y[ROOM * 2];
    int64_t at = 0;
    for (int64_t m = 0; m < p->ranks; m++) {
        sent[m] = (int32_t)(m + 2 * p->rank), received[m] = (int32_t)(p->rank + 2 * m);
        for (int32_t i = 0; i < sent[m]; i++, at++)
            x[2 * at] = (float)p->rank, x[2 * at + 1] = (float)m;
    }
    received[0] += wrong && p->rank == p->ranks - 1;
    Program *program = program_of(p, TASK_alltoallv, 0);
    add_tensor(p, program, "x", MOEC_F32, ROOM, 2, PLACED_PART(0));
    add_tensor(p, program, "sent", MOEC_I32, p->ranks, 1, PLACED_WHOLE);
    add_tensor(p, program, "received", MOEC_I32, p->ranks, 1, PLACED_WHOLE);
    add_tensor(p, program, "y", MOEC_F32, ROOM, 2, PLACED_PART(0));
    if (go(p, program, (void *[]){x, sent, received, y}))
        return 1;
    at = 0;
    for (int64_t m = 0; m < p->ranks; m++)
        for (int32_t i = 0; i < received[m]; i++, at++)
            if (!same(y[2 * at], (float)m) || !same(y[2 * at + 1], (float)p->rank))
                return fail(p, "row", at, (double)y[2 * at], (double)m);
    for (; at < ROOM; at++)
        if (!same(y[2 * at], 0))
            return fail(p, "row behind the last", at, (double)y[2 * at], 0);
    return 0;
}

/* Around the ring: all but the last send first. */
static int ring(Probe *p)
{
    float x = (float)p->rank, y = -1;
    Program *to = program_of(p, TASK_send, 1), *from = program_of(p, TASK_recv, -1);
    add_tensor(p, to, "x", MOEC_F32, 1, 1, PLACED_WHOLE);
    add_tensor(p, from, "y", MOEC_F32, 1, 1, PLACED_WHOLE);
    const int last = p->rank == p->ranks - 1;
    const float before = (float)((p->rank + p->ranks - 1) % p->ranks);
    if ((last ? go(p, from, (void *[]){&y}) : go(p, to, (void *[]){&x})) ||
        (last ? go(p, to, (void *[]){&x}) : go(p, from, (void *[]){&y})))
        return 1;
    return same(y, before) ? 0 : fail(p, "ring", 0, (double)y, (double)before);
}

/* All ranks of a machine have one clock. */
static int clocks(Probe *p)
{
    CommClock *all = arena_array(p->arena, CommClock, p->ranks);
    if (comm_clocks(p->comm, all)) {
        fprintf(stderr, "probe: %s\n", comm_error(p->comm));
        return 1;
    }
    for (int64_t r = 1; r < p->ranks && !p->rank; r++)
        if (!(fabs(all[r].ahead) <= all[r].error && all[r].error > 0 && all[r].error < 0.5))
            return fail(p, "clock", r, all[r].ahead, all[r].error);
    return 0;
}

/* What a rank has for the first one. */
static int fetched(Probe *p)
{
    const int64_t mine = 3 * p->rank;
    int64_t got = 0;
    int bad = p->rank && comm_fetch(p->comm, "a number", p->rank, &mine, sizeof mine, NULL);
    for (int64_t r = 1; r < p->ranks && !p->rank && !bad; r++) {
        bad = comm_fetch(p->comm, "a number", r, NULL, sizeof got, &got);
        if (!bad && got != 3 * r)
            bad = fail(p, "fetched", r, (double)got, (double)(3 * r));
    }
    return bad;
}

static int exchanges(Probe *p)
{
    return sums(p) || parts(p) || halves(p) || rows(p, 0) || ring(p) || clocks(p) || fetched(p);
}
static int more_rows(Probe *p) { return rows(p, 1); }

/* The first rank sums more elements than the others. */
static int more_elements(Probe *p)
{
    const int64_t n = 8 + 8 * !p->rank;
    Program *program = program_of(p, TASK_allreduce, 0);
    float *y = arena_array(p->arena, float, n);
    add_tensor(p, program, "x", MOEC_F32, n, 1, PLACED_SUM);
    add_tensor(p, program, "y", MOEC_F32, n, 1, PLACED_WHOLE);
    return go(p, program, (void *[]){filled(p, n), y});
}

/* The last rank does not come. */
static int absent(Probe *p)
{
    if (p->rank == p->ranks - 1)
        pause();
    return sums(p);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(Probe *);
    } cases[] = {{"exchanges", exchanges},
                 {"more_rows", more_rows},
                 {"more_elements", more_elements},
                 {"absent", absent}};
    Probe p = {.arena = arena_new()};
    const char *error;
    int bad = argc != 2;
    p.comm = comm_open(p.arena, &(CommOptions){.timeout = 1}, &error);
    if (!p.comm) {
        fprintf(stderr, "probe: %s\n", error);
        return 1;
    }
    p.door = comm_door(p.comm), p.ranks = comm_ranks(p.comm)->number, p.rank = comm_rank(p.comm);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !bad; i++)
        bad = !strcmp(cases[i].name, argv[1]) && cases[i].run(&p);
    comm_close(p.comm, bad);
    arena_free(p.arena);
    return bad;
}
