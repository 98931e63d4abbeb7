/* The ranks of a run: how they begin, and what they tell each other between exchanges of the step. Functions that return int give 0,
 * or 1 with a message printed. */
#ifndef TRAINER_JOB_H
#define TRAINER_JOB_H

#include "trainer/trainer.h"

/* Joins the ranks that the options and the launcher say. Only the first one prints to stdout, logs, saves and samples: the others
 * lose these options. NULL with a message printed. */
Comm *job_open(Config *c);
/* Is this rank's run the one of the first rank: the same options, data, checkpoint and program? And does what
 * all of them exchange finish? */
int job_agree(Trainer *t);
/* After a step: losses and metrics become their means over the ranks, and a signal to one of them is one to all. */
int job_share(Trainer *t);
int job_stops(const Trainer *t); /* what all ranks know of signals after a step: they stop together */
/* A number becomes its mean over the ranks. `what` for messages. */
int job_mean(Trainer *t, const char *what, double *number);
int job_sum(Trainer *t, const char *what, double *numbers, int64_t n); /* become their sums over the ranks */
int job_most(Trainer *t, const char *what, double *number);            /* becomes the largest of all ranks */
/* The most memory that was resident in any rank so far, in bytes. */
int job_resident(Trainer *t, int64_t *most);
/* Checksums of the files of a folder become those of all ranks: rank r has number r, r + ranks and so on. */
int job_sums(Trainer *t, Arena *a, FolderSums *sums);
/* What the first rank's exchanges took, by axis; and what they were to send in each step. */
json_t *job_json(const Trainer *t);
void job_print(const Trainer *t, int64_t steps);

#endif
