#!/usr/bin/env python3
"""Edited tile programs: what keeps the results keeps them, what does not is found.   usage: tile_mutations.py MOEC [-v] [--all]

Kernels of two examples and of a test are printed as tiles, edited as a person would, and compiled again:
  swap    two loops change places: other machine code, the same bits
  block   the blocks of a product get other sizes (columns, depth, rows): other machine code, the same bits
  delete  a launch, a pack or a product is taken out: refused by the verifier, or the results are not the interpreter's;
          a statement that never runs at these sizes is shown to be so by a check that fails in its place
  merge   two launches become one, so that the barrier between them is gone: refused by the verifier, or the two have
          nothing to do with each other and the results are the same
Deletions and merges are all tried; of swaps and blocks a few in each kernel, with --all all of them. -v lists every edit
with what became of it."""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC, VERBOSE, ALL = sys.argv[1], "-v" in sys.argv, "--all" in sys.argv
FEW = 3
# Sizes of `moec run`: more than one block of each kind that the edits make, and choices that are dropped. The forward
# that keeps values for a backward is left out where it has the statements of the other one.
FILES = [("examples/moe_ffn", ["ffn", "ffn_fwd", "ffn_bwd"],
          ["T=24", "K=2", "E=2", "H=80", "F=112", "--routing=exact(37, 9)"]),
         ("examples/attention", ["attention", "attention_bwd"], ["B=1", "S=100", "N=1", "D=40"]),
         ("tests/differential/scatter", ["shared"],
          ["T=24", "K=2", "E=2", "H=72", "F=40", "G=20", "--routing=exact(37, 9)"])]
FLAT = r"(parallel|owned) (\w+) in (.*)\.\.(.*?)( by \d+)? \{$"


