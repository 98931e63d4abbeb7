"""Programs of the language as Python objects, and their text. The generator builds them, the evaluator reads them, the
shrinker takes them apart. Extents are Python texts such as "2*A" (the language's polynomials are Python's too)."""
import re
from dataclasses import dataclass, replace

BINARY = {"or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "+": 5, "-": 5, "*": 6, "/": 6}
CASTS = ("f32", "bf16", "f16", "i32")


@dataclass(frozen=True)
class Expr:
    """kind   data                      args
    int     the number                  -
    real    its text                    -
    dim     name                        -
    index   name                        -
    argument  of a fn: name             -
    op      operator, function, cast    operands
    if      -                           condition, then, else
    load    tensor                      subscripts
    reduce  (sum|max|min, binds)        body, where or None, the `in` of each bind or None
    token, slot, row   route            a row; a row; token and slot
    at      -                           a row
    call    name of a fn                arguments
    A bind is (index, space); a space is the text of an extent or the name of a group."""
    kind: str
    data: object = None
    args: tuple = ()


def number(n):
    return Expr("int", n)


def index(name):
    return Expr("index", name)


def op(name, *args):
    return Expr("op", name, args)


def load(tensor, *subscripts):
    return Expr("load", tensor, subscripts)


def reduce(kind, binds, body, where=None, inside=None):
    return Expr("reduce", (kind, tuple(binds)), (body, where) + tuple(inside or [None] * len(binds)))


def walk(e):
    yield e
    for a in e.args:
        if a is not None:
            yield from walk(a)


@dataclass(frozen=True)
class Param:
    role: str
    name: str
    elem: str          # f32 bf16 f16 i32, or route
    axes: tuple = ()   # of a route: tokens, choices, group
    packed: str = ""   # " packed", " packed both"

    def text(self):
        if self.elem == "route":
            return f"{self.role} {self.name}: route[{self.axes[0]}, {self.axes[1]} -> {self.axes[2]}]"
        axes = f"[{', '.join(self.axes)}]" if self.axes else ""
        return f"{self.role} {self.name}: {self.elem}{axes}{self.packed}"


@dataclass(frozen=True)
class Equation:
    """how: `=`, `+=`, top (two left sides; `binds` has one), route (subscripts are the ids' name and the group), pack,
    pack_t. `spaces` has the space of each index on the left."""
    name: str
    subscripts: tuple
    spaces: tuple
    how: str
    value: object
    second: str = ""
    elem: str = "f32"   # of what is written; of a local, the type that its value has


@dataclass(frozen=True)
class Derive:
    wrt: tuple           # (name, "", " +=", " as f32" or " pass")
    saves: tuple = ()    # (name, type, the output that holds it or "")
    cotangents: bool = False
    first: int = 0       # targets before `then`; 0: one backward kernel

    def without(self, n):
        """Without target n; None: it was the only one."""
        wrt, first = self.wrt[:n] + self.wrt[n + 1:], self.first - (n < self.first)
        return replace(self, wrt=wrt, first=max(first, 0) % len(wrt)) if wrt else None


@dataclass(frozen=True)
class Kernel:
    name: str
    params: tuple
    equations: tuple
    derive: object = None

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)


@dataclass(frozen=True)
class Dim:
    name: str
    most: int = -1
    multiple: int = 1
    constant: int = -1

    def text(self):
        return (f"dim {self.name}" + (f" <= {self.most}" if self.most >= 0 else "") +
                (f" : % {self.multiple}" if self.multiple > 1 else "") +
                (f" = {self.constant}" if self.constant >= 0 else ""))


@dataclass(frozen=True)
class Group:
    name: str
    groups: str
    kind: str       # rows, capacity
    extent: str

    def rows(self):
        """The extent of the row space."""
        return self.extent if self.kind == "rows" else f"({self.groups})*({self.extent})"


@dataclass(frozen=True)
class Module:
    dims: tuple
    groups: tuple
    fns: tuple      # (name, parameters, body); parameters are dims in the body
    kernels: tuple
    schedules: tuple = ()
    types: tuple = ()   # (name, type): `type` declarations; the text has the name in every place of the type

    def group(self, name):
        return next((g for g in self.groups if g.name == name), None)

    def kernel(self, name):
        return next(k for k in self.kernels if k.name == name)

    def with_kernel(self, kernel):
        return replace(self, kernels=tuple(kernel if k.name == kernel.name else k for k in self.kernels))


# ---- text ----

def bind_text(e, i):
    (name, space), inside = e.data[1][i], e.args[2 + i]
    if inside is not None:
        return f"{name}: {space} in {text(inside, 5)}"
    return name if has_extent(e.args[:2], name) else f"{name}: {space}"


