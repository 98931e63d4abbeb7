/* A target of LLVM: passes and code generation. */
#ifndef BACKEND_TARGET_H
#define BACKEND_TARGET_H

#include "backend/l.h"

/* Each returns NULL or an error text in the arena. */
const char *target_open(Family family, int level, Arena *a, LLVMTargetMachineRef *out);
void target_prepare(LLVMTargetMachineRef machine, LLVMModuleRef mod); /* triple and layout: before emitting */
const char *target_optimize(LLVMTargetMachineRef machine, LLVMModuleRef mod, int level, Arena *a);
const char *target_bytes(LLVMTargetMachineRef machine, LLVMModuleRef mod, LLVMCodeGenFileType type, Arena *a,
                         const char **bytes, size_t *len);

#endif
