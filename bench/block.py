#!/usr/bin/env python3
"""The expert block, forward and backward, and single products on one thread, beside what the vector unit can do.
usage: block.py [ISA...]      none: all that this CPU runs but amx-soft, which is there to test
Ends with 1 when the forward is slower than wanted."""
import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np

import expert_block
import kernel

SIZES = {"T": 2048, "K": 2, "E": 8, "H": 1024, "F": 512}
WANTED = 0.6  # of the limit: 75 GFLOP/s with AVX2 and 130 with AVX-512 on a Xeon that can do 118 and 220
AMX_WANTED = 1000
LIMITS = {"generic": ["limit_xmm"], "avx2": ["limit_ymm"], "avx512": ["limit_zmm"],
          "avx512bf16": ["limit_zmm", "limit_bf16_pairs"]}  # the first: of f32; the last: of bf16
PRODUCTS = """moe 1
dim M, N, K
kernel nn(in a: bf16[M, K], in b: bf16[K, N], out c: f32[M, N]) { c[m, n] = sum(k) a[m, k] * b[k, n] }
kernel nt(in a: bf16[M, K], in b: bf16[N, K], out c: f32[M, N]) { c[m, n] = sum(k) a[m, k] * b[n, k] }
kernel tn(in a: bf16[K, M], in b: bf16[K, N], out c: f32[M, N]) { c[m, n] = sum(k) a[k, m] * b[k, n] }
kernel tt(in a: bf16[K, M], in b: bf16[N, K], out c: f32[M, N]) { c[m, n] = sum(k) a[k, m] * b[n, k] }
kernel f32_nn(in a: f32[M, K], in b: f32[K, N], out c: f32[M, N]) { c[m, n] = sum(k) a[m, k] * b[k, n] }
kernel f32_nt(in a: f32[M, K], in b: f32[N, K], out c: f32[M, N]) { c[m, n] = sum(k) a[m, k] * b[n, k] }
"""
SHAPES = [(1024, 1024, 1024), (2048, 256, 256), (1000, 1000, 1000)]  # M, N, K


def limits(isa):
    """GFLOP/s of f32 and of bf16 products; None: not known."""
    if isa not in LIMITS:
        return None, None
    with tempfile.TemporaryDirectory() as scratch:
        library = os.path.join(scratch, "limit.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", os.path.join(kernel.ROOT, "bench/limit.c"), "-o", library], check=True)
        lib, found = ctypes.CDLL(library), []
    for name in LIMITS[isa]:
        function = getattr(lib, name)
        function.restype = ctypes.c_double
        found.append(max(function() for _ in range(3)))
    return found[0], found[-1]


def row(isa, name, call, flops, limit):
    time = kernel.median_seconds(call)
    rate = flops / time * 1e-9
    share = f"{100 * rate / limit:5.0f} % of {limit:5.0f}" if limit else ""
    print(f"{isa:<11} {name:<24} {time * 1e3:9.2f} ms {rate:7.1f} GFLOP/s {share}", flush=True)
    return rate


def block(isa, limit):
    """The rate of the forward. The backward, g and u saved, is six products; the forward three."""
    rng, n = np.random.default_rng(1), SIZES
    ids = np.argsort(rng.random((n["T"], n["E"])), axis=1)[:, :n["K"]]
    product = 2 * n["T"] * n["K"] * n["H"] * n["F"]
    kernels, rates = kernel.compile_file("examples/moe_ffn.moe", isa), []
    for name, products in (("ffn", 3), ("ffn_fwd", 3), ("ffn_bwd", 6)):
        args = kernels[name].random(n, rng, kernel.Route(ids, n["E"]), scale=0.1)
        rates.append(row(isa, name, kernels[name].bind(n, args), products * product, limit))
    return rates[0]


def products(isa, f32_limit, bf16_limit):
    rng = np.random.default_rng(1)
    for k in kernel.compile_text(PRODUCTS, isa).values():
        for m, n, depth in SHAPES:
            sizes = {"M": m, "N": n, "K": depth}
            call = k.bind(sizes, k.random(sizes, rng))
            row(isa, f"{k.name} {m} x {n} x {depth}", call, 2 * m * n * depth, f32_limit if k.name[0] == "f" else bf16_limit)


def main():
    missed = 0
    for isa in sys.argv[1:] or [isa for isa in kernel.host_isas() if isa != "amx-soft"]:
        f32_limit, bf16_limit = limits(isa)
        rate = block(isa, bf16_limit)
        products(isa, f32_limit, bf16_limit)
        if isa != "generic" and rate < (WANTED * bf16_limit if bf16_limit else AMX_WANTED):
            print(f"{isa}: the forward is slower than wanted")
            missed = 1
    sys.exit(missed)


if __name__ == "__main__":
    main()
