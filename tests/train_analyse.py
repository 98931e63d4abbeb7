#!/usr/bin/env python3
"""moe-train analyse: its numbers agree with each other and with what they are defined as, computed here once more.

usage: tests/train_analyse.py MOE-TRAIN"""
import csv
import math
import os
import shutil
import sys
import tempfile

from train_run import ROOT, TINY, run

TRAIN, BAD = sys.argv[1], []
EXPERTS, TOP, LAYERS = 8, 2, (1, 2)  # of TINY's model: layer 0 is dense


def expect(good, what):
    if not good:
        BAD.append(what)


def near(a, b):
    return abs(a - b) < 1e-6


def rows(path):
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader(f))


def check_layer(row, shares, pairs, strengths):
    """shares: domain -> [experts]. All domains have as many tokens."""
    all_ = [sum(s[e] for s in shares.values()) / len(shares) for e in range(EXPERTS)]
    mean = TOP / EXPERTS
    special = sum(abs(s[e] - all_[e]) for s in shares.values() for e in range(EXPERTS)) / 2 / TOP / len(shares)
    most = max(pairs, key=pairs.get)
    routed, shared = (sum(s[i] for s in strengths) for i in (0, 1))
    for name, want in (("max_over_mean", max(all_) / mean),
                       ("deviation", math.sqrt(sum((x - mean) ** 2 for x in all_) / EXPERTS) / mean),
                       ("front_bias", sum(x * e for e, x in enumerate(all_)) / TOP / ((EXPERTS - 1) / 2) - 1),
                       ("specialisation", special), ("together", pairs[most]), ("routed_part", routed / (routed + shared))):
        expect(near(float(row[name]), want), f"layer {row['layer']}: {name} is {row[name]}, wanted {want}")
    expect(all(near(sum(s), TOP) for s in shares.values()), "the shares of a domain do not add up")
    expect(near(sum(pairs.values()), TOP * (TOP - 1) / 2), f"pairs add up to {sum(pairs.values())}")


def check_folder(folder, domains):
    shares, pairs, strengths = ({layer: {} for layer in LAYERS} for _ in range(3))
    for r in rows(f"{folder}/shares.csv"):
        shares[int(r["layer"])].setdefault(r["domain"], []).append(float(r["share"]))
    for r in rows(f"{folder}/pairs.csv"):
        pairs[int(r["layer"])][int(r["first"]), int(r["second"])] = float(r["probability"])
    for r in rows(f"{folder}/strengths.csv"):
        strengths[int(r["layer"])][r["domain"]] = float(r["routed"]), float(r["shared"])
    layers = rows(f"{folder}/layers.csv")
    expect([int(r["layer"]) for r in layers] == list(LAYERS), f"layers {layers}")
    for r in layers:
        layer = int(r["layer"])
        expect(sorted(shares[layer]) == sorted(domains), f"domains {sorted(shares[layer])}")
        check_layer(r, shares[layer], pairs[layer], strengths[layer].values())
    return layers


def main():
    with tempfile.TemporaryDirectory() as at:
        run(TRAIN, *TINY, "--steps", 30, "--save", f"{at}/a")
        model = ["analyse", "--model", f"{at}/a/step-00000030", "--sequences", 8, "--sequence", 32]
        two = ["--domain", f"licence={ROOT}/LICENSE", "--domain", f"kernels={ROOT}/model"]
        out, _ = run(TRAIN, *model, *two, "--out", f"{at}/two")
        expect("8 experts, top-2" in out and "licence" in out and "kernels" in out, out)
        layers = check_folder(f"{at}/two", ["licence", "kernels"])
        expect(all(float(r["specialisation"]) > 0.01 for r in layers), "two kinds of text look the same")
        run(TRAIN, *model, "--domain", f"a={ROOT}/LICENSE", "--domain", f"b={ROOT}/LICENSE", "--out", f"{at}/same", "--threads", 1)
        layers = check_folder(f"{at}/same", ["a", "b"])
        expect(all(near(float(r["specialisation"]), 0) for r in layers), "the same text differs")
        expect("--model and at least one --domain" in run(TRAIN, "analyse", code=2)[1], "nothing is asked")
        expect("there are two domains `a`" in run(TRAIN, *model, "--domain", "a=LICENSE", "--domain", "a=README.md", code=2)[1], "two of a name")
        expect("--domain takes NAME=PATH" in run(TRAIN, *model, "--domain", "LICENSE", code=2)[1], "a domain without a name")
        expect("domain x cannot be analysed" in run(TRAIN, *model, "--domain", "x=/nonexistent", code=1)[1], "no such text")
        expect("cannot be made" in run(TRAIN, *model, *two, "--out", f"{ROOT}/LICENSE/x", code=1)[1], "no such folder")
        dense = f"{ROOT}/tests/models/qwen3_moe"
        expect("vocabulary has" in run(TRAIN, "analyse", "--model", dense, *two, "--sequence", 16, code=1)[1], "tokens beyond the vocabulary")
        if shutil.which("gnuplot"):
            run(TRAIN, *model, *two, "--out", f"{at}/two", "--draw", "svg")
            expect(os.path.getsize(f"{at}/two/experts.svg") > 10000, "nothing is drawn")
        else:
            print("train_analyse: skipped: drawings, because gnuplot is not installed (gnuplot-nox)")
    print("\n".join(BAD + [f"train_analyse: {len(BAD)} wrong"]))
    sys.exit(bool(BAD))


if __name__ == "__main__":
    main()
