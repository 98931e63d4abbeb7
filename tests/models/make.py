#!/usr/bin/env python3
"""Makes the checkpoints of this folder: tiny models with random weights, as the `transformers` package saves them. The tests
read them as files from elsewhere; nobody else needs the package.

usage: tests/models/make.py [FOLDER]    (default: this folder; needs torch and transformers)"""
import os
import sys

import torch
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

SIZES = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, num_experts_per_tok=2,
             max_position_embeddings=32, bos_token_id=None, eos_token_id=None)
LATENT = dict(SIZES, intermediate_size=6, moe_intermediate_size=4, num_key_value_heads=2, n_shared_experts=1,
              n_routed_experts=4, kv_lora_rank=6, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=3, n_group=2,
              topk_group=1, first_k_dense_replace=1, num_nextn_predict_layers=0)
YARN = dict(type="yarn", factor=4, original_max_position_embeddings=8, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
QWEN = dict(SIZES, intermediate_size=6, moe_intermediate_size=4, num_key_value_heads=1, head_dim=6, num_experts=4,
            norm_topk_prob=True)


def models():
    yield "deepseek_v3", DeepseekV3ForCausalLM(DeepseekV3Config(**LATENT, q_lora_rank=5)).float()
    yield "deepseek_v3_plain_q", DeepseekV3ForCausalLM(
        DeepseekV3Config(**LATENT, q_lora_rank=None, rope_scaling=YARN)).bfloat16()
    yield "qwen3_moe", Qwen3MoeForCausalLM(Qwen3MoeConfig(**QWEN)).float()
    yield "qwen3_moe_tied", Qwen3MoeForCausalLM(Qwen3MoeConfig(**QWEN, tie_word_embeddings=True)).half()
    yield "mixtral", MixtralForCausalLM(
        MixtralConfig(**SIZES, intermediate_size=6, num_key_value_heads=1, num_local_experts=4)).bfloat16()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(1)
    for name, model in models():
        with torch.no_grad():
            for _, p in sorted(model.named_parameters()) + sorted(model.named_buffers()):
                if p.is_floating_point():
                    p.copy_(torch.randn(p.shape))  # no weight is like another, norms and biases included
        model.save_pretrained(os.path.join(folder, name), max_shard_size="3KB" if name == "qwen3_moe" else "1GB")
        os.remove(os.path.join(folder, name, "generation_config.json"))


if __name__ == "__main__":
    main()
