"""Sizes and inputs of a call, from a seed: awkward sizes, values on a coarse grid (whose sums and products are exact in
f32, so that most comparisons are of bits), ties, and now and then what a kernel must refuse."""
import re
import zlib

import numpy as np

import bounds
from bounds import Float, Int
from places import Route, extent_of, shape_of
from program import Expr, kernel_text

NUMPY = {"f32": np.float32, "bf16": np.uint16, "f16": np.uint16, "i32": np.int32}
MOST_ELEMENTS = 60000


def encode(elem, v):
    """f64 -> the array that a kernel takes."""
    if elem == "bf16":
        return (np.asarray(v, np.float32).reshape(-1).view(np.uint32) >> 16).astype(np.uint16).reshape(v.shape)
    if elem == "f16":
        return np.asarray(v, np.float16).view(np.uint16)
    return np.asarray(v, NUMPY[elem])


def decode(elem, a):
    if elem == "bf16":
        return (a.reshape(-1).astype(np.uint32) << 16).view(np.float32).reshape(a.shape).astype(np.float64)
    if elem == "f16":
        return a.view(np.float16).astype(np.float64)
    return a.astype(np.int64 if elem == "i32" else np.float64)


# ---- sizes ----

def spread(q):
    """The spaces that one equation goes over at once, at most."""
    out = [list(dict(q.spaces).values())]
    if not isinstance(q.value, Expr):
        return out

    def deeper(e, here):
        if e is None:
            return
        if e.kind == "reduce":
            here = here + [s for _, s in e.data[1]]
            out.append(here)
        for a in e.args:
            deeper(a, here)
    deeper(q.value, out[0])
    return out


def elements(kernel, module, dims):
    most = 1
    for q in kernel.equations:
        for spaces in spread(q):
            n = 1
            for s in spaces:
                n *= max(extent_of(s, module, dims), 1)
            most = max(most, n)
    for p in kernel.params:
        if p.elem != "route":
            n = 1
            for s in p.axes:
                n *= max(extent_of(s, module, dims), 1)
            most = max(most, n)
    return most


def make_sizes(rng, kernel, module, scale=1, faulty=False):
    dims = {}
    for d in module.dims:
        if d.constant >= 0:
            continue
        n = int(rng.choice([0, 1, 2, 3, 5, 7, 9, 16, 17, 33, 70], p=[.04, .12, .12, .16, .16, .12, .1, .05, .06, .05, .02]))
        if d.name == "K":
            n = int(rng.choice([0, 1, 2, 3], p=[.04, .3, .5, .16]))
        dims[d.name] = min(n * d.multiple, d.most if d.most >= 0 else n * d.multiple)
    constants = {d.name: d.constant for d in module.dims if d.constant >= 0}
    while elements(kernel, module, {**constants, **dims}) > MOST_ELEMENTS * scale:
        largest = max(dims, key=lambda d: dims[d])
        step = next(d.multiple for d in module.dims if d.name == largest)
        dims[largest] = dims[largest] // 2 // step * step
    rules = [d for d in module.dims if d.multiple > 1 or d.most >= 0]
    if faulty and rng.random() < 0.1:
        d = rules[rng.integers(0, len(rules))]
        dims[d.name] = d.most + 1 if d.most >= 0 else dims[d.name] + 1
    return {**constants, **dims}


def breaks_rule(kernel, module, dims):
    """Whether a dimension that the kernel mentions has a size that its rule forbids."""
    words = set(re.findall(r"\w+", kernel_text(kernel)))
    for g in module.groups:
        if g.name in words:
            words |= set(re.findall(r"\w+", g.groups + " " + g.extent))
    return any(d.name in words and (dims[d.name] % d.multiple or 0 <= d.most < dims[d.name])
               for d in module.dims if d.constant < 0)


# ---- values ----

def floats(rng, elem, shape, tame):
    way = rng.random()
    if way < 0.6:
        v = rng.integers(-8, 9, shape) / 4
    elif way < 0.7:
        v = rng.choice([-1.0, 0.0, 1.0, 0.5], shape)
    else:
        v = rng.standard_normal(shape)
    v = np.asarray(v, np.float64)
    if not tame and rng.random() < 0.03 and v.size:
        v = np.array(v)
        v.reshape(-1)[rng.integers(0, v.size)] = rng.choice([np.inf, -np.inf, np.nan, 1e30, -0.0])
    return bounds.ROUND[elem](v)


def integers(rng, shape, into, module, dims, faulty):
    if into is None:
        way = rng.random()
        if way < 0.2:
            v = rng.integers(16777210, 16777220, shape)
        elif way < 0.3 and faulty:
            v = rng.integers(-2 ** 31, 2 ** 31, shape)
        else:
            v = rng.integers(-3, 9, shape)
    else:
        least = -1 if into == "E-1" else 0
        n = extent_of("E" if into == "E-1" else into, module, dims)
        v = rng.integers(least, max(n, least + 1), shape)
        if least == 0 or rng.random() < 0.6:
            v = np.maximum(v, 0) if n else v
        if n and rng.random() < 0.3:
            v = np.minimum(v, rng.integers(0, n))      # skewed: some are never chosen
        if faulty and np.size(v) and rng.random() < 0.3:
            v = np.array(v)
            v.reshape(-1)[rng.integers(0, v.size)] = rng.choice([-2, n, n + 5, -2 ** 31, -1])
    return np.asarray(v, np.int64)


def make_route(rng, module, p, dims):
    tokens, choices = extent_of(p.axes[0], module, dims), extent_of(p.axes[1], module, dims)
    group = module.group(p.axes[2])
    groups = extent_of(group.groups, module, dims)
    ids = rng.integers(-1, groups, (tokens, choices)) if groups else np.full((tokens, choices), -1)
    way = rng.random()
    if way < 0.4 and groups:
        ids = np.maximum(ids, 0)
    elif way < 0.6 and groups:
        ids = np.minimum(ids, rng.integers(0, groups))
    return Route(ids, groups, extent_of(p.axes[2], module, dims),
                 extent_of(group.extent, module, dims) if group.kind == "capacity" else None)


class Case:
    """Sizes and inputs of one call of one kernel."""

    def __init__(self, module, kernel, into, seed, scale=1, tame=False, dims=None):
        self.dims = make_sizes(np.random.default_rng(seed), kernel, module, scale, into["faulty"]) if dims is None else dims
        self.breaks_rule = breaks_rule(kernel, module, self.dims)
        self.tensors, self.routes = {}, {}
        for p in kernel.params:
            rng = np.random.default_rng([seed, zlib.crc32(p.name.encode())])   # the other parameters change nothing
            if p.elem == "route":
                if p.role == "in":
                    self.routes[p.name] = make_route(rng, module, p, self.dims)
            elif p.role != "out":
                shape = shape_of(p, module, self.dims)
                if p.elem == "i32":
                    v = integers(rng, shape, into.get(p.name), module, self.dims, into["faulty"])
                else:
                    v = floats(rng, p.elem, shape, tame)
                self.tensors[p.name] = v

    def values(self):
        """What the evaluator takes."""
        return {n: (Int(v[None]) if v.dtype == np.int64 else Float(v[None])) for n, v in self.tensors.items()}
