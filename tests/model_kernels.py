#!/usr/bin/env python3
"""The kernels of model/*.moe against numpy in float64: values, and derived gradients against a central difference of the
numpy function along a random direction; in f32 and in bf16. And the golden vectors of the choice, the balance loss and the
permutation.   usage: model_kernels.py MOEC [f32|bf16]"""
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import kernel  # noqa: E402

rng = np.random.default_rng(14)


# ---- calls ----

class Module:
    """The kernels of one file, with the activations' type."""

    def __init__(self, name, act):
        with open(os.path.join(ROOT, "model", name + ".moe"), encoding="utf-8") as f:
            text = f.read()
        assert "type act = bf16" in text
        self.act, self.kernels = act, kernel.compile_text(text.replace("type act = bf16", "type act = " + act), moec=kernel.MOEC)

    def shape(self, name, param, sizes):
        k = self.kernels[name]
        return next(k.shape(p, sizes) for p in k.params if p["name"] == param)

    def call(self, name, sizes, values):
        """Calls a kernel with numbers of any float type; {name: number} of what it writes."""
        k, args = self.kernels[name], {}
        for p in k.params:
            args[p["name"]] = argument(k, p, sizes, values)
        k.bind(sizes, args)()
        return {p["name"]: kernel.floats(args[p["name"]]).astype(np.float64) if p["type"] != "i32" else args[p["name"]]
                for p in k.params if p["role"] != "in" and p["kind"] == "tensor"} | \
               {p["name"]: args[p["name"]] for p in k.params if p["role"] != "in" and p["kind"] == "route"}


def argument(k, p, sizes, values):
    value = values.get(p["name"])
    if p["kind"] == "route":
        return value if value is not None else blank_route(k, p, sizes)
    if p["kind"] == "scalar":
        return int(value) if p["type"] == "i32" else float(value)
    shape = k.shape(p, sizes)
    if p["role"] == "out":
        value = np.zeros(shape) if p["type"] == "i32" else np.full(shape, np.nan)
    elif value is None and p["role"] == "inout":
        value = np.zeros(shape)
    value = np.asarray(value).reshape(shape)
    if p["type"] == "bf16":
        return np.asarray(kernel.to_bf16(value)).reshape(shape)
    return np.array(value, kernel.NUMPY[p["type"]], order="C")


def blank_route(k, p, sizes):
    """A route to be written: with sizes, and room for the rest."""
    t, experts, choices, capacity = (sizes.get(d) for d in "TEKC")
    padded = capacity is not None
    r = kernel.Route(np.zeros((t, choices), np.int32), experts, capacity if padded else None)
    for a in r.arrays:
        a.fill(-7)
    return r


def rounded(value, act):
    return kernel.from_bf16(kernel.to_bf16(value)).astype(np.float64) if act == "bf16" else value.astype(np.float32).astype(np.float64)


# ---- comparisons ----

FORWARD = {"f32": 1e-5, "bf16": 2e-2}
GRADIENT = {"f32": 2e-4, "bf16": 3e-2}
failures = checks = 0


def report(what, wrong, limit):
    global failures, checks
    checks += 1
    if not wrong <= limit:
        failures += 1
        print(f"{what}: error {wrong:.3g}, limit {limit:.3g}")


def inputs_of(module, name, sizes, given):
    """Random inputs that the element types hold exactly, but for those that are given."""
    values, k = {}, module.kernels[name]
    for p in k.params:
        if p["name"] in given:
            values[p["name"]] = given[p["name"]]
        elif p["role"] != "out" and p["kind"] == "tensor":
            shape = k.shape(p, sizes)
            scale = 1 / np.sqrt(shape[-2]) if "packed" in p else 1
            values[p["name"]] = rounded(np.asarray(rng.standard_normal(shape) * scale), "f32" if p["type"] == "f32" else module.act)
    return values


def distance(got, want):
    return np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30) if np.isfinite(got).all() else np.inf


