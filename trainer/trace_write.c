/* The file of --trace: Chrome's trace events, one by one, because all of them as one value would take much memory. */
#include "trainer/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "trainer/complain.h"

/* The tracks of a rank. A lane runs its tasks in order, so those of a track do not overlap. */
typedef enum TraceTrack {
    TRACK_compute,
    TRACK_inside,
    TRACK_between,
    TRACK_disk,
    TRACK_loader,
    TRACK_COUNT
} TraceTrack;
static const char *const track_names[] = {[TRACK_compute] = "compute",
                                          [TRACK_inside] = "net inside a node",
                                          [TRACK_between] = "net between nodes",
                                          [TRACK_disk] = "disk",
                                          [TRACK_loader] = "loader"};

typedef struct TraceFile {
    StepTrace *trace;
    const Program *program;
    const Ranks *ranks;
    FileWriter file;
    Arena *arena;      /* of texts, for a short time */
    CommClock *clocks; /* by rank */
    double origin;     /* when the first task of all ranks begins, by the first one's clock */
    int begun;         /* an event is in the list */
} TraceFile;

static void put(TraceFile *w, const char *before, json_t *value)
{
    const ArenaMark mark = arena_mark(w->arena);
    const char *text = arena_printf(w->arena, "%s%s", before, json_line(w->arena, value));
    file_append(&w->file, text, strlen(text));
    arena_release(w->arena, mark);
}

static void put_event(TraceFile *w, json_t *event)
{
    put(w, w->begun ? ",\n" : "\n", event);
    w->begun = 1;
}

/* ---- tasks ---- */

static int goes_out(const TraceFile *w, const Task *t)
{
    return task_lanes[t->kind] == LANE_net && w->program->members[t->axis] > 1;
}

static CommLink widest_link(const TraceFile *w, int64_t rank, GroupAxis axis)
{
    const int64_t first = ranks_member(w->ranks, axis, rank, 0),
                  last = ranks_member(w->ranks, axis, rank, w->ranks->members[axis] - 1);
    return ranks_share_node(w->ranks, first, last) ? LINK_INSIDE : LINK_BETWEEN;
}

static TraceTrack track_of(const TraceFile *w, int64_t rank, const Task *t)
{
    switch (task_lanes[t->kind]) {
    case LANE_net:
        if (goes_out(w, t))
            return widest_link(w, rank, t->axis) == LINK_INSIDE ? TRACK_inside : TRACK_between;
        return TRACK_compute; /* a group of one copies */
    case LANE_disk: return TRACK_disk;
    case LANE_loader: return TRACK_loader;
    case LANE_compute:
    case LANE_COUNT: break;
    }
    return TRACK_compute;
}

/* "0, 2", "0, 2 to 6": members of a group have the same distance. */
static const char *group_text(Arena *a, const Ranks *r, GroupAxis axis, int64_t rank)
{
    const int64_t n = r->members[axis];
    const long long first = ranks_member(r, axis, rank, 0), next = ranks_member(r, axis, rank, 1),
                    last = ranks_member(r, axis, rank, n - 1);
    return n > 2 ? arena_printf(a, "%lld, %lld to %lld", first, next, last)
                 : arena_printf(a, "%lld, %lld", first, next);
}

static void add_exchange(const TraceFile *w, int64_t rank, const Task *t, const TaskSpan *s, json_t *args)
{
    const Ranks *r = w->ranks;
    const int64_t place = ranks_place(r, t->axis, rank),
                  peer = ranks_in_ring(r->members[t->axis], place + t->peer);
    json_object_set_new(args, "axis", json_string(axis_names[t->axis]));
    json_object_set_new(args, "ranks", json_string(group_text(w->arena, r, t->axis, rank)));
    if (t->peer)
        json_object_set_new(args, "peer", json_integer(ranks_member(r, t->axis, rank, peer)));
    json_object_set_new(args, "link", json_string(link_names[widest_link(w, rank, t->axis)]));
    json_object_set_new(args, "bytes", json_integer(s->bytes[LINK_INSIDE] + s->bytes[LINK_BETWEEN]));
    for (CommLink link = 0; link < LINK_COUNT; link++)
        json_object_set_new(args, arena_printf(w->arena, "bytes %s", link_names[link]),
                            json_integer(s->bytes[link]));
}

