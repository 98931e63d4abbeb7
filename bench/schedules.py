#!/usr/bin/env python3
"""Does the model of this CPU put schedules in the right order? Draws schedules of the grouped product at random from a grid, or
of other kernels from the space that `moec explain --space` lists, measures them in turn in one process, asks
`moec report --machine host` for the time of each, and prints both beside Kendall's tau: of all pairs whose medians differ by
more than the spread of either, and by more than copies of one schedule do, those that the model orders as the clock does, less
the others, by all of them.
bench/README.md says more.

usage: schedules.py [--shape few|many|both | --kernel PATTERN] [--schedules N] [--rounds N] [--seed N] [--threads N] [--isa ISA]
                    [--machine NAME | FILE.json] [--json FILE] [--moec PATH]"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # noqa: E402
import space  # noqa: E402

# Sizes, and groups that get no rows: a few large groups, and many small ones (A and C of moe-bench).
SHAPES = {"few": (dict(T=2048, K=2, E=8, H=1024, F=512), 1), "many": (dict(T=2048, K=2, E=64, H=1024, F=512), 8)}
# Blocks up to the extents of these shapes: larger ones are the same schedule. Any number of rows.
GRID = {"M": (32, 64, 96, 128, 192, 256, 384, 512, 1024), "N": (32, 64, 128, 256, 512), "K": (32, 64, 128, 256, 512, 1024),
        "order": ("heaviest_first", "as_given"), "permute": ("fuse xp -> y at prologue", "store xp")}
LARGEST = 2048
DRAWS = 20  # for each schedule that is wanted
COPIES = 5  # of the first schedule, which take turns with the others: what differs between them is noise
HEAD = """moe 1
dim T, K, E, H, F
group R : E rows T*K
"""
KERNEL = """kernel k{n}(in x: bf16[T, H], in rt: route[T, K -> R], in w: bf16[E, H, F], out y: bf16[R, F]) {{
  xp[r, h] = x[rt.token(r), h]
  y[r, f] = bf16(sum(h) xp[r, h] * w[@r, h, f])
}}
schedule k{n} {{ tile y : M = {M} N = {N} K = {K}  order groups {order}  {permute} }}
"""


def draw(n, seed):
    """n different points of the grid."""
    rng, drawn = random.Random(seed), []
    while len(drawn) < n:
        point = {knob: rng.choice(values) for knob, values in GRID.items()}
        if point not in drawn:
            drawn.append(point)
    return drawn


def make_route(sizes, empty, seed):
    """Choices skewed over groups, each token's different; some groups get none."""
    rng, groups = np.random.default_rng(seed), sizes["E"]
    weight = rng.permutation(1 / np.arange(1, groups + 1) ** 1.2)
    key = np.log(weight) + rng.gumbel(size=(sizes["T"], groups))
    key[:, rng.permutation(groups)[:empty]] = -np.inf
    return kernel.Route(np.argsort(-key, axis=1)[:, :sizes["K"]].astype(np.int32), groups)


