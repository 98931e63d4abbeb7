"""Which rows of which experts the tokens' choices become (language page, section 6)."""
from moec import _native
from moec.tensors import empty, torch_of


class Route:
    """Four tensors: start[E+1] and count[E], i64; slot_of[rows] and row_of[T, K], i32. They are not copied."""
    __slots__ = ("start", "count", "slot_of", "row_of", "address", "_memory")

    def __init__(self, start, count, slot_of, row_of, _ids=None, _capacity=-1):
        self.start, self.count, self.slot_of, self.row_of = start, count, slot_of, row_of
        self._memory = bytearray(64)     # struct moe_route
        sizes = (*row_of.shape, count.shape[0], slot_of.shape[0])
        self.address = _native.route(self._memory, sizes, start, count, slot_of, row_of, _ids, _capacity)

    @property
    def tensors(self):
        return self.start, self.count, self.slot_of, self.row_of

    def __repr__(self):
        tokens, choices = self.row_of.shape
        return f"moec.Route({tokens} tokens, {choices} choices, {self.count.shape[0]} experts, {self.slot_of.shape[0]} rows)"


def as_i32(ids):
    torch = torch_of([ids])
    if torch is not None:
        return ids.detach().to(torch.int32).contiguous()
    import numpy
    return numpy.ascontiguousarray(ids, numpy.int32)


def route(ids, experts, capacity=None):
    """The route of ids[T, K]: the expert of each choice, or -1. Rows are ordered by expert, token and choice. capacity: each
    expert has that many rows, and choices beyond them are dropped, as in `group R : E capacity C`."""
    ids = as_i32(ids)
    if len(ids.shape) != 2:
        raise ValueError(f"ids have the shape [tokens, choices], not {tuple(ids.shape)}")
    rows = ids.shape[0] * ids.shape[1] if capacity is None else experts * capacity
    values = [ids]
    return Route(empty((experts + 1,), "i64", values), empty((experts,), "i64", values), empty((rows,), "i32", values),
                 empty(tuple(ids.shape), "i32", values), ids, -1 if capacity is None else capacity)
