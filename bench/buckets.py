#!/usr/bin/env python3
"""Cost of bucketed sums: T = 10^6 elements into 4096 against 64 buckets.   usage: buckets.py KERNEL.so"""
import ctypes
import statistics
import sys
import time

import numpy as np

T, H, RUNS = 1_000_000, 16, 9


def milliseconds(function, dims, arrays):
    args = [ctypes.c_int64(d) for d in dims] + [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    times = []
    for _ in range(RUNS + 2):
        begin = time.perf_counter()
        status = function(None, *args)
        times.append((time.perf_counter() - begin) * 1e3)
        assert status == 0, status
    return statistics.median(times[2:])


def main():
    lib = ctypes.CDLL(sys.argv[1])
    rng = np.random.default_rng(3)
    x, d_y = rng.random(T, np.float32), rng.random((T, H), np.float32)
    print(f"{'kernel':<20} {'64 buckets':>12} {'4096 buckets':>13} {'ratio':>7}")
    for name in ("histogram", "weighted", "embed_bwd"):
        cost = []
        for v in (64, 4096):
            ids = rng.integers(0, v, T).astype(np.int32)
            arrays = {"histogram": [ids, np.zeros(v, np.int32)], "weighted": [ids, x, np.zeros(v, np.float32)],
                      "embed_bwd": [ids, np.zeros((v, H), np.float32), d_y, np.zeros((v, H), np.float32)]}[name]
            cost.append(milliseconds(getattr(lib, name), (T, v), arrays))
        print(f"{name:<20} {cost[0]:>9.2f} ms {cost[1]:>10.2f} ms {cost[1] / cost[0]:>7.2f}")


if __name__ == "__main__":
    main()
