"""In torch, what transformers lacks, from the formulas of the reports: sandwich norm, softmax scores, multi-token prediction in
training, the balance loss over its scopes, the z-loss, experts with a capacity. With none of these it is DeepSeek-V3, which
make.py holds against transformers.

A layer of the sandwich norm: x1 = x + PostAttn(Attn(Input(x))), x2 = x1 + PostMlp(Mlp(PreMlp(x1))). The loss: the cross entropy;
plus mtp_loss_coef * the mean of those of the modules of multi-token prediction; plus, of each layer with experts,
router_aux_loss_coef * its balance loss and router_z_loss_coef * its z-loss."""
import math

import torch
from torch.nn.functional import cross_entropy, embedding, silu

# The released names of openPangu's fields, and DeepSeek's, which are used here.
NAMES = {"num_dense_layers": "first_k_dense_replace", "num_mtp_layers": "num_nextn_predict_layers",
         "attention_kv_lora_dim": "kv_lora_rank", "attention_q_lora_dim": "q_lora_rank", "attention_qk_dim": "qk_nope_head_dim",
         "attention_qk_rope_dim": "qk_rope_head_dim", "attention_v_dim": "v_head_dim", "num_routed_experts": "n_routed_experts",
         "num_shared_experts": "n_shared_experts"}
USUAL = {"first_k_dense_replace": 0, "num_nextn_predict_layers": 0, "q_lora_rank": None, "n_group": 1, "topk_group": 1,
         "scoring_func": "sigmoid", "sandwich_norm": False, "rope_interleave": True, "norm_topk_prob": True,
         "tie_word_embeddings": False, "router_aux_loss_coef": 0.0, "aux_loss_scope": "micro_batch", "router_z_loss_coef": 0.0,
         "mtp_loss_coef": 0.3, "capacity_factor": 0.0, "drop_policy": "probs"}


def fields(config):
    c = {**USUAL, **{NAMES.get(k, k): v for k, v in config.items()}}
    c["latent_eps"] = 1e-6 if c["model_type"] == "deepseek_v3" else c["rms_norm_eps"]
    return c


def layer_norms(c):
    return ["input_layernorm", "post_attention_layernorm"] + ["pre_mlp_layernorm", "post_mlp_layernorm"] * c["sandwich_norm"]


def swiglu_shapes(prefix, hidden, width):
    return {prefix + "gate_proj": (width, hidden), prefix + "up_proj": (width, hidden), prefix + "down_proj": (hidden, width)}


def layer_shapes(c, i):
    """Of layer i; those behind the last are modules of multi-token prediction."""
    H, N, rope, J = c["hidden_size"], c["num_attention_heads"], c["qk_rope_head_dim"], c["kv_lora_rank"]
    Q, I = N * (c["qk_nope_head_dim"] + rope), c["q_lora_rank"]
    s = {n: (H,) for n in layer_norms(c)}
    s |= {"self_attn.q_a_proj": (I, H), "self_attn.q_a_layernorm": (I,), "self_attn.q_b_proj": (Q, I)} if I else \
        {"self_attn.q_proj": (Q, H)}
    s |= {"self_attn.kv_a_proj_with_mqa": (J + rope, H), "self_attn.kv_a_layernorm": (J,),
          "self_attn.kv_b_proj": (N * (c["qk_nope_head_dim"] + c["v_head_dim"]), J), "self_attn.o_proj": (H, N * c["v_head_dim"])}
    if i < c["first_k_dense_replace"]:
        s |= swiglu_shapes("mlp.", H, c["intermediate_size"])
    else:
        s["mlp.gate"] = (c["n_routed_experts"], H)
        if c["n_shared_experts"]:
            s |= swiglu_shapes("mlp.shared_experts.", H, c["n_shared_experts"] * c["moe_intermediate_size"])
        for e in range(c["n_routed_experts"]):
            s |= swiglu_shapes(f"mlp.experts.{e}.", H, c["moe_intermediate_size"])
    if i >= c["num_hidden_layers"]:
        s |= {"enorm": (H,), "hnorm": (H,), "eh_proj": (H, 2 * H), "shared_head.norm": (H,)}
    return {f"model.layers.{i}.{n}.weight": shape for n, shape in s.items()}


