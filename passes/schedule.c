/* Choices that a schedule block, or else the machine, makes for a kernel. */
#include "passes/schedule.h"

Blocks schedule_blocks(const PassContext *c, const Kernel *k, TensorId lhs)
{
    (void)c;
    (void)k;
    (void)lhs;
    return machine_blocks();
}

int schedule_fuses(const PassContext *c, const Kernel *k, Name producer, Name consumer)
{
    (void)c;
    (void)k;
    (void)producer;
    (void)consumer;
    return 1;
}
