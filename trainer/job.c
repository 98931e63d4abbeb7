#include "trainer/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bind.h"
#include "step/text.h"
#include "step/verify_ranks.h"
#include "trainer/complain.h"
#include "trainer/stop.h"

/* ---- the beginning ---- */

/* --comm-delay: microseconds inside a node, and between nodes. */
static int read_delay(const Config *c, double *delay)
{
    const char *text = c->comm_delay;
    char *end = NULL;
    delay[LINK_INSIDE] = delay[LINK_BETWEEN] = text ? strtod(text, &end) * 1e-6 : 0;
    if (text && end != text && *end == ',') {
        text = end + 1;
        delay[LINK_BETWEEN] = strtod(text, &end) * 1e-6;
    }
    if (text && !(end != text && !*end && delay[LINK_INSIDE] >= 0 && delay[LINK_BETWEEN] >= 0))
        return complain_alike("--comm-delay takes microseconds inside a node, and between nodes, as 20,200");
    if (!(delay[LINK_INSIDE] < c->comm_timeout && delay[LINK_BETWEEN] < c->comm_timeout))
        return complain_alike("--comm-delay must be shorter than --comm-timeout, which is %g s",
                              c->comm_timeout);
    return 0;
}

static const char *broken_rule(const Config *c, const Ranks *r)
{
    const int64_t parts = c->micro_batches * r->members[AXIS_dp];
    if (r->number > 1 && c->check)
        return "--check compares the kernels of one rank";
    if (c->batch % parts)
        return arena_printf(c->arena, "%lld ranks of dp times --micro-batches %lld must divide --batch %lld",
                            (long long)r->members[AXIS_dp], (long long)c->micro_batches, (long long)c->batch);
    return NULL;
}

static void print_ranks(const Config *c, const Comm *comm)
{
    Text t = {.arena = c->arena};
    ranks_print(comm_ranks(comm), &t);
    printf("ranks: %s, by %s\n", text_string(&t), comm_engine(comm));
}

static void leave_to_first(Config *c)
{
    c->log = NULL;
    c->profile = 0;
    if (!freopen("/dev/null", "w", stdout))
        complain("cannot leave stdout to the first rank");
}

/* Where it is not said, the ranks of a node share its cores, unless the launcher has bound them. */
static void share_threads(Config *c, const Comm *comm)
{
    if (!c->threads)
        c->threads = threads_of_rank(comm_ranks(comm)->per_node);
}

Comm *job_open(Config *c)
{
    const char *error;
    CommOptions o = {.asked = {.tp = c->tp, .ep = c->ep, .dp = c->dp, .per_node = c->ranks_per_node},
                     .timeout = c->comm_timeout,
                     .ending = stop_asked,
                     .say = complain};
    if (read_delay(c, o.delay))
        return NULL;
    Comm *comm = comm_open(c->arena, &o, &error);
    const char *rule = comm ? broken_rule(c, comm_ranks(comm)) : NULL;
    if (comm)
        complain_as(comm_rank(comm));
    if (!comm || rule) {
        complain_alike("%s", comm ? rule : error);
        comm_close(comm, 1);
        return NULL;
    }
    if (comm_rank(comm))
        leave_to_first(c);
    else if (comm_ranks(comm)->number > 1)
        print_ranks(c, comm);
    share_threads(c, comm);
    return comm;
}

/* ---- one run ---- */

static uint64_t hash_text(const char *text, uint64_t seed) { return hash_bytes(text, strlen(text), seed); }

/* Of what must be the same on all ranks. */
typedef struct RunPrint {
    uint64_t options, data, program;
} RunPrint;

static uint64_t hash_options(const Config *c)
{
    Config same = *c;
    same.log = same.save = same.resume = NULL, same.threads = 0, same.profile = 0;
    json_t *options = config_json(&same);
    char *text = json_dumps(options, JSON_SORT_KEYS);
    const uint64_t h = text ? hash_text(text, (uint64_t)c->checkpoint_step) : 0;
    free(text);
    json_decref(options);
    return h;
}

static RunPrint print_of(const Trainer *t)
{
    Text program = {.arena = t->session.arena};
    step_print(t->program, &program);
    return (RunPrint){.options = hash_options(t->config),
                      .data = (uint64_t)t->state.data,
                      .program = hash_text(text_string(&program), 0)};
}

/* All ranks have this rank's program. */
static int verify_all(const Trainer *t)
{
    const Ranks *r = comm_ranks(t->comm);
    Arena *a = t->session.arena;
    const Program **programs = arena_array(a, const Program *, r->number);
    for (int64_t i = 0; i < r->number; i++)
        programs[i] = t->program;
    const char *error = step_verify_ranks(a, r, programs);
    return error ? complain_alike("the programs of the ranks: %s", error) : 0;
}

int job_agree(Trainer *t)
{
    const int64_t ranks = comm_ranks(t->comm)->number;
    if (ranks == 1)
        return 0;
    RunPrint own = print_of(t), *all = arena_array(t->session.arena, RunPrint, ranks);
    if (comm_gather(t->comm, "the beginning", &own, sizeof own, all))
        return complain("%s", comm_error(t->comm));
    for (int64_t i = 1; i < ranks; i++)
        if (memcmp(&all[i], &all[0], sizeof own) != 0)
            return complain_alike("rank %lld has other %s than rank 0: all ranks must be started alike",
                                  (long long)i,
                                  all[i].options != all[0].options ? "options"
                                  : all[i].data != all[0].data     ? "data"
                                                                   : "programs of a step");
    return verify_all(t);
}

/* ---- between steps ---- */

enum { SHARED = METRIC_COUNT + 2 }; /* numbers of a rank that are shared at once, at most */

