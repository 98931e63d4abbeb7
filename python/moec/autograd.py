"""Kernels as operators of PyTorch (torch.library): each kernel is one, with a fake kernel that knows the shapes of what it
makes; and each pair that `derive` made is one with a backward. They work under torch.autograd and torch.compile."""
import itertools

import torch

from moec import kernels
from moec.routes import Route, arrays, filled
from moec.shapes import packed_bytes, shape_of, solve, undetermined, unknown_size
from moec.tensors import TORCH

library = torch.library.Library("moec", "FRAGMENT")
numbers = itertools.count()
ROUTE = ("start", "count", "slot_of", "row_of")


# ---- arguments ----
#
# Of an operator: sizes that no shape tells; a route as four tensors; a packed parameter as its rows, by which gradients are, and its
# memory, which the kernel reads; of what a backward does not read the shape. A number that may get a gradient is a tensor
# without axes (`graded`: the names of those).

def mutable(param, alias):
    return alias if param.role == "inout" else ""


def schema_of(param, alias="", graded=()):
    name = f"p_{param.name}"
    if param.kind == "route":
        return [f"Tensor {param.name}_{field}" for field in ROUTE]
    if param.kind == "scalar" and param.name not in graded:
        return [f"{'int' if param.type == 'i32' else 'float'} {name}"]
    if param.packed:
        return [f"Tensor {name}", f"Tensor{mutable(param, alias)} {name}_memory"]
    return [f"Tensor{mutable(param, alias)} {name}"]


def schema_of_kept(param, unread, graded=()):
    """The same of the forward's parameters as a backward gets them."""
    if param.name in unread:
        return [f"SymInt[] p_{param.name}"]
    return [f"SymInt[] p_{param.name}", f"Tensor p_{param.name}_memory"] if param.packed else schema_of(param, graded=graded)


def flatten(params, values):
    flat = []
    for p, v in zip(params, values):
        flat += v.tensors if p.kind == "route" else [v.rows, v.memory] if p.packed else [v]
    return flat


def grouped(kernel, params, flat, unread=()):
    """The reverse."""
    flat, values = iter(flat), []
    for p in params:
        first = next(flat)
        if p.kind == "route":
            values.append(Route(first, *(next(flat) for _ in ROUTE[1:])))
        elif p.packed and p.name not in unread:
            values.append(packed_of(kernel, p, tuple(getattr(first, "shape", first)), next(flat)))
        else:
            values.append(tuple(first) if isinstance(first, (tuple, list)) else first)
    return values


def packed_of(kernel, param, shape, memory):
    return kernels.Packed(kernel, kernel._index[param.name], None, shape, memory)


def shape_from(param, value):
    if param.kind == "route":
        start, count, slot_of, row_of = value.tensors
        return (*row_of.shape, count.shape[0], slot_of.shape[0])
    return None if param.kind == "scalar" else getattr(value, "shape", value)


def fake_outs(kernel, params, values, outs, sizes):
    """Tensors of the outs' shapes, by name: what a kernel would make of these values."""
    given = {p.name: shape_from(p, v) for p, v in zip(params, values)}
    sizes = solve(kernel, [given.get(p.name) for p in kernel.params], sizes)
    like = next(t for v in values for t in tensors_in(v))
    made = []
    for p in outs:
        shape = shape_of(p, sizes)
        if shape is None:
            size = unknown_size(p, sizes)
            raise ValueError(f"{kernel.name}: the shape of '{p.name}' cannot be found: no argument's shape says {size}; "
                             f"write {size}=...")
        made.append(like.new_empty((packed_bytes(p, shape),), dtype=torch.uint8) if p.packed else
                    like.new_empty(shape, dtype=getattr(torch, TORCH[p.type])))
    return made


def tensors_in(value):
    if isinstance(value, Route):
        return value.tensors
    value = value.memory if isinstance(value, kernels.Packed) else value
    return (value,) if isinstance(value, torch.Tensor) else ()


# ---- operators ----

def define(name, arguments, n_outs, run, fake):
    """The operator moec::NAME_N. Kernels of several modules may have one name, so each gets a number."""
    name = f"{name}_{next(numbers)}"
    library.define(f"{name}({', '.join(arguments)}) -> ({', '.join(['Tensor'] * n_outs)})")
    library.impl(name, run, "CPU")
    torch.library.register_fake(f"moec::{name}", fake, lib=library)
    return getattr(torch.ops.moec, name).default, f"moec::{name}"


def inputs_of(kernel):
    return [p for p in kernel.params if p.role != "out"]


def outs_of(kernel):
    return [p for p in kernel.params if p.role == "out"]


