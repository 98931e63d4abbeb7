#!/usr/bin/env python3
"""Dropless routing against experts with a limited number of rows: what does not fit is dropped, by probability or by position. drop.md has
what was seen."""
from ablation import COLUMNS, Column, Variant, main


def limited(factor, policy, name):
    return Variant(f"capacity {factor}, {name}", {"capacity_factor": factor, "drop_policy": policy})


def variants(_):
    return [Variant("dropless", {}), limited(1.25, "probs", "by probability"), limited(1.25, "position", "by position"),
            limited(1.0, "probs", "by probability"), limited(1.0, "position", "by position")]


if __name__ == "__main__":
    main("drop", "Dropless routing against a limit of rows", __doc__, variants,
         [*COLUMNS[2:4], Column("dropped", "dropped", "{:.1%}"), *COLUMNS[4:]])
