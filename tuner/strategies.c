/* The strategies of search.def. Each goes on until the time is over or it has nothing more to try. */
#include "tuner/search.h"

#include <string.h>

enum {
    FIRST = 48,     /* trials that the model ranks */
    MEASURED = 16,  /* of them, the ones that are measured */
    CHANCES = 4,    /* and others that the model does not think much of */
    FEW_ROUNDS = 4, /* of the first race */
    ROUNDS = 7,     /* of others */
    STEP = 6,       /* trials that a local search measures at a time */
    NEIGHBOURS = 512,
    POPULATION = 8,
    TRIES = 200 /* points that are drawn in vain before the space counts as exhausted */
};

const StrategyRow strategy_table[] = {
#define STRATEGY(name, doc) {#name, doc, strategy_##name},
#include "tuner/search.def"
};
const uint32_t strategy_count = sizeof strategy_table / sizeof *strategy_table;

const StrategyRow *strategy_find(const char *name)
{
    for (uint32_t i = 0; i < strategy_count; i++)
        if (strcmp(strategy_table[i].name, name) == 0)
            return &strategy_table[i];
    return NULL;
}

/* ---- shared by them ---- */

/* Adds the trial of p unless it was measured already or is in the list. 0: it was not added. */
static int add(Search *s, TrialList *list, const Point *p)
{
    Trial *t = search_trial(s, p);
    for (uint32_t i = 0; t && i < list->len; i++)
        if (list->at[i] == t)
            return 0;
    if (!t || t->state == TRIAL_MEASURED)
        return 0;
    vec_push(s->arena, list, t);
    return 1;
}

static void add_neighbours(Search *s, TrialList *list, const Point *p)
{
    Point *points = arena_array(s->arena, Point, NEIGHBOURS);
    uint32_t n = space_neighbours(s->space, p, points, NEIGHBOURS);
    for (uint32_t i = 0; i < n && search_goes_on(s); i++)
        add(s, list, &points[i]);
}

static void add_random(Search *s, TrialList *list, uint32_t until)
{
    for (int tries = 0; tries < TRIES && list->len < until && search_goes_on(s); tries++) {
        Point p = space_random(s->space, &s->random);
        add(s, list, &p);
    }
}

static Point mutated(Search *s, Point p)
{
    for (int changes = 0; changes < 2; changes++) {
        uint32_t i = (uint32_t)random_below(&s->random, s->space->n);
        p.at[i] = (uint8_t)random_below(&s->random, s->space->knobs[i].n);
    }
    return p;
}

/* ---- halving ---- */

/* The best by the model, and some by chance. */
static void take_first(Search *s, TrialList *list, uint32_t best, uint32_t chances)
{
    for (uint32_t i = best; i < best + chances && i < list->len; i++) {
        uint32_t j = i + (uint32_t)random_below(&s->random, list->len - i);
        Trial *kept = list->at[i];
        list->at[i] = list->at[j];
        list->at[j] = kept;
    }
    list->len = list->len < best + chances ? list->len : best + chances;
}

static void halve(Search *s, TrialList *list)
{
    size_t rounds = FEW_ROUNDS;
    do {
        search_race(s, list, rounds);
        search_keep(list, list->len / 2);
        rounds *= 2;
    } while (list->len > 1 && search_goes_on(s));
}

/* Neighbours of the best, those first that the model ranks first; where none is better, points that are further away. */
static void climb(Search *s)
{
    while (s->space->n && search_goes_on(s)) {
        TrialList list = {0};
        const Trial *from = s->best;
        add_neighbours(s, &list, &from->point);
        for (int tries = 0; tries < TRIES && list.len < STEP && search_goes_on(s); tries++) {
            Point p = mutated(s, from->point);
            add(s, &list, &p);
        }
        if (!list.len)
            return;
        search_rank(s, &list);
        list.len = list.len < STEP ? list.len : STEP;
        search_race(s, &list, ROUNDS);
    }
}

void strategy_halving(Search *s)
{
    TrialList list = {0};
    add_neighbours(s, &list, &s->trials.at[0]->point);
    add_random(s, &list, list.len + FIRST);
    search_rank(s, &list);
    take_first(s, &list, MEASURED, CHANCES);
    halve(s, &list);
    climb(s);
}

/* ---- the others ---- */

void strategy_random(Search *s)
{
    while (search_goes_on(s)) {
        TrialList list = {0};
        add_random(s, &list, STEP);
        if (!list.len)
            return;
        search_race(s, &list, ROUNDS);
    }
}

void strategy_exhaustive(Search *s)
{
    Point p = {{0}};
    int more = space_next(s->space, &p);
    while (more && search_goes_on(s)) {
        TrialList list = {0};
        for (; more && list.len < STEP && search_goes_on(s); more = space_next(s->space, &p))
            add(s, &list, &p);
        search_race(s, &list, ROUNDS);
    }
}

/* Each knob from one of two. */
static Point mixed(Search *s, const Point *a, const Point *b)
{
    Point p = *a;
    for (uint32_t i = 0; i < s->space->n; i++)
        if (random_below(&s->random, 2))
            p.at[i] = b->at[i];
    return p;
}

static const Point *parent(Search *s, const TrialList *list)
{
    int64_t i = random_below(&s->random, list->len), j = random_below(&s->random, list->len);
    return &list->at[i < j ? i : j]->point; /* the better of two */
}

static void breed(Search *s, const TrialList *parents, TrialList *children)
{
    for (int tries = 0; tries < TRIES && children->len < POPULATION && search_goes_on(s); tries++) {
        Point p = mutated(s, mixed(s, parent(s, parents), parent(s, parents)));
        add(s, children, &p);
    }
}

void strategy_evolutionary(Search *s)
{
    TrialList list = {0};
    add_random(s, &list, POPULATION);
    search_race(s, &list, ROUNDS);
    search_keep(&list, POPULATION);
    while (list.len && search_goes_on(s)) {
        TrialList children = {0};
        breed(s, &list, &children);
        if (!children.len)
            return;
        search_race(s, &children, ROUNDS);
        for (uint32_t i = 0; i < children.len; i++)
            vec_push(s->arena, &list, children.at[i]);
        search_keep(&list, POPULATION);
    }
}

/* The model climbs as `halving` does with measured times. */
void strategy_model(Search *s)
{
    TrialList list = {0};
    add_neighbours(s, &list, &s->trials.at[0]->point);
    add_random(s, &list, list.len + FIRST);
    search_rank(s, &list);
    for (const Trial *from = NULL; list.len && from != list.at[0] && search_goes_on(s);) {
        from = list.at[0];
        add_neighbours(s, &list, &from->point);
        search_rank(s, &list);
    }
    list.len = list.len < CHANCES ? list.len : CHANCES;
    search_race(s, &list, ROUNDS);
}
