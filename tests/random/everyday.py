"""Kernels as people write them, each with choices at random: what random expressions hit too rarely, whole."""
from expressions import both, real
from pieces import at, choice, ids, local, product, some, total, variables
from program import Equation, Expr, Param, index, load, number, op, reduce
from routed import group_of

# ---- attention ----

def positions(m, j, i, b, n_batch, s):
    """What a parameter says of position j: a length, documents side by side, a first position, a mask; perhaps causal."""
    rng = m.rng
    way = rng.random()
    causal = op("<=", index(j), index(i)) if i and rng.random() < 0.5 else None
    if way < 0.25:
        return causal
    if way < 0.5:
        length = load(ids(m, [n_batch], s), index(b))
        return some(m, both(causal, op("<", index(j), length)), both(op("<=", index(j), length), causal) if causal else
                    op("<", index(j), length))
    if way < 0.7 and i:
        doc = ids(m, [s], None)
        return both(causal, op("==", load(doc, index(j)), load(doc, index(i))))
    if way < 0.8 and i:
        return both(causal, op(">=", index(j), load(ids(m, [s], s), index(i))))
    return both(causal, op(">", load(ids(m, [n_batch, s], None), index(b), index(j)), number(1)))


def attention(m):
    """Of a batch: keys of few heads, queries of all positions, of few, or of another sequence, in one of the usual layouts."""
    rng = m.rng
    nb, nn, s, d = m.space(), m.space(), m.space(), m.space()
    nq = some(m, "K", "K", s, s, m.space())
    few = nq != s
    b, n, i, j, e = variables(m, 5)
    scope = {b: nb, n: nn, i: nq, j: s, e: d}
    order = some(m, [b, n, None, e], [b, None, n, e], [n, b, None, e])
    elem = some(m, "bf16", "bf16", "f32", "f16")

    def tensor(position, space):
        axes = [position if a is None else a for a in order]
        return load(m.input([space if a == position else scope[a] for a in axes], elem), *(index(a) for a in axes))

    q, k, v = tensor(i, nq), tensor(j, s), tensor(j, s)
    where = positions(m, j, None if few else i, b, nb, s)
    score = local(m, [b, n, i, j], scope, op("*", product(q, k, (e, d)), some(m, real("0.5"), op("rsqrt", op("+", m.extent(d), number(1))))))
    most = local(m, [b, n, i], scope, reduce("max", [(j, s)], score, where))
    hold = some(m, "shift", "shift", "stop")
    weight = local(m, [b, n, i, j], scope, op("exp", op("-", score, op(hold, most))))
    norm = local(m, [b, n, i], scope, total((j, s), weight, where))
    factor = op("bf16", weight) if elem == "bf16" and rng.random() < 0.7 else weight
    value = op("/", product(factor, v, (j, s), where), norm)
    if hold == "stop":
        value = op("/", product(factor, v, (j, s), where), op("+", norm, real("0.5")))
    elif where is not None or rng.random() < 0.3:
        value = choice(op(">", norm, real("0.0")), value, real("0.0"))
    names = [i if a is None else a for a in order]
    m.define({a: scope[a] for a in names}, names, value)
    for name in (weight, norm):
        m.apart(name.data)


def paged(m):
    """A query for each sequence against a cache that lies in pages, which a table picks; positions are a page and a place."""
    rng = m.rng
    nb, nn, nk, pages, held, d = m.space(), m.space(), some(m, "2", "1", "K"), m.space(), m.space(), m.space()
    size = some(m, "2", "3", "D", m.space())
    b, n, c, p, o, e = variables(m, 6)
    scope = {b: nb, n: nn, c: nk, p: pages, o: size, e: d}
    elem = some(m, "bf16", "f32")
    page = load(ids(m, [nb, pages], held), index(b), index(p))
    q = load(m.input([nb, nn, nk, d], elem), index(b), index(n), index(c), index(e))
    k, v = (load(m.input([held, size, nn, d], elem), page, index(o), index(n), index(e)) for _ in range(2))
    place = op("+", op("*", index(p), m.extent(size)), index(o))
    where = some(m, None, op("<", place, load(ids(m, [nb], pages), index(b))))
    score = local(m, [b, n, c, p, o], scope, product(q, k, (e, d)))
    binds = [(p, pages), (o, size)]
    most = local(m, [b, n, c], scope, reduce("max", binds, score, where))
    hold = some(m, "shift", "stop")
    weight = local(m, [b, n, c, p, o], scope, op("exp", op("-", score, op(hold, most))))
    norm = local(m, [b, n, c], scope, reduce("sum", binds, weight, where))
    value = reduce("sum", binds, op("*", weight, v), where)
    if hold == "stop":
        value = op("/", value, op("+", norm, real("0.5")))
    else:
        value = choice(op(">", norm, real("0.0")), op("/", value, norm), real("0.0"))
    m.define({b: nb, n: nn, c: nk, e: d}, [b, n, c, e], value)
    for name in (weight, norm):
        m.apart(name.data)


