#!/usr/bin/env python3
"""A type name exists once in the whole tree: structs, enums, unions and typedefs of all rooms, public headers included. Prints
each name that two files define.

usage: tests/type_names.py"""
import collections
import glob
import os
import re
import sys

ROOMS = ["include/moec", "base", "machines", "ir", "frontend", "passes", "lower", "npu", "emulator", "backend", "runtime", "driver",
         "testing", "explain", "command", "step", "model", "trainer", "bench", "python"]
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
POINTER = re.compile(r"\btypedef\b[^;{}()]*\(\s*\*\s*(\w+)\s*\)\s*\(")
ALIAS = re.compile(r"\btypedef\s+(?!(?:struct|enum|union)\s+(\w+)\s+\1\s*;)[^;{}]*?(\w+)\s*;")
BRACED = re.compile(r"\btypedef\s+(?:struct|enum|union)\s*\{[^}]*\}\s*(\w+)\s*;")


def names_in(text):
    text = NO_CODE.sub(" ", text)
    found = set(TAG.findall(text)) | set(POINTER.findall(text)) | set(BRACED.findall(text))
    return found | {alias for _, alias in ALIAS.findall(POINTER.sub("typedef_done(", text))}


def own_test():
    text = "typedef struct A A; struct A { int x; }; typedef enum B { B1 } B; typedef int (*C)(int x); typedef Vec(int) D;\n" \
           "/* struct E { */ struct F f; typedef uint32_t G; typedef struct { int x; } H; typedef struct I *J;"
    found = "".join(sorted(names_in(text)))
    if found != "ABCDGHJ":
        sys.exit(f"type_names: finds {found} in its own test, not ABCDGHJ")


def main():
    own_test()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = collections.defaultdict(list)
    for room in ROOMS:
        for path in sorted(glob.glob(f"{room}/*.[ch]")):
            with open(path, encoding="utf-8") as f:
                for name in names_in(f.read()):
                    files[name].append(path)
    twice = {name for name, paths in files.items() if len(paths) > 1}
    for name in sorted(twice):
        print(f"{name} is defined in {', '.join(files[name])}")
    print(f"type_names: {len(files)} names, {len(twice)} defined more than once")
    return bool(twice)


if __name__ == "__main__":
    sys.exit(main())
