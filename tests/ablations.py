#!/usr/bin/env python3
"""examples/ablations: each script trains its variants, and its page, tables and drawing come from the CSV files beside it.

usage: tests/ablations.py MOE-TRAIN"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from train_run import ROOT

FOLDER = f"{ROOT}/examples/ablations"
NAMES = {"experts": 4, "balance": 5, "drop": 5}  # variants
BAD = []


def expect(good, what):
    if not good:
        BAD.append(what)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def ablate(name, *options):
    done = subprocess.run([sys.executable, f"{FOLDER}/{name}.py", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8")
    expect(not done.returncode, f"{name}.py {options}: {done.stdout}")
    return done.stdout


def rows(page):
    """Of the table that the script wrote."""
    table = page.split("<!-- table: ")[1].split("<!-- end -->")[0]
    return [line.split("|") for line in table.splitlines() if line.startswith("|")][2:]


def trains(name, variants, at):
    """Few steps of every variant; what is trained is not trained again."""
    options = ["--train", sys.argv[1], "--data", f"{ROOT}/LICENSE", "--data", f"{ROOT}/model", "--steps", 2, "--seeds", 1, "--batch", 8,
               "--sequence", 16, "--work", f"{at}/work", "--out", f"{at}/out"]
    out = ablate(name, *options)
    table = rows(read(f"{at}/out/{name}.md"))
    expect(out.count(", seed 1: validation ") == len(table) == variants, f"{name}: {out}{table}")
    logs = sorted(os.path.join(d, f) for d, _, files in os.walk(f"{at}/work") for f in files if f == "log")
    before = [os.stat(log).st_mtime_ns for log in logs]
    ablate(name, *options)
    expect(before == [os.stat(log).st_mtime_ns for log in logs], f"{name}: trained again")
    return table


def page_is_of_its_csv(name, at):
    """Every number of the page that is kept comes from the results that are kept."""
    for ending in (".csv", ".json", "_curves.csv"):
        shutil.copy(f"{FOLDER}/{name}{ending}", at)
    ablate(name, "--page", "--out", at)
    expect(read(f"{at}/{name}.md") == read(f"{FOLDER}/{name}.md"), f"{name}.md is not what {name}.py --page writes")
    outside = re.sub(r"(<!-- \w+: ).*?<!-- end -->", "", read(f"{FOLDER}/{name}.md"), flags=re.S)
    expect(not re.search(r"\d\.\d", outside), f"{name}.md has numbers that no command wrote")
    if shutil.which("gnuplot"):
        expect("</svg>" in read(f"{at}/{name}.svg"), f"{name}: nothing is drawn")


def main():
    for name, variants in NAMES.items():
        with tempfile.TemporaryDirectory() as at:
            table = trains(name, variants, at)
        if name == "drop":
            dropped = [float(row[4].split("%")[0]) for row in table]
            expect(dropped[0] == 0 and min(dropped[1:]) > 0, f"dropped: {dropped}")
        with tempfile.TemporaryDirectory() as at:
            page_is_of_its_csv(name, at)
    print("\n".join(BAD + [f"ablations: {len(BAD)} wrong"]))
    sys.exit(bool(BAD))


if __name__ == "__main__":
    main()
