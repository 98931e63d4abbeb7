"""What a call gave against what the evaluator says. A finding is (kind, text); kinds that a shrinker keeps apart are
value, status, written, spilled, input."""
import numpy as np

from evaluate import STATUS

NAMES = ["OK", "SIZE", "RULE", "NULL", "OVERLAP", "ROUTE", "INDEX", "COMPUTED", "MEMORY", "ISA", "RANGE", "ARGUMENT",
         "PACKED"]
LOOSE, LOOSE_LEAST = 0.02, 1e-3


class Count:
    """How much was compared, and how much of it says nothing."""

    def __init__(self):
        self.elements = self.exact = self.loose = self.calls = self.refusals = self.void = 0
        self.gradients = self.gradient_doubt = self.nothing = 0

    def add(self, other):
        for name, n in vars(other).items():
            setattr(self, name, getattr(self, name) + n)


def allowed(ev, interpret):
    """The statuses that a call may return; 0 only if no fault is certain."""
    codes = set().union(*(STATUS[f] for f in ev.faults | ev.maybe)) if ev.faults | ev.maybe else set()
    if interpret and "rule" in ev.faults:
        return set(range(len(NAMES)))      # the interpreter takes any sizes
    if interpret and codes:
        codes = {7} | (codes & {1, 2, 5})
    return codes | (set() if ev.faults else {0})


def judge(call, ev, count):
    """A finding, or None."""
    count.calls += 1
    if call.spilled:
        return "spilled", "memory before a tensor was overwritten"
    for a in call.arguments:
        if a.p.role == "in" and any(b.changed() for b in a.blocks.values()):
            return "input", f"the input {a.p.name} was changed"
    if ev.void and "rule" not in ev.faults:
        count.void += 1
        return None
    codes = allowed(ev, call.interpret)
    if call.status not in codes:
        want = " or ".join(NAMES[c] for c in sorted(codes))
        return "status", f"returned {NAMES[call.status]} ({call.message}), expected {want} (for {sorted(ev.faults | ev.maybe)})"
    if call.status or ev.faults:
        count.refusals += 1
        return unwritten(call)
    return values(call, ev, count)


def unwritten(call):
    """A failed precondition writes nothing."""
    if call.status == 7 or call.status == 10 or call.interpret:
        return None
    for a in call.arguments:
        if not a.p.packed and any(b.changed() for b in a.blocks.values()):
            return "written", f"{NAMES[call.status]}, but {a.p.name} was written"
    return None


def values(call, ev, count):
    for a in call.arguments:
        if a.p.role == "in":
            continue
        if a.p.elem == "route":
            found = route(a, ev.routes[a.p.name])
        else:
            found = tensor(a.p.name, a.value(), ev.tensors[a.p.name], count)
        if found:
            return found
    return None


def route(a, want):
    got = a.route_value()
    for field, values_ in got.items():
        if not (values_ == getattr(want, field)).all():
            return "value", f"{a.p.name}.{field} is {values_.tolist()}, expected {getattr(want, field).tolist()}"
    return None


def tensor(name, got, want, count):
    v = np.broadcast_to(want.v[0] if want.v.ndim == got.ndim + 1 else want.v, got.shape)
    if want.kind == "int":
        d = np.broadcast_to(want.d[0] if want.d.ndim == got.ndim + 1 else want.d, got.shape)
        good, loose, e = d | (got == v), d, np.where(d, np.inf, 0)
    else:
        e = np.broadcast_to(want.e[0] if want.e.ndim == got.ndim + 1 else want.e, got.shape)
        with np.errstate(all="ignore"):
            near = np.abs(got - v) <= e
            good = near | (got == v) | (np.isnan(got) & np.isnan(v)) | np.isinf(e)
            loose = e > LOOSE * np.where(np.isfinite(v), np.abs(v), 0) + LOOSE_LEAST
    count.elements += got.size
    count.exact += int((e == 0).sum())
    count.loose += int(loose.sum())
    count.nothing += int(np.isnan(v).sum())
    if good.all():
        return None
    bad = np.argwhere(~good)
    at = tuple(bad[0])
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    return "value", (f"{place} is {got[at]:.9g}, expected {v[at]:.9g} within {e[at]:.3g}; "
                     f"{len(bad)} of {got.size} elements are wrong")
