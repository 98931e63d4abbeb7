/* Programs as text: printed by `moe-train plan --emit=step`, read back by step_read().
 *
 *     step train
 *     arena 5242880
 *     group tp 2
 *     kernel router_fwd of router.moe
 *     kernel router_bwd_3 of router.moe by "derive (router_fwd_3, router_bwd_3) from router wrt x +=, ..."
 *     buffer lr scalar f32 = 0.003
 *     buffer router.n.L3.m0 activation bf16[2048, 256] at 1835008 live 41..97
 *     buffer router.n.L3.m0~524288 activation bf16[524288] view of router.n.L3.m0 + 0
 *     task 41 kernel router_fwd forward L3 m0 in router dims T=2048 H=256 P=position<=512 reads x=x.L3.m0 writes n=router.n.L3.m0
 *
 *     buffer y.L3.m0 activation bf16[2048, 256] over tp sum at 2883584 live 42..43
 *     task 42 reducescatter tp forward L3 m0 reads x=y.L3.m0 writes y=y.L3.m0.reducescatter
 *     task 43 send pp +1 forward L3 m0 reads x=y.L3.m0.reducescatter
 *
 * One line for each thing; `live` is for people. */
#ifndef STEP_TEXT_H
#define STEP_TEXT_H

#include "step/step.h"

void step_print(const Program *p, Text *t);

/* NULL with *error, "line N: ...", in the arena. The program is as the text says: step_verify() judges it. */
Program *step_read(Arena *a, const char *text, size_t len, const char **error);

#endif