def has_extent(expressions, name):
    """Whether a subscript that is nothing but the index gives its extent, before anything else binds the name."""
    return any(x.kind == "load" and any(s.kind == "index" and s.data == name for s in x.args)
               for e in expressions if e is not None for x in walk(e))


def reduce_text(e, level):
    binds = ", ".join(bind_text(e, i) for i in range(len(e.data[1])))
    where = f" where {text(e.args[1], 0)}" if e.args[1] is not None else ""
    body = text(e.args[0], 6)
    return f"({e.data[0]}({binds}{where}) {body})"


def text(e, level=0):
    """The text of e where operators that bind looser than `level` need parentheses."""
    if e.kind in ("int", "real", "dim", "index", "argument"):
        return str(e.data)
    if e.kind == "load":
        return e.data + (f"[{', '.join(text(a) for a in e.args)}]" if e.args else "")
    if e.kind == "if":
        return f"if({', '.join(text(a) for a in e.args)})"
    if e.kind in ("token", "slot", "row"):
        return f"{e.data}.{e.kind}({', '.join(text(a) for a in e.args)})"
    if e.kind == "at":
        return f"@{text(e.args[0], 9)}"
    if e.kind == "reduce":
        return reduce_text(e, level)
    if e.kind == "call":
        return f"{e.data}({', '.join(text(a) for a in e.args)})"
    if e.data in BINARY:
        mine = BINARY[e.data]
        left, right = (5, 5) if mine == 4 else (mine, mine + 1)
        whole = f"{text(e.args[0], left)} {e.data} {text(e.args[1], right)}"
        return f"({whole})" if mine < level else whole
    if e.data == "not":
        whole = f"not {text(e.args[0], 3)}"
        return f"({whole})" if level > 3 else whole
    if e.data == "neg":
        whole = f"-{text(e.args[0], 7)}"
        return f"({whole})" if level > 6 else whole
    return f"{e.data}({', '.join(text(a) for a in e.args)})"


def left_text(name, subscripts, spaces, kernel):
    if not subscripts:
        return name
    known = kernel.param(name) is not None
    parts = []
    for s in subscripts:
        plain = s.kind == "index" and not known and s.data in spaces
        parts.append(f"{s.data}: {spaces[s.data]}" if plain else text(s))
    return f"{name}[{', '.join(parts)}]"


def equation_text(q, kernel):
    spaces = dict(q.spaces)
    if q.how == "route":
        return f"{q.name} = route({q.subscripts[0]} -> {q.subscripts[1]})"
    if q.how in ("pack", "pack_t"):
        return f"{q.name} = {q.how}({q.value.data})"
    left = left_text(q.name, q.subscripts, spaces, kernel)
    if q.how == "top":
        bind, space = q.value.data[1][0]
        second = left_text(q.second, q.subscripts, spaces, kernel)
        return f"{left}, {second} = top({bind}: {space}) {text(q.value.args[0], 6)}"
    return f"{left} {q.how} {text(q.value)}"


def kernel_text(k):
    head = f"kernel {k.name}({', '.join(p.text() for p in k.params)}) {{\n"
    out = head + "".join(f"  {equation_text(q, k)}\n" for q in k.equations) + "}\n"
    if k.derive:
        d = k.derive
        targets = [", ".join(n + how for n, how in part) for part in (d.wrt[:d.first], d.wrt[d.first:]) if part]
        out += f"derive ({k.name}_fwd, {k.name}_bwd{f', {k.name}_later' if d.first else ''}) from {k.name} "
        out += f"wrt {' then '.join(targets)}"
        saves = ", ".join(f"{n} as {t}" + (f" in {held}" if held else "") for n, t, held in d.saves)
        out += (f" save {saves}" if saves else "") + (" cotangents f32" if d.cotangents else "")
        out += "\n"
    return out


def module_text(m):
    lines = ["moe 1"] + [d.text() for d in m.dims]
    lines += [f"group {g.name} : {g.groups} {g.kind} {g.extent}" for g in m.groups]
    lines += [f"fn {name}({', '.join(args)}) = {text(body)}" for name, args, body in m.fns]
    whole = "\n".join(lines + [kernel_text(k) for k in m.kernels]) + "".join(f"schedule {k} {{\n{s}\n}}\n" for k, s in m.schedules)
    for name, elem in m.types:
        whole = re.sub(rf"\b{elem}\b", name, whole)
    return whole.replace("moe 1\n", "moe 1\n" + "".join(f"type {name} = {elem}\n" for name, elem in m.types), 1)
