/* Which items of a launch the model looks at.
 *
 * Note [Sampling]. A call of real size has hundreds of millions of operations, one of many like the other. What the model
 * looks at may cost SAMPLE_COST: a launch that would take more than half of what is left is looked at in *rounds*, an item
 * for each core. Whenever there are too many, half of the rounds go, chosen by a hash of their number, so that no pattern of
 * the items meets one of the choice. Where one round is too much, its last items go; of an item its last operations. What
 * stays stands for all: simulate.c scales times by rounds, and bytes by items. Items that write numbers the program goes by,
 * and those of the modes that do the work, all run; these modes note no operations. */
#include "emulator/emulator_own.h"

#include <string.h>

enum {
    SAMPLE_COST =
        1 << 22, /* of a call: operations, each with 1 more for LINES of memory; some 300 MB, and seconds */
    SAMPLE_LEAST = 1 << 16, /* and of a launch, whatever those before it took */
    LINES = 32,
    ITEM_OPS = 1 << 20, /* of one item */
};

/* An item that was looked at: operations `first` to `first + n` of its core. */
typedef struct SampledItem {
    int64_t round;
    uint32_t core, first, n;
    int64_t cost, given;
} SampledItem;

struct Sample {
    Vec(SampledItem) items;
    int64_t left, most; /* cost: of the call, of this launch */
    int64_t cost;       /* of this launch, but for the open item */
    int64_t ops, noted; /* of all items that were looked at, and of these those that are in the trace */
    uint32_t halvings;
    int open; /* the last item may still grow */
    int all;  /* everything is looked at */
    Op spare; /* what is not noted */
};

static LaunchTrace *current(Emulator *e) { return &e->trace.launches.at[e->trace.launches.len - 1]; }

static int is_number_in_memory(const Emulator *e, TensorId t)
{
    return e->k->tensors.at[t].space != SPACE_REG && elem_type(e->k->tensors.at[t].elem) == TY_INT;
}

/* Does a statement write what the program goes by (routes, choices, numbers in memory), or check it? */
static int makes_numbers(const Emulator *e, StmtId first)
{
    tile_walk (w, e->k, first) {
        if (w.s->kind == TILE_check)
            return 1;
        tile_each_operand (o, w.s)
            if (o.role == OPERAND_ROUTE || (o.role == OPERAND_WRITTEN && is_number_in_memory(e, o.id)))
                return 1;
    }
    return 0;
}

void sample_launch(Emulator *e)
{
    if (!e->sample) {
        e->sample = arena_new_of(e->a, struct Sample);
        e->sample->left = SAMPLE_COST;
    }
    struct Sample *s = e->sample;
    const LaunchTrace *t = current(e);
    s->left -= s->cost;
    s->most = s->left / 2 > SAMPLE_LEAST ? s->left / 2 : SAMPLE_LEAST;
    s->items.len = s->halvings = 0;
    s->cost = s->ops = s->noted = s->open = 0;
    s->all = e->mode != EMULATE_MODEL || t->place == ON_HOST ||
             makes_numbers(e, emulator_stmt(e, t->launch)->first);
}

/* The first round always; a round that is in the sample after a halving was in it before. */
static int is_in(int64_t round, uint32_t halvings)
{
    uint64_t mask = ((uint64_t)1 << halvings) - 1;
    return round == 0 || (hash_bytes(&round, sizeof round, 0) & mask) == 0;
}

static int64_t cost_of(const Emulator *e, const Op *op)
{
    int moves = op->path < PATH_COUNT || core_is_access(op);
    return 1 + (moves ? op->a * op->b / (e->machine->align.line * LINES) : 0);
}

static void close_item(Emulator *e)
{
    struct Sample *s = e->sample;
    if (!s->open)
        return;
    SampledItem *last = &s->items.at[s->items.len - 1];
    const Ops *ops = &current(e)->ops[last->core];
    last->n = ops->len - last->first;
    last->given = e->given[last->core] - last->given;
    for (uint32_t i = last->first; i < ops->len; i++)
        last->cost += cost_of(e, &ops->at[i]);
    s->cost += last->cost;
    s->open = 0;
}

/* Half of the rounds go, and what they did with them. */
static void halve(Emulator *e)
{
    struct Sample *s = e->sample;
    LaunchTrace *t = current(e);
    uint32_t kept = 0;
    s->halvings++;
    for (uint32_t c = 0; c < t->ncores; c++)
        t->ops[c].len = 0;
    s->cost = 0;
    for (uint32_t i = 0; i < s->items.len; i++) {
        SampledItem x = s->items.at[i];
        Ops *ops = &t->ops[x.core];
        if (!is_in(x.round, s->halvings)) {
            e->given[x.core] -= x.given;
            continue;
        }
        memmove(ops->at + ops->len, ops->at + x.first, sizeof *ops->at * x.n);
        x.first = ops->len;
        ops->len += x.n;
        s->cost += x.cost;
        s->items.at[kept++] = x;
    }
    s->items.len = kept;
}

int sample_item(Emulator *e)
{
    struct Sample *s = e->sample;
    LaunchTrace *t = current(e);
    int64_t round = e->items / t->ncores;
    if (s->all)
        return 1;
    close_item(e);
    while (s->cost > s->most && s->items.at[s->items.len - 1].round > 0 && s->halvings < 60)
        halve(e);
    if (!is_in(round, s->halvings) || (s->cost > s->most && round == 0))
        return 0;
    SampledItem x = {
        .round = round, .core = e->core, .first = t->ops[e->core].len, .given = e->given[e->core]};
    vec_push(e->a, &s->items, x);
    s->open = 1;
    return 1;
}

Op *sample_op(Emulator *e, Op op)
{
    struct Sample *s = e->sample;
    Ops *ops = &current(e)->ops[e->core];
    s->ops++;
    if (e->mode != EMULATE_MODEL || (s->open && ops->len - s->items.at[s->items.len - 1].first >= ITEM_OPS)) {
        s->spare = op;
        return &s->spare;
    }
    s->noted++;
    vec_push(e->a, ops, op);
    return &ops->at[ops->len - 1];
}

/* How many items, and how many items of the busiest core, one that was looked at stands for. */
void sample_end(Emulator *e)
{
    struct Sample *s = e->sample;
    LaunchTrace *t = current(e);
    close_item(e);
    t->looked_at = s->all ? e->items : s->items.len;
    t->work_scale = t->time_scale = 1;
    if (s->all || !s->items.len)
        return;
    double whole = (double)s->ops / (double)(s->noted ? s->noted : 1);
    t->work_scale = whole * (double)e->items / s->items.len;
    t->time_scale = t->work_scale;
    if (s->items.len < t->ncores)
        t->time_scale = whole * (double)((e->items + t->ncores - 1) / t->ncores);
}
