"""Sizes from shapes, as the compiler solves them (driver/solve.c), for sizes that may be symbols (torch.compile)."""


def value_of(extent, sizes):
    """The extent, or None if one of its dimensions is not known."""
    total = 0
    for coef, *dims in extent["terms"]:
        for d in dims:
            if sizes.get(d) is None:
                return None
            coef = coef * sizes[d]
        total = total + coef
    return total


def solve_extent(extent, size, sizes):
    """Finds the one unknown dimension, if it stands in one term to the first power."""
    rest, factor, unknown = size, None, None
    for coef, *dims in extent["terms"]:
        missing = [d for d in dims if sizes.get(d) is None]
        for d in dims:
            coef = coef if d in missing else coef * sizes[d]
        if not missing:
            rest = rest - coef
        elif len(missing) == 1 and unknown is None:
            factor, unknown = coef, missing[0]
        else:
            return
    if unknown is not None and factor:
        sizes[unknown] = rest // factor


def solve(kernel, shapes, given=None):
    """The sizes of dimensions by name. shapes: by parameter, those of a route are its four sizes; None: not known."""
    sizes = {**kernel.module.constants, **{d: n for d, n in (given or {}).items() if n is not None and n >= 0}}
    for _ in kernel.dims:
        known = len(sizes)
        for p, shape in zip(kernel.params, shapes):
            for extent, size in zip(p.extents, shape or ()):
                solve_extent(extent, size, sizes)
        if len(sizes) == known:
            break
    return sizes


def shape_of(param, sizes):
    """Of a parameter at these sizes; None where one is not known."""
    shape = tuple(value_of(e, sizes) for e in param.extents)
    return None if None in shape else shape


def unknown_size(param, sizes):
    """A dimension of a parameter's shape that is not among these."""
    return next(d for e in param.extents for _, *dims in e["terms"] for d in dims if d not in sizes)


def undetermined(kernel, params):
    """Dimensions that a call passes and the shapes of these parameters do not tell."""
    known, before = set(kernel.module.constants), -1
    while len(known) != before:
        before = len(known)
        for p in params:
            for extent in p.extents:
                unknown = [[d for d in dims if d not in known] for _, *dims in extent["terms"]]
                unknown = [dims for dims in unknown if dims]
                if len(unknown) == 1 and len(unknown[0]) == 1:
                    known.add(unknown[0][0])
    return [d for d in kernel.dims if d not in known]


EDGE, LINE, HEADER = 32, 64, 64     # Note [Layouts] of ir/tensor.h, abi.def
BYTES = {"f32": 4, "bf16": 2, "f16": 2}


def packed_bytes(param, shape):
    """Of packed memory for rows of that shape, as packed_bytes() of driver/pack.c."""
    def matrix(rows, columns):
        line = LINE // BYTES[param.type]
        return (rows + line - 1) // line * line * ((columns + EDGE - 1) // EDGE * EDGE)
    *outer, rows, columns = shape
    elements = matrix(rows, columns) + (matrix(columns, rows) if param.both else 0)
    for n in outer:
        elements = elements * n
    return HEADER + elements * BYTES[param.type]
