/* The judges of a case: one runs candidates beside the default, each in a process of its own; the other asks a model. */
#include "tuner/candidate.h"
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIVE = 14 /* processes at a time */, PREDICTORS = 16, SAMPLES = 64 };
static const double prepare_seconds = 60, predict_seconds = 20, spin = 0.03;
static const double hang = 50,
                    hang_least = 2;   /* so many times as long as the default takes, and seconds at least */
static const double model_part = 0.2; /* of the time of a case, that the model may take */

static double left(void *user)
{
    const Tuning *t = user;
    return t->o->stop && *t->o->stop ? 0 : t->broken ? 0 : t->end - clock_seconds();
}

static moec_options options_of(const Tuning *t, const Trial *trial)
{
    moec_options o = t->o->options;
    o.machine = t->o->machine;
    o.schedule = *trial->schedule ? trial->schedule : NULL;
    return o;
}

/* The first line of what the compiler says, without the place in a text that nobody has seen. */
static const char *first_line(const char *text, Arena *a)
{
    const char *from = strstr(text, "error[");
    from = from && strchr(from, ' ') ? strchr(from, ' ') + 1 : text;
    return arena_strndup(a, from, strcspn(from, "\n"));
}

static void decide(void *user, Trial *trial)
{
    Tuning *t = user;
    moec_options o = options_of(t, trial);
    if (!moec_decide(t->context, &t->work, &o, trial->digest))
        return;
    trial->state = TRIAL_UNFIT;
    trial->why = first_line(moec_error_text(t->context), t->arena);
}

/* ---- the model ---- */

typedef struct Predictor {
    Tuning *tuning;
    Trial *const *trials;
} Predictor;

/* In its process. calls: 1 + the number of the trial. NaN is an answer. */
static double ask_model(void *user, int calls)
{
    const Predictor *p = user;
    moec_options o = options_of(p->tuning, p->trials[calls - 1]);
    moec_prediction said;
    return moec_predict(p->tuning->context, &p->tuning->work, &o, &said) ? NAN : said.seconds;
}

static int ask_next(Worker **w, const WorkerTask *task, size_t trial)
{
    if (!*w && (*w = worker_start(task))) {
        worker_ready(*w, prepare_seconds);
        worker_patience(*w, predict_seconds);
    }
    return *w && worker_ask(*w, (int)trial + 1);
}

static void take_answer(Worker **w, Trial *trial)
{
    double seconds = worker_answer(*w, 1);
    if (seconds >= 0)
        trial->predicted = seconds;
    if (seconds < 0) {
        worker_free(*w);
        *w = NULL;
    }
}

static size_t predictors(void)
{
    const size_t cores = (size_t)computer_cores();
    return cores < PREDICTORS ? cores : PREDICTORS;
}

static void predict_until(Tuning *t, Trial *const *trials, size_t n, double until)
{
    Worker *workers[PREDICTORS] = {NULL};
    Predictor p = {t, trials};
    const WorkerTask task = {&p, NULL, ask_model};
    size_t many = predictors();
    for (size_t at = 0; at < n && clock_seconds() < until; at += many) {
        int asked[PREDICTORS] = {0};
        for (size_t i = 0; i < many && at + i < n; i++)
            asked[i] = isnan(trials[at + i]->predicted) && ask_next(&workers[i], &task, at + i);
        for (size_t i = 0; i < many && at + i < n; i++)
            if (asked[i])
                take_answer(&workers[i], trials[at + i]);
    }
    for (size_t i = 0; i < many; i++)
        worker_free(workers[i]);
}

static void predict(void *user, Trial *const *trials, size_t n)
{
    Tuning *t = user;
    double most = t->o->machine ? left(t) - t->search.reserve : model_part * (t->end - t->begin) / 2;
    predict_until(t, trials, n, clock_seconds() + most);
}

static void add_round(Tuning *t, Trial *trial, double mine, double base)
{
    vec_push(t->arena, &trial->mine, mine);
    vec_push(t->arena, &trial->base, base);
}

static void race_by_model(void *user, Trial *const *trials, size_t n, size_t rounds, Trial *const *next,
                          size_t nnext)
{
    Tuning *t = user;
    Trial *base = t->search.trials.at[0];
    (void)next;
    (void)nnext;
    predict_until(t, &base, 1, INFINITY);
    predict_until(t, trials, n, INFINITY);
    if (isnan(base->predicted))
        t->broken = "the model cannot run the default";
    for (size_t i = 0; i < n; i++) {
        if (isnan(trials[i]->predicted)) {
            trials[i]->state = TRIAL_FAILED;
            trials[i]->why = "the model cannot run it";
        }
        for (size_t r = 0; r < rounds && !isnan(trials[i]->predicted); r++)
            add_round(t, trials[i], trials[i]->predicted, base->predicted);
    }
}

/* ---- candidates in their processes ---- */

typedef struct LiveTrial {
    Trial *trial;
    Worker *worker; /* NULL: the place is free */
    uint64_t used;
} LiveTrial;

