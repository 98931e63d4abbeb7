/* What a run tells: progress lines on stdout, and with --log one JSON object per line. */
#ifndef TRAINER_LOG_H
#define TRAINER_LOG_H

#include "trainer/checkpoint.h"

typedef struct Log {
    const Config *config;
    int fd, reason;                    /* of --log, or -1; why a line could not be written */
    int terminal;                      /* stdout is one: each step is shown */
    double steps;                      /* seconds inside steps */
    double kernels;                    /* of them, seconds inside kernels */
    double step_began, kernels_before; /* at the start of this step */
    double spent_last;                 /* `steps` at the last progress line */
    int64_t resident;                  /* the most bytes of a rank, at the end */
    int64_t step_first, step_last;     /* the steps where the run began, and of that line */
} Log;

int log_open(Log *l, const Config *c);
void log_model(Log *l, const Trainer *t);
void log_step_begins(Log *l, const Trainer *t);
void log_step(Log *l, const Trainer *t);
void log_validation(Log *l, const Trainer *t, double loss, double bigram);
void log_save(Log *l, const SaveFolder *f, double seconds);
void log_end(Log *l, const Trainer *t);
/* 0, or 1 with a message when the file could not be written. */
int log_close(Log *l);

#endif
