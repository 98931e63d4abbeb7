#!/usr/bin/env python3
"""Median time, in milliseconds, of compiling a file for this process without the cache: moec_compile_file of libmoec.
usage: jit.py LIBMOEC.so FILE.moe"""
import ctypes
import statistics
import sys
import time

RUNS = 15


class Options(ctypes.Structure):
    """struct moec_options."""
    _fields_ = [("target", ctypes.c_char_p), ("no_optimize", ctypes.c_int), ("debug", ctypes.c_int),
                ("no_cache", ctypes.c_int), ("cache_dir", ctypes.c_char_p), ("interpret", ctypes.c_int),
                ("schedule", ctypes.c_char_p), ("machine", ctypes.c_char_p), ("schedule_seed", ctypes.c_uint64),
                ("types", ctypes.c_char_p), ("derive", ctypes.c_char_p), ("kernels", ctypes.c_char_p),
                ("jit_names", ctypes.c_int), ("tuned_for", ctypes.c_char_p),
                ("tuned_threads", ctypes.c_int)]


def main():
    moec = ctypes.CDLL(sys.argv[1])
    moec.moec_context_new.restype = moec.moec_error_text.restype = ctypes.c_void_p
    context, options = ctypes.c_void_p(moec.moec_context_new()), Options(no_cache=1)
    times = []
    for _ in range(RUNS + 1):  # the first loads LLVM
        module = ctypes.c_void_p()
        begin = time.perf_counter()
        if moec.moec_compile_file(context, sys.argv[2].encode(), ctypes.byref(options), ctypes.byref(module)):
            sys.exit(ctypes.string_at(moec.moec_error_text(context)).decode())
        times.append((time.perf_counter() - begin) * 1e3)
        moec.moec_module_free(module)
    print(f"{statistics.median(times[1:]):.1f}")


if __name__ == "__main__":
    main()
