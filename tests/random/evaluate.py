"""What a kernel computes, by docs/language.md: an evaluator that shares nothing with the compiler.

An expression is an array over all its indices at once: axis 0 counts perturbed copies of the inputs (one, but for
gradients), then comes an axis for each index in scope. Only elements under the guards (Mask) are looked at.

The evaluator notes what decides (conditions, the place of a max, roundings, `stop`) on a tape. `replay` evaluates on
other floats with the decisions of the tape, so that differences of replays are derivatives by section 7 of the page:
they have no kinks."""
import functools

import numpy as np

import bounds
from bounds import Cond, Float, Int
from places import AXES, Mask, extent_of, live_equations
from program import Expr, number, op as op_of, walk
from stores import Stores

ZERO_OF = number(0)
# What a call may return for each kind of fault (include/moec/abi.def): whether a precondition finds it or the equation
# is not promised for indices.
STATUS = {"size": {1}, "rule": {2}, "route": {5}, "index": {6, 7}, "range": {10}, "empty": {10}, "choices": {1},
          "id": {6, 7}}


class Fault(Exception):
    pass


class Evaluator(Stores):
    def __init__(self, module, kernel, dims):
        self.module, self.kernel = module, kernel
        self.dims = {**{d.name: d.constant for d in module.dims if d.constant >= 0}, **dims}
        self.tensors, self.routes, self.axes = {}, {}, {}
        self.faults, self.maybe, self.void, self.choice_doubt = set(), set(), False, False
        self.tape, self.played = [], None
        self.begun = set()   # outputs that an equation has written a part of
        self.unbounded = set()   # equations in which some value is infinite or NaN
        self.rounded = set()     # locals that a backward reads rounded to 16 bits: they may be off by that

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
        certain = np.any(bad & mask.sure & ~doubt) and not any(sure for _, _, sure in self.found)
        self.found.append((id(self.at), what, certain))

    def use(self, name, mask):
        if mask.sure.any():
            self.reads.setdefault(id(self.at), set()).add(name)

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
        if value.kind == "float" and not self.replaying and np.any(~np.isfinite(value.v) & mask.checked):
            self.unbounded.add(id(self.at))
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
        c = self.eval(e.args[0], self.decided_by(e.args[1], e.args[2], mask))
        a = self.eval(e.args[1], mask.under(c))
        b = self.eval(e.args[2], mask.under(Cond(~c.v, c.d)))
        return bounds.choose(c, a, b)

    def decided_by(self, e, other, mask):
        """Where a condition around e counts: those inside e are sides of it, and what reads no tensor may be asked first."""
        bound = set()
        while found := layer(e, other):
            c, e, names = found
            bound.update(names)
            for part in conjuncts(c) if c else []:
                if is_plain(part) and not uses(part, bound):
                    asked = self.eval(part, mask)
                    mask = mask.unless(Cond(~asked.v, asked.d))
        return mask

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
        """The right side counts only where the left side does not decide. One that reads no tensor may be asked first."""
        first = self.eval(e.args[1], mask) if is_plain(e.args[1]) else None
        a = self.eval(e.args[0], mask.unless(Cond(first.v == either, first.d)) if first else mask)
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
        if name in ("idiv", "imod"):        # a divisor below 1 counts as 1
            f = np.floor_divide if name == "idiv" else np.mod
            return Int(f(a.v, np.maximum(args[1].v, 1)), a.d | args[1].d)
        if name in ("+", "-", "*", "/"):
            f = {"+": bounds.add, "-": bounds.sub, "*": bounds.mul, "/": bounds.div}[name]
            return f(bounds.as_float(a), bounds.as_float(args[1]))
        if name in ("neg", "abs") and a.kind == "int":
            return Int(-a.v if name == "neg" else np.abs(a.v), a.d)
        if name == "neg":
            return bounds.negate(a)
        if name == "i32":
            r = bounds.to_i32(a)
            return Int(self.note(r.v, r.d, mask), r.d)
        if name in ("stop", "shift"):
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
        if self.replaying and self.rough and name in bounds.FLAT:
            return Float(bounds.function(name, a).v + self.rough * a.v)
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
        self.use(e.data, mask)
        space = self.axes[e.args[0].data][2] if e.args[0].kind == "index" else None
        route = self.route_of(space) if space else self.routes[e.args[0].data]
        values = field(route).astype(np.int64)
        if values.size == 0:
            return Int(np.zeros_like(row.v))
        self.check((row.v < 0) | (row.v >= values.size), mask, "index")
        return Int(values[np.clip(row.v, 0, values.size - 1)], row.d)

    def eval_row(self, e, mask):
        self.use(e.data, mask)
        route = self.routes[e.data]
        t, k = (self.eval(a, mask) for a in e.args)
        bad = (t.v < 0) | (t.v >= route.tokens) | (k.v < 0) | (k.v >= route.choices)
        self.check(bad, mask, "index")
        if route.row_of.size == 0:
            return Int(np.zeros(np.broadcast_shapes(t.v.shape, k.v.shape), np.int64))
        at = np.clip(t.v * route.choices + k.v, 0, route.row_of.size - 1)
        return Int(route.row_of.astype(np.int64)[at], t.d | k.d)

    def needs(self, e, guards=()):
        """Rows that may be dropped and that nothing asks for: the nearest reduction skips its term, where the guards inside hold."""
        if e is None or e.kind == "reduce":
            return []
        held = {}
        if e.kind == "if" or (e.kind == "op" and e.data == "and"):
            held[1] = guards + tuple(conjuncts(e.args[0]))
        if e.kind == "if" or (e.kind == "op" and e.data == "or"):
            held[2 if e.kind == "if" else 1] = guards + (op_of("not", e.args[0]),)
        out = []
        if e.kind in ("load", "token", "slot", "at"):
            axes = self.axes_of(e.data) if e.kind == "load" else None
            out = [op_of(">=", s, ZERO_OF) for n, s in enumerate(e.args) if s.kind == "row" and (not axes or self.module.group(axes[n]))]
            out = [functools.reduce(lambda need, g: op_of("or", op_of("not", g), need), reversed(guards), n) for n in out if n not in guards]
        for i, a in enumerate(e.args):
            out += self.needs(a, held.get(i, guards))
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
            i = self.subscript(s, mask)
            outside = (i.v < 0) | (i.v >= extent)
            self.check(outside, mask, "index", i.d)
            flat = flat * extent + np.clip(i.v, 0, max(extent - 1, 0))
            doubt = doubt | i.d | outside
        return flat, doubt

    def subscript(self, s, mask):
        """It varies with no index that cancels: i - i is 0 also where i ranges over nothing."""
        form = linear(s, self.dims)
        if form is None:
            return self.eval(s, mask)
        v = np.full((1,) * AXES, form.pop(None, 0))
        for name, times in form.items():
            v = v + times * self.eval(Expr("index", name), mask).v if times else v
        return Int(v)

    def eval_load(self, e, mask):
        tensor = self.tensors[e.data]
        self.use(e.data, mask)
        flat, doubt = self.place(tensor, e.args, mask)
        copies = tensor.v.shape[0]
        shape = (copies,) + flat.shape[1:]
        if tensor.v[0].size == 0:
            zero = np.zeros(shape)
            return Float(zero) if tensor.kind == "float" else Int(zero.astype(np.int64))
        v = tensor.v.reshape(copies, -1)[:, flat[0]]
        if tensor.kind == "int":
            return Int(v, (tensor.d.reshape(-1)[flat] if tensor.d.shape else tensor.d) | doubt)
        if self.replaying and self.jitter:
            v = rounded_differences(v, self.jitter)
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
        used = set(self.reads.get(id(self.at), ()))
        for need in self.needs(where):
            inner = inner.under(self.eval(need, inner))
        needed = self.reads.get(id(self.at), set()) - used
        if where is not None:
            self.reads[id(self.at)] = used      # of a condition that never holds nothing is needed but what it reads
            inner = inner.under(self.eval(where, self.decided_by(body, ZERO_OF, inner) if kind == "sum" else inner))
        for need in self.needs(body):
            inner = inner.under(self.eval(need, inner))
        if inner.sure.any():
            self.reads.setdefault(id(self.at), set()).update(needed)
        for _, space in binds:
            self.use(space, inner)
        value = self.eval(body, inner)
        if kind == "sum" and value.kind == "float" and leaves_reciprocals(body, {name for name, _ in binds}):
            value = Float(value.v, value.e + 2 * bounds.UNIT * np.abs(value.v))
        axes = tuple(range(first, len(self.axes) + 1))
        full = [1] * AXES
        for name, _ in binds:
            full[self.axes[name][0]] = self.axes[name][1]
        result = self.reduced(kind, value, inner, axes, tuple(full), mask)
        if kind == "sum" and result.kind == "float" and not self.replaying:
            result = self.factored(result, body, {name for name, _ in binds})
            result = self.left_out(result, body, where, {name for name, _ in binds})
        for name, _ in binds:
            del self.axes[name]
        return result

    def left_out(self, result, body, where, bound):
        """For a product that is left out by what elements say, or by a condition of a sum over several indices, 0 times a factor may
        be added (section 5): in doubt where one is infinite or NaN, whether its term is left out or not."""
        conditions = [where] if where is not None else []
        while body.kind == "if" and is_zero(body.args[2]):
            conditions.append(body.args[0])
            body = body.args[1]
        looks = len(bound) > 1 and conditions or any(x.kind == "load" for c in conditions for x in walk(c))
        if body.kind != "op" or body.data != "*" or not looks:
            return result
        odd = np.zeros((), bool)
        axes = tuple(self.axes[name][0] for name in bound)
        for factor in body.args:
            odd = odd | ~np.isfinite(bounds.as_float(self.anywhere(factor)).v).all(axes, keepdims=True)
        return Float(result.v, np.where(odd, np.inf, result.e)) if odd.any() else result

    def anywhere(self, e):
        """The value of e without conditions, and without what asking for it leaves behind."""
        kept, tape = (len(self.found), self.choice_doubt, set(self.reads.get(id(self.at), ()))), len(self.tape)
        unbounded = set(self.unbounded)
        value = self.eval(e, Mask(np.ones((), bool)))
        del self.found[kept[0]:]
        self.choice_doubt, self.reads[id(self.at)] = kept[1:]
        self.unbounded = unbounded
        del self.tape[tape:]
        return value

    def factored(self, result, body, bound):
        """Factors that are free of the reduced indices, or of one of them, are applied to the result (section 5). It makes a
        difference when one is infinite or NaN, or their product: inf * (1 - 1) is not inf - inf, and 0 * inf is no empty sum.
        The page leaves open which expressions count as factors, so these are in doubt."""
        odd = np.zeros((), bool)
        axes = tuple(self.axes[name][0] for name in bound)
        for some in [bound, *({name} for name in bound)]:
            product = np.ones(())
            for factor in free_factors(body, some):
                v = bounds.as_float(self.anywhere(factor))
                product = product * np.maximum(np.abs(v.v) + v.e, 1)
                odd = odd | ~(product <= bounds.LARGEST).all(axes, keepdims=True)
        return Float(result.v, np.where(odd, np.inf, result.e)) if odd.any() else result

    def reduced(self, kind, value, inner, axes, full, mask):
        on, sure, may = (np.broadcast_to(m, np.broadcast_shapes(m.shape, full)) for m in inner.three())
        if value.kind == "int":
            if kind == "sum":
                return bounds.total_int(value, on, sure, may, axes)
            nothing = ~on.any(axes, keepdims=True)
            if nothing.size == 0:       # of an index that ranges over nothing: what does not vary with it may be checked
                self.found.append((id(self.at), "empty", False))
            self.check(nothing, mask, "empty", (may & ~on).any(axes, keepdims=True))
            return bounds.best_int(value, on, sure, may, axes, kind == "max")
        if kind == "sum":
            return bounds.total(value, on, sure, may, axes)
        if not on.any(axes).all():     # the maximum of nothing, also where nobody has it: a factor that the chain rule knows
            self.unbounded.add(id(self.at))
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
        self.found, self.reads, self.summed = [], {}, {}
        with np.errstate(all="ignore"):
            for q in self.kernel.equations:
                self.axes = {}
                bounds.magnitudes.clear()
                self.at = q
                self.equation(q)
        live = live_equations(self.kernel, self.reads)
        for q, what, certain in self.found:
            (self.faults if certain and q in live else self.maybe).add(what)
        return self

    def replay(self, tensors, routes, rough=0.0, jitter=None):
        """rough: what is added to the derivatives of functions that end flat. jitter: random numbers by which the derivative that
        passes each read of a tensor is off, as a rounded cotangent is."""
        self.played, self.rough, self.jitter, kept = 0, rough, jitter, (set(self.faults), set(self.maybe))
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
        self.store(q, self.eval(q.value, asked), mask, asked)
        if q.name in self.rounded:
            t = self.tensors[q.name]
            self.tensors[q.name] = Float(t.v, t.e + 2.0 ** -8 * np.abs(t.v[:1]))
        return None

    def pack(self, q):
        t = self.tensors[q.value.data]
        order = (lambda a: a) if q.how == "pack" else (lambda a: np.swapaxes(a, -1, -2) if a.shape else a)
        self.tensors[q.name] = Float(order(t.v), order(t.e))