static json_t *args_json(const TraceFile *w, int64_t rank, int64_t step, TaskId number, const TaskSpan *s)
{
    const Task *t = &w->program->tasks.at[number];
    json_t *args = json_pack("{s:I, s:I, s:s, s:s}", "step", (json_int_t)step, "task", (json_int_t)number,
                             "kind", task_names[t->kind], "phase", phase_names[t->phase]);
    if (t->layer >= 0)
        json_object_set_new(args, "layer", json_integer(t->layer));
    if (t->micro >= 0)
        json_object_set_new(args, "micro-batch", json_integer(t->micro));
    if (t->module)
        json_object_set_new(args, "module", json_string(t->module));
    if (t->kind != TASK_kernel)
        json_object_set_new(args, "tensor",
                            json_string(w->program->buffers.at[t->operands.at[0].buffer].name));
    if (goes_out(w, t))
        add_exchange(w, rank, t, s, args);
    return args;
}

static const char *title_of(const TraceFile *w, const Task *t)
{
    if (t->kind == TASK_kernel)
        return w->program->kernels.at[t->kernel].name;
    return exchange_rules[t->kind].is_exchange
               ? arena_printf(w->arena, "%s %s", task_names[t->kind], axis_names[t->axis])
               : task_names[t->kind];
}

/* Whole nanoseconds since the origin, on the one time line. */
static double nanoseconds(const TraceFile *w, int64_t rank, double time)
{
    return nearbyint((time - w->clocks[rank].ahead - w->origin) * 1e9);
}

static void put_task(TraceFile *w, int64_t rank, int64_t step, TaskId number, const TaskSpan *s)
{
    const Task *t = &w->program->tasks.at[number];
    const double begin = nanoseconds(w, rank, s->begin), end = nanoseconds(w, rank, s->end);
    put_event(w, json_pack("{s:s, s:I, s:I, s:f, s:f, s:s, s:s, s:o}", "ph", "X", "pid", (json_int_t)rank,
                           "tid", (json_int_t)track_of(w, rank, t), "ts", begin / 1e3, "dur",
                           (end - begin) / 1e3, "name", title_of(w, t), "cat", phase_names[t->phase], "args",
                           args_json(w, rank, step, number, s)));
}

/* ---- ranks ---- */

/* Processes and threads are named by events of their own. */
static void put_name(TraceFile *w, const char *what, int64_t rank, int64_t track, const char *name)
{
    put_event(w, json_pack("{s:s, s:I, s:I, s:s, s:{s:s}}", "ph", "M", "pid", (json_int_t)rank, "tid",
                           (json_int_t)track, "name", what, "args", "name", name));
}

static void put_names(TraceFile *w, int64_t rank)
{
    int used[TRACK_COUNT] = {0};
    for (TaskId t = 0; t < w->program->tasks.len; t++)
        used[track_of(w, rank, &w->program->tasks.at[t])] = 1;
    put_name(w, "process_name", rank, 0, ranks_text(w->arena, w->ranks, rank));
    for (TraceTrack track = 0; track < TRACK_COUNT; track++)
        if (used[track])
            put_name(w, "thread_name", rank, track, track_names[track]);
}

static void put_rank(TraceFile *w, int64_t rank, const TaskSpan *spans)
{
    const uint32_t tasks = w->program->tasks.len;
    const ArenaMark mark = arena_mark(w->arena);
    put_names(w, rank);
    for (int64_t step = 0; step < w->trace->len; step++)
        for (TaskId t = 0; t < tasks; t++)
            if (spans[step * tasks + t].end > 0)
                put_task(w, rank, w->trace->begins + step + 1, t, &spans[step * tasks + t]);
    arena_release(w->arena, mark);
}

