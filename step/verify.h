/* The verifier of programs. It shares no code with the recorder or the memory pass: it derives what it checks from the tasks. */
#ifndef STEP_VERIFY_H
#define STEP_VERIFY_H

#include "step/kernels.h"

/* Checks that
 * - a task names buffers that exist, with the operands that its kind asks for;
 * - a task gives a kernel its dimensions in order and each of its parameters once, used as the kernel does, of its type and of the shape
 *   that it has at these dimensions, and as much work space as its code needs (kernels NULL: kernels are not asked);
 * - a buffer of the arena is written (by a task, or by views that cover it) before it is read, since memory of an arena holds
 *   nothing before;
 * - a buffer of the swap file is named by tasks that store and load only, which move whole buffers of the same size;
 * - two buffers that hold needed values during one task do not overlap in memory, and each lies inside the arena or the swap file;
 * - no task writes a buffer that it names twice, by whatever view; nobody writes a constant (a scalar's buffer);
 * - views lie inside their bases and are one level deep;
 * - on each axis with several members every placement fits its buffer, its base and, by the equations, every kernel that names it
 *   (kernels NULL: kernels are not asked); exchanges take and give what task.def says, in sizes that fit the group; on an axis with
 *   one member all is whole, and each recv has a send before it.
 * Returns NULL, or the first error: task, kernel, buffer and rule, in the program's arena. A program that is not placed yet
 * is checked without the rules about memory. */
const char *step_verify(Program *p, const KernelSet *kernels);

#endif
