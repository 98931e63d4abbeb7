#!/usr/bin/env python3
"""Functions and the calls between files, read from the symbols of the build's objects: no call goes up between rooms, no circle
of calls within a room has more than MOST files, files of backend/ call only their own layer and those below, a name is defined once
in the whole tree, and what only its own file uses is static. Prints what breaks a rule.

usage: tests/calls.py [BUILD_DIR]    (default: $MOEC_BUILD, else build)"""
import collections
import os
import re
import subprocess
import sys

MOST = 6
# In the order of the story: a room calls those before it.
ROOMS = ["base", "machines", "ir", "frontend", "passes", "lower", "npu", "emulator", "backend", "runtime", "records", "driver", "testing",
         "explain", "tuner", "lsp", "command", "step", "comm", "model", "python"]
PROGRAMS = ["trainer", "bench"]  # call the compiler through its public headers only
OF_EACH_PROGRAM = re.compile("main|peer|argp_program_version|source_.*")  # a library of moe-bench is one; texts that are embedded, too


def objects(build, rooms):
    """path -> room/file of each object of the rooms, but for what an earlier build left."""
    for room in rooms:
        for folder, _, names in os.walk(os.path.join(build, room)):
            for name in names:
                source = f"{room}/{name[:-2]}"
                if name.endswith(".c.o") and (os.path.exists(source) or os.path.exists(os.path.join(build, source))):
                    yield os.path.join(folder, name), source


def read_symbols(build, rooms):
    """name -> files that define it, file -> names that it uses."""
    files = dict(objects(build, rooms))
    defined, used = {}, {file: set() for file in files.values()}
    symbols = subprocess.run(["nm", "-A", *files], capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        path, symbol = line.split(":", 1)
        *_, kind, name = symbol.split()
        if kind in "Uw":
            used[files[path]].add(name)
        elif kind.isupper():
            defined.setdefault(name, []).append(files[path])
    return defined, used


def read_calls(build):
    """file -> files that define what it uses."""
    defined, used = read_symbols(build, ROOMS)
    return {file: {defined[s][0] for s in symbols if s in defined} - {file} for file, symbols in used.items()}


def defined_twice(build):
    defined, _ = read_symbols(build, ROOMS + PROGRAMS)
    for name, files in sorted(defined.items()):
        if len(files) > 1 and not OF_EACH_PROGRAM.fullmatch(name):
            yield f"{name} is defined in {' and '.join(sorted(files))}"


def words():
    """Word of the sources -> files that it stands in."""
    found = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        for name in names:
            if name.endswith((".c", ".h", ".def", ".y", ".l")):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    for word in set(re.findall(r"\b\w+\b(?!\.c)", f.read())):
                        found.setdefault(word, set()).add(os.path.join(folder, name)[2:])
    return found


def used_alone(build):
    """Of what a header of a room declares by name. (Macros of headers use some names that no other source has.)"""
    defined, used = read_symbols(build, ROOMS + PROGRAMS)
    found, elsewhere = words(), set().union(*used.values())
    for name, (file, *_) in sorted(defined.items()):
        headers = {f for f in found.get(name, ()) if f.endswith(".h")}
        if name not in elsewhere and headers and found[name] - headers <= {file} and not any(f.startswith("include/") for f in headers):
            yield f"{name} is used in {file} only: static, and not in {' and '.join(sorted(headers))}"


def layers():
    """Of Note [Layers] in backend/emit.h: file -> number of its row."""
    with open("backend/emit.h", encoding="utf-8") as f:
        note = f.read().partition("Note [Layers]")[2].partition("*/")[0]
    rows = re.findall(r"^ \*     (\w+(?:, \w+)*): ", note, re.M)
    return {f"backend/{name}.c": n for n, row in enumerate(rows) for name in row.split(", ")}


def against_layers(calls):
    layer = layers()
    for file in sorted(file for file in calls if file.startswith("backend/") or file in layer):
        if file not in layer or file not in calls:
            yield f"{file} is not in Note [Layers] of backend/emit.h, or only there"
        for other in sorted(calls[file] & layer.keys() if file in layer and file in calls else ()):
            if layer[other] > layer[file]:
                yield f"{file} calls up into {other}"


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
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOEC_BUILD", "build")
    calls = read_calls(build)
    if len(calls) < 100:
        sys.exit(f"calls: only {len(calls)} objects: is this a build?")
    names = [*defined_twice(build), *used_alone(build)]
    print("\n".join(names), end="\n" if names else "")
    bad = len(names) > 0
    room = lambda file: file.split("/")[0]
    for file, others in calls.items():
        for other in sorted(others):
            if ROOMS.index(room(other)) > ROOMS.index(room(file)):
                print(f"{file} calls up into {other}")
                bad = 1
    for line in against_layers(calls):
        print(line)
        bad = 1
    largest = collections.Counter()
    for circle in circles(calls):
        largest[room(circle[0])] = max(largest[room(circle[0])], len(circle))
        if len(circle) > MOST:
            print(f"{len(circle)} files call each other in a circle: {' '.join(circle)}")
            bad = 1
    print(f"calls: {len(calls)} files; largest circles: " + ", ".join(f"{r} {n}" for r, n in largest.most_common(5)))
    return bad


if __name__ == "__main__":
    sys.exit(main())
