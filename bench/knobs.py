#!/usr/bin/env python3
"""What each knob of ir/schedule.def moves: every kernel of bench/space.py with one value of one knob given for all of its
tensors, beside the same kernel as the compiler chooses. The two take turns in one process; what is compared is the time that
the thread computes. Prints the median of the ratios, usual by given, and their quartiles: above 1 the value is faster.

usage: knobs.py [--only PATTERN] [--knob WORD] [--rounds N] [--threads N] [--isa ISA] [--moec PATH] [--json FILE]"""
import argparse
import json
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # noqa: E402
import space  # noqa: E402

# Numbers that are tried, by word; of a knob with words all are.
NUMBERS = {"M": (32, 64, 256, 512), "N": (128, 512, 2048), "K": (128, 512, 2048), "part": (32, 64, 128), "rows": (32, 128, 256),
           "span": (64, 1024), "lanes": (512, 16384), "ahead": (0, 2, 4, 16, 32), "threads": (1,)}


def variants(listed, names, only):
    """{(word, value): {kernel: clauses}}, without values that are the usual one of all tensors."""
    found = {}
    for name in names:
        knobs = space.knobs_of(listed, name)
        for word in dict.fromkeys(word for word, _, _ in knobs if not only or word == only):
            lines = [(head, values) for w, head, values in knobs if w == word]
            usual = {values[0] for _, values in lines}
            for value in map(str, NUMBERS.get(word, lines[0][1])):
                if usual != {value}:
                    found.setdefault((word, value), {})[name] = [f"{head} {value}" for head, _ in lines]
    return found


def measure(usual, given, options):
    """{variant: ratios, one for each round}"""
    ratios = {key: [] for key in given}
    for call in (usual, *given.values()):
        call()
    for _ in range(options.rounds):
        before = space.computed(usual, options.threads)
        for key, call in given.items():
            now, after = space.computed(call, options.threads), space.computed(usual, options.threads)
            ratios[key].append((before + after) / 2 / now)
            before = after
    return ratios


def run(source, names, sizes, options):
    text = space.text_of(source)
    names = [n for n in names if re.search(options.only, n)]
    given = variants(space.space_of(text, options.isa, options.moec), names, options.knob) if names else {}
    compiled = {key: kernel.compile_text(text + "".join(space.block(*b) for b in blocks.items()), options.isa, moec=options.moec)
                for key, blocks in given.items()}
    plain = kernel.compile_text(text, options.isa, moec=options.moec) if given else {}
    for name in names if given else ():
        args = space.arguments(plain[name], sizes, space.make_route(sizes, 1) if "E" in sizes else None)
        calls = {key: compiled[key][name].bind(sizes, args, options.threads) for key in given if name in given[key]}
        usual = plain[name].bind(sizes, args, options.threads)
        for (word, value), ratios in measure(usual, calls, options).items():
            low, middle, high = np.percentile(ratios, (25, 50, 75))
            print(f"{name:<14} {word:<9} {value:<10} {middle:6.3f}   {low:.3f} to {high:.3f}", flush=True)
            yield dict(kernel=name, knob=word, value=value, ratio=middle, low=low, high=high)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--knob")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="host")
    parser.add_argument("--json")
    parser.add_argument("--moec", default=kernel.MOEC)
    options = parser.parse_args()
    options.moec = os.path.abspath(options.moec)
    found = [row for case in space.CASES for row in run(*case, options)]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


main()
