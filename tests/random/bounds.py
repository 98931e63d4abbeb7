"""Numbers with what section 5 of docs/language.md lets an implementation be off by.

A float is its value in f64 and a bound: any correct implementation is at most so far away. Bound 0 means that every
correct implementation has this very f32; infinity means nothing is known. An integer or a condition carries a doubt
instead: a float inside its bound decides it."""
import numpy as np

UNIT = 2.0 ** -24            # half an ulp of f32, relative
FLUSHED = 2.0 ** -126        # what may become of a subnormal
LARGEST = float(np.finfo(np.float32).max)
ULPS = {"exp": 1.5, "log": 1.5, "rsqrt": 1.5, "tanh": 2, "sigmoid": 2.5, "silu": 3, "gelu": 3, "pow": 0.51, "sqrt": 0.5}
FLAT = ("tanh", "sigmoid", "silu", "gelu")   # where they end so, the derivative is a difference of numbers close to 1
NO = np.zeros((), bool)
ZERO = np.zeros(())


class Float:
    kind = "float"

    def __init__(self, v, e=ZERO):
        self.v, self.e = v, e


class Int:
    kind = "int"

    def __init__(self, v, d=NO):
        self.v, self.d = v, d


class Cond:
    kind = "cond"

    def __init__(self, v, d=NO):
        self.v, self.d = v, d


def finish(v, e, sure=None):
    """A float that is rounded to f32 once: v exact, e what the operands' errors made of it. `sure`: where a result
    that is not finite is certain although operands are not exact."""
    near = v.astype(np.float32).astype(np.float64)
    exact = (e == 0) & (near == v)
    finite = np.isfinite(near)
    own = (np.abs(v) + e) * UNIT + FLUSHED
    out = np.where(exact, 0, e + own)
    spread = np.abs(v) + e
    out = np.where((spread > LARGEST) & ~((e == 0) | (np.abs(v) - e > LARGEST * (1 + UNIT))), np.inf, out)
    certain = e == 0 if sure is None else (e == 0) | sure
    out = np.where(finite, out, np.where(certain, 0, np.inf))
    out = np.where(np.isnan(out), np.inf, out)
    return Float(np.where(finite, v, near), out)


def of_int(a):
    """An integer as f32, rounded to nearest."""
    return Float(a.v.astype(np.float32).astype(np.float64), np.where(a.d, np.inf, 0.0))


def as_float(a):
    return of_int(a) if a.kind == "int" else a


def distance(a, b):
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0, np.abs(a - b))


# ---- arithmetic ----

def add(a, b):
    return finish(a.v + b.v, a.e + b.e, (np.isinf(a.v) & (a.e == 0) & np.isfinite(b.v) & np.isfinite(b.e)) |
                  (np.isinf(b.v) & (b.e == 0) & np.isfinite(a.v) & np.isfinite(a.e)))


def of_terms(values, exact, n, most):
    """What n additions may lose, of terms that are so large together, where they are not exact by what the values are made of."""
    return np.where((exact & on_grid(values, most)) | ~np.isfinite(most), 0, n * UNIT * most)


def add_terms(old, value, n, magnitude):
    """old += value, where a sum of n terms, together so large, may begin with the old value."""
    new = add(old, value)
    both = np.concatenate([np.broadcast_to(x, new.v.shape).reshape(-1) for x in (old.v, value.v)])
    most = np.abs(old.v) + np.maximum(magnitude, np.abs(value.v))
    return Float(new.v, new.e + of_terms(both, (old.e == 0) & (value.e == 0), n, most))


def negate(a):
    return Float(-a.v, a.e)


def sub(a, b):
    return add(a, negate(b))


def mul(a, b):
    e = np.abs(a.v) * b.e + np.abs(b.v) * a.e + a.e * b.e
    return finish(a.v * b.v, np.where((a.e == 0) & (b.e == 0), 0, np.where(np.isnan(e), np.inf, e)))


def div(a, b):
    v = a.v / b.v
    least = np.abs(b.v) - b.e
    e = np.where((a.e == 0) & (b.e == 0), 0, np.where(least > 0, (a.e + np.abs(v) * b.e) / least, np.inf))
    return finish(v, np.where(np.isnan(e), np.inf, e))


# ---- functions ----

def ends(f, a, least=-np.inf):
    """What the two ends of a's interval say of a monotone function."""
    at = f(a.v)
    low, high = f(np.maximum(a.v - a.e, least)), f(a.v + a.e)
    e = np.maximum(distance(low, at), distance(high, at))
    return np.where(a.e == 0, 0, np.where(np.isnan(e), np.inf, e))


