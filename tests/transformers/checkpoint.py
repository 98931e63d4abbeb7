"""A checkpoint of moe-train as transformers reads it: the same greedy tokens, of models that were trained a little.
usage: checkpoint.py FOLDER MOE-TRAIN [MODEL...]"""
import json
import os
import shutil
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from models import MODELS, NEW

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS, PROMPT = 60, "of the License"


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout


def train(folder, program, name):
    """The path of its checkpoint, in several files."""
    config = f"{folder}/{name}/config.json"
    with open(config, encoding="utf-8") as f:
        fields = {**json.load(f), "vocab_size": 256}
    bytes_config, out = f"{folder}/{name}.bytes.json", f"{folder}/{name}.trained"
    with open(bytes_config, "w", encoding="utf-8") as f:
        json.dump(fields, f)
    shutil.rmtree(out, ignore_errors=True)
    run(program, "--model", bytes_config, "--data", f"{ROOT}/LICENSE", "--sequence", "64", "--steps", str(STEPS), "--sample", "0",
        "--save", out, "--file-limit", "0.1", "--validation-batches", "1")
    return f"{out}/step-{STEPS:08d}"


def theirs(path, prompt):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    ids = torch.tensor([prompt])
    with torch.no_grad():
        for _ in range(NEW):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    return ids[0].tolist()


def same(folder, program, name):
    path, prompt = train(folder, program, name), list(PROMPT.encode())
    want = theirs(path, prompt)
    got = json.loads(run(program, "generate", "--model", path, "--ids", ",".join(map(str, prompt)), "--length", str(NEW), "--f32"))["ids"]
    print(f"{name} trained: {bytes(got).decode('latin-1')!r}  {'ok' if got == want else f'WRONG: {want}'}")
    return got == want


if __name__ == "__main__":
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    names = [n for n in sys.argv[3:] if n in MODELS] if sys.argv[3:] else MODELS
    sys.exit(not all([same(sys.argv[1], sys.argv[2], n) for n in names]))
