#include "step/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- binding ---- */

/* A scalar's first value. */
static void set_scalar(void *at, const StepBuffer *b)
{
    if (b->type == MOEC_I32)
        *(int32_t *)at = (int32_t)b->value;
    else
        *(float *)at = (float)b->value;
}

static char *home_memory(Run *r, BufferId home)
{
    const StepBuffer *b = &r->program->buffers.at[home];
    if (b->owner == OWNER_disk)
        return NULL;
    if (!owner_persists[b->owner])
        return r->memory + b->place;
    const int known = store_at(r->store, b->name) != NULL;
    char *at = store_take(r->store, b->name, b->bytes, &r->error);
    if (at && !known && b->kind == MOEC_SCALAR)
        set_scalar(at, b);
    return at;
}

static void *buffer_memory(Run *r, BufferId id)
{
    const StepBuffer *b = &r->program->buffers.at[id];
    char *at = home_memory(r, step_home(r->program, id));
    if (!at)
        return NULL;
    if (b->kind != MOEC_ROUTE)
        return at + b->offset;
    moe_route *route = &r->routes[id];
    int64_t *start = (int64_t *)(void *)at, *count = start + b->shape[2] + 1;
    int32_t *slot_of = (int32_t *)(void *)(count + b->shape[2]);
    *route = (moe_route){b->shape[0], b->shape[1], b->shape[2], b->shape[3],
                         start,       count,       slot_of,     slot_of + b->shape[3]};
    return route;
}

static void bind_dims(Run *r, BoundTask *b)
{
    b->dims = arena_array(r->arena, int64_t, b->task->dims.len + 1);
    for (uint32_t i = 0; i < b->task->dims.len; i++) {
        const TaskDim *d = &b->task->dims.at[i];
        b->dims[i] = d->size;
        if (d->extent != STEP_NONE)
            vec_push(r->arena, &b->refresh, (Refresh){&b->dims[i], buffer_memory(r, d->extent), d->size});
    }
}

/* A kernel takes them in the order of its parameters, others in that of the task. */
static void bind_args(Run *r, BoundTask *b)
{
    b->args = arena_array(r->arena, void *, b->task->operands.len + 1);
    for (uint32_t i = 0; i < b->task->operands.len && !r->error; i++) {
        const Operand *o = &b->task->operands.at[i];
        const size_t place = b->code ? moec_kernel_param_index(b->code, o->param) : i;
        if (o->use != USE_SHAPE)
            b->args[place] = buffer_memory(r, o->buffer);
    }
}

static void bind_kernel(Run *r, BoundTask *b)
{
    const char *name = r->program->kernels.at[b->task->kernel].name;
    b->code = kernels_code(r->kernels, name);
    b->interpreted = kernels_find(r->kernels, name);
    b->entry = b->code ? moec_kernel_entry(b->code) : NULL;
    if (!b->entry)
        REFUSE_RUN(r, "there is no code of kernel %s", name);
    if (b->task->work != STEP_NONE) {
        b->work = r->memory + r->program->buffers.at[b->task->work].place;
        b->work_bytes = -r->program->buffers.at[b->task->work].bytes;
    }
}

static void bind_task(Run *r, const Task *t)
{
    BoundTask b = {.task = t};
    bind_dims(r, &b);
    if (t->kind == TASK_kernel)
        bind_kernel(r, &b);
    if (!r->error)
        bind_args(r, &b);
    if (exchange_rules[t->kind].is_exchange && !r->error)
        run_bind_exchange(r, &b);
    if (task_lanes[t->kind] == LANE_disk && !r->error)
        run_bind_disk(r, &b);
    b.jobs_before = run_jobs_before(r, t);
    vec_push(r->arena, &r->tasks, b);
}

static void bind(Run *r)
{
    r->routes = arena_array(r->arena, moe_route, r->program->buffers.len + 1);
    r->times = arena_array(r->arena, KernelTime, r->program->kernels.len + 1);
    r->spent = arena_array(r->arena, double, r->program->tasks.len + 1);
    if (r->program->arena_bytes < 0) {
        REFUSE_RUN(r, "the program has no places in memory");
        return;
    }
    r->memory = store_arena(r->store, r->program->arena_bytes);
    r->ctx = moe_ctx_new(r->options.threads);
    r->team = team_new(openmp_threads(r->options.threads));
    if (!r->memory || !r->ctx)
        REFUSE_RUN(r, "no memory for an arena of %lld bytes", (long long)r->program->arena_bytes);
    for (TaskId t = 0; t < r->program->tasks.len && !r->error; t++)
        bind_task(r, &r->program->tasks.at[t]);
    if (r->jobs.len && !r->error)
        r->disk = disk_new(r->options.swap_fd, r->jobs.at, r->jobs.len);
    if (r->jobs.len && !r->disk)
        REFUSE_RUN(r, "no memory or no thread for the lane of the swap file");
}

