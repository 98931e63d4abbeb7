"""Derived kernels (section 7 of docs/language.md). The forward is the kernel and what it saves; the gradients are compared
with central differences of the evaluator, which repeats the decisions of the unperturbed run (Note in evaluate.py), so
ties and kinks have the derivative that the page gives them. Of two backward kernels the second gets the memory into which
the first wrote what it hands over."""
import copy
import json
import re
from dataclasses import replace

import numpy as np

import bounds
import call
from bounds import Float
from evaluate import Evaluator
from places import shape_of
from program import Param, walk

STEP = 2.0 ** -12
MOST_WORK = 400000      # elements of the largest equation times perturbed copies
TIGHT, ROUNDED = 5e-4, 0.04
ROUGH = 2.0 ** -20      # what 1 - r * r may be off by in f32: (2 + 2) * 2^-24 * 2, and twice the 2 ulp of r
ROUGH_SAVED = 2.0 ** -8 # and where r was saved as bf16: twice half an ulp


def calls(arena, module, run, setting, count, pairs):
    """(run, call, judge) of the forward and the backward kernels, compiled and interpreted."""
    made = []
    rng = np.random.default_rng([run.case_seed, 7])
    forward = Forward(module, run)
    backward = Backward(module, run, rng, pairs[run.kernel.name])
    for threads, interpret in ((-setting.threads, False), (-1, True)):
        for plan in [forward] + backward.parts():
            c = call.Call(arena, module, plan.name, plan.params, plan.case, threads, interpret)
            if plan.name.endswith("_later"):
                take_handed(c, made[-1][1])
            made.append((run, c, lambda plan=plan, c=c: plan.judge(c, count)))
    return made


def take_handed(later, first):
    """The arguments of `later` that `first` writes are the same memory."""
    written = {a.p.name: a for a in first.arguments if a.p.role == "out"}
    for i, a in enumerate(later.arguments):
        if a.p.name in written:
            later.arguments[i] = copy.copy(written[a.p.name])
            later.arguments[i].p = a.p


def pairs_of(library):
    """{kernel: (its pair, {backward parameter: Param})} from the manifest in a .so."""
    with open(library, "rb") as f:
        text = re.search(rb'\{\s*"moec": .*?\0', f.read(), re.S).group()[:-1]
    manifest = json.loads(text)
    kernels = {k["name"]: k for k in manifest["kernels"]}
    return {p["from"]: (p, {q["name"]: Param("out", q["name"], q["type"], tuple(x["text"] for x in q["shape"]))
                            for q in kernels[p["backward"]]["params"] if q["kind"] != "route"})
            for p in manifest["pairs"]}


def saved_params(module, kernel, role):
    out = []
    for name, elem, held in kernel.derive.saves:
        if held and role == "out":
            continue
        q = next(q for q in kernel.equations if name in (q.name, q.second))
        spaces = dict(q.spaces)
        out.append(Param(role, held or name, elem, tuple(spaces[s.data] for s in q.subscripts)))
    return tuple(out)


def jittered(x, rng):
    """A tensor's values, each by at most the rounding of bf16 larger or smaller; integers stay."""
    return Float(x.v * (1 + 2.0 ** -8 * rng.uniform(-1, 1, x.v.shape))) if isinstance(x, Float) else x


class Forward:
    def __init__(self, module, run):
        self.kernel = run.kernel
        self.name = run.kernel.name + "_fwd"
        saved = saved_params(module, run.kernel, "out")
        self.params, self.case = run.kernel.params + saved, run.case
        self.expected = copy.copy(run.expected)
        self.expected.tensors = dict(run.expected.tensors)
        for p in saved:
            self.expected.tensors[p.name] = bounds.cast(p.elem, self.expected.tensors[p.name])

    def judge(self, c, count):
        import compare
        return compare.judge(c, self.expected, count)


def gradient_param(p, how):
    """Of the target p."""
    return Param("inout" if how == " +=" else "out", "d_" + p.name, "f32" if how else p.elem, p.axes)


