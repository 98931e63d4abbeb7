"""Makes a failing program small: one kernel, then fewer equations, smaller expressions, smaller sizes, as long as it
fails in the same manner (kind of finding, by interpreter or compiled code). Whatever the front end refuses is no step."""
import re
import time
from dataclasses import replace

import session
from compare import Count
from data import make_sizes
from program import Expr, Param, kernel_text, module_text, number, walk

import numpy as np


class Failure:
    """A program, how it is run, and what is wrong with it."""

    def __init__(self, module, into, setting, case_seed, dims, finding):
        self.module, self.into, self.setting, self.case_seed, self.dims = module, into, setting, case_seed, dims
        self.finding = finding

    @property
    def kernel(self):
        return self.module.kernels[0]

    def but(self, **changes):
        new = Failure(self.module, self.into, self.setting, self.case_seed, self.dims, self.finding)
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def with_kernel(self, kernel):
        return self.but(module=replace(self.module, kernels=(tidy(kernel),)))


def manner(f):
    what = re.search(r"E\d{4}|pass \w+ broke", f.text) if f.who == "compiler" else None
    return f.kind, "interpreter" in f.who, f.who.split(",")[0].rpartition("_")[2] in ("fwd", "bwd", "later"), what and what.group()


def tidy(kernel):
    """Without inputs that nothing mentions."""
    used = {x.data for q in kernel.equations for x in parts(q)} | {q.name for q in kernel.equations}
    used |= {q.second for q in kernel.equations} | {q.subscripts[0] for q in kernel.equations if q.how == "route"}
    rows = {s for q in kernel.equations for _, s in q.spaces} | {a for p in kernel.params for a in p.axes if p.elem != "route"}
    rows |= {s for q in kernel.equations for x in parts(q) if x.kind == "reduce" for _, s in x.data[1]}
    params = tuple(p for p in kernel.params if p.name in used or (p.elem == "route" and p.axes[2] in rows))
    derive = kernel.derive
    if derive:
        names = {p.name for p in params}
        made = {q.name for q in kernel.equations}
        for n in range(len(derive.wrt) - 1, -1, -1):
            if derive and derive.wrt[n][0] not in names:
                derive = derive.without(n)
        saves = tuple((n, t, held if held in made else "") for n, t, held in derive.saves if n in made) if derive else ()
        derive = replace(derive, saves=saves) if derive else None
    return replace(kernel, params=params, derive=derive)


def parts(q):
    for s in q.subscripts:
        if isinstance(s, Expr):
            yield from walk(s)
    if isinstance(q.value, Expr):
        yield from walk(q.value)


# ---- steps: each yields failures that might still fail ----

def fewer_equations(f):
    k = f.kernel
    for n in range(len(k.equations) - 1, -1, -1):
        q, rest = k.equations[n], k.equations[:n] + k.equations[n + 1:]
        if any(x.name == q.name for x in rest):
            yield f.with_kernel(replace(k, equations=rest))
            continue
        params = tuple(p for p in k.params if p.name not in (q.name, q.second) or p.role == "in")
        read = any(x.data in (q.name, q.second) for r in rest for x in parts(r))
        if q.how != "route" and read:      # what it defined comes in instead
            spaces = dict(q.spaces)
            axes = tuple(spaces[s.data] for s in q.subscripts if s.kind == "index")
            params += (Param("in", q.name, q.elem, axes),)
            if q.second:
                params += (Param("in", q.second, "i32", axes),)
        elif q.how == "route":
            params = tuple(p for p in params if p.name != q.name) + (Param("in", q.name, "route", ("T", "K", q.subscripts[1])),)
        yield f.with_kernel(replace(k, equations=rest, params=params))


def no_derive(f):
    if f.kernel.derive:
        yield f.with_kernel(replace(f.kernel, derive=None))
        d = f.kernel.derive
        for n in range(len(d.wrt)):
            if len(d.wrt) > 1:
                yield f.with_kernel(replace(f.kernel, derive=d.without(n)))
        if d.first:
            yield f.with_kernel(replace(f.kernel, derive=replace(d, first=0)))
        for n, (name, how) in enumerate(d.wrt):
            if how:
                yield f.with_kernel(replace(f.kernel, derive=replace(d, wrt=d.wrt[:n] + ((name, ""),) + d.wrt[n + 1:])))
        if d.saves:
            yield f.with_kernel(replace(f.kernel, derive=replace(d, saves=())))


def smaller_expressions(f):
    for n, q in enumerate(f.kernel.equations):
        if not isinstance(q.value, Expr) or q.how in ("pack", "pack_t"):
            continue
        for value in reduced(q.value):
            if q.how != "top" or value.kind == "reduce":
                k = f.kernel
                yield f.with_kernel(replace(k, equations=k.equations[:n] + (replace(q, value=value),) + k.equations[n + 1:]))


def reduced(e):
    """Expressions with one place made simpler, the largest steps first."""
    if e.kind == "reduce":
        if e.args[1] is not None:
            yield Expr("reduce", e.data, (e.args[0], None) + e.args[2:])
        bound = {n for n, _ in e.data[1]}
        if not any(x.kind == "index" and x.data in bound for x in walk(e.args[0])):
            yield e.args[0]
        if len(e.data[1]) > 1:
            for n in range(len(e.data[1])):
                yield Expr("reduce", (e.data[0], e.data[1][:n] + e.data[1][n + 1:]), e.args[:2 + n] + e.args[3 + n:])
    elif e.kind in ("op", "if", "call", "load"):
        for a in e.args:
            if a is not None and e.kind != "load":
                yield a
    if e.kind in ("op", "call", "if", "load", "reduce") and e.data not in session_compare:
        yield Expr("real", "1.0")
        yield number(1)
    for n, a in enumerate(e.args):
        if a is None:
            continue
        for smaller in reduced(a):
            yield Expr(e.kind, e.data, e.args[:n] + (smaller,) + e.args[n + 1:])


