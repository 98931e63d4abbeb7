/* schedule blocks: the form of each clause and the tensors it names. The clauses are kept as text. */
#include "frontend/words.h"

typedef struct ScheduleCheck {
    WordReader r;
    const Kernel *k; /* NULL: one that derive will make, whose locals are not known yet */
} ScheduleCheck;

/* A tensor that the kernel defines. */
static void defined_name(ScheduleCheck *s)
{
    Loc loc;
    Name name = word_name(&s->r, "the name of a tensor", &loc);
    if (s->r.failed || !s->k)
        return;
    TensorId t = ir_find_tensor(s->k, name);
    if (t != NONE && s->k->tensors.at[t].role != ROLE_IN)
        return;
    Checker *c = s->r.c;
    Guess g = guess_new(name);
    for (TensorId i = 0; i < s->k->tensors.len; i++)
        if (s->k->tensors.at[i].role != ROLE_IN)
            guess_try(&g, s->k->tensors.at[i].name);
    diag_add(c->m->diags, DIAG_schedule_name, loc,
             help_guess(c->arena, &g, "name a tensor on the left of an equation"), "kernel %s defines no %s",
             s->k->name, name);
    s->r.failed = 1;
}

static void defined_names(ScheduleCheck *s)
{
    do
        defined_name(s);
    while (!s->r.failed && word_take(&s->r, ","));
}

/* 64 or ?{32, 64} */
static void value(ScheduleCheck *s)
{
    WordReader *r = &s->r;
    if (!word_take(r, "?")) {
        word_integer(r, "an integer or ?{...}");
        return;
    }
    word_expect(r, "{");
    do
        word_integer(r, "an integer");
    while (!r->failed && word_take(r, ","));
    if (!r->failed)
        word_expect(r, "}");
}

/* NAME = value, of the names that this clause has. */
static void setting(ScheduleCheck *s, const char *const *names, const char *wanted)
{
    int known = 0;
    for (uint32_t i = 0; names[i]; i++)
        known |= word_is(&s->r, names[i]);
    if (!known) {
        word_refuse(&s->r, wanted);
        return;
    }
    s->r.at++;
    if (word_expect(&s->r, "="))
        value(s);
}

static void tile_clause(ScheduleCheck *s)
{
    static const char *const names[] = {"M", "N", "K", NULL};
    defined_names(s);
    if (s->r.failed || !word_expect(&s->r, ":"))
        return;
    do
        setting(s, names, "M =, N = or K =");
    while (!s->r.failed && (word_is(&s->r, "M") || word_is(&s->r, "N") || word_is(&s->r, "K")));
}

static void fuse_clause(ScheduleCheck *s)
{
    defined_names(s);
    if (s->r.failed || !word_expect(&s->r, "->"))
        return;
    defined_names(s);
    if (!s->r.failed && word_expect(&s->r, "at") && !word_take(&s->r, "load") && !word_take(&s->r, "drain"))
        word_refuse(&s->r, "`load` or `drain`");
}

static void copies_clause(ScheduleCheck *s)
{
    static const char *const names[] = {"l1", "l0a", "l0b", "l0c", "ub", NULL};
    do
        setting(s, names, "l1 =, l0a =, l0b =, l0c = or ub =");
    while (!s->r.failed && word_take(&s->r, ","));
}

static void order_clause(ScheduleCheck *s)
{
    if (word_expect(&s->r, "groups") && !word_take(&s->r, "heaviest_first") && !word_take(&s->r, "ascending"))
        word_refuse(&s->r, "`heaviest_first` or `ascending`");
}

static void clause(ScheduleCheck *s)
{
    if (word_take(&s->r, "tile"))
        tile_clause(s);
    else if (word_take(&s->r, "fuse"))
        fuse_clause(s);
    else if (word_take(&s->r, "store"))
        defined_names(s);
    else if (word_take(&s->r, "copies"))
        copies_clause(s);
    else if (word_take(&s->r, "order"))
        order_clause(s);
    else
        word_refuse(&s->r, "tile, fuse, store, copies or order");
}

/* The words from `from` as text, spaced like the language page. */
static const char *clause_text(const ScheduleCheck *s, uint32_t from)
{
    Text t = {.arena = s->r.c->arena};
    for (uint32_t i = from; i < s->r.at; i++) {
        const char *word = s->r.words->list.at[i].text;
        int tight = i == from || *word == ',' || *word == '}' || *word == '{' ||
                    *s->r.words->list.at[i - 1].text == '{';
        text_add(&t, "%s%s", tight ? "" : " ", word);
    }
    return text_string(&t);
}

void check_schedule(Checker *c, const AstDecl *d)
{
    uint32_t errors = c->m->diags->errors;
    Kernel *k = check_target(c, d, 1);
    if (c->m->diags->errors != errors || c->broken)
        return;
    Schedule out = {.kernel = d->name.name, .loc = d->loc};
    ScheduleCheck s = {.r = {.c = c, .words = d->words, .code = DIAG_schedule_clause}, .k = k};
    while (!s.r.failed && s.r.at < d->words->list.len) {
        uint32_t from = s.r.at;
        clause(&s);
        if (!s.r.failed)
            vec_push(c->arena, &out.clauses, clause_text(&s, from));
        while (word_take(&s.r, ";"))
            ;
    }
    if (!s.r.failed)
        vec_push(c->arena, &c->m->schedules, out);
}
