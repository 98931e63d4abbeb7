#!/usr/bin/env python3
"""What the model of an NPU says about choices: fused against unfused kernels, blocks of a grouped product, copies of them on
the chip, the order of items. Prints Markdown tables; docs/npu.md says how far off the model is.

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
kernel gradient_apart(in x: bf16[R, H], in d: bf16[R, F], in rt: route[T, K -> R], inout w: f32[E, H, F]) {
  g[e, h, f] = bf16(sum(r in e) x[r, h] * d[r, f])
  w[e, h, f] += g[e, h, f]
}
kernel product(in x: bf16[R, H], in w: bf16[E, H, F], in rt: route[T, K -> R], out y: bf16[R, F]) {
  y[r, f] = bf16(sum(h) x[r, h] * w[@r, h, f])
}
kernel permute_product(in x: bf16[T, H], in w: bf16[E, H, F], in rt: route[T, K -> R], out y: bf16[R, F]) {
  xp[r, h] = x[rt.token(r), h]
  y[r, f] = bf16(sum(h) xp[r, h] * w[@r, h, f])
}
kernel unpermute(in o: f32[R, H], in p: f32[T, K], in rt: route[T, K -> R], out y: bf16[T, H]) {
  y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
kernel unpermute_apart(in o: f32[R, H], in p: f32[T, K], in rt: route[T, K -> R], out y: bf16[T, H]) {
  s[r, h] = p[rt.token(r), rt.slot(r)] * o[r, h]
  y[t, h] = bf16(sum(k) s[rt.row(t, k), h])
}
kernel product_unpermute(in a: bf16[R, F], in w: bf16[E, F, H], in p: f32[T, K], in rt: route[T, K -> R], out y: bf16[T, H]) {
  o[r, h] = sum(f) a[r, f] * w[@r, f, h]
  y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
kernel block(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K], in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H],
             out y: bf16[T, H]) {
  xp[r, h] = x[rt.token(r), h]
  g[r, f] = sum(h) xp[r, h] * wg[@r, h, f]
  u[r, f] = sum(h) xp[r, h] * wu[@r, h, f]
  a[r, f] = bf16(silu(g[r, f]) * u[r, f])
  o[r, h] = sum(f) a[r, f] * wd[@r, f, h]
  y[t, h] = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
"""
# What it is, the fused kernel, its schedule, and the kernel whose equations then run one by one.
COMPARED = [("weight gradient and its sum", "gradient", "", "gradient_apart"),
            ("permute and product", "permute_product", "fuse xp -> y at prologue", "permute_product"),
            ("weights and unpermute", "unpermute", "", "unpermute_apart"),
            ("product and unpermute", "product_unpermute", "fuse o -> y at scatter", "product_unpermute"),
            ("expert block", "block", "", "block")]
FC1, FC2, SPREAD = ("E=8,H=7680,F=4096", "E=8,H=2048,F=7680", "E=64,H=7680,F=4096")
# A grouped product of T*K rows: sizes beside those, and how the rows fall to groups.
ROUTED = [("fc1", FC1, None), ("fc1, zipf(1.2)", FC1, "zipf(1.2)"), ("fc2", FC2, None), ("fc2, zipf(1.2)", FC2, "zipf(1.2)"),
          ("fc1, 64 groups", SPREAD, "uniform")]
BANDS = (1, 2, 4, 8, 16)
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

    def run(self, kernel, schedule="", sizes="", routing=None, apart=False):
        """The report of a kernel, or why there is none. With a routing: one choice for each of 8192 tokens. apart: one launch for
        each equation."""
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(KERNELS + f"schedule {kernel} {{ {schedule} }}\n")
        given = dict(size.split("=") for size in ",".join(filter(None, (self.options.sizes, sizes))).split(","))
        given.update({"K": "1", "T": "8192"} if routing else {})
        sizes = ",".join([f"{name}={size}" for name, size in given.items()] + ([f"routing={routing}"] if routing else []))
        done = subprocess.run([self.options.moec, "report", self.path, kernel, "--machine", self.options.machine, "--sizes", sizes,
                               "-O", "0" if apart else "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.stdout.decode()
        why = re.search(r"(\w+ of \w+ has \d+ bytes, and \d+ are needed)", text)
        return Row(text) if done.returncode == 0 else why.group(1) if why else text.splitlines()[0]


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def compare(runner):
    rows = []
    for name, kernel, schedule, parts in COMPARED:
        one, apart = runner.run(kernel, schedule), runner.run(parts, apart=True)
        if isinstance(one, str) or isinstance(apart, str):
            rows.append((name, one if isinstance(one, str) else apart, "", "", "", ""))
            continue
        rows.append((name, f"{one.us:.0f} us", f"{apart.us:.0f} us", f"{apart.us / one.us:.2f}", f"{one.bytes / 1e9:.2f} GB",
                     f"{apart.bytes / 1e9:.2f} GB"))
    table(("", "fused", "one by one", "gain", "global memory, fused", "one by one"), rows)


def describe(row):
    return (row, "", "", "") if isinstance(row, str) else (f"{row.us:.0f} us", f"{row.cube:.1f} %", row.bound,
                                                           f"{row.bytes / 1e9:.2f} GB")


def sweep(runner):
    rows = []
    for m, n, k in BLOCKS:
        rows.append((f"{m} x {n} x {k}", *describe(runner.run("product", f"tile y : M = {m} N = {n} K = {k}"))))
    for space in ("l1", "l0a", "l0b"):
        rows.append((f"one copy in {space}", *describe(runner.run("product", f"copies {space} = 1"))))
    rows.append(("terms shuffled", *describe(runner.run("product", "order terms shuffled"))))
    for order in ("heaviest_first", "as_given"):
        rows.append((f"zipf(1.2), {order}", *describe(runner.run("product", f"order groups {order}", routing="zipf(1.2)"))))
    table(("grouped product", "time", "cube", "bound by", "global memory"), rows)


def orders(runner):
    """Blocks of rows that are handed out together."""
    rows = []
    for band in BANDS:
        found = [runner.run("product", f"tile y : band = {band}", sizes, routing) for _, sizes, routing in ROUTED]
        rows.append((str(band), *[row if isinstance(row, str) else f"{row.us:.0f} us, {row.cube:.1f} %" for row in found]))
    table(("blocks in a band", *[name for name, _, _ in ROUTED]), rows)


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
        orders(runner)


main()
