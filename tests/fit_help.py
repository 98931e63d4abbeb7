#!/usr/bin/env python3
"""What the help of E0708 suggests is tried: each schedule that is said to fit an NPU compiles, and so does nothing else.

usage: fit_help.py MOEC"""
import os
import re
import subprocess
import sys
import tempfile

FFN = """moe 1
dim T, K, E
dim H, F : % 16
group R : E rows T*K
kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in wg, wu: bf16[E, H, F], out a: bf16[R, F]) {
  xp[r, h] = x[rt.token(r), h]
  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]
  u[r, f]  = sum(h) xp[r, h] * wu[@r, h, f]
  a[r, f]  = bf16(silu(g[r, f]) * u[r, f])
}
"""
PRODUCT = """moe 1
dim M, N, K
kernel f(in a: bf16[M, K], in b: bf16[K, N], out c: bf16[M, N]) {
  c[m, n] = bf16(sum(k) a[m, k] * b[k, n])
}
derive (f_fwd, f_bwd) from f wrt a
"""
# program, schedule, and the line and text to which the error points
CASES = [
    (FFN, "schedule ffn {\n  tile g, u : M = 256 N = 256 K = 256\n  copies l1 = 2, l0c = 2\n}\n", (12, "M = 256")),
    (FFN, "schedule ffn {\n  tile u : M = 512\n  tile g : N = 512\n}\n", (13, "N = 512")),
    (FFN, "schedule ffn {\n  copies l0c = 8\n}\n", (12, "l0c = 8")),
    (PRODUCT, "schedule f {\n  tile c : M = 256 N = 256\n}\n", (8, "M = 256")),
    (PRODUCT, "schedule f {\n  copies l1 = 2, l0c = 4\n}\n", (8, "l0c = 4")),
    (PRODUCT, "schedule f_bwd {\n  tile d_a : M = 512 N = 512\n}\n", (8, "M = 512")),
]


def compiled(moec, path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([moec, "--machine", "ascend910b2", "--emit=tiles", path, "-o", path + ".tiles"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def followed(text, kernel, suggestion):
    """The program with this suggestion: clauses, each instead of one that is there or in a block of its own."""
    lines = text.split("\n")
    for part in suggestion.split(" and "):
        clause, _, line = re.fullmatch(r"(.*?)( \(instead of the one in line (\d+)\))?", part).groups()
        if line:
            lines[int(line) - 1] = clause
        else:
            lines.append(f"schedule {kernel} {{ {clause} }}")
    return "\n".join(lines)


def check(moec, path, program, schedule, place):
    text = program + schedule
    status, said = compiled(moec, path, text)
    where = re.search(r":(\d+):(\d+): error\[E0708\]", said)
    help_line = re.search(r"^help: in schedule (\w+) this fits: (.*)$", said, re.M)
    if status != 1 or not where or not help_line:
        return [f"E0708 with help is expected: {said}"]
    bad = []
    line, column = int(where.group(1)), int(where.group(2))
    if line != place[0] or not text.split("\n")[line - 1][column - 1:].startswith(place[1]):
        bad.append(f"points at {line}:{column}, not at `{place[1]}` of line {place[0]}")
    for suggestion in help_line.group(2).split(", or "):
        status, said = compiled(moec, path, followed(text, help_line.group(1), suggestion))
        if status:
            bad.append(f"`{suggestion}` does not fit: {said}")
    return bad


def main():
    moec, failed = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory(prefix="moec-fit-") as scratch:
        for program, schedule, place in CASES:
            bad = check(moec, os.path.join(scratch, "a.moe"), program, schedule, place)
            failed += bool(bad)
            for line in bad:
                print("FAILED", " ".join(schedule.split()) + ":", line)
    print(f"fit_help: {len(CASES) - failed} of {len(CASES)} cases")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