def stated(name, v, e):
    """A result within so many ulp; ulp <= 2^-23 |v| above the subnormals."""
    ulps = ULPS[name]
    known = (e == 0) & ((v == 0) | ~np.isfinite(v))
    own = ulps * 2 * UNIT * (np.abs(v) + e) + (ulps + 1) * 2.0 ** -149
    over = np.abs(v) * (1 + 2 * ulps * UNIT) + e > LARGEST
    bound = np.where(known, 0, np.where(over, np.where(np.abs(v) - e > LARGEST * (1 + 4 * ulps * UNIT), 0, np.inf),
                                        e + own))
    bound = np.where(np.isnan(v), np.where(e == 0, 0, np.inf), bound)
    return Float(np.where(np.abs(v) > LARGEST, np.sign(v) * np.inf, v), bound)


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def gelu(x):
    return x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))


def silu(x):
    return x * sigmoid(x)


def exp(x):
    v = np.exp(x)
    return np.where(v < FLUSHED, 0, v)


REAL = {"exp": exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
        "sigmoid": sigmoid, "silu": silu, "gelu": gelu, "floor": np.floor, "abs": np.abs,
        "relu": lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0.0))}
TURNS = {"silu": (-1.2785, 1.1), "gelu": (-0.752, 1.13)}   # falls, then rises; a bound of the slope around the turn


def around_turn(name, a):
    turn, slope = TURNS[name]
    away = (a.v - a.e > turn + 0.01) | (a.v + a.e < turn - 0.01)
    return np.where(a.e == 0, 0, np.where(away, ends(REAL[name], a), slope * a.e))


def unbounded(a, e):
    """What is in doubt altogether may be NaN, of which no function makes a number."""
    return np.where(np.isinf(a.e), np.inf, e)


def function(name, a):
    a = as_float(a)
    if name in ("abs", "relu"):
        return Float(REAL[name](a.v), a.e)
    if name == "floor":
        return Float(np.floor(a.v), unbounded(a, ends(np.floor, a)))
    e = around_turn(name, a) if name in TURNS else ends(REAL[name], a, 0 if name in ("log", "sqrt", "rsqrt") else -np.inf)
    e = unbounded(a, e)
    v = REAL[name](a.v)
    if name == "sqrt":
        return finish(v, e)
    if name in TURNS:
        v = np.where(np.isneginf(a.v), np.nan, v)   # -inf * 0, as the formula of the page gives
        return stated(name, v, np.where(np.isinf(a.v), np.inf, e))
    return stated(name, v, e)


def power(a, b):
    a, b = as_float(a), as_float(b)
    at, e = np.where(a.v < 0, np.nan, np.power(np.abs(a.v), b.v)), ZERO
    for x in (a.v - a.e, a.v + a.e):
        for y in (b.v - b.e, b.v + b.e):
            e = np.maximum(e, distance(np.power(np.maximum(x, 0), y), at))
    e = np.where((a.e == 0) & (b.e == 0), 0, np.where(np.isnan(e) | ((a.v - a.e < 0) & (a.v + a.e >= 0)), np.inf, e))
    return stated("pow", at, np.where(np.isnan(at) & (a.v + a.e < 0), 0, e))


def extreme(a, b, largest):
    """max2 and min2: NaN when either is."""
    if a.kind == b.kind == "int":
        return Int(np.maximum(a.v, b.v) if largest else np.minimum(a.v, b.v), a.d | b.d)
    a, b = as_float(a), as_float(b)
    v = np.maximum(a.v, b.v) if largest else np.minimum(a.v, b.v)
    sign = 1 if largest else -1
    first = sign * a.v - a.e > sign * b.v + b.e
    second = sign * b.v - b.e > sign * a.v + a.e
    return Float(v, np.where(first, a.e, np.where(second, b.e, np.maximum(a.e, b.e))))


# ---- casts ----

def to_bf16(v):
    near = np.asarray(v, np.float64).astype(np.float32)
    bits = np.atleast_1d(near).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
    out = bits.astype(np.uint32).view(np.float32).reshape(near.shape).astype(np.float64)
    return np.where(np.isnan(near), np.nan, out)


def to_f16(v):
    with np.errstate(over="ignore"):
        return np.asarray(v, np.float64).astype(np.float32).astype(np.float16).astype(np.float64)


ROUND = {"bf16": to_bf16, "f16": to_f16, "f32": lambda v: np.asarray(v, np.float64).astype(np.float32).astype(np.float64)}


def cast(elem, a):
    a = as_float(a)
    if elem == "f32":
        return a
    at = ROUND[elem](a.v)
    e = np.maximum(distance(ROUND[elem](a.v - a.e), at), distance(ROUND[elem](a.v + a.e), at))
    return Float(at, np.where(a.e == 0, 0, np.where(np.isnan(e) | np.isinf(a.e), np.inf, e)))


