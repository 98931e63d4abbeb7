"""Random programs. A Maker writes one kernel; expressions are in expressions.py, equations with a purpose (products,
attention, experts, scatters) in patterns.py, kernels as people write them in everyday.py and routed.py."""
import random
from dataclasses import replace

import everyday
import patterns
import routed
from expressions import Expressions
from program import Derive, Dim, Equation, Expr, Group, Kernel, Module, Param, index, load, op, walk

DENSE = ["A", "B", "C", "H", "T", "E"]


class Maker(Expressions):
    def __init__(self, rng, module, name):
        self.rng, self.module, self.name = rng, module, name
        self.params, self.equations, self.tensors, self.into = [], [], {}, {}
        self.unsaved = set()
        self.fresh, self.route = 0, None
        self.dense = rng.sample(DENSE, rng.choice([2, 3, 3, 4])) + (["D"] if rng.random() < 0.2 else [])
        self.derivable = rng.random() < 0.5
        self.faulty = rng.random() < 0.12     # may index outside, overflow an i32, take the max of nothing
        if rng.random() < 0.4:
            patterns.add_route(self)

    # ---- names ----

    def new(self, letter):
        self.fresh += 1
        return f"{letter}{self.fresh}"

    def space(self):
        rng = self.rng
        if rng.random() < 0.06:
            return rng.choice(["2", "3", "2*" + rng.choice(self.dense), rng.choice(self.dense) + " + 1", "T*K"])
        return rng.choice(self.dense)

    def spaces(self, ranks):
        return [self.space() for _ in range(self.rng.choice(ranks))]

    def left_spaces(self):
        out = self.spaces([0, 1, 2, 2, 2, 3])
        if self.route and self.rng.random() < 0.35:
            out.insert(0, self.group)
        elif self.route and self.rng.random() < 0.2:
            out.insert(0, self.rng.choice(["T", "E"]))
        return out

    # ---- tensors ----

    def param(self, role, elem, axes, letter="x", into=None, packed=False):
        name = self.new(letter)
        layout = ""
        if packed and elem != "i32" and len(axes) >= 2 and not any(a in ("R", "P") for a in axes[-2:]):
            layout = self.rng.choice(["", "", "", " packed", " packed both"])
        self.params.append(Param(role, name, elem, tuple(axes), layout))
        self.tensors[name] = (elem, tuple(axes))
        if into:
            self.into[name] = into
        return name

    def input(self, axes, elem=None):
        return self.param("in", elem or self.rng.choice(["f32", "f32", "f32", "bf16", "f16"]), axes, packed=True)

    def apart(self, name):
        """No equation to come reads this local, and no derive saves it."""
        del self.tensors[name]
        self.unsaved.add(name)

    # ---- equations ----

    def plain(self):
        """One equation of anything."""
        rng = self.rng
        left = self.left_spaces()
        scope = {self.new("v"): s for s in left}
        names = list(scope)
        if rng.random() < 0.15:
            return self.define_int(scope, names)
        value = self.float(scope, rng.choice([2, 3, 3, 4]))
        return self.define(scope, names, value)

    def define(self, scope, names, value, out=None):
        """Stores a float: local, out, or into an inout."""
        rng = self.rng
        axes = [scope[n] for n in names]
        way = rng.random()
        elem = rng.choice(["f32", "f32", "f32", "bf16", "f16"])
        integer = is_int(value, self.tensors)      # a local would be one, too
        wrapped = op(elem, value) if elem != "f32" or integer or rng.random() < 0.1 else value
        if way < 0.45 and out is None:
            name = self.new("u")
            self.tensors[name] = (elem, tuple(axes))
        elif way < 0.6 and not self.derivable and out is None:
            name = self.param("inout", "f32", axes, "q")
            how = rng.choice(["=", "+="])
            self.add(name, names, scope, how, value)
            return name
        else:
            name = self.param("out", elem, axes, "y", packed=True)
        self.add(name, names, scope, "=", wrapped, elem)
        return name

    def define_int(self, scope, names):
        axes = [scope[n] for n in names]
        value = self.int(scope, 3)
        if not self.faulty or self.rng.random() < 0.5:
            value = op("i32", value)
        role = self.rng.choice(["local", "out", "inout"] if not self.derivable else ["local", "out"])
        if role == "local":
            name = self.new("n")
            self.tensors[name] = ("i32", tuple(axes))
        else:
            name = self.param(role, "i32", axes, "n")
        self.add(name, names, scope, "+=" if role == "inout" and self.rng.random() < 0.5 else "=", value, "i32")
        return name

    def constants(self):
        """An output whose last axis is written place by place."""
        scope = {self.new("v"): s for s in self.spaces([1, 1, 2])}
        names, n = list(scope), self.rng.choice([1, 2, 3])
        name = self.param("out", "f32", [scope[i] for i in names] + [str(n)], "y")
        place = self.rng.randrange(len(names) + 1) if self.rng.random() < 0.3 else len(names)
        if place != len(names):
            self.params[-1] = Param("out", name, "f32", tuple(list(scope.values())[:place] + [str(n)] +
                                                              list(scope.values())[place:]))
            self.tensors[name] = ("f32", self.params[-1].axes)
        for c in self.rng.sample(range(n), n):
            inner = {self.new("v"): s for s in scope.values()}
            left = [index(i) for i in inner]
            left.insert(place, Expr("int", c))
            self.equations.append(Equation(name, tuple(left), tuple(inner.items()), "=", self.float(inner, 2)))
        return name

    def add(self, name, names, scope, how, value, elem="f32"):
        self.equations.append(Equation(name, tuple(index(n) for n in names), tuple((n, scope[n]) for n in names), how,
                                       value, elem=elem))

    # ---- the whole ----

    def kernel(self):
        rng = self.rng
        for _ in range(rng.choice([1, 2, 3, 3, 4, 5])):
            way = rng.random()
            if way < 0.5:
                self.plain()
            elif way < 0.57:
                self.constants()
            elif way < 0.76:
                rng.choice(routed.ALL if self.route and rng.random() < 0.5 else everyday.ALL)(self)
            else:
                rng.choice(patterns.ALL)(self)
        self.use_locals()
        derive = self.make_derive() if self.derivable else None
        return Kernel(self.name, tuple(self.params), tuple(self.equations), derive)

    def use_locals(self):
        """What nothing reads goes into an output: a local that is dropped computes nothing."""
        read = {x.data for q in self.equations if q.value is not None for x in walk_loads(q.value)}
        read |= {q.subscripts[0] for q in self.equations if q.how == "route"}
        written = {p.name for p in self.params if p.role != "in"}
        for name in [n for n in self.tensors if n not in read and n not in written and not self.is_input(n)]:
            elem, axes = self.tensors[name]
            scope = {self.new("v"): a for a in axes}
            out = self.param("out", elem, axes, "y", packed=True)
            self.add(out, list(scope), scope, "=", load(name, *(index(i) for i in scope)), elem)
        if not any(p.role != "in" for p in self.params):
            self.define({}, [], self.float({}, 3), out=True)
        used = read | {x.data for q in self.equations if q.value is not None for x in walk_loads(q.value)}
        used |= {x.data for q in self.equations for s in q.subscripts if isinstance(s, Expr) for x in walk_loads(s)}
        used |= {q.subscripts[0] for q in self.equations if q.how == "route"}
        keep = [p for p in self.params if p.role != "in" or p.elem == "route" or p.name in used]
        self.params = keep

    def is_input(self, name):
        return any(p.name == name for p in self.params)

    def make_derive(self):
        rng = self.rng
        residual = self.residual() if rng.random() < 0.3 else None
        floats = [p.name for p in self.params if p.role == "in" and p.elem not in ("i32", "route")]
        if not floats or not any(p.role == "out" and p.elem not in ("i32", "route") for p in self.params):
            return None
        wrt = rng.sample(floats, rng.randint(1, len(floats)))
        locals_ = [q.name for q in self.equations if q.how == "=" and not any(p.name == q.name for p in self.params)
                   and q.elem != "i32" and q.name not in self.unsaved]
        chosen = rng.sample(locals_, min(len(locals_), rng.choice([0, 0, 1, 2])))
        saves = tuple((n, elem, self.held(n, elem)) for n, elem in [(n, rng.choice(["f32", "bf16"])) for n in chosen])
        wrt = tuple((n, " pass" if n == residual or rng.random() < 0.02 else rng.choice(["", " +=", " as f32"])) for n in wrt)
        first = rng.randrange(1, len(wrt)) if len(wrt) > 1 and rng.random() < 0.5 else 0
        return Derive(wrt, saves, rng.random() < 0.7, first)

    def held(self, local, elem):
        """The output that holds what is saved, added for that; or nothing."""
        q = next(q for q in self.equations if q.name == local)
        if self.rng.random() < 0.6 or any(s.kind != "index" for s in q.subscripts):
            return ""
        out = self.param("out", elem, [dict(q.spaces)[s.data] for s in q.subscripts], "y")
        value = load(local, *q.subscripts)
        self.equations.append(replace(q, name=out, value=value if q.elem == elem else op(elem, value), elem=elem))
        return out

    def residual(self):
        """Adds an input to an output, whose cotangent is then its gradient: its name begins with r. NONE: nothing fits."""
        read = {x.data for q in self.equations if q.value is not None for x in walk_loads(q.value)}
        read |= {x.data for q in self.equations for s in q.subscripts if isinstance(s, Expr) for x in walk_loads(s)}
        outs = {p.name: p for p in self.params if p.role == "out" and p.elem not in ("i32", "route") and p.name not in read}
        for n, q in enumerate(self.equations):
            alone = q.how == "=" and sum(q.name == other.name for other in self.equations) == 1
            # where the choice of a token may be dropped, there is no element and no cotangent
            dropped = q.value is not None and any(x.kind == "row" for x in walk(q.value))
            if q.name not in outs or not alone or dropped or any(s.kind != "index" for s in q.subscripts):
                continue
            name = self.param("in", outs[q.name].elem, outs[q.name].axes, "r")
            total = op("+", q.value, load(name, *q.subscripts))
            self.equations[n] = replace(q, value=total if outs[q.name].elem == "f32" else op(outs[q.name].elem, total))
            return name
        return None


