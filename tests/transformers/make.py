"""Writes small models with random weights and what the transformers package makes of them.   usage: make.py FOLDER [MODEL...]

FOLDER/MODEL/ holds config.json and model.safetensors, weights rounded to bf16. Beside it, of f32 arithmetic on the CPU:
  MODEL.tokens.safetensors      ids i32[B, S + 1]
  MODEL.gradients.safetensors   of the mean cross entropy of these tokens, under the weights' names
  MODEL.logits.safetensors      logits f32[B, S, V]
  MODEL.json                    loss; ids: a prompt and 24 greedy tokens behind it; margin: the least distance of a greedy token's
                                logit from the next one's"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

from models import BATCH, LENGTH, MODELS, NEW, PROMPT


def build(kind, fields):
    config = getattr(transformers, kind + "Config")(**fields, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config).float().train()
    with torch.no_grad():
        for name, w in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("e_score_correction_bias"):
                w.copy_(0.2 * torch.randn_like(w))
            elif "norm" in name:
                w.copy_(1 + 0.3 * torch.randn_like(w))
            if "inv_freq" not in name:
                w.copy_(w.bfloat16().float())
    return model


def loss_of(model, ids):
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def continue_greedily(model, ids):
    """24 tokens, without a cache: nothing but the model; and how clear the choices are."""
    margin = float("inf")
    with torch.no_grad():
        for _ in range(NEW):
            best = model(input_ids=ids, use_cache=False).logits[0, -1].topk(2)
            margin = min(margin, (best.values[0] - best.values[1]).item())
            ids = torch.cat([ids, best.indices[None, :1]], 1)
    return ids[0].tolist(), margin


def write(folder, name):
    kind, fields = MODELS[name]
    path = os.path.join(folder, name)
    model = build(kind, fields)
    model.save_pretrained(path)
    ids = torch.randint(0, fields["vocab_size"], (BATCH, LENGTH + 1))
    logits, loss = loss_of(model, ids)
    loss.backward()
    save_file({"ids": ids.int()}, path + ".tokens.safetensors")
    save_file({"logits": logits.detach().contiguous()}, path + ".logits.safetensors")
    generated, margin = continue_greedily(model, ids[:1, :PROMPT])
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump({"loss": loss.item(), "ids": generated, "prompt": PROMPT, "margin": margin}, f)
    write_gradients(model, path)
    print(f"{name}: loss {loss.item():.5f}, greedy tokens clear by {margin:.2g}")


def write_gradients(model, path):
    """In place of the weights, and saved as weights are: files name and cut some otherwise than the model in memory does."""
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(w.grad if w.grad is not None else torch.zeros_like(w))
    model.save_pretrained(path + ".gradients")
    os.replace(os.path.join(path + ".gradients", "model.safetensors"), path + ".gradients.safetensors")


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for model_name in sys.argv[2:] or MODELS:
        torch.manual_seed(sorted(MODELS).index(model_name))
        write(sys.argv[1], model_name)
