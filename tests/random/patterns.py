"""Equations with a purpose: what the compiler recognises and treats in ways of its own, and what random expressions
rarely hit."""
from program import Equation, Expr, Param, index, load, number, op, reduce
from expressions import real


def add_route(m):
    """A route for the kernel: a parameter, or made here from ids."""
    rng = m.rng
    group = rng.choice(["R", "R", "P"])
    way = rng.random()
    if way < 0.5:
        m.params.append(Param("in", "rt", "route", ("T", "K", group)))
        m.group, m.route = group, "rt"
        return
    if way < 0.75:
        ids = m.param("in", "i32", ["T", "K"], "id", into="E-1")
    else:
        ids = top(m, "T", "K", "E")
    if way < 0.6 or way > 0.95:
        m.params.append(Param("out", "rt", "route", ("T", "K", group)))
    m.equations.append(Equation("rt", (ids, group), (), "route", None))
    m.group, m.route = group, "rt"


def top(m, rows=None, k=None, e=None):
    """The k largest; returns the name of the ids."""
    rng = m.rng
    rows, k, e = rows or m.space(), k or rng.choice(["K", "2", "1"]), e or m.space()
    t, c, j = m.new("v"), m.new("v"), m.new("v")
    scope = {t: rows, j: e}
    if rng.random() < 0.3:
        x = m.param("in", "i32", [rows, e], "j")
        value, elem = load(x, index(t), index(j)), "i32"
    elif rng.random() < 0.5:
        value, elem = load(m.input([rows, e], "f32"), index(t), index(j)), "f32"
    else:
        value, elem = op("f32", m.float(scope, 2)), "f32"
    out_p, out_i = rng.random() < 0.5, rng.random() < 0.3
    if elem == "i32" and (rng.random() < 0.7 or m.into is None):
        elem = "f32"
        out_p = True
    p = m.param("out", elem, [rows, k], "y") if out_p else m.new("u")
    i = m.param("out", "i32", [rows, k], "n") if out_i else m.new("n")
    m.tensors[p], m.tensors[i] = (elem, (rows, k)), ("i32", (rows, k))
    m.into[i] = e
    left = (index(t), index(c))
    m.equations.append(Equation(p, left, ((t, rows), (c, k)), "top", reduce("max", [(j, e)], value), second=i, elem=elem))
    return i


def factor(m, name, subs, scope):
    """An operand: an access, perhaps in something."""
    e = load(name, *subs)
    way = m.rng.random()
    return op("tanh", e) if way < 0.08 else op("*", e, real("0.5")) if way < 0.12 else e


def band(m, i, k, rows, terms):
    """Terms between two bounds that move with the row, up or down, and may leave nothing."""
    rng = m.rng
    few, row, term, n = number(rng.choice([1, 2, 40])), index(i), index(k), m.extent(terms)
    below = rng.choice([op(">=", term, row), op(">", term, op("-", row, few)), op(">=", op("+", term, row), few),
                        op(">=", term, op("-", m.extent(rows), row))])
    above = rng.choice([op("<", op("+", row, term), n), op("<=", term, op("+", row, op("-", n, m.extent(rows)))),
                        op("<", op("+", op("*", number(2), row), term), n), op("<", term, op("-", row, few))])
    return op("and", *rng.sample([below, above], 2))


def product(m):
    """Sums of products of two tensors in every layout."""
    rng = m.rng
    i, j, k = m.new("v"), m.new("v"), m.new("v")
    si, sj, sk = m.space(), m.space(), m.space()
    batch = rng.random() < 0.25
    b, sb = m.new("v"), m.space()
    scope = {**({b: sb} if batch else {}), i: si, j: sj}
    elem = rng.choice(["f32", "bf16", "bf16", "f16"])

    def operand(free):
        axes = [(free, scope[free]), (k, sk)]
        rng.shuffle(axes)
        if batch and rng.random() < 0.8:
            axes.insert(0, (b, sb))
        name = m.input([s for _, s in axes], elem if rng.random() < 0.9 else None)
        subs = [index(n) for n, _ in axes]
        return factor(m, name, subs, scope)

    x, y = operand(i), operand(j)
    inner = {**scope, k: sk}
    where = m.condition(inner, 1) if rng.random() < 0.35 else band(m, i, k, si, sk) if rng.random() < 0.15 else None
    body = op("*", x, y)
    if rng.random() < 0.2:
        body = op("*", body, m.leaf(scope))
    if rng.random() < 0.1:
        body = op("/", body, real("2.5"))
    value = reduce(rng.choice(["sum"] * 8 + ["max", "min"]), [(k, sk)], body, where)
    if rng.random() < 0.4:
        value = op(rng.choice(["+", "*", "max2"]), value, m.float(scope, 1))
    if rng.random() < 0.3:
        value = op(rng.choice(["silu", "gelu", "tanh", "relu"]), value)
    if rng.random() < 0.15:
        value = Expr("if", None, (m.condition(scope, 1), value, m.leaf(scope)))
    names = list(scope)
    if rng.random() < 0.2:
        rng.shuffle(names)
    m.define(scope, names, value)


