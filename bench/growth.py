#!/usr/bin/env python3
"""How time and memory of the compiler grow with the program.   usage: growth.py [--moec MOEC] [--check] [FAMILY...]

A family is programs of size n. Prints the CPU time and the peak memory of each at doubling n, with the exponent of each
doubling: 1 is linear; below it the 75 MiB and 40 ms that LLVM alone takes are the most. --check compiles each family
once, at its largest n, and fails if that takes more than LIMIT_SECONDS or LIMIT_BYTES."""
import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_BYTES = 512 << 20  # peak of what is resident; of a report, whose trace alone is some 300 MiB, three times that
LIMIT_SECONDS = 20       # of CPU time: ten times what the slowest takes


def kernel(params, lines, name="f"):
    return f"kernel {name}({params}) {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def norms(n):
    lines = ["a0[t, h] = x[t, h]"]
    for i in range(1, n + 1):
        lines += [f"s{i}[t] = sum(h) a{i-1}[t, h] * a{i-1}[t, h]",
                  f"a{i}[t, h] = a{i-1}[t, h] * rsqrt(s{i}[t] + 1) + x[t, h]"]
    return "moe 1\ndim T, H\n" + kernel("in x: f32[T, H], out y: f32[T, H]", lines + [f"y[t, h] = a{n}[t, h]"])


def centred(n):
    lines = ["a0[t, h] = x[t, h]"]
    for i in range(1, n + 1):
        lines += [f"s{i}[t] = sum(h) a{i-1}[t, h]", f"a{i}[t, h] = a{i-1}[t, h] - s{i}[t] / H"]
    return "moe 1\ndim T, H\n" + kernel("in x: f32[T, H], out y: f32[T, H]", lines + [f"y[t, h] = a{n}[t, h]"])


def pointwise(n):
    lines = ["a0[t, h] = x[t, h]"]
    lines += [f"a{i}[t, h] = a{i-1}[t, h] * a{i-1}[t, h] + x[t, h]" for i in range(1, n + 1)]
    return "moe 1\ndim T, H\n" + kernel("in x: f32[T, H], out y: f32[T, H]", lines + [f"y[t, h] = a{n}[t, h]"])


def products(n):
    lines = ["a0[t, h] = x[t, h]"]
    lines += [f"a{i}[t, h] = silu(sum(k) a{i-1}[t, k] * w[k, h])" for i in range(1, n + 1)]
    return "moe 1\ndim T, H\n" + kernel("in x: f32[T, H], in w: f32[H, H], out y: f32[T, H]",
                                        lines + [f"y[t, h] = a{n}[t, h]"])


def conjuncts(n):
    guard = " and ".join(f"{i}*a + {n+3-i}*b != {i-1}" for i in range(1, n - 1))
    return "moe 1\ndim A, B\n" + kernel(
        "in x: f32[A], out y: f32[A, B]",
        [f"y[a, b] = if({guard} and a + 2*b - 7 >= 0 and a + 2*b - 7 < A, x[a + 2*b - 7], 0)"])


def where(n):
    guard = " and ".join(f"a + {i}*b >= {i}" for i in range(1, n + 1))
    return "moe 1\ndim A, B\n" + kernel("in x: f32[A, B], out y: f32[A]",
                                        [f"y[a] = sum(b where {guard}) x[a, b]"])


def wide(n):
    return "moe 1\ndim T, H\n" + kernel(
        "in x: f32[T, H], out y: f32[T]",
        ["y[t] = " + " + ".join(f"(sum(h{i}) x[t, h{i}] * {i})" for i in range(1, n + 1))])


def terms(n):
    return "moe 1\ndim T, H\n" + kernel(
        "in x: f32[T, H], out y: f32[T, H]",
        ["y[t, h] = " + " + ".join(f"x[t, h] * {i}.5" for i in range(1, n + 1))])


def outputs(n):
    return "moe 1\ndim T, H\n" + kernel(
        "in x: f32[T, H], " + ", ".join(f"out y{i}: f32[T, H]" for i in range(n)),
        [f"y{i}[t, h] = x[t, h] * {i}.5" for i in range(n)])


