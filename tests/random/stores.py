"""How an equation writes its tensor: `=`, places by constants, `+=`, a scatter; and `top` and `route`, which write two."""
import numpy as np

import bounds
from bounds import Float, Int
from places import AXES, Mask, Route, shape_of
from program import walk


class Stores:
    """The part of the evaluator that writes."""

    def whole(self, a, full):
        """The array over the left-hand indices, without the unused axes."""
        used = len(full)
        a = np.broadcast_to(a, (a.shape[0],) + full + (1,) * (AXES - 1 - used)) if a.ndim else np.broadcast_to(a, (1,) + full)
        return a.reshape((a.shape[0],) + full)

    def elem_of(self, q):
        p = self.kernel.param(q.name)
        return p.elem if p else q.elem

    def store(self, q, value, mask, asked):
        """asked: where no row that the element needs was dropped; there the value counts, elsewhere it is 0."""
        full = tuple(self.axes[name][1] for name, _ in q.spaces)
        elem = self.elem_of(q)
        value = bounds.as_float(value) if elem != "i32" else value
        on = self.whole(asked.on, full)
        v = np.where(on, self.whole(value.v, full), 0)
        zero = np.zeros((1,) + full)
        e = np.where(on, self.whole(value.d if elem == "i32" else value.e, full)[:1], 0)
        exists = self.whole(mask.on, full)
        old = self.tensors.get(q.name)
        computed = any(s.kind not in ("index", "int") for s in q.subscripts)
        if q.how == "+=":
            value = Int(v, e.astype(bool)) if elem == "i32" else Float(v, e)
            new = self.scatter(q, value, mask, full) if computed else self.accumulate(q, old, value, exists)
        else:
            if elem == "f32":
                e = e + self.one_sum(q, Float(v, e))
            new = self.assign(q, old, v, e + zero, exists, elem)
        if elem == "i32":
            bad = (new.v < -2 ** 31) | (new.v >= 2 ** 31)
            self.check(bad, Mask(np.ones((), bool)), "range", new.d)
        self.tensors[q.name] = new

    def target(self, q):
        """numpy's index of the written part of the tensor."""
        return (slice(None),) + tuple(s.data if s.kind == "int" else slice(None) for s in q.subscripts)

    def assign(self, q, old, v, e, exists, elem):
        kind = Int if elem == "i32" else Float
        p = self.kernel.param(q.name)
        constants = any(s.kind == "int" for s in q.subscripts)
        if not constants and not any(self.module.group(s) for _, s in q.spaces):
            return kind(v, e.astype(bool) if elem == "i32" else e)
        shape = shape_of(p, self.module, self.dims) if p else v.shape[1:]
        if q.name not in self.begun:
            base = np.zeros((v.shape[0],) + shape, v.dtype)
            old = kind(base, np.zeros((1,) + shape, bool if elem == "i32" else float))
        copies = max(v.shape[0], old.v.shape[0])
        new_v = np.array(np.broadcast_to(old.v, (copies,) + old.v.shape[1:]))
        new_e = np.array(np.broadcast_to(old.d if elem == "i32" else old.e, (1,) + old.v.shape[1:]))
        at = self.target(q)
        new_v[at] = np.where(exists, v, 0)
        new_e[at] = np.where(exists, e, 0)
        self.begun.add(q.name)
        return kind(new_v, new_e)

    def accumulate(self, q, old, value, exists):
        at = self.target(q)
        if value.kind == "int":
            v = np.array(old.v)
            d = np.array(np.broadcast_to(old.d, v.shape))
            d[at] |= np.where(exists, value.d, False)
            v[at] = v[at] + np.where(exists, value.v, 0)
            return Int(v, d)
        copies = max(old.v.shape[0], value.v.shape[0])
        v = np.array(np.broadcast_to(old.v, (copies,) + old.v.shape[1:]))
        e = np.array(np.broadcast_to(old.e, (1,) + old.v.shape[1:]))
        new = bounds.add_terms(Float(v[at], e[at]), value, self.terms(q.value), self.magnitude(value))
        v[at], e[at] = np.where(exists, new.v, v[at]), np.where(exists, new.e, e[at])
        return Float(v, e)

    def magnitude(self, value):
        """The sum of the magnitudes of all terms that the equation at hand has added; of a sum inside others the largest."""
        full = value.v.shape[1:]
        most = np.zeros(value.v.shape)
        for m in bounds.magnitudes:
            inner = tuple(range(1 + len(full), AXES))
            most = most + self.whole(m.max(inner, keepdims=True, initial=0) if m.ndim == AXES else m, full)[:1]
        return most

    def one_sum(self, q, value):
        """What may be lost where the equation is nothing but sums, also such as locals bring, and their terms are added as those of one."""
        sums = self.sums_of(q.value)
        if not sums:
            return 0
        most = np.maximum(self.magnitude(value) + sum(m for _, m in sums), np.abs(value.v))
        n = sum(n for n, _ in sums)
        self.summed[q.name] = n, most.max(initial=0)
        return bounds.of_terms(value.v, value.e == 0, n, most)[:1] if len(sums) > 1 else 0

    def sums_of(self, e):
        """Of the sums that e adds up how many terms each has, and how large they are together unless this equation adds them. []: e
        is something else."""
        if e.kind == "op" and e.data == "+":
            sides = [self.sums_of(a) for a in e.args]
            return sides[0] + sides[1] if all(sides) else []
        if e.kind == "load" and e.data in self.summed:
            return [self.summed[e.data]]
        return [(self.terms(e), 0)] if e.kind == "reduce" and e.data[0] == "sum" else []

    def terms(self, e):
        """How many terms the largest sum of an expression has, at most."""
        most = 0
        for x in walk(e):
            if x.kind == "reduce" and x.data[0] == "sum":
                most = max(most, int(np.prod([self.extent(space) for _, space in x.data[1]])))
        return most

    def scatter(self, q, value, mask, full):
        old = self.tensors[q.name]
        flat, doubt = self.place(old, q.subscripts, mask)
        flat = self.whole(flat, full)[0].reshape(-1)
        on = self.whole(mask.on, full)[0].reshape(-1)
        if (self.whole(doubt, full) & on.reshape(full)).any():
            self.void = True
        size, at = old.v[0].size, flat[on]
        shape = old.v.shape[1:]
        if size == 0:
            return old
        if value.kind == "int":
            v = np.array(old.v.reshape(-1))
            np.add.at(v, at, value.v.reshape(-1)[on])
            return Int(v.reshape((1,) + shape), np.broadcast_to(old.d | value.d.any(), (1,) + shape))
        copies = max(old.v.shape[0], value.v.shape[0])
        terms = np.broadcast_to(value.v, (copies,) + value.v.shape[1:]).reshape(copies, -1)
        v = np.array(np.broadcast_to(old.v, (copies,) + shape)).reshape(copies, size)
        np.add.at(v, (slice(None), at), terms[:, on])
        passed, magnitude, n = np.zeros(size), np.abs(old.v[0].reshape(-1)), np.zeros(size)
        np.add.at(passed, at, np.broadcast_to(value.e, value.v.shape)[0].reshape(-1)[on])
        np.add.at(magnitude, at, np.abs(terms[0, on]))
        np.add.at(n, at, 1)
        passed = passed + np.broadcast_to(old.e, (1,) + shape).reshape(-1)
        e = passed + np.where(n > 0, (n + 2) * bounds.UNIT * (magnitude + passed) + bounds.FLUSHED, 0)
        if (passed == 0).all() and np.isfinite(terms).all():
            both = np.concatenate([terms[0, on], old.v[0].reshape(-1)])
            e = np.where(bounds.on_grid(both, magnitude), 0, e)
        e = np.where(np.isinf(passed), np.inf, e)
        return Float(v.reshape((copies,) + shape), e.reshape((1,) + shape))

    # ---- top and route ----

    def top(self, q, mask):
        name, space = q.value.data[1][0]
        axis_k, k = self.axes[q.subscripts[-1].data][:2]
        inner = self.bind(name, space, mask)
        axis_e, n = self.axes[name][:2]
        value = self.eval(q.value.args[0], inner)
        del self.axes[name]
        if k > n:
            self.found.append((id(q), "choices", True))
        full = tuple(self.axes[i][1] for i, _ in q.spaces)
        if not np.prod(full) or n == 0 or k > n:
            empty = np.zeros((1,) + full)
            self.tensors[q.name] = Float(empty, np.zeros((1,) + full)) if self.elem_of(q) != "i32" else Int(empty.astype(int), empty > 0)
            self.tensors[q.second] = Int(np.zeros((1,) + full, np.int64), np.zeros((1,) + full, bool))
            return
        lead = list(full)
        lead[axis_k - 1] = 1
        shape = (value.v.shape[0],) + tuple(lead) + (1,) * (axis_e - 1 - len(lead)) + (n,) + (1,) * (AXES - 1 - axis_e)
        v = np.broadcast_to(value.v, shape)
        e = np.broadcast_to(value.d if value.kind == "int" else value.e, (1,) + shape[1:])
        order, doubt, spread = self.order(v, e, value.kind, axis_e)
        order = self.note(order, doubt, Mask(np.ones((), bool)))
        def pick(a, at):
            a = np.take_along_axis(np.broadcast_to(a, at.shape[:1] + a.shape[1:]) if a.shape[0] == 1 else a,
                                   np.broadcast_to(at, a.shape[:1] + at.shape[1:]), axis_e)
            return self.whole(np.swapaxes(a.take(np.arange(k), axis_e), axis_e, axis_k), full)
        doubt_k = self.whole(np.swapaxes(doubt.take(np.arange(k), axis_e), axis_e, axis_k), full)
        got = pick(v, order)
        self.tensors[q.second] = Int(self.whole(np.swapaxes(order.take(np.arange(k), axis_e), axis_e, axis_k), full)[:1],
                                     doubt_k)
        if value.kind == "int" and self.elem_of(q) == "i32":
            self.tensors[q.name] = Int(got, doubt_k)
        elif value.kind == "int":
            self.tensors[q.name] = bounds.of_int(Int(got, doubt_k))
        else:
            wide = self.whole(np.swapaxes(spread.take(np.arange(k), axis_e), axis_e, axis_k), full)
            wide = np.where(np.isnan(wide), np.inf, wide)    # between two infinities
            self.tensors[q.name] = Float(got, np.where(doubt_k, wide, pick(e, order[:1])[:1]))

    def order(self, v, e, kind, axis):
        """Descending, ties to the lower index, NaN last; which places are in doubt, and how far off values there are."""
        key = -v[:1]
        order = np.argsort(key, axis=axis, kind="stable")
        sorted_v = -np.take_along_axis(key, order, axis)
        if kind == "int":
            return order, np.zeros(order.shape, bool) | np.any(e), np.zeros(order.shape)
        sorted_e = np.take_along_axis(e, order, axis)
        nan = np.isnan(sorted_v)
        low = np.minimum.accumulate(np.where(nan, -np.inf, sorted_v - sorted_e), axis)
        high = np.flip(np.maximum.accumulate(np.flip(np.where(nan, -np.inf, sorted_v + sorted_e), axis), axis), axis)
        n = v.shape[axis]
        ahead, behind = low.take(np.arange(n - 1), axis), high.take(np.arange(1, n), axis)
        exact = (sorted_e == 0)
        settled = (ahead > behind) | ((ahead == behind) & np.all(exact, axis, keepdims=True)) | \
            np.all(exact, axis, keepdims=True)
        edge = np.ones_like(settled.take([0], axis)) if n > 1 else np.ones(order.shape, bool)
        before = np.concatenate([edge, settled], axis) if n > 1 else edge
        after = np.concatenate([settled, edge], axis) if n > 1 else edge
        spread = np.full(order.shape, np.inf) if (sorted_e > 0).any() else np.zeros(order.shape)
        if (sorted_e > 0).any() and not nan.any():
            spread = (sorted_v + sorted_e).max(axis, keepdims=True) - (sorted_v - sorted_e).min(axis, keepdims=True)
            spread = np.broadcast_to(spread, order.shape)
        return order, ~(before & after), spread

    def make_route(self, q):
        ids, name = self.tensors[q.subscripts[0]], q.subscripts[1]
        group = self.module.group(name)
        groups = self.extent(group.groups)
        if np.any(ids.d):
            self.void = True
        bad = (ids.v < -1) | (ids.v >= groups)
        self.check(bad, Mask(np.ones((), bool)), "id")
        flat = np.where(bad, -1, ids.v)[0]
        self.routes[q.name] = Route(flat, groups, self.extent(name),
                                    self.extent(group.extent) if group.kind == "capacity" else None)