def as_tuple(params, outs):
    """Results of a kernel as the tensors that an operator returns. Of numbers alone a kernel makes arrays of numpy."""
    outs = outs if isinstance(outs, tuple) else () if outs is None else (outs,)
    outs = (v.memory if isinstance(v, kernels.Packed) else v for v in outs)
    return tuple(v if isinstance(v, torch.Tensor) else torch.as_tensor(v).view(getattr(torch, TORCH[p.type])) for p, v in zip(params, outs))


def returned(made):
    return made[0] if len(made) == 1 else tuple(made) or None


def results_of(kernel, outs, made, params, values, sizes):
    """What a call returns: the tensors, packed ones with their shapes."""
    if not any(p.packed for p in outs):
        return returned(made)
    given = {p.name: shape_from(p, v) for p, v in zip(params, values)}
    solved = solve(kernel, [given.get(p.name) for p in kernel.params], sizes)
    return returned([packed_of(kernel, p, shape_of(p, solved), v) if p.packed else v for p, v in zip(outs, made)])


class SizedOperator:
    """What operators of a kernel have in common: parameters, and the sizes that no shape of an input tells."""

    def __init__(self, kernel):
        self.kernel, self.params, self.outs = kernel, inputs_of(kernel), outs_of(kernel)
        self.sizes = undetermined(kernel, self.params)
        self.size_schema = [f"SymInt size_{d}" for d in self.sizes]

    def split(self, flat):
        """Sizes by name, and the rest."""
        n = len(self.sizes)
        return dict(zip(self.sizes, flat[:n])), flat[n:]

    def run(self, *flat):
        sizes, flat = self.split(flat)
        return returned(as_tuple(self.outs, self.kernel.direct(*grouped(self.kernel, self.params, flat), **sizes)))

    def fake(self, *flat):
        sizes, flat = self.split(flat)
        return returned(fake_outs(self.kernel, self.params, grouped(self.kernel, self.params, flat), self.outs, sizes))


class PlainOperator(SizedOperator):
    """The kernel as it is: no gradients."""

    def __init__(self, kernel):
        super().__init__(kernel)
        arguments = self.size_schema + [a for i, p in enumerate(self.params) for a in schema_of(p, f"(a{i}!)")]
        self.op, _ = define(kernel.name, arguments, len(self.outs), self.run, self.fake)

    def __call__(self, values, sizes):
        made = self.op(*(sizes[d] for d in self.sizes), *flatten(self.params, values))
        return results_of(self.kernel, self.outs, made if isinstance(made, (tuple, list)) else () if made is None else (made,),
                          self.params, values, sizes)