Run *run_new(Program *p, KernelSet *k, Store *s, const RunOptions *o, const char **error)
{
    Arena *a = arena_new();
    *error = "out of memory";
    if (!a)
        return NULL;
    Run *r = arena_new_of(a, Run);
    *r = (Run){.program = p, .kernels = k, .store = s, .options = *o, .arena = a};
    bind(r);
    if (!r->error)
        return r;
    *error = arena_printf(p->arena, "%s", r->error);
    run_free(r);
    return NULL;
}

void run_free(Run *r)
{
    if (!r)
        return;
    disk_free(r->disk);
    if (r->ctx) {
        r->ctx->work = NULL, r->ctx->work_bytes = 0; /* the arena's */
        moe_ctx_free(r->ctx);
    }
    arena_free(r->arena);
}

/* ---- running ---- */

int run_fail(Run *r, const BoundTask *b, const char *why)
{
    const char *of = b->task->kernel != STEP_NONE ? r->program->kernels.at[b->task->kernel].name
                     : exchange_rules[b->task->kind].is_exchange ? axis_names[b->task->axis]
                                                                 : "";
    snprintf(r->text, sizeof r->text, "task %ld (%s %s, layer %d, micro-batch %d): %s",
             (long)(b - r->tasks.at), task_names[b->task->kind], of, b->task->layer, b->task->micro, why);
    r->error = r->text;
    return 1;
}

/* The sizes of a route are those of the call's dimensions. */
static void refresh_routes(const BoundTask *b)
{
    for (size_t i = 0; i < moec_kernel_params(b->code); i++) {
        int64_t sizes[MOEC_MAX_RANK];
        moe_route *route = b->args[i];
        if (moec_kernel_param_kind(b->code, i) != MOEC_ROUTE)
            continue;
        moec_kernel_param_shape(b->code, i, b->dims, sizes);
        route->tokens = sizes[0], route->choices = sizes[1], route->groups = sizes[2], route->rows = sizes[3];
    }
}

static int refresh_dims(Run *r, const BoundTask *b)
{
    for (uint32_t i = 0; i < b->refresh.len; i++) {
        const Refresh *f = &b->refresh.at[i];
        if (*f->value < 0 || *f->value > f->bound)
            return run_fail(r, b, "an extent is beyond its bound");
        *f->dim = *f->value;
    }
    refresh_routes(b);
    return 0;
}

void run_add_score(moec_score *sum, const moec_score *s)
{
    sum->worst = s->worst > sum->worst ? s->worst : sum->worst;
    sum->compared += s->compared;
    sum->doubtful += s->doubtful, sum->flipped += s->flipped;
    sum->wrong += s->wrong, sum->mischosen += s->mischosen;
}

static int check_call(Run *r, const BoundTask *b)
{
    moec_score score = {0};
    const int bad = moec_kernel_check(b->code, b->interpreted, r->ctx, b->dims, b->args, &score);
    run_add_score(&r->score, &score);
    run_add_score(&r->times[b->task->kernel].score, &score);
    if (!bad)
        return 0;
    return run_fail(
        r, b,
        arena_printf(r->arena, "compiled code DIFFERS from the interpreter: %s", moe_ctx_message(r->ctx)));
}

static int run_task_kernel(Run *r, const BoundTask *b)
{
    KernelTime *time = &r->times[b->task->kernel];
    r->ctx->work = b->work, r->ctx->work_bytes = b->work_bytes;
    if (b->refresh.len && refresh_dims(r, b))
        return 1;
    if (r->options.check && check_call(r, b))
        return 1;
    const double begin = clock_seconds();
    const int status = b->entry(r->ctx, b->dims, b->args);
    const double spent = clock_seconds() - begin;
    time->seconds += spent, time->calls++, r->seconds += spent;
    r->spent[b - r->tasks.at] = spent;
    return status ? run_fail(r, b, moe_ctx_message(r->ctx)) : 0;
}

static int run_task_batch(Run *r, const BoundTask *b)
{
    int64_t bytes[STEP_MAX_BATCH];
    const uint32_t n = b->task->operands.len;
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = r->program->buffers.at[b->task->operands.at[i].buffer].bytes;
    if (!r->options.source.next)
        return run_fail(r, b, "there is no source of batches");
    return r->options.source.next(r->options.source.self, b->args, bytes, n);
}

/* No number is at most anything, so a gate is closed for it. */
static int run_task_gate(Run *r, const BoundTask *b)
{
    r->gated = !(*(const float *)b->args[0] <= *(const float *)b->args[1]);
    return 0;
}

static int (*const hooks[])(Run *, const BoundTask *) = {
#define TASK(name, lane, doc) [TASK_##name] = run_task_##name,
#define EXCHANGE(name, lane, adjoint, takes, gives, doc) [TASK_##name] = run_exchange,
#include "step/task.def"
};

/* Until the lane has done what the task needs. */
static int await_disk(Run *r, const BoundTask *b, uint32_t jobs)
{
    return jobs && disk_wait(r->disk, jobs) ? run_fail(r, b, disk_error(r->disk)) : 0;
}

