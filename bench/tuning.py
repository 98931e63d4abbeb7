#!/usr/bin/env python3
"""What `moec tune` brings, and what it leaves: ten kernels at sizes and routings, some of them only here. Each is tuned, and searched
for longer at random; then the default, the tuned schedule and the best of the longer search take turns with fresh data, and only these
rounds count. Asked is that the tuned schedule is never more than 2 % slower than the default, and within 5 % of the best that is known.

usage: tuning.py [--budget SECONDS] [--search SECONDS] [--rounds N] [--threads N] [--only PATTERN] [--json FILE]
Needs the Python package: PYTHONPATH=build/python."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import moec

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SLOWER, BEHIND = 1.02, 1.05

GEMM = """moe 1
dim T, H, F
kernel gemm(in x: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F]) { y[t, f] = bf16(sum(h) x[t, h] * w[h, f]) }
kernel gemm_grad(in x: bf16[T, H], in d: bf16[T, F], inout w: f32[H, F]) { w[h, f] += sum(t) x[t, h] * d[t, f] }
"""
# An adapter of low rank beside each expert, and experts that square what is above zero.
ADAPTED = """moe 1
dim T, K, E, H, F, L
group R : E rows T*K
fn squared(x) = max2(x, 0) * max2(x, 0)
kernel adapted(in x: bf16[T, H], in rt: route[T, K -> R], in w: bf16[E, H, F], in a: bf16[E, H, L], in b: bf16[E, L, F],
               out y: bf16[R, F]) {
  l[r, i] = bf16(sum(h) x[rt.token(r), h] * a[@r, h, i])
  y[r, f] = bf16(sum(h) x[rt.token(r), h] * w[@r, h, f] + sum(i) l[r, i] * b[@r, i, f])
}
kernel squares(in x: bf16[T, H], in rt: route[T, K -> R], in wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {
  a[r, f] = bf16(squared(sum(h) x[rt.token(r), h] * wu[@r, h, f]))
  o[r, h] = sum(f) a[r, f] * wd[@r, f, h]
  y[t, h] = bf16(sum(k) o[rt.row(t, k), h])
}
"""
# A text or an example, its kernel, sizes, routing.
CASES = [
    ("moe_ffn", "ffn", dict(T=1024, K=2, E=8, H=512, F=512), "zipf(1.2)"),
    ("moe_ffn", "ffn", dict(T=64, K=2, E=16, H=1024, F=256), "zipf(1.2)"),
    ("moe_ffn", "ffn", dict(T=1024, K=8, E=64, H=512, F=64), "uniform"),
    ("moe_ffn", "ffn_bwd", dict(T=512, K=2, E=8, H=256, F=512), "zipf(1.2)"),
    ("attention", "attention_fwd", dict(B=1, S=512, N=4, D=64), None),
    ("xent", "xent_bwd", dict(T=256, H=256, V=4096), None),
    (GEMM, "gemm", dict(T=384, H=768, F=768), None),
    (GEMM, "gemm_grad", dict(T=1024, H=512, F=512), None),
    (ADAPTED, "adapted", dict(T=512, K=2, E=8, H=512, F=512, L=16), "zipf(0.8)"),
    (ADAPTED, "squares", dict(T=512, K=4, E=32, H=512, F=128), "hot(2)"),
]


def path_of(source, folder):
    if not source.startswith("moe 1"):
        return os.path.join(ROOT, "examples", source + ".moe")
    path = os.path.join(folder, "kernel.moe")
    with open(path, "w", encoding="utf-8") as f:
        f.write(source)
    return path


def search(options, folder, path, kernel, sizes, routing, budget, strategy):
    """Records of one search."""
    database = os.path.join(folder, strategy + ".db")
    words = [options.moec, "tune", f"{path}:{kernel}", "--sizes", ",".join(f"{k}={v}" for k, v in sizes.items()),
             "--budget", f"{budget}s", "--strategy", strategy, "--threads", str(options.threads), "--db", database]
    done = subprocess.run(words + (["--routing", routing] if routing else []), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return moec.records(database)


def winner(found):
    """The schedule that the tuner says; None: the default."""
    return next((r.schedule for r in found if r.state == "best"), None)


def most_promising(found):
    """The best that was tried: chance helped it, but the rounds that count are still to come."""
    tried = [r for r in found if r.state == "tried" and r.rounds >= 7]
    best = min(tried, key=lambda r: r.ratio, default=None)
    return best.schedule if best and best.ratio < 1 else None


def run(options, source, kernel, sizes, routing):
    with tempfile.TemporaryDirectory() as folder:
        path = path_of(source, folder)
        tuned = winner(search(options, folder, path, kernel, sizes, routing, options.budget, "halving"))
        longer = most_promising(search(options, folder, path, kernel, sizes, routing, options.search, "random"))
        # a schedule is measured once: against itself it is as fast, whatever noise says
        schedules = list(dict.fromkeys((None, tuned, longer)))
        times = moec.measure(path, kernel, sizes=sizes, routing=routing, threads=options.threads, seed=7, schedules=schedules,
                             rounds=options.rounds, seconds=1.0)
    usual, mine, best = (times[schedules.index(s)] for s in (None, tuned, longer))
    own, behind = moec.compare(mine, usual), moec.compare(mine, best)
    good = own.ratio <= SLOWER and behind.ratio <= BEHIND
    print(f"{kernel:<14} {' '.join(f'{k}={v}' for k, v in sizes.items()):<36} {routing or '':<10} "
          f"{1e3 * sorted(usual)[len(usual) // 2]:8.3f} ms  {own.ratio:.3f} ({own.low:.3f} to {own.high:.3f})  "
          f"{behind.ratio:.3f} ({behind.low:.3f} to {behind.high:.3f})  {'' if good else 'FAILED'}", flush=True)
    return dict(kernel=kernel, sizes=sizes, routing=routing, default=usual, tuned=mine, longer=best, schedule=tuned, good=good)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, default=60, help="seconds of `moec tune`, for each case")
    parser.add_argument("--search", type=int, default=600, help="seconds of the longer search at random")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--moec", default=os.path.join(ROOT, "build", "bin", "moec"))
    options = parser.parse_args()
    options.moec = os.path.abspath(options.moec)
    print(f"{'kernel':<14} {'sizes':<36} {'routing':<10} {'default':>11}  {'tuned / default':<24}  tuned / longer search")
    found = [run(options, *case) for case in CASES if re.search(options.only, case[1])]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)
    print(f"{len(found)} cases, {sum(not f['good'] for f in found)} failed")
    return any(not f["good"] for f in found)


if __name__ == "__main__":
    sys.exit(main())
