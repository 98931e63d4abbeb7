#!/usr/bin/env python3
"""Every line of `moec explain --space` is a clause that the front end takes and that does something: with a knob's second
value the program of tiles is another one, and explain names the line. All lines together are a schedule, too.
usage: space.py MOEC FILE..."""
import re, subprocess, sys, tempfile

moec, files = sys.argv[1], sys.argv[2:]
bad = 0


def run(*words):
    done = subprocess.run([moec, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def expect(good, where, why):
    global bad
    if not good:
        print(f"FAILED {where}: {why}")
        bad = 1


def clauses(space):
    """(kernel, clause with its second value) of each line; choices that the compiler does not make itself are comments."""
    kernel = None
    for line in space.split("\n"):
        if line.startswith("schedule "):
            kernel = line.split()[1]
        elif line.startswith("  "):
            yield kernel, re.sub(r"\?\{[^,]*, ([^,}]*)[^}]*\}", r"\1", line.strip(" /"))


def check(path, scratch):
    with open(path) as f:
        text = f.read()
    edited = scratch + "/edited.moe"
    usual = run(path, "--emit=tiles")[1]
    space = run("explain", "--space", path)[1]

    def edit(schedule):
        with open(edited, "w") as f:
            f.write(text + schedule)
        return run(edited, "--emit=tiles")

    expect(edit(space) == (0, usual), path, "its space does not compile to the usual program")
    for kernel, clause in clauses(space):
        where = f"{path}: schedule {kernel} {{ {clause} }}"
        status, tiles = edit(f"\nschedule {kernel} {{ {clause} }}\n")
        line = text.count("\n") + 2
        expect(status == 0, where, tiles)
        expect(tiles != usual, where, "the program stays the same")
        rows = [row for row in run("explain", edited, kernel)[1].split("\n") if f"schedule, line {line}" in row]
        expect(rows and "not used" not in "".join(rows), where, f"explain says {rows}")


for path in files:
    with tempfile.TemporaryDirectory() as scratch:
        check(path, scratch)
sys.exit(bad)
