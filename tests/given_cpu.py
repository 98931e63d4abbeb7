#!/usr/bin/env python3
"""Prints machines/host.json without what it asks of the CPU that it is read on, so that a model of it is the same on every computer.

usage: given_cpu.py"""
import json
import os

HOST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "machines", "host.json")


def without(figures, *keys):
    """The figures without what these keys say."""
    if not isinstance(figures, dict):
        return figures
    return {name: without(figure, *keys) for name, figure in figures.items() if name not in keys}


def description():
    with open(HOST, encoding="utf-8") as f:
        return json.dumps(without(json.load(f), "probed", "on"))


if __name__ == "__main__":
    print(description())
