#!/usr/bin/env python3
"""What the model of an NPU says about choices: fused against unfused kernels, blocks of a grouped product, copies of them on
the chip, the order of groups. Prints Markdown tables; docs/npu.md says how far off the model is.

usage: npu.py [--moec PATH] [--machine NAME] [--sizes T=1024,...]"""
import argparse
import os
import re
import subprocess
import tempfile

KERNELS = """moe 1
dim T
dim K <= 64
dim E
dim H, F : % 16 prefer 256
group R : E rows T*K
kernel gradient(in x: bf16[R, H], in d: bf16[R, F], in rt: route[T, K -> R], inout w: f32[E, H, F]) {
  w[e, h, f] += sum(r in e) x[r, h] * d[r, f]
}
kernel gradient_alone(in x: bf16[R, H], in d: bf16[R, F], in rt: route[T, K -> R], out g: bf16[E, H, F]) {
  g[e, h, f] = bf16(sum(r in e) x[r, h] * d[r, f])
}
kernel add(in g: bf16[E, H, F], inout w: f32[E, H, F]) {
  w[e, h, f] += g[e, h, f]
}
kernel permute(in x: bf16[T, H], in rt: route[T, K -> R], out y: bf16[R, H]) {
  y[r, h] = x[rt.token(r), h]
}
kernel product(in x: bf16[R, H], in w: bf16[E, H, F], in rt: route[T, K -> R], out y: bf16[R, F]) {
  y[r, f] = bf16(sum(h) x[r, h] * w[@r, h, f])
}
kernel permute_product(in x: bf16[T, H], in w: bf16[E, H, F], in rt: route[T, K -> R], out y: bf16[R, F]) {
  y[r, f] = bf16(sum(h) x[rt.token(r), h] * w[@r, h, f])
}
kernel unpermute(in o: f32[R, H], in p: f32[T, K], in rt: route[T, K -> R], out y: bf16[T, H]) {
  y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
"""
COMPARED = [("weight gradient and its sum", "gradient", ("gradient_alone", "add")),
            ("permute and product", "permute_product", ("permute", "product"))]
BLOCKS = [(128, 256, 256), (256, 128, 256), (128, 256, 128), (128, 128, 256), (64, 256, 256), (256, 256, 128), (128, 512, 256)]
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Row:
    """A report: time in us, bytes of global memory, share of the cube, what bounds the longest launch."""

    def __init__(self, text):
        number, unit = re.search(r"^together .* ([0-9.]+) ([KMGT]?)B$", text, re.M).groups()
        self.bytes = float(number) * UNITS[unit]
        self.us = float(re.search(r": ([0-9.]+) us", text).group(1))
        self.cube = float(re.search(r"^cube: ([0-9.]+) %", text, re.M).group(1))
        launches = re.findall(r"^\S+ +\d+  .{12} +([0-9.]+) +[0-9.]+% +[0-9.]+%  (.*)$", text, re.M)
        self.bound = max(launches, key=lambda found: float(found[0]))[1]


class Runner:
    def __init__(self, options, scratch):
        self.options, self.path = options, os.path.join(scratch, "npu.moe")

    def run(self, kernel, schedule="", routing=None):
        """The report of a kernel, or why there is none. With a routing: one choice for each of 8192 tokens."""
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(KERNELS + schedule)
        sizes = f"{self.options.sizes},K=1,T=8192,routing={routing}" if routing else self.options.sizes
        done = subprocess.run([self.options.moec, "report", self.path, kernel, "--machine", self.options.machine, "--sizes", sizes],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.stdout.decode()
        why = re.search(r"(\w+ of \w+ has \d+ bytes, and \d+ are needed)", text)
        return Row(text) if done.returncode == 0 else why.group(1) if why else text.splitlines()[0]


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def compare(runner):
    rows = []
    for name, fused, parts in COMPARED:
        one, others = runner.run(fused), [runner.run(part) for part in parts]
        if any(isinstance(x, str) for x in (one, *others)):
            rows.append((name, *[str(x) for x in (one, *others) if isinstance(x, str)][:1], "", "", ""))
            continue
        us, moved = sum(x.us for x in others), sum(x.bytes for x in others)
        rows.append((name, f"{one.us:.0f} us", f"{us:.0f} us", f"{us / one.us:.2f}", f"{one.bytes / 1e9:.2f} GB",
                     f"{moved / 1e9:.2f} GB"))
    alone = runner.run("unpermute")
    if not isinstance(alone, str):
        rows.append(("unpermute", f"{alone.us:.0f} us", "", "", f"{alone.bytes / 1e9:.2f} GB", ""))
    table(("", "fused", "in several kernels", "gain", "global memory, fused", "in several"), rows)


def describe(row):
    return (row, "", "", "") if isinstance(row, str) else (f"{row.us:.0f} us", f"{row.cube:.1f} %", row.bound,
                                                           f"{row.bytes / 1e9:.2f} GB")


def sweep(runner):
    rows = []
    for m, n, k in BLOCKS:
        found = runner.run("product", f"schedule product {{ tile y : M = {m} N = {n} K = {k} }}\n")
        rows.append((f"{m} x {n} x {k}", *describe(found)))
    for space in ("l1", "l0a", "l0b"):
        rows.append((f"one copy in {space}", *describe(runner.run("product", f"schedule product {{ copies {space} = 1 }}\n"))))
    for order in ("heaviest_first", "as_given"):
        found = runner.run("product", f"schedule product {{ order groups {order} }}\n", "zipf(1.2)")
        rows.append((f"zipf(1.2), {order}", *describe(found)))
    table(("grouped product", "time", "cube", "bound by", "global memory"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moec", default="moec")
    parser.add_argument("--machine", default="ascend910b2")
    parser.add_argument("--sizes", default="T=1024,K=8,E=8,H=7680,F=4096")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moec-npu-") as scratch:
        runner = Runner(options, scratch)
        print(f"{options.machine}, {options.sizes}: a model, not a measurement")
        compare(runner)
        sweep(runner)


main()
