/* Packed parameters in compiled code. `memory` is the caller's pointer, to the header. */
#ifndef BACKEND_EMIT_PACKED_H
#define BACKEND_EMIT_PACKED_H

#include "backend/emit.h"

int emit_is_packed(const Kernel *k, Param p);
V emit_packed_bytes(Emit *e, TensorId t); /* of its memory, header and padding included */
V emit_packed_data(L *l, V memory);       /* where the panels begin */
V emit_packed_transposed(Emit *e, TensorId t, V memory); /* of `packed both`: where those of the transposed matrices do */
void emit_packed_require(Emit *e, Gate *g, TensorId t, V memory); /* the header says what the call does */
void emit_packed_begin(Emit *e, TensorId t, V memory);            /* header and padding of what will be written */
void emit_pack_exports(const Plan *p);
uint64_t packed_helpers(const Plan *p); /* bits of what it calls */
void emit_packed_function(Plan *p, uint32_t helper);

#endif
