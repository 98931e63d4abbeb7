/* The bytes of a step over its time: as a table and as a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "step/memory.h"
#include "trainer/plan.h"

enum { ROWS = 16, BAR = 40 };

typedef struct Curve {
    const Program *p;
    const int64_t *kept, *work; /* by task */
} Curve;

static Curve curve_of(const Program *p)
{
    return (Curve){p, memory_live(p, OWNER_activation), memory_live(p, OWNER_work)};
}

static int64_t live(const Curve *c, TaskId t) { return c->kept[t] + c->work[t]; }

static TaskId highest(const Curve *c, TaskId first, TaskId end)
{
    TaskId best = first;
    for (TaskId t = first; t < end; t++)
        best = live(c, t) > live(c, best) ? t : best;
    return best;
}

static const char *layer_text(const Task *t, Arena *a)
{
    return t->layer < 0 ? "" : arena_printf(a, "layer %d", t->layer);
}

/* The highest task of each of a few runs of tasks. */
void plan_print_bytes(const Program *p)
{
    const Curve c = curve_of(p);
    const int64_t peak = memory_peak(p).bytes;
    printf("\narena over time, the highest task of each stretch\n      tasks  of it\n");
    for (uint32_t i = 0; i < ROWS; i++) {
        const TaskId first = (TaskId)((uint64_t)p->tasks.len * i / ROWS),
                     end = (TaskId)((uint64_t)p->tasks.len * (i + 1) / ROWS);
        if (first == end)
            continue;
        const TaskId top = highest(&c, first, end);
        const Task *t = &p->tasks.at[top];
        printf("%5u-%-5u %6u %9s %-*.*s %s %s\n", first, end - 1, top,
               model_bytes_text(p->arena, (double)live(&c, top)), BAR,
               peak ? (int)(live(&c, top) * BAR / peak) : 0, "########################################",
               phase_names[t->phase], layer_text(t, p->arena));
    }
}

int plan_write_bytes(const Program *p, const Prices *prices, const char *path)
{
    const Curve c = curve_of(p);
    double begin = 0;
    FILE *f = fopen(path, "w");
    if (f)
        fprintf(f, "task,kind,kernel,phase,layer,micro_batch,activation_bytes,work_bytes,begin_seconds\n");
    for (TaskId t = 0; f && t < p->tasks.len; t++) {
        const Task *task = &p->tasks.at[t];
        const double price = prices ? price_of(prices, p, task) : -1;
        fprintf(f, "%u,%s,%s,%s,%d,%d,%lld,%lld,", t, task_names[task->kind],
                task->kernel == STEP_NONE ? "" : p->kernels.at[task->kernel].name, phase_names[task->phase],
                task->layer, task->micro, (long long)c.kept[t], (long long)c.work[t]);
        if (price >= 0)
            fprintf(f, "%.9f", begin);
        fprintf(f, "\n");
        begin += price;
    }
    const int bad = !f || ferror(f);
    if (f && !fclose(f) && !bad)
        return 0;
    fprintf(stderr, "moe-train: --bytes %s: %s\n", path, strerror(errno));
    return 1;
}
