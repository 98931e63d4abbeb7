/* What the back end asks of a family of CPUs beside the columns of its instruction sets. Declared from the rows of
 * machines/cpu.def. */
#ifndef BACKEND_FAMILY_H
#define BACKEND_FAMILY_H

#include "backend/l.h"

typedef struct FamilyHooks {
    void (*start)(void); /* readies LLVM's target */
    void (*fence)(L *l); /* emits: stores past the caches are done before later stores */
    /* Emits no instruction, but LLVM has to have computed the n vectors there, and to load later what is loaded behind it. */
    void (*pin)(L *l, V *vectors, unsigned n);
} FamilyHooks;
extern const FamilyHooks family_hooks[FAMILY_COUNT]; /* in target.c */

#define FAMILY(id, triple, cpu, doc) \
    void family_start_##id(void);    \
    void family_fence_##id(L *l);    \
    void family_pin_##id(L *l, V *vectors, unsigned n);
#include "machines/cpu.def"

#endif
