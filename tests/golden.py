#!/usr/bin/env python3
"""Golden tests: each FILE says on its first lines what to run and its output is compared.

    // run: moec --emit=ir %s             the output must equal FILE with the ending .expect
    // run: moec --emit=ir %s | FileCheck %s    FileCheck reads its CHECK lines in the file itself
    // exit: 1                            the exit status that is expected of every run line (0 when absent)

%s is the file, relative to the source tree (the working directory), %t a scratch directory of this test, %b the build
directory. Standard output and standard error are compared together. A run line goes through sh; several are run in
turn and their output is joined.

usage: golden.py [--update] [--jobs N] --build DIR [--filecheck PATH] FILE_OR_FOLDER...
--update writes the .expect files anew: review the difference like code.
"""
import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = re.compile(r"^\s*(?://|#)\s*(run|exit):\s*(.*?)\s*$")
SECONDS = 60


def directives(path):
    runs, status = [], 0
    with open(path, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    for line in text.splitlines():
        found = HEADER.match(line)
        if not found:
            continue
        if found.group(1) == "run":
            runs.append(found.group(2))
        else:
            status = int(found.group(2))
    return runs, status


def run_lines(path, runs, status, options):
    """The joined output of the run lines, and what went wrong with their exit status (or None)."""
    output = b""
    with tempfile.TemporaryDirectory(prefix="moec-golden-") as scratch:
        for line in runs:
            for mark, value in (("%s", path), ("%t", scratch), ("%b", options.build)):
                line = line.replace(mark, value)
            try:
                done = subprocess.run(["sh", "-c", line], cwd=ROOT, env=options.env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return output, f"`{line}` did not end within {SECONDS} s"
            output += done.stdout.replace(scratch.encode(), b"%t")
            if done.returncode != status:
                return output, f"`{line}` ended with {done.returncode}, expected {status}"
    return output, None


def check(path, options):
    """Returns (ok, text to print)."""
    runs, status = directives(path)
    if not runs:
        return False, "no `// run:` line"
    output, wrong = run_lines(path, runs, status, options)
    if wrong:
        return False, wrong + "\n" + output.decode("utf-8", "replace")
    if all("FileCheck" in line for line in runs):
        return True, ""
    expect = os.path.join(ROOT, os.path.splitext(path)[0] + ".expect")
    old = b""
    if os.path.exists(expect):
        with open(expect, "rb") as f:
            old = f.read()
    if output == old and os.path.exists(expect):
        return True, ""
    if options.update:
        with open(expect, "wb") as f:
            f.write(output)
        return True, "written"
    lines = [t.decode("utf-8", "replace").splitlines(keepends=True) for t in (old, output)]
    name = os.path.relpath(expect, ROOT)
    return False, "".join(difflib.unified_diff(lines[0], lines[1], name, "what was printed"))


def tests_of(paths):
    for path in paths:
        path = os.path.relpath(os.path.abspath(path), ROOT)
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            for name in sorted(os.listdir(full)): # not its folders: what tests use stands there
                if name.endswith(".moe"):
                    yield os.path.join(path, name)
        else:
            yield path


def environment(build, filecheck):
    folders = [os.path.join(build, "bin")] + ([os.path.dirname(filecheck)] if filecheck else [])
    env = dict(os.environ)
    env["PATH"] = os.pathsep.join(folders + [env.get("PATH", "")])
    env.setdefault("MOEC_CACHE", os.path.join(build, "test-cache"))
    env["LC_ALL"] = "C"
    return env


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--filecheck", default=shutil.which("FileCheck"))
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.env = environment(options.build, options.filecheck)

    paths = list(tests_of(options.files))
    if not paths:
        sys.exit("golden: no test found")
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda path: check(path, options), paths))
    failed = 0
    for path, (ok, text) in zip(paths, results):
        if not ok or text:
            print(f"{'ok' if ok else 'FAILED'}  {path}\n{text}")
        failed += not ok
    print(f"golden: {len(paths) - failed} of {len(paths)} passed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
