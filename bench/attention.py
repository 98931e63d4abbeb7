#!/usr/bin/env python3
"""Causal attention at 4096 positions, 8 heads of 64, on one thread: time and work space, forward and backward, of all
earlier positions and of a window of 256.
usage: attention.py [ISA]
Ends with 1 when the work space grows with the square of the positions, or the window is not 4 times as fast."""
import os
import sys

import numpy as np

import kernel

SIZES = {"B": 1, "S": 4096, "N": 8, "D": 64, "W": 256}
FASTER = 4  # wanted of the window
HEAD = "moe 1\ndim B, S, N, D, W\n"
BODY = """
kernel {name}(in q, k, v: bf16[B, S, N, D], out o: bf16[B, S, N, D]) {{
  s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d] / sqrt(D)
  m[b, n, i]    = max(j where {guard}) s[b, n, i, j]
  e[b, n, i, j] = exp(s[b, n, i, j] - stop(m[b, n, i]))
  z[b, n, i]    = sum(j where {guard}) e[b, n, i, j]
  o[b, i, n, d] = bf16((sum(j where {guard}) bf16(e[b, n, i, j]) * v[b, j, n, d]) / z[b, n, i])
}}
derive ({name}_fwd, {name}_bwd) from {name} wrt q, k, v save m as f32, z as f32
"""
KERNELS = HEAD + BODY.format(name="full", guard="j <= i") + BODY.format(name="window", guard="j <= i and i < j + W")


def measure(k, pairs):
    """Seconds of a call, and whether its work space grows with S and not with its square; it looks at `pairs`."""
    rng = np.random.default_rng(1)
    args = k.random(SIZES, rng)
    if "m" in args and "d_o" in args:  # what the forward saved: a backward of random numbers would overflow
        args["m"], args["z"] = np.full_like(args["m"], 4), np.full_like(args["z"], 100)
    seconds, space = kernel.median_seconds(k.bind(SIZES, args), 3), k.workspace(SIZES)
    linear = space < 2.5 * k.workspace({**SIZES, "S": SIZES["S"] // 2})
    products = 5 if k.name.endswith("bwd") else 2
    rate = products * 2 * pairs * SIZES["D"] * SIZES["N"] * SIZES["B"] / seconds * 1e-9
    print(f"{k.name:<12} {seconds * 1e3:10.2f} ms {rate:7.1f} GFLOP/s {space / 2**20:7.2f} MiB of work space: {space / 4 / SIZES['S']:.0f} x S f32",
          flush=True)
    return seconds, linear


def main():
    os.environ["OMP_NUM_THREADS"] = "1"  # what NAME_workspace() counts on
    isa = sys.argv[1] if len(sys.argv) > 1 else "host"
    kernels, missed = kernel.compile_text(KERNELS, isa), 0
    S, W = SIZES["S"], SIZES["W"]
    full, window = S * (S + 1) // 2, W * (W + 1) // 2 + (S - W) * W
    for ending in ("", "_fwd", "_bwd"):
        slow, linear = measure(kernels["full" + ending], full)
        fast, also = measure(kernels["window" + ending], window)
        print(f"a window of {W} is {slow / fast:.1f} times as fast")
        missed |= slow < FASTER * fast or not (linear and also)
    sys.exit(missed)


if __name__ == "__main__":
    main()
