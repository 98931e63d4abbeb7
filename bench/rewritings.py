#!/usr/bin/env python3
"""Forty rewritings of the expert block beside the canonical one, and sizes that are multiples of 16 beside those that
are multiples of 256: results and speed, on one thread.
usage: rewritings.py [--moec MOEC] [--isa ISA] [--check] [--rewritings | --shapes] [NAME...]
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


def row(name, time, n, speed):
    print(f"{name:<32} {time * 1e3:8.2f} ms {flops(n) / time / 1e9:7.0f} GFLOP/s {speed * 100:5.0f} %"
          f"{'' if speed >= WANTED else '  slow'}", flush=True)


def time_rewritings(options, names):
    case = Case(SIZES)
    canonical = Variant("", options).bind(case)
    row("canonical", kernel.median_seconds(canonical), SIZES, 1)
    speeds = {}
    for name in names:
        v = Variant(name, options)
        call = None if v.failure else v.bind(case)
        if call is None:
            print(f"{name:<32} {v.failure}")
            speeds[name] = 0
        else:
            _, time, speeds[name] = kernel.side_by_side(canonical, call)
            row(name, time, SIZES, speeds[name])
    return report(speeds)


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
        row(name, time, n, speeds[name])
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
    for flag in ("--check", "--rewritings", "--shapes"):
        p.add_argument(flag, action="store_true")
    p.add_argument("names", nargs="*")
    options = p.parse_args()
    names = options.names or list(block.VARIANTS)
    if options.check:
        sys.exit(check(options, names) > 0)
    failed = 0 if options.shapes else time_rewritings(options, names)
    failed += 0 if options.rewritings else time_shapes(options)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