/* Of all ranks, [ranks, n]; NULL with a message printed. */
static const double *gather(Trainer *t, const char *what, const double *own, int64_t n)
{
    if (!t->shared)
        t->shared = arena_array(t->session.arena, double, comm_ranks(t->comm)->number *SHARED);
    if (!comm_gather(t->comm, what, own, n * (int64_t)sizeof *own, t->shared))
        return t->shared;
    complain("%s", comm_error(t->comm));
    return NULL;
}

/* Of number i, added in the order of ranks. */
static double sum_of(const double *all, int64_t ranks, int64_t n, int64_t i)
{
    double sum = 0;
    for (int64_t r = 0; r < ranks; r++)
        sum += all[r * n + i];
    return sum;
}

static double mean_of(const double *all, int64_t ranks, int64_t n, int64_t i)
{
    return sum_of(all, ranks, n, i) / (double)ranks;
}

int job_mean(Trainer *t, const char *what, double *number)
{
    const int64_t ranks = comm_ranks(t->comm)->number;
    const double *all = ranks > 1 ? gather(t, what, number, 1) : number;
    if (all)
        *number = mean_of(all, ranks, 1, 0);
    return !all;
}

int job_most(Trainer *t, const char *what, double *number)
{
    const int64_t ranks = comm_ranks(t->comm)->number;
    const double *all = ranks > 1 ? gather(t, what, number, 1) : number;
    double most = *number;
    for (int64_t r = 0; all && r < ranks; r++)
        most = all[r] > most ? all[r] : most;
    *number = most;
    return !all;
}

int job_resident(Trainer *t, int64_t *most)
{
    struct rusage used = {0};
    getrusage(RUSAGE_SELF, &used);
    double bytes = 1024.0 * (double)used.ru_maxrss;
    const int bad = job_most(t, "resident memory", &bytes);
    *most = (int64_t)bytes;
    return bad;
}

/* All ranks see the same files, or the exchange ends with their sizes. */
int job_sums(Trainer *t, Arena *a, FolderSums *sums)
{
    const int64_t ranks = comm_ranks(t->comm)->number, n = sums->names.len;
    FolderHash *all = arena_array(a, FolderHash, ranks * n + 1);
    if (comm_gather(t->comm, "the checksums of a checkpoint", sums->hashes, n * (int64_t)sizeof *all, all))
        return complain("%s", comm_error(t->comm));
    for (int64_t i = 0; i < n; i++)
        sums->hashes[i] = all[i % ranks * n + i];
    return 0;
}

int job_sum(Trainer *t, const char *what, double *numbers, int64_t n)
{
    const int64_t ranks = comm_ranks(t->comm)->number;
    double *all = malloc((size_t)(ranks * n + 1) * sizeof *all);
    const int bad = !all || comm_gather(t->comm, what, numbers, n * (int64_t)sizeof *all, all);
    for (int64_t i = 0; i < n && !bad; i++)
        numbers[i] = sum_of(all, ranks, n, i);
    free(all);
    return bad ? complain("%s", all ? comm_error(t->comm) : "out of memory") : 0;
}

/* The loss, the metrics, a signal. */
int job_share(Trainer *t)
{
    const int64_t ranks = comm_ranks(t->comm)->number;
    double own[SHARED] = {t->loss};
    if (ranks == 1)
        return 0;
    for (int i = 0; i < METRIC_COUNT; i++)
        own[1 + i] = t->metrics[i].mean;
    own[SHARED - 1] = stop_asked();
    const double *all = gather(t, "the end of a step", own, SHARED);
    if (!all)
        return 1;
    t->loss = mean_of(all, ranks, SHARED, 0);
    for (int i = 0; i < METRIC_COUNT; i++)
        t->metrics[i].mean = mean_of(all, ranks, SHARED, 1 + i);
    for (int64_t r = 0; r < ranks; r++)
        t->stop = all[r * SHARED + SHARED - 1] > 0 ? (int)all[r * SHARED + SHARED - 1] : t->stop;
    stop_ask(t->stop);
    return 0;
}

int job_stops(const Trainer *t) { return comm_ranks(t->comm)->number > 1 ? t->stop : stop_asked(); }

/* ---- the end ---- */

static json_t *axis_json(const Trainer *t, GroupAxis a, CommTraffic traffic)
{
    const CommTraffic planned = comm_planned(t->program, comm_ranks(t->comm), comm_rank(t->comm), a);
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "inside", (json_int_t)traffic.bytes[LINK_INSIDE], "between",
                     (json_int_t)traffic.bytes[LINK_BETWEEN], "planned_inside",
                     (json_int_t)planned.bytes[LINK_INSIDE], "planned_between",
                     (json_int_t)planned.bytes[LINK_BETWEEN], "seconds",
                     traffic.seconds[LINK_INSIDE] + traffic.seconds[LINK_BETWEEN]);
}

json_t *job_json(const Trainer *t)
{
    json_t *all = json_object();
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (comm_traffic(t->comm, a).rounds)
            json_object_set_new(all, axis_names[a], axis_json(t, a, comm_traffic(t->comm, a)));
    return all;
}

void job_print(const Trainer *t, int64_t steps)
{
    for (GroupAxis a = 0; a < AXIS_COUNT; a++) {
        const CommTraffic traffic = comm_traffic(t->comm, a);
        for (CommLink link = 0; link < LINK_COUNT; link++)
            if (traffic.seconds[link] > 0)
                printf("exchanges over %s, %s: %.3f MiB sent by the first rank and %.1f ms in each step\n",
                       axis_names[a], link_names[link], (double)traffic.bytes[link] / 0x1p20 / (double)steps,
                       1e3 * traffic.seconds[link] / (double)steps);
    }
}