typedef struct LiveSet {
    LiveTrial at[LIVE];
    uint64_t clock;
    size_t most; /* as memory allows */
} LiveSet;

static void drop(LiveTrial *l)
{
    worker_free(l->worker);
    *l = (LiveTrial){.worker = NULL};
}

/* A place that is free, or that of the one that was used longest ago; the default, at 0, stays. */
static LiveTrial *place(LiveSet *s)
{
    LiveTrial *oldest = NULL;
    for (size_t i = 1; i < s->most; i++) {
        if (!s->at[i].worker)
            return &s->at[i];
        if (!oldest || s->at[i].used < oldest->used)
            oldest = &s->at[i];
    }
    drop(oldest);
    return oldest;
}

static LiveTrial *find_live(LiveSet *s, const Trial *trial)
{
    for (size_t i = 0; i < s->most; i++)
        if (s->at[i].worker && s->at[i].trial == trial)
            return &s->at[i];
    return NULL;
}

/* Starts its process unless there is one. It prepares while others are measured. */
static LiveTrial *start(Tuning *t, Trial *trial)
{
    LiveSet *s = t->live;
    LiveTrial *l = find_live(s, trial);
    moec_options o = options_of(t, trial);
    if (!l) {
        l = trial->number ? place(s) : &s->at[0];
        *l = (LiveTrial){.trial = trial, .worker = candidate_start(t->context, &t->work, &o)};
    }
    l->used = ++s->clock;
    return l;
}

static void take_news(Tuning *t, Trial *trial, const WorkerNews *news)
{
    if (*news->text) {
        trial->state = news->wrong ? TRIAL_WRONG : TRIAL_FAILED;
        trial->why = arena_strndup(t->arena, news->text, strcspn(news->text, "\n"));
    } else if (trial->number && space_keeps_bits(&t->space, &trial->point) &&
               strcmp(news->digest, t->digest) != 0) {
        trial->state = TRIAL_WRONG;
        trial->why = "other bits than the default's, although its clauses keep bits";
    }
}

static int is_out(const Trial *t) { return t->state != TRIAL_READY && t->state != TRIAL_MEASURED; }

/* Seconds until a process has compiled and checked its candidate. One that hangs does not outlast the time by much. */
static double patience_of(const Tuning *t, const Trial *trial)
{
    return trial->number ? fmin(prepare_seconds, fmax(t->end - clock_seconds(), hang_least))
                         : prepare_seconds;
}

static Worker *ready(Tuning *t, Trial *trial)
{
    LiveTrial *l = start(t, trial);
    if (!l->worker) {
        trial->state = TRIAL_FAILED;
        trial->why = "no process could be started for it";
        return NULL;
    }
    take_news(t, trial, worker_ready(l->worker, patience_of(t, trial)));
    if (is_out(trial))
        drop(l);
    return l->worker;
}

static void keep_samples(Tuning *t, Trial *trial, const moec_runner *mine, const moec_runner *base)
{
    size_t n = mine->rounds < base->rounds ? mine->rounds : base->rounds;
    for (size_t r = 0; r < n; r++)
        add_round(t, trial, mine->samples[r], base->samples[r]);
}

static void break_off(Tuning *t, const char *why)
{
    t->broken = arena_printf(t->arena, "the default cannot be measured: %s", why);
}

/* A candidate. */
static void give_up(Tuning *t, Trial *trial)
{
    LiveTrial *l = find_live(t->live, trial);
    trial->state = TRIAL_FAILED;
    trial->why = arena_printf(t->arena, "%s", worker_end(l->worker));
    drop(l);
}

/* The default ran before, so its process may have been killed, as by a system whose memory ends: it gets another one, once. */
static void begin_again(Tuning *t, Trial *usual)
{
    LiveTrial *l = find_live(t->live, usual);
    const char *why = arena_printf(t->arena, "%s", worker_end(l->worker));
    if (t->begun_again++) {
        break_off(t, why);
        return;
    }
    fprintf(stderr, "%smoec: the default: %s; it begins again, once\n", t->o->progress ? "\r\033[K" : "",
            why);
    drop(l);
    Worker *w = ready(t, usual);
    if (w)
        worker_patience(w, fmax(hang * usual->seconds, hang_least));
    else
        break_off(t, usual->why);
}

/* The default and candidates in turn. One that fails is left out, and the others begin again. */
static void measure(Tuning *t, Trial **trials, size_t n, size_t rounds)
{
    double samples[LIVE][SAMPLES];
    int failed = 1;
    while (failed && n > 1 && !t->broken) {
        moec_runner r[LIVE] = {{0}};
        double limit = fmax(t->end - clock_seconds(), 1) / 4;
        moec_patience p = {.fewest = rounds,
                           .most = rounds < SAMPLES ? rounds : SAMPLES,
                           .seconds = limit,
                           .pause = t->work.threads == -1 ? 0 : spin};
        for (size_t i = 0; i < n; i++)
            r[i] = (moec_runner){.time = worker_time, .user = ready(t, trials[i]), .samples = samples[i]};
        failed = moec_measure(r, n, &p);
        for (size_t i = 1; i < n && !failed; i++)
            keep_samples(t, trials[i], &r[i], &r[0]);
        if (failed == 1) {
            begin_again(t, trials[0]);
        } else if (failed) {
            give_up(t, trials[failed - 1]);
            memmove(&trials[failed - 1], &trials[failed], (n - (size_t)failed) * sizeof *trials);
            n--;
        }
    }
}

