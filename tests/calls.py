#!/usr/bin/env python3
"""Calls between files, read from the symbols of the build's objects: no call goes up between rooms, and no circle of calls
within a room has more than MOST files. Prints each circle and call that breaks a rule.

usage: tests/calls.py [BUILD_DIR]    (default: $MOEC_BUILD, else build)"""
import collections
import os
import subprocess
import sys

MOST = 6
LARGER = {"backend": 25, "lower": 14}  # not taken apart yet: files of the largest circle; may only shrink
# In the order of the story: a room calls those before it.
ROOMS = ["base", "machines", "ir", "frontend", "passes", "lower", "npu", "emulator", "backend", "runtime", "driver", "testing",
         "explain", "command"]


def objects(build):
    """path -> room/file of each object of the compiler, but for what an earlier build left."""
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(build, room)):
            for name in names:
                source = f"{room}/{name[:-2]}"
                if name.endswith(".c.o") and (os.path.exists(source) or os.path.exists(os.path.join(build, source))):
                    yield os.path.join(folder, name), source


def of(file, definitions):
    own = [d for d in definitions if d.split("/")[0] == file.split("/")[0]]
    return (own or definitions)[0]


def read_calls(build):
    """file -> files that define what it uses. The back end is linked apart: a name of its own may stand elsewhere too."""
    files = dict(objects(build))
    defined, used = {}, {file: set() for file in files.values()}
    symbols = subprocess.run(["nm", "-A", *files], capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        path, symbol = line.split(":", 1)
        *_, kind, name = symbol.split()
        if kind in "Uw":
            used[files[path]].add(name)
        elif kind.isupper():
            defined.setdefault(name, []).append(files[path])
    return {file: {of(file, defined[s]) for s in symbols if s in defined} - {file} for file, symbols in used.items()}


def circles(calls):
    """Strongly connected sets of more than one file (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in calls[file]:
            if other not in number:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == number[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in calls:
        if file not in number:
            visit(file)
    return found


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    calls = read_calls(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOEC_BUILD", "build"))
    if len(calls) < 100:
        sys.exit(f"calls: only {len(calls)} objects: is this a build?")
    bad = 0
    room = lambda file: file.split("/")[0]
    for file, others in calls.items():
        for other in sorted(others):
            if ROOMS.index(room(other)) > ROOMS.index(room(file)):
                print(f"{file} calls up into {other}")
                bad = 1
    largest = collections.Counter()
    for circle in circles(calls):
        largest[room(circle[0])] = max(largest[room(circle[0])], len(circle))
        if len(circle) > LARGER.get(room(circle[0]), MOST):
            print(f"{len(circle)} files call each other in a circle: {' '.join(circle)}")
            bad = 1
    for name, most in LARGER.items():
        if largest[name] < most:
            print(f"the largest circle of {name} has {largest[name]} files now: lower LARGER")
            bad = 1
    print(f"calls: {len(calls)} files; largest circles: " + ", ".join(f"{r} {n}" for r, n in largest.most_common(5)))
    return bad


if __name__ == "__main__":
    sys.exit(main())
