/* What a tuning learns, kept in the records as soon as it is known: who is killed loses the race that runs. Where the disk is
 * full the search goes on without. */
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const size_t FAILURE_KEPT = SIZE_MAX;

static const char *name_case(Tuning *t)
{
    moec_options o = t->o->options;
    moec_record n;
    o.machine = t->o->machine;
    if (moec_records_name(t->context, &t->work, &o, &n))
        return arena_strdup(t->arena, moec_error_text(t->context));
    n.content = arena_strdup(t->arena, n.content);
    n.kernel = arena_strdup(t->arena, t->space.kernel);
    n.target = arena_strdup(t->arena, n.target);
    n.machine = arena_strdup(t->arena, n.machine);
    n.build = arena_strdup(t->arena, n.build);
    n.sizes = arena_strdup(t->arena, n.sizes);
    n.routing = arena_strdup(t->arena, n.routing);
    t->name = n;
    return NULL;
}

const char *keep_begin(Tuning *t)
{
    const char *off = getenv("MOE_TUNED");
    if (t->o->no_records || (!t->o->records && off && strcmp(off, "off") == 0))
        return NULL;
    const char *error = name_case(t);
    if (!error && moec_records_open(t->context, t->o->records, 1, &t->records)) {
        const char *why = moec_error_text(t->context);
        error = arena_printf(t->arena, "%.*s; --no-db keeps no records", (int)strcspn(why, "\n"), why);
    }
    return error;
}

static void add(Tuning *t, const Trial *x, moec_record_state state)
{
    moec_record r = t->name;
    r.state = state;
    r.schedule = x->schedule;
    r.why = x->why;
    r.seconds = x->seconds > 0 ? x->seconds : NAN;
    r.default_seconds = x->default_seconds > 0 ? x->default_seconds : NAN;
    r.ratio = x->ratio.ratio;
    r.low = x->ratio.low;
    r.high = x->ratio.high;
    r.predicted = x->predicted;
    r.rounds = (int64_t)x->mine.len;
    r.made = (int64_t)time(NULL);
    if (t->records && !t->lost && moec_records_add(t->records, &r))
        t->lost = arena_printf(t->arena, "%s: %s; what is learned from here on is not kept",
                               moec_records_path(t->records), moec_records_error(t->records));
}

void keep_trials(Tuning *t)
{
    for (uint32_t i = 1; t->records && i < t->search.trials.len; i++) {
        Trial *x = t->search.trials.at[i];
        int failed = x->state == TRIAL_FAILED || x->state == TRIAL_WRONG;
        if (x->state == TRIAL_MEASURED && x->mine.len != x->kept) {
            add(t, x, MOEC_TRIED);
            x->kept = x->mine.len;
        } else if (failed && x->kept != FAILURE_KEPT) {
            add(t, x, x->state == TRIAL_WRONG ? MOEC_WRONG : MOEC_FAILED);
            x->kept = FAILURE_KEPT;
        }
    }
}

/* The default that was kept is a winner without a schedule, against itself; against nothing it is none. */
void keep_winner(Tuning *t, const Trial *winner)
{
    Trial usual = *winner;
    if (!winner->number) {
        usual.schedule = "";
        usual.ratio = (moec_ratio){1, 1, 1};
    }
    if (t->records && search_count(&t->search, TRIAL_MEASURED))
        add(t, &usual, winner->number ? MOEC_BEST : MOEC_KEPT);
}

void keep_end(Tuning *t)
{
    moec_records_close(t->records);
    t->records = NULL;
}
