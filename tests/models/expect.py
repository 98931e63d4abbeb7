#!/usr/bin/env python3
"""Writes NAME/expected.json for each checkpoint of this folder: what the `transformers` package computes of it in f32. The test
tests/train_eval.py compares moe-train with these numbers; nobody else needs the package.

usage: tests/models/expect.py    (needs torch and transformers)"""
import json
import os
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT, NEW = [3, 1, 4, 1, 5], 12


def gradients_as_saved(model):
    """Under the names of a checkpoint, in which each expert has tensors of its own."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for p in model.parameters():
            p.copy_(p.grad if p.grad is not None else torch.zeros_like(p))
        model.save_pretrained(folder)
        for name, g in load_file(os.path.join(folder, "model.safetensors")).items():
            if not name.endswith("e_score_correction_bias"):
                yield name, g


def expected(model):
    ids = torch.tensor([[(7 * i * i + 3 * i + s) % 11 for i in range(14)] for s in range(3)])
    loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
    tokens = model.generate(torch.tensor([PROMPT]), max_new_tokens=NEW, do_sample=False, pad_token_id=0)[0]
    loss.backward()
    gradients = {name: [g.square().sum().sqrt().item(), g.abs().max().item()] for name, g in gradients_as_saved(model)}
    return {"ids": ids.tolist(), "loss": loss.item(), "prompt": len(PROMPT), "greedy": tokens.tolist(), "gradients": gradients}


def main():
    for name in sorted(os.listdir(HERE)):
        folder = os.path.join(HERE, name)
        if os.path.isdir(folder):
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                         experts_implementation="eager")
            with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as f:
                json.dump(expected(model), f, indent=1)
                f.write("\n")


main()