def einsum(m):
    """A product of two tensors with axes in any order: batches, rows, columns, and terms, each perhaps several."""
    rng = m.rng
    batch, rows, columns, terms = (variables(m, n) for n in some(m, (0, 1, 1, 2), (1, 1, 1, 1), (1, 1, 1, 2), (2, 1, 1, 1), (0, 2, 1, 1),
                                                                 (0, 1, 2, 1), (1, 2, 1, 1), (0, 1, 2, 2), (1, 1, 2, 1), (1, 0, 2, 1)))
    scope = {v: m.space() for v in batch + rows + columns + terms}
    elem = some(m, "bf16", "bf16", "f32", "f16")

    def operand(own):
        axes = own + terms + [b for b in batch if rng.random() < 0.8]
        rng.shuffle(axes)
        return load(m.input([scope[a] for a in axes], elem if rng.random() < 0.9 else None), *(index(a) for a in axes))

    body = op("*", operand(rows), operand(columns))
    if rng.random() < 0.3:
        near = some(m, terms, rows + batch or terms, columns)
        body = op("*", body, load(m.input([scope[near[0]]], some(m, "f32", elem)), index(near[0])))
    if rng.random() < 0.15:
        body = op("neg", body)
    value = reduce("sum", [(t, scope[t]) for t in terms], body, m.condition(scope, 1) if rng.random() < 0.2 else None)
    names = batch + rows + columns
    rng.shuffle(names)
    m.define({n: scope[n] for n in names}, names, value)


# ---- rows ----

def cross_entropy(m):
    """Of scores against words, with the one that the target picks."""
    rng = m.rng
    st, sh, sv = m.space(), m.space(), m.space()
    t, h, v = variables(m, 3)
    scope = {t: st, h: sh, v: sv}
    x, w = load(m.input([st, sh]), index(t), index(h)), load(m.input([sv, sh]), index(v), index(h))
    score = local(m, [t, v], scope, product(x, w, (h, sh)))
    most = local(m, [t], scope, reduce("max", [(v, sv)], score))
    below = total((v, sv), op("exp", op("-", score, op("stop", most))))
    target = load(ids(m, [st], sv), index(t))
    picked = at(score, **{v: target})
    if rng.random() < 0.4:
        c = op("and", op(">=", target, number(0)), op("<", target, m.extent(sv)))
        picked = choice(c, picked, real("0.0"))
    value = op("-", op("+", op("log", op("+", below, real("0.5"))), op("max2", op("min2", most, number(9)), number(-9))), picked)
    if rng.random() < 0.5:
        m.define({t: st}, [t], value)
        return
    loss = local(m, [t], scope, value)
    m.define({}, [], op("/", total((t, st), loss), op("+", number(1), m.extent(st))))


def layer_norm(m):
    rng = m.rng
    st, sh, f = m.space(), m.space(), m.space()
    t, h, c = variables(m, 3)
    scope = {t: st, h: sh, c: f}
    x = load(m.input([st, sh]), index(t), index(h))
    if rng.random() < 0.5:
        x = local(m, [t, h], scope, op("+", x, load(m.input([st, sh]), index(t), index(h))), some(m, "f32", "bf16"))
    count = op("+", m.extent(sh), number(1))
    mean = local(m, [t], scope, op("/", total((h, sh), x), count))
    away = op("-", x, mean)
    var = local(m, [t], scope, op("/", total((h, sh), op("*", away, away)), count))
    y = op("*", op("*", away, op("rsqrt", op("+", var, real("0.5")))), load(m.input([sh]), index(h)))
    y = op("+", y, load(m.input([sh]), index(h))) if rng.random() < 0.5 else y
    if rng.random() < 0.5:
        m.define({t: st, h: sh}, [t, h], y)
        return
    n = local(m, [t, h], scope, y, some(m, "bf16", "f32"))
    m.define({t: st, c: f}, some(m, [t, c], [c, t]), product(n, load(m.input([sh, f]), index(h), index(c)), (h, sh)))