def kernels(n):
    return "moe 1\ndim T, H\n" + "".join(
        kernel("in x: f32[T, H], out y: f32[T]", ["y[t] = sum(h) x[t, h] * x[t, h]"], f"k_{i}") for i in range(n))


def choices(n):
    lines = ["a0[t] = x[t]"]
    lines += [f"a{i}[t] = max2(min2(a{i-1}[t], {i}.5), if(a{i-1}[t] > {i}, x[t], a{i-1}[t] * 2))" for i in range(1, n + 1)]
    return "moe 1\ndim T\n" + kernel("in x: f32[T], out y: f32[T]", lines + [f"y[t] = a{n}[t]"])


def shifts(n):
    lines = ["a0[t] = x[t]"]
    lines += [f"a{i}[t] = if(t >= {i}, a{i-1}[t - {i}], 0) + a{i-1}[t]" for i in range(1, n + 1)]
    return "moe 1\ndim T\n" + kernel("in x: f32[T], out y: f32[T]", lines + [f"y[t] = a{n}[t]"])


def dims(n):
    return "moe 1\n" + "".join(f"dim D{i}\n" for i in range(n)) + "".join(
        kernel(f"in x: f32[D{i}, D{(i+1) % n}], out y: f32[D{i}]", ["y[a] = sum(b) x[a, b]"], f"k_{i}") for i in range(0, n, 4))


def deep(n):
    """Conditions in conditions."""
    lines = ["y[t] = " + "".join(f"if(x[t] > {i}, x[t] * {i}.5, " for i in range(n)) + "x[t]" + ")" * n]
    return "moe 1\ndim T\n" + kernel("in x: f32[T], out y: f32[T]", lines)


def functions(n):
    """A function of a function of ...: each argument is evaluated once, but written out there are 2^n."""
    return "moe 1\ndim T, H\nfn g0(x) = x\n" + "".join(f"fn g{i}(x) = g{i-1}(x * x + x)\n" for i in range(1, n)) + kernel(
        "in x: f32[T, H], out y: f32[T]", [f"y[t] = g{n-1}(sum(h) x[t, h])"])


def squares(n):
    """Likewise, in the term of a sum: a product of 2^n factors."""
    return "moe 1\ndim T, H\nfn g0(x) = x\n" + "".join(f"fn g{i}(x) = g{i-1}(x * x)\n" for i in range(1, n)) + kernel(
        "in x: f32[T, H], in w: f32[H], out y: f32[T]", [f"y[t] = sum(h) g{n-1}(x[t, h]) * w[h]"])


def derived(program):
    return lambda n: program(n) + "derive (g, b) from f wrt x\n"


def file(name):
    with open(os.path.join(ROOT, name)) as f:
        text = f.read()
    return lambda n: text


SO = ["-o", "{so}"]
ATTENTION = ["report", "{source}", "attention_bwd", "--sizes", "B=1,N=4,D=128,S={n}", "--machine"]
FFN = ["report", "{source}", "ffn_bwd", "--sizes", "T=8192,K=4,H=2048,F=1024,E={n}", "--machine"]

