#include "tuner/worker.h"

#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct Worker {
    pid_t pid; /* 0: it has ended */
    int to, from;
    int heard; /* the news are there */
    double patience;
    WorkerNews news;
    char end[480];
};

/* ---- in the process ---- */

static int read_all(int fd, void *at, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(fd, (char *)at + done, bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

static int write_all(int fd, const void *at, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)at + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

/* Ctrl-C, SIGTERM and SIGHUP are for the tuner, which ends its workers; when the tuner is killed they go with it. */
static void serve(const WorkerTask *task, pid_t tuner, int from, int to)
{
    WorkerNews news;
    int calls;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != tuner) /* it was killed before */
        _exit(0);
    static const int ends[] = {SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], SIG_DFL); /* whatever the program does about them: this process ends */
    memset(&news, 0, sizeof news);
    if (task->prepare)
        task->prepare(task->user, &news);
    if (!write_all(to, &news, sizeof news) || *news.text)
        _exit(0);
    while (read_all(from, &calls, sizeof calls)) {
        double seconds = task->time(task->user, calls);
        if (!write_all(to, &seconds, sizeof seconds) || seconds < 0)
            break;
    }
    _exit(0);
}

/* ---- in the tuner ---- */

Worker *worker_start(const WorkerTask *task)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    Worker *w = calloc(1, sizeof *w);
    const pid_t own = getpid();
    fflush(NULL); /* or the process would write it once more */
    if (!w || pipe(to) || pipe(from) || (w->pid = fork()) < 0) {
        for (int i = 0; i < 2; i++) {
            close(to[i]);
            close(from[i]);
        }
        free(w);
        return NULL;
    }
    if (!w->pid) {
        close(to[1]);
        close(from[0]);
        serve(task, own, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    w->to = to[1];
    w->from = from[0];
    w->patience = 60;
    return w;
}

/* 1: there they are; 0: the process has ended; -1: it takes too long. */
static int hear(const Worker *w, void *at, size_t bytes, double seconds)
{
    double until = clock_seconds() + seconds;
    for (size_t done = 0; done < bytes;) {
        struct pollfd p = {.fd = w->from, .events = POLLIN};
        double left = until - clock_seconds();
        int ready = left > 0 ? poll(&p, 1, (int)(1e3 * left) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ready ? 0 : -1;
        ssize_t n = read(w->from, (char *)at + done, bytes - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

static void bury(Worker *w)
{
    int status = 0;
    if (!w->pid)
        return;
    close(w->to);
    close(w->from);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    w->pid = 0;
    if (!*w->end && WIFSIGNALED(status))
        snprintf(w->end, sizeof w->end, "its process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (!*w->end)
        snprintf(w->end, sizeof w->end, "its process ended");
}

static void stop(Worker *w, double seconds)
{
    snprintf(w->end, sizeof w->end, "no answer after %.3g s", seconds);
    kill(w->pid, SIGKILL);
    bury(w);
}

const WorkerNews *worker_ready(Worker *w, double seconds)
{
    if (w->heard)
        return &w->news;
    int got = hear(w, &w->news, sizeof w->news, seconds);
    w->heard = 1;
    if (got < 0)
        stop(w, seconds);
    if (got > 0 && *w->news.text)
        snprintf(w->end, sizeof w->end, "%s", w->news.text);
    if (got <= 0 || *w->news.text)
        bury(w);
    if (got <= 0)
        snprintf(w->news.text, sizeof w->news.text, "%s", w->end);
    return &w->news;
}

void worker_patience(Worker *w, double seconds_of_a_call) { w->patience = seconds_of_a_call; }

int worker_ask(Worker *w, int calls) { return w->pid && write_all(w->to, &calls, sizeof calls); }

double worker_answer(Worker *w, int calls)
{
    double seconds = -1, patience = w->patience * (calls > 1 ? calls : 1);
    int got = w->pid ? hear(w, &seconds, sizeof seconds, patience) : 0;
    if (got < 0)
        stop(w, patience);
    else if (got && seconds < 0)
        snprintf(w->end, sizeof w->end, "a call failed");
    if (got <= 0 || seconds < 0)
        bury(w);
    return got > 0 ? seconds : -1;
}

double worker_time(void *worker, int calls)
{
    if (!worker_ask(worker, calls))
        bury(worker);
    return worker_answer(worker, calls);
}

const char *worker_end(const Worker *w) { return w->end; }

void worker_free(Worker *w)
{
    if (!w)
        return;
    if (w->pid)
        kill(w->pid, SIGKILL);
    bury(w);
    free(w);
}
