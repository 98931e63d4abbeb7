"""Random expressions. `scope` maps the indices that may be used to their spaces. Floats stay of moderate size, so that
bounds stay small; denominators are at least 1, but for dimensions."""
from program import Expr, index, load, number, op, reduce

ROWS = ("R", "P")
FUNCTIONS = ["tanh", "sigmoid", "silu", "gelu", "relu", "abs", "sqrt", "exp", "neg", "cast", "stop", "log", "rsqrt",
             "floor", "pow", "leak", "sq"]


def real(text):
    return Expr("real", text)


def both(a, b):
    return b if a is None else op("and", a, b)


class Expressions:
    # ---- subscripts ----

    def indices(self, scope, space=None):
        return [n for n, s in scope.items() if (s == space if space else s not in ROWS)]

    def subscript(self, scope, space, guards, depth):
        """An index into the space, or None. What must hold for it to be inside goes to guards."""
        rng = self.rng
        plain = self.indices(scope, space)
        if space in ROWS:
            return self.row(scope, plain, guards)
        way = rng.random()
        if way < 0.14 and depth > 0:
            made = self.gather(scope, space, guards)
            if made:
                return made
        if way < 0.30 or (not plain and way < 0.8):
            made = self.affine(scope, space, guards)
            if made:
                return made
        rows = [n for n, s in scope.items() if s in ROWS]
        if rows and space in ("T", "K", "E") and (not plain or way > 0.7):
            kind = {"T": "token", "K": "slot", "E": "at"}[space]
            return Expr(kind, None if kind == "at" else self.route, (index(rng.choice(rows)),))
        if plain:
            return index(rng.choice(plain))
        if space.isdigit() and int(space) > 0:
            return number(rng.randrange(int(space)))
        return None

    def row(self, scope, plain, guards):
        if plain and self.rng.random() < 0.85:
            return index(self.rng.choice(plain))
        t, k = self.indices(scope, "T"), self.indices(scope, "K")
        if t and k and self.route:
            return Expr("row", self.route, (self.choice_of(scope, "T", t, guards), self.choice_of(scope, "K", k, guards)))
        return index(self.rng.choice(plain)) if plain else None

    def choice_of(self, scope, space, plain, guards):
        """A token or a choice of one: an index, one beside it, or one that a tensor names."""
        way = self.rng.random()
        if way < 0.12:
            return self.affine(scope, space, guards) or index(self.rng.choice(plain))
        named = self.gather(scope, space, guards) if way < 0.24 else None
        if named:
            self.guard_inside(named, space, guards)
        return named or index(self.rng.choice(plain))

    def affine(self, scope, space, guards):
        """stride * i + shift, perhaps + another index; guarded, well or (in faulty kernels) not well enough."""
        rng = self.rng
        names = self.indices(scope)
        if not names:
            return None
        i = rng.choice(names)
        e = index(i)
        way = rng.random()
        if way < 0.14:
            whole = self.whole_quotient(scope, space)
            if whole is not None:
                return whole
            inner = rng.choice([e, e, op("+", e, number(rng.choice([1, 2]))), op("-", e, index(rng.choice(names)))])
            e = op(rng.choice(["idiv", "imod"]), inner, self.divisor())
        elif way < 0.25:
            e = op("-", op("-", self.extent(scope[i]), number(1)), e)       # reversed
        elif way < 0.4:
            stride = rng.choice([number(2), number(3), Expr("dim", "D"), Expr("dim", "D"), number(-1), number(1), number(0)])
            e = op("*", stride, e)
            if rng.random() < 0.4:
                e = op("+", e, number(rng.choice([1, 2])))
        elif way < 0.55 and len(names) > 1:
            e = op(rng.choice(["+", "-"]), e, index(rng.choice(names)))
        else:
            e = op(rng.choice(["+", "-"]), e, number(rng.choice([1, 1, 2, 3])))
        self.guard_inside(e, space, guards)
        return e

    def divisor(self):
        """Literals from 2 on, and dimensions, which may be 0 in a call."""
        rng = self.rng
        named = Expr("dim", rng.choice([n for n in self.dense if n != "D"] + ["K"]))      # D may be 0 for good
        return rng.choice([number(2), number(3), number(rng.choice([4, 5, 16])), named,
                           op(rng.choice(["*", "+"]), number(rng.choice([1, 2])), named)])

    def whole_quotient(self, scope, space):
        """Of an index over 2*A, a place of A or of 2: proved to be inside."""
        for i in self.indices(scope):
            by = number(2) if scope[i].startswith("2*") else Expr("dim", "K") if scope[i] == "T*K" else None
            parts = (scope[i][2:], "2") if scope[i].startswith("2*") else ("T", "K")
            if by is not None and space in parts:
                return op("idiv" if space == parts[0] else "imod", index(i), by)
        return None

    def guard_inside(self, e, space, guards):
        rng = self.rng
        extent = self.extent(space)
        low = rng.choice([op(">=", e, number(0)), op("<=", number(0), e), op("not", op("<", e, number(0))),
                          op(">", e, number(-1)), op(">", op("+", e, number(1)), number(0))])
        high = rng.choice([op("<", e, extent), op(">", extent, e), op("<=", op("+", e, number(1)), extent),
                           op("<=", e, op("-", extent, number(1))), op("not", op(">=", e, extent))])
        if self.faulty and rng.random() < 0.3:
            high = op("<=", e, extent)
        guards += rng.choice([[low, high], [high, low], [op("and", low, high)]])

    def gather(self, scope, space, guards):
        """An element of an i32 tensor, or an integer computed from one or from a float."""
        rng = self.rng
        axes = [scope[i] for i in rng.sample(list(scope), min(len(scope), rng.choice([1, 1, 2])))]
        if not axes:
            return None
        known = [t for t, s in self.into.items() if s == space and all(self.indices(scope, a) for a in self.tensors[t][1])]
        if known and rng.random() < 0.7:
            name = rng.choice(known)
        else:
            name = self.param("in", "i32", axes, "j", into=space)
        subs = [index(rng.choice(self.indices(scope, a))) for a in self.tensors[name][1]]
        e = load(name, *subs)
        if rng.random() < 0.3:
            e = op(rng.choice(["+", "-"]), e, rng.choice([number(1), index(rng.choice(list(self.indices(scope)) or subs[:1] and [subs[0].data]))]))
            if rng.random() < 0.8 or not self.faulty:
                self.guard_inside(e, space, guards)
        elif rng.random() < 0.2:
            self.guard_inside(e, space, guards)
        return e

    def extent(self, space):
        """The space's extent as an expression."""
        if space.isdigit():
            return number(int(space))
        if space in ("T*K",):
            return op("*", Expr("dim", "T"), Expr("dim", "K"))
        if space.startswith("2*"):
            return op("*", number(2), Expr("dim", space[2:]))
        if space.endswith(" + 1"):
            return op("+", Expr("dim", space[:-4]), number(1))
        return Expr("dim", space)

    # ---- floats ----

    def float(self, scope, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return self.leaf(scope)
        way = rng.random()
        if way < 0.38:
            return self.binary(scope, depth)
        if way < 0.55:
            return self.function(scope, depth)
        if way < 0.60:
            name = rng.choice(["max2", "min2", "mix"])
            args = [self.float(scope, depth - 1), self.float(scope, depth - 1)]
            return Expr("call", "mix", tuple(args)) if name == "mix" else op(name, *args)
        if way < 0.70:
            return Expr("if", None, (self.condition(scope, depth - 1), self.float(scope, depth - 1),
                                     self.float(scope, depth - 1)))
        if way < 0.73:
            return op("f32", self.int(scope, depth - 1))
        return self.reduction(scope, depth)

    def binary(self, scope, depth):
        rng = self.rng
        a, b = self.float(scope, depth - 1), self.float(scope, depth - 1)
        name = rng.choice(["+", "-", "*", "*", "/"])
        if name == "/":
            b = rng.choice([op("+", number(1), op("abs", b)), number(4), real("1.5")])
        return op(name, a, b)

    def function(self, scope, depth):
        rng = self.rng
        a, name = self.float(scope, depth - 1), rng.choice(FUNCTIONS)
        special = {"sqrt": lambda: op("sqrt", op("abs", a)), "exp": lambda: op("exp", op("min2", a, number(2))),
                   "cast": lambda: op("f32", op(rng.choice(["bf16", "f16"]), op("*", a, real("1.0")))),
                   "log": lambda: op("log", op("+", number(1), op("abs", a))),
                   "rsqrt": lambda: op("rsqrt", op("+", real("0.5"), op("*", a, a))),
                   "pow": lambda: op("pow", op("+", real("0.25"), op("abs", a)), rng.choice([number(2), real("0.5"), op("tanh", a)])),
                   "leak": lambda: Expr("call", "leak", (a,)), "sq": lambda: Expr("call", "sq", (op("tanh", a),))}
        return special.get(name, lambda: op(name, a))()

    def leaf(self, scope):
        rng = self.rng
        if rng.random() < 0.82:
            made = self.access(scope)
            if made is not None:
                return made
        names = self.indices(scope)
        if names and rng.random() < 0.4:
            return op("*", real("0.25"), index(rng.choice(names)))
        if rng.random() < 0.1:
            return op("*", real("0.5"), Expr("dim", rng.choice(["A", "D", "K"])))
        return rng.choice([real("0.5"), real("2.0"), real("1.25"), op("neg", real("0.75")), real("0.0"), real("1.0"), number(1)])

    def readable(self):
        """Tensors that may be read: inputs, locals, outs that are written."""
        done = {q.name for q in self.equations} | {q.second for q in self.equations}
        roles = {p.name: p.role for p in self.params}
        partial = {q.name for q in self.equations if any(s.kind == "int" for s in q.subscripts if isinstance(s, Expr))}
        return [n for n in self.tensors if roles.get(n, "local") in ("in",) or
                (n in done and roles.get(n) != "inout" and n not in partial)]

    def access(self, scope):
        """A float of a tensor, guarded if need be."""
        rng = self.rng
        names = [n for n in self.readable() if self.tensors[n][0] != "i32"]
        rng.shuffle(names)
        if len(self.params) < 9 and (not names or rng.random() < 0.35):
            axes = [scope[i] for i in rng.sample(list(scope), min(len(scope), rng.choice([0, 1, 1, 2, 2, 3])))]
            if rng.random() < 0.3:
                axes.append(self.space())
            if sum(a in ROWS for a in axes) <= 1:
                names.insert(0, self.input(axes))
        for name in names[:4]:
            guards = []
            subs = [self.subscript(scope, a, guards, 1) for a in self.tensors[name][1]]
            if all(s is not None for s in subs):
                return self.guarded(load(name, *subs), guards)
        return None

    def guarded(self, e, guards):
        """e where the guards hold, so that nothing outside is read."""
        rows = [s for s in e.args if s.kind == "row"]
        if rows and self.rng.random() < 0.5:
            guards = guards + [op(">=", r, number(0)) for r in rows]
        if not guards:
            return e
        c = None
        for g in guards:
            c = both(c, g)
        other = self.rng.choice([number(0), real("0.5")])
        if self.rng.random() < 0.1:
            return Expr("if", None, (op("not", c), other, e))
        return Expr("if", None, (c, e, other))

    # ---- conditions ----

    def condition(self, scope, depth):
        rng = self.rng
        way = rng.random()
        if way < 0.16 and depth > 0:
            return op(rng.choice(["and", "or"]), self.condition(scope, depth - 1), self.condition(scope, depth - 1))
        if way < 0.22 and depth > 0:
            return op("not", self.condition(scope, depth - 1))
        names = self.indices(scope)
        if names and way < 0.42:
            return self.settled(scope, rng.choice(names))
        if names and way < 0.8:
            return self.compared(scope, names)
        if way < 0.86:
            return op(rng.choice(["<", ">=", "=="]), Expr("dim", rng.choice(["A", "B", "D"])), number(rng.choice([0, 1, 3, 1000])))
        return op(rng.choice(["<", ">", ">=", "<="]), self.float(scope, min(depth - 1, 1)), rng.choice([number(0), real("0.3"), real("0.7")]))

    def settled(self, scope, name):
        """What never or always holds, provably or not, of one index."""
        rng = self.rng
        i, n = index(name), self.extent(scope[name])
        never = [op("<", i, number(0)), op(">=", i, n), op(">", op("+", i, number(1)), n), op("==", i, n),
                 op("!=", i, i), op(">", i, i), op("<", n, number(0)), op("==", i, number(-1)), op(">", i, number(1000)),
                 op("and", op("<", i, number(1)), op(">", i, number(1))),
                 op("and", op("==", i, number(0)), op("==", i, number(2)))]
        c = rng.choice(never)
        return op("not", c) if rng.random() < 0.4 else c

    def compared(self, scope, names):
        rng = self.rng
        a, b = index(rng.choice(names)), rng.choice([index(rng.choice(names)), number(rng.choice([0, 1, 2, 3]))])
        way = rng.random()
        if way < 0.25:
            a = op(rng.choice(["+", "-"]), a, number(rng.choice([1, 2])))
        elif way < 0.35:
            a = op("*", rng.choice([number(2), Expr("dim", "D")]), a)
        elif way < 0.45:
            a = op(rng.choice(["idiv", "imod"]), op("+", a, number(1)) if rng.random() < 0.3 else a, self.divisor())
            if rng.random() < 0.3:
                b = op(a.data, b, a.args[1])
        elif way < 0.55:
            made = self.integer_load(scope)
            if made is not None:
                return op(rng.choice(["==", "==", "!=", "<", ">="]), made, rng.choice([a, number(1), number(0)]))
        return op(rng.choice(["<", "<=", ">", ">=", "==", "!="]), a, b)

    # ---- reductions ----

    def reduction(self, scope, depth):
        rng = self.rng
        kind = rng.choice(["sum", "sum", "sum", "max", "min"])
        scope2, binds, inside, where = self.binds(scope)
        if rng.random() < 0.45:
            where = self.condition(scope2, 2)
        way = rng.random()
        if kind == "sum" and way < 0.4:
            body = op("*", self.leaf(scope2), self.leaf(scope2))
        else:
            body = self.float(scope2, depth - 1)
        e = reduce(kind, binds, body, where, inside)
        if kind != "sum" and rng.random() < 0.7:
            e = op("max2", op("min2", e, number(9)), number(-9))
        return e

    def binds(self, scope):
        rng = self.rng
        groups = self.indices(scope, "E")
        if self.route and rng.random() < 0.35:
            name = self.new("v")
            inside = index(rng.choice(groups)) if groups and rng.random() < 0.7 else None
            return {**scope, name: self.group}, [(name, self.group)], [inside], None
        spaces = [self.space() for _ in range(rng.choice([1, 1, 1, 2]))]
        if self.route and rng.random() < 0.15:
            spaces = ["K"]
        names = [self.new("v") for _ in spaces]
        return {**scope, **dict(zip(names, spaces))}, list(zip(names, spaces)), None, None

    # ---- integers ----

    def int(self, scope, depth):
        rng = self.rng
        way = rng.random()
        if depth <= 0 or way < 0.3:
            return self.int_leaf(scope)
        if way < 0.55:
            b = self.int(scope, depth - 1) if rng.random() < 0.5 else number(rng.choice([1, 2, 3]))
            return op(rng.choice(["+", "-", "*"]), self.int(scope, depth - 1), b)
        if way < 0.59:
            by = rng.choice([self.divisor(), self.divisor(), self.integer_load(scope), op("+", number(1), op("abs", self.int(scope, depth - 1)))])
            return op(rng.choice(["idiv", "imod"]), self.int(scope, depth - 1), by or self.divisor())
        if way < 0.65:
            return op("i32", op("*", self.float(scope, depth - 1), number(rng.choice([1, 3, 3000000000]))))
        if way < 0.75:
            return Expr("if", None, (self.condition(scope, 1), self.int(scope, depth - 1), self.int(scope, depth - 1)))
        return self.int_reduction(scope, depth)

    def int_reduction(self, scope, depth):
        rng = self.rng
        kind = rng.choice(["sum", "sum", "max", "min"])
        scope2, binds, inside, where = self.binds(scope)
        if (kind == "sum" or self.faulty) and rng.random() < 0.6:
            where = self.condition(scope2, 1)
        e = reduce(kind, binds, self.int(scope2, depth - 1), where, inside)
        if kind == "sum" or self.faulty:
            return e
        enough = None       # of nothing it is an error
        for _, space in binds:
            if space in ROWS or inside and inside[0] is not None:
                return reduce("sum", binds, e.args[0], where, inside)
            enough = both(enough, op(">", self.extent(space), number(0)))
        return Expr("if", None, (enough, e, number(-1)))

    def int_leaf(self, scope):
        rng = self.rng
        if rng.random() < 0.5:
            made = self.integer_load(scope)
            if made is not None:
                return made
        rows = [n for n, s in scope.items() if s in ROWS]
        if rows and rng.random() < 0.5:
            kind = rng.choice(["token", "slot", "at"])
            return Expr(kind, None if kind == "at" else self.route, (index(rng.choice(rows)),))
        names = self.indices(scope)
        if names and rng.random() < 0.7:
            return index(rng.choice(names))
        return rng.choice([number(1), number(2), Expr("dim", "A"), Expr("dim", "D"), number(0)])

    def integer_load(self, scope):
        rng = self.rng
        fits = [n for n in self.readable() if self.tensors[n][0] == "i32" and all(self.indices(scope, a) for a in self.tensors[n][1])]
        if (not fits or rng.random() < 0.3) and len(self.params) < 10 and scope:
            axes = [scope[i] for i in rng.sample(list(scope), min(len(scope), rng.choice([1, 1, 2])))]
            if sum(a in ROWS for a in axes) <= 1:
                fits = [self.param("in", "i32", axes, "j", into=rng.choice([None, self.space()]))]
        if not fits:
            return None
        name = rng.choice(fits)
        return load(name, *(index(rng.choice(self.indices(scope, a))) for a in self.tensors[name][1]))
