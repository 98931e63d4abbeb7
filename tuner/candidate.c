#include "tuner/candidate.h"

#include "base/bind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Candidate {
    moec_context *context;
    const moec_work *work;
    const moec_options *options;
    moec_case *made;
} Candidate;

/* ---- in the process ---- */

static void prepare_calls(void *user, WorkerNews *out)
{
    Candidate *c = user;
    moec_score score = {0};
    const char *sizes = NULL, *digest;
    cpu_set_t before;
    if (moec_case_new(c->context, c->work, c->options, &c->made)) {
        snprintf(out->text, sizeof out->text, "%s", moec_error_text(c->context));
        return;
    }
    out->bytes = (double)moec_case_bytes(c->made);
    out->wrong = moec_case_check(c->made, &score, &sizes);
    snprintf(out->sizes, sizeof out->sizes, "%s", sizes ? sizes : "");
    if (out->wrong) {
        snprintf(out->text, sizeof out->text, "at %.150s: %.300s", sizes ? sizes : "no sizes",
                 moec_case_error(c->made));
        return;
    }
    digest = moec_case_digest(c->made);
    snprintf(out->digest, sizeof out->digest, "%s", digest ? digest : "");
    if (!digest)
        snprintf(out->text, sizeof out->text, "%s", moec_case_error(c->made));
    /* A team that waited while others were measured would begin on one core, and be moved apart in the middle of a call. */
    bind_here(abs(c->work->threads), &before);
}

static double time_calls(void *user, int calls) { return moec_case_time(((Candidate *)user)->made, calls); }

static double ask_model(void *user, int calls)
{
    const Candidate *c = user;
    moec_prediction said;
    (void)calls;
    return moec_predict(c->context, c->work, c->options, &said) ? (double)NAN : said.seconds;
}

/* ---- */

Worker *candidate_start(moec_context *c, const moec_work *w, const moec_options *o)
{
    Candidate made = {c, w, o, NULL};
    const WorkerTask task = {&made, prepare_calls, time_calls};
    return worker_start(&task);
}

Worker *prediction_start(moec_context *c, const moec_work *w, const moec_options *o)
{
    Candidate made = {c, w, o, NULL};
    const WorkerTask task = {&made, NULL, ask_model};
    return worker_start(&task);
}
