/* Elements in memory: f32, bf16, f16, i32, i64. */
#ifndef DRIVER_ELEMENT_H
#define DRIVER_ELEMENT_H

#include "ir/ir.h"

double element_read(Elem e, const void *at);
/* The value is one that the type holds: elem_round() has been there. */
void element_write(Elem e, double value, void *at);

enum { DLPACK_BOOL = 6 }; /* kDLBool of tensors that callers have; older headers of DLPack do not name it */

#endif
