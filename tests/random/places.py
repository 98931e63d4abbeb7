"""Where values are asked for (masks), which rows exist (routes), how long axes are, and which equations count."""
import numpy as np

import bounds

AXES = 16       # of every array of the evaluator


class Mask:
    """Where values are asked for: by the values (on), for certain (sure), perhaps (may). checked: under the same guards, but
    whether or not there are any rows or terms: an index that does not vary with those may be checked all the same."""

    def __init__(self, on, sure=None, may=None, checked=None):
        self.on, self.sure, self.may = on, on if sure is None else sure, on if may is None else may
        self.checked = on if checked is None else checked

    def under(self, c):
        could = c.v | c.d
        return Mask(self.on & c.v, self.sure & c.v & ~c.d, self.may & could, self.checked & possible(could))

    def unless(self, c):
        """Where c may be asked first, and decides that nothing else is."""
        return Mask(self.on, self.sure & ~c.v & ~c.d, self.may, self.checked)

    def among(self, v, d=bounds.NO):
        """Only places that exist."""
        return Mask(self.on & v, self.sure & v & ~d, self.may & (v | d), self.checked)

    def three(self):
        return self.on, self.sure, self.may


def possible(c):
    """A condition on an index that ranges over nothing may hold, for what does not vary with it."""
    return c if c.size else np.ones([n or 1 for n in c.shape], bool)


class Route:
    """Rows sorted by (group, token, slot); with a capacity the first rows of each group in that order."""

    def __init__(self, ids, groups, rows, capacity):
        self.tokens, self.choices = ids.shape
        self.groups, self.rows, self.capacity = groups, rows, capacity
        self.slot_of = np.full(rows, -1, np.int32)
        self.row_of = np.full(ids.size, -1, np.int32)
        self.group_of = np.full(rows, -1, np.int64)
        self.count = np.zeros(groups, np.int64)
        self.start = np.zeros(groups + 1, np.int64)
        flat, row = ids.reshape(-1), 0
        for g in range(groups):
            if capacity is not None:
                row = g * capacity
            self.start[g] = row
            for slot in np.flatnonzero(flat == g)[:capacity]:
                self.slot_of[row], self.row_of[slot], self.group_of[row] = slot, row, g
                self.count[g] += 1
                row += 1
        self.start[groups] = row if capacity is None else groups * capacity


def extent_of(space, module, dims):
    group = module.group(space)
    return int(eval(group.rows() if group else space, {}, dict(dims)))


def shape_of(param, module, dims):
    return tuple(extent_of(a, module, dims) for a in param.axes)


def live_equations(kernel, reads):
    """Those that an output depends on: the compiler may drop the others, with what they would refuse. reads: by equation, the
    tensors, routes and spaces of rows that it used somewhere; under conditions that never held it used none."""
    needed = {p.name for p in kernel.params if p.role != "in"}
    live = set()
    for q in reversed(kernel.equations):
        made = {q.name, q.second} | ({q.subscripts[1]} if q.how == "route" else set())
        if needed & made - {""}:
            live.add(id(q))
            needed |= reads.get(id(q), set()) | {space for _, space in q.spaces}
            needed |= {q.subscripts[0]} if q.how == "route" else {q.value.data} if q.how in ("pack", "pack_t") else set()
    return live
