"""moe-train against transformers and reference.py, on the models that make.py wrote: loss and its parts, all gradients and 24
greedy tokens in f32; loss and logits in bf16.   usage: compare.py FOLDER MOE-TRAIN [MODEL...]"""
import json
import os
import subprocess
import sys

from safetensors.numpy import load_file

from judge import Judge
from models import MODELS, NEW, REFERENCES


def run(*command):
    """The JSON object on the last line that the command prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-1000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(folder, train, name, act):
    path = os.path.join(folder, name)
    j = Judge(path, name, act)
    common = ["--model", path, *(["--f32"] if act == "f32" else [])]
    whole = ["--whole-loss"] if name in REFERENCES else []
    out = {what: f"{path}.{what}.ours.safetensors" for what in ("gradients", "logits")}
    asked = ["gradients"] if act == "f32" else []
    if "--logits" in subprocess.run([train, "eval", "--help"], stdout=subprocess.PIPE, encoding="utf-8").stdout:
        asked += ["logits"]
    got = run(train, "eval", *common, *whole, "--tokens", path + ".tokens.safetensors", *[x for a in asked for x in ("--" + a, out[a])])
    j.loss(got["loss"])
    if name in REFERENCES:
        j.parts({part: got.get(part, []) for part in ("mtp", "balance", "z", "dropped")})
        j.total(got["total"])
    if "logits" in asked:
        j.logits(load_file(out["logits"])["logits"])
    if act == "f32":
        j.gradients(load_file(out["gradients"]))
        prompt = ",".join(map(str, j.want["ids"][:j.want["prompt"]]))
        if not j.want.get("dropped") or not any(j.want["dropped"]):    # what is dropped depends on the whole batch
            j.tokens(run(train, "generate", *common, "--ids", prompt, "--length", str(NEW), "--greedy")["ids"])
    return j.failed


def attempt(folder, train, name, act):
    try:
        return compare(folder, train, name, act)
    except (OSError, RuntimeError, ValueError, KeyError) as e:
        print(f"{name} {act}: {e}  WRONG")
        return True


if __name__ == "__main__":
    sys.exit(any([attempt(sys.argv[1], sys.argv[2], n, act) for n in sys.argv[3:] or [*MODELS, *REFERENCES] for act in ("f32", "bf16")]))
