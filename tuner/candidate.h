/* A kernel with a schedule as what worker.h runs in a process of its own. */
#ifndef TUNER_CANDIDATE_H
#define TUNER_CANDIDATE_H

#include "moec/moec.h"
#include "tuner/worker.h"

/* Compiles it, compares it with the interpreter and hashes the bits of its results; then makes calls. NULL: no process could be started. */
Worker *candidate_start(moec_context *c, const moec_work *w, const moec_options *o);
/* Asks the model each time: worker_time() gives what it says of a call in seconds, NaN if it cannot say. NULL as above. */
Worker *prediction_start(moec_context *c, const moec_work *w, const moec_options *o);

#endif
