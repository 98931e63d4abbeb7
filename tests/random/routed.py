"""Kernels of experts as people write them, forward and backward, in the rows of a route."""
from expressions import both, real
from pieces import choice, local, product, some, total, variables
from program import Expr, index, load, number, op, reduce


def group_of(row):
    return Expr("at", None, (row,))


def token(row):
    return Expr("token", "rt", (row,))


def slot(row):
    return Expr("slot", "rt", (row,))


def row_of(t, k):
    return Expr("row", "rt", (index(t), index(k)))


def of_rows(m, r, h, sh, elem):
    """What a row has in h: permuted before, picked where it is read, or an input that lies in rows."""
    way = m.rng.random()
    if way < 0.3:
        return load(m.input([m.group, sh], elem), index(r), index(h))
    x = load(m.input(["T", sh], elem), token(index(r)), index(h))
    return local(m, [r, h], {r: m.group, h: sh}, x, elem) if way < 0.6 else x


def store(m, scope, names, value, elem="f32"):
    """An output or a local in rows, the choice among which a token's sum may follow."""
    if m.rng.random() < 0.3:
        m.define({n: scope[n] for n in names}, names, value)
        return None
    return local(m, names, scope, value, elem)


def back_to_tokens(m, o, r, h, sh):
    """Adds the rows of each token, weighted or not, with or without asking whether the choice has a row."""
    rng = m.rng
    t, k, a = variables(m, 3)
    here = row_of(t, k)
    value = load(o.data, here, index(a))
    if rng.random() < 0.7:
        value = op("*", load(m.input(["T", "K"], "f32"), index(t), index(k)), value)
    where = op(">=", here, number(0)) if rng.random() < 0.4 else None
    value = total((k, "K"), value, where)
    if rng.random() < 0.4:
        value = op("+", value, load(m.input(["T", sh]), index(t), index(a)))
    m.define({t: "T", a: sh}, [t, a], value)


def expert(m):
    """A grouped product: adapters of a small rank, a bias, an activation, a token's weight; perhaps for some terms only."""
    rng = m.rng
    r, h, f, c = variables(m, 4)
    sh, sf = m.space(), m.space()
    scope = {r: m.group, h: sh, f: sf, c: "K"}
    row, elem = index(r), some(m, "bf16", "f32")
    x = of_rows(m, r, h, sh, elem)
    axes = some(m, [h, f], [f, h])
    w = load(m.input(["E"] + [scope[a] for a in axes], elem), group_of(row), *(index(a) for a in axes))
    where = m.condition({r: m.group, h: sh}, 1) if rng.random() < 0.3 else None
    y = product(x, w, (h, sh), where)
    if rng.random() < 0.3:
        low = local(m, [r, c], scope, product(x, load(m.input(["E", sh, "K"], elem), group_of(row), index(h), index(c)), (h, sh)), elem)
        y = op("+", y, product(low, load(m.input(["E", "K", sf], elem), group_of(row), index(c), index(f)), (c, "K")))
    if rng.random() < 0.4:
        y = op("+", y, load(m.input(["E", sf]), group_of(row), index(f)))
    if rng.random() < 0.5:
        y = op(some(m, "silu", "gelu", "relu"), y)
    if rng.random() < 0.3:
        y = op("*", y, load(m.input(["T", "K"], "f32"), token(row), slot(row)))
    if rng.random() < 0.2:
        y = choice(m.condition({r: m.group}, 1), y, real("0.5"))
    o = store(m, scope, [r, f], y, some(m, "f32", elem))
    if o is not None:
        back_to_tokens(m, o, r, f, sf)


