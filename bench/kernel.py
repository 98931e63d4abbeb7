"""Kernels from Python, for benchmarks and tests: compile a .moe text, bind numpy arrays, call, measure."""
import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC = os.environ.get("MOEC", os.path.join(ROOT, "build/bin/moec"))
ISAS = ("amx-soft", "generic", "avx2", "avx512", "avx512widen", "avx512bf16", "amx")  # from the plainest up
NUMPY = {"f32": np.float32, "bf16": np.uint16, "f16": np.float16, "i32": np.int32}


def to_bf16(a):
    """float32 -> the upper half of its bits, rounded to nearest even, as uint16."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(a):
    return (a.astype(np.uint32) << 16).view(np.float32)


def floats(a):
    return from_bf16(a) if a.dtype == np.uint16 else a.astype(np.float32)


class Route(ctypes.Structure):
    """struct moe_route: rows sorted by (expert, token, slot); `capacity` rows for each expert, or runs of any length."""
    _fields_ = [(name, ctypes.c_int64) for name in ("tokens", "choices", "groups", "rows")] + \
               [(name, ctypes.c_void_p) for name in ("start", "count", "slot_of", "row_of")]

    def __init__(self, ids, experts, capacity=None):
        flat = ids.reshape(-1)
        order = np.argsort(flat, kind="stable")
        order = order[flat[order] >= 0]
        count = np.bincount(flat[order], minlength=experts)
        first = np.concatenate([[0], np.cumsum(count)])
        within = np.arange(len(order)) - first[flat[order]]
        if capacity is not None:
            order, within = order[within < capacity], within[within < capacity]
            count, first = np.minimum(count, capacity), np.arange(experts + 1) * capacity
        rows = ids.size if capacity is None else experts * capacity
        slot_of, row_of = np.full(rows, -1, np.int32), np.full(ids.size, -1, np.int32)
        at = first[flat[order]] + within
        slot_of[at], row_of[order] = order, at
        self.arrays = first.astype(np.int64), count.astype(np.int64), slot_of, row_of
        super().__init__(*ids.shape, experts, rows, *(a.ctypes.data for a in self.arrays))


class Context(ctypes.Structure):
    """struct moe_ctx."""
    _fields_ = [("threads", ctypes.c_int32), ("status", ctypes.c_int32), ("work", ctypes.c_void_p),
                ("work_bytes", ctypes.c_int64), ("message", ctypes.c_void_p)]

    def __init__(self, threads):
        self.text = ctypes.create_string_buffer(512)
        super().__init__(threads=threads, message=ctypes.addressof(self.text))

    def __del__(self):
        ctypes.CDLL(None).free(ctypes.c_void_p(self.work))


def lines(count):
    """Bytes, all 0, that begin on a line of the cache."""
    memory = np.zeros(count + 64, np.uint8)
    return memory[-memory.ctypes.data % 64:][:count]


def on_a_line(a):
    """A copy that begins on a line of the cache, as PyTorch's tensors do."""
    memory = lines(a.nbytes)
    memory[:] = a.reshape(-1).view(np.uint8)
    return memory.view(a.dtype).reshape(a.shape)


class Kernel:
    def __init__(self, lib, row):
        self.lib, self.name, self.dims, self.params = lib, row["name"], row["dims"], row["params"]

    def shape(self, param, sizes):
        def value(terms):
            return sum(t[0] * int(np.prod([sizes[d] for d in t[1:]])) for t in terms)
        return tuple(value(axis["terms"]) for axis in param["shape"])

    def random(self, sizes, rng, route=None, scale=0.5):
        """Arguments: random numbers, NaN where the kernel is to write. The route is the same for every group."""
        args = {}
        for p in self.params:
            if p["kind"] == "route":
                args[p["name"]] = route
            elif p["kind"] == "scalar":
                args[p["name"]] = 1.0
            else:
                shape = self.shape(p, sizes)
                a = rng.standard_normal(shape, np.float32) * np.float32(scale)
                if p["role"] == "out":
                    a = np.full(shape, np.nan, np.float32)
                args[p["name"]] = on_a_line(to_bf16(a) if p["type"] == "bf16" else a.astype(NUMPY[p["type"]]))
        return args

    def bind(self, sizes, args, threads=1):
        """A function without parameters that calls the kernel."""
        context, values = Context(threads), [ctypes.c_int64(sizes[d]) for d in self.dims]
        packed = []
        for p in self.params:
            a = args[p["name"]]
            if p["kind"] == "route":
                values.append(ctypes.byref(a))
            elif p["kind"] == "scalar":
                values.append(ctypes.c_float(a) if p["type"] == "f32" else ctypes.c_int32(a))
            else:
                assert a.flags.c_contiguous and a.dtype == NUMPY[p["type"]], p["name"]
                assert a.size == np.prod(self.shape(p, sizes)), f"{self.name}: shape of {p['name']}"
                if "packed" in p:
                    a = self.pack(p["packed"], sizes, a)
                    packed.append(a)
                values.append(ctypes.c_void_p(a.ctypes.data))
        function, name = getattr(self.lib, self.name), self.name

        def call(_keep=(args, packed)):
            status = function(ctypes.byref(context), *values)
            if status:
                raise RuntimeError(f"{name}: status {status}: {context.text.value.decode()}")
        return call

    def pack(self, packed, sizes, a):
        """The row-major array a in packed memory, which begins on a line of the cache."""
        dims = [ctypes.c_int64(sizes[d]) for d in packed["dims"]]
        count = getattr(self.lib, packed["bytes"])
        count.restype = ctypes.c_size_t
        memory = lines(count(*dims))
        status = getattr(self.lib, packed["pack"])(*dims, ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(memory.ctypes.data))
        if status:
            raise RuntimeError(f"{packed['pack']}: status {status}")
        return memory


def run_moec(*args, moec=MOEC):
    done = subprocess.run([moec, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"moec {' '.join(args)}: exit code {done.returncode}\n{done.stdout[:2000]}")
    return done.stdout


@contextlib.contextmanager
def source_of(text):
    """The path of a file with this text, in a folder of its own, which goes away."""
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "kernel.moe")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        yield source


def compile_text(text, isa="host", moec=MOEC):
    """{name: Kernel} of a .moe text."""
    with source_of(text) as source:
        run_moec("--target=" + isa, source, "-o", source + ".so", moec=moec)
        lib = ctypes.CDLL(source + ".so")
    manifest = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(lib, "moec_manifest")))
    return {row["name"]: Kernel(lib, row) for row in json.loads(manifest)["kernels"]}


def explain_text(text, isa="host", moec=MOEC):
    """What `moec explain` says about a .moe text."""
    with source_of(text) as source:
        return run_moec("explain", "--target=" + isa, source, moec=moec)


def host_isas(moec=MOEC):
    """The instruction sets that this CPU runs, the best last."""
    def runs(isa):
        return subprocess.run([moec, "run", "--target=" + isa, os.path.join(ROOT, "examples/rmsnorm.moe"), "rmsnorm", "T=1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return [isa for isa in ISAS if runs(isa)]


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def median_seconds(call, runs=5):
    call()
    return statistics.median(seconds(call) for _ in range(runs))


def side_by_side(call, other, runs=7):
    """Median times of two calls that take turns, and the median of their ratios: how fast `other` is beside `call`."""
    call(), other()
    pairs = [(seconds(call), seconds(other)) for _ in range(runs)]
    return (*(statistics.median(times) for times in zip(*pairs)), statistics.median(a / b for a, b in pairs))
