"""What a kernel computes, by docs/language.md: an evaluator that shares nothing with the compiler.

An expression is an array over all its indices at once: axis 0 counts perturbed copies of the inputs (one, but for
gradients), then comes an axis for each index in scope. Only elements under the guards (Mask) are looked at.

The evaluator notes what decides (conditions, the place of a max, roundings, `stop`) on a tape. `replay` evaluates on
other floats with the decisions of the tape, so that differences of replays are derivatives by section 7 of the page:
they have no kinks."""
import numpy as np

import bounds
from bounds import Cond, Float, Int
from program import Expr, number, op as op_of, walk

ZERO_OF = number(0)
AXES = 16
# What a call may return for each kind of fault (include/moec/abi.def): whether a precondition finds it or the equation
# is not promised for indices.
STATUS = {"size": {1}, "rule": {2}, "route": {5}, "index": {6, 7}, "range": {10}, "empty": {10}, "choices": {1},
          "id": {6, 7}}


class Fault(Exception):
    pass


class Mask:
    """Where values are asked for: by the values (on), for certain (sure), perhaps (may). checked: under the same guards, but
    whether or not there are any rows or terms: an index that does not vary with those may be checked all the same."""

    def __init__(self, on, sure=None, may=None, checked=None):
        self.on, self.sure, self.may = on, on if sure is None else sure, on if may is None else may
        self.checked = on if checked is None else checked

    def under(self, c):
        could = c.v | c.d
        return Mask(self.on & c.v, self.sure & c.v & ~c.d, self.may & could, self.checked & could)

    def among(self, v, d=bounds.NO):
        """Only places that exist."""
        return Mask(self.on & v, self.sure & v & ~d, self.may & (v | d), self.checked)

    def three(self):
        return self.on, self.sure, self.may


class Route:
    """Rows sorted by (group, token, slot); with a capacity the first rows of each group in that order."""

    def __init__(self, ids, groups, rows, capacity):
        self.tokens, self.choices = ids.shape
        self.groups, self.rows, self.capacity = groups, rows, capacity
        self.slot_of = np.full(rows, -1, np.int32)
        self.row_of = np.full(ids.size, -1, np.int32)
        self.group_of = np.full(rows, -1, np.int64)
        self.count = np.zeros(groups, np.int64)
        self.start = np.zeros(groups + 1, np.int64)
        flat, row = ids.reshape(-1), 0
        for g in range(groups):
            if capacity is not None:
                row = g * capacity
            self.start[g] = row
            for slot in np.flatnonzero(flat == g)[:capacity]:
                self.slot_of[row], self.row_of[slot], self.group_of[row] = slot, row, g
                self.count[g] += 1
                row += 1
        self.start[groups] = row if capacity is None else groups * capacity


def extent_of(space, module, dims):
    group = module.group(space)
    return int(eval(group.rows() if group else space, {}, dict(dims)))


def shape_of(param, module, dims):
    return tuple(extent_of(a, module, dims) for a in param.axes)


