/* The plug-in: messages through MPI (3.1), built against the mpi.h that is installed, because MPIs share no binary interface.
 *
 * No call of MPI waits: a loop asks whether messages are done and sleeps more and more in between, so that several ranks share a core
 * and the caller can give up. */
#include "comm/wire.h"

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE = 1 << 30,  /* bytes of a call: MPI counts in int */
    EAGER = 200,      /* times that a wait yields the core before it sleeps */
    SHORTEST = 20000, /* nanoseconds of a sleep, at first and at last */
    LONGEST = 500000,
    SLOW = 30 /* seconds that MPI may take to start and to end, at least */
};

static MPI_Comm world = MPI_COMM_NULL;

/* One call of MPI: a piece of a message. */
typedef struct Pieces {
    MPI_Request *request;
    MPI_Status *status;
    int *done; /* indices that MPI_Testsome() gives */
    WireMessage **of;
    int len, cap;
} Pieces;
static Pieces pieces;

static int refuse(Wire *w, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    snprintf(w->error, sizeof w->error, "%s: %.160s", what, text);
    return 1;
}

/* ---- the job ---- */

/* MPI starts and ends in calls that wait for all ranks, which no one can ask to give up. */
static void too_late(int number)
{
    static const char text[] = "MPI did not start or end within the time-out: a rank is lost or stopped\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

static void watch(unsigned seconds)
{
    signal(SIGALRM, seconds ? too_late : SIG_DFL);
    alarm(seconds);
}

/* A start takes some seconds where cores are few. */
static unsigned patience(const Wire *w) { return w->timeout > SLOW ? (unsigned)w->timeout : SLOW; }

static void read_engine(Wire *w)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = 0;
    snprintf(w->engine, sizeof w->engine, "%.63s", text);
}

static int start(Wire *w)
{
    int level, ranks, rank;
    watch(patience(w));
    int bad = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (!bad)
        bad = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    watch(0);
    if (bad)
        return refuse(w, "MPI cannot start", bad);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_size(world, &ranks);
    MPI_Comm_rank(world, &rank);
    w->ranks = ranks, w->rank = rank;
    read_engine(w);
    return 0;
}

static void end(Wire *w)
{
    watch(patience(w));
    free(pieces.request), free(pieces.status), free(pieces.done), free(pieces.of);
    pieces = (Pieces){0};
    MPI_Comm_free(&world);
    MPI_Finalize();
    watch(0);
}

static void stop(Wire *w, int code)
{
    (void)w;
    fflush(NULL);
    watch(SLOW);
    MPI_Abort(world, code);
    _Exit(code);
}

/* ---- messages ---- */

static int has_room(Pieces *p)
{
    if (p->len < p->cap)
        return 1;
    const int cap = p->cap ? 2 * p->cap : 64;
    void *request = realloc(p->request, (size_t)cap * sizeof *p->request),
         *status = realloc(p->status, (size_t)cap * sizeof *p->status),
         *done = realloc(p->done, (size_t)cap * sizeof *p->done),
         *of = realloc(p->of, (size_t)cap * sizeof *p->of);
    p->request = request ? request : p->request, p->status = status ? status : p->status;
    p->done = done ? done : p->done, p->of = of ? of : p->of;
    if (!request || !status || !done || !of)
        return 0;
    p->cap = cap;
    return 1;
}

static int post_piece(Wire *w, WireMessage *m, char *at, int bytes, int tag)
{
    if (!has_room(&pieces))
        return snprintf(w->error, sizeof w->error, "out of memory"), 1;
    MPI_Request *r = &pieces.request[pieces.len];
    const int bad = m->is_sent ? MPI_Isend(at, bytes, MPI_BYTE, (int)m->rank, tag, world, r)
                               : MPI_Irecv(at, bytes, MPI_BYTE, (int)m->rank, tag, world, r);
    pieces.of[pieces.len++] = m;
    m->left++;
    return bad ? refuse(w, m->is_sent ? "cannot send" : "cannot receive", bad) : 0;
}

/* An empty message is a piece, too. */
static int post(Wire *w, WireMessage *m, int tag)
{
    int64_t at = 0;
    int bad = 0;
    m->got = 0, m->left = 0;
    do {
        const int64_t bytes = m->bytes - at < PIECE ? m->bytes - at : PIECE;
        bad = post_piece(w, m, (char *)m->at + at, (int)bytes, tag);
        at += bytes;
    } while (at < m->bytes && !bad);
    return bad;
}

static int take(Wire *w, WireMessage *m, MPI_Status *s, int bad)
{
    int got = 0;
    if (bad)
        return snprintf(w->error, sizeof w->error,
                        "rank %lld sent more than the %lld bytes that are expected, or is lost",
                        (long long)m->rank, (long long)m->bytes),
               1;
    if (!m->is_sent)
        MPI_Get_count(s, MPI_BYTE, &got);
    m->got += got, m->left--;
    return 0;
}

/* Those that are done now. 0, or 1 with the error. */
static int take_some(Wire *w, int *left)
{
    int n = 0, bad = 0;
    const int code = MPI_Testsome(pieces.len, pieces.request, &n, pieces.done, pieces.status);
    if (code && code != MPI_ERR_IN_STATUS)
        return refuse(w, "messages", code);
    for (int i = 0; i < n && !bad; i++)
        bad = take(w, pieces.of[pieces.done[i]], &pieces.status[i],
                   code ? pieces.status[i].MPI_ERROR != MPI_SUCCESS : 0);
    *left -= n > 0 ? n : 0;
    return bad;
}

static void rest(int turn)
{
    if (turn < EAGER) {
        sched_yield();
        return;
    }
    const long wanted = SHORTEST * (long)(1 + (turn - EAGER) / 16);
    nanosleep(&(struct timespec){0, wanted < LONGEST ? wanted : LONGEST}, NULL);
}

static int await(Wire *w, WireMessage *m, int64_t n, const WireWait *wait)
{
    int left = pieces.len;
    for (int turn = 0; left > 0; turn = turn < 1 << 20 ? turn + 1 : turn) {
        const int before = left;
        if (take_some(w, &left))
            return 1;
        if (left == before) {
            if (turn >= EAGER && wait->waits(wait->self, m, n))
                return 2;
            rest(turn);
        } else {
            turn = 0;
        }
    }
    return 0;
}

static int exchange(Wire *w, WireMessage *m, int64_t n, int tag, const WireWait *wait)
{
    int bad = 0;
    pieces.len = 0;
    for (int is_sent = 0; is_sent < 2; is_sent++)
        for (int64_t i = 0; i < n && !bad; i++)
            if (m[i].is_sent == is_sent)
                bad = post(w, &m[i], tag);
    return bad ? bad : await(w, m, n, wait);
}

extern const WireTable moe_wire;
const WireTable moe_wire = {WIRE_VERSION, start, exchange, end, stop};
