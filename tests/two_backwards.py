#!/usr/bin/env python3
"""Two backward kernels give the bits of the one: those of `derive (f_fwd, f_dx, f_dw)` are called one after the other,
with what the first hands over, and compared with f_bwd on the same arguments. A gradient `as f32` is the one that is
written, before its rounding.   usage: two_backwards.py MOEC"""
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import kernel  # noqa: E402

SIZES = {"T": 70, "K": 2, "E": 5, "H": 68, "F": 45, "G": 33, "B": 2, "S": 37, "N": 3, "D": 8, "A": 48, "V": 90, "L": 37, "O": 0, "U": 8, "W": 24}
# kernel: file, targets of the first, of the second, what is saved
KERNELS = {
    "experts": ("model/experts.moe", "n, p", "wg, wu, wd, vg, vu, vd", "save g as act, u as act, sg as act"),
    "scores_softmax": ("model/router.moe", "x, gain", "w", "save scale as f32, n as act"),
    "qkv": ("model/gqa.moe", "x", "gain, wq, wk, wv", "save scale as f32, n as act"),
    "project": ("model/attention.moe", "o", "w", ""),
    "attention": ("model/attention.moe", "q", "k, v", "save m as f32, z as f32, r as act in o"),
    "attention ": ("model/attention.moe", "v", "k, q", ""),
    "rmsnorm": ("examples/rmsnorm.moe", "w", "x", ""),
}
# Sums over all rows: one kernel adds up parts of the rows where they share a loop with another gradient (lower/parts.c).
OF_PARTS = {"d_gain", "d_w"}


def request(name, first, later, save, mode):
    each = [", ".join(t.strip() + mode for t in targets.split(",")) for targets in (first, later)]
    tag = {"": "w", " +=": "a", " as f32": "f"}[mode]
    return (f"derive (one_{tag}_fwd, one_{tag}) from {name} wrt {', '.join(each)} {save}\n"
            f"derive (two_{tag}_fwd, two_{tag}, two_{tag}_later) from {name} wrt {each[0]} then {each[1]} {save}\n")


def arguments(k, given, rng):
    """Those of `given` that k has too, and new ones: zeros where it adds, or NaN where it writes."""
    args = {**k.random(SIZES, rng), **{p["name"]: given[p["name"]] for p in k.params if p["name"] in given}}
    for p in k.params:
        if p["role"] == "inout":
            args[p["name"]] = np.zeros_like(args[p["name"]])
    return args


def call(k, given, rng):
    """What k wrote, by name. What the second kernel takes by value, the first has left in an array of no axes."""
    args = arguments(k, given, rng)
    k.bind(SIZES, args)()
    return {p["name"]: args[p["name"]] for p in k.params if p["role"] != "in"}


def inputs(kernels, rng):
    """One value for each input, also for the values that a forward saves: any numbers do, if both get the same."""
    ids = np.argsort(rng.random((SIZES["T"], SIZES["E"])), axis=1)[:, :SIZES["K"]].astype(np.int32)
    args = kernels["one_w"].random(SIZES, rng, kernel.Route(ids, SIZES["E"]))
    return {p["name"]: positive(args[p["name"]], p["name"]) for p in kernels["one_w"].params if p["role"] == "in"}


def positive(a, name):
    """Saved sums and scales are."""
    return np.abs(a) + np.float32(0.5) if name in ("z", "scale") else a


def differences(kernels):
    rng = np.random.default_rng(1)
    given, found = inputs(kernels, rng), {}
    for tag in "waf":
        one = call(kernels["one_" + tag], given, rng)
        first = call(kernels["two_" + tag], given, rng)
        both = {**first, **call(kernels[f"two_{tag}_later"], {**given, **first}, rng)}
        found[tag] = one
        yield from (f"{name} ({tag}) of two kernels differs from one's" for name, a in one.items()
                    if differ(a, both[name], name in OF_PARTS and a.ndim == 1))
    for name, exact in found["f"].items():
        rounded = found["w"][name]
        if differ(kernel.to_bf16(exact) if rounded.dtype == np.uint16 else exact, rounded):
            yield f"{name}: `as f32` is not what is rounded"


def differ(a, b, reordered=False):
    a, b = kernel.floats(a), kernel.floats(b)
    same = np.allclose(a, b, rtol=0, atol=1e-5 * np.abs(a).max()) if reordered else np.array_equal(a, b)
    return not same or not np.isfinite(a).all()


def main():
    moec, failed = sys.argv[1], 0
    for name, (path, first, later, save) in KERNELS.items():
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        text += "".join(request(name, first, later, save, mode) for mode in ("", " +=", " as f32"))
        found = list(differences(kernel.compile_text(text, moec=moec)))
        print(f"{'FAILED' if found else 'ok':7} {name}", *found, sep="\n        " if found else " ")
        failed += bool(found)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
