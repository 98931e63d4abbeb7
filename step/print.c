#include "step/text.h"

static void print_shape(const StepBuffer *b, Text *t)
{
    for (uint32_t i = 0; i < b->rank; i++)
        text_add(t, "%s%lld", i ? ", " : "[", (long long)b->shape[i]);
    text_add(t, "%s", b->rank ? "]" : "");
}

static void print_type(const StepBuffer *b, Text *t)
{
    static const char *const forms[] = {"", " packed", " packed both"};
    text_add(t, "%s", b->kind == MOEC_ROUTE ? "route" : step_type_name(b->type));
    print_shape(b, t);
    text_add(t, "%s", forms[b->packed]);
}

static void print_placements(const StepBuffer *b, Text *t)
{
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (b->placed[a] > PLACED_WHOLE)
            text_add(t, " over %s part %d", axis_names[a], b->placed[a] - 1);
        else if (b->placed[a] != PLACED_WHOLE)
            text_add(t, " over %s %s", axis_names[a],
                     b->placed[a] == PLACED_SUM   ? "sum"
                     : b->placed[a] == PLACED_OWN ? "own"
                                                  : "mixed");
}

static void print_memory(const Program *p, const StepBuffer *b, Text *t)
{
    if (b->base != STEP_NONE)
        text_add(t, " view of %s + %lld", p->buffers.at[b->base].name, (long long)b->offset);
    if (b->packed || b->owner == OWNER_work)
        text_add(t, " bytes %lld", (long long)b->bytes);
    if (b->place >= 0)
        text_add(t, " at %lld", (long long)b->place);
    if (b->first != STEP_NONE)
        text_add(t, " live %u..%u", b->first, b->last);
}

static void print_buffer(const Program *p, const StepBuffer *b, Text *t)
{
    text_add(t, "buffer %s %s ", b->name, owner_names[b->owner]);
    print_type(b, t);
    print_placements(b, t);
    if (b->kind == MOEC_SCALAR)
        text_add(t, " = %.17g", b->value);
    print_memory(p, b, t);
    text_add(t, "\n");
}

static void print_dims(const Program *p, const Task *task, Text *t)
{
    for (uint32_t i = 0; i < task->dims.len; i++) {
        const TaskDim *d = &task->dims.at[i];
        text_add(t, "%s %s=", i ? "" : " dims", d->name);
        if (d->extent != STEP_NONE)
            text_add(t, "%s<=", p->buffers.at[d->extent].name);
        text_add(t, "%lld", (long long)d->size);
    }
}

static void print_operands(const Program *p, const Task *task, OperandUse use, Text *t)
{
    int any = 0;
    each_operand(task, o) if (o->use == use)
    {
        text_add(t, "%s%s %s=%s", any ? "," : " ", any ? "" : use_words[use], o->param,
                 p->buffers.at[o->buffer].name);
        any = 1;
    }
}

static void print_task(const Program *p, TaskId number, Text *t)
{
    const Task *task = &p->tasks.at[number];
    text_add(t, "task %u %s", number, task_names[task->kind]);
    if (task->kernel != STEP_NONE)
        text_add(t, " %s", p->kernels.at[task->kernel].name);
    if (exchange_rules[task->kind].is_exchange)
        text_add(t, " %s", axis_names[task->axis]);
    if (task->peer)
        text_add(t, " %+d", task->peer);
    text_add(t, " %s", phase_names[task->phase]);
    if (task->layer >= 0)
        text_add(t, " L%d", task->layer);
    if (task->micro >= 0)
        text_add(t, " m%d", task->micro);
    if (task->module)
        text_add(t, " in %s", task->module);
    print_dims(p, task, t);
    for (OperandUse use = USE_READ; use <= USE_SHAPE; use++)
        print_operands(p, task, use, t);
    if (task->work != STEP_NONE)
        text_add(t, " work %s", p->buffers.at[task->work].name);
    text_add(t, "\n");
}

void step_print(const Program *p, Text *t)
{
    text_add(t, "step %s\n", p->name);
    if (p->arena_bytes >= 0)
        text_add(t, "arena %lld\n", (long long)p->arena_bytes);
    if (p->disk_bytes)
        text_add(t, "disk %lld\n", (long long)p->disk_bytes);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (p->members[a] != 1)
            text_add(t, "group %s %lld\n", axis_names[a], (long long)p->members[a]);
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const StepKernel *k = &p->kernels.at[i];
        text_add(t, "kernel %s of %s", k->name, k->source);
        if (k->derive)
            text_add(t, " by \"%s\"", k->derive);
        text_add(t, "\n");
    }
    for (BufferId b = 0; b < p->buffers.len; b++)
        print_buffer(p, &p->buffers.at[b], t);
    for (TaskId i = 0; i < p->tasks.len; i++)
        print_task(p, i, t);
}
