"""The expert block of examples/moe_ffn.moe written in forty ways that mean the same, and data for all of them."""
import numpy as np

from kernel import Route, from_bf16, to_bf16

HEAD = """moe 1

dim T                        // tokens
dim K <= 64                  // experts chosen per token
dim E                        // experts
dim H, F : % 16 prefer 256   // hidden width, expert width
dim B                        // batches
dim N, D                     // H in two parts: N*D
dim I, J                     // F in two parts: I*J
dim U, V                     // half of H, half of F
group R : E rows T*K

fn silu(x) = x / (1 + exp(-x))
"""
PARAMS = {"x": "bf16[T, H]", "rt": "route[T, K -> R]", "p": "f32[T, K]", "wg": "bf16[E, H, F]", "wu": "bf16[E, H, F]",
          "wd": "bf16[E, F, H]", "y": "bf16[T, H]"}
EQUATIONS = {
    "xp": "xp[r, h] = x[rt.token(r), h]",
    "g": "g[r, f] = sum(h) xp[r, h] * wg[@r, h, f]",
    "u": "u[r, f] = sum(h) xp[r, h] * wu[@r, h, f]",
    "a": "a[r, f] = bf16(silu(g[r, f]) * u[r, f])",
    "o": "o[r, h] = sum(f) a[r, f] * wd[@r, f, h]",
    "y": "y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])",
}
DERIVE = "derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg +=, wu +=, wd += save g as bf16, u as bf16\n"
VARIANTS = {}  # name -> (text, {parameter: its array from the canonical ones}, {dimension: its extent from the canonical ones})


def text(params=None, functions="", equations=None):
    """A parameter or equation that is given replaces the canonical one; an empty one is left out."""
    shown = {**PARAMS, **(params or {})}
    listed = ", ".join(f"{'out' if name == 'y' else 'in'} {name}: {kind}" for name, kind in shown.items() if kind)
    body = "\n".join(f"  {line}" for line in {**EQUATIONS, **(equations or {})}.values() if line)
    return f"{HEAD}{functions}\nkernel ffn({listed}) {{\n{body}\n}}\n"


def variant(name, params=None, data=None, sizes=None, functions="", **equations):
    assert name not in VARIANTS and not set(equations) - set(EQUATIONS)
    VARIANTS[name] = text(params, functions, equations), data or {}, sizes or {}


def transposed(name):
    return lambda a: np.ascontiguousarray(a[name].swapaxes(1, 2))


CANONICAL = text()

# ---- the order of operands ----
variant("weights first",
        g="g[r, f] = sum(h) wg[@r, h, f] * xp[r, h]",
        u="u[r, f] = sum(h) wu[@r, h, f] * xp[r, h]",
        o="o[r, h] = sum(f) wd[@r, f, h] * a[r, f]")
variant("up before gate in the product", a="a[r, f] = bf16(u[r, f] * silu(g[r, f]))")
variant("rows before probabilities", y="y[t, h] = bf16(sum(k) o[rt.row(t, k), h] * p[t, k])")

# ---- weights with other axes ----
variant("gate transposed", {"wg": "bf16[E, F, H]"}, {"wg": transposed("wg")},
        g="g[r, f] = sum(h) xp[r, h] * wg[@r, f, h]")
variant("down transposed", {"wd": "bf16[E, H, F]"}, {"wd": transposed("wd")},
        o="o[r, h] = sum(f) a[r, f] * wd[@r, h, f]")
ALL_TRANSPOSED = {"wg": "bf16[E, F, H]", "wu": "bf16[E, F, H]", "wd": "bf16[E, H, F]"}
ALL_TURNED = {name: transposed(name) for name in ALL_TRANSPOSED}
variant("all transposed", ALL_TRANSPOSED, ALL_TURNED,
        g="g[r, f] = sum(h) xp[r, h] * wg[@r, f, h]",
        u="u[r, f] = sum(h) xp[r, h] * wu[@r, f, h]",
        o="o[r, h] = sum(f) a[r, f] * wd[@r, h, f]")
variant("all transposed, weights first", ALL_TRANSPOSED, ALL_TURNED,
        g="g[r, f] = sum(h) wg[@r, f, h] * xp[r, h]",
        u="u[r, f] = sum(h) wu[@r, f, h] * xp[r, h]",
        o="o[r, h] = sum(f) wd[@r, h, f] * a[r, f]")
variant("expert in the middle", {"wg": "bf16[H, E, F]"},
        {"wg": lambda a: np.ascontiguousarray(a["wg"].transpose(1, 0, 2))},
        g="g[r, f] = sum(h) xp[r, h] * wg[h, @r, f]")
