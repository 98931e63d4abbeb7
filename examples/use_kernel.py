#!/usr/bin/env python3
"""Calls the kernel of moe_ffn.moe from Python with ctypes and numpy, and compares it with numpy.

    moec moe_ffn.moe -o kernel.so
    python3 use_kernel.py ./kernel.so
"""
import ctypes
import sys

import numpy as np


class Route(ctypes.Structure):
    """struct moe_route of the generated header."""
    _fields_ = [(name, ctypes.c_int64) for name in ("tokens", "choices", "groups", "rows")] + \
               [(name, ctypes.c_void_p) for name in ("start", "count", "slot_of", "row_of")]


def to_bf16(a):
    """float32 -> the upper half of its bits, rounded to nearest even, as uint16."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(a):
    return (a.astype(np.uint32) << 16).view(np.float32)


def make_route(ids, experts):
    """Rows sorted by (expert, token, slot). Returns the struct and the arrays it points at."""
    tokens, choices = ids.shape
    order = np.argsort(ids.reshape(-1), kind="stable").astype(np.int32)
    row_of = np.empty(tokens * choices, np.int32)
    row_of[order] = np.arange(tokens * choices, dtype=np.int32)
    count = np.bincount(ids.reshape(-1), minlength=experts).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    keep = (start, count, order, row_of)
    return Route(tokens, choices, experts, tokens * choices, *(a.ctypes.data for a in keep)), keep


def reference(x, ids, p, wg, wu, wd):
    y = np.zeros_like(x)
    for t in range(len(x)):
        for k, e in enumerate(ids[t]):
            g, u = x[t] @ wg[e], x[t] @ wu[e]
            a = from_bf16(to_bf16(g / (1 + np.exp(-g)) * u))
            y[t] += p[t, k] * (a @ wd[e])
    return y


def main():
    lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "./kernel.so")
    rng = np.random.default_rng(1)
    T, K, E, H, F = 37, 2, 6, 64, 48
    ids = np.argsort(rng.random((T, E - 1)), axis=1)[:, :K]  # the last expert gets no token: legal
    p = rng.random((T, K), np.float32)
    x, wg, wu, wd = (to_bf16(rng.standard_normal(shape) * scale) for shape, scale in
                     (((T, H), 1), ((E, H, F), 0.1), ((E, H, F), 0.1), ((E, F, H), 0.1)))
    y = np.empty((T, H), np.uint16)
    route, keep = make_route(ids, E)

    pointer = [ctypes.c_void_p(a.ctypes.data) for a in (x, p, wg, wu, wd, y)]
    sizes = [ctypes.c_int64(n) for n in (T, K, E, H, F)]
    status = lib.ffn(None, *sizes, pointer[0], ctypes.byref(route), *pointer[1:])
    if status:
        sys.exit(f"ffn returned status {status}")
    del keep

    want = reference(from_bf16(x), ids, p, from_bf16(wg), from_bf16(wu), from_bf16(wd))
    error = np.abs(from_bf16(y) - want).max() / np.abs(want).max()
    print(f"largest difference from numpy: {error:.4f} of the largest value")
    sys.exit(int(error > 0.01))


if __name__ == "__main__":
    main()
