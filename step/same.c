#include "step/same.h"

#include <string.h>

/* Bytes lo..hi of a buffer hold those of a term, from `from` on. */
typedef struct TermPiece {
    int64_t lo, hi;
    uint64_t term;
    int64_t from;
} TermPiece;

typedef struct BufferTerms {
    Vec(TermPiece) pieces; /* disjoint, in order */
} BufferTerms;

typedef struct TermTable {
    const Program *p;
    Arena *arena;
    BufferTerms *held;          /* by buffer with memory of its own */
    uint64_t gates;             /* so far, one after the other: what is behind them depends on them */
    uint64_t count[TASK_COUNT]; /* of tasks whose results depend on their turn, not on what they read */
} TermTable;

static uint64_t mix(uint64_t term, uint64_t with)
{
    const uint64_t both[] = {term, with};
    return hash_bytes(both, sizeof both, 0);
}

static uint64_t mix_text(uint64_t term, const char *text) { return hash_bytes(text, strlen(text), term); }

static TermPiece range_of(const Program *p, BufferId b)
{
    const StepBuffer *buffer = &p->buffers.at[b];
    return (TermPiece){.lo = buffer->offset, .hi = buffer->offset + buffer->bytes};
}

/* The part of a piece inside lo..hi. */
static TermPiece cut(TermPiece piece, int64_t lo, int64_t hi)
{
    const int64_t begin = piece.lo > lo ? piece.lo : lo, end = piece.hi < hi ? piece.hi : hi;
    return (TermPiece){begin, end, piece.term, piece.from + begin - piece.lo};
}

static void write_term(TermTable *t, BufferId b, uint64_t term)
{
    const TermPiece range = range_of(t->p, b);
    BufferTerms *held = &t->held[step_home(t->p, b)], was = *held;
    *held = (BufferTerms){0};
    for (uint32_t i = 0; i < was.pieces.len; i++) {
        const TermPiece before = cut(was.pieces.at[i], INT64_MIN, range.lo);
        if (before.lo < before.hi)
            vec_push(t->arena, &held->pieces, before);
    }
    vec_push(t->arena, &held->pieces, (TermPiece){range.lo, range.hi, term, 0});
    for (uint32_t i = 0; i < was.pieces.len; i++) {
        const TermPiece behind = cut(was.pieces.at[i], range.hi, INT64_MAX);
        if (behind.lo < behind.hi)
            vec_push(t->arena, &held->pieces, behind);
    }
}

static uint64_t read_term(const TermTable *t, BufferId b)
{
    const TermPiece range = range_of(t->p, b);
    const BufferTerms *held = &t->held[step_home(t->p, b)];
    uint64_t term = 0;
    for (uint32_t i = 0; i < held->pieces.len; i++) {
        const TermPiece read = cut(held->pieces.at[i], range.lo, range.hi);
        if (read.lo < read.hi || range.lo == range.hi)
            term = mix(mix(mix(term, read.term), (uint64_t)read.from), (uint64_t)(read.lo - range.lo));
    }
    return term;
}

static int depends_on_turn(TaskKind kind)
{
    return kind == TASK_batch || kind == TASK_send || kind == TASK_recv;
}

/* What the task does, without what it reads. */
static uint64_t term_of_task(TermTable *t, const Task *task)
{
    uint64_t term =
        mix_text(task->kind, task->kernel == STEP_NONE ? "" : t->p->kernels.at[task->kernel].name);
    term = mix(mix(term, task->axis), (uint64_t)task->peer);
    if (depends_on_turn(task->kind))
        term = mix(term, ++t->count[task->kind]);
    for (uint32_t i = 0; i < task->dims.len; i++) {
        const TaskDim *d = &task->dims.at[i];
        term = mix(mix_text(term, d->name), (uint64_t)d->size);
        term = d->extent == STEP_NONE ? term : mix(term, read_term(t, d->extent));
    }
    return term;
}

static int moves_whole(const Program *p, const Task *t)
{
    return t->operands.len == 2 && t->operands.at[0].use == USE_READ && t->operands.at[1].use == USE_WRITE &&
           p->buffers.at[t->operands.at[0].buffer].base == STEP_NONE &&
           p->buffers.at[t->operands.at[1].buffer].base == STEP_NONE;
}

/* What the swap file holds is what was stored. */
static void move(TermTable *t, const Task *task)
{
    const BufferId from = task->operands.at[0].buffer, to = task->operands.at[1].buffer;
    t->held[step_home(t->p, to)] = t->held[step_home(t->p, from)];
}

static void apply(TermTable *t, const Task *task)
{
    uint64_t term = mix(term_of_task(t, task), t->gates);
    if (task_lanes[task->kind] == LANE_disk && moves_whole(t->p, task)) {
        move(t, task);
        return;
    }
    each_operand(task, o) if (use_reads(o->use)) term =
        mix(mix_text(term, o->param), read_term(t, o->buffer));
    if (task->kind == TASK_gate)
        t->gates = term;
    each_operand(task, o) if (use_writes(o->use)) write_term(t, o->buffer, mix_text(term, o->param));
}

/* Memory that persists begins with a term of its own name. */
static TermTable terms_of(const Program *p, Arena *a)
{
    TermTable t = {.p = p, .arena = a};
    t.held = arena_alloc(a, (p->buffers.len + 1) * sizeof *t.held);
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].base == STEP_NONE && step_persists(p, b))
            write_term(&t, b, mix_text(0, p->buffers.at[b].name));
    for (TaskId i = 0; i < p->tasks.len; i++)
        apply(&t, &p->tasks.at[i]);
    return t;
}

Program step_kept(const Program *p)
{
    Program copy = *p;
    copy.buffers.at = arena_alloc(p->arena, p->buffers.len * sizeof *p->buffers.at);
    memcpy(copy.buffers.at, p->buffers.at, p->buffers.len * sizeof *p->buffers.at);
    copy.buffers.cap = copy.buffers.len;
    return copy;
}

const char *step_same(const Program *a, const Program *b)
{
    const TermTable x = terms_of(a, b->arena), y = terms_of(b, b->arena);
    for (BufferId i = 0; i < a->buffers.len; i++) {
        const char *name = a->buffers.at[i].name;
        if (!step_persists(a, i))
            continue;
        const BufferId other = step_find(b, name);
        if (other == STEP_NONE)
            return arena_printf(b->arena, "buffer %s is gone", name);
        if (read_term(&x, i) != read_term(&y, other))
            return arena_printf(b->arena, "buffer %s does not become what it was before the pass", name);
    }
    return NULL;
}