def norm(m):
    """A row's statistics, and what is done with them."""
    rng = m.rng
    t, h, h2, st, sh = m.new("v"), m.new("v"), m.new("v"), m.space(), m.space()
    x = m.input([st, sh])
    s = m.new("u")
    at = load(x, index(t), index(h))
    value = rng.choice([
        lambda: op("rsqrt", op("+", op("/", reduce("sum", [(h, sh)], op("*", at, at)), op("+", m.extent(sh), number(1))), real("0.5"))),
        lambda: reduce("max", [(h, sh)], at), lambda: reduce("sum", [(h, sh)], op("exp", op("min2", at, number(1))))])()
    m.tensors[s] = ("f32", (st,))
    m.add(s, [t], {t: st}, "=", value)
    t2 = m.new("v")
    scope = {t2: st, h2: sh}
    body = op(rng.choice(["*", "-", "+"]), load(x, index(t2), index(h2)), load(s, index(t2)))
    m.define(scope, [t2, h2], op("*", body, m.leaf(scope)) if rng.random() < 0.5 else body)


def attention(m):
    """Scores, a mask, softmax, a weighted sum."""
    rng = m.rng
    s, n, d = m.space(), m.space(), m.space()
    q, k, v = (m.input([s, n, d], rng.choice(["f32", "bf16"])) for _ in range(3))
    i, j, b, e = (m.new("v") for _ in range(4))
    mask = rng.choice([op("<=", index(j), index(i)), op("<", index(i), op("+", index(j), number(3))),
                       op("and", op("<=", index(j), index(i)), op("<", op("-", index(i), index(j)), number(2))), None,
                       m.condition({i: s, j: s}, 1)])
    scope = {b: n, i: s, j: s}
    score, most, weight, norm_ = m.new("u"), m.new("u"), m.new("u"), m.new("u")
    for name, axes in ((score, (n, s, s)), (most, (n, s)), (weight, (n, s, s)), (norm_, (n, s))):
        m.tensors[name] = ("f32", axes)
    names = [b, i, j]
    here = [index(x) for x in names]
    m.add(score, names, scope, "=", op("*", reduce("sum", [(e, d)], op("*", load(q, index(i), index(b), index(e)),
                                                                     load(k, index(j), index(b), index(e)))), real("0.5")))
    m.add(most, [b, i], scope, "=", reduce("max", [(j, s)], load(score, *here), mask))
    hold = rng.choice(["stop", "shift"])
    m.add(weight, names, scope, "=", op("exp", op("-", load(score, *here), op(hold, load(most, index(b), index(i))))))
    m.add(norm_, [b, i], scope, "=", reduce("sum", [(j, s)], load(weight, *here), mask))
    body = reduce("sum", [(j, s)], op("*", load(weight, *here), load(v, index(j), index(b), index(e))), mask)
    below = load(norm_, index(b), index(i))
    if hold == "stop":
        m.define({i: s, b: n, e: d}, [i, b, e], op("/", body, op("+", below, real("0.5"))))
        return
    # the factor of a shift cancels: nothing else may read what has it
    rounded = rng.choice([body, body, reduce("sum", [(j, s)], op("*", op("bf16", load(weight, *here)),
                                                                 load(v, index(j), index(b), index(e))), mask)])
    value = op("/", rounded, below)
    if mask is not None:
        value = Expr("if", None, (op(">", below, real("0.0")), value, real("0.0")))
    m.define({i: s, b: n, e: d}, [i, b, e], value)
    for name in (weight, norm_):
        m.apart(name)