def token_gradient(m):
    """What rows say of their token, summed where the rows are picked."""
    rng = m.rng
    t, k, h, f, r = variables(m, 5)
    sh, sf = m.space(), m.space()
    elem, here = some(m, "bf16", "f32"), row_of(t, k)
    d = of_rows(m, r, f, sf, elem)
    d = d if d.args[0].kind == "index" else local(m, [r, f], {r: m.group, f: sf}, d, elem)
    w = m.input(["E", sh, sf], elem)
    body = op("*", load(d.data, here, index(f)), load(w, group_of(here), index(h), index(f)))
    where = op(">=", here, number(0))
    if rng.random() < 0.3:
        where = both(where, m.condition({t: "T", k: "K", h: sh, f: sf}, 1))
    if rng.random() < 0.3:
        body = op("*", body, load(m.input(["T", "K"], "f32"), index(t), index(k)))
    binds = [(k, "K"), (f, sf)]
    rng.shuffle(binds)
    m.define({t: "T", h: sh}, some(m, [t, h], [h, t]), reduce("sum", binds, body, where))


def weight_gradient(m):
    """Sums over the rows of a group, stored or added."""
    rng = m.rng
    r, e, h, f = variables(m, 4)
    sh, sf = m.space(), m.space()
    elem = some(m, "bf16", "bf16", "f32")
    x, d = of_rows(m, r, h, sh, elem), of_rows(m, r, f, sf, elem)
    body = op("*", x, d)
    if rng.random() < 0.3:
        body = op("*", body, load(m.input(["T", "K"], "f32"), token(index(r)), slot(index(r))))
    where = m.condition({r: m.group, h: sh}, 1) if rng.random() < 0.3 else None
    value = reduce("sum", [(r, m.group)], body, where, [index(e)])
    names = some(m, [e, h, f], [e, f, h], [h, e, f])
    scope = {e: "E", h: sh, f: sf}
    if not m.derivable and rng.random() < 0.5:
        q = m.param("inout", "f32", [scope[n] for n in names], "q")
        m.add(q, names, scope, "+=", value)
    else:
        m.define({n: scope[n] for n in names}, names, value)


def statistics(m):
    """A number of each group, which its rows then use."""
    rng = m.rng
    r, e, h = variables(m, 3)
    sh = m.space()
    x = of_rows(m, r, h, sh, "f32")
    wide = rng.random() < 0.5
    scope = {r: m.group, e: "E", h: sh}
    names = [e, h] if wide else [e]
    binds = [(r, m.group)] if wide else [(r, m.group), (h, sh)]
    inside = [index(e)] + [None] * (len(binds) - 1)
    where = m.condition({r: m.group, h: sh}, 1) if rng.random() < 0.3 else None
    kind = some(m, "sum", "sum", "max")
    value = reduce(kind, binds, some(m, x, op("*", x, x), op("abs", x)), where, inside)
    if kind == "max":
        value = op("max2", op("min2", value, number(9)), number(-9))
    number_of = reduce("sum", [(r, m.group)], op("f32", number(1)), None, [index(e)])
    if rng.random() < 0.5:
        value = op("/", value, op("+", number(1), number_of))
    s = local(m, names, scope, value)
    used = load(s.data, group_of(index(r)), *([index(h)] if wide else []))
    o = store(m, scope, [r, h], some(m, op("-", x, used), op("*", x, op("rsqrt", op("+", real("0.5"), op("abs", used))))))
    if o is not None:
        back_to_tokens(m, o, r, h, sh)


def choice_gradient(m):
    """What a token's weight for a choice gets: a product of its row and the token's gradient, 0 without a row."""
    rng = m.rng
    t, k, h, r = variables(m, 4)
    sh = m.space()
    here = row_of(t, k)
    o = load(m.input([m.group, sh]), here, index(h))
    value = product(o, load(m.input(["T", sh]), index(t), index(h)), (h, sh))
    if rng.random() < 0.7:
        value = choice(op(">=", here, number(0)), value, real("0.0"))
    p = local(m, [t, k], {t: "T", k: "K"}, value)
    if rng.random() < 0.5:
        m.define({t: "T", k: "K"}, [t, k], op("*", p, load(m.input(["T", "K"], "f32"), index(t), index(k))))
        return
    by_row = load(p.data, token(index(r)), slot(index(r)))
    m.define({r: m.group, h: sh}, [r, h], op("*", by_row, load(m.input(["T", sh]), token(index(r)), index(h))))


ALL = [expert, expert, expert, token_gradient, token_gradient, weight_gradient, weight_gradient, statistics, choice_gradient]