/* Trials whose processes are started. */
static void race_some(Tuning *t, Trial *const *trials, size_t n, size_t rounds)
{
    Trial *racing[LIVE] = {t->search.trials.at[0]};
    size_t many = 1;
    for (size_t i = 0; i < n; i++) {
        Worker *w = ready(t, trials[i]);
        double usual = t->search.trials.at[0]->seconds;
        if (!w)
            continue;
        worker_patience(w, fmax(hang * usual, hang_least));
        racing[many++] = trials[i];
    }
    measure(t, racing, many, rounds);
}

/* Processes prepare beside what is measured only where that leaves them a core. */
static int may_prepare(const Tuning *t) { return abs(t->work.threads) < computer_cores() && t->work.threads; }

static void race(void *user, Trial *const *trials, size_t n, size_t rounds, Trial *const *next, size_t nnext)
{
    Tuning *t = user;
    LiveSet *s = t->live;
    size_t batch = s->most - 1;
    for (size_t at = 0; at < n && !t->broken; at += batch) {
        size_t some = n - at < batch ? n - at : batch;
        for (size_t i = 0; i < some; i++)
            start(t, trials[at + i]);
        for (size_t i = 0; i < nnext && at + some == n && n + nnext + 1 <= s->most && may_prepare(t); i++)
            start(t, next[i]);
        race_some(t, trials + at, some, rounds);
    }
}

/* ---- begin and end ---- */

/* Two thirds of the memory that is free, and an eighth more for each process than its parameters have. */
static size_t most_live(double bytes)
{
    double pages = (double)sysconf(_SC_AVPHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    double many = pages * page * 2 / 3 / (bytes * 9 / 8 + (64 << 20));
    return many < 3 ? 3 : many > LIVE ? LIVE : (size_t)many;
}

static const char *open_space(Tuning *t)
{
    const char *json;
    moec_options o = t->o->options;
    o.machine = t->o->machine;
    if (moec_space(t->context, &t->work, &o, &json))
        return arena_printf(t->arena, "%s", moec_error_text(t->context));
    return space_read(json, t->o->keep_bits, t->arena, &t->space);
}

/* The default, measured alone, says how long a call takes. */
static const char *begin_default(Tuning *t)
{
    enum { ROUNDS = 3 };
    Trial *base = t->search.trials.at[0];
    double samples[ROUNDS];
    LiveSet *s = t->live;
    s->most = 1;
    Worker *w = ready(t, base);
    if (!w)
        return arena_printf(t->arena, "the default cannot be measured: %s", base->why);
    const WorkerNews *news = worker_ready(w, 0);
    memcpy(t->digest, news->digest, sizeof t->digest);
    memcpy(t->check_sizes, news->sizes, sizeof t->check_sizes);
    s->most = most_live(news->bytes);
    moec_runner r = {.time = worker_time, .user = w, .samples = samples};
    moec_patience p = {.fewest = ROUNDS, .most = ROUNDS, .seconds = prepare_seconds};
    if (moec_measure(&r, 1, &p))
        return arena_printf(t->arena, "the default cannot be measured: %s", worker_end(w));
    base->seconds = base->default_seconds = moec_spread_of(samples, r.rounds).median;
    worker_patience(w, fmax(hang * base->seconds, hang_least));
    return NULL;
}

static const char *begin_model(Tuning *t)
{
    Trial *base = t->search.trials.at[0];
    predict_until(t, &base, 1, INFINITY);
    base->seconds = base->default_seconds = base->predicted;
    return isnan(base->predicted) ? "the model cannot run the default" : NULL;
}

const char *tuning_begin(Tuning *t)
{
    int by_model = t->o->machine != NULL;
    t->judge = (Judge){.user = t,
                       .decide = decide,
                       .predict = predict,
                       .race = by_model ? race_by_model : race,
                       .left = left,
                       .tell = t->judge.tell};
    t->live = calloc(1, sizeof(LiveSet));
    const char *error = t->live ? open_space(t) : "out of memory";
    if (error)
        return error;
    t->search = search_new(t->arena, &t->space, &t->judge, t->o->seed, (t->end - t->begin) / 4);
    if (is_out(t->search.trials.at[0]))
        return t->search.trials.at[0]->why;
    if (t->o->list_space)
        return NULL;
    return by_model ? begin_model(t) : begin_default(t);
}

void tuning_end(Tuning *t)
{
    LiveSet *s = t->live;
    for (size_t i = 0; s && i < LIVE; i++)
        worker_free(s->at[i].worker);
    free(s);
    t->live = NULL;
}