def measure(calls, options):
    """Seconds of each schedule, [schedule][round]. They read the same data and take turns."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(options.rounds):
        for call, row in zip(calls, times):
            row.append(space.computed(call, options.threads))
    return times


def predict(text, name, sizes, route, options):
    """Seconds that the model says, of the same groups."""
    rows = ",".join(f"{name}={n}" for name, n in sizes.items())
    rows += f",routing=exact({', '.join(map(str, route.arrays[1]))})" if route else ""
    environment = dict(os.environ, **({} if options.isa == "host" else {"MOE_ISA": options.isa}))
    with kernel.source_of(text) as source:
        out = subprocess.run([options.moec, "report", source, name, "--machine", options.machine, "--threads",
                              str(options.threads), "--sizes", rows], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment, encoding="utf-8")
    found = re.search(r": ([0-9.]+) us", out.stdout)
    if out.returncode or not found:
        raise RuntimeError(f"moec report {name}: {out.stdout[:2000]}")
    return float(found.group(1)) * 1e-6


def tau(rows, noise):
    """Kendall's tau over the pairs that differ by more than their spread, and by more than copies of one schedule do; and how many
    these are."""
    agree = pairs = 0
    for n, (model, median, spread) in enumerate(rows):
        for other_model, other_median, other_spread in rows[:n]:
            if abs(median - other_median) > max(spread, other_spread, noise * min(median, other_median)):
                pairs += 1
                agree += np.sign((median - other_median) * (model - other_model))
    return agree / pairs if pairs else 0, pairs


def tell(name, rows, copies, points, put):
    """Prints the rows (model, median, spread) of the points, the fastest first, and how well the model ranks them. copies: the
    medians of one schedule."""
    for point, row in sorted(zip(points, rows), key=lambda pair: pair[1][1]):
        print(f"{row[1] * 1e3:8.2f} ms {row[2] * 1e3:7.2f} {row[0] * 1e3:8.2f} {row[0] / row[1]:6.2f}  {put(point)}")
    noise = max(copies) / min(copies) - 1
    found, pairs = tau(rows, noise)
    half, half_pairs = tau(sorted(rows, key=lambda row: row[1])[:len(rows) // 2], noise)
    ratios = sorted(row[0] / row[1] for row in rows)
    liked = sorted(rows, key=lambda row: row[0])[:max(len(rows) // 10, 1)]
    fastest, slowest = (pick(row[1] for row in rows) for pick in (min, max))
    print(f"{name}: tau {found:.2f} over {pairs} pairs of {len(rows)} schedules, {half:.2f} over {half_pairs} of the faster half; "
          f"the slowest takes {slowest / fastest:.2f} times as long as the fastest, copies of one schedule up to {1 + noise:.2f}; "
          f"model by measured {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios) // 2]:.2f}; beside the fastest one "
          f"the model's first takes {liked[0][1] / fastest:.2f} times as long, the best of its first tenth "
          f"{min(row[1] for row in liked) / fastest:.2f} times", flush=True)
    return {"shape": name, "tau": found, "pairs": pairs, "copies": copies, "schedules": [
        dict(point, model=row[0], median=row[1], spread=row[2]) for point, row in zip(points, rows)]}


def rows_of(calls, predictions, options):
    """(model, median, spread) of each call that has a prediction, and the medians of the first one and of the others, its copies."""
    quartiles = [np.percentile(row, (25, 50, 75)) for row in measure(calls, options)]
    return ([(model, q[1], q[2] - q[0]) for model, q in zip(predictions, quartiles)],
            [q[1] for q in quartiles[:1] + quartiles[len(predictions):]])


def run(name, options):
    sizes, empty = SHAPES[name]
    points, route = draw(options.schedules, options.seed), make_route(sizes, empty, options.seed)
    text = HEAD + "".join(KERNEL.format(n=n, **point) for n, point in enumerate(points + points[:1] * COPIES))
    kernels = kernel.compile_text(text, options.isa, moec=options.moec)
    args = kernels["k0"].random(sizes, np.random.default_rng(options.seed), route)
    calls = [k.bind(sizes, args, options.threads) for k in kernels.values()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        models = list(pool.map(lambda n: predict(text, f"k{n}", sizes, route, options), range(len(points))))
    print(f"\n{name}: {', '.join(f'{n}={v}' for n, v in sizes.items())}; rows of groups {min(route.arrays[1])} to "
          f"{max(route.arrays[1])}; {options.threads} thread(s), {options.isa}")
    return tell(name, *rows_of(calls, models, options), points, lambda point: "  ".join(f"{k} {v}" for k, v in point.items()))


# ---- other kernels: any of the knobs that are theirs ----

def draw_clauses(listed, name, rng):
    """Some of the knobs, each with any of its values, and maybe another choice about an edge. Left out are numbers that are much
    larger than any size here, threads, which are said, and `multiply`, which any model ranks."""
    knobs = [(head, values) for word, head, values in space.knobs_of(listed, name) if word not in ("threads", "multiply")]
    drawn = [f"{head} {rng.choice([v for v in values[1:] if not v.isdigit() or int(v) <= LARGEST])}"
             for head, values in knobs if rng.random() < max(0.33, 1.5 / len(knobs))]
    choices = space.choices_of(listed, name)
    return drawn + [clause for clause in choices if rng.random() < 0.5 / len(choices)]


def run_kernel(source, name, sizes, options):
    text, rng = space.text_of(source), random.Random(options.seed)
    listed, points = space.space_of(text, options.isa, options.moec), [[]]
    for _ in range(DRAWS * options.schedules):  # a small space has fewer schedules
        if len(points) >= options.schedules:
            break
        clauses = draw_clauses(listed, name, rng)
        if clauses not in points:
            points.append(clauses)
    texts = [text + space.block(name, clauses) if clauses else text for clauses in points]
    route = space.make_route(sizes, options.seed) if "E" in sizes else None
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        kernels = list(pool.map(lambda t: kernel.compile_text(t, options.isa, moec=options.moec)[name], texts + texts[:1] * COPIES))
        models = list(pool.map(lambda t: predict(t, name, sizes, route, options), texts))
    args = space.arguments(kernels[0], sizes, route)
    calls = [k.bind(sizes, args, options.threads) for k in kernels]
    print(f"\n{name}: {', '.join(f'{n}={v}' for n, v in sizes.items())}; {options.threads} thread(s), {options.isa}")
    return tell(name, *rows_of(calls, models, options), [{"clauses": p} for p in points], lambda point: "; ".join(point["clauses"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=(*SHAPES, "both"), default="both")
    parser.add_argument("--kernel", help="kernels of bench/space.py whose names have this in them, instead")
    parser.add_argument("--schedules", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="host")
    parser.add_argument("--machine", default="host")
    parser.add_argument("--json")
    parser.add_argument("--moec", default=kernel.MOEC)
    options = parser.parse_args()
    options.moec = os.path.abspath(options.moec)
    if options.kernel:
        found = [run_kernel(source, name, sizes, options) for source, names, sizes in space.CASES for name in names
                 if re.search(options.kernel, name)]
    else:
        found = [run(name, options) for name in (SHAPES if options.shape == "both" else (options.shape,))]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


main()
