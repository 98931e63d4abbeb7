#!/usr/bin/env python3
"""tests/differential/scalar.moe and scalar_grad.moe are made from ir/scalar.def: kernels for every scalar operation.
usage: scalar_kernels.py [--update]   (without: fails when a file is not what the table says)"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r'^SCALAR\((\w+),\s*"([^"]+)",\s*(\d),\s*(\w+),\s*\d+,\s*[\d.]+,\s*"((?:[^"\\]|\\.)*)"', re.M)
HEAD = ("// Made from ir/scalar.def by `tests/scalar_kernels.py --update`; do not edit.\n"
        "// All operations have the same parameters, used or not: allow W1002\nmoe 1\n\ndim T, N\n")


def use(name, spelling, arity, kind, a, b):
    """The operation as text on operand texts."""
    if name == "neg":
        return f"(-{a})"
    if name == "shift":  # alone it would not cancel
        return f"({b} - shift({a}) + shift({a}))"
    if name == "not":
        return f"if(not {a} > 0, 1, 2)"
    if kind == "LOGIC":
        return f"if({a} > 0 {spelling} {b} > 0, 1, 2)"
    if kind == "COMPARE":
        return f"if({a} {spelling} {b}, 1, 2)"
    if kind == "ARITH" and not spelling.isalnum() or name == "div":
        return f"({a} {spelling} {b})"
    return f"{spelling}({a})" if arity == 1 else f"{spelling}({a}, {b})"


def rows():
    with open(os.path.join(ROOT, "ir", "scalar.def"), encoding="utf-8") as f:
        for name, spelling, arity, kind, gradient in ROW.findall(f.read()):
            if kind != "INDEX":
                yield name, spelling, int(arity), kind, gradient


def values():
    text = [HEAD]
    for name, spelling, arity, kind, _ in rows():
        f = lambda a, b: use(name, spelling, arity, kind, a, b)
        text.append(f"""
// {name}: plain, of bf16 and f16, far out, beside a reduction
kernel op_{name}(in a, b: f32[T, N], in c: bf16[T, N], in d: f16[T, N], in s: f32,
          out y, far, tiny: f32[T, N], out z: bf16[T, N], out h: f16[T, N], out r: f32[T]) {{
  y[t, n] = f32({f("a[t, n]", "b[t, n]")})
  z[t, n] = bf16({f("c[t, n]", "d[t, n]")})
  h[t, n] = f16({f("d[t, n]", "s")})
  far[t, n] = f32({f("(a[t, n] * 30.0)", "(b[t, n] * 1000.0)")})
  tiny[t, n] = f32({f("(a[t, n] * 1e-39)", "b[t, n]")})
  r[t] = max(n) f32({f("a[t, n]", "c[t, n]")})
}}
test op_{name} {{ T=3 N=37 }}
""")
    return "".join(text)


def gradients():
    text = [HEAD]
    for name, spelling, arity, kind, gradient in rows():
        if not gradient or name in ("f32", "bf16", "f16"):
            continue
        term = use(name, spelling, arity, kind, "a[t, n]", "b[t, n]")
        text.append(f"""
kernel d_{name}(in a, b: f32[T, N], out y: f32[T, N]) {{
  y[t, n] = {term} * b[t, n] + a[t, n]
}}
derive (d_{name}_fwd, d_{name}_bwd) from d_{name} wrt a, b +=
test d_{name} {{ T=2 N=19; gradcheck }}
""")
    return "".join(text)


def main():
    stale = 0
    for name, text in (("scalar.moe", values()), ("scalar_grad.moe", gradients())):
        path = os.path.join(ROOT, "tests", "differential", name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if old != text and "--update" in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print(f"{path}: written")
        elif old != text:
            stale += 1
            print(f"FAILED  tests/differential/{name} is not what ir/scalar.def says: tests/scalar_kernels.py --update")
    sys.exit(stale > 0)


main()
