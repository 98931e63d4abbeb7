#!/usr/bin/env python3
"""The kernels of everyday.moe beside PyTorch, its faster way of eager and compiled, in turns.

usage: build/bench/venv/bin/python bench/everyday.py [T F [THREADS]]     (bench/install makes that Python)"""
import os
import statistics
import sys
import time

THREADS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np
import torch
import torch.nn.functional as nn

import kernel

SIZES = dict(zip("TF", map(int, sys.argv[1:3] or (2048, 2048))), B=4, S=4096, V=8, G=4, Q=4, D=128)
ROUNDS = 21
torch.set_num_threads(THREADS)


def gradient(forward):
    def run(*tensors):
        *inputs, d = tensors
        leaves = [t.detach().requires_grad_() for t in inputs]
        return torch.autograd.grad(forward(*leaves), leaves, d)
    return run


def bias_gelu(x, b):
    return nn.gelu(x + b, approximate="tanh").to(x.dtype)


def layernorm(x, g, b):
    return nn.layer_norm(x.float(), (x.shape[1],), g, b).to(x.dtype)


# The same work on the same inputs, in the order of the kernel's parameters.
PEERS = {
    "column_sum": lambda x: x.sum(0),
    "transpose": lambda x: x.t().contiguous(),
    "transpose_bf16": lambda x: x.t().contiguous(),
    "softmax": lambda x: torch.softmax(x, 1),
    "softmax_of_columns": lambda x: torch.softmax(x, 0),
    "bias_gelu_fwd": bias_gelu,
    "bias_gelu_bwd": gradient(bias_gelu),
    "layernorm_fwd": layernorm,
    "layernorm_bwd": gradient(layernorm),
    "argmax": lambda x: x.argmax(1),
    "decode": nn.scaled_dot_product_attention,
    "decode_apart": lambda q, k, v: nn.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2)),
}


def tensor(a):
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype == np.uint16 else torch.from_numpy(a)


def seconds(call):
    call()
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "everyday.moe"), encoding="utf-8") as f:
        kernels = kernel.compile_text(f.read(), "host")
    print(f"{torch.__version__}, {SIZES}, {THREADS} threads", flush=True)
    for name, peer in PEERS.items():
        args = kernels[name].random(SIZES, np.random.default_rng(1))
        given = [tensor(args[p["name"]]) for p in kernels[name].params if p["role"] == "in"]
        ways = {"eager": peer, "compiled": torch.compile(peer)}
        times = {way: [] for way in ("ours", *ways)}
        ours = kernels[name].bind(SIZES, args, THREADS)
        for _ in range(ROUNDS):
            times["ours"].append(seconds(ours))
            for way, run in ways.items():
                times[way].append(seconds(lambda: run(*given)))
        best = min(ways, key=lambda way: statistics.median(times[way]))
        ratios = [peer / own for peer, own in zip(times[best], times["ours"])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:20} {1e3 * statistics.median(times['ours']):8.3f} ms   {middle:5.2f} ({low:.2f} to {high:.2f}) x PyTorch, {best}",
              flush=True)


main()
