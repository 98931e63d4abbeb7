/* A candidate in a process of its own: one that crashes, hangs or computes nonsense takes nothing with it.
 *
 * The process prepares (compiles, checks), which several do at a time beside what is measured, and then answers: it makes so
 * many calls, and says how long they took. Only one process works then. */
#ifndef TUNER_WORKER_H
#define TUNER_WORKER_H

/* What the process says when it has prepared. */
typedef struct WorkerNews {
    int wrong;         /* it computes, but not what it should */
    char text[480];    /* why it cannot be measured; "": it can */
    char digest[33];   /* of its results */
    char sizes[160];   /* at which they were compared with the interpreter's */
    double bytes;      /* of its memory */
} WorkerNews;

/* What runs in the process. */
typedef struct WorkerTask {
    void *user;
    void (*prepare)(void *user, WorkerNews *out); /* NULL: there is nothing to prepare */
    double (*time)(void *user, int calls); /* seconds of so many calls; below 0: it failed */
} WorkerTask;

typedef struct Worker Worker;

/* NULL: no process could be started. The task is used in the process only, so it may go. */
Worker *worker_start(const WorkerTask *task);
/* Waits until it has prepared; the news of one that ended or took too long say so. One without a text in its news can be measured. */
const WorkerNews *worker_ready(Worker *w, double seconds);
/* A moec_timer. One that takes longer than worker_patience() allows for a call is ended, and fails as one that crashed. */
double worker_time(void *worker, int calls);
/* The two halves of worker_time(), so that several work at a time. */
int worker_ask(Worker *w, int calls);
double worker_answer(Worker *w, int calls);
void worker_patience(Worker *w, double seconds_of_a_call);
const char *worker_end(const Worker *w); /* why it failed */
void worker_free(Worker *w);

#endif
