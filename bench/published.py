#!/usr/bin/env python3
"""How far the model of an NPU is from published times: runs the cases of bench/published.json through `moec report` and writes
docs/accuracy.md, each time and the error of each class, and emulator/accuracy.def, which reports print.

usage: published.py [--moec PATH]            print the tables
       published.py [--moec PATH] --update   write both files
       published.py [--moec PATH] --check [--quick]   fail unless both files say what the model says now; quick: of each class
                                             only the shortest time"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
POINTS, KERNELS, PAGE, ROWS = (os.path.join(ROOT, *path) for path in (
    ("bench", "published.json"), ("bench", "published.moe"), ("docs", "accuracy.md"), ("emulator", "accuracy.def")))

HEAD = """# How far off the model of an NPU is

Written by `bench/published.py --update` from bench/published.json, which has the sources, and the kernels of
bench/published.moe; do not edit. [npu.md](npu.md) says what the model is.

The error is a factor: 2 means that the model says twice the published time, or half of it. Of `same blocks` the blocks of the
published kernel are known and given by a schedule. The other times are those of libraries, whose blocks are not known, or of
kernels that are written otherwise: that a plan is worse than such a kernel, and that the model is wrong, cannot be told apart
there. Published times are those of a profiler, of a kernel alone; the model's have what it takes to start one.

Of a vector kernel that two programs were timed for the faster one counts. fp16 products stand here as bf16, which the cube
multiplies as fast, because the language's products of f16 are f32. Left out are products whose operands stand in memory in
fractals, which the language cannot say (tests/unit/test_simulate.c has them, as lists of operations).

"""


def report(moec, point, scratch):
    """The model's time in us."""
    with open(KERNELS, encoding="utf-8") as f:
        text = f.read()
    if "schedule" in point:
        text += f"schedule {point['kernel']} {{ {point['schedule']} }}\n"
    path = os.path.join(scratch, "published.moe")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([moec, "report", path, point["kernel"], "--machine", point["machine"], "--sizes", point["sizes"]],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = re.search(r": ([0-9.]+) us", done.stdout.decode())
    if done.returncode or not found:
        sys.exit(f"{point}: {done.stdout.decode()}")
    return float(found.group(1))


def factor(point, us):
    return max(us / point["us"], point["us"] / us)


def classes(points):
    return list(dict.fromkeys(point["class"] for point in points))


def case(point):
    sizes = re.sub(r"exact\((\d+)(,\1)*\)", r"\1 rows each", point["sizes"]).replace(",", ", ")
    return f"{point['kernel']} {sizes}" + (f"; {point['schedule'].replace('tile c : ', '')}" if "schedule" in point else "")


def page(points, times):
    text = HEAD + "| class | times | median | worst |\n|---|---|---|---|\n"
    for name, errors in summary(points, times):
        text += f"| {name} | {len(errors)} | {statistics.median(errors):.2f} | {max(errors):.2f} |\n"
    for name in classes(points):
        text += f"\n## {name}\n\n| case | machine | published | model | factor | source |\n|---|---|---|---|---|---|\n"
        for point, us in zip(points, times):
            if point["class"] == name:
                text += (f"| {case(point)} | {point['machine']} | {point['us']:g} us | {us:.1f} us | {us / point['us']:.2f} | "
                         f"{point['source']} |\n")
    return text


def summary(points, times):
    return [(name, [factor(p, us) for p, us in zip(points, times) if p["class"] == name]) for name in classes(points)]


def rows(points, times):
    text = ("/* How far the model of an NPU is from published times: ACCURACY(class, times, median, worst), factors. Written by\n"
            " * bench/published.py --update; do not edit. */\n/* clang-format off */\n")
    for name, errors in summary(points, times):
        text += f'ACCURACY("{name}", {len(errors)}, {statistics.median(errors):.2f}, {max(errors):.2f})\n'
    return text + "/* clang-format on */\n#undef ACCURACY\n"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def check_quick(moec, points, scratch):
    """The shortest time of each class stands in the page as the model has it now."""
    text, wrong = read(PAGE), 0
    for name in classes(points):
        point = min((p for p in points if p["class"] == name), key=lambda p: p["us"])
        row = f"| {case(point)} | {point['machine']} | {point['us']:g} us | {report(moec, point, scratch):.1f} us |"
        if row not in text:
            print(f"docs/accuracy.md has no row {row}; bench/published.py --update writes it anew")
            wrong = 1
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moec", default=os.path.join(ROOT, "build", "bin", "moec"))
    for option in ("--update", "--check", "--quick"):
        parser.add_argument(option, action="store_true")
    o = parser.parse_args()
    points = json.loads(read(POINTS))["points"]
    with tempfile.TemporaryDirectory(prefix="moec-published-") as scratch:
        if o.quick:
            sys.exit(check_quick(o.moec, points, scratch))
        times = [report(o.moec, point, scratch) for point in points]
    for path, text in ((PAGE, page(points, times)), (ROWS, rows(points, times))):
        if o.update:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif o.check and text != read(path):
            sys.exit(f"{os.path.relpath(path, ROOT)} is not what the model says now; bench/published.py --update writes it anew")
    if not o.check and not o.update:
        print(page(points, times)[len(HEAD):])


main()
