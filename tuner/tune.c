/* All cases of a command, one after the other, and what is printed of them. */
#include "tuner/tuner.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---- */

/* "file:run.route" has how many rows each group has, as `exact` takes them. NULL: it cannot be read (errno), or is no such list (0). */
static const char *counts_of(const char *path, Arena *a)
{
    Text t = {.arena = a};
    errno = 0;
    FILE *f = fopen(path, "r");
    long long n;
    int got = 0;
    while (f && (got = fscanf(f, "%lld", &n)) == 1 && n >= 0)
        text_add(&t, "%s%lld", t.len ? ", " : "exact(", n);
    int whole = f && feof(f) && got == EOF && t.len;
    if (f)
        fclose(f);
    text_add(&t, ")");
    return whole ? text_string(&t) : NULL;
}

const char *tune_routing(const char *word, Arena *a)
{
    static const char file[] = "file:";
    Text t = {.arena = a};
    if (!word || strncmp(word, file, strlen(file)) == 0)
        return word ? counts_of(word + strlen(file), a) : NULL;
    for (; *word; word++)
        text_add(&t, *word == '+' ? ", " : "%c", *word);
    return text_string(&t);
}

static const char *label_of(const Tuning *t)
{
    const moec_work *w = &t->work;
    const char *routing = w->routing ? arena_printf(t->arena, ", %s", w->routing) : "";
    return arena_printf(t->arena, "%s %s%s; %s, %d thread%s", t->space.kernel, w->sizes ? w->sizes : "",
                        routing, t->o->machine ? t->o->machine : t->space.target, abs(w->threads),
                        abs(w->threads) == 1 ? "" : "s");
}

/* ---- while it works ---- */

/* "[######..............] 41 s left, 17 measured, best 0.912 of the default" */
static void draw_bar(const Tuning *t, const Search *s)
{
    enum { WIDTH = 20 };
    char bar[WIDTH + 1];
    double now = clock_seconds(), part = (now - t->begin) / (t->end - t->begin);
    int full = part >= 1 ? WIDTH : part < 0 ? 0 : (int)(WIDTH * part);
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)full);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3.0f s left, %u measured, best %.3f of the default\033[K", bar,
            fmax(t->end - now, 0), search_count(s, TRIAL_MEASURED), s->best->ratio.ratio);
}

static void tell(void *user, const Search *s)
{
    Tuning *t = user;
    keep_trials(t);
    if (t->o->progress)
        draw_bar(t, s);
}

/* ---- results ---- */

static void print_counts(const Tuning *t, FILE *out)
{
    static const char *const words[TRIAL_STATES] = {
        [TRIAL_READY] = "not measured", [TRIAL_EQUAL] = "equal to another",
        [TRIAL_UNFIT] = "do not fit",   [TRIAL_FAILED] = "failed to run",
        [TRIAL_WRONG] = "wrong",        [TRIAL_MEASURED] = "measured"};
    const Search *s = &t->search;
    fprintf(out, "  space    %.3g points of %u knobs", space_size(&t->space), t->space.n);
    if (t->space.left_out)
        fprintf(out, ", without %u values that change bits", t->space.left_out);
    fprintf(out, "; %u looked at", s->trials.len - 1);
    for (TrialState i = TRIAL_STATES; i-- > 0;)
        if (search_count(s, i))
            fprintf(out, ", %u %s", search_count(s, i), words[i]);
    fprintf(out, "\n");
    for (uint32_t i = 1; i < s->trials.len; i++) {
        const Trial *x = s->trials.at[i];
        if (x->state == TRIAL_FAILED || x->state == TRIAL_WRONG)
            fprintf(out, "  %s  %s: %s\n", x->state == TRIAL_WRONG ? "wrong " : "failed",
                    space_clauses(&t->space, &x->point, t->arena), x->why);
    }
}

static void print_kept(const Tuning *t, FILE *out)
{
    if (t->records && !t->lost)
        fprintf(out, "  kept in  %s\n", moec_records_path(t->records));
}

static void print_result(const Tuning *t, const Trial *winner, FILE *out)
{
    const Search *s = &t->search;
    const Trial *usual = s->trials.at[0];
    fprintf(out, "%s\n", t->label);
    print_counts(t, out);
    if (*t->check_sizes)
        fprintf(out, "  checked  against the interpreter at %s\n", t->check_sizes);
    fprintf(out, "  default  %.4g ms\n", 1e3 * (winner == usual ? usual->seconds : winner->default_seconds));
    if (winner == usual) {
        fprintf(out, "  result   %s\n",
                search_count(s, TRIAL_MEASURED) ? "keep the default: nothing is faster for sure"
                                                : "nothing was measured: there was no time for it");
        print_kept(t, out);
        return;
    }
    fprintf(out, "  best     %.4g ms, %.3f of the default (%.3f to %.3f): %s\n", 1e3 * winner->seconds,
            winner->ratio.ratio, winner->ratio.low, winner->ratio.high,
            space_clauses(&t->space, &winner->point, t->arena));
    print_kept(t, out);
    fprintf(out, "%s", winner->schedule);
}

