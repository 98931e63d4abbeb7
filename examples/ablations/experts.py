#!/usr/bin/env python3
"""64 and 256 experts at equal active operations for each token, with and without a shared expert. experts.md has what was seen."""
from ablation import COLUMNS, Variant, main

# A router of 256 experts is three times 64 x width more than one of 64: the experts of the latter are wider by as much, so that both have
# as many active parameters.
WIDTH = {64: 40, 256: 32}
CHOSEN = 8


def variant(experts, shared):
    """Without the shared expert a token has one routed expert more."""
    config = {"n_routed_experts": experts, "moe_intermediate_size": WIDTH[experts], "n_shared_experts": shared,
              "num_experts_per_tok": CHOSEN + 1 - shared}
    return Variant(f"{experts} experts, {'one' if shared else 'none'} shared", config)


def variants(_):
    return [variant(experts, shared) for experts in WIDTH for shared in (1, 0)]


if __name__ == "__main__":
    main("experts", "Number of experts and the shared one, equal active parameters", __doc__, variants, COLUMNS)
