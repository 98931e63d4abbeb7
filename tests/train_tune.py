#!/usr/bin/env python3
"""moe-train --tune: losses and checkpoints keep their bits, resumed runs too; what is learned is kept in the records, and the code of
the run is compiled with what they have.

usage: tests/train_tune.py MOE-TRAIN [CASE...]"""
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import sys

from train_run import ROOT, TINY, differences, run, run_cases, start, steps_of

TRAIN, BAD = sys.argv[1], []


def expect(good, what):
    if not good:
        BAD.append(what)


def trained(folder, steps, *options, tuned=None, code=0):
    return run(TRAIN, *TINY, "--save", folder, "--steps", steps, "--log", folder + ".log", *options, code=code,
               env={**os.environ, "MOE_TUNED": tuned or "off"})


def losses(folder):
    return [(step, line["loss"], line["norm"]) for step, line in sorted(steps_of(folder + ".log").items())]


def rows_of(database):
    with sqlite3.connect(database) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("SELECT * FROM records ORDER BY id")]


def tuned_to_step_4(begin, at, threads, *options):
    """The folder and output of a run that keeps something in at/t.db. `begin` makes its folder. A machine that is busy elsewhere may
    measure nothing in the time that is given, so it gets more of it."""
    for seconds in (4, 16, 64):
        folder = f"{at}/{threads}-{seconds}"
        begin(folder)
        out, _ = trained(folder, 4, "--tune", "--tune-seconds", seconds, "--threads", threads, *options, tuned=f"{at}/t.db")
        if any(row["threads"] == threads for row in rows_of(f"{at}/t.db")):
            return folder, out
    raise SystemExit(f"nothing is kept in {at}/t.db:\n{out}")


def bits_are_those_of_a_run_without(at):
    trained(f"{at}/plain", 4, "--save-every", 2)
    tuned, out = tuned_to_step_4(os.mkdir, at, 1)
    expect(re.search(r"tune: \d+ kernels, which take \d+ % of a step's kernels", out) and "kept in  " in out, out)
    expect(losses(f"{at}/plain") == losses(tuned), f"{losses(f'{at}/plain')} and {losses(tuned)}")
    BAD.extend(differences(f"{at}/plain/step-00000004", f"{tuned}/step-00000004"))
    half = "step-00000002"
    again, _ = tuned_to_step_4(lambda folder: shutil.copytree(f"{at}/plain/{half}", f"{folder}/{half}"), at, 2, "--resume")
    BAD.extend(differences(f"{at}/plain/step-00000004", f"{again}/step-00000004"))
    rows = rows_of(f"{at}/t.db")
    expect({row["threads"] for row in rows} == {1, 2}, rows)


def another_kernel(kernel):
    """Of the file of that one, which may be derived from one there."""
    for path in glob.glob(f"{ROOT}/model/*.moe"):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        names = re.findall(r"^kernel (\w+)\(", text, re.M) + re.findall(r"^derive \((\w+), (\w+)", text, re.M)
        flat = [name for found in names for name in ([found] if isinstance(found, str) else found)]
        if any(kernel == name or re.fullmatch(rf"{name}_\d+", kernel) for name in flat):
            return next(name for name in flat if name != kernel)
    raise SystemExit(f"no file of model/ has {kernel}")


def spoil(database):
    """Adds records that no compilation can take, each beside one that is there. Returns those."""
    rows = rows_of(database)
    with sqlite3.connect(database) as db:
        for row in rows:
            other = another_kernel(row["kernel"])
            row.update(id=None, state=1, schedule=f"schedule {other} {{ tile nothing : M = 32 }}", kernel=other)
            db.execute(f"INSERT INTO records VALUES ({', '.join('?' * len(row))})", list(row.values()))
    return rows


def records_are_taken(at):
    """A spoilt record stops the run that looks at it. Which kernel and sizes are the slowest the clock says, so several runs may
    go well before one asks for what an earlier one asked for. While nothing is kept they get more time."""
    seconds = 2
    for run_number in range(8):
        process = start(TRAIN, *TINY, "--steps", 1, "--tune", "--tune-seconds", seconds, "--threads", 1,
                        env={**os.environ, "MOE_TUNED": f"{at}/t.db"})
        _, err = process.communicate(timeout=250)
        if process.returncode:
            break
        seconds *= 1 if spoil(f"{at}/t.db") else 2
    expect(process.returncode == 1 and run_number > 0 and "nothing" in err, err)


def killed_it_leaves_nothing(at):
    """Nor in its first steps, which a process of its own takes while kernels are compiled."""
    for seconds in (1, 2, 4):
        process = start(TRAIN, *TINY, "--steps", 1, "--tune", "--tune-seconds", 2, "--threads", 1,
                        env={**os.environ, "MOE_TUNED": f"{at}/t.db", "MOEC_CACHE": f"{at}/{seconds}"})
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=5)  # whoever is left has its stdout


def without_records_nothing_is_tuned(at):
    _, err = trained(f"{at}/a", 1, "--tune")
    expect("MOE_TUNED is off: nothing is tuned" in err, err)
    _, err = run(TRAIN, *TINY, "--tune-seconds", 0, code=2)
    expect("--tune-seconds takes a number from 1 to 86400" in err, err)


run_cases("train_tune", (bits_are_those_of_a_run_without, records_are_taken, killed_it_leaves_nothing, without_records_nothing_is_tuned), BAD)
