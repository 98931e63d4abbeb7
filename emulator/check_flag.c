/* Flags: who waits for whom, Note [Plans] in ir/tile.h. */
#include "emulator/check_own.h"

#include <string.h>

/* ---- the flags of a launch ---- */

static uint32_t flag_kind(Checker *c, const Stmt *s, Crossing crossing)
{
    for (uint32_t i = 0; i < c->flags.len; i++) {
        const FlagKind *f = &c->flags.at[i];
        if (f->from == (Unit)s->unit && f->to == (Unit)s->other_unit && f->buffer == s->buffer &&
            f->crossing == crossing)
            return i;
    }
    FlagKind f = {.from = (Unit)s->unit,
                  .to = (Unit)s->other_unit,
                  .buffer = s->buffer,
                  .crossing = crossing,
                  .slots = 1,
                  .first = c->nflags,
                  .begins_set = flag_begins_set(c->k, s)};
    if (s->nindex)
        ext_eval(c->k->module, c->k->tensors.at[s->buffer].axes[0].extent, c->dims, &f.slots);
    c->nflags += (uint32_t)f.slots * c->subs;
    vec_push(c->arena, &c->flags, f);
    return c->flags.len - 1;
}

/* A set or a wait of the launch, in the order of its text. */
typedef struct FlagPlace {
    StmtId stmt;
    int in_split;
} FlagPlace;
typedef Vec(FlagPlace) FlagPlaces;

static void find_in(Checker *c, StmtId first, int in_split, FlagPlaces *out)
{
    tile_each (id, c->k, first) {
        const Stmt *s = tile_at(c->k, id);
        if (s->kind == TILE_set || s->kind == TILE_wait)
            vec_push(c->arena, out, (FlagPlace){id, in_split});
        else if ((s->kind == TILE_store || s->kind == TILE_pack) && tile_unit(c->k, s) == UNIT_scalar)
            c->loose[s->buffer] |= c->k->tensors.at[s->buffer].space == SPACE_THREAD;
        else if (s->kind == TILE_top)
            c->loose[s->buffer] = c->loose[s->second] = 1;
        if (tile_has_body(s))
            find_in(c, s->first, in_split || (s->kind == TILE_for && s->mode == LOOP_SPLIT), out);
    }
}

static int is_partner(const Stmt *a, const Stmt *b)
{
    return a->kind != b->kind && a->unit == b->unit && a->other_unit == b->other_unit &&
           a->buffer == b->buffer;
}

/* The sides of a set and the wait that ends it: the next one of the text, behind its last statement the first one. */
static Crossing crossing(const Checker *c, const FlagPlaces *p, uint32_t n)
{
    const Stmt *s = &c->k->tiles->stmts.at[p->at[n].stmt];
    int is_set = s->kind == TILE_set, self = p->at[n].in_split;
    for (uint32_t i = 1; i < p->len; i++) {
        const FlagPlace *other = &p->at[(is_set ? n + i : n + p->len - i) % p->len];
        if (is_partner(s, &c->k->tiles->stmts.at[other->stmt]))
            return other->in_split == self ? CROSS_NONE
                   : self == is_set        ? CROSS_FROM_VECTOR
                                           : CROSS_TO_VECTOR;
    }
    return CROSS_NONE;
}

void check_find_flags(Checker *c)
{
    FlagPlaces places = {0};
    c->flags.len = c->nflags = 0;
    memset(c->loose, 0, c->k->tensors.len);
    find_in(c, c->k->tiles->stmts.at[c->launch].first, 0, &places);
    for (uint32_t i = 0; i < places.len; i++) {
        StmtId id = places.at[i].stmt;
        c->flag_of[id] = flag_kind(c, &c->k->tiles->stmts.at[id], crossing(c, &places, i));
    }
}

/* ---- their states ---- */

static void begin(Checker *c, CheckCore *core)
{
    core->flags_launch = c->nlaunches;
    core->flags = arena_array(c->arena, CheckFlag, c->nflags);
    for (uint32_t i = 0; i < c->flags.len; i++) {
        const FlagKind *f = &c->flags.at[i];
        for (uint32_t n = f->first; n < f->first + (uint32_t)f->slots * c->subs; n++)
            core->flags[n] =
                (CheckFlag){(uint8_t)f->begins_set, NONE, arena_array(c->arena, uint32_t, c->threads)};
    }
}