def is_int(e, tensors):
    """Whether an expression is an integer by section 4 of the page."""
    if e.kind == "load":
        return tensors[e.data][0] == "i32"
    if e.kind == "op":
        return e.data == "i32" or (e.data in ("+", "-", "*", "neg", "abs", "max2", "min2", "stop", "shift", "idiv", "imod") and
                                   all(is_int(a, tensors) for a in e.args))
    if e.kind == "if":
        return is_int(e.args[1], tensors) and is_int(e.args[2], tensors)
    if e.kind == "reduce":
        return is_int(e.args[0], tensors)
    return e.kind in ("int", "dim", "index", "token", "slot", "row", "at")


def walk_loads(e):

    return [x for x in walk(e) if x.kind == "load"]


def declarations(rng):
    dims = [Dim("A"), Dim("B"), Dim("C"), Dim("H", multiple=rng.choice([1, 2, 4])), Dim("T"), Dim("K", most=8), Dim("E"),
            Dim("M"), Dim("D", constant=rng.choice([1, 1, 1, 2, 3, 0]))]
    groups = [Group("R", "E", "rows", "T*K"), Group("P", "E", "capacity", "M")]
    a, b = Expr("argument", "a"), Expr("argument", "b")
    real = lambda t: Expr("real", t)
    fns = [("sq", ("a",), op("-", op("*", a, a), a)),
           ("leak", ("a",), Expr("if", None, (op(">", a, Expr("int", 0)), a, op("*", a, real("0.5"))))),
           ("mix", ("a", "b"), op("+", op("*", a, real("0.25")), op("*", b, real("0.75"))))]
    return tuple(dims), tuple(groups), tuple(fns)


def make_module(seed, kernels):
    """(module, into): into[kernel][tensor] is the space that an i32 tensor's elements index."""
    rng = random.Random(seed)
    dims, groups, fns = declarations(rng)
    module = Module(dims, groups, fns, ())
    made, into = [], {}
    for n in range(kernels):
        maker = Maker(random.Random(f"{seed} {n}"), module, f"k{n}")
        made.append(maker.kernel())
        into[f"k{n}"] = {**maker.into, "faulty": maker.faulty}
    types = tuple(t for t in (("brain", "bf16"), ("half", "f16")) if rng.random() < 0.4)
    return Module(dims, groups, fns, tuple(made), types=types), into
