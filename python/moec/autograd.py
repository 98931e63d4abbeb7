"""Kernels as operators of PyTorch (torch.library): each kernel is one, with a fake kernel that knows the shapes of what it
makes; and each pair that `derive` made is one with a backward. They work under torch.autograd and torch.compile."""
import itertools

import torch

from moec import kernels
from moec.routes import Route, arrays, filled
from moec.shapes import shape_of, solve
from moec.tensors import TORCH

library = torch.library.Library("moec", "FRAGMENT")
numbers = itertools.count()
ROUTE = ("start", "count", "slot_of", "row_of")


# ---- arguments: a route is four tensors; of what is not read there is the shape ----

def schema_of(param, alias, unread=()):
    if param.name in unread:
        return [f"SymInt[] p_{param.name}"]
    if param.kind == "route":
        return [f"Tensor {param.name}_{field}" for field in ROUTE]
    if param.kind == "scalar":
        return [f"{'int' if param.type == 'i32' else 'float'} p_{param.name}"]
    return [f"Tensor{alias if param.role == 'inout' else ''} p_{param.name}"]


def flatten(params, values):
    flat = []
    for p, v in zip(params, values):
        flat += v.tensors if p.kind == "route" else [v]
    return flat


def grouped(params, flat):
    """The reverse, with a route as a tuple of tensors."""
    flat = iter(flat)
    return [tuple(next(flat) for _ in ROUTE) if p.kind == "route" else next(flat) for p in params]


def value_of(kernel, param, value):
    """What the kernel itself takes: a route of its tensors; rows in packed memory."""
    if param.kind == "route":
        return Route(*value)
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return kernel.pack(param.name, value) if param.packed else value


def values_of(kernel, params, flat):
    return [value_of(kernel, p, v) for p, v in zip(params, grouped(params, flat))]


def shape_from(param, value):
    if param.kind == "route":
        start, count, slot_of, row_of = value
        return (*row_of.shape, count.shape[0], slot_of.shape[0])
    return None if param.kind == "scalar" else getattr(value, "shape", value)


def fake_outs(kernel, params, values, outs):
    """Tensors of the outs' shapes, by name: what a kernel would make of these values."""
    given = {p.name: shape_from(p, v) for p, v in zip(params, values)}
    sizes = solve(kernel, [given.get(p.name) for p in kernel.params])
    like = next(v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor))
    made = []
    for p in outs:
        shape = shape_of(p, sizes)
        if shape is None:
            raise ValueError(f"{kernel.name}: the shape of '{p.name}' cannot be found from the arguments' shapes")
        made.append(like.new_empty(shape, dtype=getattr(torch, TORCH[p.type])))
    return made


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


def as_tuple(outs):
    return outs if isinstance(outs, tuple) else () if outs is None else (outs,)


def plain_operator(kernel):
    """The kernel as it is: no gradients."""
    params, outs = inputs_of(kernel), [p for p in kernel.params if p.role == "out"]
    arguments = [a for i, p in enumerate(params) for a in schema_of(p, f"(a{i}!)")]

    def run(*flat):
        made = as_tuple(kernel.direct(*values_of(kernel, params, flat)))
        return made[0] if len(made) == 1 else made or None

    def fake(*flat):
        made = tuple(fake_outs(kernel, params, grouped(params, flat), outs))
        return made[0] if len(made) == 1 else made or None

    op, _ = define(kernel.name, arguments, len(outs), run, fake)
    return lambda *values: op(*flatten(params, values))


