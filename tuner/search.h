/* The search for a schedule: points become trials, trials are pruned, predicted and measured beside the default.
 *
 * Note [Judge] A search asks a judge for everything outside: what a point comes to, what the model says, a race against
 * the default, and the time that is left. case.c has the judge that runs kernels in processes of their own, and the one that only
 * asks the model of a machine; tests pretend one, so that strategies are tested without a clock. */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/space.h"
#include "moec/moec.h"

typedef enum TrialState {
    TRIAL_READY,    /* may be measured */
    TRIAL_EQUAL,    /* it comes to the same program as another one */
    TRIAL_UNFIT,    /* the compiler refuses it: it does not fit */
    TRIAL_FAILED,   /* it crashed, hung, or a call failed */
    TRIAL_WRONG,    /* its results are not within their bound, or other bits where they must not be */
    TRIAL_MEASURED,
    TRIAL_STATES
} TrialState;

typedef struct Trial {
    uint32_t number;
    Point point;
    const char *schedule;
    char digest[33];
    TrialState state;
    const char *why;        /* of those that cannot be measured */
    double predicted;       /* seconds; NAN: not asked, or the model cannot say */
    Vec(double) mine, base; /* seconds of a call in each round: its own, and the default's */
    moec_ratio ratio;       /* of its time to the default's: of all rounds */
    double seconds, default_seconds; /* medians */
    size_t kept;            /* rounds that are in the records */
} Trial;

struct Search;
typedef struct Judge {
    void *user;
    /* Fills digest; or state and why. */
    void (*decide)(void *user, Trial *t);
    void (*predict)(void *user, Trial *const *t, size_t n);
    /* Adds rounds to each; a trial that cannot be measured gets state and why. next: those that will race after them, which may be
     * prepared meanwhile. */
    void (*race)(void *user, Trial *const *t, size_t n, size_t rounds, Trial *const *next, size_t nnext);
    double (*left)(void *user); /* seconds; 0 and below: to stop */
    void (*tell)(void *user, const struct Search *s); /* something was measured; may be NULL */
} Judge;

typedef struct Search {
    Arena *arena;
    const TuneSpace *space;
    const Judge *judge;
    Random random;
    Vec(Trial *) trials; /* the default first */
    Trial *best;         /* the smallest ratio of all that were measured; or the default */
    double reserve;      /* seconds that are kept for the duel */
} Search;

typedef struct StrategyRow {
    const char *name, *doc;
    void (*run)(Search *s);
} StrategyRow;
extern const StrategyRow strategy_table[];
extern const uint32_t strategy_count;
const StrategyRow *strategy_find(const char *name); /* NULL: there is none */

#define STRATEGY(name, doc) void strategy_##name(Search *s);
#include "tuner/search.def"

/* ---- search.c ---- */

typedef Vec(Trial *) TrialList;

Search search_new(Arena *a, const TuneSpace *space, const Judge *judge, uint64_t seed, double reserve);
/* The trial of a point: a new one, or that there is. NULL: it cannot be measured. */
Trial *search_trial(Search *s, const Point *p);
uint32_t search_count(const Search *s, TrialState state); /* of trials, without the default */
int search_goes_on(const Search *s); /* there is time, apart from the reserve */
/* Sorts by what the model says; trials of which it says nothing come last, in their order. */
void search_rank(Search *s, TrialList *list);
void search_race(Search *s, const TrialList *list, size_t rounds);
/* Leaves the best `n` of those that were measured, the best first. */
void search_keep(TrialList *list, size_t n);
/* The last word: the best few race the default once more, and only these rounds count. Returns the winner: the default, unless
 * another one is faster by SEARCH_GAIN and the whole interval of its ratio is below 1. */
Trial *search_duel(Search *s);

/* At least so much faster, or it is not worth another schedule. */
#define SEARCH_GAIN 0.01

#endif