def rotary(m):
    """Pairs that lie apart or next to each other."""
    st, sn, sd = m.space(), m.space(), m.space()
    t, n, d = variables(m, 3)
    x = m.input([st, sn, sd, "2"]) if m.rng.random() < 0.5 else m.input([st, sn, "2", sd])
    last = m.tensors[x][1][-1] == "2"
    part = lambda c: load(x, index(t), index(n), *([index(d), number(c)] if last else [number(c), index(d)]))
    cos, sin = (load(m.input([st, sd], "f32"), index(t), index(d)) for _ in range(2))
    name = m.param("out", "f32", list(m.tensors[x][1]), "y")
    for c, value in ((0, op("-", op("*", part(0), cos), op("*", part(1), sin))), (1, op("+", op("*", part(1), cos), op("*", part(0), sin)))):
        left = [index(t), index(n)] + ([index(d), number(c)] if last else [number(c), index(d)])
        m.equations.append(Equation(name, tuple(left), ((t, st), (n, sn), (d, sd)), "=", value))


def convolution(m):
    rng = m.rng
    st, sc, sf = m.space(), m.space(), m.space()
    t, c, f, k = variables(m, 4)
    size = some(m, "2", "3", "K")
    where_, shift = [], some(m, 0, 1)
    place = op("-", index(t), index(k)) if rng.random() < 0.5 else op("-", op("+", index(t), index(k)), number(shift))
    m.guard_inside(place, st, where_)
    condition = None
    for w in where_:
        condition = both(condition, w)
    x = load(m.input([st, sc]), place, index(c))
    if rng.random() < 0.4:     # each channel by itself
        m.define({t: st, c: sc}, [t, c], total((k, size), op("*", x, load(m.input([size, sc]), index(k), index(c))), condition))
        return
    w = load(m.input([size, sc, sf]), index(k), index(c), index(f))
    binds = [(k, size), (c, sc)]
    rng.shuffle(binds)
    m.define({t: st, f: sf}, [t, f], reduce("sum", binds, op("*", x, w), condition))


def pool(m):
    """The largest, the smallest or the mean of a window that moves on by its own length, or by less."""
    rng = m.rng
    st, sc = m.space(), m.space()
    t, c, k = variables(m, 3)
    size, stride = some(m, "2", "3", "K"), some(m, number(1), number(2), number(3))
    place = op("+", op("*", stride, index(t)), index(k))
    guards, condition = [], None
    m.guard_inside(place, st, guards)
    for g in guards:
        condition = both(condition, g)
    x = load(m.input([st, sc]), place, index(c))
    value = reduce(some(m, "max", "min", "sum"), [(k, size)], x, condition)
    m.define({t: st, c: sc}, some(m, [t, c], [c, t]), op("max2", op("min2", value, number(9)), number(-9)))


def nearest(m):
    """Squares of distances of two sets of points, by difference or by product, and the nearest."""
    rng = m.rng
    si, sj, sd = m.space(), m.space(), m.space()
    i, j, d, c, best = variables(m, 5)
    scope = {i: si, j: sj, d: sd}
    x, y = load(m.input([si, sd]), index(i), index(d)), load(m.input([sj, sd]), index(j), index(d))
    away = op("-", x, y)
    if rng.random() < 0.5:
        value = total((d, sd), op("*", away, away))
    else:
        square = lambda v: total((d, sd), op("*", v, v))
        value = op("-", op("+", square(x), square(y)), op("*", number(2), product(x, y, (d, sd))))
    distance = local(m, [i, j], scope, value)
    if rng.random() < 0.5:
        m.define({i: si}, [i], op("min2", number(9), reduce("min", [(j, sj)], distance)))
    count = some(m, "1", "2", "K")
    least, chosen = m.param("out", "f32", [si, count], "y"), m.new("n")
    m.tensors[chosen], m.into[chosen] = ("i32", (si, count)), sj
    m.equations.append(Equation(least, (index(i), index(c)), ((i, si), (c, count)), "top",
                                reduce("max", [(best, sj)], op("neg", at(distance, **{j: index(best)}))), second=chosen))
    if rng.random() < 0.5:
        near = load(y.data, load(chosen, index(i), index(c)), index(d))
        m.define({i: si, c: count, d: sd}, [i, c, d], op("-", x, near))


