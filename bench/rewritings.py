#!/usr/bin/env python3
"""Forty rewritings of the expert block beside the canonical one, gradients of those with axes in two parts, products
with such axes, and sizes that are multiples of 16 beside those that are multiples of 256: results and speed, on one thread.
usage: rewritings.py [--moec MOEC] [--isa ISA] [--check] [--rewritings | --axes | --shapes] [NAME...]
    --check   only results, at small sizes, and whether `moec explain` shows a product of bf16 that became plain loops
Ends with 1 when a result is wrong, or a speed is below 80 % of what it stands beside."""
import argparse
import random
import re
import sys

import numpy as np

import expert_block as block
import kernel

WANTED = 0.8
SIZES = {"T": 1024, "K": 2, "E": 8, "H": 512, "F": 512}
SMALL = [{"T": 34, "K": 2, "E": 5, "H": 64, "F": 96}, {"T": 2, "K": 1, "E": 3, "H": 32, "F": 32},
         {"T": 130, "K": 3, "E": 4, "H": 208, "F": 144}]


PLAIN = re.compile(r".*bf16 x bf16.*plain loops.*")  # of `moec explain`: a sum of products without blocks


def flops(n):
    return 2 * n["T"] * n["K"] * n["H"] * n["F"] * 3


class Case:
    """Sizes, data, and what the result must be, at up to 64 of the tokens."""

    def __init__(self, n):
        rng = np.random.default_rng(1)
        self.sizes, self.arrays = n, block.data(rng, n)
        self.tokens = rng.permutation(n["T"])[:64]
        self.want = block.reference(self.arrays, self.tokens)

    def wrong(self, y):
        """What is wrong with a result, or None: a rounding to bf16 may fall to the other side, here and in `a`."""
        y = kernel.from_bf16(y).reshape(self.sizes["T"], -1)
        return None if np.isfinite(y).all() and close(y[self.tokens], self.want) else "WRONG"


def close(y, want):
    return (np.abs(y - want) <= 2 ** -7 * np.abs(want) + 0.01 * np.sqrt((want ** 2).mean())).all()


class Variant:
    def __init__(self, name, options):
        self.name, self.failure = name, None
        text = block.VARIANTS[name][0] if name else block.CANONICAL
        try:
            self.kernel = kernel.compile_text(text, options.isa, options.moec)["ffn"]
            self.loops = PLAIN.findall(kernel.explain_text(text, options.isa, options.moec))
        except RuntimeError as e:
            self.failure = str(e)

    def bind(self, case):
        """The call, after one run whose result is compared; None when it is wrong."""
        try:
            sizes, given = block.arguments(self.name, case.sizes, case.arrays)
            call = self.kernel.bind(sizes, given)
            call()
            self.failure = case.wrong(given["y"])
        except (AssertionError, RuntimeError) as e:
            self.failure = str(e)
        return None if self.failure else call


def check(options, names):
    """Results only: how many variants fail at one of the small sizes."""
    failed, cases = 0, [Case(n) for n in SMALL]
    for name in ["", *names]:
        v = Variant(name, options)
        for case in cases:
            if not v.failure:
                v.bind(case)
        v.failure = v.failure or ("plain loops: " + v.loops[0].strip() if v.loops else None)
        failed += bool(v.failure)
        print(f"{'FAILED' if v.failure else 'ok':7} {name or 'canonical'}{': ' + v.failure if v.failure else ''}")
    return failed


def row(name, time, work, speed):
    print(f"{name:<36} {time * 1e3:8.2f} ms {work / time / 1e9:7.0f} GFLOP/s {speed * 100:5.0f} %"
          f"{'' if speed >= WANTED else '  slow'}", flush=True)


def time_rewritings(options, names):
    case = Case(SIZES)
    canonical = Variant("", options).bind(case)
    row("canonical", kernel.median_seconds(canonical), flops(SIZES), 1)
    speeds = {}
    for name in names:
        v = Variant(name, options)
        call = None if v.failure else v.bind(case)
        if call is None:
            print(f"{name:<36} {v.failure}")
            speeds[name] = 0
        else:
            _, time, speeds[name] = kernel.side_by_side(canonical, call)
            row(name, time, flops(SIZES), speeds[name])
    return report(speeds)


# ---- axes in two parts ----

SPLIT = ("h as two indices", "h as two indices, transposed", "f as two indices")
PRODUCTS = """moe 1
dim B, S, N, D, H
kernel rows_whole(in x: bf16[B*S, H], in w: bf16[H, N*D], out y: bf16[B*S, N*D]) { y[t, f] = bf16(sum(h) x[t, h] * w[h, f]) }
kernel rows(in x: bf16[B, S, H], in w: bf16[H, N*D], out y: bf16[B, S, N*D]) { y[b, s, f] = bf16(sum(h) x[b, s, h] * w[h, f]) }
kernel heads_whole(in x: bf16[B*S, H], in w: bf16[H, N*D], out y: bf16[B*S, N*D]) { y[t, f] = bf16(sum(h) x[t, h] * w[h, f]) }
kernel heads(in x: bf16[B*S, H], in w: bf16[H, N, D], out y: bf16[B*S, N, D]) { y[t, n, d] = bf16(sum(h) x[t, h] * w[h, n, d]) }
kernel output_whole(in x: bf16[B*S, N*D], in w: bf16[N*D, H], out y: bf16[B*S, H]) { y[t, h] = bf16(sum(f) x[t, f] * w[f, h]) }
kernel output(in x: bf16[B*S, N, D], in w: bf16[N, D, H], out y: bf16[B*S, H]) { y[t, h] = bf16(sum(n, d) x[t, n, d] * w[n, d, h]) }
"""
HEADS = {"B": 32, "S": 16, "N": 32, "D": 16, "H": 512}


