#!/usr/bin/env python3
"""Experts of moec in PyTorch models: a block that is trained, and the experts of a model of the transformers package.

    pip install . torch transformers        (in a checkout of moec)
    python examples/torch_experts.py
"""
import torch

import moec

TEXT = """moe 1
dim T, K, E, H, F
group R : E rows T*K
kernel experts(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],
               in wi: bf16[E, 2, F, H], in wo: bf16[E, H, F], out y: bf16[T, H]) {
  xp[r, h] = x[rt.token(r), h]
  g[r, f]  = sum(h) xp[r, h] * wi[@r, 0, f, h]
  u[r, f]  = sum(h) xp[r, h] * wi[@r, 1, f, h]
  a[r, f]  = bf16(silu(g[r, f]) * u[r, f])
  o[r, h]  = sum(f) a[r, f] * wo[@r, h, f]
  y[t, h]  = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
derive (experts_fwd, experts_bwd) from experts wrt x, p, wi +=, wo +=
"""
m = moec.jit(TEXT, "experts.moe")


class Block(torch.nn.Module):
    """Router and experts: the gradients of the experts are those that moec derives."""

    def __init__(self, width, hidden, experts, choices):
        super().__init__()
        self.experts, self.choices = experts, choices
        self.router = torch.nn.Linear(width, experts, bias=False)
        self.wi = torch.nn.Parameter(torch.randn(experts, 2, hidden, width) * width ** -0.5)
        self.wo = torch.nn.Parameter(torch.randn(experts, width, hidden) * hidden ** -0.5)

    def forward(self, x):
        p, ids = self.router(x).softmax(-1).topk(self.choices)
        x, wi, wo = (v.to(torch.bfloat16) for v in (x, self.wi, self.wo))
        return m.experts(x, moec.route(ids, self.experts), p, wi, wo).float()


def train(steps=60):
    """Learns to reverse the elements of its input; the losses of the first and the last step."""
    torch.manual_seed(1)
    block = Block(width=32, hidden=64, experts=8, choices=2)
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        x = torch.randn(256, 32)
        loss = torch.nn.functional.mse_loss(block(x), x.flip(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def transformers_experts(self, hidden_states, top_k_index, top_k_weights):
    """What `experts_implementation="moec"` runs; `self` is the module with the weights."""
    wi = self.gate_up_proj.unflatten(1, (2, -1))   # [E, 2F, H]: gate above up
    return m.experts(hidden_states, moec.route(top_k_index, self.num_experts), top_k_weights.float(), wi, self.down_proj)


def compare_with_transformers():
    """Largest differences of logits and gradients between moec's experts and the package's own, in shares of the largest."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    ALL_EXPERTS_FUNCTIONS.register("moec", transformers_experts)
    torch.manual_seed(2)
    config = Qwen3MoeConfig(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                            head_dim=16, intermediate_size=96, moe_intermediate_size=48, num_experts=8, num_experts_per_tok=2)
    model = Qwen3MoeForCausalLM(config).to(torch.bfloat16)
    ids = torch.randint(0, 128, (2, 24))

    def run(implementation):
        model.set_experts_implementation(implementation)
        model.zero_grad()
        out = model(ids, labels=ids)
        out.loss.backward()
        return out.logits.detach().float(), {n: p.grad.clone().float() for n, p in model.named_parameters() if p.grad is not None}
    (logits, gradients), (want, theirs) = run("moec"), run("eager")
    assert gradients.keys() == theirs.keys()

    def share(a, b):
        return ((a - b).abs().max() / b.abs().max()).item()
    return share(logits, want), max(share(gradients[n], theirs[n]) for n in theirs)


def main():
    first, last = train()
    print(f"loss {first:.3f} -> {last:.3f}")
    try:
        import transformers
    except ImportError:
        print("the package transformers is not installed")
        return
    logits, gradients = compare_with_transformers()
    print(f"transformers {transformers.__version__}: largest difference {logits:.4f} of the logits, {gradients:.4f} of a gradient")
    assert last < 0.5 * first and logits < 0.05 and gradients < 0.1


if __name__ == "__main__":
    main()
