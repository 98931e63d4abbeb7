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
