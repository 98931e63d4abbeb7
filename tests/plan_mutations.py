#!/usr/bin/env python3
"""Edited plans: the checker finds each.   usage: plan_mutations.py MOEC [-v] [--all] [--machine NAME]

Kernels of examples are planned for an NPU, edited, and run with `moec test --emulate=check`:
  flag    a set or a wait is taken out
  shrink  a buffer on the chip loses a slot, or its rows or columns beyond the first fractal
  place   a buffer on the chip begins where another one that is used with it does, behind the end of its space, or not where one may
  box     a move or a product is longer than its buffer
  items   a block of a group's rows ends where all rows end, so that two items write those of the next group
Each must be refused by the verifier, or found by the checker. An edit that never runs at these sizes is shown to be so by a
check that fails in its place. -v lists every edit with what became of it; --all has longer kernels too."""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC, VERBOSE = sys.argv[1], "-v" in sys.argv
MACHINE = sys.argv[sys.argv.index("--machine") + 1] if "--machine" in sys.argv else "ascend910b2"
# More than one block of rows and of columns, and more than one slab of terms.
FILES = [("gate_up", "gate_up", "T=70 K=2 E=2 H=300 F=140; routing zipf(1.2)"),
         ("xent", "xent", "T=70 H=72 V=300")]
MORE = [("attention", "attention", "B=1 S=300 N=1 D=72"),
        ("moe_ffn", "ffn", "T=70 K=2 E=2 H=304 F=144; routing zipf(1.2)")]
BUFFER = r"    (l1|l0a|l0b|l0c|ub) (\w+): (\w+)\[(.*)\]( zN| nZ| zZ)? at (\d+)$"
UNREACHED = 'check 0 == 1 else COMPUTED "reached"'


