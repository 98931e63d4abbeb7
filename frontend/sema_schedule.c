/* schedule blocks: the form of each clause, by the rows of ir/schedule.def; then whether it fits its kernel. */
#include "frontend/words.h"

#include <string.h>

enum { MAX_SCHEDULED = 1024 }; /* tensors and pairs of them that one block speaks of */

/* What a block has said so far: knob, tensor and reader. */
typedef struct Said {
    Knob knob;
    Name name, reader;
} Said;

typedef struct ScheduleCheck {
    WordReader r;
    Schedule out;
    Clause clause;
    Vec(Said) said;
} ScheduleCheck;

/* ---- values ---- */

/* The number of a word of the knob's, or -1. */
static int64_t word_value(const KnobRow *row, const char *text)
{
    int64_t n = 0;
    size_t len = strlen(text);
    for (const char *at = row->words; *at; n++) {
        size_t next = strcspn(at, " ");
        if (next == len && strncmp(at, text, len) == 0)
            return n;
        at += next + (at[next] == ' ');
    }
    return -1;
}

/* `prologue`, `epilogue` or `scatter` */
static const char *words_wanted(ScheduleCheck *s, const KnobRow *row)
{
    Text t = {.arena = s->r.c->arena};
    for (const char *at = row->words; *at;) {
        size_t len = strcspn(at, " ");
        const char *between = at == row->words ? "" : at[len] ? ", " : " or ";
        text_add(&t, "%s`%.*s`", between, (int)len, at);
        at += len + (at[len] == ' ');
    }
    return text_string(&t);
}

static int64_t nearest(const KnobRow *row, int64_t value)
{
    if (value < row->lo)
        return row->lo;
    return value > row->hi ? row->hi : row->lo + (value - row->lo) / row->step * row->step;
}

static void number(ScheduleCheck *s, Setting *out)
{
    const KnobRow *row = &knob_table[out->knob];
    Loc loc = word_at(&s->r)->loc;
    int64_t value = word_integer(&s->r, "an integer or ?{...}");
    if (s->r.failed)
        return;
    vec_push(s->r.c->arena, &out->values, value);
    if (nearest(row, value) == value)
        return;
    Text steps = {.arena = s->r.c->arena};
    if (row->step > 1)
        text_add(&steps, " in steps of %lld", (long long)row->step);
    diag_add(s->r.c->m->diags, DIAG_schedule_value, loc, "write the nearest value that it may have",
             "%s of %s is %lld to %lld%s, not %lld", row->word, row->clause, (long long)row->lo,
             (long long)row->hi, text_string(&steps), (long long)value);
    diag_edit(s->r.c->m->diags, loc, arena_printf(s->r.c->arena, "%lld", (long long)nearest(row, value)));
    s->r.failed = 1;
}

static void value(ScheduleCheck *s, Setting *out)
{
    const KnobRow *row = &knob_table[out->knob];
    if (!*row->words) {
        number(s, out);
        return;
    }
    int64_t n = word_value(row, word_at(&s->r)->text);
    if (n < 0) {
        word_refuse(&s->r, words_wanted(s, row));
        return;
    }
    s->r.at++;
    vec_push(s->r.c->arena, &out->values, n);
}

/* 64 or ?{32, 64} */
static void values(ScheduleCheck *s, Setting *out)
{
    if (!word_take(&s->r, "?")) {
        value(s, out);
        return;
    }
    word_expect(&s->r, "{");
    do
        value(s, out);
    while (!s->r.failed && word_take(&s->r, ","));
    if (!s->r.failed)
        word_expect(&s->r, "}");
}

/* ---- settings ---- */

/* The knob of this clause whose word comes next; KNOB_COUNT when there is none. */
static Knob knob_ahead(const ScheduleCheck *s, const char *clause)
{
    for (Knob n = 0; n < KNOB_COUNT; n++)
        if (strcmp(knob_table[n].clause, clause) == 0 && *knob_table[n].word &&
            word_is(&s->r, knob_table[n].word))
            return n;
    return KNOB_COUNT;
}

/* "M =, N = or K =" */
static const char *settings_wanted(ScheduleCheck *s, const char *clause)
{
    Text t = {.arena = s->r.c->arena};
    for (Knob n = 0; n < KNOB_COUNT; n++)
        if (strcmp(knob_table[n].clause, clause) == 0) {
            int last = n + 1 == KNOB_COUNT || strcmp(knob_table[n + 1].clause, clause) != 0;
            const char *between = t.len == 0 ? "" : last ? " or " : ", ";
            text_add(&t, "%s%s%s", between, knob_table[n].word, *knob_table[n].words ? "" : " =");
        }
    return text_string(&t);
}

/* M = 64 */
static void setting(ScheduleCheck *s, const char *clause)
{
    Setting out = {.knob = knob_ahead(s, clause), .loc = word_at(&s->r)->loc};
    if (out.knob == KNOB_COUNT) {
        word_refuse(&s->r, settings_wanted(s, clause));
        return;
    }
    s->r.at++;
    if (*knob_table[out.knob].words || word_expect(&s->r, "="))
        values(s, &out);
    vec_push(s->r.c->arena, &s->clause.settings, out);
}

static void settings(ScheduleCheck *s, const char *clause)
{
    do {
        setting(s, clause);
        word_take(&s->r, ",");
    } while (!s->r.failed && knob_ahead(s, clause) != KNOB_COUNT);
}

/* ---- clauses ---- */

