#!/usr/bin/env python3
"""Several ranks train as one does: losses, the bits of a repeated run, bytes that were exchanged, and how a job ends when a rank is
lost, stopped or started otherwise. Needs mpirun and the MPI plug-in, else it is skipped.

usage: tests/train_ranks.py MOE-TRAIN [CASE...]"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from train_run import TINY, run, run_cases, steps_of

TRAIN = os.path.abspath(sys.argv[1])
PROBE = os.path.join(os.path.dirname(TRAIN), "comm_probe")
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root"]
LARGE = ["--lr", 1e-3, "--seed", 6]  # the norms of steps 21 and 22 are above the mean by 7 %
FEW = ["--steps", 8, "--f32", "--threads", 1, "--comm-timeout", 60]
PLAIN = ["--data", "LICENSE", "--layers", 2, "--width", 64, "--heads", 2, "--experts", 4, "--expert-width", 16, "--shared-width", 16,
         "--sequence", 32, "--warmup", 2, "--sample", 0, "--validation-batches", 1, "--threads", 1]
TIMEOUT = 2  # seconds of --comm-timeout
BAD = []


def jobs(*parts, code=0, program=TRAIN):
    """mpirun with parts (ranks, options): its outputs, exit code checked (None: any but 0)."""
    process = start(*parts, program=program)
    out, err = process.communicate(timeout=120)
    if (process.returncode != code) if code is not None else process.returncode == 0:
        BAD.append(f"{parts}: exit code {process.returncode}, wanted {'another than 0' if code is None else code}\n{out}{err}")
    return out, err


def start(*parts, program=TRAIN):
    words = list(MPIRUN)
    for i, (ranks, options) in enumerate(parts):
        words += [":"] * (i > 0) + ["-n", str(ranks), program, *map(str, options)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def say_if(wrong, text):
    if wrong:
        BAD.append(text)


def compare(one, several, what):
    for step, line in one.items():
        for number in ("loss", "norm", "balance"):
            want, got = line[number], several.get(step, {}).get(number, float("nan"))
            if not abs(got - want) <= 1e-5 * max(1, abs(want)):
                BAD.append(f"{what}, step {step}: {number} {got} instead of {want}")
                return


def exchanges(_):
    """The door by itself: sums in rank order, parts of either dimension, rows, messages; and sizes that disagree."""
    for ranks in (2, 3):
        jobs((ranks, ["exchanges"]), program=PROBE)
    for case, what in (("more_rows", ["bytes", "in task 0 (alltoallv) over dp"]), ("more_elements", ["bytes", "in task 0 (allreduce) over dp"]),
                       ("absent", [" waited ", "for rank 2 in task 0 (allreduce) over dp"])):
        _, err = jobs((3, [case]), program=PROBE, code=None)
        say_if(not all(w in err for w in what), f"{case}: no {what} in\n{err}")


def model(at, bias="true"):
    """The tiny model with a loss of balance whose scope does not depend on the ranks. bias: does a correction bias move?"""
    with open("examples/models/tiny.json", encoding="utf-8") as f:
        text = f.read().replace('"ep_group"', '"micro_batch"').replace('_bias": true', f'_bias": {bias}')
    with open(f"{at}/model.json", "w", encoding="utf-8") as f:
        f.write(text)
    return [*TINY, *FEW, "--model", f"{at}/model.json", "--batch", 8]


def losses(at):
    """The ranks' micro-batches are those that one rank runs one after the other, however they share the weights."""
    options = model(at)
    run(TRAIN, *options, "--micro-batches", 4, "--log", f"{at}/one")
    for ranks, micro, how, words in ((2, 2, [], "dp 2"), (2, 4, ["--tp", 2], "tp 2, ep 2 = tp 2 x --ep 1"), (2, 2, ["--ep", 2], "ep 2, dp 2"),
                                     (4, 2, ["--tp", 2, "--ep", 2], "tp 2, ep 4 = tp 2 x --ep 2, dp 2"), (4, 1, ["--ep", 2], "ep 2, dp 4, edp 2"),
                                     (4, 2, ["--tp", 2], "tp 2, ep 2 = tp 2 x --ep 1, dp 2, edp 2"), (8, 1, ["--tp", 2, "--ep", 2], "tp 2, ep 4 = tp 2 x --ep 2, dp 4, edp 2")):
        out, _ = jobs((ranks, [*options, "--micro-batches", micro, *how, "--log", f"{at}/several"]))
        say_if(f"ranks: {ranks} ranks on 1 node: {words}" not in out or out.count("step 1/8") != 1, f"prints\n{out}")
        say_if("\033[K" in out, f"lines of progress are written one over the other, where Open MPI gives a terminal\n{out}")
        compare(steps_of(f"{at}/one"), steps_of(f"{at}/several"), f"{ranks} ranks {how}")


