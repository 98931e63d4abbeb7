"""The models of the judge: small, with sizes that divide by little, and one variant of each module in at least one of them."""
import random

DEEPSEEK = dict(
    vocab_size=97, hidden_size=48, intermediate_size=56, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=3,
    num_key_value_heads=3, n_shared_experts=1, n_routed_experts=8, routed_scaling_factor=1.5, kv_lora_rank=18, q_lora_rank=None,
    qk_rope_head_dim=8, v_head_dim=10, qk_nope_head_dim=12, n_group=1, topk_group=1, num_experts_per_tok=2,
    first_k_dense_replace=1, norm_topk_prob=True, rope_interleave=True, max_position_embeddings=128, tie_word_embeddings=False,
    initializer_range=0.2, num_mtp_layers=0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=32, beta_slow=1)

# name: (class, fields of its config)
MODELS = {
    "plain": ("DeepseekV3", DEEPSEEK),
    "q_lora": ("DeepseekV3", {**DEEPSEEK, "q_lora_rank": 22, "n_shared_experts": 2, "rope_interleave": False,
                              "rms_norm_eps": 0.1}),     # latents have an epsilon of their own
    "groups": ("DeepseekV3", {**DEEPSEEK, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3, "norm_topk_prob": False,
                              "first_k_dense_replace": 0, "q_lora_rank": 22}),
    "yarn": ("DeepseekV3", {**DEEPSEEK, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
                            "tie_word_embeddings": True, "first_k_dense_replace": 2, "n_group": 4, "topk_group": 2}),
    "mscale": ("DeepseekV3", {**DEEPSEEK, "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3},
                              "rope_interleave": False, "first_k_dense_replace": 0, "norm_topk_prob": False,
                              "n_shared_experts": 2, "tie_word_embeddings": True}),
    "linear": ("DeepseekV3", {**DEEPSEEK, "rope_parameters": dict(rope_type="linear", rope_theta=500.0, factor=2.0),
                              "num_experts_per_tok": 8, "num_hidden_layers": 2}),
    "dense": ("DeepseekV3", {**DEEPSEEK, "first_k_dense_replace": 3, "q_lora_rank": 22}),
    "qwen3": ("Qwen3Moe", dict(
        vocab_size=97, hidden_size=48, moe_intermediate_size=20, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, head_dim=10, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True, initializer_range=0.2,
        max_position_embeddings=128, tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "mixtral": ("Mixtral", dict(
        vocab_size=97, hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, head_dim=12, num_local_experts=5, num_experts_per_tok=2, initializer_range=0.2,
        max_position_embeddings=128, sliding_window=None, rope_parameters=dict(rope_type="default", rope_theta=1e4))),
}

# Models of reference.py: config.json as it is written.
PANGU = dict(
    model_type="pangu_ultra_moe", architectures=["PanguUltraMoEForCausalLM"], vocab_size=97, hidden_size=48, intermediate_size=56,
    moe_intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, num_dense_layers=1,
    num_mtp_layers=0, attention_kv_lora_dim=18, attention_q_lora_dim=22, attention_qk_dim=12, attention_qk_rope_dim=8,
    attention_v_dim=10, num_routed_experts=8, num_shared_experts=1, num_experts_per_tok=2, norm_topk_prob=True,
    routed_scaling_factor=2.5, rms_norm_eps=1e-5, rope_theta=25600000.0, rope_interleave=True, max_position_embeddings=128,
    hidden_act="silu", tie_word_embeddings=False, sandwich_norm=True, router_enable_expert_bias=False)
LOSSES = dict(router_aux_loss_coef=0.1, router_z_loss_coef=0.02)
REFERENCES = {
    "sandwich": PANGU,
    "routed_only": {**PANGU, "num_shared_experts": 0},
    "mtp": {**PANGU, "num_mtp_layers": 2, "router_enable_expert_bias": True},
    "softmax": {**PANGU, **LOSSES, "scoring_func": "softmax", "aux_loss_scope": "micro_batch"},
    "sequence": {**PANGU, **LOSSES, "aux_loss_scope": "sequence", "sandwich_norm": False, "num_mtp_layers": 1,
                 "tie_word_embeddings": True},
    "drop_probs": {**PANGU, **LOSSES, "capacity_factor": 0.9, "drop_policy": "probs", "num_dense_layers": 0},
    "drop_position": {**PANGU, **LOSSES, "capacity_factor": 0.7, "drop_policy": "position", "scoring_func": "softmax",
                      "sandwich_norm": False},
}
PROMPT, NEW = 7, 24


def tokens_of(name):
    """Sequences and positions that a model is given."""
    return random.Random(name).choice(((2, 33), (3, 70), (1, 130), (5, 2))) if name.startswith("random") else (3, 33)


def random_model(name):
    """A DeepSeek-V3 with sizes from 1 on and any of the variants; `randomN` is the same on each machine."""
    r = random.Random(name)
    groups = r.choice((1, 1, 2, 4))
    experts = groups * r.choice((2, 3, 5, 8)) if groups > 1 else r.choice((2, 5, 16, 33))
    layers, limit, heads = r.randint(1, 3), r.randint(1, groups), r.choice((1, 2, 5))
    yarn = {**YARN, "factor": r.choice((1.5, 4.0, 40.0)), "mscale": r.choice((1.0, 0.5)), "mscale_all_dim": r.choice((1.0, 0.8))}
    rope = r.choice((None, None, dict(rope_type="default", rope_theta=25.6e6),
                     dict(rope_type="linear", rope_theta=300.0, factor=3.0), yarn))
    return "DeepseekV3", {
        **DEEPSEEK, "vocab_size": r.choice((3, 50, 97, 300)), "hidden_size": r.choice((8, 24, 65, 130)),
        "intermediate_size": r.choice((1, 17, 64, 100)), "moe_intermediate_size": r.choice((1, 7, 32, 40)),
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "n_shared_experts": r.choice((1, 2, 3)), "n_routed_experts": experts, "routed_scaling_factor": r.choice((1.0, 2.5)), "kv_lora_rank": r.choice((2, 9, 32, 70)),
        "q_lora_rank": r.choice((None, 5, 33)), "qk_rope_head_dim": r.choice((2, 4, 16, 34)),
        "v_head_dim": r.choice((1, 7, 32, 50)), "qk_nope_head_dim": r.choice((1, 5, 32, 64)), "n_group": groups, "topk_group": limit,
        "num_experts_per_tok": r.randint(1, min(limit * experts // groups, 10)), "first_k_dense_replace": r.randint(0, layers),
        "norm_topk_prob": r.random() < 0.5, "rope_interleave": r.random() < 0.5, "tie_word_embeddings": r.random() < 0.3,
        "rms_norm_eps": r.choice((1e-6, 1e-3)), **({"rope_parameters": rope} if rope else {})}
