/* Trials of a search, whatever its strategy. */
#include "tuner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double confidence = 0.95;
enum { CONTENDERS = 8, DUELLISTS = 3, ROUNDS_LEAST = 7, ROUNDS_MOST = 31, BATCH = 6 };

/* ---- trials ---- */

static Trial *add_trial(Search *s, const Point *p)
{
    Trial *t = arena_new_of(s->arena, Trial);
    *t = (Trial){.number = s->trials.len,
                 .point = *p,
                 .predicted = NAN,
                 .schedule = space_schedule(s->space, p, s->arena),
                 .ratio = {0, NAN, INFINITY}};
    vec_push(s->arena, &s->trials, t);
    return t;
}

Search search_new(Arena *a, const TuneSpace *space, const Judge *judge, uint64_t seed, double reserve)
{
    Search s = {.arena = a, .space = space, .judge = judge, .random = random_new(seed), .reserve = reserve};
    Point usual = {{0}};
    s.best = add_trial(&s, &usual);
    s.best->ratio = (moec_ratio){1, 1, 1};
    judge->decide(judge->user, s.best);
    return s;
}

static int is_out(const Trial *t) { return t->state != TRIAL_READY && t->state != TRIAL_MEASURED; }

static void decide(Search *s, Trial *t)
{
    s->judge->decide(s->judge->user, t);
    for (uint32_t i = 0; i < t->number && !is_out(t); i++) {
        const Trial *other = s->trials.at[i];
        if (strcmp(other->digest, t->digest) == 0) {
            t->state = TRIAL_EQUAL;
            t->why = arena_printf(s->arena, "comes to the program of %s",
                                  space_clauses(s->space, &other->point, s->arena));
        }
    }
}

Trial *search_trial(Search *s, const Point *p)
{
    for (uint32_t i = 0; i < s->trials.len; i++)
        if (space_same(s->space, &s->trials.at[i]->point, p))
            return i == 0 || is_out(s->trials.at[i]) ? NULL : s->trials.at[i];
    Trial *t = add_trial(s, p);
    decide(s, t);
    return is_out(t) ? NULL : t;
}

uint32_t search_count(const Search *s, TrialState state)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < s->trials.len; i++)
        n += s->trials.at[i]->state == state;
    return n;
}

int search_goes_on(const Search *s) { return s->judge->left(s->judge->user) > s->reserve; }

/* ---- the model ---- */

static int by_prediction(const void *a, const void *b)
{
    const Trial *x = *(Trial *const *)a, *y = *(Trial *const *)b;
    double p = isnan(x->predicted) ? INFINITY : x->predicted,
           q = isnan(y->predicted) ? INFINITY : y->predicted;
    return p < q ? -1 : p > q ? 1 : (x->number > y->number) - (x->number < y->number);
}

void search_rank(Search *s, TrialList *list)
{
    if (!list->len)
        return;
    s->judge->predict(s->judge->user, list->at, list->len);
    qsort(list->at, list->len, sizeof *list->at, by_prediction);
}

/* ---- races ---- */

static void settle(Trial *t)
{
    if (is_out(t) || !t->mine.len)
        return;
    t->state = TRIAL_MEASURED;
    t->ratio = moec_compare(t->mine.at, t->base.at, t->mine.len, confidence);
    t->seconds = moec_spread_of(t->mine.at, t->mine.len).median;
    t->default_seconds = moec_spread_of(t->base.at, t->base.len).median;
}

static void find_best(Search *s)
{
    s->best = s->trials.at[0];
    for (uint32_t i = 1; i < s->trials.len; i++) {
        Trial *t = s->trials.at[i];
        if (t->state == TRIAL_MEASURED && t->ratio.ratio < s->best->ratio.ratio)
            s->best = t;
    }
}

/* In batches, so that the default is measured beside each, and the time is looked at between them. */
static void race(Search *s, const TrialList *list, size_t rounds)
{
    for (uint32_t at = 0; at < list->len; at += BATCH) {
        uint32_t n = list->len - at < BATCH ? list->len - at : BATCH;
        if (at && !search_goes_on(s))
            return;
        uint32_t next = list->len - at - n < BATCH ? list->len - at - n : BATCH;
        s->judge->race(s->judge->user, list->at + at, n, rounds, list->at + at + n, next);
        for (uint32_t i = 0; i < n; i++)
            settle(list->at[at + i]);
        find_best(s);
        if (s->judge->tell)
            s->judge->tell(s->judge->user, s);
    }
}

/* What was found is raced even if finding it took all the time but the reserve. */
void search_race(Search *s, const TrialList *list, size_t rounds)
{
    if (s->judge->left(s->judge->user) > s->reserve / 2)
        race(s, list, rounds);
}

static int by_ratio(const void *a, const void *b)
{
    const Trial *x = *(Trial *const *)a, *y = *(Trial *const *)b;
    return x->ratio.ratio < y->ratio.ratio   ? -1
           : x->ratio.ratio > y->ratio.ratio ? 1
                                             : (x->number > y->number) - (x->number < y->number);
}

void search_keep(TrialList *list, size_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->len; i++)
        if (list->at[i]->state == TRIAL_MEASURED)
            list->at[kept++] = list->at[i];
    list->len = kept;
    if (kept)
        qsort(list->at, kept, sizeof *list->at, by_ratio);
    list->len = kept < n ? kept : (uint32_t)n;
}

/* ---- the last word ---- */

/* Of several that race, one may look good by chance: each has to be the surer. */
static int wins(const Trial *t, size_t racers)
{
    moec_ratio r = moec_compare(t->mine.at, t->base.at, t->mine.len, 1 - (1 - confidence) / (double)racers);
    return t->state == TRIAL_MEASURED && r.high < 1 && r.ratio <= 1 - SEARCH_GAIN;
}

/* As many as the time allows, of n trials beside the default. */
static size_t rounds_for(const Search *s, const TrialList *list)
{
    double each = 0;
    for (uint32_t i = 0; i < list->len; i++)
        each += list->at[i]->seconds + list->at[i]->default_seconds / BATCH;
    double rounds = each > 0 ? s->judge->left(s->judge->user) / 2 / each : ROUNDS_MOST;
    return rounds < ROUNDS_LEAST ? ROUNDS_LEAST : rounds < ROUNDS_MOST ? (size_t)rounds : ROUNDS_MOST;
}

/* Those that look best. Few rounds make many look good, so some more decide which are to race for the last time. */
static TrialList duellists(Search *s)
{
    TrialList list = {0};
    for (uint32_t i = 1; i < s->trials.len; i++)
        if (s->trials.at[i]->state == TRIAL_MEASURED)
            vec_push(s->arena, &list, s->trials.at[i]);
    search_keep(&list, CONTENDERS);
    if (list.len > DUELLISTS)
        race(s, &list, ROUNDS_LEAST);
    search_keep(&list, DUELLISTS);
    return list;
}

Trial *search_duel(Search *s)
{
    TrialList list = duellists(s);
    Trial *winner = s->trials.at[0];
    size_t rounds = rounds_for(s, &list);
    for (uint32_t i = 0; i < list.len; i++)
        list.at[i]->mine.len = list.at[i]->base.len = 0;
    if (list.len)
        race(s, &list, rounds);
    for (uint32_t i = 0; i < list.len; i++)
        if (wins(list.at[i], list.len) && list.at[i]->ratio.ratio < winner->ratio.ratio)
            winner = list.at[i];
    s->best = winner;
    return winner;
}
