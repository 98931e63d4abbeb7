#include "step/price.h"

#include <stdlib.h>
#include <string.h>

typedef struct Price {
    uint64_t kernel, dims;
    double size; /* the product of its dimensions */
    Vec(double) seconds;
} Price;

/* "derive (f_fwd_4, f_bwd_4) from f wrt ..." is told by what stands behind the names. */
static Price key_of(const Program *p, const Task *t)
{
    const StepKernel *k = &p->kernels.at[t->kernel];
    const char *text = k->derive ? strstr(k->derive, " from ") : k->name;
    Price key = {.kernel = hash_bytes(text, strlen(text), t->phase == PHASE_weights), .size = 1};
    for (uint32_t i = 0; i < t->dims.len; i++) {
        const int64_t n = t->dims.at[i].size;
        key.dims = hash_bytes(&n, sizeof n, key.dims);
        key.size *= (double)(n > 0 ? n : 1);
    }
    return key;
}

static Price *find(const Prices *s, const Price *key)
{
    for (uint32_t i = 0; i < s->list.len; i++)
        if (s->list.at[i].kernel == key->kernel && s->list.at[i].dims == key->dims)
            return &s->list.at[i];
    return NULL;
}

/* The same kernel at other dimensions. */
static Price *find_like(const Prices *s, const Price *key)
{
    for (uint32_t i = 0; i < s->list.len; i++)
        if (s->list.at[i].kernel == key->kernel)
            return &s->list.at[i];
    return NULL;
}

void prices_note(Prices *s, const Run *r)
{
    const Program *p = run_of(r);
    for (TaskId t = 0; t < p->tasks.len; t++) {
        if (p->tasks.at[t].kind != TASK_kernel)
            continue;
        const Price key = key_of(p, &p->tasks.at[t]);
        if (!find(s, &key))
            vec_push(s->arena, &s->list, key);
        vec_push(s->arena, &find(s, &key)->seconds, run_task_seconds(r, t));
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Other work on the machine only ever adds to a time. */
static double lower_quartile(Price *price)
{
    qsort(price->seconds.at, price->seconds.len, sizeof *price->seconds.at, ascending);
    return price->seconds.at[price->seconds.len / 4];
}

double price_of(const Prices *s, const Program *p, const Task *t)
{
    if (task_lanes[t->kind] == LANE_disk)
        return s->seconds_per_byte * (double)p->buffers.at[t->operands.at[0].buffer].bytes;
    if (t->kind != TASK_kernel)
        return 0;
    const Price key = key_of(p, t);
    Price *price = find(s, &key), *like = price ? price : find_like(s, &key);
    return like ? lower_quartile(like) * key.size / like->size : -1;
}

double prices_sum(const Prices *s, const Program *p)
{
    double sum = 0;
    for (TaskId t = 0; t < p->tasks.len; t++) {
        const double price = price_of(s, p, &p->tasks.at[t]);
        if (price < 0)
            return -1;
        sum += price;
    }
    return sum;
}