def check(module, name, sizes, reference, **given):
    """`reference`: inputs -> {output: value}."""
    what = f"{name} {module.act} {sizes}"
    values = inputs_of(module, name, sizes, given)
    want = reference(**values)
    got = module.call(name, sizes, values)
    for output, value in want.items():
        report(f"{what}: {output}", distance(got[output].reshape(np.shape(value)), value), FORWARD[module.act])
    if name + "_fwd" in module.kernels:
        check_gradient(module, name, sizes, reference, values, want)
    return got


def check_gradient(module, name, sizes, reference, values, want):
    forward = module.call(name + "_fwd", sizes, values)
    backward = module.kernels[name + "_bwd"]
    d = {"d_" + o: np.asarray(rounded(np.asarray(rng.standard_normal(np.shape(v))), module.act)) for o, v in want.items()}
    got = module.call(name + "_bwd", sizes, {**values, **forward, **d})

    def along(changed, step):
        out = reference(**{**values, **changed(step)})
        return sum((out[o] * d["d_" + o]).sum() for o in want)

    for p in backward.params:
        x = p["name"][2:]
        if p["role"] == "in" or not p["name"].startswith("d_"):
            continue
        v, h = rng.standard_normal(np.shape(values[x])), 1e-6
        numeric = (along(lambda s: {x: values[x] + s * v}, h) - along(lambda s: {x: values[x] - s * v}, h)) / (2 * h)
        g = got[p["name"]]
        report(f"{name} {module.act} {sizes}: gradient of {x}", abs((g * v).sum() - numeric) / max(np.linalg.norm(g), 1e-30),
               GRADIENT[module.act])


# ---- the modules in numpy ----

