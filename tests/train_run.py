"""What the tests of training runs share: a tiny model that has everything (examples/models/tiny.json: latent attention, a dense layer,
experts with a correction bias, multi-token prediction), trained on the licence."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = ["--model", f"{ROOT}/examples/models/tiny.json", "--data", f"{ROOT}/LICENSE", "--sequence", "16", "--batch", "4",
        "--micro-batches", "2", "--warmup", "2", "--sample", "0", "--validation-batches", "1"]
WHOLE = ("model.safetensors", "optimizer.safetensors", "state.safetensors", "config.json")


def start(train, *options, **how):
    return subprocess.Popen([train, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **how)


def run(train, *options, code=0, **how):
    """Its stdout and stderr; another exit code than expected ends the test."""
    process = start(train, *options, **how)
    out, err = process.communicate(timeout=250)
    if process.returncode != code:
        raise SystemExit(f"moe-train {' '.join(map(str, options))}: exit code {process.returncode}, wanted {code}\n{out}{err}")
    return out, err


MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root"]


def start_ranks(ranks, train, *options, **how):
    words = [*MPIRUN, "-n", str(ranks), train, *map(str, options)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **how)


def mpirun(ranks, train, *options, code=0, **how):
    """As run(), on several ranks."""
    process = start_ranks(ranks, train, *options, **how)
    out, err = process.communicate(timeout=250)
    if process.returncode != code:
        raise SystemExit(f"{ranks} ranks {' '.join(map(str, options))}: exit code {process.returncode}, wanted {code}\n{out}{err}")
    return out, err


def steps_of(log):
    """step -> its last line in the log"""
    with open(log, encoding="utf-8") as f:
        return {e["step"]: e for e in map(json.loads, f) if e["event"] == "step"}


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("step-"))


def differences(a, b):
    """The files of two checkpoints that are not the same bytes."""
    for name in WHOLE:
        with open(f"{a}/{name}", "rb") as x, open(f"{b}/{name}", "rb") as y:
            if x.read() != y.read():
                yield f"{name} of {a} and {b} differ"


def run_cases(name, cases, bad, beside=1):
    """Each case, or those that the command line names behind the program, in a folder of its own, `beside` of them at a time; ends the
    test. `bad`: what they find wrong, a list."""
    chosen = [c for c in cases if not sys.argv[2:] or c.__name__ in sys.argv[2:]]

    def one(case):
        with tempfile.TemporaryDirectory(prefix=case.__name__) as at:
            case(at)

    with concurrent.futures.ThreadPoolExecutor(beside) as pool:
        list(pool.map(one, chosen))
    for what in bad:
        print(f"WRONG: {what}")
    print(f"{name}: {len(chosen)} cases, {len(bad)} wrong")
    sys.exit(bool(bad) or not chosen)
