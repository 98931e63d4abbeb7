#!/usr/bin/env python3
"""What the kernels of the repository cost on modelled machines: a change that makes a plan another one, better or worse, shows in the
difference of tests/costs.expect, which has a line for each kernel and machine.

usage: costs.py [--update] MOEC [PATTERN]
The machines are an NPU, and a CPU with AVX2 all of whose figures are given, so that every computer comes to the same. What differs is
printed with the geometric mean of the cycles' ratios; --update writes the file anew: review the difference like code."""
import argparse
import concurrent.futures
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import given_cpu

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPECTED = os.path.join(ROOT, "tests", "costs.expect")
SOURCES = ("examples/*.moe", "model/*.moe", "bench/*.moe")
# Beyond one block, and odd; dimensions that are not named are OTHER, and all obey the rules of their declarations.
SIZES = {"T": 300, "H": 272, "F": 144, "V": 528, "S": 200, "L": 200, "G": 144, "P": 5000, "E": 6, "K": 3}
OTHER = 5
ROUTING = "hot(2), empty(20%)"
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
COLUMNS = ("kernel", "machine", "cycles", "launches", "kB by path")


def given(folder):
    """The description of a CPU that asks nothing of the one that it is read on."""
    path = os.path.join(folder, "cpu.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write(given_cpu.description())
    return path


def moec(options, *words, **env):
    done = subprocess.run([options.moec, *words], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=200)
    if done.returncode:
        sys.exit(f"costs: moec {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def size_of(dim):
    if dim["constant"] is not None:
        return dim["constant"]
    size = -(-SIZES.get(dim["name"], OTHER) // dim["multiple"]) * dim["multiple"]
    return size if dim["max"] is None else min(size, dim["max"])


def kernels(options):
    """(file, kernel, sizes) of all that are not the same kernel without what a backward needs."""
    for path in sorted(f for s in SOURCES for f in glob.glob(s, root_dir=ROOT)):
        manifest = json.loads(moec(options, "--emit=manifest", path))
        sizes = {d["name"]: size_of(d) for d in manifest["dims"]}
        names = {k["name"] for k in manifest["kernels"]}
        for k in manifest["kernels"]:
            if k["name"] + "_fwd" not in names and re.search(options.pattern, f"{path} {k['name']}"):
                routed = any(p["kind"] == "route" for p in k["params"])
                yield path, k["name"], ",".join(f"{d}={sizes[d]}" for d in k["dims"]) + (f",routing={ROUTING}" if routed else "")


def moved(report):
    """Thousands of bytes by path, of all launches together."""
    head, *rows = re.search(r"^bytes .*\n(?:\S.*\n)*", report, re.M).group(0).splitlines()
    paths = re.split(r"\s{2,}", head.replace(" global", "  global"))[1:]
    total = [0.0] * len(paths)
    for row in rows:
        found = re.findall(r"([\d.]+) ([KMG]?B)", row)
        if not row.startswith("together"):
            total = [t + float(n) * UNITS[unit] for t, (n, unit) in zip(total, found)]
    return ", ".join(f"{p} {t / 1e3:g}" for p, t in zip(paths, total) if t)


def one(options, machines, path, kernel, sizes):
    """{(kernel, machine): (cycles, launches, bytes)}"""
    found = {}
    for name, (machine, env) in machines.items():
        report = moec(options, "report", path, kernel, f"--machine={machine}", "--threads=1", f"--sizes={sizes}", **env)
        cycles = int(re.search(r" (\d+) cycles", report).group(1))
        launches = len(re.search(r"^launch .*\n((?:\S.*\n)*)", report, re.M).group(1).splitlines())
        found[f"{path} {kernel}", name] = cycles, launches, moved(report)
    return found


def line_of(key, figures):
    return "{:<42} {:<8} {:>8} {:>9}  {}".format(*key, *figures).rstrip()


def read_expected():
    with open(EXPECTED, encoding="utf-8") as f:
        lines = f.read().splitlines()[1:]
    found = {}
    for line in lines:
        path, kernel, machine, cycles, launches, *rest = line.split(None, 5)
        found[f"{path} {kernel}", machine] = int(cycles), int(launches), "".join(rest)
    return found


def compare(found, expected):
    """The number of lines that differ, which are printed."""
    keys = [k for k in {**expected, **found} if expected.get(k) != found.get(k)]
    for k in keys:
        for sign, side in (("-", expected), ("+", found)):
            if k in side:
                print(sign, line_of(k, side[k]))
    ratios = [found[k][0] / expected[k][0] for k in keys if k in found and k in expected and found[k][0] and expected[k][0]]
    if ratios:
        print(f"costs: {len(ratios)} of {len(found)} differ, cycles by {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f} in the mean, "
              f"{min(ratios):.3f} to {max(ratios):.3f}; if that is meant: tests/costs.py --update")
    return len(keys)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("moec")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    if options.update and options.pattern:
        parser.error("--update writes all lines")
    options.moec = os.path.abspath(options.moec)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        machines = {"910b2": ("ascend910b2", {}), "avx2": (given(folder), {"MOE_ISA": "avx2"})}
        jobs = [pool.submit(one, options, machines, *k) for k in kernels(options)]
        found = {k: v for j in jobs for k, v in j.result().items()}
    if options.update:
        with open(EXPECTED, "w", encoding="utf-8") as f:
            f.write("\n".join([line_of(COLUMNS[:2], COLUMNS[2:]), *(line_of(*item) for item in found.items())]) + "\n")
        return False
    expected = {k: v for k, v in read_expected().items() if re.search(options.pattern, k[0])}
    differ = compare(found, expected)
    print(f"costs: {len(found)} lines,", "FAILED" if differ else "as expected")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