/* ---- the space ---- */

static void list_value(Tuning *t, uint32_t knob, uint32_t value, FILE *out)
{
    static const char *const words[TRIAL_STATES] = {
        [TRIAL_READY] = "", [TRIAL_EQUAL] = "equal: ", [TRIAL_UNFIT] = "does not fit: "};
    Point p = {{0}};
    p.at[knob] = (uint8_t)value;
    search_trial(&t->search, &p);
    const Trial *x = t->search.trials.at[t->search.trials.len - 1];
    fprintf(out, "    %-32s %s%s\n", space_clauses(&t->space, &p, t->arena), words[x->state],
            x->why ? x->why : "");
}

/* Each value by itself, the rest being as the compiler takes it. */
static void list_space(Tuning *t, FILE *out)
{
    fprintf(out, "%s\n", t->label);
    for (uint32_t i = 0; i < t->space.n; i++) {
        fprintf(out, "  %s\n", t->space.knobs[i].name);
        for (uint32_t v = 1; v < t->space.knobs[i].n; v++)
            list_value(t, i, v, out);
    }
    print_counts(t, out);
}

/* ---- all ---- */

static const char *open_case(Tuning *t, int size, int routing, int thread)
{
    const TuneOptions *o = t->o;
    const char *word = o->routings[routing];
    t->work = o->work;
    t->work.sizes = o->sizes[size];
    t->work.routing = tune_routing(word, t->arena);
    t->work.threads = -o->threads[thread];
    if (word && !t->work.routing)
        return arena_printf(t->arena, "%s: %s", word,
                            errno ? strerror(errno) : "not a list of how many rows each group has");
    return tuning_begin(t);
}

static void search(Tuning *t, FILE *out)
{
    if (t->space.n)
        strategy_find(t->o->strategy)->run(&t->search);
    const Trial *winner = search_duel(&t->search);
    if (t->o->progress)
        fprintf(stderr, "\r\033[K");
    keep_trials(t);
    if (!t->broken)
        keep_winner(t, winner);
    if (!t->broken)
        print_result(t, winner, out);
}

static int tune_case(Tuning *t, int size, int routing, int thread, FILE *out)
{
    const char *error = open_case(t, size, routing, thread);
    t->label = error ? "" : label_of(t);
    if (!error && !t->o->list_space)
        error = keep_begin(t);
    if (!error && t->o->list_space)
        list_space(t, out);
    else if (!error)
        search(t, out);
    if (!error && t->broken && t->records)
        error = arena_printf(t->arena, "%s; what was measured before is kept in %s", t->broken,
                             moec_records_path(t->records));
    error = error ? error : t->broken;
    if (t->lost)
        fprintf(stderr, "moec: %s\n", t->lost);
    if (error)
        fprintf(stderr, "moec: %s%s", error, error[strlen(error) - 1] == '\n' ? "" : "\n");
    fflush(out);
    keep_end(t);
    tuning_end(t);
    return error != NULL;
}

static int is_stopped(const TuneOptions *o) { return o->stop && *o->stop; }

static int tune_in(Tuning *t, int number, FILE *out)
{
    const TuneOptions *o = t->o;
    int cases = o->nsizes * o->nroutings * o->nthreads;
    t->begin = clock_seconds();
    t->end = t->begin + o->budget / cases;
    t->judge.tell = tell;
    return tune_case(t, number % o->nsizes, number / o->nsizes % o->nroutings,
                     number / o->nsizes / o->nroutings, out);
}

int tune(const TuneOptions *o, FILE *out)
{
    int failed = 0, lost = 0;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* of a worker that has gone; its pipe says so */
    for (int i = 0; i < o->nsizes * o->nroutings * o->nthreads && !failed && !is_stopped(o); i++) {
        Tuning t = {.o = o, .arena = arena_new(), .context = moec_context_new()};
        failed = !t.arena || !t.context || tune_in(&t, i, out);
        lost |= t.lost != NULL;
        moec_context_free(t.context);
        arena_free(t.arena);
    }
    signal(SIGPIPE, before);
    return failed || lost;
}
