#!/usr/bin/env python3
"""Experiments as files: what is refused, and by which words; rows that survive a kill, and runs that go on where rows are missing;
reports.

usage: experiment.py MOEC"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOEC, ROOT = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BAD = []
GRID = {"kernels": ["norm.moe:rmsnorm"], "sizes": ["T=16,H=64", "T=32,H=64"], "rounds": 6, "seconds": 0,
        "schedules": [{"name": "narrow", "text": "strip y : lanes = 64"}]}


def expect(good, what):
    if not good:
        BAD.append(what)


class Scratch:
    def __init__(self, at):
        self.at, self.file = at, f"{at}/e.json"
        shutil.copy(f"{ROOT}/examples/rmsnorm.moe", f"{at}/norm.moe")
        shutil.copy(f"{ROOT}/machines/host.json", f"{at}/host.json")

    def write(self, **changes):
        with open(self.file, "w", encoding="utf-8") as f:
            json.dump({k: v for k, v in {**GRID, **changes}.items() if v is not None}, f)

    def start(self, *options):
        return subprocess.Popen([MOEC, "experiment", self.file, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def run(self, code, words, *options):
        done = subprocess.run([MOEC, "experiment", self.file, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect(done.returncode == code and words in done.stdout, f"{done.returncode} for {code}, `{words}`: {done.stdout}")
        return done.stdout

    def rows(self):
        with open(f"{self.at}/e/rows.csv", encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f))

    def text(self, name):
        with open(f"{self.at}/e/{name}", encoding="utf-8") as f:
            return f.read()


def bad_files_are_refused(s):
    for changes, words in (
            ({"kernels": None}, "e.json: kernels is missing: what is it about?"),
            ({"kernels": []}, "e.json: kernels is []: must be a list of values"),
            ({"kernels": ["norm.moe:nothing"]}, "nothing"),
            ({"kernels": ["none.moe"]}, "none.moe"),
            ({"size": ["T=1"]}, "e.json: size is [\"T=1\"]: did you mean `sizes`?"),
            ({"sizes": [3]}, "e.json: sizes[0] is 3: must be sizes as T=512,H=256"),
            ({"sizes": ["T=16,Q=3"]}, "there is no dimension Q"),
            ({"sizes": ["T=16,H=64", "T=16, H=64"]}, "must have another name than 'T=16,H=64'"),
            ({"sizes": [{"sizes": "T=1", "rounds": 3}]}, "has \"rounds\", and may have only name,sizes"),
            ({"threads": [0]}, "e.json: threads[0] is 0: must be a whole number from 1 to 4096"),
            ({"targets": ["avx9"]}, "avx9"),
            ({"rounds": 0}, "e.json: rounds is 0: must be a number from 1 to 100"),
            ({"seconds": "long"}, "e.json: seconds is \"long\": must be a number from 0 to 3600"),
            ({"machines": ["ascend1"]}, "ascend1"),
            ({"machines": [{"machine": "host.json", "figures": {"core.speed": 1}}]}, "\"core.speed\" is none"),
            ({"machines": [{"machine": "host.json", "figures": {"core.memory": 0}}]}, "host.json with other figures: core.memory.value is 0: must be positive"),
            ({"machines": [{"machine": "host", "figures": {}}]}, "the path of the description that they change"),
            ({"schedules": [""]}, "must be clauses, or an object"),
            ({"schedules": [{"random": 0}]}, "\"random\" a whole number from 1"),
            ({"schedules": [{"tune": "1h"}]}, "\"tune\" a number of seconds"),
            ({"schedules": [{"tune": 1, "random": 2}]}, "only one of"),
            ({"schedules": [{"name": "default", "text": "strip y : lanes = 64"}]}, "must have another name than 'default'"),
            ({"beside": ["machines"]}, "beside is \"machines\": must be kernels, targets, threads, sizes or routings"),
            ({"beside": ["sizes"], "sizes": [f"T={n},H=64" for n in range(1, 12)]}, "11 cases would take turns, and at most 8 can"),
            ({"schedules": ["garbage"]}, "e.json: schedules: \"garbage\" fits no kernel: "),
            ({"schedules": ["strip y : lanes = 65"]}, "e.json: schedules: \"strip y : lanes = 65\" fits no kernel: "),
            ({"routings": ["zipf("]}, "routing zipf(: `the end` does not fit here; expected a number from 0 on"),
            ({"routings": ["file:nothing"]}, "must name a file with the number of rows of each group")):
        s.write(**changes)
        s.run(1, words)
        expect(not os.path.exists(f"{s.at}/e"), f"{changes} leaves a folder")
    with open(s.file, "w", encoding="utf-8") as f:
        f.write('{"kernels": [}')
    s.run(1, "e.json:1:")
    s.run(2, "would leave no rows", "--again", "--report")


def rows_are_measured_beside_the_default(s):
    s.write(beside=["sizes"], title="Two sizes")
    s.run(0, "e/report.md: 4 of 4 points, 4 of them now")
    rows = s.rows()
    expect([(r["size"], r["schedule"]) for r in rows] == [("T=16,H=64", "default"), ("T=32,H=64", "default"),
                                                          ("T=16,H=64", "narrow"), ("T=32,H=64", "narrow")], rows)
    for r in rows:
        usual = r["schedule"] == "default"
        expect(r["state"] == "measured" and float(r["lower"]) <= float(r["seconds"]) <= float(r["upper"]), r)
        expect(usual == (r["ratio"] == "1") and (r["first"] == "1") == (usual and r["size"] == "T=16,H=64"), r)
        expect(r["bits"] == "same" and r["cpu"] and r["build"] and r["content"] and int(r["rounds"]) >= 3, r)
    expect(rows[2]["clauses"] == "schedule rmsnorm { strip y : lanes = 64 }", rows[2])
    report = s.text("report.md")
    expect(report.startswith("# Two sizes\n") and "| T=16 | narrow |" in report and rows[0]["build"][:30] in report, report)
    expect(os.path.exists(f"{s.at}/e/report.svg") == bool(shutil.which("gnuplot")) == ("![" in report), "the picture")
    before = s.text("rows.csv")
    s.run(0, "4 of 4 points, 0 of them now")
    expect(s.text("rows.csv") == before, "a run with nothing to do changed rows")


def a_name_is_one_line(s):
    s.write(kernels=[{"name": "a\nb", "kernel": "norm.moe:rmsnorm"}], schedules=[])
    s.run(0, "2 of 2 points, 2 of them now")
    s.run(0, "2 of 2 points, 0 of them now")


def other_experiments_are_refused(s):
    s.write(schedules=[])
    s.run(0, "2 of 2 points")
    s.write(schedules=[], title="Other words", doc="They change no row.")
    s.run(0, "2 of 2 points, 0 of them now")
    s.write()
    s.run(1, "e: its rows are of another experiment than")
    s.run(0, "4 of 4 points, 4 of them now", "--again")
    s.run(0, "4 of 4 points, 4 of them now", "--out", f"{s.at}/beside")
    with open(f"{s.at}/norm.moe", "a", encoding="utf-8") as f:
        f.write("\nkernel more(in x: f32, out y: f32) { y = x }\n")
    s.run(1, "rows of another text of the kernel, which do not belong to new ones")
    s.run(0, "4 of 4 points", "--report")
    text = s.text("rows.csv")
    with open(f"{s.at}/e/rows.csv", "w", encoding="utf-8") as f:
        f.write(text.replace("kernel,", "kernels,", 1))
    s.run(1, "rows.csv: has other columns")


def killed(s, rows):
    """Ends a run as soon as it has so many rows, in the middle of something."""
    process = s.start()
    while process.poll() is None and (not os.path.exists(f"{s.at}/e/rows.csv") or s.text("rows.csv").count("\n") < rows + 1):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def a_kill_loses_one_race(s):
    sizes = [f"T={n},H=64" for n in (16, 32, 48, 64, 80)]
    s.write(sizes=sizes)
    for rows in (2, 4):
        killed(s, rows)
        kept = s.rows()
        expect(rows <= len(kept) < 10, f"{len(kept)} rows after a kill at {rows}")
        with open(f"{s.at}/e/rows.csv", "a", encoding="utf-8") as f:
            f.write("rmsnorm,clock,ho")     # what a kill in the middle of a line leaves
    s.run(0, "10 of 10 points")
    rows = s.rows()
    expect(rows[:len(kept)] == kept, "rows of before the kill have changed")
    expect(sorted((r["size"], r["schedule"]) for r in rows) == sorted((n, w) for n in sizes for w in ("default", "narrow")), rows)
    expect(all(r["state"] == "measured" for r in rows), rows)


def an_interrupt_keeps_what_is_there(s, number=signal.SIGINT):
    s.write(sizes=[f"T={n},H=64" for n in range(16, 64)])
    process = s.start()
    while not os.path.exists(f"{s.at}/e/rows.csv") or s.text("rows.csv").count("\n") < 2:
        time.sleep(0.01)
    locked = s.run(1, "rows.csv: another run writes there")
    process.send_signal(number)
    out = process.communicate(timeout=60)[0]
    expect(process.returncode == 0 and "the same command goes on" in out, f"{process.returncode}: {out}{locked}")
    expect("| T=16 |" in s.text("report.md") and 2 <= len(s.rows()) < 96, out)


def so_does_an_end(s):
    an_interrupt_keeps_what_is_there(s, signal.SIGTERM)


def so_does_a_hangup(s):
    an_interrupt_keeps_what_is_there(s, signal.SIGHUP)


def what_fails_is_a_row(s):
    s.write(kernels=["norm.moe:rmsnorm", "norm.moe:rmsnorm_bwd"], sizes=["T=16,H=64"],
            schedules=[{"name": "backward", "text": "strip d_x : lanes = 64"}])
    s.run(0, "4 of 4 points")
    rows = {(r["kernel"], r["schedule"]): r for r in s.rows()}
    wrong = rows["rmsnorm", "backward"]
    expect(wrong["state"] == "failed" and "d_x" in wrong["why"] and "failed: " in s.text("report.md"), wrong)
    expect(rows["rmsnorm_bwd", "backward"]["state"] == "measured", rows)
    s.write(sizes=["T=16,H=64"], schedules=[{"name": "once more", "text": ""}])
    s.run(0, "2 of 2 points", "--again")
    row = s.rows()[1]
    expect(row["state"] == "measured" and row["clauses"] == "schedule rmsnorm {  }" and row["bits"] == "same", row)
    s.write(sizes=["T=16"], schedules=[])
    s.run(1, "the default failed: ", "--again")


def machines_predict_and_rank(s):
    s.write(kernels=[{"name": "backward", "kernel": "norm.moe:rmsnorm_bwd"}], sizes=["T=256,H=256"],
            machines=["clock", "ascend910b2", {"name": "model", "machine": "host.json"},
                      {"name": "slow", "machine": "host.json", "figures": {"core.memory": 1, "core.l2": 1, "core.l3": 1}}],
            schedules=[{"random": 9, "seed": 2}])
    s.run(0, "40 of 40 points")
    rows = {(r["machine"], r["schedule"]): r for r in s.rows()}
    clauses = {m: [rows[m, f"random {n}"]["clauses"] for n in range(1, 10)] for m in ("clock", "model", "slow")}
    expect(clauses["clock"] == clauses["model"] == clauses["slow"] and len(set(clauses["clock"])) == 9, clauses)
    usual = {m: float(rows[m, "default"]["seconds"]) for m in ("model", "slow")}
    expect(usual["slow"] > usual["model"], f"figures change nothing: {usual}")
    expect(rows["ascend910b2", "default"]["state"] == "predicted" and rows["ascend910b2", "default"]["isa"] == "ascend910b2",
           rows["ascend910b2", "default"])
    expect(re.search(r"\| model \| 10 \| \d+ \| ", s.text("report.md")), s.text("report.md"))
    expect("## On the clock" in s.text("report.md") and "## model" not in s.text("report.md"), s.text("report.md"))
    expect("| ascend910b2 | 10 |" not in s.text("report.md"), "an NPU does not rank what a CPU runs")


def a_search_is_made_once(s):
    s.write(sizes=["T=16,H=64"], machines=["ascend910b2"], schedules=[{"name": "tuned", "tune": 2}])
    s.run(0, "2 of 2 points, 2 of them now")
    rows = s.rows()
    expect([r["state"] for r in rows] == ["predicted", "tuned", "predicted"], rows)
    with open(f"{s.at}/e/rows.csv", encoding="utf-8") as f:
        lines = f.readlines()
    with open(f"{s.at}/e/rows.csv", "w", encoding="utf-8") as f:
        f.writelines(lines[:-1])
    begin = time.time()
    s.run(0, "2 of 2 points, 1 of them now")
    expect([r["state"] for r in s.rows()] == ["predicted", "tuned", "predicted"] and time.time() - begin < 60, s.rows())


def main():
    cases = (bad_files_are_refused, rows_are_measured_beside_the_default, a_name_is_one_line, other_experiments_are_refused, a_kill_loses_one_race,
             an_interrupt_keeps_what_is_there, so_does_an_end, so_does_a_hangup, what_fails_is_a_row, machines_predict_and_rank, a_search_is_made_once)
    for case in cases:
        with tempfile.TemporaryDirectory() as at:
            before = len(BAD)
            case(Scratch(at))
            print(f"{'ok    ' if len(BAD) == before else 'FAILED'} {case.__name__}", flush=True)
    print("\n".join(BAD))
    return bool(BAD)


if __name__ == "__main__":
    sys.exit(main())
