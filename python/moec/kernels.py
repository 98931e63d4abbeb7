"""Modules and their kernels, as the manifest describes them (moec --emit=manifest)."""
import inspect
import itertools
import json
import operator
import os
import sys
import weakref
from dataclasses import dataclass

from moec import _native
from moec.errors import CallError, CompileError
from moec.routes import Route, room
from moec.shapes import packed_bytes, shape_of, solve
from moec.tensors import empty, is_new_enough, torch_of

numbers, by_number = itertools.count(), weakref.WeakValueDictionary()
HERE = os.path.dirname(os.path.abspath(__file__))


def libmoec():
    """Of a wheel, of a build tree, or where MOEC_LIBRARY says."""
    places = [os.environ.get("MOEC_LIBRARY"), os.path.join(HERE, "lib", "libmoec.so.0"),
              os.path.join(HERE, "..", "..", "lib", "libmoec.so.0")]
    for place in places:
        if place and os.path.exists(place):
            return place
    raise CompileError("libmoec.so is not where the package is; the environment variable MOEC_LIBRARY can name it")


def names_of(manifest):
    return [kernel["name"] for kernel in json.loads(manifest)["kernels"]]


@dataclass(frozen=True)
class Pair:
    """What one `derive` made: names of kernels, and of the parameters that are what."""
    origin: str
    forward: str
    backward: str
    later: str | None
    saved: dict        # local -> parameter
    cotangents: dict   # output -> parameter
    gradients: tuple   # of dicts: input, param, mode, output, later
    handed: tuple


def pair_of(entry):
    return Pair(entry["from"], entry["forward"], entry["backward"], entry.get("later"),
                {s["local"]: s["param"] for s in entry["saved"]}, {c["output"]: c["param"] for c in entry["cotangents"]},
                tuple(entry["gradients"]), tuple(entry["handed"]))


class Param:
    """One parameter: name, kind (tensor, scalar, route), role (in, out, inout), type, shape as text."""

    def __init__(self, entry, groups):
        self.name, self.kind, self.role = entry["name"], entry["kind"], entry["role"]
        self.type = entry.get("type", "route")
        self.extents = entry.get("shape", [])    # of a route its sizes: tokens, choices, experts, rows
        self.packed, self.read = "packed" in entry, entry.get("read", self.role != "out")
        self.both = self.packed and entry["packed"]["both"]
        if self.kind == "route":
            group = groups[entry["group"]]
            self.extents = [entry["tokens"], entry["choices"], group["groups"], group["rows"]]

    def __str__(self):
        if self.kind == "route":
            return f"{self.name}: route"
        shape = f"[{', '.join(e['text'] for e in self.extents)}]" if self.extents else ""
        return f"{self.name}: {self.type}{shape}{' packed' if self.packed else ''}"


class Packed:
    """The memory of a packed parameter (language page, section 11), and the shape of what it holds. rows: the tensor that was
    packed, if gradients by it are wanted."""

    def __init__(self, kernel, index, dims, shape, memory, rows=None):
        self._kernel, self._index, self._dims = kernel, index, dims     # None: of the shape
        self.shape, self.memory, self.rows = shape, memory, rows
        self._version = None if rows is None else rows._version

    def repack(self):
        """After rows changed, as by the step of an optimizer."""
        if self.rows is None:
            raise TypeError("what was packed is not kept, because it needs no gradient: pack it anew")
        self._kernel._native.pack(self._index, self._sizes(), self.rows.detach(), self.memory)
        self._version = self.rows._version
        tell_written((self,))       # a backward that waits would read other rows than its forward did

    def unpack(self):
        """The values, row-major."""
        rows = empty(self.shape, self._kernel.params[self._index].type, [self.memory])
        self._kernel._native.unpack(self._index, self._sizes(), rows, self.memory)
        return rows

    def _sizes(self):
        return self._dims or self._kernel._sizes(self._index, self.shape, {})


def wants_gradient(args, names):
    for a in args:
        if getattr(a, "requires_grad", False) or type(a) is Packed and a.rows is not None:
            return True
    return bool(names) and wants_gradient(names.values(), None)


def tell_written(values):
    """PyTorch counts changes of a tensor, so that autograd refuses values that were changed after they were saved."""
    torch = sys.modules.get("torch")
    for v in values if torch is not None else ():
        v = v.memory if type(v) is Packed else v
        if isinstance(v, torch.Tensor) and not v.is_inference():
            torch.autograd.graph.increment_version(v)