static int run_task(Run *r, const BoundTask *b)
{
    if (await_disk(r, b, b->jobs_before))
        return 1;
    const double begin = r->watch.ran ? clock_seconds() : 0;
    if (hooks[b->task->kind](r, b))
        return 1;
    if (r->watch.ran && task_lanes[b->task->kind] != LANE_disk)
        r->watch.ran(r->watch.self, (TaskId)(b - r->tasks.at), begin, clock_seconds());
    return 0;
}

static void tell_disk(const Run *r)
{
    for (uint32_t job = 0; r->watch.ran && job < disk_posted(r->disk); job++) {
        const DiskSpan span = disk_span(r->disk, job);
        r->watch.ran(r->watch.self, r->job_tasks.at[job], span.begin, span.end);
    }
}

/* A failure behind the last task that would have met it is of that task. */
static int finish_disk(Run *r)
{
    if (!r->disk)
        return 0;
    if (disk_finish(r->disk))
        return run_fail(r, &r->tasks.at[r->tasks.len - 1], disk_error(r->disk));
    tell_disk(r);
    return 0;
}

static int run_tasks(Run *r)
{
    if (r->disk)
        disk_begin(r->disk);
    for (uint32_t t = 0; t < r->tasks.len && !r->gated; t++)
        if (run_task(r, &r->tasks.at[t]))
            return 1;
    return finish_disk(r);
}

/* How often the system has taken a core from a thread of this process, for other work. */
static long preemptions(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : u.ru_nivcsw;
}

static int run_by_team(Run *r)
{
    const double before = r->seconds;
    const long preempted = preemptions();
    const int threads = team_threads(&r->team);
    r->ctx->threads = threads < r->team.most ? threads : r->options.threads;
    const int bad = run_tasks(r);
    team_took(&r->team, r->seconds - before, preemptions() - preempted);
    return bad;
}

int run_program(Run *r)
{
    r->error = NULL, r->gated = 0;
    return r->options.yields ? run_by_team(r) : run_tasks(r);
}

void *run_at(Run *r, const char *name)
{
    const BufferId b = step_find(r->program, name);
    return b == STEP_NONE ? NULL : buffer_memory(r, b);
}

int run_was_gated(const Run *r) { return r->gated; }

void run_watch(Run *r, RunWatch w) { r->watch = w; }

const char *run_error(const Run *r) { return r->error ? r->error : ""; }

/* ---- times ---- */

const Program *run_of(const Run *r) { return r->program; }

double run_task_seconds(const Run *r, TaskId t) { return r->spent[t]; }

double run_kernel_seconds(const Run *r) { return r->seconds; }

moec_score run_take_score(Run *r)
{
    moec_score score = r->score;
    r->score = (moec_score){0};
    return score;
}

static const KernelTime *compared; /* qsort has no argument for its comparison */

static int slowest_first(const void *a, const void *b)
{
    const double x = compared[*(const uint32_t *)a].seconds, y = compared[*(const uint32_t *)b].seconds;
    return (x < y) - (x > y);
}

void run_print_times(const Run *r)
{
    uint32_t *order = arena_array(r->arena, uint32_t, r->program->kernels.len + 1);
    for (uint32_t i = 0; i < r->program->kernels.len; i++)
        order[i] = i;
    compared = r->times;
    qsort(order, r->program->kernels.len, sizeof *order, slowest_first);
    printf("%-20s %8s %10s %10s %7s\n", "kernel", "calls", "seconds", "ms/call", "share");
    for (uint32_t i = 0; i < r->program->kernels.len; i++) {
        const KernelTime *t = &r->times[order[i]];
        if (t->calls)
            printf("%-20s %8llu %10.3f %10.3f %6.1f%%\n", r->program->kernels.at[order[i]].name,
                   (unsigned long long)t->calls, t->seconds, 1e3 * t->seconds / (double)t->calls,
                   100 * t->seconds / r->seconds);
    }
    if (r->disk)
        printf("%-20s %8s %10.3f\n", "(swap file: waited)", "", disk_waited(r->disk));
}

void run_print_doubts(const Run *r)
{
    int any = 0;
    for (uint32_t i = 0; i < r->program->kernels.len; i++) {
        const moec_score *s = &r->times[i].score;
        if (!s->doubtful && !s->wrong)
            continue;
        if (!any++)
            printf("%-20s %10s %9s %9s %9s %9s\n", "kernel", "elements", "in doubt", "flipped", "wrong",
                   "mischosen");
        printf("%-20s %10lld %9lld %9lld %9lld %9lld\n", r->program->kernels.at[i].name,
               (long long)s->compared, (long long)s->doubtful, (long long)s->flipped, (long long)s->wrong,
               (long long)s->mischosen);
    }
}

int64_t run_arena_bytes(const Run *r) { return r->program->arena_bytes; }
