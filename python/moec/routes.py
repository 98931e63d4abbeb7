"""Which rows of which experts the tokens' choices become (language page, section 6)."""
from moec import _native
from moec.tensors import empty, torch_of


class Route:
    """Four tensors: start[E+1] and count[E], i64; slot_of[rows] and row_of[T, K], i32. They are not copied."""
    __slots__ = ("start", "count", "slot_of", "row_of", "address", "_memory")

    def __init__(self, start, count, slot_of, row_of):
        self.start, self.count, self.slot_of, self.row_of = start, count, slot_of, row_of

    def __getattr__(self, name):
        """`address`, of struct moe_route, is made when a call first asks for it."""
        if name != "address":
            raise AttributeError(name)
        self.fill()
        return self.address

    def fill(self, ids=None, capacity=-1):
        self._memory = bytearray(64)     # struct moe_route
        sizes = (*self.row_of.shape, self.count.shape[0], self.slot_of.shape[0])
        self.address = _native.route(self._memory, sizes, *self.tensors, ids, capacity)

    @property
    def tensors(self):
        return self.start, self.count, self.slot_of, self.row_of

    def __repr__(self):
        tokens, choices = self.row_of.shape
        return f"moec.Route({tokens} tokens, {choices} choices, {self.count.shape[0]} experts, {self.slot_of.shape[0]} rows)"


MOST = 2**31 - 1    # of rows, choices and experts: i32 numbers them


def as_i32(ids, experts):
    """Whole numbers; those that i32 does not hold are no expert's."""
    torch = torch_of([ids])
    if torch is not None:
        if ids.is_floating_point() or ids.is_complex():
            raise TypeError(f"ids are whole numbers, not {ids.dtype}")
        if ids.dtype == torch.int32:
            return ids.detach().contiguous()
        wide = ids.detach().to(torch.int64)
        wide = wide if ids.dtype.is_signed else wide.masked_fill(wide < 0, 2**62)   # of uint64
        narrow = wide.clamp(-2**31, MOST).to(torch.int32).contiguous()
        return narrow if (narrow == wide).all() else refuse(ids.flatten().tolist(), experts)
    import numpy
    if ids.dtype.kind not in "iub":
        raise TypeError(f"ids are whole numbers, not {ids.dtype}")
    fits = ids.dtype.itemsize < 4 or ids.dtype.itemsize == 4 and ids.dtype.kind == "i"
    narrow = numpy.ascontiguousarray(ids if fits else ids.clip(-2**31, MOST), numpy.int32)
    return narrow if fits or (narrow == ids).all() else refuse(ids.ravel().tolist(), experts)


def refuse(ids, experts):
    """As _native.route() does, of numbers that i32 does not hold."""
    choice = next(i for i, e in enumerate(ids) if not -1 <= e < experts)
    raise ValueError(f"choice {choice} is expert {ids[choice]}, outside -1..{experts - 1}")


def room(tokens, choices, experts, rows, values):
    """The four tensors of a route, like these values."""
    return (empty((experts + 1,), "i64", values), empty((experts,), "i64", values), empty((rows,), "i32", values),
            empty((tokens, choices), "i32", values))


def arrays(ids, experts, capacity):
    """Room for a route of ids."""
    rows = ids.shape[0] * ids.shape[1] if capacity < 0 else experts * capacity
    return room(*ids.shape, experts, rows, [ids])


def filled(ids, experts, capacity):
    chosen = as_i32(ids, experts)
    r = Route(*arrays(ids, experts, capacity))
    r.fill(chosen, capacity)
    return r


def route(ids, experts, capacity=None):
    """The route of ids[T, K]: the expert of each choice, or -1. Rows are ordered by expert, token and choice. capacity: each
    expert has that many rows, and choices beyond them are dropped, as in `group R : E capacity C`."""
    if not hasattr(ids, "shape"):
        raise TypeError(f"ids are a tensor of numpy or PyTorch, such as numpy.array([[0, 1]]), not a {type(ids).__name__}")
    if len(ids.shape) != 2:
        raise ValueError(f"ids have the shape [tokens, choices], not {tuple(ids.shape)}")
    if not 0 <= experts <= MOST:
        raise ValueError(f"experts is {experts}; it is from 0 to {MOST}")
    if capacity is not None and capacity < 0:
        raise ValueError(f"capacity is {capacity}; it is at least 0, or None for rows that are all there")
    if capacity is not None and experts * capacity > MOST:
        raise ValueError(f"capacity is {capacity}, of {experts} experts; a route has at most {MOST} rows")
    capacity = -1 if capacity is None else capacity
    torch = torch_of([ids])
    if torch is not None and torch.compiler.is_compiling():
        from moec import autograd
        return Route(*autograd.route(ids, experts, capacity))
    return filled(ids, experts, capacity)
