#!/usr/bin/env python3
"""Random kernels through `moec test`: interpreter = JIT, and derived gradients against finite differences.
usage: random_kernels.py MOEC [--seed N] [--files N] [--keep FOLDER]
A file that fails is printed with the seed that makes it again."""
import argparse
import os
import random
import subprocess
import sys
import tempfile

DIMS = ["A", "B", "C"]
UNARY = ["tanh", "sigmoid", "silu", "gelu", "relu", "abs", "sqrt1", "exp1", "neg", "bf16", "stop1"]
KERNELS = 6


class Kernel:
    def __init__(self, rng, layouts, name):
        self.rng, self.layouts, self.name, self.fresh = rng, layouts, name, 0
        self.tensors = {}   # name -> (element type, axes); i32 tensors hold indices into the dimension `into`
        self.into = {}
        self.routed = rng.random() < 0.4
        self.capacity = self.routed and rng.random() < 0.4
        self.group = "P" if self.capacity else "R"
        self.pair = rng.sample(DIMS, 2)  # axes that often stand side by side
        self.lines = []

    def index(self):
        self.fresh += 1
        return f"n{self.fresh}"

    def axes(self, dims, ranks):
        """Random axes; now and then the pair among them."""
        axes = [self.rng.choice(dims) for _ in range(self.rng.choice(ranks))]
        if self.rng.random() < 0.25:
            at = self.rng.randrange(len(axes))
            axes[at:at + 1] = self.pair
        return axes

    def layout(self, axes):
        """What may stand after the type of a parameter of floats."""
        if len(axes) < 2 or self.group in axes[-2:]:
            return ""
        return self.layouts.choice(["", "", "", " packed", " packed both"])

    def pick(self, scope, dim):
        names = [n for n, d in scope.items() if d == dim]
        return self.rng.choice(names) if names else None

    def subscript(self, scope, dim, guards, depth):
        """Text of an index into `dim`, or None."""
        rng, way = self.rng, self.rng.random()
        plain = self.pick(scope, dim)
        gathers = [t for t, d in self.into.items() if d == dim]
        if way < 0.12 and gathers and depth > 0:
            name = rng.choice(gathers)
            inner = [self.subscript(scope, d, guards, 0) for d in self.tensors[name][1]]
            if all(inner):
                return f"{name}[{', '.join(inner)}]"
        if plain is None or dim in (self.group,):
            row = [n for n, d in scope.items() if d == self.group]
            if row and self.routed and dim == "T":
                return f"rt.token({rng.choice(row)})"
            if row and dim == "E":
                return f"@{rng.choice(row)}"
            return plain
        if way < 0.24 and dim in DIMS:
            shift = rng.choice([-2, -1, 1, 2])
            text = f"{plain} {'+' if shift > 0 else '-'} {abs(shift)}"
            guards.append(f"{plain} + {shift} < {dim}" if shift > 0 else f"{plain} >= {-shift}")
            return text
        return plain

    def load(self, scope):
        """(text, guards) of a random access whose axes the scope can fill."""
        names = list(self.tensors)
        self.rng.shuffle(names)
        for name in names:
            elem, axes = self.tensors[name]
            if elem == "i32" and self.rng.random() < 0.7:
                continue
            guards = []
            subscripts = [self.subscript(scope, d, guards, 1) for d in axes]
            if all(subscripts):
                text = f"{name}[{', '.join(subscripts)}]" if axes else name
                return text if not guards else f"if({' and '.join(guards)}, {text}, {self.rng.choice(['0', '0.5'])})"
        return None

    def leaf(self, scope):
        if self.rng.random() < 0.8:
            text = self.load(scope)
            if text:
                return text
        if scope and self.rng.random() < 0.25:
            plain = [n for n, d in scope.items() if d != self.group]
            if plain:
                return f"(0.1 * {self.rng.choice(plain)})"
        return self.rng.choice(["0.5", "2", "1.25", "-0.75"])

    def condition(self, scope, depth):
        rng = self.rng
        names = [n for n, d in scope.items() if d in DIMS]
        if names and rng.random() < 0.7:
            a, b = rng.choice(names), rng.choice(names)
            return rng.choice([f"{a} <= {b}", f"{a} + 1 > {b}", f"{a} != {b}", f"{a} < 3", f"{b} - {a} < 4 and {a} <= {b}"])
        return f"{self.expr(scope, depth - 1)} > {self.expr(scope, depth - 1)}"

    def reduction(self, scope, depth):
        rng = self.rng
        bound = {}
        rows = self.routed and rng.random() < 0.4
        where = ""
        if rows and any(d == "E" for d in scope.values()):
            name = self.index()
            bound[name] = self.group
            binds = f"{name} in {self.pick(scope, 'E')}"
        else:
            one, other = rng.choice(DIMS), rng.choice(DIMS)
            for dim in rng.choice([[one], [one], [one], [one, other], self.pair]):
                bound[self.index()] = dim
            binds = ", ".join(f"{n}: {d}" for n, d in bound.items())
            if rng.random() < 0.4:
                where = " where " + self.condition({**scope, **bound}, 1)
        kind = rng.choice(["sum", "sum", "sum", "max", "min"])
        body = self.expr({**scope, **bound}, depth - 1)
        text = f"({kind}({binds}{where}) ({body}) * 0.5)"
        return text if kind == "sum" else f"max2(min2({text}, 9), -9)"

    def expr(self, scope, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.leaf(scope)
        way = rng.random()
        if way < 0.45:
            op = rng.choice(["+", "-", "*", "*", "/"])
            a, b = self.expr(scope, depth - 1), self.expr(scope, depth - 1)
            return f"({a} / (1 + abs({b})))" if op == "/" else f"({a} {op} {b})"
        if way < 0.65:
            f, a = rng.choice(UNARY), self.expr(scope, depth - 1)
            special = {"sqrt1": f"sqrt(1 + abs({a}))", "exp1": f"exp(min2({a}, 2))", "neg": f"(-{a})",
                       "bf16": f"f32(bf16({a} + 0.0))", "stop1": a}
            return special.get(f, f"{f}({a})")
        if way < 0.7:
            return f"{rng.choice(['max2', 'min2'])}({self.expr(scope, depth - 1)}, {self.expr(scope, depth - 1)})"
        if way < 0.78:
            return f"if({self.condition(scope, depth)}, {self.expr(scope, depth - 1)}, {self.expr(scope, depth - 1)})"
        return self.reduction(scope, depth)

    def write(self):
        rng = self.rng
        params = []
        for n in range(rng.randint(2, 4)):
            axes = self.axes(DIMS, [1, 2, 2, 3])
            elem = rng.choice(["f32", "f32", "bf16", "f16"])
            self.tensors[f"x{n}"] = (elem, axes)
            params.append(f"in x{n}: {elem}[{', '.join(axes)}]{self.layout(axes)}")
        for n in range(rng.randint(0, 2)):
            axes = [rng.choice(DIMS) for _ in range(rng.choice([1, 2]))]
            self.into[f"j{n}"] = rng.choice(DIMS)
            self.tensors[f"j{n}"] = ("i32", axes)
            params.append(f"in j{n}: i32[{', '.join(axes)}]")
        if self.routed:
            params.append(f"in rt: route[T, K -> {self.group}]")
            for name, axes in (("xt", ["T", "B"]), ("we", ["E", "B", "C"]), ("pk", ["T", "K"])):
                self.tensors[name] = ("f32", axes)
                params.append(f"in {name}: f32[{', '.join(axes)}]")
        inputs = [t for t, (e, _) in self.tensors.items() if e != "i32"]
        outs = []
        choices = DIMS + (["T", "E", self.group] if self.routed else [])
        for n in range(rng.randint(2, 5)):
            last = n == 0 or rng.random() < 0.5
            axes = self.axes(choices, [1, 2, 2, 3])
            if axes.count(self.group) > 1:
                axes = ["A", "B"]
            scope = {self.index(): d for d in axes}
            elem = rng.choice(["f32", "f32", "bf16"]) if last else "f32"
            value = self.expr(scope, 4)
            name = f"y{n}" if last else f"u{n}"
            if self.routed and "T" in axes and axes.count("T") == 1 and rng.random() < 0.6:
                rows = [t for t, (_, a) in self.tensors.items() if a == [self.group, "B"]]
                t, k, b = self.pick(scope, "T"), self.index(), self.pick(scope, "B")
                if rows and b:
                    value = f"({value}) + sum({k}) pk[{t}, {k}] * {rng.choice(rows)}[rt.row({t}, {k}), {b}]"
            left = ", ".join(f"{i}: {d}" for i, d in scope.items())
            self.lines.append(f"  {name}[{left}] = {elem}({value})")
            self.tensors[name] = (elem, axes)
            if last:
                outs.append(f"out {name}: {elem}[{', '.join(axes)}]{self.layout(axes)}")
        terms = []  # of every input, so that each has a gradient
        for t in inputs:
            bound = {self.index(): d for d in self.tensors[t][1]}
            binds = ", ".join(f"{i}: {d}" for i, d in bound.items())
            terms.append(f"(sum({binds}) {t}[{', '.join(bound)}] * {t}[{', '.join(bound)}])")
        self.lines.append(f"  z = {' + '.join(terms)}")
        outs.append("out z: f32")
        wrt = ", ".join(t + rng.choice(["", " +="]) for t in inputs)
        head = f"kernel {self.name}({', '.join(params + outs)}) {{\n"
        sizes = " ".join(f"{d}={rng.choice([1, 2, 3, 5, 9])}" for d in ["B", "C", "T", "E"])
        sizes += f" A={rng.choice([1, 4, 17])} K={rng.choice([1, 2])} M=3"
        routing = rng.choice(["uniform", "zipf(1)", "empty(50%)", "hot(1)"])
        return (head + "\n".join(self.lines) + "\n}\n" +
                f"derive ({self.name}_fwd, {self.name}_bwd) from {self.name} wrt {wrt}\n" +
                f"test {self.name} {{ {sizes}; routing {routing}; gradcheck }}\n\n")


def source(seed):
    rng, layouts = random.Random(seed), random.Random(f"layouts {seed}")  # the kernels are the same in all layouts
    text = "moe 1\ndim A, B, C, T, K, E, M\ngroup R : E rows T*K\ngroup P : E capacity M\n\n"
    return text + "".join(Kernel(rng, layouts, f"k{n}").write() for n in range(KERNELS))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("moec")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--files", type=int, default=10)
    args.add_argument("--keep")
    args.add_argument("--machine", help="an NPU: the plan for it, under the checking emulator")
    args.add_argument("--no-gradcheck", action="store_true", help="of these files another run does it")
    args.add_argument("--timeout", type=int, default=60)
    args = args.parse_args()
    folder = args.keep or tempfile.mkdtemp()
    failed = 0
    for seed in range(args.seed, args.seed + args.files):
        path = os.path.join(folder, f"random{seed}.moe")
        with open(path, "w", encoding="utf-8") as f:
            f.write(source(seed))
        try:
            how = ["--machine", args.machine, "--emulate=check"] if args.machine else ["--no-aot"]
            how += ["--no-gradcheck"] * args.no_gradcheck
            run = subprocess.run([args.moec, "test", path, "-q"] + how, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=args.timeout)
            text = run.stdout.decode(errors="replace") if run.returncode else None
        except subprocess.TimeoutExpired:
            text = f"no end after {args.timeout} s"
        if text is not None:
            failed += 1
            print(f"FAILED  seed {seed}\n{text}", flush=True)
        if not args.keep:
            os.remove(path)
    if not args.keep:
        os.rmdir(folder)
    print(f"{args.files} files of {KERNELS} kernels, {failed} failed")
    sys.exit(failed > 0)


main()