/* ---- the file ---- */

static double worst_clock(const TraceFile *w)
{
    double worst = 0;
    for (int64_t r = 0; r < w->ranks->number; r++)
        worst = fmax(worst, w->clocks[r].error);
    return worst;
}

static void put_end(TraceFile *w)
{
    const char *about = "clocks of all ranks agree within the error; that of rank 0 is the one of the times";
    put(w, "\n],\"otherData\":",
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:f}", "program", w->program->name, "clocks", about, "ranks",
                  (json_int_t)w->ranks->number, "first step", (json_int_t)(w->trace->begins + 1), "steps",
                  (json_int_t)w->trace->len, "clock error us", nearbyint(worst_clock(w) * 1e9) / 1e3));
    file_append(&w->file, "}\n", 2);
}

static void tell(const TraceFile *w, const char *error)
{
    const StepTrace *s = w->trace;
    if (error)
        complain("--trace %s", error);
    else
        printf("%strace: steps %lld to %lld in %s, clocks of the ranks within %.1f us\n",
               on_terminal(STDOUT_FILENO) ? "\r" TERMINAL_CLEAR : "", (long long)(s->begins + 1),
               (long long)(s->begins + s->len), s->path, 1e6 * worst_clock(w));
}

static int lost(const Trainer *t) { return complain("%s", comm_error(t->comm)); }

/* The time line begins where the first rank begins with the first of the steps. */
static int find_origin(TraceFile *w)
{
    Trainer *t = w->trace->trainer;
    const double mine = w->trace->spans[0].begin;
    double *all = arena_array(w->file.arena, double, w->ranks->number);
    w->clocks = arena_array(w->file.arena, CommClock, w->ranks->number);
    if (comm_clocks(t->comm, w->clocks) || comm_gather(t->comm, "a trace", &mine, sizeof mine, all))
        return lost(t);
    w->origin = HUGE_VAL;
    for (int64_t r = 0; r < w->ranks->number; r++)
        w->origin = fmin(w->origin, all[r] - w->clocks[r].ahead);
    return 0;
}

/* On the first rank, one after the other, so that it needs memory for one of them. */
static int write_ranks(TraceFile *w)
{
    StepTrace *s = w->trace;
    const int64_t bytes = s->len * w->program->tasks.len * (int64_t)sizeof *s->spans;
    put_rank(w, 0, s->spans);
    for (int64_t r = 1; r < w->ranks->number; r++) {
        if (comm_fetch(s->trainer->comm, "a trace", r, NULL, bytes, s->fetched))
            return lost(s->trainer);
        put_rank(w, r, s->fetched);
    }
    return 0;
}

static int write_file(TraceFile *w)
{
    StepTrace *s = w->trace;
    w->file = file_create(w->file.arena, s->path);
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    file_append(&w->file, head, sizeof head - 1);
    if (write_ranks(w)) {
        file_drop(&w->file);
        return 1;
    }
    put_end(w);
    const char *error = file_commit(&w->file);
    s->failed = error != NULL;
    tell(w, error);
    return 0;
}

int trace_write(StepTrace *s)
{
    Trainer *t = s->trainer;
    TraceFile w = {.trace = s, .program = t->program, .ranks = comm_ranks(t->comm)};
    w.file.arena = t->session.arena, w.arena = arena_scratch(t->session.arena);
    const int64_t bytes = s->len * w.program->tasks.len * (int64_t)sizeof *s->spans;
    if (find_origin(&w))
        return 1;
    if (comm_rank(t->comm))
        return comm_fetch(t->comm, "a trace", comm_rank(t->comm), s->spans, bytes, NULL) ? lost(t) : 0;
    return write_file(&w);
}
