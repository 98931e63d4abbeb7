#!/usr/bin/env python3
"""A whole training step of `moe-train` beside PyTorch's: forward, backward, clip and AdamW of the same model on random bytes.
usage: step.py MOE_TRAIN [--model NAME] [--threads N] [--rounds N] [--ways PATTERN]        with a Python that has torch

Each way of PyTorch trains in this process, moe-train in one of its own; they take turns, STEPS steps at a time. The number of
a way is the median over the rounds of the median step of a round; `ratio` is the fastest way's time over ours, by rounds."""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as nn

STEPS, WARM = 6, 2
MODELS = {
    "default": dict(layers=4, width=256, heads=4, experts=16, top_k=2, expert_width=64, shared_width=192, sequence=256, batch=8),
    "large": dict(layers=6, width=512, heads=8, experts=32, top_k=4, expert_width=256, shared_width=512, sequence=512, batch=4),
}


# ---- PyTorch ----

def norm(x, gain):
    return nn.rms_norm(x, gain.shape, gain.to(x.dtype), 1e-5)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def glu(x, gate_up, down):
    g, u = (x @ gate_up).chunk(2, -1)
    return (nn.silu(g) * u) @ down


def experts_by_loop(x, ids, p, gate_up, down):
    """Rows sorted by expert, one product each."""
    order = torch.argsort(ids.reshape(-1), stable=True)
    count = torch.bincount(ids.reshape(-1), minlength=len(gate_up)).tolist()
    token = order // ids.shape[1]
    rows = torch.cat([glu(xe, gate_up[e], down[e]) for e, xe in enumerate(x[token].split(count))])
    return torch.zeros_like(x).index_add(0, token, rows * p.reshape(-1)[order, None].to(x.dtype))


def experts_grouped(x, ids, p, gate_up, down):
    """The same by grouped_mm."""
    order = torch.argsort(ids.reshape(-1), stable=True)
    ends = torch.cumsum(torch.bincount(ids.reshape(-1), minlength=len(gate_up)), 0).to(torch.int32)
    token = order // ids.shape[1]
    g, u = nn.grouped_mm(x[token], gate_up, offs=ends).chunk(2, -1)
    rows = nn.grouped_mm(nn.silu(g) * u, down, offs=ends)
    return torch.zeros_like(x).index_add(0, token, rows * p.reshape(-1)[order, None].to(x.dtype))


class Model(torch.nn.Module):
    """The default model of moe-train (docs/training.md)."""

    def __init__(self, m, experts, dtype):
        super().__init__()
        self.m, self.experts = m, experts
        C, F, S, E = m["width"], m["expert_width"], m["shared_width"], m["experts"]

        def matrix(*shape):
            return torch.nn.Parameter((torch.randn(shape) * shape[-2] ** -0.5).to(dtype))

        def gain():
            return torch.nn.Parameter(torch.ones(C, dtype=dtype))
        self.embed, self.head, self.last = matrix(256, C), matrix(C, 256), gain()
        self.layers = torch.nn.ModuleList(torch.nn.ParameterDict(dict(
            norm1=gain(), qkv=matrix(C, 3 * C), o=matrix(C, C), norm2=gain(), router=matrix(C, E), shared_gu=matrix(C, 2 * S),
            shared_d=matrix(S, C), gate_up=matrix(E, C, 2 * F), down=matrix(E, F, C))) for _ in range(m["layers"]))
        half = C // m["heads"] // 2
        angle = torch.arange(m["sequence"])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angle.sin().to(dtype), persistent=False)

    def layer(self, x, w):
        m, (B, S, C) = self.m, x.shape
        q, k, v = (norm(x, w["norm1"]) @ w["qkv"]).view(B, S, 3, m["heads"], -1).permute(2, 0, 3, 1, 4)
        cos, sin = self.cos.to(q.dtype), self.sin.to(q.dtype)
        o = nn.scaled_dot_product_attention(turn(q, cos, sin), turn(k, cos, sin), v, is_causal=True)
        x = x + o.transpose(1, 2).reshape(B, S, C) @ w["o"]
        y = norm(x, w["norm2"]).reshape(B * S, C)
        scores = torch.softmax((y @ w["router"]).float(), -1)
        p, ids = scores.topk(m["top_k"], -1)
        share = nn.one_hot(ids, m["experts"]).float().mean((0, 1))
        balance = m["experts"] * (share * scores.mean(0)).sum()
        z = glu(y, w["shared_gu"], w["shared_d"]) + self.experts(y, ids, p, w["gate_up"], w["down"])
        return x + z.view(B, S, C), balance

    def forward(self, ids, targets):
        x, total = nn.embedding(ids, self.embed), 0.0
        for w in self.layers:
            x, balance = self.layer(x, w)
            total = total + balance
        logits = (norm(x, self.last) @ self.head).float()
        return nn.cross_entropy(logits.view(-1, 256), targets.reshape(-1)) + 0.01 * total