# name: program, sizes (--check takes the last one), arguments of moec; {n}: the size.
FAMILIES = {
    "norms": (norms, (16, 32, 64, 128), SO),
    "centred": (centred, (16, 32, 64, 128), SO),
    "pointwise": (pointwise, (64, 128, 256, 512, 1024), SO),
    "products": (products, (32, 64, 128, 256), SO),
    "conjuncts": (conjuncts, (8, 16, 32), SO),
    "where": (where, (8, 16, 32), SO),
    "wide": (wide, (16, 32, 64, 128), SO),
    "terms": (terms, (64, 128, 256, 512), SO),
    "outputs": (outputs, (16, 32, 64, 128), SO),
    "kernels": (kernels, (32, 64, 128, 256), SO),
    "choices": (choices, (16, 32, 64, 128), SO),
    "shifts": (shifts, (16, 32, 64, 128), SO),
    "dims": (dims, (64, 128, 256), SO),
    "deep": (deep, (25, 50, 100), SO),
    "functions": (functions, (25, 50, 100), SO),
    "squares": (squares, (25, 50, 100), SO),
    "norms, passes only": (norms, (128, 256, 512, 1024), ["--emit=tiles"]),
    "products, passes only": (products, (256, 512, 1024), ["--emit=tiles"]),
    "derived norms": (derived(norms), (8, 16, 32, 64), SO),
    "derived centred": (derived(centred), (8, 16, 32, 64), SO),
    "derived pointwise": (derived(pointwise), (16, 32, 64, 128), SO),
    "derived products": (derived(products), (16, 32, 64), SO),
    "derived conjuncts": (derived(conjuncts), (8, 16, 32), SO),
    "derived where": (derived(where), (8, 16, 32), SO),
    "derived wide": (derived(wide), (16, 32, 64, 128), SO),
    "derived terms": (derived(terms), (64, 128, 256, 512), SO),
    "derived choices": (derived(choices), (16, 32, 64), SO),
    "derived shifts": (derived(shifts), (16, 32, 64), SO),
    "derived deep": (derived(deep), (25, 50, 100), SO),
    "explain norms": (norms, (32, 64, 128), ["explain"]),
    "explain --space norms": (norms, (32, 64, 128), ["explain", "--space"]),
    "grad norms": (derived(norms), (32, 64, 128), ["grad"]),
    "report attention, host": (file("examples/attention.moe"), (2048, 4096, 8192), ATTENTION + ["host"]),
    "report attention, NPU": (file("examples/attention.moe"), (2048, 4096, 8192), ATTENTION + ["ascend910b2"]),
    "report experts, host": (file("examples/moe_ffn.moe"), (64, 128, 256), FFN + ["host"]),
    "report experts, NPU": (file("examples/moe_ffn.moe"), (64, 128, 256), FFN + ["ascend910b2"]),
}


def arguments(command, source, n, folder):
    """Of moec; the source comes last where the command does not say where."""
    words = [word.format(source=source, n=n, so=os.path.join(folder, "f.so")) for word in command]
    return words if source in words else [*words, source]


def measure(moec, text, command, n, folder):
    """Status, CPU seconds, peak bytes, what it wrote to the standard error."""
    source = os.path.join(folder, "f.moe")
    with open(source, "w") as f:
        f.write(text)

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (10 * LIMIT_SECONDS, 10 * LIMIT_SECONDS))

    env = dict(os.environ, MOEC_CACHE=os.path.join(folder, f"cache{time.monotonic_ns()}"))
    with open(os.path.join(folder, "err"), "w+") as err:
        process = subprocess.Popen([moec, *arguments(command, source, n, folder)], stdout=subprocess.DEVNULL, stderr=err,
                                   preexec_fn=limit, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        err.seek(0)
        return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, err.read()


def show(moec, name, folder):
    program, sizes, command = FAMILIES[name]
    last = None
    for n in sizes:
        status, seconds, memory, err = measure(moec, program(n), command, n, folder)
        growth = ""
        if last:
            growth = "  n^%.1f  n^%.1f" % tuple(math.log(b / max(a, 1e-3)) / math.log(n / last[0])
                                              for a, b in zip(last[1:], (seconds, memory)))
        print(f"{name:<24} {n:5} {seconds:8.2f} s {memory / 2**20:8.0f} MiB{growth}" +
              (f"  status {status}: {err.strip()[:100]}" if status else ""), flush=True)
        if status:
            break
        last = (n, seconds, memory)


def check(moec, name, folder):
    """Whether the largest of the family is within the limits."""
    program, sizes, command = FAMILIES[name]
    status, seconds, memory, err = measure(moec, program(sizes[-1]), command, sizes[-1], folder)
    limit = LIMIT_BYTES * (3 if "report" in command else 1)
    good = not status and seconds <= LIMIT_SECONDS and memory <= limit
    print(f"{'ok' if good else 'FAILED'}  {name} {sizes[-1]}: {seconds:.2f} s, {memory / 2**20:.0f} MiB" +
          (f", status {status}: {err.strip()[:200]}" if status else ""), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", default=os.path.join(ROOT, "build", "bin", "moec"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("family", nargs="*", choices=[[], *FAMILIES])
    args = parser.parse_args()
    one, good = check if args.check else show, True
    with tempfile.TemporaryDirectory() as folder:
        for name in args.family or FAMILIES:
            good &= one(args.moec, name, folder) is not False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
