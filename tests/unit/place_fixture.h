/* A network whose tensors can be placed in several ways. */
#ifndef TESTS_PLACE_FIXTURE_H
#define TESTS_PLACE_FIXTURE_H

#include "step/record.h"

#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char place_kernels[] =
    "moe 1\n"
    "dim T, H, F, M, N, E, K\n"
    "kernel norm(in x: f32[T, H], in gain: f32[H], out n: f32[T, H]) {\n"
    "  scale[t] = rsqrt((sum(h) x[t, h] * x[t, h]) + 0.1)\n  n[t, h] = x[t, h] * scale[t] * gain[h]\n}\n"
    "derive (norm_fwd, norm_bwd) from norm wrt x, gain += save scale as f32\n"
    "kernel branch(in n: f32[T, H], in a: f32[H, F], in b: f32[F, H], out y: f32[T, H]) {\n"
    "  g[t, f] = sum(h) n[t, h] * a[h, f]\n  u[t, f] = gelu(g[t, f])\n  y[t, h] = sum(f) u[t, f] * b[f, "
    "h]\n}\n"
    "derive (branch_fwd, branch_bwd, branch_dw) from branch wrt n then a +=, b += save g as f32\n"
    "kernel add(in x, b: f32[T, H], out y: f32[T, H]) { y[t, h] = x[t, h] + b[t, h] }\n"
    "derive (add_fwd, add_bwd) from add wrt x pass, b pass\n"
    "kernel energy(in z: f32[T, H], out loss: f32) { loss = sum(t, h) z[t, h] * z[t, h] * z[t, h] }\n"
    "derive (energy_fwd, energy_bwd) from energy wrt z\n"
    "kernel square(in x: f32[M, N], out s: f32) { s = sum(m, i) x[m, i] * x[m, i] }\n"
    "kernel scale_by(in x: f32[T, H], in w: f32[T, H], out y: f32[T, H]) { y[t, h] = x[t, h] * w[t, h] }\n"
    "derive (scale_by_fwd, scale_by_bwd) from scale_by wrt x, w +=\n"
    "kernel count(in id: i32[T, K], out n: f32[E]) { n[e] = sum(t, k where id[t, k] == e) 1.0 }\n";

enum { T = 6, H = 4, F = 8, RANKS = 2 };

static inline KernelSet *place_set(void)
{
    KernelSet *set = kernels_open(NULL);
    if (kernels_add(set, "net.moe", place_kernels, strlen(place_kernels)))
        fail_msg("%s", kernels_error(set));
    return set;
}

#endif