def resumed(at):
    """Ranks of one job save, those of others go on, on the same sequences: as if one rank had trained."""
    options = [*model(at), "--lr-end", 1, "--steps", 10]
    run(TRAIN, *options, "--micro-batches", 4, "--log", f"{at}/one")
    mixes = ((8, ["--tp", 2, "--ep", 2, "--micro-batches", 1]), (1, ["--micro-batches", 4]), (2, ["--micro-batches", 2]),
             (4, ["--tp", 2, "--ep", 2, "--micro-batches", 2]), (8, ["--tp", 2, "--micro-batches", 1]))
    for i, (ranks, how) in enumerate(mixes):
        begins = ["--resume", f"{at}/a"] if i else [*options, "--save", f"{at}/a"]
        jobs((ranks, [*begins, *how, "--steps", 2 * i + 2, "--log", f"{at}/several"]))
    say_if(len(steps_of(f"{at}/several")) != 10, "not 10 steps")
    compare(steps_of(f"{at}/one"), steps_of(f"{at}/several"), "saved and gone on with")


def same_files(a, b, names):
    for name in names:
        with open(f"{a}/{name}", "rb") as one, open(f"{b}/{name}", "rb") as other:
            say_if(one.read() != other.read(), f"{b}: other bytes than {a} in {name}")


MIXES = ((1, []), (2, []), (4, []), (4, ["--tp", 2, "--ep", 2]), (8, ["--tp", 2, "--ep", 2]))


def unmoved(at):
    """Masters and moments that some ranks save, and others load and save again, keep their bytes. A limit of the norm that the last step
    breaks keeps them from moving."""
    options = [*model(at, "false"), *LARGE, "--micro-batches", 1, "--steps", 21]
    files = ["model.safetensors", "optimizer.safetensors"]
    still = ["--steps", 22, "--spike", 1, "--on-spike", "skip"]
    for i, (ranks, how) in enumerate(MIXES[-2:]):
        jobs((ranks, [*options, *how, "--save", f"{at}/{i}"]))
        for j, (others, other) in enumerate(MIXES):
            _, err = jobs((others, ["--resume", f"{at}/{i}", *still, *other, "--save", f"{at}/{i}-{j}"]))
            say_if("the weights keep their values" not in err, err)
            same_files(f"{at}/{i}/step-00000021", f"{at}/{i}-{j}/step-00000022", files)


def gone_on(at):
    """Ranks that go on are as if they had not been interrupted, bit for bit, if they are as many."""
    for i, (ranks, how) in enumerate(((2, []), (8, ["--tp", 2, "--ep", 2]))):
        jobs((ranks, [*model(at), *how, "--micro-batches", 1, "--steps", 6, "--save", f"{at}/{i}", "--save-every", 3]))
        jobs((ranks, ["--resume", f"{at}/{i}/step-00000003", *how, "--save", f"{at}/{i}again"]))
        same_files(f"{at}/{i}/step-00000006", f"{at}/{i}again/step-00000006", ["model.safetensors", "optimizer.safetensors", "state.safetensors"])


def blamed(at):
    """A norm that breaks its limit is blamed on the tensor that one rank blames, however the gradients lie on the ranks."""
    options = [*model(at), *LARGE, "--steps", 21, "--spike", 1]

    def blame(err):
        return [line[line.index("step 21"):] for line in err.split("\n") if "step 21 " in line]

    _, err = run(TRAIN, *options, "--micro-batches", 4, code=1)
    want = blame(err)
    say_if(len(want) != 1 or "of its square is the gradient of" not in want[0], f"no blame in\n{err}")
    for ranks, micro, how in ((4, 1, []), (4, 2, ["--tp", 2, "--ep", 2]), (8, 1, ["--tp", 2, "--ep", 2])):
        _, err = jobs((ranks, [*options, *how, "--micro-batches", micro]), code=None)
        say_if(blame(err) != want, f"{ranks} ranks {how}: {blame(err)} instead of {want}")
    wild = [*model(at), "--steps", 60, "--lr", 10, "--warmup", 0, "--weight-decay", 10, "--clip", 1e9, "--tp", 2, "--ep", 2]
    _, err = jobs((8, [*wild, "--micro-batches", 1]), code=None)
    say_if("elements that are not finite, the first is number" not in err, f"no blame in\n{err}")