class Kernel:
    """A kernel of a module. Called with its `in` and `inout` parameters in their order; `out` parameters are made and
    returned, or given by name; dimensions that no shape tells are given by name too."""

    def __init__(self, module, native, entry):
        self.module, self._native, self.name = module, native, entry["name"]
        self.params, self.dims = [Param(p, module.groups) for p in entry["params"]], entry["dims"]
        self._inputs = [i for i, p in enumerate(self.params) if p.role != "out"]
        self._index = {p.name: i for i, p in enumerate(self.params)}
        self._blank = [None] * len(self.params)
        self._outs = [p for p in self.params if p.role == "out"]
        self.operators, self.number = None, next(numbers)   # of autograd.py
        by_number[self.number] = self
        self._no_outs = (None,) * len(self._outs)
        self._changed = [i for i in self._inputs if self.params[i].role == "inout"]
        # of a kernel whose `out` parameters are the last ones: how many arguments need no sorting
        self._plain = len(self._inputs) if self._inputs == list(range(len(self._inputs))) else -1
        self.__name__ = self.__qualname__ = self.name
        self.__doc__ = f"{self.name}({', '.join(str(self.params[i]) for i in self._inputs)})" + \
            (f" -> {', '.join(map(str, self._outs))}" if self._outs else "")
        self.__signature__ = self._signature()

    def _signature(self):
        P = inspect.Parameter
        given = [P(self.params[i].name, P.POSITIONAL_OR_KEYWORD, annotation=str(self.params[i]).split(": ")[1])
                 for i in self._inputs]
        made = [P(p.name, P.KEYWORD_ONLY, default=None, annotation=str(p).split(": ")[1]) for p in self._outs]
        taken = set(self._index)
        sizes = [P(d, P.KEYWORD_ONLY, default=None, annotation="int") for d in self.dims if d not in taken]
        return inspect.Signature(given + made + sizes)

    def __repr__(self):
        return f"<moec kernel {self.__doc__}>"

    def _named(self, values, names):
        """Puts what was given by name into values; the sizes, or None."""
        sizes = None
        for name, value in names.items():
            if name in self._index:
                values[self._index[name]] = value
            elif name in self.dims:
                sizes = sizes or [-1] * len(self.dims)
                sizes[self.dims.index(name)] = -1 if value is None else self._size(name, value)
            else:
                raise TypeError(f"{self.name}() has neither a parameter nor a dimension '{name}'")
        return sizes and tuple(sizes)

    def _size(self, name, value):
        try:
            size = operator.index(value)
        except TypeError:
            raise TypeError(f"{self.name}(): the dimension {name} is a whole number, not {value!r}") from None
        if size < 0:
            raise CallError(f"{self.name}: {name} is {size}; a size is at least 0")
        return size

    def _values(self, args, names):
        if len(args) > len(self._inputs):
            raise TypeError(f"{self.name}() takes {len(self._inputs)} arguments, but {len(args)} were given: {self.__doc__}")
        values = self._blank.copy()
        for i, value in zip(self._inputs, args):
            values[i] = value
        sizes = self._named(values, names) if names else None
        for i in self._inputs:
            if values[i] is None:
                raise TypeError(f"{self.name}() misses '{self.params[i].name}': {self.__doc__}")
        return tuple(values), sizes

    def _make(self, i, shape, values):
        """An output. shape: of a route the sizes of the kernel's dimensions."""
        if self.params[i].kind == "route":
            sizes = {**self.module.constants, **dict(zip(self.dims, shape))}
            return Route(*room(*shape_of(self.params[i], sizes), values))
        if self.params[i].packed:
            return Packed(self, i, None, shape, empty((packed_bytes(self.params[i], shape),), "u8", values))
        return empty(shape, self.params[i].type, values)

    def direct(self, *args, **names):
        """A call that PyTorch knows nothing of, but that tensors which it writes have changed."""
        if names or len(args) != self._plain:
            values, sizes = self._values(args, names)
        else:
            values, sizes = args + self._no_outs, None
        outs = self._native.call(values, sizes, self._make)
        if self._changed or names:
            tell_written(values[i] for i, p in enumerate(self.params) if p.role != "in")
        return outs[0] if len(outs) == 1 else outs or None

    def __call__(self, *args, **names):
        torch = sys.modules.get("torch")
        if torch is not None and not is_new_enough(torch):
            torch = torch_of((*args, *names.values()))  # which refuses its tensors: there are none
        if torch is None or not (torch.compiler.is_compiling() or torch.is_grad_enabled() and wants_gradient(args, names)):
            return self.direct(*args, **names)
        values, sizes = self._values(args, names)
        if any(values[i] is not None for i, p in enumerate(self.params) if p.role == "out"):
            raise TypeError(f"{self.name}(): where PyTorch wants gradients or compiles, outputs are made; `direct` calls "
                            "without it")
        if any(p.kind == "route" for p in self._outs):
            raise TypeError(f"{self.name}() makes a route, which PyTorch can neither trace nor differentiate: `direct` calls it "
                            "without gradients, moec.route() makes a route of ids")
        from moec import autograd
        return autograd.call(self, [values[i] for i in self._inputs], dict(zip(self.dims, sizes or ())))

    def _sizes(self, index, shape, names):
        """Dimensions of the kernel, as far as the shape of one parameter tells them."""
        sizes = solve(self, [shape if i == index else None for i in range(len(self.params))], names)
        return tuple(sizes.get(d, -1) for d in self.dims)

    def pack(self, name, rows, **dims):
        """The row-major tensor as the memory of the packed parameter of that name."""
        if name not in self._index:
            raise TypeError(f"{self.name} has no parameter '{name}'")
        index, kept = self._index[name], None
        if not self.params[index].packed:
            raise CallError(f"{self.name}: '{name}' is not packed")
        if getattr(rows, "requires_grad", False):
            kept, rows = rows, rows.detach()
        shape = tuple(rows.shape)
        sizes = self._sizes(index, shape, dims)
        memory = empty((max(self._native.packed_bytes(index, sizes), 0),), "u8", [rows])
        self._native.pack(index, sizes, rows, memory)
        return Packed(self, index, sizes, shape, memory, kept)