class Evaluator:
    def __init__(self, module, kernel, dims):
        self.module, self.kernel = module, kernel
        self.dims = {**{d.name: d.constant for d in module.dims if d.constant >= 0}, **dims}
        self.tensors, self.routes, self.axes = {}, {}, {}
        self.faults, self.maybe, self.void, self.choice_doubt = set(), set(), False, False
        self.tape, self.played = [], None
        self.begun = set()   # outputs that an equation has written a part of

    # ---- the tape ----

    def note(self, value, doubt=None, mask=None):
        """A decision: noted, or the one that was noted before."""
        if self.played is not None:
            self.played += 1
            return self.tape[self.played - 1]
        self.tape.append(value)
        if doubt is not None and (doubt & mask.may).any():
            self.choice_doubt = True
        return value

    @property
    def replaying(self):
        return self.played is not None

    # ---- faults ----

    def check(self, bad, mask, what, doubt=bounds.NO):
        if not np.any(bad & mask.checked):
            return
        if np.any(bad & mask.sure & ~doubt) and not self.faults:
            self.faults.add(what)
        else:
            self.maybe.add(what)

    # ---- indices ----

    def extent(self, space):
        return extent_of(space, self.module, self.dims)

    def bind(self, name, space, mask):
        """Gives an index an axis; rows that do not exist are masked."""
        axis = len(self.axes) + 1
        n = self.extent(space)
        self.axes[name] = (axis, n, space)
        if n == 0:
            mask = mask.among(np.zeros((), bool))
        if self.module.group(space):
            exists = self.route_of(space).group_of >= 0
            mask = mask.among(self.along(exists, axis))
        return mask

    def along(self, values, axis):
        return values.reshape((1,) * axis + (-1,) + (1,) * (AXES - 1 - axis))

    def route_of(self, group):
        for p in self.kernel.params:
            if p.elem == "route" and p.axes[2] == group:
                return self.routes[p.name]
        for q in self.kernel.equations:
            if q.how == "route" and q.subscripts[1] == group:
                return self.routes[q.name]
        raise Fault(f"no route of {group}")

    # ---- expressions ----

    def eval(self, e, mask):
        value = getattr(self, "eval_" + e.kind)(e, mask)
        return Float(value.v) if self.replaying and value.kind == "float" else value

    def eval_int(self, e, mask):
        return Int(np.array(int(e.data)).reshape((1,) * AXES))

    def eval_real(self, e, mask):
        return Float(np.array(float(np.float32(float(e.data)))).reshape((1,) * AXES))

    def eval_dim(self, e, mask):
        return Int(np.array(self.dims[e.data]).reshape((1,) * AXES))

    def eval_index(self, e, mask):
        axis, n, _ = self.axes[e.data]
        return Int(self.along(np.arange(n), axis))

    def eval_if(self, e, mask):
        c = self.eval(e.args[0], mask)
        a = self.eval(e.args[1], mask.under(c))
        b = self.eval(e.args[2], mask.under(Cond(~c.v, c.d)))
        return bounds.choose(c, a, b)

    def eval_call(self, e, mask):
        name, params, body = next(f for f in self.module.fns if f[0] == e.data)
        values = [self.eval(a, mask) for a in e.args]
        outer = getattr(self, "arguments", {})
        self.arguments = dict(zip(params, values))
        result = self.eval(body, mask)
        self.arguments = outer
        return result

    def eval_argument(self, e, mask):
        return self.arguments[e.data]

    def eval_op(self, e, mask):
        name = e.data
        if name == "and" or name == "or":
            return self.logic(e, mask, name == "or")
        args = [self.eval(a, mask) for a in e.args]
        if name == "not":
            return Cond(~args[0].v, args[0].d)
        if name in bounds.COMPARE:
            c = bounds.compare(name, *args)
            return Cond(self.note(c.v, c.d, mask), c.d)
        if name in ("max2", "min2"):
            return self.larger(*args, name == "max2", mask)
        return self.arithmetic(name, args, mask)

    def logic(self, e, mask, either):
        """The right side counts only where the left side does not decide."""
        a = self.eval(e.args[0], mask)
        b = self.eval(e.args[1], mask.under(Cond(a.v ^ either, a.d)))
        decided = (a.v == either) & ~a.d
        settled = (b.v == either) & ~b.d    # whatever a is
        v = a.v | b.v if either else a.v & b.v
        return Cond(v, np.where(decided | settled, False, a.d | b.d))

    def arithmetic(self, name, args, mask):
        a = args[0]
        if name in ("+", "-", "*") and a.kind == args[1].kind == "int":
            f = {"+": np.add, "-": np.subtract, "*": np.multiply}[name]
            return Int(f(a.v, args[1].v), a.d | args[1].d)
        if name in ("+", "-", "*", "/"):
            f = {"+": bounds.add, "-": bounds.sub, "*": bounds.mul, "/": bounds.div}[name]
            return f(bounds.as_float(a), bounds.as_float(args[1]))
        if name == "neg":
            return Int(-a.v, a.d) if a.kind == "int" else bounds.negate(a)
        if name == "i32":
            r = bounds.to_i32(a)
            return Int(self.note(r.v, r.d, mask), r.d)
        if name == "stop":
            return a if a.kind == "int" else Float(self.note(a.v), a.e)
        if name == "f32":
            return bounds.as_float(a)
        if name in ("bf16", "f16"):
            return self.cast(name, bounds.as_float(a))
        if name == "pow":
            return bounds.power(*args)
        return self.kinked(name, bounds.as_float(a), mask)

    def cast(self, elem, a):
        """Gradients pass unchanged: a replay adds what the rounding added."""
        if self.replaying:
            return Float(a.v + self.note(None))
        r = bounds.cast(elem, a)
        moved = r.v - a.v
        self.note(np.where(np.isfinite(moved), moved, 0))
        return r

    def kinked(self, name, a, mask):
        if name in ("relu", "abs"):
            sign = np.sign(a.v) if name == "abs" else (a.v > 0).astype(float)
            sign = self.note(sign, (a.e > 0) & (np.abs(a.v) <= a.e), mask)
            return Float(sign * a.v) if self.replaying else bounds.function(name, a)
        if name == "floor":
            r = bounds.function(name, a)
            return Float(self.note(r.v, r.e > 0, mask), r.e)
        return bounds.function(name, a)

    def larger(self, a, b, largest, mask):
        r = bounds.extreme(a, b, largest)
        if r.kind == "int":
            return r
        a, b = bounds.as_float(a), bounds.as_float(b)
        e = a.e + b.e
        first = self.note(a.v >= b.v if largest else a.v <= b.v,
                          (e > 0) & ~(bounds.distance(a.v, b.v) > e), mask)
        return Float(np.where(first, a.v, b.v)) if self.replaying else r

    # ---- routes ----

    def eval_token(self, e, mask):
        return self.of_row(e, mask, lambda r: np.where(r.slot_of >= 0, r.slot_of // max(r.choices, 1), 0))

    def eval_slot(self, e, mask):
        return self.of_row(e, mask, lambda r: np.where(r.slot_of >= 0, r.slot_of % max(r.choices, 1), 0))

    def eval_at(self, e, mask):
        return self.of_row(e, mask, lambda r: np.maximum(r.group_of, 0))

    def of_row(self, e, mask, field):
        row = self.eval(e.args[0], mask)
        space = self.axes[e.args[0].data][2] if e.args[0].kind == "index" else None
        route = self.route_of(space) if space else self.routes[e.args[0].data]
        values = field(route).astype(np.int64)
        if values.size == 0:
            return Int(np.zeros_like(row.v))
        self.check((row.v < 0) | (row.v >= values.size), mask, "index")
        return Int(values[np.clip(row.v, 0, values.size - 1)], row.d)

    def eval_row(self, e, mask):
        route = self.routes[e.data]
        t, k = (self.eval(a, mask) for a in e.args)
        bad = (t.v < 0) | (t.v >= route.tokens) | (k.v < 0) | (k.v >= route.choices)
        self.check(bad, mask, "index")
        if route.row_of.size == 0:
            return Int(np.zeros(np.broadcast_shapes(t.v.shape, k.v.shape), np.int64))
        at = np.clip(t.v * route.choices + k.v, 0, route.row_of.size - 1)
        return Int(route.row_of.astype(np.int64)[at], t.d | k.d)

    def needs(self, e, guards=()):
        """Rows that may be dropped and that nothing asks for: the nearest reduction skips its term."""
        if e is None or e.kind == "reduce":
            return []
        if e.kind == "if" or (e.kind == "op" and e.data == "and"):
            held = guards + tuple(conjuncts(e.args[0]))
            rest = [self.needs(a, held if i == 1 else guards) for i, a in enumerate(e.args)]
            return [n for r in rest for n in r]
        out = []
        if e.kind in ("load", "token", "slot", "at"):
            out = [op_of(">=", s, ZERO_OF) for s in e.args if s.kind == "row"]
            if e.kind == "load":
                axes = self.axes_of(e.data)
                out = [op_of(">=", s, ZERO_OF) for s, a in zip(e.args, axes) if s.kind == "row" and self.module.group(a)]
            out = [n for n in out if n not in guards]
        for a in e.args:
            out += self.needs(a, guards)
        return out

    # ---- tensors ----

    def axes_of(self, name):
        p = self.kernel.param(name)
        if p:
            return p.axes
        for q in self.kernel.equations:
            if name in (q.name, q.second):
                spaces = dict(q.spaces)
                return tuple(spaces[s.data] if s.kind == "index" else "" for s in q.subscripts)
        return ()

    def place(self, tensor, subscripts, mask):
        """The flat index of each element, and whether it is in doubt."""
        shape, flat, doubt = tensor.v.shape[1:], np.zeros((1,) * AXES, np.int64), bounds.NO
        for s, extent in zip(subscripts, shape):
            i = self.eval(s, mask)
            self.check((i.v < 0) | (i.v >= extent), mask, "index", i.d)
            flat = flat * extent + np.clip(i.v, 0, max(extent - 1, 0))
            doubt = doubt | i.d
        return flat, doubt

    def eval_load(self, e, mask):
        tensor = self.tensors[e.data]
        flat, doubt = self.place(tensor, e.args, mask)
        copies = tensor.v.shape[0]
        shape = (copies,) + flat.shape[1:]
        if tensor.v[0].size == 0:
            zero = np.zeros(shape)
            return Float(zero) if tensor.kind == "float" else Int(zero.astype(np.int64))
        v = tensor.v.reshape(copies, -1)[:, flat[0]]
        if tensor.kind == "int":
            return Int(v, (tensor.d.reshape(-1)[flat] if tensor.d.shape else tensor.d) | doubt)
        e_ = tensor.e.reshape(-1)[flat] if tensor.e.shape else tensor.e
        return Float(v, np.where(doubt, np.inf, e_))

    # ---- reductions ----

    def eval_reduce(self, e, mask):
        kind, binds = e.data
        body, where, inside = e.args[0], e.args[1], e.args[2:]
        inner, first = mask, len(self.axes) + 1
        for (name, space), within in zip(binds, inside):
            inner = self.bind(name, space, inner)
            if within is not None:
                group = self.along(self.route_of(space).group_of, self.axes[name][0])
                wanted = self.eval(within, inner)
                inner = inner.among(group == wanted.v, wanted.d)
        for need in self.needs(where) + self.needs(body):
            inner = inner.under(self.eval(need, inner))
        if where is not None:
            inner = inner.under(self.eval(where, inner))
        value = self.eval(body, inner)
        axes = tuple(range(first, len(self.axes) + 1))
        full = [1] * AXES
        for name, _ in binds:
            full[self.axes[name][0]] = self.axes[name][1]
        result = self.reduced(kind, value, inner, axes, tuple(full), mask)
        if kind == "sum" and result.kind == "float" and not self.replaying:
            result = self.factored(result, body, {name for name, _ in binds})
        for name, _ in binds:
            del self.axes[name]
        return result

    def factored(self, result, body, bound):
        """Factors that are free of the reduced indices are applied to the result (section 5). It makes a difference when
        one is infinite or NaN: inf * (1 - 1) is not inf - inf, and 0 * inf is no empty sum. The page leaves open which
        expressions count as factors, so these are in doubt."""
        kept, tape = (set(self.faults), set(self.maybe), self.choice_doubt), len(self.tape)
        odd = np.zeros((), bool)
        for factor in free_factors(body, bound):
            v = bounds.as_float(self.eval(factor, Mask(np.ones((), bool))))
            odd = odd | ~np.isfinite(v.v) | np.isinf(v.e)
        self.faults, self.maybe, self.choice_doubt = kept
        del self.tape[tape:]
        return Float(result.v, np.where(odd, np.inf, result.e)) if odd.any() else result

    def reduced(self, kind, value, inner, axes, full, mask):
        on, sure, may = (np.broadcast_to(m, np.broadcast_shapes(m.shape, full)) for m in inner.three())
        if value.kind == "int":
            if kind == "sum":
                return bounds.total_int(value, on, sure, may, axes)
            nothing = ~on.any(axes, keepdims=True)
            self.check(nothing, mask, "empty", (may & ~on).any(axes, keepdims=True))
            return bounds.best_int(value, on, sure, may, axes, kind == "max")
        if kind == "sum":
            return bounds.total(value, on, sure, may, axes)
        r = bounds.best(value, on, sure, may, axes, kind == "max")
        return self.attained(r, value, on, may, axes, mask)

    def attained(self, r, value, on, may, axes, mask):
        """max and min pass their gradient to the lowest index that attains the value."""
        if self.replaying:
            chosen, any_ = self.note(None)
            picked = np.where(chosen, value.v, 0).sum(axes, keepdims=True)
            return Float(np.where(any_, picked, r.v))
        v, on, may, e = np.broadcast_arrays(value.v, on, may, value.e)
        equal = on & (v == r.v)
        moved = np.moveaxis(equal, axes, range(-len(axes), 0))
        flat = moved.reshape(moved.shape[:-len(axes)] + (int(np.prod(moved.shape[-len(axes):])),))
        only = flat & (np.cumsum(flat, -1) == 1)
        chosen = np.moveaxis(only.reshape(moved.shape), range(-len(axes), 0), axes)
        rivals = may & ~chosen & (e + np.where(chosen, e, 0).sum(axes, keepdims=True) > 0)
        near = rivals & ~(bounds.distance(v, r.v) > e + r.e)
        self.note((chosen, chosen.any(axes, keepdims=True)), near.any(axes, keepdims=True), mask)
        return r

    # ---- equations ----

    def run(self, tensors, routes):
        """tensors: name -> Float or Int with axis 0 of copies; routes: name -> Route. Outputs are in self.tensors."""
        self.tensors, self.routes, self.begun = dict(tensors), dict(routes), set()
        with np.errstate(all="ignore"):
            for q in self.kernel.equations:
                self.axes = {}
                bounds.magnitudes.clear()
                self.equation(q)
        return self

    def replay(self, tensors, routes):
        self.played, kept = 0, (set(self.faults), set(self.maybe))
        self.run(tensors, routes)
        self.played, (self.faults, self.maybe) = None, kept
        return self

    def equation(self, q):
        if q.how == "route":
            return self.make_route(q)
        if q.how in ("pack", "pack_t"):
            return self.pack(q)
        mask = Mask(np.ones((1,) * AXES, bool))
        for name, space in q.spaces:
            mask = self.bind(name, space, mask)
        if q.how == "top":
            return self.top(q, mask)
        asked = mask
        for need in self.needs(q.value):
            asked = asked.under(self.eval(need, asked))
        return self.store(q, self.eval(q.value, asked), mask, asked)

    def pack(self, q):
        t = self.tensors[q.value.data]
        turn = (lambda a: a) if q.how == "pack" else (lambda a: np.swapaxes(a, -1, -2) if a.shape else a)
        self.tensors[q.name] = Float(turn(t.v), turn(t.e))

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

    def spaces(self):
        """All spaces that indices of the kernel's equations go over."""
        out = {space for q in self.kernel.equations for _, space in q.spaces}
        for q in self.kernel.equations:
            for x in walk(q.value) if isinstance(q.value, Expr) else ():
                out |= {space for _, space in x.data[1]} if x.kind == "reduce" else set()
        return out

    def magnitude(self, value):
        """The sum of the magnitudes of all terms that the equation at hand has added; of a sum inside others the largest."""
        full = value.v.shape[1:]
        most = np.zeros(value.v.shape)
        for m in bounds.magnitudes:
            inner = tuple(range(1 + len(full), AXES))
            most = most + self.whole(m.max(inner, keepdims=True, initial=0) if m.ndim == AXES else m, full)[:1]
        return most

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
            self.check(np.ones((1,) * AXES, bool), mask, "choices")
            self.faults.add("choices")
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
        used = np.array(self.kernel.param(q.name) is not None or name in self.spaces())
        self.check(bad, Mask(np.ones((), bool)), "id", ~used)      # a route that nothing uses may be dropped
        flat = np.where(bad, -1, ids.v)[0]
        self.routes[q.name] = Route(flat, groups, self.extent(name),
                                    self.extent(group.extent) if group.kind == "capacity" else None)


def free_factors(e, bound):
    if e.kind == "op" and e.data in ("*", "/", "neg"):
        return [f for a in e.args for f in free_factors(a, bound)]
    return [] if any(x.kind == "index" and x.data in bound for x in walk(e)) else [e]


def conjuncts(c):
    if c.kind == "op" and c.data == "and":
        return conjuncts(c.args[0]) + conjuncts(c.args[1])
    return [c]