static void names(ScheduleCheck *s, const char *what, int readers)
{
    do {
        ScheduleName n;
        n.name = word_name(&s->r, what, &n.loc);
        if (readers)
            vec_push(s->r.c->arena, &s->clause.readers, n);
        else
            vec_push(s->r.c->arena, &s->clause.names, n);
    } while (!s->r.failed && word_take(&s->r, ","));
}

/* What stands after the clause's first word. */
static void body(ScheduleCheck *s, Knob first, Loc loc)
{
    const KnobRow *row = &knob_table[first];
    switch (row->scope) {
    case SCOPE_PRODUCT:
    case SCOPE_POINTWISE:
    case SCOPE_INDEX:
    case SCOPE_LAUNCH:
        names(s, row->scope == SCOPE_INDEX ? "the name of an index" : "the name of a tensor", 0);
        if (!s->r.failed && word_expect(&s->r, ":"))
            settings(s, row->clause);
        return;
    case SCOPE_EDGE:
        names(s, "the name of a tensor", 0);
        if (s->r.failed || !word_expect(&s->r, "->"))
            return;
        names(s, "the name of a tensor", 1);
        if (!s->r.failed)
            setting(s, row->clause);
        return;
    case SCOPE_TENSOR: {
        Setting stored = {.knob = first, .loc = loc};
        names(s, "the name of a tensor", 0);
        vec_push(s->r.c->arena, &stored.values, 1);
        vec_push(s->r.c->arena, &s->clause.settings, stored);
        return;
    }
    case SCOPE_KERNEL:
    case SCOPE_SPACE: settings(s, row->clause); return;
    }
}

static int contradicts(const Said *a, Knob knob, Name name, Name reader)
{
    int both = (a->knob == KNOB_store && knob == KNOB_fuse) || (a->knob == KNOB_fuse && knob == KNOB_store);
    return a->name == name && (both || (a->knob == knob && a->reader == reader));
}

/* What is said twice, or contradicts what was said. */
static const char *contradiction(ScheduleCheck *s, const Said *old, const Said *new)
{
    const KnobRow *row = &knob_table[new->knob];
    if (old->knob != new->knob)
        return arena_printf(s->r.c->arena, "this block both stores and fuses %s", new->name);
    const char *what = row->scope == SCOPE_TENSOR || row->scope == SCOPE_EDGE ? row->clause : row->word;
    return arena_printf(s->r.c->arena, "this block gives `%s` of %s twice", what,
                        new->name ? new->name : row->clause);
}

static void say(ScheduleCheck *s, const Setting *n, const ScheduleName *name, const ScheduleName *reader)
{
    Diags *d = s->r.c->m->diags;
    Said said = {n->knob, name ? name->name : NULL, reader ? reader->name : NULL};
    Loc loc = name ? name->loc : n->loc;
    for (uint32_t i = 0; !s->r.failed && i < s->said.len; i++)
        if (contradicts(&s->said.at[i], said.knob, said.name, said.reader)) {
            diag_add(d, DIAG_schedule_twice, loc, "keep one of the two", "%s",
                     contradiction(s, &s->said.at[i], &said));
            s->r.failed = 1;
        }
    if (!s->r.failed && s->said.len >= MAX_SCHEDULED) {
        diag_add(d, DIAG_program_size, loc, "leave to the compiler what it chooses well",
                 "this block speaks of more than %d tensors and pairs", MAX_SCHEDULED);
        s->r.failed = 1;
    }
    vec_push(s->r.c->arena, &s->said, said);
}

static void say_all(ScheduleCheck *s)
{
    const Clause *c = &s->clause;
    for (uint32_t i = 0; i < c->settings.len; i++) {
        if (c->names.len == 0)
            say(s, &c->settings.at[i], NULL, NULL);
        for (uint32_t n = 0; n < c->names.len && !s->r.failed; n++) {
            if (c->readers.len == 0)
                say(s, &c->settings.at[i], &c->names.at[n], NULL);
            for (uint32_t r = 0; r < c->readers.len && !s->r.failed; r++)
                say(s, &c->settings.at[i], &c->names.at[n], &c->readers.at[r]);
        }
    }
}

static void clause(ScheduleCheck *s)
{
    Loc loc = word_at(&s->r)->loc;
    s->clause = (Clause){0};
    for (Knob n = 0; n < KNOB_COUNT; n++)
        if (word_take(&s->r, knob_table[n].clause)) {
            body(s, n, loc);
            if (!s->r.failed)
                say_all(s);
            return;
        }
    word_refuse(&s->r, "tile, fuse, store, strip, rowblock, order, launch or copies");
}

void sema_schedule(Sema *c, const AstDecl *d)
{
    uint32_t errors = c->m->diags->errors;
    Kernel *k = sema_target(c, d, 1);
    if (c->m->diags->errors != errors || c->broken)
        return;
    ScheduleCheck s = {.r = {.c = c, .words = d->words, .code = DIAG_schedule_clause},
                       .out = {.kernel = d->name.name, .loc = d->loc}};
    while (!s.r.failed && s.r.at < d->words->list.len) {
        clause(&s);
        if (!s.r.failed)
            vec_push(c->arena, &s.out.clauses, s.clause);
        while (word_take(&s.r, ";"))
            ;
    }
    /* the locals of a kernel that derive makes are not known yet: pass_derive looks then */
    if (!s.r.failed && (!k || !ir_check_schedule(k, &s.out)))
        vec_push(c->arena, &c->m->schedules, s.out);
}