def moec(*arguments):
    try:
        done = subprocess.run([MOEC, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "did not end"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def one_core(folder):
    """The machine with one cube core, so that it does all items."""
    with open(os.path.join(ROOT, "machines", f"{MACHINE}.json")) as f:
        machine = json.load(f)
    cores = machine["cores"]
    cores["vector"]["value"] //= cores["cube"]["value"]
    cores["cube"]["value"] = 1
    path = os.path.join(folder, "one.json")
    with open(path, "w") as f:
        json.dump(machine, f)
    return path


class Plan:
    """One kernel of an example: its file with a test of its own, and the plan as lines of text."""

    def __init__(self, example, kernel, sizes, folder):
        self.name, self.folder = kernel, folder
        self.source = os.path.join(folder, f"{kernel}.moe")
        with open(os.path.join(ROOT, "examples", f"{example}.moe")) as f:
            text = re.sub(r"^(test|derive|export) .*(\n[ }].*)*\n", "", f.read(), flags=re.M)
        with open(self.source, "w") as f:
            f.write(f"{text}\ntest {kernel} {{ {sizes} }}\n")
        self.machine = one_core(folder)
        status, text = moec("--machine", self.machine, "--emit=tiles", self.source)
        if status:
            sys.exit(f"FAILED  {example}: {text}")
        head, *bodies = re.split(r"^(?=kernel )", text, flags=re.M)
        body = next(b for b in bodies if b.startswith(f"kernel {kernel}("))
        self.lines = (head + body).rstrip("\n").split("\n")

    def run(self, lines, what):
        path = os.path.join(self.folder, f"{self.name}-{re.sub(r'[^a-z0-9]+', '-', what)}.moetiles")
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        return moec("test", self.source, f"--kernel={self.name}", "--machine", self.machine, "--emulate=check", f"--tiles={path}")

    def buffers(self):
        for n, line in enumerate(self.lines):
            if found := re.match(BUFFER, line):
                yield n, *found.groups()

    def stretches_of(self, name):
        """Lines at which a launch, or a loop that has UB for itself, begins and names a buffer."""
        heads = [n for n, line in enumerate(self.lines) if re.match(r"    launch |\s+set mte3 -> mte2 ", line)] + [len(self.lines)]
        return {a for a, b in zip(heads, heads[1:]) if any(re.search(rf"(?<![\w.]){name}\b", x) for x in self.lines[a:b])}


# ---- edits: each yields (what, lines, lines that show whether it runs or None) ----

def replaced(p, n, line):
    return p.lines[:n] + [line] + p.lines[n + 1:]


def flags(p):
    for n, line in enumerate(p.lines):
        if re.match(r"\s+(set|wait) ", line):
            yield f"line {n}: no {line.strip()}", p.lines[:n] + p.lines[n + 1:], replaced(p, n, UNREACHED)


def unused(p, name, first=0):
    """With checks that no flag is about a slot of the buffer from `first` on."""
    for line in p.lines:
        if found := re.match(rf"\s+(?:set|wait) .* {name}(?:\[(.*?)\])?$", line.split(" @")[0]):
            yield f'check {found.group(1) or 0} < {first} else COMPUTED "reached"'
        yield line


def shrinks(p):
    for n, space, name, elem, extents, layout, at in p.buffers():
        sizes = [int(x) for x in extents.split(", ")]
        for axis, size in enumerate(sizes):
            small = size - 1 if axis + 2 < len(sizes) else 16
            if 0 < small < size:
                less = ", ".join(str(small if i == axis else x) for i, x in enumerate(sizes))
                yield (f"line {n}: {name}[{extents}] -> [{less}]",
                       replaced(p, n, f"    {space} {name}: {elem}[{less}]{layout or ''} at {at}"),
                       list(unused(p, name, small if axis == 0 else 0)))


def places(p):
    found = list(p.buffers())
    for n, space, name, elem, extents, layout, at in found:
        def moved(to):
            return (f"line {n}: {name} at {at} -> {to}",
                    replaced(p, n, f"    {space} {name}: {elem}[{extents}]{layout or ''} at {to}"), list(unused(p, name)))
        yield moved(int(at) + 8)
        yield moved(1 << 20)
        for _, other_space, other, *_, other_at in reversed(found):
            if other_space == space and other_at != at and p.stretches_of(name) & p.stretches_of(other):
                yield moved(other_at)
                break


def boxes(p):
    for n, line in enumerate(p.lines):
        if found := re.match(r"(\s+pack .* over \w+ in .*\.\.)(.*)(, \w+ in .*\.\.)(.*)( = .*)$", line):
            a, rows, b, cols, c = found.groups()
            for what, new in (("rows", f"{a}{rows} + 1024{b}{cols}{c}"), ("columns", f"{a}{rows}{b}{cols} + 1024{c}")):
                yield f"line {n}: more {what} {line.strip()[:30]}", replaced(p, n, new), replaced(p, n, UNREACHED)
        if re.match(r"\s+product ", line):
            for word in ("rows", "cols", "depth"):
                new = re.sub(rf"( {word} )(.*?)(?= cols | depth | init |$)", r"\g<1>\g<2> + 1024", line, count=1)
                yield f"line {n}: more {word}", replaced(p, n, new), replaced(p, n, UNREACHED)


def items(p):
    for n, line in enumerate(p.lines):
        if found := re.match(r"(\s+\w+ = min2\(\w+ \+ \d+, )rt\.start\[\w+\] \+ rt\.count\[\w+\]\)(.*)$", line):
            yield f"line {n}: rows of the next group", replaced(p, n, f"{found.group(1)}T * K){found.group(2)}"), replaced(p, n, UNREACHED)


def verdict(p, what, lines, unreached):
    status, output = p.run(lines, what)
    text = output.strip()
    if status == 1 and "error[E" in text:
        return what, "refused: " + re.search(r"error\[E.*", text).group(0), True
    if status == 1 and "plan: kernel" in text:
        return what, "found: " + re.search(r"plan: (.*)", text).group(1), True
    if status == 0 and unreached and p.run(unreached, what + " unreached")[0] == 0:
        return what, "never runs", True
    return what, f"NOT FOUND: {status} {text}", False


def some(edits):
    """All of them with --all; else every fourth, which takes half a minute."""
    return edits if "--all" in sys.argv or len(edits) < 4 else edits[::4]


def main():
    wrong, counts = 0, {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for example, kernel, sizes in FILES + (MORE if "--all" in sys.argv else []):
            p = Plan(example, kernel, sizes, folder)
            status, output = p.run(p.lines, "as it is")
            if status:
                sys.exit(f"FAILED  {kernel} as it is: {output}")
            jobs += [(kind, p, pool.submit(verdict, p, *edit)) for kind in (flags, shrinks, places, boxes, items) for edit in some(list(kind(p)))]
        for kind, p, job in jobs:
            what, found, right = job.result()
            row = counts.setdefault(kind.__name__, {})
            row[found.split(":")[0]] = row.get(found.split(":")[0], 0) + 1
            wrong += not right
            if VERBOSE or not right:
                print("" if right else "FAILED ", p.name, "|", what, "|", found)
    for kind, row in counts.items():
        print(f"{kind}: " + ", ".join(f"{n} {found}" for found, n in sorted(row.items())))
    print(f"plan mutations: {wrong} wrong")
    sys.exit(wrong > 0 or not counts)


main()