def truncate(v):
    v = np.where(np.isnan(v), 0, v)
    return np.trunc(np.clip(v, -2.0 ** 31, 2.0 ** 31 - 1)).astype(np.int64)


def to_i32(a):
    if a.kind == "int":
        return Int(np.clip(a.v, -2 ** 31, 2 ** 31 - 1), a.d)
    return Int(truncate(a.v), (truncate(a.v - a.e) != truncate(a.v + a.e)) | np.isinf(a.e))


# ---- conditions ----

COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
           "!=": np.not_equal}


def compare(name, a, b):
    if a.kind == b.kind == "int":
        return Cond(COMPARE[name](a.v, b.v), a.d | b.d)
    a, b = as_float(a), as_float(b)
    e = a.e + b.e
    near = (e > 0) & ~(distance(a.v, b.v) > e)
    return Cond(COMPARE[name](a.v, b.v), near)


def choose(c, a, b):
    if a.kind == b.kind == "int":
        return Int(np.where(c.v, a.v, b.v), np.where(c.v, a.d, b.d) | c.d & ((a.v != b.v) | a.d | b.d))
    a, b = as_float(a), as_float(b)
    both = np.maximum(a.e, b.e) + distance(a.v, b.v)
    return Float(np.where(c.v, a.v, b.v),
                 np.where(c.d, np.where(np.isnan(both), np.inf, both), np.where(c.v, a.e, b.e)))


# ---- reductions over axes; `on` where the term counts, `sure` where it does for certain, `may` where it might ----

def on_grid(terms, magnitude):
    """Whether terms are multiples of one power of two and sums of them exact in f32 whatever the order."""
    for places in (0, 3, 6, 10, 14, 18):
        scaled = terms * 2.0 ** places
        if (scaled == np.rint(scaled)).all():
            return magnitude * 2.0 ** places <= 2.0 ** 22
    return np.zeros_like(magnitude, bool)


magnitudes = []     # of the sums since this was cleared


def total(a, on, sure, may, axes):
    v, on, sure, may, e = np.broadcast_arrays(a.v, on, sure, may, a.e)
    terms = np.where(on, v, 0)
    value, n = terms.sum(axes, keepdims=True), on.sum(axes, keepdims=True)
    magnitude = np.abs(terms).sum(axes, keepdims=True)
    passed = (np.where(sure, e, 0) + np.where(may & ~sure, np.abs(v) + e, 0)).sum(axes, keepdims=True)
    bound = passed + (n + 2) * UNIT * (magnitude + passed) + np.where(magnitude > 0, FLUSHED, 0)
    exact = passed == 0
    if exact.any() and np.isfinite(terms).all():
        bound = np.where(exact & ((n <= 1) | on_grid(np.where(exact, terms, 0), magnitude)), 0, bound)
    value32 = value.astype(np.float32).astype(np.float64)
    magnitudes.append(magnitude)
    plain = np.isfinite(value32)
    bound = np.where(plain, bound, np.where(exact, 0, np.inf))
    return Float(np.where(plain, value, value32), np.where(np.isnan(bound), np.inf, bound))


def total_int(a, on, sure, may, axes):
    v, on, sure, may, d = np.broadcast_arrays(a.v, on, sure, may, a.d)
    return Int(np.where(on, v, 0).sum(axes, keepdims=True), ((d & may) | (may & ~sure)).any(axes, keepdims=True))


def best(a, on, sure, may, axes, largest):
    """max, min: the value; -inf or +inf of nothing; NaN as soon as one is."""
    sign = 1 if largest else -1
    v, on, sure, may, e = np.broadcast_arrays(a.v * sign, on, sure, may, a.e)
    nothing = -np.inf
    value = np.where(on, v, nothing).max(axes, keepdims=True, initial=nothing)
    high = np.where(may, v + e, nothing).max(axes, keepdims=True, initial=nothing)
    low = np.where(sure, v - e, nothing).max(axes, keepdims=True, initial=nothing)
    bound = np.maximum(distance(high, value), distance(value, low))
    sure_nan = (sure & np.isnan(v) & (e == 0)).any(axes, keepdims=True)
    return Float(sign * value, np.where(np.isnan(bound), np.where(sure_nan, 0, np.inf), bound))


def best_int(a, on, sure, may, axes, largest):
    """Of no integers: 0; the caller knows that it is an error."""
    sign = 1 if largest else -1
    v, on, sure, may, d = np.broadcast_arrays(a.v * sign, on, sure, may, a.d)
    value = np.where(on, v, -2 ** 62).max(axes, keepdims=True, initial=-2 ** 62)
    return Int(np.where(on.any(axes, keepdims=True), sign * value, 0),
               ((d & may) | (may & ~sure)).any(axes, keepdims=True))