class Module:
    """Kernels, as attributes and by name."""

    def __init__(self, manifest, entries, owner, interpreted=0):
        self.manifest = json.loads(manifest)
        self.groups = {g["name"]: g for g in self.manifest["groups"]}
        self.constants = {d["name"]: d["constant"] for d in self.manifest["dims"] if d["constant"] is not None}
        self._native = _native.Module(manifest, entries, owner, interpreted)
        self.kernels = {entry["name"]: Kernel(self, self._native.kernel(entry["name"]), entry)
                        for entry in self.manifest["kernels"]}
        self.pairs = tuple(map(pair_of, self.manifest["pairs"]))

    def __getattr__(self, name):
        try:
            return self.__dict__["kernels"][name]
        except KeyError:
            raise AttributeError(self._no_kernel(name)) from None

    def __getitem__(self, name):
        if name not in self.kernels:
            raise KeyError(self._no_kernel(name))
        return self.kernels[name]

    def _no_kernel(self, name):
        return f"the module has no kernel '{name}' (it has {', '.join(self.__dict__.get('kernels', ())) or 'none'})"

    def __dir__(self):
        return [*super().__dir__(), *self.kernels]

    def __repr__(self):
        return f"<moec module: {', '.join(self.kernels)}>"


def tell_library():
    """A kernel.so that is to log its calls looks for libmoec, which is not where the dynamic linker looks."""
    if os.environ.get("MOE_LOG_CALLS") and "MOEC_LIBRARY" not in os.environ:
        try:
            os.environ["MOEC_LIBRARY"] = libmoec()
        except CompileError:
            pass    # the kernel says that calls are not logged


def load(path, **options):
    """The module of a file: .moe text, which is compiled (or found in the cache), or a kernel.so, which needs no compiler.
    Options are those of moec_options: target, derive, kernels, schedule, machine, no_cache, cache_dir, debug, interpret, ..."""
    path = os.fsdecode(path)
    if path.endswith(".so") or ".so." in os.path.basename(path):
        tell_library()
        return Module(*_native.open(os.path.abspath(path), names_of))
    return Module(*_native.compile(libmoec(), path, None, options, names_of))


def jit(text, name="<jit>", **options):
    """The module of a text; options as those of load()."""
    if not isinstance(text, str):
        raise TypeError(f"jit() takes the text of a program, not {type(text).__name__}; load() takes a path")
    return Module(*_native.compile(libmoec(), name, text, options, names_of))


def threads(n=None):
    """Sets and returns how many threads a call takes: 0 as many as OpenMP would, -n always n (moe_ctx)."""
    if n is not None:
        _native.threads(n)
    return _native.threads() if n is None else n