class Backward:
    """One backward kernel, or the first of two; its judge looks at `targets`."""

    def __init__(self, module, run, rng, pair):
        self.run, self.module, self.rng = run, module, rng
        k = run.kernel
        self.name = k.name + "_bwd"
        self.pair, shapes = pair
        outs = [p for p in k.params if p.role == "out" and p.elem not in ("i32", "route")]
        self.outs = outs
        saved = saved_params(module, k, "in")
        self.params = tuple(p for p in k.params if p.role == "in") + saved
        self.params += tuple(Param("in", "d_" + p.name, p.elem, p.axes) for p in outs)
        self.given, self.handed = self.params, tuple(shapes[name] for name in self.pair["handed"])
        self.passed = {g["input"]: "d_" + g["output"] for g in self.pair["gradients"] if g["mode"] == "pass"}
        self.gradients = {name: gradient_param(k.param(name), how) for name, how in k.derive.wrt if how != " pass"}
        self.params += tuple(self.gradients.values())
        self.targets, self.known = [name for name, _ in k.derive.wrt], []
        self.case = copy.copy(run.case)
        self.case.tensors = dict(run.case.tensors)
        for p in saved:
            self.case.tensors[p.name] = bounds.ROUND[p.elem](run.expected.tensors[p.name].v[0])
        for p in self.params:
            if p.name.startswith("d_") and p.role != "out":
                self.case.tensors[p.name] = self.cotangent(p)

    def parts(self):
        """The plans of the kernels that make the gradients."""
        first, later = copy.copy(self), copy.copy(self)
        if not self.run.kernel.derive.first:
            return [self]
        at = self.run.kernel.derive.first
        later.name = self.run.kernel.name + "_later"
        first.targets, later.targets = self.targets[:at], self.targets[at:]
        first.params = self.given + first.own_gradients() + self.handed
        later.params = self.given + tuple(replace(p, role="in") for p in self.handed) + later.own_gradients()
        later.case = copy.copy(self.case)
        later.case.tensors = {**self.case.tensors, **{p.name: np.zeros(shape_of(p, self.module, self.run.case.dims)) for p in self.handed}}
        return [first, later]

    def own_gradients(self):
        return tuple(self.gradients[n] for n in self.targets if n in self.gradients)

    def cotangent(self, p):
        return np.asarray(self.rng.integers(-4, 5, shape_of(p, self.module, self.run.case.dims)) / 4)

    # ---- differences ----

    def directions(self):
        """(parameter, direction) to compare: single elements, and random signs for all at once."""
        import data
        work = data.elements(self.run.kernel, self.module, self.run.case.dims)
        most = int(np.clip(MOST_WORK / work / 2 / len(self.run.kernel.derive.wrt), 3, 12))
        for name, _ in self.run.kernel.derive.wrt:
            shape = self.run.case.tensors[name].shape
            size = int(np.prod(shape))
            for at in self.rng.permutation(size)[:most - 2]:
                one = np.zeros(size)
                one[at] = 1
                yield name, one.reshape(shape)
            for _ in range(2 if size else 0):
                yield name, self.rng.choice([-1.0, 1.0], shape)

    def values_at(self, tensors, rough, jitter):
        """The outputs for copies of perturbed inputs."""
        ev = self.run.expected
        kept = ev.tensors, ev.routes
        ev.replay(tensors, self.run.case.routes, rough, jitter)
        out = {p.name: ev.tensors[p.name].v for p in self.outs}
        ev.tensors, ev.routes = kept
        return out

    def terms(self, chosen, step, rough=0.0, jitter=None):
        """For each direction what each element of the outputs adds to the derivative."""
        copies = 2 * len(chosen)
        tensors = self.run.case.values()
        if jitter is not None:
            tensors = {name: jittered(x, jitter) for name, x in tensors.items()}
        for name in {n for n, _ in chosen}:
            v = np.repeat(self.run.case.tensors[name][None], copies, 0).astype(float)
            for i, (n, d) in enumerate(chosen):
                if n == name:
                    v[2 * i] += step * d
                    v[2 * i + 1] -= step * d
            tensors[name] = Float(v)
        terms = [np.zeros((len(chosen), 0))]
        for name, v in self.values_at(tensors, rough, jitter).items():
            v = np.broadcast_to(v, (copies,) + v.shape[1:]).reshape(copies, -1)
            terms.append((v[0::2] - v[1::2]) / (2 * step) * self.case.tensors["d_" + name].reshape(-1))
        return np.concatenate(terms, 1)

    def differences(self, chosen):
        """For each direction the derivative, the sum of its terms' magnitudes, and the derivative by a smaller step."""
        if not chosen:
            return [], [], []
        terms = self.terms(chosen, STEP)
        return terms.sum(1), np.abs(terms).sum(1), self.terms(chosen, STEP / 8).sum(1)

    def lost(self):
        """How far off the finer differences may be because the outputs are f64."""
        sizes = [np.abs(self.run.expected.tensors[p.name].v * self.case.tensors["d_" + p.name]).sum() for p in self.outs]
        return float(sum(sizes)) * 2.0 ** -52 / (STEP / 8)

    def cancelled(self, *direction):
        """How far off it may be because the derivatives of tanh and its like are differences of numbers close to 1."""
        rough = ROUGH_SAVED if self.saves_rounded() else ROUGH
        return float(np.abs(self.terms([direction], STEP, rough) - self.terms([direction], STEP)).sum())

    def conditioned(self, *direction):
        """How far off it may be because it is a sum that cancels inside an element of an output, or on the way there: what as
        small changes of the inputs, and of what passes each read, do. Nothing where no cotangent is rounded."""
        if self.tolerance() == TIGHT:
            return 0.0
        rng = np.random.default_rng(self.run.case_seed)
        exact = self.terms([direction], STEP).sum()
        return 4 * max(abs(self.terms([direction], STEP, jitter=rng).sum() - exact) for _ in range(8))

    def wanted(self):
        """(directions, their derivatives, the sums of magnitudes, the derivatives by a finer step), made once."""
        if not self.known:
            chosen = list(self.directions())
            with np.errstate(all="ignore"):
                self.known.append((chosen, *self.differences(chosen)))
        return self.known[0]

    # ---- comparing ----

    def is_unbounded(self, name):
        """Is a value infinite or NaN between the parameter and an output? The chain rule then multiplies 0 by infinity. So do factors
        of a sum of nothing (section 5 of the language page): the largest of no values is one."""
        if 0 in self.run.case.dims.values():
            return True
        varied = {name}
        for q in self.run.kernel.equations:
            if q.value is not None and varied & {x.data for x in walk(q.value) if x.kind == "load"}:
                varied |= {q.name, q.second}
                if id(q) in self.run.expected.unbounded:
                    return True
        return False

    def saves_rounded(self):
        return any(e != "f32" for _, e, _ in self.run.kernel.derive.saves)

    def chooses_rounded(self):
        """Could the backward, which reads saved values rounded, decide something else than the forward?"""
        again = Evaluator(self.module, self.run.kernel, self.run.case.dims)
        again.rounded = {name for name, elem, _ in self.run.kernel.derive.saves if elem != "f32"}
        return bool(again.rounded) and again.run(self.run.case.values(), self.run.case.routes).choice_doubt

    def drops_rounding(self):
        """A backward may read a 16-bit local before its rounding (derive's shared products)."""
        return any(q.elem in ("bf16", "f16") and not self.run.kernel.param(q.name) for q in self.run.kernel.equations)

    def tolerance(self):
        if self.saves_rounded() or not self.run.kernel.derive.cotangents:
            return ROUNDED
        return TIGHT + ROUGH_SAVED if self.drops_rounding() else TIGHT

    def judge(self, c, count):
        if c.spilled:
            return "spilled", "memory before a tensor was overwritten"
        if c.status:
            return "status", f"returned {c.status} ({c.message}), expected OK"
        if self.run.expected.choice_doubt:
            count.gradient_doubt += 1
            return None
        got = {a.p.name: a.value() for a in c.arguments if a.p.elem != "route"}
        for (name, d), slope, size, finer in zip(*self.wanted()):
            found = name in self.targets and self.compare(name, d, slope, size, finer, got, count)
            if found:
                return found
        return None

    def passed_gradient(self, name):
        """The cotangent itself; what it holds in rows that do not exist is nobody's."""
        gradient = self.case.tensors[self.passed[name]]
        for axis, space in enumerate(self.run.kernel.param(name).axes):
            if self.module.group(space):
                exists = self.run.expected.route_of(space).group_of >= 0
                gradient = gradient * exists.reshape([-1 if i == axis else 1 for i in range(gradient.ndim)])
        return gradient

    def compare(self, name, d, slope, size, finer, got, count):
        p = self.gradients.get(name)
        gradient = got["d_" + name] if p else self.passed_gradient(name)
        before = self.case.tensors["d_" + name] if p and p.role == "inout" else np.zeros_like(gradient)
        elem = p.elem if p else "f32"
        own = {"f32": 0, "bf16": 2.0 ** -8, "f16": 2.0 ** -10}[elem]
        with np.errstate(all="ignore"):
            mine = float(np.where(d, (gradient - before) * d, 0).sum())
            moved = float(np.where(d, np.abs(gradient) * np.abs(d), 0).sum())
            allowed = self.tolerance() * (size + moved + 0.05) + own * moved
            lost = self.lost()
        unstable = not (np.isfinite(slope) and np.isfinite(finer)) or max(abs(slope - finer), lost) > 0.2 * allowed
        too_large = elem == "f16" and np.isinf(gradient[d != 0]).any()
        if unstable or too_large or (not np.isfinite(mine) and self.is_unbounded(name)):
            count.gradient_doubt += 1
            return None
        count.gradients += 1
        off = abs(mine - slope)
        if off <= allowed or off <= allowed + self.cancelled(name, d) or off <= allowed + self.conditioned(name, d):
            return None
        if self.chooses_rounded():
            count.gradient_doubt += 1
            return None
        at = np.argwhere(d)[0].tolist() if np.count_nonzero(d) == 1 else "a random direction"
        return "gradient", f"d_{name} at {at} is {mine:.7g}, differences give {slope:.7g} (terms of {size:.3g}, allowed {allowed:.3g})"
