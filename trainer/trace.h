/* --trace: when each task of some steps ran, on all ranks, as JSON that Perfetto and chrome://tracing open. A rank is a process; its
 * tracks are the lanes, the one of exchanges by the widest link of the group. What is noted has its memory before the first step.
 *
 * Functions that return int give 0, or 1 with a message printed: the ranks cannot go on. A file that cannot be written is said, and
 * makes trace_failed(); the training goes on. */
#ifndef TRAINER_TRACE_H
#define TRAINER_TRACE_H

#include "trainer/trainer.h"

/* One run of a task, by this rank's clock. */
typedef struct TaskSpan {
    double begin, end; /* 0: it did not run, behind a gate that was closed */
    int64_t bytes[LINK_COUNT]; /* of an exchange: that this rank sent */
} TaskSpan;

typedef struct StepTrace {
    Trainer *trainer;
    const char *path;
    int64_t begins;     /* the finished steps of the training when the first traced one begins */
    int64_t steps, len; /* to be traced, and traced so far */
    TaskSpan *spans;    /* [steps, tasks of the program] */
    TaskSpan *fetched;  /* on the first rank: those of another one */
    CommTraffic sent[AXIS_COUNT]; /* before the task that runs */
    int is_written, failed;
} StepTrace;

/* Where --trace asks for one. */
int trace_open(Trainer *t);
/* Around a step. Behind the last one that is traced all ranks' files are written. */
void trace_begins(Trainer *t);
int trace_ends(Trainer *t);
int trace_finish(Trainer *t); /* the run has ended before that step, perhaps */
int trace_failed(const Trainer *t);
void trace_close(Trainer *t);

/* trace_write.c: what the ranks have noted goes to the first one, and into the file. */
int trace_write(StepTrace *s);

#endif
