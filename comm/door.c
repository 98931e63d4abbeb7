/* The exchanges of programs, by messages of the task's group: Note [Sums in rank order] of comm.h. */
#include "comm/own.h"

#include <stdio.h>
#include <string.h>

/* One exchange of a program. */
typedef struct Deal {
    CommGroup group;
    const StepBuffer *x, *y; /* NULL where the kind has none */
    char *from, *to;
    int64_t element; /* bytes */
    int64_t kept;    /* bytes at the beginning of the scratch memory that hold something */
} Deal;

static char *scratch(const Deal *d, int64_t bytes)
{
    char *at = comm_scratch(d->group.c, d->kept + bytes);
    return at ? at + d->kept : NULL;
}

/* ---- parts ---- */

static int64_t part_begin(const Deal *d, int64_t n, int64_t place)
{
    return comm_part_begin(n, d->group.members, place);
}

/* Elements of a part from `at` on, in one slice. */
static int64_t part_slice(const Deal *d, int64_t n, int64_t place, int64_t at)
{
    const int64_t left = comm_part_elements(n, d->group.members, place) - at,
                  slice = comm_slice(d->group.members);
    return left < 0 ? 0 : left < slice ? left : slice;
}

/* Parts of one tensor lie in `runs` runs, of all members one behind the other. Copies the member's part out of it, or into it. */
static void copy_part(const Deal *d, char *whole, char *part, int64_t place, int64_t runs, int64_t run,
                      int into)
{
    for (int64_t r = 0; r < runs; r++) {
        char *there = whole + (r * d->group.members + place) * run, *here = part + r * run;
        memcpy(into ? there : here, into ? here : there, (size_t)run);
    }
}

/* ---- sums ---- */

static int add(const Deal *d, void *y, const void *const *parts, int64_t n)
{
    if (!comm_add(d->x->type, y, parts, d->group.members, n))
        return 0;
    return comm_fail(d->group.c, "%s is %s, which exchanges do not add", d->x->name,
                     step_type_name(d->x->type));
}

/* Sends each member what it adds of x and adds what comes: `size` elements of `stride` each, own: where this rank's lie. */
static int add_received(Deal *d, char *received, const char *own, int64_t stride, int64_t size, char *y)
{
    CommGroup *g = &d->group;
    const void **parts = (const void **)(void *)(received + g->members * stride);
    for (int64_t m = 0; m < g->members; m++) {
        parts[m] = m == g->place ? own : received + m * stride;
        group_receive(g, m, received + m * stride, size * d->element);
    }
    return group_exchange(g) || add(d, y, parts, size);
}

/* Scratch memory of sum_part(). */
static int64_t sum_bytes(const Deal *d)
{
    return d->group.members * (comm_slice(d->group.members) * d->element + (int64_t)sizeof(void *));
}

/* Of members' x, n elements each, the sum of this member's part. */
static int sum_part(Deal *d, const char *x, int64_t n, char *y)
{
    CommGroup *g = &d->group;
    const int64_t slice = comm_slice(g->members), stride = slice * d->element,
                  mine = part_begin(d, n, g->place);
    char *received = scratch(d, sum_bytes(d));
    int bad = !received;
    for (int64_t at = 0; at < part_begin(d, n, 1) && !bad; at += slice) {
        for (int64_t m = 0; m < g->members; m++)
            group_send(g, m, x + (part_begin(d, n, m) + at) * d->element,
                       part_slice(d, n, m, at) * d->element);
        bad = add_received(d, received, x + (mine + at) * d->element, stride, part_slice(d, n, g->place, at),
                           y + at * d->element);
    }
    return bad;
}

static int sum_small(Deal *d, int64_t n)
{
    CommGroup *g = &d->group;
    const int64_t stride = COMM_SMALL * d->element;
    char *received = scratch(d, g->members * (stride + (int64_t)sizeof(void *)));
    for (int64_t m = 0; m < g->members; m++)
        group_send(g, m, d->from, n * d->element);
    return !received || add_received(d, received, d->from, stride, n, d->to);
}

static int deal_allreduce(Deal *d)
{
    CommGroup *g = &d->group;
    const int64_t n = step_elements(d->x), mine = part_begin(d, n, g->place);
    if (n <= COMM_SMALL)
        return sum_small(d, n);
    if (sum_part(d, d->from, n, d->to + mine * d->element))
        return 1;
    for (int64_t m = 0; m < g->members; m++) {
        group_send(g, m, d->to + mine * d->element, comm_part_elements(n, g->members, g->place) * d->element);
        group_receive(g, m, d->to + part_begin(d, n, m) * d->element,
                      comm_part_elements(n, g->members, m) * d->element);
    }
    return group_exchange(g);
}