variant("gate and up interleaved", {"wg": "bf16[E, H, 2*F]", "wu": ""},
        {"wg": lambda a: np.stack([a["wg"], a["wu"]], axis=3)},
        g="c[r, f] = sum(h) xp[r, h] * wg[@r, h, f]", u="",
        a="a[r, f: F] = bf16(silu(c[r, 2*f]) * c[r, 2*f + 1])")
variant("gate and up stacked", {"wg": "bf16[2, E, H, F]", "wu": ""}, {"wg": lambda a: np.stack([a["wg"], a["wu"]])},
        g="g[r, f] = sum(h) xp[r, h] * wg[0, @r, h, f]",
        u="u[r, f] = sum(h) xp[r, h] * wg[1, @r, h, f]")
variant("gate and up in one product", {"wg": "bf16[E, 2, F, H]", "wu": ""},
        {"wg": lambda a: np.ascontiguousarray(np.stack([a["wg"], a["wu"]], axis=1).swapaxes(2, 3))},
        g="g[r, c, f] = sum(h) xp[r, h] * wg[@r, c, f, h]", u="",
        a="a[r, f] = bf16(silu(g[r, 0, f]) * g[r, 1, f])")

# ---- gather ----
variant("inline gather", xp="",
        g="g[r, f] = sum(h) x[rt.token(r), h] * wg[@r, h, f]",
        u="u[r, f] = sum(h) x[rt.token(r), h] * wu[@r, h, f]")
variant("inline gather in one", g="g[r, f] = sum(h) x[rt.token(r), h] * wg[@r, h, f]")
variant("a gather for each product", xp="xg[r, h] = x[rt.token(r), h]  xu[r, h] = x[rt.token(r), h]",
        g="g[r, f] = sum(h) xg[r, h] * wg[@r, h, f]",
        u="u[r, f] = sum(h) xu[r, h] * wu[@r, h, f]")
variant("probability at the row", o="o[r, h] = (sum(f) a[r, f] * wd[@r, f, h]) * p[rt.token(r), rt.slot(r)]",
        y="y[t, h] = bf16(sum(k) o[rt.row(t, k), h])")

