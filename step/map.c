/* A picture of a step's memory, as HTML: tasks from left to right, addresses from top to bottom. */
#include "step/memory.h"

enum { MAP_WIDTH = 1200, MAP_HEIGHT = 700 };

/* A colour for each layer, so that a layer's buffers are seen together. */
static void print_rectangle(const Program *p, const StepBuffer *b, Text *t)
{
    const double x = (double)MAP_WIDTH / (double)(p->tasks.len ? p->tasks.len : 1);
    const double y = (double)MAP_HEIGHT / (double)(p->arena_bytes ? p->arena_bytes : 1);
    const int layer = p->tasks.at[b->first].layer;
    text_add(t,
             "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
             "fill=\"hsl(%d,%d%%,%d%%)\"><title>%s\n%lld bytes at "
             "%lld\ntasks %u to %u</title></rect>\n",
             x * b->first, y * (double)b->place, x * (double)(b->last - b->first + 1), y * (double)b->bytes,
             (layer * 47 + 400) % 360, layer < 0 ? 0 : 60, b->owner == OWNER_work ? 85 : 65, b->name,
             (long long)b->bytes, (long long)b->place, b->first, b->last);
}

void memory_map(const Program *p, Text *t)
{
    const MemoryPeak peak = memory_peak(p);
    text_add(
        t,
        "<!doctype html><meta charset=\"utf-8\"><title>Memory of %s</title>\n"
        "<style>body{font:14px sans-serif}rect{stroke:#fff;stroke-width:.3}rect:hover{stroke:#000}</style>\n",
        p->name);
    text_add(t,
             "<p>Program <b>%s</b>: %u tasks from left to right, %.1f MiB of addresses from top to bottom. "
             "The largest sum of live "
             "buffers is %.1f MiB, in task %u.</p>\n",
             p->name, p->tasks.len, (double)p->arena_bytes / 0x1p20, (double)peak.bytes / 0x1p20, peak.task);
    text_add(t, "<svg width=\"%d\" height=\"%d\" style=\"background:#eee\">\n", MAP_WIDTH, MAP_HEIGHT);
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].place >= 0 && p->buffers.at[b].first != STEP_NONE &&
            p->buffers.at[b].owner != OWNER_disk)
            print_rectangle(p, &p->buffers.at[b], t);
    text_add(t, "</svg>\n");
}