session_compare = ("<", "<=", ">", ">=", "==", "!=", "and", "or", "not")


def fewer_axes(f):
    """A left-hand index that only stands on the left goes."""
    k = f.kernel
    for n, q in enumerate(k.equations):
        readers = any(x.data in (q.name, q.second) for r in k.equations for x in parts(r) if x.kind == "load")
        if q.how not in ("=", "+=") or readers or sum(r.name == q.name for r in k.equations) > 1:
            continue
        for i, s in enumerate(q.subscripts):
            if s.kind != "index" or any(x.kind == "index" and x.data == s.data for x in walk(q.value)):
                continue
            new = replace(q, subscripts=q.subscripts[:i] + q.subscripts[i + 1:],
                          spaces=tuple(p for p in q.spaces if p[0] != s.data))
            params = tuple(replace(p, axes=p.axes[:i] + p.axes[i + 1:]) if p.name == q.name else p for p in k.params)
            yield f.with_kernel(replace(k, equations=k.equations[:n] + (new,) + k.equations[n + 1:], params=params))


def plainer_types(f):
    for n, p in enumerate(f.kernel.params):
        for simple in ([replace(p, packed="")] if p.packed else []) + ([replace(p, elem="f32")] if p.elem in ("bf16", "f16") else []):
            yield f.with_kernel(replace(f.kernel, params=f.kernel.params[:n] + (simple,) + f.kernel.params[n + 1:]))


def no_types(f):
    if f.module.types:
        yield f.but(module=replace(f.module, types=()))


def smaller_sizes(f):
    for d in f.module.dims:
        if d.constant >= 0:
            continue
        now = f.dims[d.name]
        for n in sorted({0, d.multiple, 2 * d.multiple, now // 2, now - d.multiple, now - 1}):
            if 0 <= n < now and n % d.multiple == 0:
                yield f.but(dims={**f.dims, d.name: n})


def plainer_setting(f):
    s = f.setting
    for change in ({"threads": 1}, {"schedule_seed": 0}, {"clauses": 0}, {"level": 2}, {"target": "host"}):
        name, value = next(iter(change.items()))
        if getattr(s, name) != value:
            new = session.Setting(s.target, s.level, s.schedule_seed, s.threads, s.clauses)
            setattr(new, name, value)
            yield f.but(setting=new)


STEPS = [no_types, no_derive, fewer_equations, plainer_setting, smaller_expressions, fewer_axes, smaller_sizes, plainer_types]


def again(tools, f, wanted):
    """The failure with its new finding if it still fails in the manner that is wanted, or None."""
    try:
        module, refused, error = session.without_refused(tools, f.module)
        if (error or refused or not module.kernels) and wanted[0] != "check":
            return None
        found = session.printed(tools, module, 0) if wanted[0] == "printed" else \
            session.test_module(tools, module, f.into, 0, f.setting, [f.case_seed], Count(), dims=f.dims)
    except Exception:     # noqa: B902: a step that makes no program
        return None
    same = [x for x in found if manner(x) == wanted]
    return f.but(finding=same[0]) if same else None


def shrink(tools, module, into, finding, seconds=60):
    """The smallest failure that is found in so many seconds."""
    kernel = module.kernel(finding.kernel)
    alone = replace(module, kernels=(kernel,))
    dims = make_sizes(np.random.default_rng(finding.case_seed), kernel, module, 1, into[kernel.name]["faulty"])
    end = time.monotonic() + seconds
    best = again(tools, Failure(alone, into, finding.setting, finding.case_seed, dims, finding), manner(finding))
    if not best:
        return Failure(alone, into, finding.setting, finding.case_seed, dims, finding)
    best = best.with_kernel(best.kernel)
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for step in STEPS:
            tried = True
            while tried and time.monotonic() < end:
                tried = False
                for candidate in step(best):
                    if time.monotonic() > end:
                        break
                    smaller = again(tools, candidate, manner(finding))
                    if smaller:
                        best, progress, tried = smaller, True, True
                        break
    return best


def report(f):
    """A file that tells all: the program, and the sizes, inputs, and difference as comments."""
    case = session.Run(f.module, f.kernel, f.into[f.kernel.name], f.case_seed, dims=f.dims).case
    lines = [f"// {line}" for line in str(f.finding).splitlines()]
    lines.append("// " + " ".join(f"{n}={v}" for n, v in f.dims.items()))
    for name, v in case.tensors.items():
        lines.append(f"// {name} = {v.tolist()}"[:2000])
    for name, r in case.routes.items():
        lines.append(f"// {name}: count {r.count.tolist()}, slot_of {r.slot_of.tolist()}"[:2000])
    used = needed(f.module)
    return module_text(used).replace("moe 1\n", "moe 1\n" + "\n".join(lines) + "\n", 1)


def needed(module):
    """Without declarations that the kernels do not mention."""
    words = set(re.findall(r"\w+", "".join(kernel_text(k) for k in module.kernels)))
    groups = tuple(g for g in module.groups if g.name in words)
    for g in groups:
        words |= set(re.findall(r"\w+", g.groups + " " + g.extent))
    return replace(module, groups=groups, dims=tuple(d for d in module.dims if d.name in words),
                   fns=tuple(x for x in module.fns if x[0] in words))