class PairOperator:
    """A kernel, called through the forward of one of its pairs; its gradients come from the backward kernels."""

    def __init__(self, module, pair):
        self.pair, self.origin = pair, module[pair.origin]
        self.forward, self.backwards = module[pair.forward], [module[pair.backward]]
        if pair.later:
            self.backwards.append(module[pair.later])
        self.gives = {g["input"] for g in pair.gradients}
        self.params = inputs_of(self.forward)
        self.outs = [p for p in self.forward.params if p.role == "out"]
        self.results = [p for p in self.origin.params if p.role == "out"]
        self.saved = [p for p in self.outs if p.name in pair.saved.values()]
        self.unread = {p.name for p in self.params if p.kind == "tensor" and not any(
            q.read for k in self.backwards for q in k.params if q.name == p.name)}
        self.made = [g for g in pair.gradients if "param" in g]
        self._define()

    def _define(self):
        arguments = [a for p in self.params for a in schema_of(p, "")]
        self.op, name = define(self.forward.name, arguments, len(self.outs), self._run, self._fake)
        cotangents = [f"Tensor {c}" for c in self.pair.cotangents.values()]
        saved = [f"Tensor saved_{p.name}" for p in self.saved]
        kept = [a for p in self.params for a in schema_of(p, "", self.unread)]
        self.backward_op, _ = define(self.pair.backward, kept + saved + cotangents, len(self.made),
                                     self._run_backward, self._fake_backward)
        torch.library.register_autograd(name, self._backward, setup_context=self._keep, lib=library)

    def __call__(self, *values):
        made = self.op(*flatten(self.params, values))
        made = made if isinstance(made, (tuple, list)) else (made,)
        names = [p.name for p in self.outs]
        results = tuple(made[names.index(p.name)] for p in self.results)
        return results[0] if len(results) == 1 else results

    # ---- forward ----

    def _run(self, *flat):
        made = as_tuple(self.forward.direct(*values_of(self.forward, self.params, flat)))
        return made[0] if len(made) == 1 else made

    def _fake(self, *flat):
        made = fake_outs(self.forward, self.params, grouped(self.params, flat), self.outs)
        return made[0] if len(made) == 1 else tuple(made)

    def _kept(self, param, value):
        """What the backward gets of an input: its shape, if it reads no more; a route as tensors of an object."""
        if param.kind == "route":
            return Route(*value)
        return list(value.shape) if param.name in self.unread else value

    def _keep(self, ctx, inputs, output):
        made = output if isinstance(output, (tuple, list)) else (output,)
        by_name = dict(zip((p.name for p in self.outs), made))
        values = grouped(self.params, inputs)
        kept = flatten(self.params, [self._kept(p, v) for p, v in zip(self.params, values)])
        ctx.types = {p.name: v.dtype for p, v in zip(self.params, values) if isinstance(v, torch.Tensor)}
        ctx.is_tensor = [isinstance(v, torch.Tensor) for v in kept]
        ctx.others = [v for v in kept if not isinstance(v, torch.Tensor)]
        ctx.save_for_backward(*(v for v in kept if isinstance(v, torch.Tensor)), *(by_name[p.name] for p in self.saved))
        ctx.results = {p.name: (by_name[p.name].shape, by_name[p.name].dtype) for p in self.results}

    # ---- backward ----

    def _named(self, flat):
        """By name: the forward's inputs, the saved values and the cotangents."""
        n = sum(len(ROUTE) if p.kind == "route" else 1 for p in self.params)
        names = [p.name for p in self.saved] + list(self.pair.cotangents.values())
        return {**dict(zip((p.name for p in self.params), grouped(self.params, flat[:n]))), **dict(zip(names, flat[n:]))}

    def _gradient_params(self):
        """Of the backward kernels, by name."""
        return {p.name: p for k in self.backwards for p in k.params if p.role != "in"}

    def _run_backward(self, *flat):
        known, params = self._named(flat), self._gradient_params()
        for g in self.made:
            if g["mode"] == "add":
                known[g["param"]] = torch.zeros(shape_from(params[g["param"]], known[g["input"]]), dtype=torch.float32)
        for kernel in self.backwards:
            inputs = inputs_of(kernel)
            values = [value_of(kernel, p, known[p.name]) for p in inputs]
            outs = [p.name for p in kernel.params if p.role == "out"]
            known.update(zip(outs, as_tuple(kernel.direct(*values))))
        made = tuple(known[g["param"]] for g in self.made)
        return made[0] if len(made) == 1 else made

    def _fake_backward(self, *flat):
        known, params = self._named(flat), self._gradient_params()
        like = next(v for v in flat if isinstance(v, torch.Tensor))
        made = tuple(like.new_empty(shape_from(params[g["param"]], known[g["input"]]),
                                    dtype=getattr(torch, TORCH[params[g["param"]].type])) for g in self.made)
        return made[0] if len(made) == 1 else made

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
        return tuple(self._gradients(made, ctx.types))

    @staticmethod
    def _cotangent(value, shape, dtype, like):
        return like.new_zeros(shape, dtype=dtype) if value is None else value.contiguous()

    def _gradients(self, made, types):
        """One for each argument of the operator, of its type."""
        for p in self.params:
            if p.kind == "route":
                yield from (None,) * len(ROUTE)
            else:
                yield made[p.name].to(types[p.name]) if p.name in made else None


# ---- routes ----

route, _ = define("route", ["Tensor ids", "int experts", "int capacity"], len(ROUTE),
                  lambda *values: filled(*values).tensors, arrays)


# ---- the choice ----

class Operators:
    """Of one kernel: itself, and through each pair that was derived from it."""

    def __init__(self, kernel):
        self.kernel, self.plain, self.pairs = kernel, None, []
        self.packed = [p.name for p in kernel.params if p.packed and p.role != "in"]
        if not self.packed:
            self.plain = plain_operator(kernel)
            self.pairs = [PairOperator(kernel.module, pair) for pair in kernel.module.pairs if pair.origin == kernel.name]

    def choose(self, names):
        """What to call so that the inputs of these names get gradients."""
        if self.packed:
            raise NotImplementedError(f"{self.kernel.name} writes '{self.packed[0]}', which is packed: it is no operator of "
                                      "PyTorch; call it under torch.no_grad()")
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


def wanted(kernel, values):
    """Names of the inputs whose gradients autograd wants; values: by input."""
    if not torch.is_grad_enabled():
        return []
    return [p.name for p, v in zip(inputs_of(kernel), values) if isinstance(v, torch.Tensor) and v.requires_grad]


def call(kernel, values):
    """The kernel on its inputs, as an operator whose inputs get the gradients that they want."""
    prepare(kernel.number)
    for p, v in zip(inputs_of(kernel), values):
        if isinstance(v, kernels.Packed):
            raise TypeError(f"{kernel.name}: where PyTorch wants gradients or compiles, '{p.name}' is given as rows: each call "
                            "packs it")
    return kernel.operators.choose(wanted(kernel, values))(*values)