def moec(*arguments):
    try:
        done = subprocess.run([MOEC, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "did not end"
    return done.returncode, done.stdout.decode("utf-8", "replace")


class Kernel:
    """One kernel of an example as lines of tile text, the only one of its file."""

    def __init__(self, source, sizes, head, text, folder):
        self.source, self.sizes, self.head, self.folder = source, sizes, head, folder
        self.lines = text.rstrip("\n").split("\n")
        self.name = re.match(r"kernel (\w+)", text).group(1)
        self.bits, self.code = None, None

    def write(self, lines, what):
        path = os.path.join(self.folder, f"{self.name}-{re.sub(r'[^a-z0-9]+', '-', what)}.moetiles")
        with open(path, "w") as f:
            f.write(self.head + "\n".join(lines) + "\n")
        return path

    def run(self, path):
        """1: the results are not the interpreter's."""
        return moec("run", self.source, self.name, *self.sizes, f"--tiles={path}")

    def asm(self, path):
        return moec("--emit=asm", path)

    def end_of(self, first):
        """The line that closes the block that line `first` opens."""
        indent = len(self.lines[first]) - len(self.lines[first].lstrip())
        return next(n for n in range(first, len(self.lines)) if self.lines[n] == " " * indent + "}")

    def launches(self):
        return [(n, self.end_of(n)) for n, line in enumerate(self.lines) if re.match(r" {4}launch ", line)]

    def flat_loops(self, launch):
        """Lines of the parallel loops of a launch, outermost first."""
        n, found = launch[0] + 1, []
        while re.match(r"\s+" + FLAT, self.lines[n]):
            found.append(n)
            n += 1
        return found


# ---- edits: each yields (what, lines) ----

UNREACHED = 'check 0 == 1 else COMPUTED "reached"'


def deletions(k):
    for first, last in k.launches():
        yield f"delete line {first}: {k.lines[first].strip(' {')}", k.lines[:first] + k.lines[last + 1:], None
    for n, line in enumerate(k.lines):
        if re.match(r"\s+(pack|product) ", line):
            yield (f"delete line {n}: {line.split('+=')[0].split(' over ')[0].strip()}",
                   k.lines[:n] + k.lines[n + 1:], k.lines[:n] + [UNREACHED] + k.lines[n:])


def renamed(lines, old, new):
    for a, b in zip(old, new):
        lines = [re.sub(rf"(?<![\w.]){a}(?!\w)", b, line) for line in lines]
    return lines


def hand_over(k, a, b):
    """Launch b reads work space that launch a writes."""
    body = "\n".join(k.lines[b[0]:b[1]])
    written = {found.group(1) for line in k.lines[a[0]:a[1]] if (found := re.match(r"\s+(\w+)\[.*\] \+?= ", line))}
    return any(re.search(rf"^    work {name}:", "\n".join(k.lines), re.M) and re.search(rf"(?<![\w.]){name}\[", body)
               for name in written)


def merges(k):
    """The second launch's statements behind the first one's; inside the same parallel loops where both have them, or where
    one needs what the other makes (then over wrong bounds, perhaps, but that it is refused must not hang on those)."""
    for a, b in zip(k.launches(), k.launches()[1:]):
        (a, a_end), (b, b_end) = a, b
        what = f"{k.lines[a].strip(' {')} and {k.lines[b].strip(' {')}"
        yield f"merge {what}", k.lines[:a_end] + k.lines[b + 1:b_end] + k.lines[a_end:b] + k.lines[b_end + 1:]
        left, right = k.flat_loops((a, a_end)), k.flat_loops((b, b_end))
        heads = [[re.match(r"\s+" + FLAT, k.lines[n]).groups() for n in flat] for flat in (left, right)]
        same = [h[:1] + h[2:] for h in heads[0]] == [h[:1] + h[2:] for h in heads[1]]
        if left and (same or len(left) == len(right) and hand_over(k, (a, a_end), (b, b_end))):
            depth = len(left)
            body = renamed(k.lines[b + 1 + depth:b_end - depth], [h[1] for h in heads[1]], [h[1] for h in heads[0]])
            yield f"merge the bodies of {what}", k.lines[:a_end - depth] + body + k.lines[a_end - depth:b] + \
                k.lines[b_end + 1:]


def exchanged(lines, n):
    """Two loop heads, one directly in the other, change places."""
    indent = [len(line) - len(line.lstrip()) for line in lines[n:n + 2]]
    return lines[:n] + [" " * indent[0] + lines[n + 1].lstrip(), " " * indent[1] + lines[n].lstrip()] + lines[n + 2:]


def swaps(k):
    for launch in k.launches():
        flat = k.flat_loops(launch)
        body = k.lines[launch[0]:launch[1]]
        if len(flat) > 1 and any(re.match(r"\s+product ", line) for line in body):
            yield f"swap the parallel loops of {k.lines[launch[0]].strip(' {')}", exchanged(k.lines, flat[0])
    for n, line in enumerate(k.lines[:-2]):
        row = re.match(r"\s+for (row\w*) in ", line)
        column = re.match(r"\s+vector (\w+) in (.*) \{", k.lines[n + 1])
        alone = column and k.end_of(n + 1) + 1 == k.end_of(n)
        if row and alone and row.group(1) not in column.group(2):
            yield f"swap rows and columns at line {n}", exchanged(k.lines, n)


def with_step(k, what, var, old, new, head, within):
    """The loop at line `head` and every `var + old` of the lines `within` get another step."""
    lines = list(k.lines)
    lines[head] = re.sub(rf" by {old}\b", f" by {new}", lines[head])
    for n in range(*within):
        lines[n] = re.sub(rf"\b{var} \+ {old}\b", f"{var} + {new}", lines[n])
    return f"block {what} {old} -> {new} at line {head}", lines


def blocks(k):
    loop = r"\s+(?:parallel|for) ((v|u|slab)\w*) in .* by (\d+)(?: @\d+)? \{$"
    for first, last in k.launches():
        if not any(re.match(r"\s+product ", line) for line in k.lines[first:last]):
            continue
        for n in range(first, last):
            found = re.match(loop, k.lines[n])
            if found and found.group(3) in ("64", "128", "256"):
                yield with_step(k, {"v": "columns", "u": "rows", "slab": "depth"}[found.group(2)], found.group(1),
                                found.group(3), "32" if found.group(3) == "64" else "64", n, (n, k.end_of(n)))
    for n, line in enumerate(k.lines):
        found = re.match(r"\s+blocks (\w+), .* by (\d+)", line)
        if found and int(found.group(2)) >= 96:
            lines = list(k.lines)
            lines[n] = line.replace(f"by {found.group(2)}", "by 32")
            for m in range(n, len(lines)):
                read = re.match(rf"\s+(\w+) = {found.group(1)}\[\w+, 1\]", lines[m])
                if read:
                    lines[m + 1] = lines[m + 1].replace(f"{read.group(1)} + {found.group(2)}", f"{read.group(1)} + 32")
            yield f"block rows {found.group(2)} -> 32 at line {n}", lines


# ---- verdicts: (what, verdict, is it right) ----

def first_line(text):
    return text.strip().split("\n")[0]


def refused(k, path):
    status, output = moec("--emit=tiles", path, "-o", path + ".again")
    if status == 1 and "error[E0193]" in output:
        return first_line(output).split("error[E0193]: ")[1]
    return None if status == 0 else f"?? status {status}: {first_line(output)}"


def must_be_found(k, what, lines, unreached):
    path = k.write(lines, what)
    why = refused(k, path)
    if why:
        return what, f"refused: {why}", not why.startswith("??")
    status, output = k.run(path)
    if status == 0 and unreached and k.run(k.write(unreached, what + " unreached"))[0] == 0:
        return what, "never runs", True
    return what, f"found: {output.strip().splitlines()[-1]}" if status == 1 else f"NOT FOUND: {status}", status == 1


def must_not_matter_or_be_refused(k, what, lines):
    path = k.write(lines, what)
    why = refused(k, path)
    if why:
        return what, f"refused: {why}", not why.startswith("??")
    status, output = k.run(path)
    return what, "same results" if status == 0 else f"ACCEPTED, WRONG: {output}", status == 0


def must_keep_bits(k, what, lines):
    path = k.write(lines, what)
    why = refused(k, path)
    if why:
        return what, f"REFUSED: {why}", False
    code, bits = k.asm(path), k.run(path)
    if code == k.code:
        return what, "SAME machine code", False
    return what, "other code, same bits" if bits == k.bits else f"OTHER BITS: {first_line(bits[1])}", bits == k.bits


KINDS = [(deletions, must_be_found), (merges, must_not_matter_or_be_refused), (swaps, must_keep_bits),
         (blocks, must_keep_bits)]


# ---- the run ----

def kernels(folder):
    for name, wanted, sizes in FILES:
        source = f"{name}.moe"
        status, text = moec("--emit=tiles", source)
        if status:
            sys.exit(f"FAILED  {source}: {text}")
        head, *bodies = re.split(r"^(?=kernel )", text, flags=re.M)
        for body in bodies:
            k = Kernel(source, sizes, head, body, folder)
            if k.name not in wanted:
                continue
            path = k.write(k.lines, "as it is")
            k.code, k.bits = k.asm(path), k.run(path)
            if k.code[0] or k.bits[0]:
                sys.exit(f"FAILED  {k.name} as it is: {k.code[1] if k.code[0] else k.bits[1]}")
            yield k


def chosen(kind, k):
    """All edits that may break something; of those that may not, some from everywhere."""
    edits = list(kind(k))
    if ALL or kind in (deletions, merges):
        return edits
    return edits[::len(edits) // FEW + 1]


def main():
    wrong, counts = 0, {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(kind, k, pool.submit(verdict, k, *edit)) for k in kernels(folder) for kind, verdict in KINDS
                for edit in chosen(kind, k)]
        for kind, k, job in jobs:
            what, verdict, right = job.result()
            row = counts.setdefault(kind.__name__, {})
            row[verdict.split(":")[0]] = row.get(verdict.split(":")[0], 0) + 1
            wrong += not right
            if VERBOSE or not right:
                print("" if right else "FAILED ", k.name, "|", what, "|", verdict)
    for kind, _ in KINDS:
        row = counts.get(kind.__name__, {})
        print(f"{kind.__name__}: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(row.items())))
        wrong += not row
    print(f"tile mutations: {wrong} wrong")
    sys.exit(wrong > 0)


main()
