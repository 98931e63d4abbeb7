#!/usr/bin/env python3
"""The scope of the balance loss: no loss, a sequence, a micro-batch, a group of expert parallelism, the whole batch. balance.md has what
was seen."""
from ablation import COLUMNS, Variant, main

# On one rank, the members of a group are parts of a micro-batch: counts of experts and mean scores over a group of ranks are those over the
# micro-batch of all their sequences.
RANK = 2   # sequences that a rank has at a time
GROUP = 4  # ranks of a group of expert parallelism


def variants(o):
    def scope(name, sequences, coefficient=0.01):
        return Variant(name, {"router_aux_loss_coef": coefficient, "aux_loss_scope": "micro_batch"}, o.batch // sequences)

    return [scope("no loss", o.batch, 0), Variant("sequence", {"aux_loss_scope": "sequence"}), scope("micro-batch", RANK),
            scope("expert-parallel group", RANK * GROUP), scope("whole batch", o.batch)]


if __name__ == "__main__":
    main("balance", "Scope of the balance loss", __doc__, variants, COLUMNS[2:], maps=("no loss", "whole batch"))