def gradients(name, case, options):
    """The call of a backward kernel, and its arguments by name; what it adds to begins at 0."""
    text = (block.VARIANTS[name][0] if name else block.CANONICAL) + block.DERIVE
    k = kernel.compile_text(text, options.isa, options.moec)["ffn_bwd"]
    sizes, args = block.arguments(name, case.sizes, case.arrays)
    for p in k.params:
        if p["name"] not in args:  # the same numbers whatever the axes are
            shape, rng = k.shape(p, sizes), np.random.default_rng(len(p["name"]))
            values = rng.standard_normal(shape, np.float32) if p["role"] == "in" else np.zeros(shape, np.float32)
            args[p["name"]] = kernel.to_bf16(values) if p["type"] == "bf16" else values
    return k.bind(sizes, args), {p["name"]: args[p["name"]] for p in k.params if p["role"] != "in"}


def near(y, want):
    """Up to roundings to bf16 on the way, which may stand elsewhere."""
    y, want = kernel.floats(y).ravel(), kernel.floats(want).ravel()
    return ((y - want) ** 2).mean() <= 1e-4 * (want ** 2).mean()


def compare(speeds, name, calls, got, want, work):
    """One row: the second call beside the first, after one run of each whose results are compared."""
    for call in calls:
        call()
    if all(near(got[p], want[p]) for p in want):
        _, time, speeds[name] = kernel.side_by_side(*calls)
        row(name, time, work, speeds[name])
    else:
        print(f"{name:<36} WRONG")
        speeds[name] = 0


def time_axes(options):
    case, speeds = Case(SIZES), {}
    for name in SPLIT:
        (call, want), (other, got) = gradients("", case, options), gradients(name, case, options)
        compare(speeds, f"gradient: {name}", (call, other), got, want, 2 * flops(SIZES))
    kernels = kernel.compile_text(PRODUCTS, options.isa, options.moec)
    for name in ("rows", "heads", "output"):
        pair = kernels[name + "_whole"], kernels[name]
        want, got = (k.random(HEADS, np.random.default_rng(1)) for k in pair)
        calls = [k.bind(HEADS, args) for k, args in zip(pair, (want, got))]
        work = 2 * HEADS["B"] * HEADS["S"] * HEADS["N"] * HEADS["D"] * HEADS["H"]
        compare(speeds, f"product: {name}", calls, {"y": got["y"]}, {"y": want["y"]}, work)
    return report(speeds)


# ---- sizes ----

def neighbour(extent):
    return max(256, (extent + 128) // 256 * 256)


def time_shapes(options):
    canonical, rng = Variant("", options), random.Random(3)
    speeds = {}
    for _ in range(30):
        n = {**SIZES, "H": 16 * rng.randint(4, 64), "F": 16 * rng.randint(4, 64)}
        near = {**n, "H": neighbour(n["H"]), "F": neighbour(n["F"])}
        name = f"H={n['H']} F={n['F']} beside {near['H']} {near['F']}"
        _, time, ratio = kernel.side_by_side(canonical.bind(Case(near)), canonical.bind(Case(n)))
        speeds[name] = ratio * flops(n) / flops(near)
        row(name, time, flops(n), speeds[name])
    return report(speeds)


def report(speeds):
    slow = [name for name, speed in speeds.items() if speed < WANTED]
    worst = min(speeds, key=speeds.get)
    print(f"{len(speeds) - len(slow)} of {len(speeds)} reach {WANTED * 100:.0f} %; worst {speeds[worst] * 100:.0f} %: {worst}")
    return len(slow)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--moec", default=kernel.MOEC)
    p.add_argument("--isa", default="host")
    for flag in ("--check", "--rewritings", "--axes", "--shapes"):
        p.add_argument(flag, action="store_true")
    p.add_argument("names", nargs="*")
    options = p.parse_args()
    names = options.names or list(block.VARIANTS)
    if options.check:
        sys.exit(check(options, names) > 0)
    chosen = [part for part in ("rewritings", "axes", "shapes") if getattr(options, part)]
    failed = 0
    if "rewritings" in chosen or not chosen:
        failed += time_rewritings(options, names)
    if "axes" in chosen or not chosen:
        failed += time_axes(options)
    if "shapes" in chosen or not chosen:
        failed += time_shapes(options)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
