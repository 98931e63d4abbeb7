"""Writes small models with random weights, and what the transformers package makes of them (for what that lacks: reference.py).
  usage: make.py FOLDER [MODEL...]     MODEL: a name of models.py, or randomN

FOLDER/MODEL/ holds config.json and model.safetensors, weights rounded to bf16. Beside it, of f32 arithmetic on the CPU:
  MODEL.tokens.safetensors      ids i32[B, S + 1]
  MODEL.gradients.safetensors   of the loss of these tokens (`total` where it has parts), under the weights' names
  MODEL.logits.safetensors      logits f32[B, S, V]
  MODEL.json                    loss: the mean cross entropy; of a reference also the other parts of the loss, and their total;
                                ids: a prompt and 24 greedy tokens behind it; margin: the least distance of a greedy token's logit
                                from the next one's"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

import reference
from models import MODELS, NEW, PROMPT, REFERENCES, random_model, tokens_of

transformers.utils.logging.disable_progress_bar()


def build(kind, fields):
    config = getattr(transformers, kind + "Config")(**fields, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    config._attn_implementation = config._experts_implementation = "eager"     # others want certain sizes
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


def continue_greedily(next_logits, ids):
    """24 tokens, without a cache: nothing but the model; and how clear the choices are."""
    margin = float("inf")
    with torch.no_grad():
        for _ in range(NEW):
            best = next_logits(ids).topk(2)
            margin = min(margin, (best.values[0] - best.values[1]).item())
            ids = torch.cat([ids, best.indices[None, :1]], 1)
    return ids[0].tolist(), margin


def write_expected(path, ids, logits, parts, next_logits):
    save_file({"ids": ids.int()}, path + ".tokens.safetensors")
    save_file({"logits": logits.detach().contiguous()}, path + ".logits.safetensors")
    generated, margin = continue_greedily(next_logits, ids[:1, :PROMPT])
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump({**parts, "ids": generated, "prompt": len(generated) - NEW, "margin": margin}, f)
    print(f"{os.path.basename(path)}: loss {parts['loss']:.5f}, greedy tokens clear by {margin:.2g}")


def random_ids(path, vocabulary):
    batch, length = tokens_of(os.path.basename(path))
    return torch.randint(0, vocabulary, (batch, length + 1))


def write(path, kind, fields):
    model = build(kind, fields)
    model.save_pretrained(path)
    ids = random_ids(path, fields["vocab_size"])
    logits, loss = loss_of(model, ids)
    loss.backward()
    write_expected(path, ids, logits, {"loss": loss.item()}, lambda ids: model(input_ids=ids, use_cache=False).logits[0, -1])
    if kind == "DeepseekV3":
        check_reference(path, ids, logits)
    write_gradients(model, path)


def check_reference(path, ids, logits):
    """reference.py is DeepSeek-V3 where nothing else is asked for."""
    with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    if config["rope_parameters"]["rope_type"] != "default":
        return
    weights = load_file(os.path.join(path, "model.safetensors"))
    _, ours = reference.Reference({**config, "rope_theta": config["rope_parameters"]["rope_theta"]}, weights).losses(ids)
    assert (ours - logits).abs().max() < 1e-4, f"{path}: reference.py is not transformers' model"


def write_reference(path, config):
    weights = reference.random_weights(reference.fields(config))
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)
    save_file(weights, os.path.join(path, "model.safetensors"))
    ids = random_ids(path, config["vocab_size"])
    parts, logits = reference.Reference(config, weights).losses(ids)
    parts["total"].backward()
    save_file({n: w.grad for n, w in weights.items() if w.grad is not None}, path + ".gradients.safetensors")

    def plain(x):
        return [plain(y) for y in x] if isinstance(x, list) else x.item() if isinstance(x, torch.Tensor) else x

    dropless = {**config, "capacity_factor": 0.0}
    write_expected(path, ids, logits, {n: plain(x) for n, x in parts.items()},
                   lambda ids: (lambda r: r.logits(r.hidden(ids))[0, -1])(reference.Reference(dropless, weights)))


def write_gradients(model, path):
    """In place of the weights, and saved as weights are: files name and cut some otherwise than the model in memory does."""
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(w.grad if w.grad is not None else torch.zeros_like(w))
    model.save_pretrained(path + ".gradients")
    os.replace(os.path.join(path + ".gradients", "model.safetensors"), path + ".gradients.safetensors")


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    every = sorted(MODELS | REFERENCES)
    for model_name in sys.argv[2:] or every:
        torch.manual_seed(every.index(model_name) if model_name in every else int(model_name.removeprefix("random")))
        where = os.path.join(sys.argv[1], model_name)
        if model_name in REFERENCES:
            write_reference(where, REFERENCES[model_name])
        else:
            write(where, *(MODELS.get(model_name) or random_model(model_name)))