def experts(m):
    """Rows in groups: permute, grouped products, weighted unpermute."""
    rng = m.rng
    if not m.route:
        return product(m)
    g = m.group
    h, f = m.space(), m.space()
    elem = rng.choice(["f32", "bf16"])
    x, w, v = m.input(["T", h], elem), m.input(["E", h, f], elem), m.input(["E", f, h], elem)
    r, a, b = m.new("v"), m.new("v"), m.new("v")
    row = index(r)
    xp, u = m.new("u"), m.new("u")
    m.tensors[xp], m.tensors[u] = (elem, (g, h)), ("f32", (g, f))
    m.add(xp, [r, a], {r: g, a: h}, "=", load(x, Expr("token", "rt", (row,)), index(a)), elem)
    where = m.condition({r: g, a: h, b: f}, 1) if rng.random() < 0.25 else None
    m.add(u, [r, b], {r: g, b: f}, "=", reduce("sum", [(a, h)], op("*", load(xp, row, index(a)),
                                                                  load(w, Expr("at", None, (row,)), index(a), index(b))), where))
    act = rng.choice([lambda e: e, lambda e: op("silu", e), lambda e: op("*", e, e)])
    c = m.new("u")
    m.tensors[c] = (elem, (g, f))
    m.add(c, [r, b], {r: g, b: f}, "=", op(elem, act(load(u, row, index(b)))), elem)
    if rng.random() < 0.3:
        e = m.new("v")
        inside = [index(e)]
        total = reduce("sum", [(r, g)], op("*", load(xp, row, index(a)), load(c, row, index(b))), None, inside)
        m.define({e: "E", a: h, b: f}, [e, a, b], total)
        return None
    o = m.new("u")
    m.tensors[o] = ("f32", (g, h))
    m.add(o, [r, a], {r: g, a: h}, "=", reduce("sum", [(b, f)], op("*", load(c, row, index(b)),
                                                                  load(v, Expr("at", None, (row,)), index(b), index(a)))))
    return unpermute(m, o, h)


def unpermute(m, o, h):
    rng = m.rng
    t, k, a = m.new("v"), m.new("v"), m.new("v")
    p = m.input(["T", "K"], "f32")
    back = Expr("row", "rt", (index(t), index(k)))
    term = load(o, back, index(a))
    if rng.random() < 0.2:
        term = Expr("if", None, (op(">=", back, number(0)), term, real("0.5")))
    where = m.condition({t: "T", k: "K", a: h}, 1) if rng.random() < 0.2 else None
    body = op("*", load(p, index(t), index(k)), term)
    scope = {t: "T", a: h}
    value = reduce(rng.choice(["sum", "sum", "sum", "max"]), [(k, "K")], body, where)
    if rng.random() < 0.3:
        value = op("+", value, m.leaf(scope))
    return m.define(scope, [t, a], value)


def buckets(m):
    """sum(t where id[t] == v), and the same as a scatter."""
    rng = m.rng
    t, v, h = m.new("v"), m.new("v"), m.new("v")
    st, sv, sh = m.space(), m.space(), m.space()
    ids = m.param("in", "i32", [st], "j", into=sv)
    wide = rng.random() < 0.6
    scope = {v: sv, **({h: sh} if wide else {})}
    inner = {**scope, t: st}
    equal = op("==", load(ids, index(t)), index(v))
    if rng.random() < 0.3:
        equal = op("==", index(v), load(ids, index(t)))
    if rng.random() < 0.25:
        equal = op("and", equal, m.condition(inner, 1))
    if not m.derivable and rng.random() < 0.5:
        axes = [sv] + ([sh] if wide else [])
        y = m.param("inout", "f32", axes, "q")
        left = (load(ids, index(t)),) + ((index(h),) if wide else ())
        value = m.float({t: st, **({h: sh} if wide else {})}, 2)
        m.equations.append(Equation(y, left, ((t, st),) + (((h, sh),) if wide else ()), "+=", value))
        return
    if rng.random() < 0.3:
        name = m.param("out", "i32", list(scope.values()), "n")
        m.add(name, list(scope), scope, "=", reduce("sum", [(t, st)], number(1), equal), "i32")
        return
    kind = rng.choice(["sum", "sum", "sum", "max", "min"])
    m.define(scope, list(scope), reduce(kind, [(t, st)], m.float(inner, 1), equal))


def packs(m):
    """A packed output made by pack or pack_t."""
    rng = m.rng
    if m.derivable:
        return product(m)
    axes = [m.space() for _ in range(rng.choice([2, 2, 3]))]
    x = m.param("in", "f32", axes, "x")
    transposed = rng.random() < 0.5
    to = axes[:-2] + [axes[-1], axes[-2]] if transposed else axes
    name = m.new("y")
    m.params.append(Param("out", name, "f32", tuple(to), rng.choice([" packed", " packed both"])))
    m.tensors[name] = ("f32", tuple(to))
    m.equations.append(Equation(name, (), (), "pack_t" if transposed else "pack", Expr("load", x)))
    return None


def tops(m):
    top(m)


ALL = [product, product, product, norm, attention, experts, experts, experts, buckets, buckets, tops, packs]