class PairOperator(SizedOperator):
    """A kernel, called through the forward of one of its pairs; its gradients come from the backward kernels."""

    def __init__(self, module, pair):
        super().__init__(module[pair.forward])
        self.pair, self.forward, self.backwards = pair, self.kernel, [module[pair.backward]]
        if pair.later:
            self.backwards.append(module[pair.later])
        self.gives = {g["input"] for g in pair.gradients}
        self.results = outs_of(module[pair.origin])
        self.saved = [p for p in self.outs if p.name in pair.saved.values()]
        self.unread = {p.name for p in self.params if p.kind == "tensor" and not any(
            q.read for k in self.backwards for q in k.params if q.name == p.name)}
        self.made = [g for g in pair.gradients if "param" in g]
        self.graded = {p.name for p in self.params if p.kind == "scalar" and p.name in self.gives}
        self._define()

    def _define(self):
        arguments = self.size_schema + [a for p in self.params for a in schema_of(p, graded=self.graded)]
        self.op, name = define(self.forward.name, arguments, len(self.outs), self.run, self.fake)
        cotangents = [f"Tensor {c}" for c in self.pair.cotangents.values()]
        saved = [f"Tensor saved_{p.name}" for p in self.saved]
        kept = [a for p in self.params for a in schema_of_kept(p, self.unread, self.graded)]
        self.backward_op, backward = define(self.pair.backward, self.size_schema + kept + saved + cotangents, len(self.made),
                                            self._run_backward, self._fake_backward)
        torch.library.register_autograd(name, self._backward, setup_context=self._keep, lib=library)
        if self.made:
            torch.library.register_autograd(backward, self._refuse_second, lib=library)

    def _plain(self, params, values):
        """As the kernel takes them."""
        return [v.item() if p.name in self.graded else v for p, v in zip(params, values)]

    def run(self, *flat):
        sizes, flat = self.split(flat)
        return returned(as_tuple(self.outs, self.kernel.direct(*self._plain(self.params, grouped(self.kernel, self.params, flat)), **sizes)))

    def __call__(self, values, sizes):
        values = [torch.as_tensor(v, dtype=torch.float32).reshape(()) if p.name in self.graded else v for p, v in zip(self.params, values)]
        made = self.op(*(sizes[d] for d in self.sizes), *flatten(self.params, values))
        made = made if isinstance(made, (tuple, list)) else (made,)
        names = [p.name for p in self.outs]
        return returned([made[names.index(p.name)] for p in self.results])

    # ---- forward ----

    def _kept(self, param, value):
        """What the backward gets of an input: its shape, if it reads no more."""
        if param.kind == "route":
            return list(value.tensors)
        if param.name in self.unread:
            return [list(value.shape)]
        return [list(value.shape), value.memory] if param.packed else [value]

    def _keep(self, ctx, inputs, output):
        made = output if isinstance(output, (tuple, list)) else (output,)
        by_name = dict(zip((p.name for p in self.outs), made))
        sizes, flat = self.split(inputs)
        kept = list(sizes.values())
        for p, v in zip(self.params, grouped(self.kernel, self.params, flat)):
            kept += self._kept(p, v)
        ctx.types = {p.name: getattr(torch, TORCH[p.type]) for p in self.params if p.kind == "tensor" or p.name in self.graded}
        ctx.is_tensor = [isinstance(v, torch.Tensor) for v in kept]
        ctx.others = [v for v in kept if not isinstance(v, torch.Tensor)]
        ctx.save_for_backward(*(v for v in kept if isinstance(v, torch.Tensor)), *(by_name[p.name] for p in self.saved))
        ctx.results = {p.name: (by_name[p.name].shape, by_name[p.name].dtype) for p in self.results}

    # ---- backward ----

    def _named(self, flat):
        """By name: the forward's inputs, the saved values and the cotangents; and sizes."""
        sizes, flat = self.split(flat)
        n = sum(len(schema_of_kept(p, self.unread)) for p in self.params)
        inputs = grouped(self.kernel, self.params, flat[:n], self.unread)
        names = [p.name for p in self.saved] + list(self.pair.cotangents.values())
        return {**dict(zip((p.name for p in self.params), inputs)), **dict(zip(names, flat[n:]))}, sizes

    def _gradient_params(self):
        """Of the backward kernels, by name."""
        return {p.name: p for k in self.backwards for p in k.params if p.role != "in"}

    def _run_backward(self, *flat):
        (known, sizes), params = self._named(flat), self._gradient_params()
        for g in self.made:
            if g["mode"] == "add":
                known[g["param"]] = torch.zeros(shape_from(params[g["param"]], known[g["input"]]), dtype=torch.float32)
        for kernel in self.backwards:
            values = self._plain(inputs_of(kernel), [known[p.name] for p in inputs_of(kernel)])
            needed = {d: n for d, n in sizes.items() if d in kernel.dims}
            known.update(zip((p.name for p in outs_of(kernel)), as_tuple(outs_of(kernel), kernel.direct(*values, **needed))))
        return returned([known[g["param"]] for g in self.made])

    def _fake_backward(self, *flat):
        (known, _), params = self._named(flat), self._gradient_params()
        like = next(v for v in flat if isinstance(v, torch.Tensor))
        return returned([like.new_empty(shape_from(params[g["param"]], known[g["input"]]),
                                        dtype=getattr(torch, TORCH[params[g["param"]].type])) for g in self.made])

    def _backward(self, ctx, *cotangents):
        kept = list(ctx.saved_tensors)
        saved = kept[sum(ctx.is_tensor):]
        tensors, others = iter(kept), iter(ctx.others)
        flat = [next(tensors if is_tensor else others) for is_tensor in ctx.is_tensor]
        given = dict(zip((p.name for p in self.outs), cotangents))
        like = next(c for c in cotangents if c is not None)
        by_output = {name: self._cotangent(given.get(name), *ctx.results[name], like) for name in self.pair.cotangents}
        made = self.backward_op(*flat, *saved, *by_output.values()) if self.made else ()
        made = dict(zip((g["input"] for g in self.made), made if isinstance(made, (tuple, list)) else (made,)))
        made.update({g["input"]: by_output[g["output"]] for g in self.pair.gradients if g["mode"] == "pass"})
        return (*(None for _ in self.sizes), *self._gradients(made, ctx.types))

    def _refuse_second(self, _ctx, *_cotangents):
        raise RuntimeError(f"{self.pair.origin}: a gradient of its gradient is needed, but {self.pair.backward} has no derivative")

    @staticmethod
    def _cotangent(value, shape, dtype, like):
        return like.new_zeros(shape, dtype=dtype) if value is None else value.contiguous()

    def _gradients(self, made, types):
        """One for each argument of the operator, of its type; behind that of packed rows none for their memory."""
        for p in self.params:
            for i in range(len(schema_of(p))):
                yield made[p.name].to(types[p.name]) if p.name in made and i == 0 else None


# ---- routes ----

route, _ = define("route", ["Tensor ids", "int experts", "int capacity"], len(ROUTE),
                  lambda *values: filled(*values).tensors, arrays)


# ---- packed parameters ----