def no_room(at):
    """A rank that cannot write names itself and the file; the older checkpoint stays, and all ranks go on."""
    options = [*model(at), "--micro-batches", 2, "--save", f"{at}/a"]
    jobs((2, [*options, "--steps", 2]))
    again = [TRAIN, *map(str, ["--resume", f"{at}/a", "--steps", 4, "--comm-timeout", 60])]
    words = [*MPIRUN, "--mca", "btl", "self,tcp", "-n", "1", *again, ":", "-n", "1", "sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *again]
    process = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=120, check=False)
    say_if(process.returncode == 0 or "step 4/4" not in process.stdout, f"exit code {process.returncode}\n{process.stdout}")
    what = f"rank 1: checkpoint of step 4: {at}/a/step-00000004.tmp/"
    say_if(what not in process.stderr or "safetensors: cannot be written: File too large" not in process.stderr, process.stderr)
    say_if(os.listdir(f"{at}/a") != ["step-00000002"], f"left: {os.listdir(f'{at}/a')}")


def sampled(at):
    """Text is that of one rank, at the end of a run and by `generate`, however the ranks share the model."""
    options = [*model(at), "--steps", 12, "--lr", 0.01]
    run(TRAIN, *options, "--micro-batches", 4, "--save", f"{at}/a")
    end = ["--resume", f"{at}/a", "--steps", 12, "--micro-batches", 1, "--sample", 40, "--prompt", "The "]
    one = run(TRAIN, *end)[0].splitlines()[-1]
    ask = ["generate", "--model", f"{at}/a/step-00000012", "--ids", "84,104,101", "--length", 12, "--temperature", 1, "--f32", "--threads", 1]
    alone = run(TRAIN, *ask)[0]
    for ranks, how in ((2, []), (2, ["--ep", 2]), (2, ["--tp", 2]), (4, ["--tp", 2, "--ep", 2])):
        text = jobs((ranks, [*end, *how]))[0]
        say_if(one not in text.splitlines(), f"{ranks} ranks {how}: no\n{one}\nin\n{text}")
        if how:
            got = jobs((ranks, [*ask, *how]))[0]
            say_if(got != alone, f"generate, {ranks} ranks {how}: {got} instead of {alone}")
    plain = [*PLAIN, "--f32", "--batch", 4, "--steps", 4, "--sample", 40]  # grouped heads
    one = run(TRAIN, *plain, "--micro-batches", 4)[0].splitlines()[-1]
    text = jobs((4, [*plain, "--micro-batches", 2, "--tp", 2, "--ep", 2]))[0]
    say_if(one not in text.splitlines(), f"grouped heads: no\n{one}\nin\n{text}")


def loads(at):
    """The load of each expert counts the tokens of all ranks."""
    options = [*model(at), "--steps", 1, "--load-every", 1]

    def shares(log):
        with open(log, encoding="utf-8") as f:
            return [e["shares"] for e in map(json.loads, f) if e["event"] == "load"]

    run(TRAIN, *options, "--micro-batches", 4, "--log", f"{at}/one")
    for ranks, how in ((2, []), (2, ["--tp", 2]), (4, ["--tp", 2, "--ep", 2])):
        jobs((ranks, [*options, "--micro-batches", 2, *how, "--log", f"{at}/several"]))
        want, got = shares(f"{at}/one"), shares(f"{at}/several")
        say_if(len(want) != 1 or want != got, f"{ranks} ranks {how}: {got} instead of {want}")


def volumes(at):
    """Bytes that were sent are those of the plan, by link class, and those of the algorithm."""
    for ranks, per_node in ((2, 1), (3, 3)):
        out, _ = jobs((ranks, [*PLAIN, "--batch", 6, "--steps", 3, "--ranks-per-node", per_node, "--log", f"{at}/log"]))
        with open(f"{at}/log", encoding="utf-8") as f:
            events = {e["event"]: e for e in map(json.loads, f)}
        dp = events["end"]["exchanges"]["dp"]
        inside, between = (0, 3) if per_node == 1 else (3, 0)
        for link, steps in (("inside", inside), ("between", between)):
            say_if(dp[link] != 3 * dp[f"planned_{link}"] or (dp[link] == 0) != (steps == 0), f"{ranks} ranks: {dp}")
        least = (4 + 2) * events["model"]["parameters"] * (ranks - 1) / ranks  # gradients in f32, weights in bf16
        say_if(not 1 <= max(dp["inside"], dp["between"]) / 3 / least < 1.04, f"{ranks} ranks: {dp}, at least {least}")


