#!/usr/bin/env python3
"""What a row of ir/schedule.def promises of its values holds: of each knob that `moec explain --space` lists for a kernel every
word, and the least and the most of its numbers, gives a program that the verifier takes after each pass; and the kernel's
results on two threads have the usual bits, those of one thread, unless the value says that it changes them.
usage: knobs.py MOEC [--target ISA] FILE KERNEL SIZE=N,... [FILE KERNEL SIZE=N,...] ..."""
import argparse
import re
import subprocess
import sys
import tempfile

SMALL = 256     # numbers beyond are much the same at the sizes of a test


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def values(clause):
    """The clause with each value but the first, which is the usual one."""
    head, listed = re.fullmatch(r"(.*)\?\{(.*)\}", clause).groups()
    all_values = [v.strip() for v in listed.split(",")][1:]
    if all_values[0].isdigit():
        numbers = sorted({int(v) for v in all_values if int(v) <= SMALL})
        all_values = [str(n) for n in (numbers[0], numbers[-1])]
    return [head + v for v in all_values]


class Case:
    def __init__(self, options, path, kernel, sizes):
        self.options, self.kernel, self.sizes = options, kernel, sizes.split(",")
        self.path = path
        with open(path) as f:
            self.text = f.read()
        space = run(options.moec, "explain", "--space", f"--target={options.target}", path)[1]
        lines = re.search(rf"^schedule {kernel} \{{\n(.*?)^\}}", space, re.M | re.S).group(1).split("\n")
        self.clauses = [c for line in lines if "?{" in line for c in values(line.strip())]

    def check(self, edited):
        """What is wrong with one value after the other."""
        usual = self.outputs(self.path, 1)
        if self.outputs(self.path, 2) != usual:
            yield f"{self.path}: with 2 threads other bits"
        for clause in self.clauses:
            where = f"{self.path}: schedule {self.kernel} {{ {clause} }}"
            with open(edited, "w") as f:
                f.write(self.text + f"\nschedule {self.kernel} {{ {clause} }}\n")
            status, out = run(self.options.moec, "--verify-each", f"--target={self.options.target}", "--emit=tiles", edited)
            if status:
                yield f"{where}: {out}"
                continue
            keeps = not self.changes_bits(edited, clause)
            now = self.outputs(edited, 2)
            if now[0] or (keeps and now != usual):
                yield f"{where}: {'other bits' if not now[0] else now[1]}"

    def outputs(self, path, threads):
        return run(self.options.moec, "run", "--no-time", f"--target={self.options.target}", f"--threads={threads}", path, self.kernel, *self.sizes)

    def changes_bits(self, edited, clause):
        """What explain says of the value, which is one that something asks for."""
        explained = run(self.options.moec, "explain", f"--target={self.options.target}", edited, self.kernel)[1]
        rows = [row for row in explained.split("\n") if clause in row and "schedule, line" in row]
        if not rows or "not used" in rows[0]:
            raise SystemExit(f"FAILED {edited}: explain does not say that `{clause}` is used:\n{explained}")
        return "changes bits" in rows[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("moec")
    parser.add_argument("--target", default="host")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    bad = tried = 0
    for n in range(0, len(options.cases), 3):
        case = Case(options, *options.cases[n:n + 3])
        with tempfile.TemporaryDirectory() as scratch:
            for line in case.check(scratch + "/edited.moe"):
                print("FAILED " + line)
                bad += 1
        tried += len(case.clauses)
    print(f"{tried} values, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
