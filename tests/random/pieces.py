"""What kernels as people write them are made of."""
from program import Expr, index, load, op, reduce


def local(m, names, scope, value, elem="f32"):
    """A local of the value; gives its access at the same indices."""
    name = m.new("u")
    m.tensors[name] = (elem, tuple(scope[n] for n in names))
    m.add(name, names, scope, "=", value if elem == "f32" else op(elem, value), elem)
    return load(name, *(index(n) for n in names))


def at(e, **to):
    """The access with other indices; a value is an expression."""
    return load(e.data, *(to.get(s.data, s) for s in e.args))


def total(bind, body, where=None):
    return reduce("sum", [bind], body, where)


def product(x, y, bind, where=None):
    return total(bind, op("*", x, y), where)


def some(m, *ways):
    return m.rng.choice(ways)


def variables(m, n):
    return [m.new("v") for _ in range(n)]


def choice(condition, then, other):
    return Expr("if", None, (condition, then, other))


def ids(m, axes, into):
    return m.param("in", "i32", axes, "j", into=into)
