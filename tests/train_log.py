#!/usr/bin/env python3
"""Options in a file, the log as JSON, and curves of it.

usage: tests/train_log.py MOE-TRAIN"""
import json
import os
import resource
import shutil
import subprocess
import sys

from train_run import ROOT, TINY, run, run_cases, steps_of

TRAIN, BAD = sys.argv[1], []
SMALL = {"data": [f"{ROOT}/LICENSE"], "layers": 1, "width": 16, "heads": 1, "experts": 2, "expert-width": 8, "shared-width": 8,
         "sequence": 16, "batch": 2, "steps": 3, "sample": 0, "validation-batches": 1}


def expect(good, what):
    if not good:
        BAD.append(what)


def events(log):
    with open(log, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def what_is_said_of_the_data(at):
    os.mkdir(f"{at}/data")
    for name, said in (("a", "data: 1 file, 1.8 kB to train on, 0.2 kB (its beginning) to validate on\n"),
                       ("b", "data: 2 files, 2.0 kB to train on, 2.0 kB (1 file) to validate on\n"),
                       ("c", "data: 3 files, 4.0 kB to train on, 2.0 kB (1 file) to validate on\n")):
        with open(f"{at}/data/{name}", "w", encoding="utf-8") as f:
            f.write("text " * 400)
        out = run(TRAIN, *TINY[:2], *TINY[4:], "--steps", 1, "--data", f"{at}/data")[0]
        expect(said in out, f"`{said}` is not in: {out}")


def file_of_options(at):
    def write(options):
        with open(f"{at}/c.json", "w", encoding="utf-8") as f:
            f.write(options if isinstance(options, str) else json.dumps(options))

    def refuses(code, text, options, *more):
        write(options)
        err = run(TRAIN, "--config", f"{at}/c.json", *more, code=code)[1]
        expect(text in err, f"{options}: `{text}` is not in: {err}")

    write({**SMALL, "lr": 1e-4, "f32": True, "prompt": "é\n"})
    run(TRAIN, "--config", f"{at}/c.json", "--steps", 2, "--log", f"{at}/log")
    options = events(f"{at}/log")[0]["options"]
    expect(options["steps"] == 2, "the command line does not come before the file")
    expect(options["lr"] == 1e-4 and options["f32"] is True and options["prompt"] == "é\n", f"options {options}")
    # Options of a log or a checkpoint are such a file.
    write({**options, "steps": 3, "log": f"{at}/again"})
    run(TRAIN, "--config", f"{at}/c.json")
    expect(len(steps_of(f"{at}/again")) == 3, "options of a log are no file of options")
    refuses(1, "c.json: batch is 0: must be a whole number from 1 to 65536", {"batch": 0})
    refuses(1, "c.json: batch is 2.5: must be a whole number", {"batch": 2.5})
    refuses(1, "c.json: lr is \"x\": must be a number from 0 to 10", {"lr": "x"})
    refuses(1, "c.json: f32 is 1: must be true or false", {"f32": 1})
    refuses(1, "c.json: log is 1: must be a text", {"log": 1})
    refuses(1, "c.json: data is \"LICENSE\": must be a list", {"data": "LICENSE"})
    refuses(1, "c.json: bach is 2: did you mean `batch`?", {"bach": 2})
    refuses(1, "c.json:1:11: ", '{"batch": }')
    refuses(1, "must be one object of options", [1])
    refuses(2, "--width must be a multiple", {**SMALL, "heads": 3})
    expect("nothing.json" in run(TRAIN, "--config", f"{at}/nothing.json", code=1)[1], "a file that is not there")


def log_and_curves(at):
    log = f"{at}/log"
    run(TRAIN, *TINY, "--steps", 8, "--log", log, "--validate-every", 4, "--save", f"{at}/a", "--save-every", 4)
    with open(log, "a", encoding="utf-8") as f:
        f.write('{"event": "st')  # killed within a line, which is cut
    run(TRAIN, f"--resume={at}/a/step-00000004", "--save", f"{at}/b")
    kinds = [event["event"] for event in events(log)]
    expect(kinds.count("options") == 2 and kinds.count("step") == 12 and kinds.count("save") == 3, f"{kinds}")
    with open(f"{at}/old.svg", "w", encoding="utf-8") as f:
        f.write("old")
    for out in ("old.svg", "new.svg"):
        nowhere = run(TRAIN, "plot", log, "--out", f"{at}/{out}", code=1, env={"PATH": "/nonexistent"})[1]
        expect("gnuplot cannot be started" in nowhere and "gnuplot-nox" in nowhere, nowhere)
    with open(f"{at}/old.svg", encoding="utf-8") as f:
        expect(f.read() == "old", "the old drawing is gone")
    expect(not os.path.exists(f"{at}/new.svg"), "a file without a drawing")
    expect("has no steps" in run(TRAIN, "plot", f"{ROOT}/LICENSE", "--out", f"{at}/x.svg", code=1)[1], "a text is plotted")
    expect("cannot be written" in run(TRAIN, "plot", log, "--out", f"{at}/no/x.svg", code=1)[1], "no folder")
    if not shutil.which("gnuplot"):
        print("train_log: skipped: curves, because gnuplot is not installed (gnuplot-nox)")
        return
    with open(log, "a", encoding="utf-8") as f:
        f.write('{"event": "st')
    for name, begins in (("it's.svg", b"<?xml"), ("b.png", b"\x89PNG")):
        out, err = run(TRAIN, "plot", log, "--out", f"{at}/{name}")
        expect("8 steps, some lines of the log are no JSON" in out and not err, out + err)
        with open(f"{at}/{name}", "rb") as f:
            data = f.read()
        expect(data.startswith(begins) and len(data) > 10000, f"{name}: {data[:10]}")
    expect(data.endswith(b"IEND\xaeB`\x82"), "the PNG is cut")


def load_over_time(at):
    """Shares of tokens by step, layer and expert; nothing else of the run changes."""
    tiny = [*TINY, "--steps", 6, "--micro-batches", 1]
    run(TRAIN, *tiny, "--log", f"{at}/without")
    run(TRAIN, *tiny, "--log", f"{at}/log", "--load-every", 2)
    run(TRAIN, *tiny, "--log", f"{at}/again", "--load-every", 1, "--micro-batches", 2, "--recompute", "all")
    without, steps = steps_of(f"{at}/without"), steps_of(f"{at}/log")
    expect(all(without[n][what] == steps[n][what] for n in without for what in ("loss", "norm", "imbalance")), "other losses")
    loads = [e for e in events(f"{at}/log") if e["event"] == "load"]
    expect([e["step"] for e in loads] == [2, 4, 6] and all(e["layers"] == [1, 2] for e in loads), f"{loads}")
    for e in loads:
        largest = sum(max(s) for s in e["shares"]) / 2 * 8 / 2  # over the mean of 8 experts, of which a token takes 2
        expect(abs(largest - steps[e["step"]]["imbalance"]) < 1e-4, f"the largest load is {largest}: {steps[e['step']]}")
    parts = [e for e in events(f"{at}/again") if e["event"] == "load"]
    expect(len(parts) == 6, f"{len(parts)} lines of load")
    expect(all(len(s) == 8 and abs(sum(s) - 2) < 1e-4 for e in loads + parts for s in e["shares"]), "shares do not add up")
    expect("needs the file of --log" in run(TRAIN, *tiny, "--load-every", 1, code=2)[1], "a load without a log")
    expect("like 0,3, from 1 to 2" in run(TRAIN, "plot", f"{at}/log", "--load", "2,3", code=1)[1], "no such layer")
    expect("has no load of experts" in run(TRAIN, "plot", f"{at}/without", "--load", "all", code=1)[1], "no load")
    if shutil.which("gnuplot"):
        out, err = run(TRAIN, "plot", f"{at}/log", "--load", "1,2")
        expect("log.load.svg: 2 layers, 3 rows of load" in out and not err, out + err)
        with open(f"{at}/log.load.svg", encoding="utf-8") as f:
            drawn = f.read()
        expect("layer 1" in drawn and "layer 2" in drawn and "<image" in drawn, "the map is not drawn")


def on_a_terminal(at):
    """Each step is shown, over the one before."""
    shown = subprocess.run(["script", "-qec", " ".join(map(str, [TRAIN, *TINY, "--steps", 5, "--log-every", 3])), f"{at}/out"],
                           capture_output=True).stdout.decode() if shutil.which("script") else None
    if shown is None:
        print("train_log: skipped: progress on a terminal, because there is no script(1)")
        return
    expect(all(f"\rstep {n}/5  loss" in shown for n in range(1, 6)) and "ETA 0:00\x1b[K\r\n" in shown, repr(shown))


def limited_to(size):
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}