def group_norm(m):
    """Of channels in groups, over their positions too."""
    rng = m.rng
    sb, sg, sc, st = m.space(), m.space(), some(m, "2", "3", m.space()), m.space()
    b, g, c, t = variables(m, 4)
    scope = {b: sb, g: sg, c: sc, t: st}
    names = some(m, [b, t, g, c], [b, g, c, t])
    x = load(m.input([scope[n] for n in names]), *(index(n) for n in names))
    binds = [(c, sc), (t, st)]
    rng.shuffle(binds)
    count = op("+", op("*", m.extent(sc), m.extent(st)), number(1))
    mean = local(m, [b, g], scope, op("/", reduce("sum", binds, x), count))
    away = op("-", x, mean)
    var = local(m, [b, g], scope, op("/", reduce("sum", binds, op("*", away, away)), count))
    y = op("*", away, op("rsqrt", op("+", var, real("0.5"))))
    if rng.random() < 0.6:
        y = op("*", y, load(m.input([sg, sc]), index(g), index(c)))
    m.define(scope, names, y)


def chain(m):
    """A product of a product, with a matrix of its own size perhaps: what iterations over matrices do."""
    rng = m.rng
    s, f = m.space(), m.space()
    i, j, k, c = variables(m, 4)
    scope = {i: s, j: s, k: s, c: f}
    elem = some(m, "bf16", "f32")
    x = m.input([s, f], elem)
    gram = local(m, [i, j], scope, product(load(x, index(i), index(c)), load(x, index(j), index(c)), (c, f)), some(m, "f32", elem))
    second = product(gram, load(gram.data, index(k), index(j)), (j, s)) if rng.random() < 0.5 else at(gram, **{j: index(k)})
    mixed = local(m, [i, k], scope, op("+", op("*", real("0.5"), at(gram, **{j: index(k)})), op("*", real("0.25"), second)))
    triangle = op("<=", index(k), index(i)) if rng.random() < 0.4 else None
    value = product(mixed, load(x, index(k), index(c)), (k, s), triangle)
    m.define({i: s, c: f}, some(m, [i, c], [c, i]), op("+", load(x, index(i), index(c)), op("*", real("0.125"), value)))


def blocks_with_scales(m):
    """A product with integer weights, of which each block of terms has a scale of its own."""
    rng = m.rng
    st, sb, size, sf = m.space(), m.space(), some(m, "2", "3", m.space()), m.space()
    t, b, c, f = variables(m, 4)
    elem = some(m, "bf16", "f32")
    x = load(m.input([st, sb, size], elem), index(t), index(b), index(c))
    w = op("f32", load(ids(m, [sb, size, sf], "3"), index(b), index(c), index(f)))
    w = op("-", w, number(1)) if rng.random() < 0.5 else w
    scale = load(m.input([sb, sf], "f32"), index(b), index(f))
    if rng.random() < 0.5:
        value = reduce("sum", [(b, sb), (c, size)], op("*", x, op("*", w, scale)))
    else:
        value = total((b, sb), op("*", scale, total((c, size), op("*", x, w))))
    m.define({t: st, f: sf}, [t, f], value)


def prefix(m):
    """Sums over what came before, or comes behind, perhaps fading, masked, or of another length."""
    st, sh = m.space(), m.space()
    su = some(m, st, st, st, m.space())
    t, h, u = variables(m, 3)
    x = load(m.input([su, sh]), index(u), index(h))
    apart = some(m, index(u), index(u), op("+", index(u), number(1)), op("-", index(u), number(2)))
    where = op(some(m, "<=", "<", ">=", ">"), *some(m, [apart, index(t)], [index(t), apart]))
    if m.rng.random() < 0.3:
        where = op("and", where, op(some(m, ">", "=="), load(ids(m, [su], None), index(u)), number(1)))
    body = some(m, x, op("*", x, op("exp", op("-", op("min2", load(m.input([st], "f32"), index(t)), number(2)), number(2)))))
    m.define({t: st, h: sh}, some(m, [t, h], [h, t]), reduce(some(m, "sum", "sum", "max"), [(u, su)], body, where))


