/* Flags as the trace notes them: which wait is ended by which set. What a checker knows of them: check_flag.c. */
#include "emulator/emulator_own.h"

enum { SUBS_MAX = 16 }; /* of a core: itself, and the vector cores beside it */

/* A flag that a unit of `sub` sets. seen: how many of its sets each sub has waited for. */
typedef struct UnitFlag {
    uint32_t core, sub;
    uint8_t unit, other;
    TensorId buffer;
    int64_t slot;
    int64_t sets, seen[SUBS_MAX];
} UnitFlag;
struct Flags {
    Vec(UnitFlag) at;
    uint32_t *table; /* open addressing: number + 1 */
    uint32_t size;
};

void flags_begin(Emulator *e) { e->flags = arena_new_of(e->a, struct Flags); }

static uint32_t hash_flag(const UnitFlag *f)
{
    uint64_t key[3] = {(uint64_t)f->core << 32 | f->sub,
                       (uint64_t)f->buffer << 16 | (uint64_t)f->unit << 8 | f->other, (uint64_t)f->slot};
    return (uint32_t)hash_bytes(key, sizeof key, 1);
}

static int same_flag(const UnitFlag *a, const UnitFlag *b)
{
    return a->core == b->core && a->sub == b->sub && a->unit == b->unit && a->other == b->other &&
           a->buffer == b->buffer && a->slot == b->slot;
}

static void grow(Emulator *e)
{
    struct Flags *x = e->flags;
    x->size = x->size ? 2 * x->size : 256;
    x->table = arena_array(e->a, uint32_t, x->size);
    for (uint32_t n = 0; n < x->at.len; n++) {
        uint32_t i = hash_flag(&x->at.at[n]) & (x->size - 1);
        while (x->table[i])
            i = (i + 1) & (x->size - 1);
        x->table[i] = n + 1;
    }
}

static UnitFlag *flag_of(Emulator *e, UnitFlag want)
{
    struct Flags *x = e->flags;
    if (2 * x->at.len >= x->size)
        grow(e);
    uint32_t i = hash_flag(&want) & (x->size - 1);
    while (x->table[i] && !same_flag(&x->at.at[x->table[i] - 1], &want))
        i = (i + 1) & (x->size - 1);
    if (!x->table[i]) {
        vec_push(e->a, &x->at, want);
        x->table[i] = x->at.len;
    }
    return &x->at.at[x->table[i] - 1];
}

/* Who fills the buffer: flags towards that unit begin set, but for those of the scalar unit, which runs the program. */
int flag_begins_set(const Kernel *k, const Stmt *s)
{
    Space space = k->tensors.at[s->buffer].space;
    if (s->unit == UNIT_scalar || s->other_unit == UNIT_scalar)
        return 0;
    switch (space) {
    case SPACE_L1: return s->other_unit == UNIT_mte2;
    case SPACE_L0A:
    case SPACE_L0B: return s->other_unit == UNIT_mte1;
    case SPACE_L0C: return s->other_unit == UNIT_cube;
    case SPACE_UB: return s->unit == UNIT_mte3 || s->other_unit == UNIT_mte2;
    case SPACE_GM:
    case SPACE_WORK:
    case SPACE_THREAD: return s->other_unit == UNIT_fix;
    case SPACE_REG:
    case SPACE_COUNT: break;
    }
    return 0;
}

static void note_flag(Emulator *e, StmtId id, const UnitFlag *f, int64_t n)
{
    const Stmt *s = emulator_stmt(e, id);
    int set = s->kind == TILE_set;
    Op *op = emulator_op(e, id, set ? (Unit)s->unit : (Unit)s->other_unit);
    op->other = set ? s->other_unit : s->unit;
    op->a = f ? (f - e->flags->at.at) << 32 | n : 0;
    op->b = !f;
}

/* A wait is over when every set is that this sub has not waited for: those of its own units and of the cube core's; in the cube
 * core, those of all vector cores beside it. */
static void event_wait(Emulator *e, StmtId id, UnitFlag want)
{
    uint32_t found = 0, subs = (uint32_t)(e->machine->cores.vector / e->machine->cores.cube);
    for (uint32_t sub = 0; sub <= subs && sub < SUBS_MAX; sub++) {
        if (e->sub && sub && sub != e->sub)
            continue;
        want.sub = sub;
        UnitFlag *f = flag_of(e, want);
        if (f->seen[e->sub] == f->sets)
            continue;
        f->seen[e->sub] = f->sets;
        note_flag(e, id, f, f->sets - 1);
        found++;
    }
    if (!found) /* a flag that begins set, or a plan that would stand still: checker_flag says so */
        note_flag(e, id, NULL, 0);
}

void emulator_flag(Emulator *e, StmtId id, const FlagEvent *v)
{
    const Stmt *s = emulator_stmt(e, id);
    UnitFlag want = {.core = e->core,
                     .sub = e->sub,
                     .unit = s->unit,
                     .other = s->other_unit,
                     .buffer = s->buffer,
                     .slot = v->slot};
    if (e->check)
        checker_flag(e->check, id, e->sub, v->slot);
    if (s->kind == TILE_wait) {
        event_wait(e, id, want);
        return;
    }
    UnitFlag *f = flag_of(e, want);
    note_flag(e, id, f, f->sets++);
}