static CheckFlag *flag_at(Checker *c, const FlagKind *f, int64_t slot, uint32_t sub)
{
    CheckCore *core = check_core(c);
    if (core->flags_launch != c->nlaunches)
        begin(c, core);
    return &core->flags[f->first + (uint32_t)slot * c->subs + sub];
}

static const char *flag_text(const Checker *c, const FlagKind *f, int64_t slot)
{
    return arena_printf(c->arena, "the flag %s -> %s of slot %lld of %s", unit_name(f->from),
                        unit_name(f->to), (long long)slot, c->k->tensors.at[f->buffer].name);
}

static void set(Checker *c, const FlagKind *f, CheckFlag *flag, StmtId stmt, int64_t slot,
                const uint32_t *knows)
{
    if (flag->set) {
        check_fail(c, "set twice: %s sets %s, and nobody has waited for it since %s",
                   check_stmt_text(c, stmt), flag_text(c, f, slot),
                   flag->by == NONE ? "the launch began, when it is set" : check_stmt_text(c, flag->by));
        return;
    }
    flag->set = 1;
    flag->by = stmt;
    for (uint32_t t = 0; t < c->threads; t++)
        flag->knows[t] = knows[t];
}

static void wait_for(Checker *c, const FlagKind *f, CheckFlag *flag, StmtId stmt, int64_t slot,
                     uint32_t *knows)
{
    if (!flag->set) {
        check_fail(c, "deadlock: %s never ends: nobody has set %s since %s", check_stmt_text(c, stmt),
                   flag_text(c, f, slot),
                   flag->by == NONE ? "the launch began" : check_stmt_text(c, flag->by));
        return;
    }
    flag->set = 0;
    flag->by = stmt;
    for (uint32_t t = 0; t < c->threads; t++)
        if (knows[t] < flag->knows[t])
            knows[t] = flag->knows[t];
}

void checker_flag(Checker *c, StmtId stmt, uint32_t sub, int64_t slot)
{
    const Stmt *s = &c->k->tiles->stmts.at[stmt];
    if (c->error)
        return;
    const FlagKind *f = &c->flags.at[c->flag_of[stmt]];
    if (sub >= c->subs || slot < 0 || slot >= f->slots) {
        check_fail(c, "overflow: %s is about slot %lld of %s, which has %lld", check_stmt_text(c, stmt),
                   (long long)slot, c->k->tensors.at[f->buffer].name, (long long)f->slots);
        return;
    }
    int is_set = s->kind == TILE_set;
    uint32_t self = check_thread(sub, is_set ? f->from : f->to);
    uint32_t *knows = check_core(c)->knows + (size_t)self * c->threads;
    int all = f->crossing == (is_set ? CROSS_TO_VECTOR : CROSS_FROM_VECTOR);
    for (uint32_t i = all ? 1 : sub; i < (all ? c->subs : sub + 1); i++) {
        CheckFlag *flag = flag_at(c, f, slot, i);
        if (is_set)
            set(c, f, flag, stmt, slot, knows);
        else
            wait_for(c, f, flag, stmt, slot, knows);
    }
    knows[self] += (uint32_t)is_set;
}

static int is_lost(const FlagKind *f, const CheckFlag *flag)
{
    return flag->by != NONE && flag->set != f->begins_set;
}

void check_flags_rest(Checker *c)
{
    CheckCore *core = check_core(c);
    if (core->flags_launch != c->nlaunches)
        return;
    for (uint32_t i = 0; i < c->flags.len; i++) {
        const FlagKind *f = &c->flags.at[i];
        for (uint32_t n = 0; n < (uint32_t)f->slots * c->subs; n++) {
            const CheckFlag *flag = &core->flags[f->first + n];
            if (is_lost(f, flag))
                check_fail(c, "flag left %s: the item ends, and after %s nobody %s %s",
                           flag->set ? "set" : "cleared", check_stmt_text(c, flag->by),
                           flag->set ? "waits for" : "sets", flag_text(c, f, n / c->subs));
        }
    }
}