/* Where parts are not one run each, they are put together first; that copy stays at the beginning of the scratch memory. */
static int deal_reducescatter(Deal *d)
{
    const CommGroup *g = &d->group;
    const int64_t runs = step_runs(d->y, d->y->placed[g->axis]), n = step_elements(d->x);
    if (runs <= 1)
        return sum_part(d, d->from, n, d->to);
    d->kept = (d->x->bytes + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN;
    char *parts = comm_scratch(g->c, d->kept + sum_bytes(d));
    for (int64_t m = 0; m < g->members && parts; m++)
        copy_part(d, d->from, parts + m * d->y->bytes, m, runs, d->y->bytes / runs, 0);
    return !parts || sum_part(d, parts, n, d->to);
}

/* ---- what is only moved ---- */

static int deal_allgather(Deal *d)
{
    CommGroup *g = &d->group;
    const int64_t runs = step_runs(d->x, d->x->placed[g->axis]), bytes = d->x->bytes;
    char *all = runs <= 1 ? d->to : scratch(d, g->members * bytes);
    if (!all)
        return 1;
    memcpy(all + g->place * bytes, d->from, (size_t)bytes);
    for (int64_t m = 0; m < g->members; m++) {
        group_send(g, m, d->from, bytes);
        group_receive(g, m, all + m * bytes, bytes);
    }
    if (group_exchange(g))
        return 1;
    for (int64_t m = 0; m < g->members && runs > 1; m++)
        copy_part(d, d->to, all + m * bytes, m, runs, bytes / runs, 1);
    return 0;
}

static int deal_split(Deal *d)
{
    const int64_t runs = step_runs(d->y, d->y->placed[d->group.axis]);
    copy_part(d, d->from, d->to, d->group.place, runs ? runs : 1, d->y->bytes / (runs ? runs : 1), 0);
    return 0;
}

/* The sum of the members' numbers of rows; -1: some are no such numbers. */
static int64_t all_rows(const int32_t *rows, int64_t members)
{
    int64_t sum = 0;
    for (int64_t m = 0; m < members; m++) {
        if (rows[m] < 0)
            return -1;
        sum += rows[m];
    }
    return sum;
}

/* The operands are x, sent, received, y. Messages without rows are sent too, so that numbers that do not agree are found. */
static int deal_alltoallv(Deal *d, const int32_t *sent, const int32_t *received, int has_extent)
{
    CommGroup *g = &d->group;
    const int64_t row = d->x->shape[0] ? d->x->bytes / d->x->shape[0] : 0, out = all_rows(sent, g->members),
                  in = all_rows(received, g->members);
    int64_t from = 0, to = 0;
    if (out < 0 || in < 0 || out > d->x->shape[0] || in > d->y->shape[0] ||
        sent[g->place] != received[g->place])
        return comm_fail(g->c,
                         "rank %lld sends %lld rows of the %lld of %s and receives %lld where %s has room "
                         "for %lld, or its own differ",
                         (long long)g->c->rank, (long long)out, (long long)d->x->shape[0], d->x->name,
                         (long long)in, d->y->name, (long long)d->y->shape[0]);
    for (int64_t m = 0; m < g->members; m++) {
        if (m == g->place)
            memcpy(d->to + to * row, d->from + from * row, (size_t)(sent[m] * row));
        group_send(g, m, d->from + from * row, sent[m] * row);
        group_receive(g, m, d->to + to * row, received[m] * row);
        from += sent[m], to += received[m];
    }
    if (!has_extent)
        memset(d->to + in * row, 0, (size_t)(d->y->bytes - in * row));
    return group_exchange(g);
}

static int64_t peer_place(const CommGroup *g, int32_t peer)
{
    return ranks_in_ring(g->members, g->place + peer);
}

/* ---- the door ---- */

static int deal(Deal *d, const Task *t, void *const *buffers)
{
    CommGroup *g = &d->group;
    switch (t->kind) {
    case TASK_copy: memcpy(d->to, d->from, (size_t)d->x->bytes); return 0;
    case TASK_split: return deal_split(d);
    case TASK_allreduce: return deal_allreduce(d);
    case TASK_allgather: return deal_allgather(d);
    case TASK_reducescatter: return deal_reducescatter(d);
    case TASK_alltoallv: return deal_alltoallv(d, buffers[1], buffers[2], t->dims.len > 0);
    case TASK_send: group_send(g, peer_place(g, t->peer), d->from, d->x->bytes); return group_exchange(g);
    case TASK_recv: group_receive(g, peer_place(g, t->peer), d->to, d->y->bytes); return group_exchange(g);
    case TASK_kernel:
    case TASK_batch:
    case TASK_gate:
    case TASK_store:
    case TASK_load:
    case TASK_COUNT: break;
    }
    return comm_fail(g->c, "%s is no exchange", task_names[t->kind]);
}

static int exchange(void *comm, const Program *p, const Task *t, void *const *buffers)
{
    char what[64];
    const uint32_t number = (uint32_t)(t - p->tasks.at), last = t->operands.len - 1;
    snprintf(what, sizeof what, "task %u (%s)", number, task_names[t->kind]);
    Deal d = {.group = group_of(comm, (int)t->axis, what, (int)(number % (WIRE_TAGS - 1)))};
    if (exchange_rules[t->kind].takes != EXCHANGED_NOTHING)
        d.x = &p->buffers.at[t->operands.at[0].buffer], d.from = buffers[0];
    if (exchange_rules[t->kind].gives != EXCHANGED_NOTHING)
        d.y = &p->buffers.at[t->operands.at[last].buffer], d.to = buffers[last];
    d.element = step_type_bytes(d.x ? d.x->type : d.y->type);
    return deal(&d, t, buffers);
}

static const char *why(void *comm) { return comm_error(comm); }

ExchangeDoor comm_door(Comm *c) { return (ExchangeDoor){exchange, c, why}; }
