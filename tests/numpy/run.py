#!/usr/bin/env python3
"""Compiles tests/numpy/kernels.moe and compares every kernel with numpy, and every derived gradient with central
differences of the numpy function in float64.   usage: run.py MOEC [KERNEL...]"""
import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)


def call(lib, name, dims, args):
    converted = []
    for a in args:
        assert a.flags.c_contiguous and a.dtype in (np.float32, np.int32)
        converted.append(ctypes.c_void_p(a.ctypes.data))
    status = getattr(lib, name)(None, *(ctypes.c_int64(d) for d in dims), *converted)
    assert status == 0, f"{name} returned status {status}"


# ---- the kernels in numpy, in the type of their inputs ----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def geglu(x, wg, wu):
    return gelu(x @ wg) * (x @ wu)


def reglu(x, wg, wu):
    return np.maximum(x @ wg, 0) * (x @ wu)


def sliding(q, k, v, window):
    s = np.einsum("bind,bjnd->bnij", q, k) / np.sqrt(q.shape[3])
    i, j = np.indices(s.shape[2:])
    s = np.where((j <= i) & (i - j < window), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bnij,bjnd->bind", e / e.sum(-1, keepdims=True), v)


def layer_norm(x, w, b):
    mean = x.mean(1, keepdims=True)
    var = ((x - mean) ** 2).mean(1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * w + b


def embedding(ids, table):
    return table[ids]


def experts(x, ids, p, w, capacity=None):
    used = np.zeros(len(w), int)
    y = np.zeros((len(x), w.shape[2]), x.dtype)
    for t in range(len(x)):
        for k, e in enumerate(ids[t]):
            if e < 0 or (capacity is not None and used[e] >= capacity):
                continue
            used[e] += 1
            y[t] += p[t, k] * (x[t] @ w[e])
    return y


def conv3(x, w):
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    n = x.shape[1]
    return sum(padded[:, u:u + n] @ w[u] for u in range(3))


def histogram(ids, x, v):
    total = np.zeros(v, x.dtype)
    np.add.at(total, ids, x)
    return total


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def top(c, k):
    return np.argsort(-c, axis=1, kind="stable")[:, :k].astype(np.int32)


def routed(x, wr, w, ids):
    c = softmax(x @ wr)
    return experts(x, ids, np.take_along_axis(c, ids, 1), w)


# ---- comparing ----

def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(what, got, want, tolerance=2e-4):
    scale = max(1.0, np.abs(want).max()) if want.size else 1.0
    error = np.abs(got - want).max() / scale if want.size else 0.0
    assert error < tolerance, f"{what}: largest difference {error:.2e} of the largest value"


def differences(f, inputs, which, cotangent):
    """d(sum(cotangent * f)) / d(inputs[which]) by central differences in float64."""
    values = [a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs]
    grad = np.zeros_like(values[which])
    flat, out, step = values[which].reshape(-1), grad.reshape(-1), 1e-5
    for i in range(flat.size):
        old = flat[i]
        flat[i] = old + step
        up = (cotangent * f(*values)).sum()
        flat[i] = old - step
        down = (cotangent * f(*values)).sum()
        flat[i] = old
        out[i] = (up - down) / (2 * step)
    return grad


def check(lib, name, dims, f, inputs, wrt, kernel_inputs=None, outputs=(), bwd_dims=None):
    """`wrt`: position in inputs -> '=' or '+='. `kernel_inputs`: what the kernel takes before its float output."""
    given = list(inputs if kernel_inputs is None else kernel_inputs)
    want = f(*inputs)
    y = np.full(want.shape, np.nan, np.float32)
    extra = [np.full(shape, -7, kind) for shape, kind in outputs]
    call(lib, name, dims, given + [y] + extra)
    close(name, y, want)
    forward = np.full(want.shape, np.nan, np.float32)
    call(lib, name + "_fwd", dims, given + [forward] + extra)
    assert (forward == y).all(), f"{name}_fwd has other bits than {name}"
    cotangent = normal(*want.shape)
    grads = {i: np.full(inputs[i].shape, np.nan if how == "=" else 0.5, np.float32) for i, how in wrt.items()}
    call(lib, name + "_bwd", bwd_dims or dims, given + [cotangent] + list(grads.values()))
    for i, how in wrt.items():
        want = differences(f, inputs, i, cotangent) + (0.5 if how == "+=" else 0)
        close(f"{name}_bwd, gradient {i}", grads[i], want, 1e-3)
    return extra


# ---- one test per kernel ----

def test_geglu(lib):
    t, h, f = 5, 7, 9
    check(lib, "geglu", (t, h, f), geglu, [normal(t, h), normal(h, f), normal(h, f)], {0: "=", 1: "=", 2: "="})


def test_reglu(lib):
    t, h, f = 6, 8, 3
    check(lib, "reglu", (t, h, f), reglu, [normal(t, h), normal(h, f), normal(h, f)], {0: "=", 1: "+=", 2: "="})


def test_sliding(lib):
    b, s, n, d = 2, 7, 2, 5
    for width in (1, 3, 7):
        window = np.array([width], np.int32)
        q, k, v = (normal(b, s, n, d) for _ in range(3))
        y = np.full(q.shape, np.nan, np.float32)
        call(lib, "sliding", (b, s, n, d), [q, k, v, y, window])
        close(f"sliding, window {width}", y, sliding(q, k, v, width))
        cotangent = normal(*q.shape)
        grads = [np.full(q.shape, np.nan, np.float32) for _ in range(3)]
        call(lib, "sliding_bwd", (b, s, n, d), [q, k, v, window, cotangent] + grads)
        for i, got in enumerate(grads):
            want = differences(lambda *a: sliding(*a, width), [q, k, v], i, cotangent)
            close(f"sliding_bwd, window {width}, gradient {i}", got, want, 1e-3)


def test_layer_norm(lib):
    t, h = 4, 11
    check(lib, "layer_norm", (t, h), layer_norm, [normal(t, h), normal(h), normal(h)], {0: "=", 1: "=", 2: "="})


def test_embedding(lib):
    t, h, v = 13, 3, 6
    ids = rng.integers(0, v - 1, t).astype(np.int32)  # the last row is never used
    check(lib, "embedding", (t, h, v), embedding, [ids, normal(v, h)], {1: "="})


def test_capacity(lib):
    t, h, f, k, e, c = 9, 4, 5, 2, 3, 4
    ids = np.stack([rng.permutation(e)[:k] for _ in range(t)]).astype(np.int32)
    ids[2, 1] = -1
    inputs = [normal(t, h), ids, normal(t, k), normal(e, h, f)]
    check(lib, "capacity", (t, h, f, k, e, c), lambda *a: experts(*a, capacity=c), inputs, {0: "=", 2: "=", 3: "="})


def test_conv3(lib):
    b, s, ci, co = 2, 6, 3, 4
    check(lib, "conv3", (b, s, ci, co), conv3, [normal(b, s, ci), normal(3, ci, co)], {0: "=", 1: "="})
    check(lib, "conv3", (b, 1, ci, co), conv3, [normal(b, 1, ci), normal(3, ci, co)], {0: "=", 1: "="})


def test_histogram(lib):
    t, v = 40, 7
    ids, x = rng.integers(0, v, t).astype(np.int32), normal(t)
    count, total = np.full(v, -1, np.int32), np.full(v, np.nan, np.float32)
    call(lib, "histogram", (t, v), [ids, x, count, total])
    assert (count == np.bincount(ids, minlength=v)).all(), "histogram: counts"
    close("histogram", total, histogram(ids, x.astype(np.float64), v))
    cotangent, grad = normal(v), np.full(t, np.nan, np.float32)
    call(lib, "histogram_bwd", (t, v), [ids, x, cotangent, grad])
    assert (grad == cotangent[ids]).all(), "histogram_bwd"


def test_routed(lib):
    t, h, f, k, e = 8, 5, 4, 2, 6
    inputs = [normal(t, h), normal(h, e), normal(e, h, f)]
    ids = top(inputs[0] @ inputs[1], k)
    got, = check(lib, "routed", (t, h, f, k, e), lambda *a: routed(*a, ids), inputs, {0: "=", 1: "=", 2: "="},
                 outputs=[((t, k), np.int32)])
    assert (got == ids).all(), "routed: ids"


def test_chooses(lib):
    x, y, p, ids = normal(3), np.full(3, -7, np.float32), np.full(2, -7, np.float32), np.full(2, -7, np.int32)
    status = lib.chooses(None, ctypes.c_int64(3), ctypes.c_int64(1),
                         *(ctypes.c_void_p(a.ctypes.data) for a in (x, normal(1), y, p, ids)))
    assert status == 1 and all((a == -7).all() for a in (y, p, ids)), f"chooses: status {status}, y {y}"


def panels(w):
    """A matrix in packed memory, without the header: panels of 32 columns, rows up to a whole line of 64 bytes."""
    rows, columns = (-(-w.shape[0] // 16) * 16, -(-w.shape[1] // 32) * 32)
    padded = np.zeros((rows, columns), np.float32)
    padded[:w.shape[0], :w.shape[1]] = w
    return padded.reshape(rows, columns // 32, 32).transpose(1, 0, 2)


def packed_like(lib, name, dims):
    size = getattr(lib, name + "_pack_bytes")
    size.restype = ctypes.c_size_t
    return np.full(size(*(ctypes.c_int64(d) for d in dims)) // 4, np.nan, np.float32)


def test_top_integers(lib):
    near = [base + d for base in (0, 2**24, -2**24, 2**30) for d in (-1, 0, 1)] + [2**31 - 1, 2**31 - 2, -2**31, -2**31 + 1]
    t, k, e = 5, 6, len(near)
    s = np.stack([rng.permutation(near) for _ in range(t)]).astype(np.int32)
    wide = 3 * s.astype(np.int64) - np.arange(e)
    p, ids, wide_ids = (np.full((t, k), -7, np.int32) for _ in range(3))
    q = np.full((t, k), np.nan, np.float32)
    call(lib, "top_integers", (t, k, e), [s, p, q, ids, wide_ids])
    assert (ids == top(s.astype(np.int64), k)).all() and (p == np.take_along_axis(s, ids, 1)).all()
    assert (wide_ids == top(wide, k)).all()
    assert (q == np.take_along_axis(wide, wide_ids, 1).astype(np.float32)).all()
    status_range = 10
    args = [ctypes.c_void_p(a.ctypes.data) for a in (s, p, ids)]
    assert lib.top_range(None, *(ctypes.c_int64(d) for d in (t, k, e)), *args) == status_range
    s //= 2
    call(lib, "top_range", (t, k, e), [s, p, ids])
    assert (p == 2 * np.take_along_axis(s, ids, 1)).all()


def test_packs(lib):
    for t, h, v in ((5, 16, 32), (3, 17, 33), (4, 7, 70)):
        x, w, y = normal(t, h), normal(h, v), np.full((t, v), np.nan, np.float32)
        given, copy, transposed = (packed_like(lib, "packs_" + name, (h, v)) for name in ("w", "wp", "wt"))
        status = lib.packs_w_pack(ctypes.c_int64(h), ctypes.c_int64(v), ctypes.c_void_p(w.ctypes.data),
                                   ctypes.c_void_p(given.ctypes.data))
        assert status == 0 and (given[16:].reshape(-1, len(panels(w)[0]), 32) == panels(w)).all(), "packs_w_pack"
        call(lib, "packs", (t, h, v), [x, given, y, copy, transposed])
        close("packs", y, x @ w)
        for got, want in ((copy, w), (transposed, w.T)):
            blocks = got[16:].reshape(panels(want).shape).transpose(1, 0, 2).reshape(-1, panels(want).shape[0] * 32)
            assert (blocks[:want.shape[0], :want.shape[1]] == want).all(), "packs: elements"
            assert (blocks[want.shape[0]:, :want.shape[1]] == 0).all(), "packs: padding"


def unpacked(q, scale):
    """Weights of examples/int4.moe: eight of four bits to a word along the rows, a scale for 128 rows."""
    w = (q.view(np.uint32)[:, None, :] >> (4 * np.arange(8, dtype=np.uint32))[None, :, None]) & 15
    return (w.reshape(-1, q.shape[1]).astype(scale.dtype) - 8) * np.repeat(scale, 128, 0)


def test_int4(lib):
    int4 = built(sys.argv[1], os.path.join(HERE, "../../examples/int4.moe"), "--type", "act=f32")
    for t, g, f in ((5, 2, 40), (70, 3, 33)):
        x, scale = normal(t, 128 * g), normal(g, f)
        q = rng.integers(-2**31, 2**31, (16 * g, f)).astype(np.int32)
        y = np.full((t, f), np.nan, np.float32)
        for name in ("w4a16", "w4a16_few"):
            call(int4, name, (t, g, f), [x, q, scale, y])
            close(name, y, x.astype(np.float64) @ unpacked(q, scale.astype(np.float64)))
        cotangent, d_x, d_scale = normal(t, f), np.full(x.shape, np.nan, np.float32), np.full(scale.shape, 0.5, np.float32)
        call(int4, "w4a16_bwd", (t, g, f), [x, q, scale, cotangent, d_x, d_scale])
        close("w4a16_bwd, x", d_x, cotangent.astype(np.float64) @ unpacked(q, scale.astype(np.float64)).T)
        rows = (x.astype(np.float64).T @ cotangent) * unpacked(q, np.ones(scale.shape))
        close("w4a16_bwd, scale", d_scale, rows.reshape(g, 128, f).sum(1) + 0.5)


def test_paged(lib):
    b, p, n, d, m = 3, 4, 9, 17, 5
    k, pages = normal(n, p, d), rng.integers(0, n, (b, m)).astype(np.int32)
    y = np.full((b, m * p, d), np.nan, np.float32)
    call(lib, "paged", (b, p, n, d, m), [k, pages, y])
    assert (y == k[pages].reshape(y.shape)).all(), "paged"
    cotangent, d_k, want = normal(*y.shape), np.full(k.shape, np.nan, np.float32), np.zeros(k.shape)
    np.add.at(want, pages, cotangent.reshape(b, m, p, d))
    call(lib, "paged_bwd", (b, p, n, d, m), [k, pages, cotangent, d_k])
    close("paged_bwd", d_k, want)


def test_integers(lib):
    """idiv and imod beside NumPy's: all signs, divisors below 1 (which count as 1), ends of i32, quotients beyond it."""
    ends = [0, 1, -1, 2, -2, 6, 7, 8, -7, -8, 2**30 - 1, 2**30, -2**30, -2**30 - 1, 2**31 - 1, 2**31 - 2, -2**31, -2**31 + 1]
    a = np.concatenate([np.array(ends, np.int32), rng.integers(-2**31, 2**31, 4000).astype(np.int32)])
    n = len(a)
    for by in (1, 2, 3, 7, 64, 1000003, 2**31 - 1, 2**31 + 5, 2**40):
        q, r, seven, wide = (np.full(n, -7, np.int32) for _ in range(4))
        call(lib, "integers", (n, by), [a, q, r, seven, wide])
        assert (q == a.astype(np.int64) // by).all() and (r == np.minimum(a.astype(np.int64) % by, 2**31 - 1)).all(), f"divisor {by}"
        assert (seven == a // 7 + a % 7 + (-a.astype(np.int64)) // 8 + a % 8).all(), "literals"
        assert (wide == a.astype(np.int64) * (2**31 - 1) // (2**31 - 1) % 9).all(), "beyond 32 bits"
    divisors = np.array(ends * (n // len(ends) + 1), np.int32)[:n]
    q, r = (np.full(n, -7, np.int32) for _ in range(2))
    call(lib, "varying", (n,), [a, divisors, q, r])
    at_least_one = np.maximum(divisors, 1)
    assert (q == a // at_least_one).all() and (r == a % at_least_one).all(), "divisors that vary"
    call(lib, "integers", (n, 0), [a, q, r, np.empty_like(a), np.empty_like(a)])
    assert (q == a).all() and (r == 0).all(), "divisor 0"


def test_narrow(lib):
    """Floats of sums, quotients and remainders of any two i32: lanes of 32 bits where they suffice (backend/emit_narrow.c)."""
    a, b = (rng.integers(-2**31, 2**31, 1003).astype(np.int32) for _ in range(2))
    a[:4], b[:4] = [-2**31, 2**31 - 1, -2**31, 2**31 - 1], [-2**31, 2**31 - 1, 2**31 - 1, -2**31]
    x, y = a.astype(np.int64), b.astype(np.int64)
    want = [x + y, x - y, x // 65536 - y // 2**31, (x + y) % 1024, np.where(x > 0, x // 16, y % 16 - 8), x // 2 + y // 2 + 1]
    got = [np.full(len(a), np.nan, np.float32) for _ in want]
    call(lib, "narrow", (len(a),), [a, b, *got])
    for name, w, g in zip("sdqmch", want, got):
        assert (g == w.astype(np.float32) * np.float32(0.5 if name == "d" else 1)).all(), name


def test_large(lib):
    n = 9 << 20
    x, memory = normal(n), np.full(n + 32, np.nan, np.float32)
    first = -memory.ctypes.data % 64 // 4 + 1
    for at in (first - 1, first):  # a line of the cache begins there, and not
        memory[:] = np.nan
        call(lib, "large", (n,), [x, memory[at:at + n]])
        assert (memory[at:at + n] == x * np.float32(3)).all(), f"large, {at * 4 % 64} bytes off"
        assert np.isnan(memory[:at]).all() and np.isnan(memory[at + n:]).all(), "large: beyond its ends"


def built(moec, source, *options):
    with tempfile.TemporaryDirectory() as scratch:
        library = os.path.join(scratch, "kernels.so")
        subprocess.run([moec, *options, source, "-o", library], check=True)
        return ctypes.CDLL(library)


def main():
    moec, only = sys.argv[1], sys.argv[2:]
    lib, failed = built(moec, os.path.join(HERE, "kernels.moe")), 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (only and name[5:] not in only):
            continue
        try:
            test(lib)
            print(f"ok      {name[5:]}")
        except AssertionError as e:
            failed += 1
            print(f"FAILED  {name[5:]}: {e}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