def random_weights(c):
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], c["hidden_size"]), "model.norm.weight": (c["hidden_size"],)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], c["hidden_size"])
    for i in range(c["num_hidden_layers"] + c["num_nextn_predict_layers"]):
        shapes |= layer_shapes(c, i)
    w = {n: 0.2 * torch.randn(s) if len(s) > 1 else 1 + 0.3 * torch.randn(s) for n, s in shapes.items()}
    for i in range(c["first_k_dense_replace"], c["num_hidden_layers"] + c["num_nextn_predict_layers"]):
        if c.get("router_enable_expert_bias"):
            w[f"model.layers.{i}.mlp.gate.e_score_correction_bias"] = 0.2 * torch.randn(c["n_routed_experts"])
    return {n: x.bfloat16().float().requires_grad_("bias" not in n) for n, x in w.items()}


def rms(x, gain, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain


def balance_loss(scores, ids, scopes, experts):
    """Frequencies of the choices times mean scores; `scopes`: tokens are cut into so many. 1 when even."""
    T, K = ids.shape
    p = (scores / (scores.sum(-1, keepdim=True) + 1e-20)).view(scopes, -1, experts).mean(1)
    count = torch.nn.functional.one_hot(ids, experts).view(scopes, -1, experts).sum(1)
    f = count * (experts * scopes / (K * T))
    return (f * p).sum(-1).mean()


def keep(ids, p, experts, capacity, policy):
    """Which choices stay when an expert takes `capacity` rows: its most probable, or its first."""
    kept = torch.zeros_like(ids, dtype=torch.bool)
    for e in range(experts):
        t, k = torch.nonzero(ids == e, as_tuple=True)
        order = torch.argsort(p[t, k], descending=True, stable=True) if policy == "probs" else torch.arange(len(t))
        kept[t[order[:capacity]], k[order[:capacity]]] = True
    return kept


class Reference:
    def __init__(self, config, weights):
        self.c, self.w = fields(config), weights
        self.balance, self.z, self.dropped = [], [], []

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def norm(self, x, name, eps=None):
        return rms(x, self.w[name + ".weight"], self.c["rms_norm_eps"] if eps is None else eps)

    def turn(self, x):
        """Rotary positions of [B, heads, S, rope]."""
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[2])[:, None] * self.c["rope_theta"] ** (-torch.arange(half) / half)
        a, b = (x[..., 0::2], x[..., 1::2]) if self.c["rope_interleave"] else x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def attention(self, a, x):
        c, (B, S, _) = self.c, x.shape
        nope, v_dim, N, eps = c["qk_nope_head_dim"], c["v_head_dim"], c["num_attention_heads"], c["latent_eps"]
        q = self.linear(self.norm(self.linear(x, a + "q_a_proj"), a + "q_a_layernorm", eps), a + "q_b_proj") \
            if c["q_lora_rank"] else self.linear(x, a + "q_proj")
        q = q.view(B, S, N, -1).transpose(1, 2)
        latent, key = self.linear(x, a + "kv_a_proj_with_mqa").split([c["kv_lora_rank"], c["qk_rope_head_dim"]], -1)
        kv = self.linear(self.norm(latent, a + "kv_a_layernorm", eps), a + "kv_b_proj")
        kv = kv.view(B, S, N, nope + v_dim).transpose(1, 2)
        q = torch.cat([q[..., :nope], self.turn(q[..., nope:])], -1)
        k = torch.cat([kv[..., :nope], self.turn(key[:, None]).expand(-1, N, -1, -1)], -1)
        s = (q @ k.transpose(2, 3)) / math.sqrt(q.shape[-1])
        s = s.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), -math.inf)
        return self.linear((s.softmax(-1) @ kv[..., nope:]).transpose(1, 2).reshape(B, S, -1), a + "o_proj")

    def swiglu(self, x, prefix):
        return self.linear(silu(self.linear(x, prefix + "gate_proj")) * self.linear(x, prefix + "up_proj"), prefix + "down_proj")

    def choose(self, scores, bias):
        c, E = self.c, self.c["n_routed_experts"]
        d = scores + bias
        if c["n_group"] > 1:
            best = d.view(-1, c["n_group"], E // c["n_group"]).topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
            closed = torch.ones(len(d), c["n_group"], dtype=torch.bool).scatter(1, best, False)
            d = d.masked_fill(closed.repeat_interleave(E // c["n_group"], 1), -math.inf)
        ids = d.topk(c["num_experts_per_tok"], -1).indices
        p = scores.gather(1, ids)
        return ids, (p / (p.sum(-1, keepdim=True) + 1e-20) if c["norm_topk_prob"] else p) * c["routed_scaling_factor"]

    def mixture(self, n, m):
        """n: [B, S, H]."""
        c, flat = self.c, n.flatten(0, 1)
        E, K, T = c["n_routed_experts"], c["num_experts_per_tok"], n.shape[0] * n.shape[1]
        logits = self.linear(flat, m + "gate")
        scores = logits.softmax(-1) if c["scoring_func"] == "softmax" else logits.sigmoid()
        ids, p = self.choose(scores, self.w.get(m + "gate.e_score_correction_bias", 0))
        self.balance.append(balance_loss(scores, ids, n.shape[0] if c["aux_loss_scope"] == "sequence" else 1, E))
        self.z.append(logits.logsumexp(-1).square().mean())
        kept = torch.ones_like(ids, dtype=torch.bool)
        if c["capacity_factor"]:
            kept = keep(ids, p.detach(), E, math.ceil(T * K / E * c["capacity_factor"]), c["drop_policy"])
        self.dropped.append(1 - kept.float().mean().item())
        y = self.swiglu(flat, m + "shared_experts.") if c["n_shared_experts"] else torch.zeros_like(flat)
        for e in range(E):
            t, k = torch.nonzero((ids == e) & kept, as_tuple=True)
            y = y.index_add(0, t, p[t, k, None] * self.swiglu(flat[t], f"{m}experts.{e}."))
        return y.view(n.shape)

    def layer(self, i, x):
        layer = f"model.layers.{i}."
        norms = [layer + n for n in layer_norms(self.c)]
        branch = self.attention(layer + "self_attn.", self.norm(x, norms[0]))
        x = x + (self.norm(branch, norms[1]) if self.c["sandwich_norm"] else branch)
        n = self.norm(x, norms[2] if self.c["sandwich_norm"] else norms[1])
        branch = self.swiglu(n, layer + "mlp.") if i < self.c["first_k_dense_replace"] else self.mixture(n, layer + "mlp.")
        return x + (self.norm(branch, norms[3]) if self.c["sandwich_norm"] else branch)

    def embed(self, ids):
        return embedding(ids.long(), self.w["model.embed_tokens.weight"])

    def logits(self, n):
        return n @ self.w["model.embed_tokens.weight" if self.c["tie_word_embeddings"] else "lm_head.weight"].T

    def hidden(self, ids):
        """[B, S, H], behind the last norm."""
        x = self.embed(ids)
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, x)
        return self.norm(x, "model.norm")

    def predict(self, ids, n):
        """Losses of multi-token prediction: module d sees of token i + d + 1 the embedding, of token i the state, and predicts
        token i + d + 2; where the text has no such token there is no loss, and any embedding will do: the first one's."""
        S = ids.shape[1] - 1
        for d in range(self.c["num_nextn_predict_layers"]):
            layer = f"model.layers.{self.c['num_hidden_layers'] + d}."
            shifted = torch.nn.functional.pad(ids[:, d + 1:], (0, d))
            both = torch.cat([self.norm(self.embed(shifted), layer + "enorm"), self.norm(n, layer + "hnorm")], -1)
            x = self.layer(self.c["num_hidden_layers"] + d, self.linear(both, layer + "eh_proj"))
            n = self.norm(x, layer + "shared_head.norm")
            yield cross_entropy(self.logits(n[:, :S - d - 1]).flatten(0, 1), ids[:, d + 2:].flatten().long())

    def losses(self, ids):
        """Everything of ids [B, S + 1]: the parts of the loss, the loss, and the logits."""
        n = self.hidden(ids[:, :-1])
        logits = self.logits(n)
        loss = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().long())
        mtp = list(self.predict(ids, n))
        c = self.c
        total = loss + c["router_aux_loss_coef"] * sum(self.balance) + c["router_z_loss_coef"] * sum(self.z)
        if mtp:
            total = total + c["mtp_loss_coef"] * sum(mtp) / len(mtp)
        return {"loss": loss, "mtp": mtp, "balance": self.balance, "z": self.z, "dropped": self.dropped, "total": total}, logits
