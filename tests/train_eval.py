#!/usr/bin/env python3
"""moe-train eval and generate on the checkpoints of tests/models, against what the transformers package computed of them
(tests/models/expect.py): loss, norm and largest element of the gradients, greedy tokens, in f32; the loss in bf16.

usage: tests/train_eval.py MOE-TRAIN"""
import array
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def write_ids(path, ids):
    flat = array.array("i", [i for row in ids for i in row]).tobytes()
    header = json.dumps({"ids": {"dtype": "I32", "shape": [len(ids), len(ids[0])], "data_offsets": [0, len(flat)]}}).encode()
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + flat)


def read_f32(path):
    """name -> elements"""
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    body = data[8 + size:]
    return {name: array.array("f", body[slice(*t["data_offsets"])]) for name, t in json.loads(data[8:8 + size]).items()
            if name != "__metadata__"}


def gradient_errors(got, want):
    for name, (norm, largest) in want.items():
        if name not in got:
            yield f"no gradient of {name}"
            continue
        ours = math.sqrt(sum(x * x for x in got[name])), max(abs(x) for x in got[name])
        if abs(ours[0] - norm) > 1e-3 * norm + 1e-7 or abs(ours[1] - largest) > 1e-3 * largest + 1e-7:
            yield f"gradient of {name}: norm {ours[0]:.6g}, largest {ours[1]:.6g}; expected {norm:.6g}, {largest:.6g}"


def errors_of(train, model, scratch):
    with open(os.path.join(model, "expected.json"), encoding="utf-8") as f:
        want = json.load(f)
    tokens, gradients = os.path.join(scratch, "ids.safetensors"), os.path.join(scratch, "gradients.safetensors")
    write_ids(tokens, want["ids"])
    loss = run(train, "eval", "--model", model, "--tokens", tokens, "--f32", "--gradients", gradients)["loss"]
    if abs(loss - want["loss"]) > 1e-4:
        yield f"loss {loss}, expected {want['loss']}"
    yield from gradient_errors(read_f32(gradients), want["gradients"])
    rough = run(train, "eval", "--model", model, "--tokens", tokens)["loss"]
    if abs(rough - want["loss"]) > 0.05 * want["loss"]:
        yield f"loss in bf16 {rough}, expected {want['loss']}"
    n = want["prompt"]
    got = run(train, "generate", "--model", model, "--ids", ",".join(map(str, want["greedy"][:n])), "--length",
              str(len(want["greedy"]) - n), "--greedy", "--f32")["ids"]
    if got != want["greedy"]:
        yield f"tokens {got}, expected {want['greedy']}"


def main():
    folder, bad = os.path.join(ROOT, "tests", "models"), 0
    names = sorted(n for n in os.listdir(folder) if os.path.exists(os.path.join(folder, n, "expected.json")))
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            for error in errors_of(sys.argv[1], os.path.join(folder, name), scratch):
                print(f"{name}: {error}")
                bad += 1
    print(f"train_eval: {len(names)} models, {bad} differences")
    sys.exit(bad > 0 or not names)


if __name__ == "__main__":
    main()
