/* --tune: schedules for the kernels of this run, at its sizes and by its own routing.
 *
 * Note [Tuning a run] The first steps run in a process of their own, which says how long each task takes and how many rows the experts
 * get; nothing of it stays but these numbers, so the run itself begins as if there had been none. Then the tuner searches for the kernels that
 * take most of the time, each in turn, and keeps what it learns in the records, and the code of the run is compiled with what they
 * have for such calls, as by `moec --tuned-for`. All of this is before this process has threads: candidates are
 * forked. Only schedules that keep bits are tried, so losses and weights are those of a run without --tune.
 *
 * A file is compiled once, so all its kernels get one set of sizes: those of its most expensive task. Kernels that are only called
 * with others are left as they are. */
#include "trainer/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainer/complain.h"
#include "trainer/stop.h"
#include "tuner/tuner.h"

enum { FIRST_STEPS = 3, TUNED_KERNELS = 12 };
static const double least_seconds = 4; /* of a search: compiling and checking candidates takes seconds */

/* What the first steps tell. */
typedef struct FirstSteps {
    double *seconds; /* by task: of the last step */
    int64_t *rows;   /* of each expert in the middle one of the layers that have some */
    int64_t experts;
} FirstSteps;

/* ---- the first steps, in their process ---- */

/* The route of a layer in the middle, which stays behind its step; STEP_NONE: the model has no experts. */
static BufferId middle_route(Program *p)
{
    Vec(BufferId) routes = {0};
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].kind == MOEC_ROUTE && p->buffers.at[b].base == STEP_NONE)
            vec_push(p->arena, &routes, b);
    return routes.len ? routes.at[routes.len / 2] : STEP_NONE;
}

static int read_all(int fd, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(fd, (char *)to + done, bytes - done);
        if (n <= 0)
            return 1;
        done += (size_t)n;
    }
    return 0;
}

static int run_first_steps(Trainer *t, BufferId route, const FirstSteps *f, int to)
{
    if (route != STEP_NONE)
        t->program->buffers.at[route].owner = OWNER_state;
    if (trainer_begin(t))
        return 1;
    for (int i = 0; i < FIRST_STEPS; i++)
        if (trainer_step(t))
            return 1;
    for (TaskId i = 0; i < t->program->tasks.len; i++)
        f->seconds[i] = run_task_seconds(t->step, i);
    const moe_route *r = route == STEP_NONE ? NULL : run_at(t->step, t->program->buffers.at[route].name);
    return file_write(to, f->seconds, t->program->tasks.len * sizeof *f->seconds) ||
           (r && file_write(to, r->count, (size_t)f->experts * sizeof *r->count));
}

static int take_first_steps(Trainer *t, FirstSteps *f)
{
    int ends[2], status = 0;
    const BufferId route = middle_route(t->program);
    Arena *a = t->session.arena;
    f->experts = route == STEP_NONE ? 0 : t->program->buffers.at[route].shape[2];
    f->seconds = arena_array(a, double, t->program->tasks.len + 1);
    f->rows = arena_array(a, int64_t, f->experts + 1);
    fflush(NULL);
    if (pipe(ends))
        return 1;
    const pid_t own = getpid(), child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it goes with this process */
        _exit(getppid() != own || run_first_steps(t, route, f, ends[1]));
    }
    close(ends[1]);
    int bad = child < 0 || read_all(ends[0], f->seconds, t->program->tasks.len * sizeof *f->seconds) ||
              read_all(ends[0], f->rows, (size_t)f->experts * sizeof *f->rows);
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child)
        bad |= status;
    return bad;
}

/* ---- which kernels, and how they are called ---- */

typedef struct HotKernel {
    const char *name, *file;
    double seconds, longest; /* of all its tasks, and of the longest one */
    const Task *task;        /* that one */
} HotKernel;
typedef Vec(HotKernel) HotKernels;

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const HotKernel *)a)->seconds, y = ((const HotKernel *)b)->seconds;
    return (x < y) - (x > y);
}

/* The slowest first. */
static HotKernels find_kernels(const Trainer *t, const FirstSteps *f, double *sum)
{
    HotKernels list = {0};
    const Program *p = t->program;
    for (uint32_t k = 0; k < p->kernels.len; k++)
        vec_push(p->arena, &list,
                 (HotKernel){.name = p->kernels.at[k].name,
                             .file = kernels_source(t->session.kernels, p->kernels.at[k].name)});
    for (TaskId i = 0; i < p->tasks.len; i++) {
        if (p->tasks.at[i].kind != TASK_kernel)
            continue;
        HotKernel *h = &list.at[p->tasks.at[i].kernel];
        *sum += f->seconds[i];
        h->seconds += f->seconds[i];
        if (!h->task || f->seconds[i] > h->longest)
            h->longest = f->seconds[i], h->task = &p->tasks.at[i];
    }
    qsort(list.at, list.len, sizeof *list.at, by_seconds);
    return list;
}

/* Sizes that the kernels of a file are called with. */
typedef struct FileCalls {
    const char *file;
    Vec(TaskDim) dims;
    int has_route;
} FileCalls;

/* 0: it is called with another size of one of the dimensions. */
static int agree(const FileCalls *c, const Task *t)
{
    for (uint32_t i = 0; i < t->dims.len; i++)
        for (uint32_t k = 0; k < c->dims.len; k++)
            if (strcmp(t->dims.at[i].name, c->dims.at[k].name) == 0 &&
                t->dims.at[i].size != c->dims.at[k].size)
                return 0;
    return 1;
}