def bits(at):
    for ranks, how in ((2, []), (4, ["--tp", 2]), (4, ["--ep", 2, "--micro-batches", 1])):
        logs = []
        for i in range(2):
            jobs((ranks, [*TINY, *how, "--steps", 6, "--threads", 1, "--log", f"{at}/{i}"]))
            logs.append({step: (e["loss"], e["norm"]) for step, e in steps_of(f"{at}/{i}").items()})
        say_if(logs[0] != logs[1] or len(logs[0]) != 6, f"two runs of {ranks} ranks {how} differ: {logs}")


def lost(at, number, words):
    """Rank 1 gets a signal in its steps: the job ends with a message, soon."""
    process = start((2, [*TINY, "--steps", 1000000, "--threads", 1, "--log", f"{at}/log", "--comm-timeout", TIMEOUT]))
    began = time.monotonic()
    while time.monotonic() < began + 60 and not (os.path.exists(f"{at}/log") and steps_of(f"{at}/log")):
        time.sleep(0.05)
    ranks = subprocess.run(["pgrep", "-P", str(process.pid), "moe-train"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    os.kill(int(ranks[1]), number)
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=TIMEOUT + 15)
    except subprocess.TimeoutExpired:
        for rank in ranks:
            os.kill(int(rank), signal.SIGKILL)
        process.kill()
        BAD.append(f"signal {number}: the job does not end")
        return
    print(f"signal {number}: ended after {time.monotonic() - began:.1f} s")
    say_if(process.returncode == 0, f"signal {number}: exit code 0")
    say_if(not all(w in out + err for w in words), f"signal {number}: no {words} in\n{out}{err}")


def killed(at):
    lost(at, signal.SIGKILL, ["rank 1"])


def stopped(at):
    lost(at, signal.SIGSTOP, ["rank 0 of 2 waited", "for rank 1 in ", "time-out"])


def other_options(_):
    """Ranks that were not started alike."""
    one = [*TINY, "--steps", 3, "--threads", 1]
    for other, what in ((["--width", "0"], None), (["--lr", "0.1"], "rank 1 has other options"), (["--data", "README.md"], "rank 1 has other")):
        _, err = jobs((1, one), (1, [*one, *other]), code=None)
        say_if(what and what not in err, f"{other}: no `{what}` in\n{err}")


def refused(_):
    """The first rank says why, and it alone."""
    one = [*TINY, "--steps", 3]
    for ranks, options, what in ((2, ["--dp", 3, "--batch", 6], "tp 1 times dp 3 must be the number of ranks, 2"),
                                 (2, ["--batch", 6, "--micro-batches", 2], "must divide --batch 6"),
                                 (3, ["--ep", 3, "--batch", 6, "--micro-batches", 2], "8 routed experts over ep of 3 ranks"),
                                 (3, ["--batch", 7, "--micro-batches", 2], "--micro-batches must divide --batch"),
                                 (2, ["--comm-delay", "fast"], "--comm-delay takes microseconds"),
                                 (2, ["--comm-delay", "1e9"], "--comm-delay must be shorter than --comm-timeout, which is 300 s")):
        _, err = jobs((ranks, [*one, *options]), code=None)
        say_if(err.count(what) != 1, f"{options}: `{what}` is not once in\n{err}")
    _, err = run(TRAIN, *one, "--dp", 2, code=1)
    say_if("mpirun" not in err, f"--dp 2 without mpirun: {err}")


def signals(at):
    """A signal to one rank stops all of them behind the same step, with a checkpoint."""
    process = start((2, [*TINY, "--steps", 1000000, "--threads", 1, "--log", f"{at}/log", "--save", f"{at}/a"]))
    while process.poll() is None and not (os.path.exists(f"{at}/log") and steps_of(f"{at}/log")):
        time.sleep(0.05)
    ranks = subprocess.run(["pgrep", "-P", str(process.pid), "moe-train"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    os.kill(int(ranks[1]), signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    last = max(steps_of(f"{at}/log"))
    say_if(f"stopped by a signal after step {last}" not in out or os.listdir(f"{at}/a") != [f"step-{last:08d}"], f"{out}{err}")


def main():
    if not shutil.which("mpirun") or not os.path.exists(os.path.join(os.path.dirname(TRAIN), "../lib/moec-mpi.so")):
        print("train_ranks: SKIPPED: there is no mpirun (Debian: openmpi-bin), or this build has no MPI (libopenmpi-dev)")
        sys.exit(77)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    cases = [exchanges, losses, resumed, unmoved, gone_on, blamed, no_room, sampled, loads, volumes, bits, killed, stopped, other_options, refused, signals]
    run_cases("train_ranks", cases, BAD, beside=3)  # an MPI job waits for a third of a second before it begins


if __name__ == "__main__":
    main()
