#!/usr/bin/env python3
"""Batch invariance: what a kernel gives for a row does not change by a bit when other rows are added, left out, moved to
other places or to other groups. Dense and grouped products, capacity groups, the expert block and its gradients, attention
beside a cache, on every instruction set of this CPU.   usage: batch_invariance.py MOEC"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
import kernel  # noqa: E402

TEXT = """moe 1
dim T, K, E, H, F, C
group R : E rows T*K
group P : E capacity C
kernel dense(in x: bf16[T, H], in w: bf16[H, F], out y: f32[T, F]) { y[t, f] = sum(h) x[t, h] * w[h, f] }
kernel dense_f32(in x: f32[T, H], in w: f32[F, H], out y: f32[T, F]) { y[t, f] = sum(h) x[t, h] * w[f, h] }
kernel no_product(in x: f32[T, H], in w: f32[H, F], out y: f32[T, F]) { y[t, f] = sum(h) abs(x[t, h] - w[h, f]) }
kernel distances(in x: f32[T, H], in w: f32[F, H], out y: f32[T, F]) { y[t, f] = sum(h) (x[t, h] - w[f, h]) * (x[t, h] - w[f, h]) }
kernel chain(in x: bf16[T, H], in w: bf16[H, F], in v: bf16[F, H], out y: bf16[T, H]) {
  a[t, f] = bf16(gelu(sum(h) x[t, h] * w[h, f]))
  y[t, h] = bf16(sum(f) a[t, f] * v[f, h])
}
kernel grouped(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K], in w: bf16[E, H, F], out y: f32[T, F]) {
  o[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]
  y[t, f] = sum(k) p[t, k] * o[rt.row(t, k), f]
}
kernel capacity(in x: bf16[T, H], in rt: route[T, K -> P], in p: f32[T, K], in w: bf16[E, F, H], out y: f32[T, F]) {
  o[r, f] = sum(h) x[rt.token(r), h] * w[@r, f, h]
  y[t, f] = sum(k) p[t, k] * o[rt.row(t, k), f]
}
kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],
           in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {
  g[r, f] = sum(h) x[rt.token(r), h] * wg[@r, h, f]
  u[r, f] = sum(h) x[rt.token(r), h] * wu[@r, h, f]
  a[r, f] = bf16(silu(g[r, f]) * u[r, f])
  o[r, h] = sum(f) a[r, f] * wd[@r, f, h]
  y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
kernel beside(in x: bf16[T, K, H], in w, v: bf16[F, K, H], out y: bf16[T, K, H]) {
  s[c, t, f] = sum(h) x[t, c, h] * w[f, c, h]
  m[c, t]    = max(f) s[c, t, f]
  e[c, t, f] = exp(s[c, t, f] - shift(m[c, t]))
  z[c, t]    = sum(f) e[c, t, f]
  y[t, c, h] = bf16((sum(f) bf16(e[c, t, f]) * v[f, c, h]) / z[c, t])
}
kernel band(in x: bf16[T, H], in w: bf16[H, F], out y: f32[T, F]) { y[t, f] = sum(h where t - h <= 32) x[t, h] * w[h, f] }
kernel later(in x: bf16[T, H], in w: bf16[H, F], out y: f32[T, F]) { y[t, f] = sum(h where h >= 2 * t) x[t, h] * w[h, f] }
kernel falling(in x: bf16[T, H], in w: bf16[H, F], out y: f32[T, F]) { y[t, f] = sum(h where h + t < H) x[t, h] * w[h, f] }
kernel windowed(in x: bf16[T, F], in w, v: bf16[H, F], out y: f32[T, F]) {
  s[t, h] = sum(f) x[t, f] * w[h, f]
  m[t]    = max(h where h <= t and h + 65 > t) s[t, h]
  e[t, h] = if(h <= t and h + 65 > t, exp(s[t, h] - shift(m[t])), 0)
  z[t]    = sum(h) e[t, h]
  y[t, f] = (sum(h) bf16(e[t, h]) * v[h, f]) / z[t]
}
derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg +=, wu +=, wd +=
"""
SIZES = {"T": 600, "K": 2, "E": 5, "H": 77, "F": 68, "C": 1200}
DEEP = {**SIZES, "T": 40, "H": 531}  # more than one slab
LONG = {**SIZES, "T": 140, "H": 150}
BY_PLACE = {"band", "later", "falling", "windowed"}  # conditions tell rows apart by their numbers
OF_TOKENS = {"x", "p", "d_y", "y", "d_x", "d_p"}


def choices(rng, n):
    """Two experts for each token. The first is popular, the second has one token, the last none; some are dropped."""
    ids = np.argsort(rng.random((n["T"], n["E"] - 1)) * [0.3, 9, 1, 1], axis=1)[:, :n["K"]]
    ids[ids == 1] = -1
    ids[n["T"] // 2, 0] = 1
    return ids


def run(k, n, args, ids, tokens):
    """Arguments and results with these tokens only, in this order."""
    given = {name: a[tokens].copy() if name in OF_TOKENS else a.copy() for name, a in args.items() if a is not None}
    given["rt"] = kernel.Route(ids[tokens], n["E"], n["C"] if k.name == "capacity" else None)
    k.bind({**n, "T": len(tokens)}, given)()
    for p in k.params:
        assert p["role"] != "out" or np.isfinite(kernel.floats(given[p["name"]])).all(), f"{k.name}: {p['name']}"
    return given


def selections(rng, tokens, by_place):
    """Others left out, in another order, repeated, alone."""
    if by_place:
        yield from ((f"the first {count}", np.arange(count)) for count in (1, 2, 31, 33, 65, 97, 130) if count < tokens)
        return
    yield "in another order", rng.permutation(tokens)
    yield "again and again", rng.integers(0, tokens, tokens + 13)
    for count in (1, 2, 11, 12, 13, 31, 32, 33, 64, 513):
        if count < tokens:
            yield f"{count} of them", rng.permutation(tokens)[:count]
    yield "one alone", np.array([tokens // 2])


def same(a, b):
    return a.tobytes() == b.tobytes()


def check_tokens(k, n, rng):
    """What belongs to a token depends on that token only."""
    args, ids = k.random(n, rng), choices(rng, n)
    whole = run(k, n, args, ids, np.arange(n["T"]))
    for what, tokens in selections(rng, n["T"], k.name in BY_PLACE):
        part = run(k, n, args, ids, tokens)
        for p in k.params:
            name = p["name"]
            if p["role"] == "out" and not same(whole[name][tokens], part[name]):
                yield f"{k.name}: {name} changes with the tokens: {what}"


def check_groups(k, n, rng):
    """What belongs to a group depends on its rows only; and where all groups have the same weights, it does not matter in
    which one a row is."""
    args, ids = k.random(n, rng), choices(rng, n)
    whole = run(k, n, args, ids, np.arange(n["T"]))
    moved = np.where(ids == 2, 3, ids)  # groups 0 and 1 keep their rows
    other = run(k, n, args, moved, np.arange(n["T"]))
    for p in k.params:
        if p["role"] == "inout" and not same(whole[p["name"]][:2], other[p["name"]][:2]):
            yield f"{k.name}: {p['name']} of a group changes with the rows of others"
    for name in args.keys() & {"w", "wg", "wu", "wd"}:
        args[name][:] = args[name][:1]
    whole, other = (run(k, n, args, i, np.arange(n["T"])) for i in (ids, np.where(ids >= 0, (ids + 3) % n["E"], ids)))
    for p in k.params:
        if p["role"] == "out" and not same(whole[p["name"]], other[p["name"]]):
            yield f"{k.name}: {p['name']} changes with the group"


def main():
    moec, failed = sys.argv[1], 0
    for isa in kernel.host_isas(moec):
        kernels = kernel.compile_text(TEXT, isa, moec)
        for k in kernels.values():
            if k.name == "ffn_fwd":
                continue
            found = []
            for n in (LONG,) if k.name in BY_PLACE else (SIZES, DEEP):
                n = {**n, "C": n["T"] * n["K"]}
                found += check_tokens(k, n, np.random.default_rng(1))
                found += check_groups(k, n, np.random.default_rng(2)) if "E" in k.dims else []
            print(f"{'FAILED' if found else 'ok':7} {isa} {k.name}", *found, sep="\n        " if found else " ")
            failed += bool(found)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