static void add_call(const Program *p, FileCalls *c, const Task *t)
{
    for (uint32_t i = 0; i < t->dims.len; i++) {
        uint32_t k = 0;
        while (k < c->dims.len && strcmp(c->dims.at[k].name, t->dims.at[i].name) != 0)
            k++;
        if (k == c->dims.len)
            vec_push(p->arena, &c->dims, t->dims.at[i]);
    }
    each_operand(t, o) c->has_route |= p->buffers.at[o->buffer].kind == MOEC_ROUTE;
}

static const char *sizes_of(Arena *a, const TaskDim *dims, uint32_t n)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < n; i++)
        text_add(&t, "%s%s=%lld", i ? "," : "", dims[i].name, (long long)dims[i].size);
    return text_string(&t);
}

static const char *routing_of(Arena *a, const FirstSteps *f)
{
    Text t = {.arena = a};
    for (int64_t e = 0; e < f->experts; e++)
        text_add(&t, "%s%lld", e ? "," : "exact(", (long long)f->rows[e]);
    text_add(&t, ")");
    return text_string(&t);
}

/* ---- all ---- */

static void search(Trainer *t, const HotKernel *h, const char *routing, double seconds)
{
    KernelText text;
    const Task *task = h->task;
    if (!kernels_text(t->session.kernels, h->name, &text))
        return;
    const TuneOptions o = {
        .work = {.path = text.file, .text = text.text, .kernel = h->name, .seed = (uint64_t)t->config->seed},
        .options = {.types = text.types, .derive = text.derive},
        .sizes = {sizes_of(t->session.arena, task->dims.at, task->dims.len)},
        .routings = {routing},
        .threads = {openmp_threads((int)t->config->threads)},
        .nsizes = 1,
        .nroutings = 1,
        .nthreads = 1,
        .budget = seconds,
        .strategy = "halving",
        .seed = 1,
        .keep_bits = 1,
        .progress = on_terminal(STDERR_FILENO),
        .stop = stop_flag()};
    tune(&o, stdout);
}

static FileCalls *calls_of(FileCalls *files, uint32_t n, const char *file)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(files[i].file, file) == 0)
            return &files[i];
    return NULL;
}

/* Those that are tuned: the slowest, as far as the time goes. Leaves the others out of the list. */
static uint32_t choose(const Trainer *t, HotKernels *list, FileCalls *files)
{
    uint32_t kept = 0, nfiles = 0;
    const double most = fmin(t->config->tune_seconds / least_seconds, TUNED_KERNELS);
    for (uint32_t i = 0; i < list->len && (!kept || kept + 1 <= most); i++) {
        HotKernel h = list->at[i];
        FileCalls *c = h.task ? calls_of(files, nfiles, h.file) : NULL;
        if (!h.task || (c && !agree(c, h.task)))
            continue;
        if (!c)
            *(c = &files[nfiles++]) = (FileCalls){.file = h.file};
        add_call(t->program, c, h.task);
        list->at[kept++] = h;
    }
    list->len = kept;
    return nfiles;
}

static void tune_kernels(Trainer *t, const FirstSteps *f, double seconds)
{
    double all = 0, chosen = 0;
    Arena *a = t->session.arena;
    HotKernels list = find_kernels(t, f, &all);
    FileCalls *files = arena_array(a, FileCalls, list.len + 1);
    const uint32_t nfiles = choose(t, &list, files);
    const char *routing = routing_of(a, f);
    for (uint32_t i = 0; i < list.len; i++)
        chosen += list.at[i].seconds;
    printf("tune: %u kernels, which take %.0f %% of a step's kernels, in %.0f s\n", list.len,
           100 * chosen / all, seconds);
    for (uint32_t i = 0; i < list.len && !stop_asked(); i++) {
        const FileCalls *c = calls_of(files, nfiles, list.at[i].file);
        const double mine = (seconds - least_seconds * list.len) * list.at[i].seconds / chosen;
        search(t, &list.at[i], c->has_route ? routing : NULL, least_seconds + fmax(mine, 0));
    }
    for (uint32_t i = 0; i < nfiles; i++)
        kernels_tuned_for(t->session.kernels, files[i].file,
                          arena_printf(a, "%s%s%s", sizes_of(a, files[i].dims.at, files[i].dims.len),
                                       files[i].has_route ? ",routing=" : "",
                                       files[i].has_route ? routing : ""),
                          openmp_threads((int)t->config->threads));
}

void tune_run(Trainer *t)
{
    FirstSteps f;
    const char *off = getenv("MOE_TUNED");
    const double begin = clock_seconds();
    if (comm_ranks(t->comm)->number > 1) /* whose first steps are exchanged with others */
        complain("--tune is for a run on one rank: nothing is tuned");
    else if (off && strcmp(off, "off") == 0)
        complain("--tune keeps schedules in the records, and MOE_TUNED is off: nothing is tuned");
    else if (take_first_steps(t, &f))
        complain("--tune: the first steps could not be run: nothing is tuned");
    else
        tune_kernels(t, &f, t->config->tune_seconds - (clock_seconds() - begin));
    fflush(stdout);
}
