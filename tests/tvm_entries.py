#!/usr/bin/env python3
"""Entries for tvm-ffi, `__tvm_ffi_NAME`: called as that library does, by ctypes alone; and by the package apache-tvm-ffi, where
this Python has it, which also measures a call.

usage: tvm_entries.py MOEC"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time

KERNELS = """moe 1
dim T, K, E, H
dim Q = 3
dim N
group R : E rows T*K
kernel scale(in x: f32[T, 2*H + 1], in h: f32[H], in s: f32, in n: i32, out y: f32[T, 2*H + 1]) {
  y[t, i] = x[t, i] * s + n + 0 * (sum(j) h[j])
}
kernel gather(in x: f32[T, H], in rt: route[T, K -> R], out y: f32[R, H]) { y[r, h] = x[rt.token(r), h] }
kernel count(out y: i32) { y = i32(sum(n: N) 1) }
"""


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Value(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("real", ctypes.c_double), ("pointer", ctypes.c_void_p)]


class Any(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", Value)]


TYPES = {ctypes.c_float: (2, 32), ctypes.c_int32: (0, 32), ctypes.c_int64: (0, 64)}


def tensor(ctype, shape, values=(), strides=None, device=1):
    count = 1
    for extent in shape:
        count *= extent
    data = (ctype * max(count, 1))(*values)
    t = DLTensor(ctypes.addressof(data), device, 0, len(shape), *TYPES[ctype], 1, (ctypes.c_int64 * max(len(shape), 1))(*shape),
                 (ctypes.c_int64 * len(strides))(*strides) if strides else None, 0)
    t.kept = data
    return t


def call(library, name, *arguments):
    packed = (Any * max(len(arguments), 1))()
    for slot, a in zip(packed, arguments):
        if isinstance(a, DLTensor):
            slot.type, slot.value.pointer = 7, ctypes.addressof(a)
        elif isinstance(a, float):
            slot.type, slot.value.real = 3, a
        else:
            slot.type, slot.value.integer = 1, a
    result = Any()
    return getattr(library, "__tvm_ffi_" + name)(None, packed, len(arguments), ctypes.byref(result))


def by_ctypes(library):
    f32, i32, i64 = ctypes.c_float, ctypes.c_int32, ctypes.c_int64
    x, h, y = tensor(f32, (2, 5), range(10)), tensor(f32, (2,)), tensor(f32, (2, 5))
    assert call(library, "scale", x, h, 2.0, 1, y) == 0
    assert list(y.kept) == [2.0 * v + 1 for v in range(10)], list(y.kept)
    assert call(library, "scale", x, h, 2, 1, y) == 0, "an integer for an f32"
    dense = tensor(f32, (2, 5), range(10), strides=(5, 1))
    assert call(library, "scale", dense, h, 2.0, 1, y) == 0
    wrong = {"an axis that does not fit": (x, tensor(f32, (3,)), 2.0, 1, y), "another type": (tensor(i32, (2, 5)), h, 2.0, 1, y),
             "strides": (tensor(f32, (2, 5), strides=(1, 2)), h, 2.0, 1, y), "a device": (tensor(f32, (2, 5), device=2), h, 2.0, 1, y),
             "a fraction for an i32": (x, h, 2.0, 1.5, y), "too few": (x, h, 2.0, 1), "too many": (x, h, 2.0, 1, y, y),
             "another rank": (tensor(f32, (10,)), h, 2.0, 1, y), "a number for a tensor": (1, h, 2.0, 1, y)}
    for what, arguments in wrong.items():
        assert call(library, "scale", *arguments) == -1, what
    # two tokens, two choices, three groups: rows 0..3 of choices 1, 2, 0, 3
    start, count = tensor(i64, (4,), (0, 2, 2, 4)), tensor(i64, (3,), (2, 0, 2))
    slot_of, row_of = tensor(i32, (4,), (1, 2, 0, 3)), tensor(i32, (2, 2), (2, 0, 1, 3))
    x, y = tensor(f32, (2, 3), range(6)), tensor(f32, (4, 3))
    assert call(library, "gather", x, start, count, slot_of, row_of, y) == 0
    assert list(y.kept) == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5], list(y.kept)
    assert call(library, "gather", x, start, count, tensor(i32, (4,), (9, 9, 9, 9)), row_of, y) == -1, "a wrong route"
    assert call(library, "gather", x, start, count, tensor(i32, (5,), (1, 2, 0, 3, 3)), row_of, y) == -1, "rows that are not T*K"
    for shape in ((3, 3), (4, 2)):
        assert call(library, "gather", x, start, count, slot_of, row_of, tensor(f32, shape)) == -1, "a shape behind a route"
    n = tensor(i32, ())
    assert call(library, "count", 7, n) == 0 and n.kept[0] == 7, "a dimension that no shape gives"


def by_package(path):
    """None where the package is missing; else seconds of a call."""
    try:
        import numpy as np
        import tvm_ffi
    except ImportError:
        return None
    module = tvm_ffi.load_module(path)
    x, h, y = np.arange(10, dtype=np.float32).reshape(2, 5), np.zeros(2, np.float32), np.zeros((2, 5), np.float32)
    tensors = [tvm_ffi.from_dlpack(a) for a in (x, h, y)]
    module.scale(tensors[0], tensors[1], 2.0, 1, tensors[2])
    assert (y == 2 * x + 1).all(), y
    try:
        module.scale(tensors[0], tensors[0], 2.0, 1, tensors[2])
        raise AssertionError("a wrong shape is not refused")
    except ValueError as error:
        assert "scale: h has 2 axes, not 1" in str(error), error
    best, calls, scale = 1.0, 2000, module.scale
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(calls):
            scale(tensors[0], tensors[1], 2.0, 1, tensors[2])
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def main():
    moec = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="moec-tvm-") as scratch:
        source, path = os.path.join(scratch, "k.moe"), os.path.join(scratch, "k.so")
        with open(source, "w", encoding="utf-8") as f:
            f.write(KERNELS)
        subprocess.run([moec, "--no-cache", "--allow=W1002", source, "-o", path], check=True)
        by_ctypes(ctypes.CDLL(path))
        seconds = by_package(path)
        print("tvm_entries: " + (f"{1e6 * seconds:.2f} us a call" if seconds else "by ctypes only: the package is not installed"))


if __name__ == "__main__":
    main()