def rms(x, gain, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(s):
    m = s.max(-1)
    return m + np.log(np.exp(s - m[..., None]).sum(-1))


def swiglu(n, wg, wu, wd):
    return (silu(n @ wg) * (n @ wu)) @ wd


def attend(q, k, v, scale, first=0):
    """Heads are axis 2; as many of keys as of queries."""
    s = np.einsum("bind,bjnd->bnij", q, k) * scale
    i, j = np.indices(s.shape[2:])
    return np.einsum("bnij,bjnd->bind", softmax(np.where(j <= i + first, s, -np.inf)), v)


def rotate(x, c, s):
    """Pairs are the halves of the last axis; c, s: [S, P], heads between."""
    a, b = np.split(x, 2, -1)
    c, s = c[:, None], s[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def rotate_neighbours(x, c, s):
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = c[:, None], s[:, None]
    return np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape)


def routed(n, ids, p, wg, wu, wd):
    y = np.zeros_like(n)
    for (t, k), e in np.ndenumerate(ids):
        if e >= 0:
            y[t] += p[t, k] * swiglu(n[t], wg[e], wu[e], wd[e])
    return y


def chosen(ids, experts):
    return (ids[..., None] == np.arange(experts)).astype(float)


# ---- embedding, positions, attention ----

def embeddings(act):
    m = Module("embed", act)
    for T, V, H in ((19, 7, 33), (1, 3, 8)):
        ids = rng.integers(0, V, T).astype(np.int32)
        check(m, "embed", dict(T=T, V=V, H=H), lambda id, w: {"x": w[ids]}, id=ids)


def angles(S, P, first, base, factor, low, high):
    p = np.arange(P)
    f = base ** (-p / P)
    ramp = np.clip((p - low) / max(high - low, 0.001), 0, 1)
    return (first + np.arange(S))[:, None] * (f / factor * ramp + f * (1 - ramp))


def positions(act):
    m = Module("rope", act)
    for S, first, P, scaling in ((9, 0, 5, dict(factor=1, low=0, high=1)), (3, 4095, 32, dict(factor=40, low=10, high=23)),
                                 (3, 500, 8, dict(factor=4, low=-2, high=-1))):
        a = angles(S, P, first, 10000, **scaling)
        got = m.call("rotary_table", dict(S=S, O=first, P=P), dict(base=10000, size=1.25, **scaling))
        limit = 1e-6 * (1 + first + S)     # a position has 24 bits
        report(f"rotary_table {first}: cosine", np.abs(got["c"] - 1.25 * np.cos(a)).max(), limit)
        report(f"rotary_table {first}: sine", np.abs(got["s"] - 1.25 * np.sin(a)).max(), limit)
        sizes = dict(S=S, O=first, P=P, Q=3)
        for apart, pair in ((1, np.repeat(a, 2, 1)), (P, np.tile(a, 2))):
            got = m.call("rotary_part_table", {**sizes, "SPAN": apart}, dict(base=10000, size=1.25, **scaling))
            report("rotary_part_table: cosine", np.abs(got["c"][:, 3:] - 1.25 * np.cos(pair)).max(), limit)
            report("rotary_part_table: sine", np.abs((got["before"] - got["behind"])[:, 3:] - 1.25 * np.sin(pair)).max(), limit)
            report("rotary_part_table: rest", np.abs(got["c"][:, :3] - 1).max() + np.abs(got["behind"] * got["before"]).max(), 0)
    c, s = (f(angles(5, 7, 0, 100, 1, 0, 1)).astype(np.float32) for f in (np.cos, np.sin))
    check(m, "rotary", dict(B=2, S=5, N=3, P=7),
          lambda x, c, s: {"y": rotate(x.reshape(2, 5, 3, 14), c, s).reshape(x.shape)}, c=c, s=s)
    for Q, P, apart in ((8, 3, 1), (8, 3, 3), (0, 4, 1), (0, 1, 1)):
        sizes, turn = dict(B=2, S=5, N=3, Q=Q, P=P, SPAN=apart), rotate_neighbours if apart == 1 else rotate
        c, s = (f(angles(5, P, 0, 100, 1, 0, 1)) for f in (np.cos, np.sin))
        check(m, "rotary_part", sizes, linear(lambda x, **_: {"y": np.concatenate([x[..., :Q], turn(x[..., Q:], c, s)], -1)}),
              **part_table(m, sizes))


def part_table(m, sizes, first=0):
    """The tables of rotary_part, by the kernel: right if what is rotated with them is."""
    return m.call("rotary_part_table", {**sizes, "O": first}, dict(base=100, factor=1, low=0, high=1, size=1))


def linear(f):
    """Tables of f32 are no inputs of the function."""
    return lambda c, behind, before, **a: f(**a)


def attentions(act):
    m = Module("attention", act)
    for sizes in (dict(B=2, S=19, L=19, O=0, N=3, D=10, U=6), dict(B=1, S=5, L=17, O=11, N=2, D=7, U=9),
                  dict(B=1, S=70, L=140, O=70, N=2, D=32, U=32), dict(B=1, S=1, L=1, O=0, N=1, D=3, U=1)):
        check(m, "attention", sizes, lambda q, k, v, scale: {"o": attend(q, k, v, scale, sizes["O"])}, scale=0.25)
    check(m, "repeat_heads", dict(T=5, M=3, X=4, D=11), lambda x: {"y": np.repeat(x[:, :, None], 4, 2)})
    check(m, "project", dict(T=33, A=24, H=40), lambda x, o, w: {"y": x + o @ w})
    check(m, "project_branch", dict(T=33, A=24, H=40), lambda o, w: {"y": o @ w})

    def write(x, cache):
        out = cache.copy()
        out[:, 5:8] = x
        return {"cache": out}
    check(m, "cache_write", dict(B=2, S=3, L=11, O=5, W=9), write)
    for sizes in (dict(B=2, S=3, L=17, O=8, M=2, X=3, D=8, U=5), dict(B=1, S=1, L=9, O=8, M=2, X=1, D=8, U=8)):
        B, S, M, X, D, U = (sizes[d] for d in "BSMXDU")
        check(m, "attention_cached", sizes, lambda q, k, v, scale: {"o": attend(
            q.reshape(B, S, M * X, D), np.repeat(k, X, 2), np.repeat(v, X, 2), scale, sizes["O"]).reshape(B, S, M, X, U)}, scale=0.5)


def grouped_query(act):
    m = Module("gqa", act)
    for T in (33, 1):
        check(m, "qkv", dict(T=T, H=40, A=24, W=12), lambda x, gain, eps, wq, wk, wv: {
            "q": rms(x, gain, eps) @ wq, "k": rms(x, gain, eps) @ wk, "v": rms(x, gain, eps) @ wv}, eps=1e-5)
    check(m, "head_norm", dict(T=9, N=3, D=10), lambda x, gain, eps: {"y": rms(x, gain, eps)}, eps=1e-6)


def latent(act):
    m = Module("mla", act)
    P, J = 3, 20
    check(m, "mla_down", dict(T=33, H=40, I=24, J=J, P=P), lambda x, gain, eps, wq, wkv: {
        "cq": rms(x, gain, eps) @ wq, "ckv": rms(x, gain, eps) @ wkv}, eps=1e-5)
    check(m, "mla_queries", dict(T=33, I=24, A=28), lambda cq, gain, eps, w: {"q": rms(cq, gain, eps) @ w}, eps=1e-6)
    check(m, "mla_keys_values", dict(T=33, J=J, P=P, W=28),
          lambda ckv, gain, eps, w: {"kv": rms(ckv[:, :J], gain, eps) @ w}, eps=1e-6)
    for apart, turn in ((1, rotate_neighbours), (3, rotate)):
        latent_positions(m, act, apart, turn)
    latent_cached(m)


def latent_positions(m, act, apart, turn):
    B, S, N, Q, P, U, J = 2, 5, 3, 7, 3, 10, 12
    sizes = dict(B=B, S=S, N=N, Q=Q, P=P, U=U, J=J, SPAN=apart)
    tables = part_table(Module("rope", act), sizes, first=2)
    c, s = (f(angles(S, P, 2, 100, 1, 0, 1)) for f in (np.cos, np.sin))

    def expand(kv, ckv):
        key = np.repeat(turn(ckv[:, :, None, J:], c, s), N, 2)
        return {"k": np.concatenate([kv[..., :Q], key], -1), "v": kv[..., Q:]}

    def keep(ckv, gain, eps):
        return {"kept": np.concatenate([rms(ckv[..., :J], gain, eps), turn(ckv[:, :, None, J:], c, s)[:, :, 0]], -1)}

    check(m, "mla_expand", sizes, linear(expand), **tables)
    check(m, "mla_latent", sizes, linear(keep), eps=1e-6, **tables)


def latent_cached(m):
    """Queries in the space of the latents give what expanded keys and values give."""
    B, S, L, O, N, Q, P, U, J = 2, 3, 11, 6, 3, 7, 3, 5, 9

    def cached(q, cache, w, scale):
        kv = (cache[..., :J] @ w).reshape(B, L, N, Q + U)
        k = np.concatenate([kv[..., :Q], np.repeat(cache[:, :, None, J:], N, 2)], -1)
        return {"o": attend(q, k, kv[..., Q:], scale, O)}
    check(m, "mla_cached", dict(B=B, S=S, L=L, O=O, N=N, Q=Q, P=P, U=U, J=J), cached, scale=0.3)


# ---- norms, feed-forward layers, experts ----

def norms(act):
    m = Module("norm", act)
    for T in (19, 1):
        check(m, "norm", dict(T=T, H=33), lambda x, gain, eps: {"n": rms(x, gain, eps)}, eps=1e-5)
        check(m, "sandwich", dict(T=T, H=33), lambda x, branch, gain, eps: {"y": x + rms(branch, gain, eps)}, eps=1e-5)


def dense_layers(act):
    m = Module("dense", act)
    check(m, "dense", dict(T=33, H=40, G=28), lambda x, n, wg, wu, wd: {"y": x + swiglu(n, wg, wu, wd)})
    check(m, "dense_branch", dict(T=33, H=40, G=28), lambda n, wg, wu, wd: {"y": swiglu(n, wg, wu, wd)})


def prediction(act):
    check(Module("mtp", act), "mtp", dict(T=19, H=24), lambda e, x, gain_e, gain_x, eps, w: {
        "y": np.concatenate([rms(e, gain_e, eps), rms(x, gain_x, eps)], -1) @ w.reshape(48, 24)}, eps=1e-5)


def experts(act):
    m = Module("experts", act)
    T, K, E, H, F, G = 33, 2, 5, 40, 24, 28
    sizes = dict(T=T, K=K, E=E, H=H, F=F, G=G)
    some = np.stack([rng.permutation(E)[:K] for _ in range(T)]).astype(np.int32)
    one = np.where(some == some.max(1, keepdims=True), 3, -1).astype(np.int32)     # three experts without a row, half dropped
    for ids in (some, one, np.full((T, K), -1, np.int32)):
        rt, p = kernel.Route(ids, E), rng.random((T, K)).astype(np.float32).astype(np.float64)
        check(m, "experts", sizes, lambda x, n, rt, p, wg, wu, wd, vg, vu, vd: {
            "y": x + routed(n, ids, p, wg, wu, wd) + swiglu(n, vg, vu, vd)}, rt=rt, p=p)
        check(m, "experts_branch", sizes, lambda n, rt, p, wg, wu, wd, vg, vu, vd: {
            "y": routed(n, ids, p, wg, wu, wd) + swiglu(n, vg, vu, vd)}, rt=rt, p=p)
        check(m, "routed", sizes, lambda x, n, rt, p, wg, wu, wd: {"y": x + routed(n, ids, p, wg, wu, wd)}, rt=rt, p=p)
        kept = keep_first(ids, E, 4)
        check(m, "routed_padded", dict(**sizes, C=4), lambda x, n, rt, p, wg, wu, wd: {
            "y": x + routed(n, kept, p, wg, wu, wd)}, rt=kernel.Route(ids, E, 4), p=p)


# ---- the router ----

def keep_first(ids, experts, capacity):
    kept, count = np.full_like(ids, -1), np.zeros(experts, int)
    for (t, k), e in np.ndenumerate(ids):
        if e >= 0 and count[e] < capacity:
            kept[t, k], count[e] = e, count[e] + 1
    return kept


def keep_probable(ids, p, experts, capacity):
    kept = np.full_like(ids, -1)
    for e in range(experts):
        t, k = np.nonzero(ids == e)
        order = np.lexsort((t, -p[t, k]))[:capacity]
        kept[t[order], k[order]] = e
    return kept


def choice(c, bias, normalise, factor, K, groups=1, limit=1):
    """As DeepSeek-V3's router chooses."""
    d = c + bias
    size = d.shape[1] // groups
    if groups > 1:
        ours = np.sort(d.reshape(-1, groups, size))[..., -2:].sum(-1)
        best = np.argsort(-ours, kind="stable")[:, :limit]
        opened = np.repeat((best[..., None] == np.arange(groups)).any(1), size, 1)
        d = np.where(opened, d, -np.inf)
    ids = np.argsort(-d, kind="stable")[:, :K]
    p = np.take_along_axis(c, ids, 1)
    return ids.astype(np.int32), p / (p.sum(1, keepdims=True) + 1e-20 if normalise else 1) * factor


def scores(m):
    def of(score):
        def f(x, gain, eps, w):
            n = rms(x, gain, eps)
            return {"n": n, "c": score(n @ w), "z": (logsumexp(n @ w) ** 2).mean()}
        return f
    for T in (33, 1):
        check(m, "scores_softmax", dict(T=T, E=7, H=40), of(softmax), eps=1e-5)
        check(m, "scores_sigmoid", dict(T=T, E=7, H=40), of(lambda s: 1 / (1 + np.exp(-s))), eps=1e-5)


def choices(m):
    for normalise in (0, 1):
        for T, X, Y, Z, K in ((19, 3, 4, 2, 3), (1, 4, 2, 4, 8), (7, 1, 5, 1, 2)):
            c = softmax(rng.standard_normal((T, X * Y))).astype(np.float32).astype(np.float64)
            bias = 0.1 * rng.standard_normal(X * Y)
            common = dict(c=c, bias=bias, normalise=normalise, factor=2.5)
            got = check(m, "choose", dict(T=T, E=X * Y, K=K), lambda **a: {"p": choice(K=K, **a)[1]}, **common)
            report("choose: id", (got["id"] != choice(K=K, **common)[0]).sum(), 0)
            if Y > 1:
                grouped = dict(K=K, groups=X, limit=Z)
                got = check(m, "choose_grouped", dict(T=T, X=X, Y=Y, Z=Z, K=K),
                            lambda **a: {"p": choice(**grouped, **a)[1]}, **common)
                report("choose_grouped: id", (got["id"] != choice(**grouped, **common)[0]).sum(), 0)


def drops(m):
    for T, K, E, C in ((19, 2, 5, 3), (8, 4, 4, 8), (40, 3, 4, 1)):
        ids = np.stack([rng.permutation(E)[:K] for _ in range(T)]).astype(np.int32)
        p = np.round(rng.random((T, K)) * 8) / 8     # with ties
        sizes = dict(T=T, K=K, E=E, C=C)
        first, probable = keep_first(ids, E, C), keep_probable(ids, p, E, C)
        got = m.call("drop_by_position", sizes, dict(id=ids))["kept"]
        report(f"drop_by_position {sizes}", (got != first).sum(), 0)
        got = m.call("drop_by_probability", sizes, dict(id=ids, p=p))["kept"]
        report(f"drop_by_probability {sizes}", (got != probable).sum(), 0)
        count = m.call("count", dict(B=1, S=T, K=K, E=E), dict(id=ids))["n"]
        report("count", np.abs(count - np.bincount(ids.reshape(-1), minlength=E)).max(), 0)
        got = m.call("load", sizes, dict(id=probable, n=count))
        report("dropped", abs(got["dropped"] - (probable < 0).mean()), 1e-6)
        report("imbalance", abs(got["imbalance"] - count.max() / count.mean()), 1e-6)


def balance(m):
    B, S, E, K = 3, 7, 5, 2
    c = np.exp(rng.standard_normal((B, S, E)))
    n = chosen(np.stack([[rng.permutation(E)[:K] for _ in range(S)] for _ in range(B)]), E).sum((1, 2))

    def loss(c, n, share, tokens):
        p = (c / c.sum(-1, keepdims=True)).sum(1) / tokens
        return {"loss": (share * n * p).sum() / B}
    check(m, "balance", dict(B=B, S=S, E=E), loss, c=c.astype(np.float32).astype(np.float64), n=n, share=E / (K * S),
          tokens=2 * S)  # of two ranks
    bias, n = np.zeros(4), np.array([1., 3., 2., 2.])
    got = m.call("bias_update", dict(E=4), dict(bias=bias, n=n, rate=0.5))["bias"]
    report("bias_update", np.abs(got - [0.5, -0.5, 0, 0]).max(), 0)


def golden(m):
    """The balance loss of a batch and of its sequences; the permutation of MoeTokenPermute."""
    ids = np.array([[2, 0], [1, 2], [0, 3], [2, 1]], np.int32)
    c = np.array([[.3, .1, .5, .1], [.2, .4, .3, .1], [.4, .1, .2, .3], [.1, .3, .5, .1]])
    for B, S, want in ((1, 4, 1.1125), (2, 2, 1.15)):
        n = m.call("count", dict(B=B, S=S, K=2, E=4), dict(id=ids))["n"]
        got = m.call("balance", dict(B=B, S=S, E=4), dict(c=c, n=n, share=4 / (2 * S), tokens=S))["loss"]
        report(f"golden balance of {B} scopes", abs(got - want), 1e-6)
        if B == 1:
            report("golden counts", np.abs(n - [2, 2, 3, 1]).max(), 0)
    start, count, slot_of, row_of = m.call("dispatch", dict(T=4, K=2, E=4), dict(id=ids))["rt"].arrays
    for what, got, want in (("start", start, [0, 2, 4, 7, 8]), ("rows per expert", count, [2, 2, 3, 1]),
                            ("sorted first", slot_of, [1, 4, 2, 7, 0, 3, 6, 5]), ("sorted", row_of, [4, 0, 2, 5, 1, 7, 6, 3]),
                            ("source tokens", slot_of // 2, [0, 2, 1, 3, 0, 1, 3, 2])):
        report("golden permutation: " + what, (got != want).sum(), 0)
    start, count, slot_of, row_of = m.call("dispatch_padded", dict(T=4, K=2, E=4, C=2), dict(id=ids))["rt"].arrays
    report("padded rows", (slot_of != [1, 4, 2, 7, 0, 3, 5, -1]).sum() + (count != [2, 2, 2, 1]).sum(), 0)
    report("padded choices", (row_of != [4, 0, 2, 5, 1, 6, -1, 3]).sum(), 0)


def router(act):
    m = Module("router", act)
    scores(m)
    choices(m)
    drops(m)
    balance(m)
    golden(m)


# ---- the head, the optimizer ----

def heads(act):
    m = Module("head", act)
    T, V, H = 19, 23, 24
    sizes = dict(T=T, V=V, H=H)
    target, weight = rng.integers(0, V, T).astype(np.int32), (np.arange(T) % 5 > 0).astype(float)

    def loss(tied):
        def f(x, gain, eps, w, target, weight):
            s = rms(x, gain, eps) @ (w.T if tied else w)
            return {"loss": (weight * (logsumexp(s) - s[np.arange(T), target])).sum() / weight.sum()}
        return f
    check(m, "head", sizes, loss(False), eps=1e-5, target=target, weight=weight)
    check(m, "head_tied", sizes, loss(True), eps=1e-5, target=target, weight=weight)
    check(m, "logits", sizes, lambda x, gain, eps, w: {"s": rms(x, gain, eps) @ w}, eps=1e-5)
    check(m, "logits_tied", sizes, lambda x, gain, eps, w: {"s": rms(x, gain, eps) @ w.T}, eps=1e-5)
    s, u = np.round(4 * rng.standard_normal((T, V))), rng.random(T)
    report("greedy", (m.call("greedy", sizes, dict(s=s))["next"] != s.argmax(1)).sum(), 0)
    below = np.cumsum(softmax(s / 0.7), 1)
    near = np.abs(below - u[:, None]).min(1) < 1e-5
    got = m.call("sample", sizes, dict(s=s, u=u, temperature=0.7))["next"]
    report("sample", ((got != (below <= u[:, None]).sum(1)) & ~near).sum(), 0)


def optimizer(act):
    m = Module("optimizer", act)
    g = rng.standard_normal((5, 16))
    got = m.call("clip", dict(C=5, M=16), dict(g=g, limit=0.5))
    report("clip: norm", distance(got["norm"], np.linalg.norm(g)), 1e-6)
    report("clip: factor", distance(got["factor"], 0.5 / np.linalg.norm(g)), 1e-5)
    shape = (2, 33, 17)
    p, m1, v1, g = (rng.standard_normal(shape) for _ in range(4))
    k = dict(factor=0.5, lr=0.01, b1=0.9, b2=0.95, eps=1e-8, decay=0.1, k1=1 / (1 - 0.9 ** 3), k2=1 / (1 - 0.95 ** 3))
    m2 = 0.9 * m1 + 0.1 * 0.5 * g
    v2 = 0.95 * v1 ** 2 + 0.05 * (0.5 * g) ** 2
    want = p - 0.01 * (m2 * k["k1"] / (np.sqrt(v2 * k["k2"]) + 1e-8) + 0.1 * p)
    for name, sizes in (("adamw", dict(P=p.size)), ("adamw_rows", dict(P=p.size))):
        got = m.call(name, sizes, dict(p=p, m=m1, v=v1 ** 2, g=g, **k))
        report(f"{name}: p", distance(got["p"].reshape(shape), want), 1e-6)
        report(f"{name}: m", distance(got["m"].reshape(shape), m2), 1e-6)
        report(f"{name}: v", distance(got["v"].reshape(shape), v2), 1e-6)


MODULES = (embeddings, positions, attentions, grouped_query, latent, norms, dense_layers, prediction, experts, router, heads,
           optimizer)

if __name__ == "__main__":
    kernel.MOEC = sys.argv[1]
    for element in sys.argv[2:] or ("f32", "bf16"):
        for module_test in MODULES:
            module_test(element)
    print(f"{checks} comparisons, {failures} failed")
    sys.exit(failures > 0)