def pack_operator(kernel, param):
    """Rows to packed memory."""
    index = kernel._index[param.name]

    def run(rows):
        memory = torch.empty(packed_bytes(param, rows.shape), dtype=torch.uint8)
        kernel._native.pack(index, kernel._sizes(index, tuple(rows.shape), {}), rows.contiguous(), memory)
        return memory

    def fake(rows):
        return rows.new_empty((packed_bytes(param, rows.shape),), dtype=torch.uint8)

    return define(f"pack_{param.name}", ["Tensor rows"], 1, run, fake)[0]


class Pair:
    """A packed parameter for flatten(): what gradients are by, and what the kernel reads."""
    __slots__ = ("rows", "memory", "shape")

    def __init__(self, rows, memory):
        self.rows, self.memory, self.shape = rows, memory, rows.shape


def packed_pair(kernel, param, value):
    if not isinstance(value, kernels.Packed):
        if param.role != "in":
            raise TypeError(f"{kernel.name}: '{param.name}' is written, so it is given packed: {kernel.name}.pack('{param.name}', rows)")
        return Pair(value, kernel.operators.packs[param.name](value.detach()))
    rows, memory = value.rows, torch.as_tensor(value.memory)
    if rows is None:    # nothing but a shape
        rows = torch.zeros((), dtype=getattr(torch, TORCH[param.type])).expand(value.shape)
    elif not torch.compiler.is_compiling() and rows._version != value._version:
        raise RuntimeError(f"{kernel.name}: the rows of '{param.name}' changed since they were packed; `repack()` packs them anew")
    return Pair(rows, memory)


# ---- the choice ----

class Operators:
    """Of one kernel: itself, and through each pair that was derived from it."""

    def __init__(self, kernel):
        self.kernel, self.plain = kernel, PlainOperator(kernel)
        self.packed = [p.name for p in kernel.params if p.packed and p.role != "in"]
        self.packs = {p.name: pack_operator(kernel, p) for p in kernel.params if p.packed and p.role == "in"}
        self.pairs = [] if self.packed else [PairOperator(kernel.module, pair) for pair in kernel.module.pairs
                                             if pair.origin == kernel.name]

    def choose(self, names):
        """What to call so that the inputs of these names get gradients."""
        if names and self.packed:
            raise TypeError(f"{self.kernel.name}: a gradient by {', '.join(names)} is needed, but it writes '{self.packed[0]}', which "
                            "is packed and carries none; call it under torch.no_grad()")
        if not names:
            return self.plain
        for pair in self.pairs:
            if pair.gives.issuperset(names):
                return pair
        raise TypeError(self._missing(names))

    def _missing(self, names):
        given = sorted(set().union(*(pair.gives for pair in self.pairs)))
        has = f"`derive` gives those of {', '.join(given)}" if given else "no `derive` is about it"
        name = self.kernel.name
        return (f"{name}: a gradient by {', '.join(names)} is needed, but {has}; write `derive ({name}_fwd, {name}_bwd) from "
                f"{name} wrt {', '.join(names)}`, or call it under torch.no_grad()")


@torch._dynamo.assume_constant_result
def prepare(number):
    """Makes the operators of the kernel of that number; also in the middle of what torch.compile traces."""
    kernel = kernels.by_number[number]
    if kernel.operators is None:
        kernel.operators = Operators(kernel)
    return True


def wanted(params, values):
    """Names of the inputs whose gradients autograd wants; values: by input."""
    if not torch.is_grad_enabled():
        return []
    return [p.name for p, v in zip(params, values)
            if getattr(v.rows if isinstance(v, (Pair, kernels.Packed)) else v, "requires_grad", False)]


def check_sizes(kernel, params, values, sizes, needed):
    """Each size that no shape tells is given, and those that are given are what shapes tell."""
    for d in needed:
        if sizes.get(d, -1) < 0:
            raise TypeError(f"{kernel.name}: no shape tells the size {d}: give {d}=...")
    if sizes and len(sizes) > len(needed):
        shapes = {p.name: shape_from(p, v) for p, v in zip(params, values)}
        told = solve(kernel, [shapes.get(p.name) for p in kernel.params])
        for d, n in sizes.items():
            if n >= 0 and d in told and told[d] != n:
                raise kernels.CallError(f"{kernel.name}: {d} is {n}, but shapes say {told[d]}")


def call(kernel, values, sizes):
    """The kernel on its inputs, as an operator whose inputs get the gradients that they want. sizes: by name, -1: not given."""
    prepare(kernel.number)
    params = kernel.operators.plain.params
    values = [packed_pair(kernel, p, v) if p.packed else v for p, v in zip(params, values)]
    operator = kernel.operators.choose(wanted(params, values))
    check_sizes(kernel, params, values, sizes, operator.sizes)
    return operator(values, sizes)
