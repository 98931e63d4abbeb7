#include "trainer/trace.h"

#include <stdlib.h>

#include "trainer/complain.h"

static uint32_t tasks_of(const Trainer *t) { return t->program->tasks.len; }

static int open_memory(StepTrace *s)
{
    const Trainer *t = s->trainer;
    s->spans = calloc((size_t)s->steps * tasks_of(t), sizeof *s->spans);
    if (!comm_rank(t->comm) && comm_ranks(t->comm)->number > 1)
        s->fetched = calloc((size_t)s->steps * tasks_of(t), sizeof *s->fetched);
    return s->spans && (s->fetched || comm_rank(t->comm) || comm_ranks(t->comm)->number == 1);
}

/* So that a path that cannot be written is known before the first step. Who reads a pipe would see its end. */
static int try_path(const StepTrace *s)
{
    if (file_is_special(s->path))
        return 0;
    FileWriter w = file_create(s->trainer->session.arena, s->path);
    file_drop(&w);
    return w.error ? complain("--trace %s", w.error) : 0;
}

int trace_open(Trainer *t)
{
    const Config *c = t->config;
    if (!c->trace)
        return 0;
    StepTrace *s = t->trace = arena_new_of(t->session.arena, StepTrace);
    *s = (StepTrace){
        .trainer = t, .path = c->trace, .begins = t->state.steps + c->trace_after, .steps = c->trace_steps};
    if (s->begins >= c->steps)
        return complain_alike(
            "--trace-after %lld: this run ends behind step %lld, so nothing would be traced",
            (long long)c->trace_after, (long long)c->steps);
    if (!open_memory(s))
        return complain("no memory to trace %lld steps of %u tasks", (long long)s->steps, tasks_of(t));
    return comm_rank(t->comm) ? 0 : try_path(s);
}

void trace_close(Trainer *t)
{
    if (t->trace)
        free(t->trace->spans), free(t->trace->fetched);
    t->trace = NULL;
}

/* ---- what is noted ---- */

static void note(void *trace, TaskId number, double begin, double end)
{
    StepTrace *s = trace;
    const Task *task = &s->trainer->program->tasks.at[number];
    TaskSpan *span = &s->spans[s->len * tasks_of(s->trainer) + number];
    span->begin = begin, span->end = end;
    if (!exchange_rules[task->kind].is_exchange)
        return;
    CommTraffic *before = &s->sent[task->axis];
    const CommTraffic now = comm_traffic(s->trainer->comm, task->axis);
    for (CommLink link = 0; link < LINK_COUNT; link++)
        span->bytes[link] = now.bytes[link] - before->bytes[link];
    *before = now;
}

static int is_traced(const StepTrace *s)
{
    return s && s->len < s->steps && s->trainer->state.steps == s->begins + s->len;
}

void trace_begins(Trainer *t)
{
    StepTrace *s = t->trace;
    const int yes = is_traced(s);
    run_watch(t->step, (RunWatch){yes ? note : NULL, s});
    for (GroupAxis a = 0; a < AXIS_COUNT && yes; a++)
        s->sent[a] = comm_traffic(t->comm, a);
}

int trace_finish(Trainer *t)
{
    StepTrace *s = t->trace;
    if (!s || s->is_written || !s->len)
        return 0;
    s->is_written = 1;
    return trace_write(s);
}

int trace_ends(Trainer *t)
{
    StepTrace *s = t->trace;
    if (s && t->state.steps == s->begins + s->len + 1 && s->len < s->steps)
        s->len++;
    return s && s->len == s->steps ? trace_finish(t) : 0;
}

int trace_failed(const Trainer *t) { return t->trace && t->trace->failed; }
