/* What would fit an NPU, where a plan does not: the schedule with smaller blocks, or fewer copies, in place of those that
 * are too large. Each suggestion is a schedule that was tried: the file was read again, its clauses were edited, every
 * launch was planned, and all of them fit. */
#include "driver/driver.h"

#include <string.h>

enum { SUGGESTED = 3, HALVED_MOST = 4, AXES = 3 };
static const Knob tile_knobs[AXES] = {KNOB_tile_m, KNOB_tile_n, KNOB_tile_k};

/* The blocks of the launch that does not fit: rows, columns and terms. */
typedef struct Unfit {
    Compilation *c;
    Isa isa;
    const Fit *failed;
    Name name;                 /* what a clause may call them; NULL: nothing */
    int64_t value[AXES];       /* 0: not asked for */
    const Setting *from[AXES]; /* of the module that was read for this; NULL: no clause gives it */
} Unfit;

/* A change of a module's schedules, and its text. */
typedef struct Edit {
    Module *m;
    Vec(Clause *) clauses; /* that changed, of this schedule */
    Name schedule;
    int mixed; /* some are of another one */
} Edit;

static int plan_again(const Unfit *u, Module *m, Report *report, const char *stop_after)
{
    const CompileOptions *o = &u->c->options;
    PassContext context = {.isa = u->isa,
                           .machine = u->c->machine,
                           .optimize = o->level > 0,
                           .report = report,
                           .schedule_seed = o->schedule_seed};
    return pipeline_run(m, &(PipelineOptions){.context = context, .stop_after = stop_after, .limit = -1});
}

/* ---- what is too large ---- */

static int axis_of(Knob knob)
{
    int axis = 0;
    while (axis < AXES && tile_knobs[axis] != knob)
        axis++;
    return axis;
}

/* The first name that the program as it was written takes. */
static Name name_as_written(const Unfit *u, const Module *before, const ReportKnob *n)
{
    const Kernel *k = ir_find_kernel(before, name_of(before->names, u->failed->kernel));
    for (uint32_t i = 0; k && i < n->names.len; i++)
        if (ir_knob_fits(k, n->knob, name_of(before->names, n->names.at[i])))
            return n->names.at[i];
    return NULL;
}

static void find_blocks(Unfit *u)
{
    Module *m, *before;
    Report *r = report_new(u->c->arena);
    if (compile_reread(u->c, &before) || plan_again(u, before, NULL, "checks") || compile_reread(u->c, &m))
        return;
    plan_again(u, m, r, NULL); /* it fails again: only the report counts */
    for (uint32_t i = 0; i < r->knobs.len; i++) {
        const ReportKnob *n = &r->knobs.at[i].n;
        int axis = axis_of(n->knob);
        if (axis == AXES || !n->name || strcmp(r->knobs.at[i].k->name, u->failed->kernel) != 0 ||
            strcmp(n->name, u->failed->launch) != 0)
            continue;
        u->value[axis] = n->value;
        u->from[axis] = n->from;
        u->name = name_as_written(u, before, n);
    }
}

/* ---- a schedule that is edited ---- */

/* A file that is read again has another number. */
static int same_place(const Diags *d, Loc a, Loc b)
{
    return a.line == b.line && a.col == b.col &&
           strcmp(d->files.at[a.file].path, d->files.at[b.file].path) == 0;
}

static void note_change(Edit *e, const Schedule *s, Clause *c)
{
    for (uint32_t i = 0; i < e->clauses.len; i++)
        if (e->clauses.at[i] == c)
            return;
    e->mixed |= e->clauses.len && e->schedule != s->kernel;
    e->schedule = s->kernel;
    vec_push(e->m->arena, &e->clauses, c);
}

static void set_value(Edit *e, Setting *s, int64_t value)
{
    s->values.len = 0;
    vec_push(e->m->arena, &s->values, value);
}

/* Gives the setting that stands at this place another value. */
static void change_setting(Edit *e, Loc at, int64_t value)
{
    for (uint32_t s = 0; s < e->m->schedules.len; s++) {
        const Schedule *block = &e->m->schedules.at[s];
        for (uint32_t c = 0; c < block->clauses.len; c++)
            for (uint32_t i = 0; i < block->clauses.at[c].settings.len; i++)
                if (same_place(e->m->diags, block->clauses.at[c].settings.at[i].loc, at)) {
                    set_value(e, &block->clauses.at[c].settings.at[i], value);
                    note_change(e, block, &block->clauses.at[c]);
                }
    }
}

/* A clause of its own for settings that no clause gives; beside one that gives others they join that. */
static Clause *clause_to_extend(Edit *e, const Unfit *u)
{
    if (e->clauses.len)
        return e->clauses.at[0];
    Arena *a = e->m->arena;
    Schedule block = {.kernel = name_of(e->m->names, u->failed->kernel)};
    Clause c = {.settings = {.len = 0}};
    vec_push(a, &c.names, (ScheduleName){.name = name_of(e->m->names, u->name)});
    vec_push(a, &block.clauses, c);
    vec_push(a, &e->m->schedules, block);
    Schedule *added = &e->m->schedules.at[e->m->schedules.len - 1];
    e->schedule = added->kernel;
    vec_push(a, &e->clauses, &added->clauses.at[0]);
    return &added->clauses.at[0];
}

