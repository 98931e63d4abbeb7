#!/usr/bin/env python3
"""A run that is killed (SIGKILL) at random moments and gone on with each time ends with the weights, moments and losses of one that
is not: the moments are spread over the start, the steps and the writing of checkpoints, of which there is one for each step.

usage: tests/train_kill.py MOE-TRAIN [KILLS [SEED]]"""
import os
import random
import sys
import tempfile
import time

from train_run import TINY, checkpoints, differences, run, start, steps_of

STEPS = 60


def killed(train, options, seconds):
    """Starts a run and kills it then. False: it had ended."""
    process = start(train, *options)
    try:
        process.communicate(timeout=seconds)
    except Exception:  # it still runs
        process.kill()
        process.communicate()
        return True
    if process.returncode:
        sys.exit(f"train_kill: a run that nobody killed ends with {process.returncode}")
    return False


def broken_run(train, at, draw, long, kills):
    """Goes on until the run has ended, or so many kills; how many there were, and how many while a checkpoint was written."""
    options = [*TINY, "--steps", STEPS, "--save", f"{at}/a", "--save-every", 1, "--keep", 2, "--resume", "--log", f"{at}/log"]
    done, begun = 0, 0
    while done < kills and killed(train, options, draw.uniform(0, long)):
        done += 1
        begun += os.path.exists(f"{at}/a") and any(name.endswith(".tmp") for name in os.listdir(f"{at}/a"))
    run(train, *options)
    return done, begun


def compare(whole, broken):
    yield from differences(f"{whole}/a/step-{STEPS:08d}", f"{broken}/a/step-{STEPS:08d}")
    want, got = steps_of(f"{whole}/log"), steps_of(f"{broken}/log")
    for step, line in want.items():
        if got.get(step, {}).get("loss") != line["loss"]:
            yield f"step {step}: loss {got.get(step, {}).get('loss')} instead of {line['loss']}"


def main():
    train, kills = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 20
    draw = random.Random(int(sys.argv[3]) if sys.argv[3:] else time.time_ns())
    done, begun, runs, bad = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as at:
        began = time.monotonic()
        os.mkdir(f"{at}/whole")
        run(train, *TINY, "--steps", STEPS, "--save", f"{at}/whole/a", "--log", f"{at}/whole/log")
        long = 1.5 * (time.monotonic() - began)
        while done < kills and not bad:
            runs += 1
            os.mkdir(f"{at}/{runs}")
            more = broken_run(train, f"{at}/{runs}", draw, long, kills - done)
            done, begun = done + more[0], begun + more[1]
            bad = list(compare(f"{at}/whole", f"{at}/{runs}"))
    print("\n".join(bad + [f"train_kill: {done} kills of {runs} runs, {begun} of them while a checkpoint was written; "
                           f"{len(bad)} differences at the end"]))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