def lines_are_whole(at):
    """Where there is no space for more."""
    log, options = f"{at}/log", [TRAIN, *TINY, "--steps", 6, "--log", f"{at}/log"]
    run(*options)
    whole = os.path.getsize(log)
    for size in (0, 1, whole // 3, whole // 2, whole * 9 // 10):  # the length of times differs
        _, err = run(*options, code=1, **limited_to(size))
        expect(f"--log {log}: cannot be written: File too large" in err, f"room for {size} bytes: {err}")
        expect(size - 2000 < os.path.getsize(log) <= size, f"{os.path.getsize(log)} bytes where {size} have room")
        events(log)


def a_file_that_is_no_log(at):
    run(TRAIN, *TINY, "--steps", 2, "--save", f"{at}/a")
    for text in ("mine", "mine\nand this", '{"eves'):
        with open(f"{at}/mine", "w", encoding="utf-8") as f:
            f.write(text)
        _, err = run(TRAIN, "--resume", f"{at}/a", "--steps", 3, "--log", f"{at}/mine", code=1)
        expect(f"--log {at}/mine: its last line is no event of a log" in err, err)
        with open(f"{at}/mine", encoding="utf-8") as f:
            expect(f.read() == text, f"{text!r} was changed")


def main():
    run_cases("train_log", (what_is_said_of_the_data, file_of_options, log_and_curves, load_over_time, lines_are_whole, a_file_that_is_no_log, on_a_terminal), BAD)


if __name__ == "__main__":
    main()