def mean_of_some(m):
    st, sb, sh = m.space(), m.space(), m.space()
    b, t, h = variables(m, 3)
    where = op(some(m, ">", "==", "<"), load(ids(m, [sb, st], None), index(b), index(t)), number(1))
    count = total((t, st), op("f32", number(1)), where)
    x = load(m.input([sb, st, sh]), index(b), index(t), index(h))
    m.define({b: sb, h: sh}, [b, h], op("/", total((t, st), x, where), op("max2", number(1), count)))


# ---- products ----

def gated(m):
    """Two products of one left operand, an activation, a third; perhaps adapters of a small rank."""
    rng = m.rng
    st, sh, sf, so = m.space(), m.space(), m.space(), m.space()
    t, h, f, o, r = variables(m, 5)
    scope = {t: st, h: sh, f: sf, o: so, r: "K"}
    elem = some(m, "bf16", "f32")
    x = load(m.input([st, sh], elem), index(t), index(h))
    gate, up = (product(x, load(m.input([sh, sf], elem), index(h), index(f)), (h, sh)) for _ in range(2))
    if rng.random() < 0.4:
        low = local(m, [t, r], scope, product(x, load(m.input([sh, "K"], elem), index(h), index(r)), (h, sh)), elem)
        up = op("+", up, product(low, load(m.input(["K", sf], elem), index(r), index(f)), (r, "K")))
    a = local(m, [t, f], scope, op("*", op(some(m, "silu", "gelu", "relu"), gate), op("tanh", up)), elem)
    y = product(a, load(m.input([sf, so], elem), index(f), index(o)), (f, sf))
    if rng.random() < 0.4:
        y = op("+", y, load(m.input([st, so]), index(t), index(o)))
    if rng.random() < 0.3:
        keep = op(">", load(ids(m, [st], None), index(t)), number(0))
        y = choice(keep, y, load(m.input([so]), index(o)))
    m.define({t: st, o: so}, [t, o], y)


def together(m):
    """Elements of the same rows and columns, of products that share operands; some are added to each other. In rows of a group or not."""
    rng = m.rng
    grouped = bool(m.route) and rng.random() < 0.6
    st, sf, *spaces = m.group if grouped else m.space(), m.space(), m.space(), m.space()
    r, f, *terms = variables(m, 4)
    elem = some(m, "bf16", "f32")

    def weight(h, sh):
        turned = rng.random() < 0.3
        at_group, axes = ([group_of(index(r))], ["E"]) if grouped else ([], [])
        return load(m.input(axes + ([sf, sh] if turned else [sh, sf]), elem), *at_group, *((index(f), index(h)) if turned else (index(h), index(f))))

    lefts = [(h, sh, load(m.input([st, sh], elem), index(r), index(h))) for h, sh in zip(terms, spaces) for _ in range(some(m, 1, 2))]
    for _ in range(some(m, 1, 2, 2, 3)):
        value = None
        for _ in range(some(m, 1, 2, 2, 3)):
            h, sh, x = rng.choice(lefts)
            one = product(x, weight(h, sh), (h, sh))
            value = one if value is None else op("+", *rng.sample([value, one], 2))
        if rng.random() < 0.3:
            value = op(some(m, "relu", "tanh"), value)
        m.define({r: st, f: sf}, [r, f], value)


def embedding(m):
    """Rows that ids pick, with positions, and what they are multiplied with."""
    rng = m.rng
    st, sv, sh, sf = m.space(), m.space(), m.space(), m.space()
    t, h, f = variables(m, 3)
    scope = {t: st, h: sh, f: sf}
    token = load(ids(m, [st], sv), index(t))
    x = load(m.input([sv, sh]), token, index(h))
    x = op("+", x, load(m.input([st, sh]), index(t), index(h))) if rng.random() < 0.5 else x
    if rng.random() < 0.5:
        m.define({t: st, h: sh}, [t, h], x)
        return
    x = local(m, [t, h], scope, x, some(m, "bf16", "f32")) if rng.random() < 0.6 else x
    m.define({t: st, f: sf}, [t, f], product(x, load(m.input([sf, sh]), index(f), index(h)), (h, sh)))