static int64_t shifted(int64_t value, int shift)
{
    value = (value >> shift) / LAYOUT_EDGE * LAYOUT_EDGE;
    return value < LAYOUT_EDGE ? LAYOUT_EDGE : value;
}

static void change_blocks(Edit *e, const Unfit *u, const int *shift)
{
    for (int axis = 0; axis < AXES; axis++)
        if (u->from[axis])
            change_setting(e, u->from[axis]->loc, shifted(u->value[axis], shift[axis]));
    for (int axis = 0; axis < AXES; axis++) {
        if (u->from[axis])
            continue;
        Setting s = {.knob = tile_knobs[axis]};
        set_value(e, &s, shifted(u->value[axis], shift[axis]));
        vec_push(e->m->arena, &clause_to_extend(e, u)->settings, s);
    }
}

/* ---- trying ---- */

static int schedules_fit(const Module *m)
{
    for (uint32_t i = 0; i < m->schedules.len; i++) {
        const Kernel *k = ir_find_kernel(m, m->schedules.at[i].kernel);
        if (k && ir_check_schedule(k, &m->schedules.at[i])) /* of derived kernels the pass `checks` asks */
            return 0;
    }
    return 1;
}

/* "tile g, u : M = 128 N = 64 K = 256 (instead of the one in line 11)" */
static const char *edit_text(const Edit *e, Arena *a)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < e->clauses.len; i++) {
        Text clause = {.arena = a};
        uint32_t line = e->clauses.at[i]->settings.at[0].loc.line; /* 0: the clause is new */
        ir_print_clause(NULL, e->clauses.at[i], &clause);
        const char *text = text_string(&clause);
        text += strspn(text, " ");
        text_add(&t, "%s%.*s", i ? " and " : "", (int)strcspn(text, "\n"), text);
        if (line)
            text_add(&t, " (instead of the one in line %u)", line);
    }
    return text_string(&t);
}

/* Does all fit after the change? What the attempt reports is forgotten. shift NULL: one copy in the space that is full. */
static int try_change(const Unfit *u, const int *shift, Edit *e)
{
    Diags *d = &u->c->diags;
    uint32_t kept = d->list.len, errors = d->errors;
    *e = (Edit){.m = NULL};
    d->errors = 0;
    int fits = !compile_reread(u->c, &e->m);
    if (fits && shift)
        change_blocks(e, u, shift);
    else if (fits)
        change_setting(e, u->failed->copies->loc, 1);
    fits = fits && e->clauses.len && !e->mixed && schedules_fit(e->m) && !plan_again(u, e->m, NULL, NULL) &&
           !d->errors;
    d->list.len = kept;
    d->errors = errors;
    return fits;
}

/* Shifts with this sum, one after the other. */
static int next_shift(int *shift, int sum)
{
    if (shift[2] > 0) {
        shift[1]++;
        shift[2]--;
        return 1;
    }
    if (shift[0] == sum)
        return 0;
    shift[0]++;
    shift[1] = 0;
    shift[2] = sum - shift[0];
    return 1;
}

/* Is it smaller than one that fits in every way? Then nobody needs it. */
static int is_beyond(const int *shift, int (*found)[AXES], int n)
{
    for (int i = 0; i < n; i++)
        if (shift[0] >= found[i][0] && shift[1] >= found[i][1] && shift[2] >= found[i][2])
            return 1;
    return 0;
}

typedef struct Suggestions {
    Text text;
    Name schedule; /* for which all of them are */
    int n;
} Suggestions;

static void suggest(Suggestions *s, const Edit *e)
{
    if (s->n && strcmp(s->schedule, e->schedule) != 0)
        return;
    text_add(&s->text, "%s%s", s->n++ ? ", or " : "", edit_text(e, s->text.arena));
    s->schedule = e->schedule;
}

static void try_blocks(const Unfit *u, Suggestions *out)
{
    int found[SUGGESTED][AXES], n = 0;
    Edit e;
    for (int sum = 1; sum <= HALVED_MOST && out->n < SUGGESTED; sum++) {
        int shift[AXES] = {0, 0, sum};
        do {
            if (is_beyond(shift, found, n) || !try_change(u, shift, &e))
                continue;
            memcpy(found[n++], shift, sizeof shift);
            suggest(out, &e);
        } while (out->n < SUGGESTED && next_shift(shift, sum));
    }
}

const char *fit_suggestions(Compilation *c, Isa isa, const Fit *failed)
{
    Unfit u = {.c = c, .isa = isa, .failed = failed};
    Suggestions s = {.text = {.arena = c->arena}};
    Edit e;
    uint32_t kept = c->diags.list.len, errors = c->diags.errors;
    c->diags.errors = 0;
    find_blocks(&u);
    c->diags.list.len = kept;
    c->diags.errors = errors;
    if (failed->copies && failed->copies->values.at[0] > 1 && try_change(&u, NULL, &e))
        suggest(&s, &e);
    if (u.name && u.value[0] && u.value[1] && u.value[2])
        try_blocks(&u, &s);
    return s.n ? arena_printf(c->arena, "in schedule %s this fits: %s", s.schedule, text_string(&s.text))
               : NULL;
}