def rounded_differences(v, rng):
    """Pairs of copies along axis 0, each pair as far apart as the rounding of bf16 makes it."""
    if v.shape[0] % 2:
        return v
    middle, half = (v[0::2] + v[1::2]) / 2, (v[0::2] - v[1::2]) / 2
    half = half * (1 + 2.0 ** -8 * rng.uniform(-1, 1, half.shape))
    return np.stack([middle + half, middle - half], 1).reshape(v.shape)


def linear(e, dims):
    """{index: factor, None: what is added}, or None where it is not that."""
    if e.kind == "int":
        return {None: int(e.data)}
    if e.kind in ("dim", "index"):
        return {None: dims[e.data]} if e.kind == "dim" else {e.data: 1}
    if e.kind != "op" or e.data not in ("+", "-", "*", "neg", "idiv", "imod"):
        return None
    sides = [linear(a, dims) for a in e.args]
    if None in sides:
        return None
    if e.data in ("idiv", "imod"):
        by = max(sides[1].get(None, 0), 1)
        if set(sides[1]) > {None} or any(n % by for name, n in sides[0].items() if name is not None):
            return None
        return {name: n // by for name, n in sides[0].items()} if e.data == "idiv" else {None: sides[0].get(None, 0) % by}
    if e.data == "*":
        number = next((s for s in sides if set(s) <= {None}), None)
        other = sides[0] if number is sides[1] else sides[1]
        return None if number is None else {name: n * number.get(None, 0) for name, n in other.items()}
    signs = {"+": (1, 1), "-": (1, -1), "neg": (-1,)}[e.data]
    return {name: sum(sign * s.get(name, 0) for sign, s in zip(signs, sides)) for name in {n for s in sides for n in s}}


def free_factors(e, bound):
    """Also those of both sides of an `if`, whose condition may be known, and an inner sum of those of its terms."""
    if e.kind == "op" and e.data in ("*", "/", "neg"):
        return [f for a in e.args for f in free_factors(a, bound)]
    if e.kind == "if":
        return [f for a in e.args[1:] for f in free_factors(a, bound)]
    if not varies(e, bound):
        return [e]
    if e.kind == "reduce" and e.data[0] != "sum":
        shorter = free_sides(e, bound)
        return [] if uses(shorter, bound) else [shorter]
    if e.kind == "reduce":
        conditions = tuple(None if a is None or uses(a, bound) else a for a in e.args[1:])
        alone = free_factors(e.args[0], bound | {name for name, _ in e.data[1]}) if conditions != e.args[1:] else []
        return alone + [Expr("reduce", e.data, (f, *conditions)) for f in free_factors(e.args[0], bound)]
    return []


def free_sides(e, bound):
    """e with only a side of each `if` which is free of the indices: its condition may be known, or its sides alike. Likewise
    the condition of a reduction."""
    args = tuple(a if a is None else free_sides(a, bound) for a in e.args)
    if e.kind == "reduce":
        args = args[:1] + tuple(None if a is not None and uses(a, bound) else a for a in args[1:])
    if e.kind == "if" and uses(e, bound) and not (uses(args[1], bound) and uses(args[2], bound)):
        side = args[2] if uses(args[1], bound) else args[1]
        return Expr("real", f"{side.data}.0") if side.kind == "int" else side
    return Expr(e.kind, e.data, args)


def leaves_reciprocals(e, bound):
    """Whether a quotient in a sum's term loses a factor to the result: 0.75 / x is exact where 1 / x is rounded."""
    divides = any(x.kind == "op" and x.data == "/" and uses(x.args[1], bound) for x in walk(e))
    return divides and bool(free_factors(e, bound))


def uses(e, indices):
    return any(x.kind == "index" and x.data in indices for x in walk(e))


class Sizes:
    def __getitem__(self, name):
        return 1009 + sum(map(ord, name))


def varies(e, indices):
    """As `uses`, but that i - i does not."""
    if e.kind == "index":
        return e.data in indices
    found = linear(e, Sizes()) if e.kind == "op" else None
    if found is not None:
        return any(found.get(name) for name in indices)
    return any(varies(a, indices) for a in e.args if a is not None)


def is_plain(e):
    """Numbers, sizes and indices only: it can be asked anywhere."""
    return all(x.kind in ("int", "real", "dim", "index", "op", "if", "call") for x in walk(e))


def is_zero(e):
    return e.kind in ("int", "real") and float(e.data) == 0


def layer(e, other):
    """Condition, value and indices of e, which is `other` where the condition does not hold; else None."""
    if e.kind == "if" and (e.args[2] == other or is_zero(e.args[2]) and is_zero(other)):
        return e.args[0], e.args[1], ()
    if e.kind == "reduce" and e.data[0] == "sum" and is_zero(other):
        return e.args[1], e.args[0], [name for name, _ in e.data[1]]
    if e.kind == "op" and e.data in ("*", "/") and is_zero(other):      # of a factor that is 0 the product is
        for i, factor in enumerate(e.args[:1] if e.data == "/" else e.args):
            if found := layer(factor, other):
                c, value, names = found
                return c, Expr("op", e.data, e.args[:i] + (value,) + e.args[i + 1:]), names
    return None


def conjuncts(c):
    if c.kind == "op" and c.data == "and":
        return conjuncts(c.args[0]) + conjuncts(c.args[1])
    return [c]