def gates(m):
    """Choices of experts by a softmax, and how evenly they are loaded."""
    rng = m.rng
    t, h, e, c, k = variables(m, 5)
    sh = m.space()
    scope = {t: "T", h: sh, e: "E", k: "K"}
    logits = local(m, [t, e], scope, product(load(m.input(["T", sh]), index(t), index(h)),
                                             load(m.input([sh, "E"]), index(h), index(e)), (h, sh)))
    most = local(m, [t], scope, reduce("max", [(e, "E")], logits))
    z = local(m, [t], scope, total((e, "E"), op("exp", op("-", logits, op("stop", most)))))
    p = local(m, [t, e], scope, op("/", op("exp", op("-", logits, op("stop", most))), op("+", z, real("0.5"))))
    best, chosen = m.new("u"), m.new("n")
    count = some(m, "K", "2", "1")
    m.tensors[best], m.tensors[chosen] = ("f32", ("T", count)), ("i32", ("T", count))
    m.into[chosen] = "E"
    m.equations.append(Equation(best, (index(t), index(k)), ((t, "T"), (k, count)), "top", reduce("max", [(c, "E")], at(p, **{e: index(c)})),
                                second=chosen))
    here = load(best, index(t), index(k))
    share = op("/", here, op("+", real("0.5"), total((c, count), at(here, **{k: index(c)}))))
    if rng.random() < 0.5:
        m.define({t: "T", k: count}, [t, k], share)
    load_of = reduce("sum", [(t, "T"), (k, count)], op("f32", number(1)), op("==", load(chosen, index(t), index(k)), index(e)))
    if rng.random() < 0.5:
        m.define({e: "E"}, [e], load_of)
        return
    f = local(m, [e], scope, load_of)
    m.define({}, [], op("/", total((e, "E"), op("*", f, total((t, "T"), p))), op("+", number(1), op("*", Expr("dim", "T"), Expr("dim", "T")))))


# ---- memory ----

def optimizer(m):
    """Moments and weights that are updated in place, and perhaps packed."""
    rng = m.rng
    if m.derivable:
        return gated(m)
    axes = [m.space() for _ in range(rng.choice([1, 2, 2, 3]))]
    names = variables(m, len(axes))
    scope = dict(zip(names, axes))
    here = [index(n) for n in names]
    moments = [m.param("inout", "f32", axes, "q") for _ in range(rng.choice([1, 2]))]
    g = load(m.input(axes, some(m, "f32", "bf16")), *here)
    w = m.param("inout", "f32", axes, "q")
    step = g
    for name in moments:
        new = op("+", op("*", real("0.75"), load(name, *here)), op("*", real("0.25"), some(m, g, op("*", g, g))))
        m.add(name, names, scope, "=", new)
        step = some(m, load(name, *here), op("/", g, op("+", number(1), op("abs", load(name, *here)))))
    value = op("-", load(w, *here), op("*", real("0.5"), step))
    m.add(w, names, scope, "=", value)
    if rng.random() < 0.6:
        out = m.param("out", some(m, "bf16", "f32"), axes, "y", packed=True)
        elem = m.tensors[out][0]
        m.add(out, names, scope, "=", op(elem, load(w, *here)) if elem != "f32" else load(w, *here), elem)
    return None


def turned(m):
    """Copies with axes in another order, a part of an axis, or one index twice."""
    rng = m.rng
    axes = [m.space() for _ in range(rng.choice([2, 3, 3, 4]))]
    names = variables(m, len(axes))
    order = list(range(len(axes)))
    rng.shuffle(order)
    condition, subs = None, []
    x = m.input(axes)
    for place, n in enumerate(names):
        shifted = rng.random() < 0.15
        subs.append(op("+", index(n), number(1)) if shifted else index(n))
        if shifted:
            condition = both(condition, op("<", subs[-1], m.extent(axes[place])))
    value = load(x, *subs)
    if condition is not None:
        value = choice(condition, value, real("0.5"))
    if rng.random() < 0.3:
        value = op("*", value, load(m.input([axes[order[0]]], "f32"), index(names[order[0]])))
    m.define(dict(zip(names, axes)), [names[o] for o in order], value)


ALL = [attention, attention, attention, paged, einsum, einsum, einsum, cross_entropy, layer_norm, group_norm, rotary,
       convolution, pool, prefix, nearest, mean_of_some, gated, gated, together, together, chain, blocks_with_scales, embedding, gates, optimizer,
       turned]
