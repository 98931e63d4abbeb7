#!/usr/bin/env python3
"""The file of `moe-train --trace`: each task of the traced steps once for each rank, tracks without overlaps, the bytes of the log, one
time line; and that it changes nothing. Several ranks need mpirun and the MPI plug-in; without them that case is left out.

usage: tests/train_trace.py MOE-TRAIN [CASE...]"""
import collections
import json
import os
import re
import shutil
import sys

from train_run import ROOT, TINY, mpirun, run, run_cases, steps_of

TRAIN, BAD = os.path.abspath(sys.argv[1]), []
SMALL = [*TINY, "--threads", 1]


def expect(good, what):
    if not good:
        BAD.append(what)


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def planned_tasks(*options):
    """number -> its line in the program that `moe-train plan` records"""
    out, _ = run(TRAIN, "plan", "--model", f"{ROOT}/examples/models/tiny.json", "--sequence", 16, "--emit=step", *options)
    return {int(n): text for n, text in re.findall(r"^task (\d+) (.*)$", out, re.M)}


def check_tasks(trace, tasks, ranks, steps):
    """Every task of the program, once for each rank and step."""
    seen = collections.Counter()
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            a = e["args"]
            seen[e["pid"], a["step"], a["task"]] += 1
            words = tasks[a["task"]].split()
            expect(a["kind"] == words[0] and e["cat"] == a["phase"] and a["phase"] in words, f"task {a['task']} is {tasks[a['task']]}: {e}")
            expect(all(f"{letter}{a[key]}" in words for letter, key in (("L", "layer"), ("m", "micro-batch")) if key in a), f"{e}")
    wanted = {(rank, step, task) for rank in range(ranks) for step in steps for task in tasks}
    expect(set(seen) == wanted and set(seen.values()) == {1}, f"{len(seen)} events instead of {len(wanted)}, {max(seen.values())} of one task")


def check_tracks(trace, names):
    """Tracks have names, and their events do not overlap."""
    tracks, named = collections.defaultdict(list), {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        elif e["name"] == "thread_name":
            named[e["pid"], e["tid"]] = e["args"]["name"]
    expect(set(named) == set(tracks) and set(named.values()) == set(names), f"tracks {named}")
    for track, spans in tracks.items():
        spans.sort()
        over = [(a, b) for a, b in zip(spans, spans[1:]) if b[0] < a[1] - 5e-4]  # half a nanosecond
        expect(not over and spans[0][0] >= 0, f"track {track}: {over[:3]}")


def check_bytes(trace, log):
    """What the first rank's events sent is what the log counted, by axis and link."""
    sums = collections.Counter()
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["pid"] == 0 and "axis" in e["args"]:
            a = e["args"]
            expect(a["bytes"] == a["bytes inside a node"] + a["bytes between nodes"], f"{e}")
            sums[a["axis"], "inside"] += a["bytes inside a node"]
            sums[a["axis"], "between"] += a["bytes between nodes"]
    with open(log, encoding="utf-8") as f:
        counted = [e for e in map(json.loads, f) if e["event"] == "end"][0]["exchanges"]
    wanted = {(axis, link): counted[axis][link] for axis in counted for link in ("inside", "between")}
    expect(counted and dict(sums) == wanted, f"bytes {dict(sums)} instead of {wanted}")


def members_of(text):
    first, rest = text.split(", ")
    second, *last = map(int, rest.split(" to "))
    return tuple(range(int(first), (last or [second])[0] + 1, second - int(first)))


def check_time_line(trace):
    """An exchange in which everybody needs something of everybody ends nowhere before all have begun it."""
    error, met = trace["otherData"]["clock error us"], collections.defaultdict(dict)
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["args"]["kind"] in ("allreduce", "allgather", "reducescatter", "alltoallv") and "axis" in e["args"]:
            members = members_of(e["args"]["ranks"])
            expect(e["pid"] in members, f"{e}")
            met[e["args"]["step"], e["args"]["task"], members][e["pid"]] = (e["ts"], e["ts"] + e["dur"])
    for meeting, spans in met.items():
        early = max(begin for begin, _ in spans.values()) - min(end for _, end in spans.values())
        expect(set(spans) == set(meeting[2]) and early <= 2 * error + 1e-3, f"{meeting}: ends {early} us before all have begun")
    expect(met and 0 < error < 1e5, f"{len(met)} exchanges, clocks within {error} us")


def alone(at):
    """One rank, with a lane for the disk; losses are those without a trace."""
    options = [*SMALL, "--steps", 4, "--swap", "all"]
    run(TRAIN, *options, "--log", f"{at}/without")
    out, _ = run(TRAIN, *options, "--log", f"{at}/log", "--trace", f"{at}/trace")
    expect(f"trace: steps 2 to 3 in {at}/trace" in out, out)
    expect([e["loss"] for e in steps_of(f"{at}/without").values()] == [e["loss"] for e in steps_of(f"{at}/log").values()], "other losses")
    trace = read(f"{at}/trace")
    check_tasks(trace, planned_tasks("--sequences", 2, "--micro-batches", 2, "--swap", "all"), 1, (2, 3))
    check_tracks(trace, ("compute", "disk", "loader"))
    expect(sorted(os.listdir(at)) == ["log", "trace", "without"], f"left behind: {os.listdir(at)}")


def ends_early(at):
    """Fewer steps than asked for, or none; a step whose update is refused; a path that cannot be written."""
    run(TRAIN, *SMALL, "--steps", 2, "--trace", f"{at}/trace", "--trace-after", 1, "--trace-steps", 9)
    steps = {e["args"]["step"] for e in read(f"{at}/trace")["traceEvents"] if e["ph"] == "X"}
    expect(steps == {2}, f"steps {steps}")
    _, err = run(TRAIN, *SMALL, "--steps", 1, "--trace", f"{at}/none", code=1)
    expect("nothing would be traced" in err and not os.path.exists(f"{at}/none"), f"a trace without steps: {err}")
    for path in (f"{at}/no/trace", at, ""):
        out, err = run(TRAIN, *SMALL, "--steps", 2, "--trace", path, code=1)
        expect(f"--trace {path}: cannot be written" in err and "step" not in out, f"{out}{err}")


def several(at):
    plugin = os.path.join(os.path.dirname(TRAIN), "../lib/moec-mpi.so")
    if not shutil.which("mpirun") or not os.path.exists(plugin):
        print("train_trace: left out: several ranks, because there is no mpirun (openmpi-bin), or this build has no MPI (libopenmpi-dev)")
        return
    for ranks, axes, names in ((4, ["--tp", 2, "--ep", 2, "--ranks-per-node", 2], ("net inside a node", "net between nodes")), (2, [], ("net inside a node",))):
        micro = 2 if axes else 1
        mpirun(ranks, TRAIN, *SMALL, "--steps", 3, "--micro-batches", micro, *axes, "--log", f"{at}/log", "--trace", f"{at}/trace",
               "--trace-after", 0, "--trace-steps", 3)
        trace = read(f"{at}/trace")
        check_tasks(trace, planned_tasks("--sequences", 1 if axes else 2, "--micro-batches", micro, "--ranks", ranks, *axes), ranks, (1, 2, 3))
        check_tracks(trace, ("compute", "loader", *names))
        check_bytes(trace, f"{at}/log")
        check_time_line(trace)


if __name__ == "__main__":
    run_cases("train_trace", [alone, ends_early, several], BAD)
