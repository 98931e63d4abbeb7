#!/usr/bin/env python3
"""Every helper that a program calls, for any instruction set, was made when the compiler was built: Note [Made helpers] in
backend/made.h.

usage: tests/made_helpers.py [BUILD_DIR]    (default: $MOEC_BUILD, else build)"""
import glob
import os
import re
import subprocess
import sys

TARGETS = ["all", "avx512widen", "amx", "amx-soft"]
DEFINED = re.compile(r'^define .*@"?(moec\.(?:product|panel|pack|transpose)\.[\w.]+)"?\(', re.M)
LEAST = 60  # names that the programs below have together


def helpers(moec, path, target):
    done = subprocess.run([moec, path, "--emit=llvm", f"--target={target}", "-o", "-"], capture_output=True, text=True, check=True)
    return set(DEFINED.findall(done.stdout))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOEC_BUILD", "build")
    with open(f"{build}/backend/made_helpers.bin", "rb") as f:
        made = set(f.read().split(b"\0"))
    called = set()
    for path in sorted(glob.glob("examples/*_ffn.moe") + ["model/experts.moe", "model/optimizer.moe", "bench/products.moe"]):
        for target in TARGETS:
            called |= helpers(f"{build}/bin/moec", path, target)
    missing = sorted(name for name in called if name.encode() not in made)
    print("\n".join(f"{name} was not made" for name in missing) or f"made_helpers: {len(called)} helpers")
    sys.exit(len(missing) > 0 or len(called) < LEAST)


if __name__ == "__main__":
    main()
