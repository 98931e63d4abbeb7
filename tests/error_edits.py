#!/usr/bin/env python3
"""The help of errors that is code is tried: each edit of tests/errors is made, and what it mends compiles.

A diagnostic says in JSON what to write where (`edits`). After all edits of a file only the errors without any are left, so a file
whose errors all have edits compiles. Help that has none is words: what it shows as code is an example, "as in ..." or
"such as ...", or a name between backticks.

usage: error_edits.py MOEC FILE..."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROUNDS = 3  # errors of names and types are found when all of the text parses
EDITS_AT_LEAST = 60  # the tests would be easy to pass without any


def options_of(path):
    """The options of the first run line of a test."""
    with open(path, "rb") as f:
        run = re.search(rb"^// run: moec (.*) %s", f.read(), re.M)
    return run.group(1).decode().split() if run else None


def diagnose(moec, options, path):
    done = subprocess.run([moec, *options, "--error-format=json", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return [d for d in json.loads(done.stderr)["diagnostics"] if d["severity"] == "error"]


def edited(text, diagnostics):
    """The text with all edits, the last place first."""
    starts = [0]
    for line in text.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits = {(starts[e["line"] - 1] + e["column"] - 1, e["length"], e["text"]) for d in diagnostics for e in d.get("edits", [])}
    for at, length, new in sorted(edits, reverse=True):
        text = text[:at] + new.encode() + text[at + length:]
    return text


def check(moec, path, scratch):
    """Returns how many edits there were, and what is wrong."""
    options = options_of(path)
    if options is None or "%" in " ".join(options):
        return 0, []
    with open(path, "rb") as f:
        text = f.read()
    left = first = diagnose(moec, options, path)
    count, words = 0, {d["message"] for d in first if not d.get("edits")}
    for _ in range(ROUNDS):
        mended = [d for d in left if d.get("edits")]
        if not mended:
            break
        count += sum(len(d["edits"]) for d in mended)
        text = edited(text, mended)
        uses = b"use \"" in text  # of files beside this one
        copy = os.path.join(os.path.dirname(path), os.path.basename(scratch) + ".moe") if uses else scratch + ".moe"
        with open(copy, "wb") as f:
            f.write(text)
        left = diagnose(moec, options, copy)
        os.remove(copy)
    wrong = [d for d in left if d["message"] not in words]
    return count, [f"{d.get('line')}: {d['message']}" for d in wrong]


def main():
    moec, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    count, failed = 0, 0
    with tempfile.TemporaryDirectory(prefix="moec-edits-") as scratch:
        for path in files:
            edits, wrong = check(moec, path, os.path.join(scratch, "edited"))
            count += edits
            for line in wrong:
                print(f"FAILED {path}: {line}")
                failed += 1
    print(f"error_edits: {count} edits in {len(files)} files, {failed} files failed")
    return failed > 0 or count < EDITS_AT_LEAST


if __name__ == "__main__":
    sys.exit(main())