class Way:
    """dtype: of weights and moments. autocast: products in bf16."""

    def __init__(self, name, m, experts, dtype, autocast, compiled):
        self.name, self.m, self.autocast = name, m, autocast
        torch.manual_seed(1)
        self.model = Model(m, experts, dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, fused=True)
        self.run = torch.compile(self.model) if compiled else self.model

    def step(self):
        ids = torch.randint(0, 256, (self.m["batch"], self.m["sequence"] + 1))
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begin

    def seconds(self):
        return statistics.median([self.step() for _ in range(WARM + STEPS)][WARM:])


def ways_of(m, pattern):
    for experts in (experts_by_loop, experts_grouped):
        for dtype, autocast in ((torch.float32, False), (torch.float32, True), (torch.bfloat16, False)):
            for compiled in (False, True):
                name = " ".join((experts.__name__[8:], "bf16 weights" if dtype == torch.bfloat16 else "autocast" if autocast else "f32",
                                 "compiled" if compiled else "eager")).replace("_", " ").strip()
                if not fnmatch.fnmatch(name, pattern):
                    continue
                try:
                    way = Way(name, m, experts, dtype, autocast, compiled)
                    way.step()
                    yield way
                except Exception as why:  # not every version has every way
                    print(f"  {name}: {str(why).strip().splitlines()[0][:100]}", flush=True)


# ---- moe-train ----

def write_text(folder):
    """Random letters, in files so that some are left for the validation."""
    for n in range(16):
        with open(os.path.join(folder, f"{n}.txt"), "wb") as f:
            f.write(bytes(97 + b % 26 for b in os.urandom(1 << 16)))


def ours(program, m, threads, data, parameters):
    """Seconds of a step; the model must have as many parameters as PyTorch's."""
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "log")
        options = [f"--{name.replace('_', '-')}={value}" for name, value in m.items()]
        subprocess.run([program, *options, f"--threads={threads}", f"--steps={WARM + STEPS}", "--sample=0", "--validation-batches=1",
                        "--data=" + data, "--log=" + log], check=True, stdout=subprocess.DEVNULL)
        with open(log, encoding="utf-8") as f:
            events = [json.loads(line) for line in f]
    counted = next(e["parameters"] for e in events if e["event"] == "model")
    if counted != parameters:
        raise SystemExit(f"step: moe-train has {counted} parameters, PyTorch's model {parameters}")
    return statistics.median([e["seconds"] for e in events if e["event"] == "step"][WARM:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("moe_train")
    parser.add_argument("--model", default="default", choices=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default="*", help="only those of PyTorch's ways whose names match: some compile for minutes")
    options = parser.parse_args()
    m = MODELS[options.model]
    torch.set_num_threads(options.threads)
    ways = list(ways_of(m, options.ways))
    if not ways:
        raise SystemExit(f"step: no way of PyTorch is called {options.ways}")
    best = sorted((way.seconds(), n) for n, way in enumerate(ways))[:3]  # the others stay behind
    ways = [ways[n] for _, n in best]
    parameters = sum(p.numel() for p in ways[0].model.parameters())
    with tempfile.TemporaryDirectory() as data:
        write_text(data)
        rounds = [[ours(options.moe_train, m, options.threads, data, parameters), *(way.seconds() for way in ways)]
                  for _ in range(options.rounds)]
    tokens = m["batch"] * m["sequence"]
    columns = list(zip(*rounds))
    peer = min(range(1, len(columns)), key=lambda n: statistics.median(columns[n]))
    print(f"{options.model}, {options.threads} threads, PyTorch {torch.__version__}: a step of {tokens} tokens, ms (thousand tokens/s)")
    for name, times in zip(["moe-train", *(way.name for way in ways)], columns):
        t = statistics.median(times)
        print(f"  {name:32s} {1e3 * t:8.1f}  ({tokens / t / 1e3:.1f})   {1e3 * min(times):.1f} .. {1e3 * max(times):.1f}")
    ratios = [row[peer] / row[0] for row in rounds]
    print(f"  ratio: {statistics.median(ratios):.2f}   {min(ratios):.2f} .. {max(ratios):.2f}")


if __name__ == "__main__":
    main()