# ---- an extra batch index ----
BATCHED = {"x": "bf16[B, T, H]", "p": "f32[B, T, K]", "y": "bf16[B, T, H]"}
BATCHED_EQUATIONS = {
    "xp": "xp[b, r, h] = x[b, rt.token(r), h]",
    "g": "g[b, r, f] = sum(h) xp[b, r, h] * wg[@r, h, f]",
    "u": "u[b, r, f] = sum(h) xp[b, r, h] * wu[@r, h, f]",
    "a": "a[b, r, f] = bf16(silu(g[b, r, f]) * u[b, r, f])",
    "o": "o[b, r, h] = sum(f) a[b, r, f] * wd[@r, f, h]",
    "y": "y[b, t, h] = bf16(sum(k) p[b, t, k] * o[b, rt.row(t, k), h])",
}
variant("two batches", BATCHED, sizes={"B": lambda n: 2, "T": lambda n: n["T"] // 2}, **BATCHED_EQUATIONS)
variant("one batch", BATCHED, sizes={"B": lambda n: 1}, **BATCHED_EQUATIONS)

# ---- two reduced indices ----
SPLIT_H = {"x": "bf16[T, N, D]", "wg": "bf16[E, N, D, F]", "wu": "bf16[E, N, D, F]", "wd": "bf16[E, F, N, D]",
           "y": "bf16[T, N, D]"}
SPLIT_EQUATIONS = {
    "xp": "xp[r, n, d] = x[rt.token(r), n, d]",
    "o": "o[r, n, d] = sum(f) a[r, f] * wd[@r, f, n, d]",
    "y": "y[t, n, d] = bf16(sum(k) p[t, k] * o[rt.row(t, k), n, d])",
}
variant("h as two indices", SPLIT_H, **SPLIT_EQUATIONS,
        g="g[r, f] = sum(n, d) xp[r, n, d] * wg[@r, n, d, f]",
        u="u[r, f] = sum(n, d) xp[r, n, d] * wu[@r, n, d, f]")
variant("h as two indices, transposed", SPLIT_H, **SPLIT_EQUATIONS,
        g="g[r, f] = sum(d, n) xp[r, n, d] * wg[@r, n, d, f]",
        u="u[r, f] = sum(d, n) xp[r, n, d] * wu[@r, n, d, f]")
variant("h as an affine form", {"x": "bf16[T, N*D]", "wg": "bf16[E, N*D, F]", "wu": "bf16[E, N*D, F]"},
        xp="xp[r, n: N, d: D] = x[rt.token(r), n*D + d]",
        g="g[r, f] = sum(n, d) xp[r, n, d] * wg[@r, n*D + d, f]",
        u="u[r, f] = sum(n, d) xp[r, n, d] * wu[@r, n*D + d, f]")
variant("f as two indices", {"wg": "bf16[E, H, I, J]", "wu": "bf16[E, H, I, J]", "wd": "bf16[E, I, J, H]"},
        g="g[r, i, j] = sum(h) xp[r, h] * wg[@r, h, i, j]",
        u="u[r, i, j] = sum(h) xp[r, h] * wu[@r, h, i, j]",
        a="a[r, i, j] = bf16(silu(g[r, i, j]) * u[r, i, j])",
        o="o[r, h] = sum(i, j) a[r, i, j] * wd[@r, i, j, h]")

# ---- through fn, and functions written differently ----
variant("products through fn", functions="fn times(a, b) = a * b\n",
        g="g[r, f] = sum(h) times(xp[r, h], wg[@r, h, f])",
        u="u[r, f] = sum(h) times(xp[r, h], wu[@r, h, f])",
        o="o[r, h] = sum(f) times(a[r, f], wd[@r, f, h])")
variant("swiglu through fn", functions="fn swiglu(g, u) = silu(g) * u\n", a="a[r, f] = bf16(swiglu(g[r, f], u[r, f]))")
variant("silu by sigmoid", a="a[r, f] = bf16(g[r, f] * sigmoid(g[r, f]) * u[r, f])")
variant("silu by exp", a="a[r, f] = bf16(g[r, f] * u[r, f] / (exp(-g[r, f]) + 1))")

# ---- split equations, and joined ones ----
HALVES = {"x": "bf16[T, 2, U]", "wg": "bf16[E, 2, U, F]", "wu": "bf16[E, 2, U, F]", "wd": "bf16[E, F, 2, U]",
          "y": "bf16[T, 2, U]"}
HALVES_EQUATIONS = {
    "xp": "xp[r, c, h] = x[rt.token(r), c, h]",
    "o": "o[r, c, h] = sum(f) a[r, f] * wd[@r, f, c, h]",
    "y": "y[t, c, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), c, h])",
}
variant("halves of h as tensors", HALVES, **HALVES_EQUATIONS,
        g="g1[r, f] = sum(h) xp[r, 0, h] * wg[@r, 0, h, f]  g2[r, f] = sum(h) xp[r, 1, h] * wg[@r, 1, h, f]",
        u="u1[r, f] = sum(h) xp[r, 0, h] * wu[@r, 0, h, f]  u2[r, f] = sum(h) xp[r, 1, h] * wu[@r, 1, h, f]",
        a="a[r, f] = bf16(silu(g1[r, f] + g2[r, f]) * (u1[r, f] + u2[r, f]))")
variant("halves of h in one equation", HALVES, **HALVES_EQUATIONS,
        g="g[r, f] = (sum(h) xp[r, 0, h] * wg[@r, 0, h, f]) + sum(h) xp[r, 1, h] * wg[@r, 1, h, f]",
        u="u[r, f] = (sum(h) xp[r, 0, h] * wu[@r, 0, h, f]) + sum(h) xp[r, 1, h] * wu[@r, 1, h, f]")
variant("halves of f", {"wg": "bf16[E, H, 2, V]", "wu": "bf16[E, H, 2, V]", "wd": "bf16[E, 2, V, H]"},
        g="g[r, c, f] = sum(h) xp[r, h] * wg[@r, h, c, f]",
        u="u[r, c, f] = sum(h) xp[r, h] * wu[@r, h, c, f]",
        a="a[r, c, f] = bf16(silu(g[r, c, f]) * u[r, c, f])",
        o="o[r, h] = (sum(f) a[r, 0, f] * wd[@r, 0, f, h]) + sum(f) a[r, 1, f] * wd[@r, 1, f, h]")
variant("halves by where", g="g[r, f] = (sum(h where h < U) xp[r, h] * wg[@r, h, f])"
                             " + sum(h where h >= U) xp[r, h] * wg[@r, h, f]")
variant("swiglu in steps", a="e[r, f] = exp(-g[r, f])  s[r, f] = g[r, f] / (1 + e[r, f])  a[r, f] = bf16(s[r, f] * u[r, f])")
variant("one equation for both products", g="", u="",
        a="a[r, f] = bf16(silu(sum(h) xp[r, h] * wg[@r, h, f]) * (sum(h) xp[r, h] * wu[@r, h, f]))")
variant("swiglu in the product", a="",
        o="o[r, h] = sum(f) bf16(silu(g[r, f]) * u[r, f]) * wd[@r, f, h]")
variant("unpermute before the cast", y="z[t, h] = sum(k) p[t, k] * o[rt.row(t, k), h]  y[t, h] = bf16(z[t, h])")

# ---- scale factors ----
variant("scales inside", g="g[r, f] = sum(h) 2 * xp[r, h] * wg[@r, h, f] * 0.5",
        u="u[r, f] = sum(h) (xp[r, h] * 4) * (wu[@r, h, f] / 4)")
variant("probability inside", o="o[r, h] = sum(f) p[rt.token(r), rt.slot(r)] * a[r, f] * wd[@r, f, h]",
        y="y[t, h] = bf16(sum(k) o[rt.row(t, k), h])")
variant("signs", g="g[r, f] = -(sum(h) -xp[r, h] * wg[@r, h, f])",
        u="u[r, f] = 0 - sum(h) xp[r, h] * (-wu[@r, h, f])")

# ---- casts ----
variant("casts of what is bf16", xp="xp[r, h] = bf16(f32(x[rt.token(r), h]))",
        g="g[r, f] = sum(h) bf16(xp[r, h]) * bf16(wg[@r, h, f])")
variant("products of f32", g="g[r, f] = sum(h) f32(xp[r, h]) * f32(wg[@r, h, f])",
        u="u[r, f] = sum(h) f32(xp[r, h]) * wu[@r, h, f]")
variant("a cast in the product", a="a[r, f] = silu(g[r, f]) * u[r, f]",
        o="o[r, h] = sum(f) bf16(a[r, f]) * wd[@r, f, h]")

# ---- conditions that always hold ----
variant("where h < H", g="g[r, f] = sum(h where h < H) xp[r, h] * wg[@r, h, f]",
        y="y[t, h] = bf16(sum(k where k < K) p[t, k] * o[rt.row(t, k), h])")

# ---- data ----


def skewed_choices(rng, tokens, choices, experts):
    """Distinct experts for each token, unevenly popular; the last one gets nothing."""
    weight = np.log(1 / np.arange(1, experts + 1) ** 1.2)
    weight[-1] = -np.inf
    return np.argsort(-(weight + rng.gumbel(size=(tokens, experts))), axis=1)[:, :choices].astype(np.int64)


def data(rng, n):
    """Canonical arguments. The second half of the tokens makes the choices of the first: `two batches` needs it."""
    half = skewed_choices(rng, n["T"] // 2, n["K"], n["E"])

    def normal(*shape, scale):
        return to_bf16(rng.standard_normal(shape, np.float32) * np.float32(scale))
    E, H, F = n["E"], n["H"], n["F"]
    return {"ids": np.concatenate([half, half]), "x": normal(n["T"], H, scale=1), "p": rng.random((n["T"], n["K"]), np.float32),
            "wg": normal(E, H, F, scale=H ** -0.5), "wu": normal(E, H, F, scale=H ** -0.5),
            "wd": normal(E, F, H, scale=F ** -0.5), "y": np.full((n["T"], H), 0x7fc0, np.uint16)}


def all_sizes(n):
    d = j = 16  # the narrowest head there is
    return {**n, "B": 1, "N": n["H"] // d, "D": d, "I": n["F"] // j, "J": j, "U": n["H"] // 2, "V": n["F"] // 2}


def arguments(name, n, arrays):
    """(sizes, arguments) of a variant, from the canonical sizes and arrays; `y` is an array of its own."""
    _, change, sizes = VARIANTS.get(name, (None, {}, {}))
    n = {**all_sizes(n), **{d: f(n) for d, f in sizes.items()}}
    given = {**arrays, **{p: f(arrays) for p, f in change.items()}}
    given["y"] = np.full_like(arrays["y"], 0x7fc0)
    given["rt"] = Route(arrays["ids"][:n["T"]], n["E"])
    return n, given


def reference(arrays, tokens):
    """The block in numpy, in f32, at some tokens."""
    wg, wu, wd = (from_bf16(arrays[name]) for name in ("wg", "wu", "wd"))
    x, ids, p = from_bf16(arrays["x"])[tokens], arrays["ids"][tokens], arrays["p"][tokens]
    y = np.zeros_like(x)
    for e in range(len(wg)):
        t, k = np.nonzero(ids == e)
        g, u = x[t] @ wg[e], x[t] @ wu[e]
        a = from_bf16(to_bf16(g / (1 + np.exp(-g)) * u))
        np.add.at(y, t, p[t, k][:, None] * (a @ wd[e]))
    return y
