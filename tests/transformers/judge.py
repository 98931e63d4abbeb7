"""What transformers made of a model, and how near to it another program must come."""
import json

import numpy as np
from safetensors.numpy import load_file

LOSS = 1e-4          # of f32
GRADIENT = 1e-3      # of the largest element of a tensor's gradient, in f32
NOISE = 1e-6         # of the largest element of all gradients: a tensor below it has a gradient of rounding errors, or none
SPREAD = 0.01        # of the logits' spread, in bf16: the loss, and the logits of the median token. (Where two experts score
                     # alike, rounding may choose the other one, in any program: that token and what attends to it are far off.)


class Judge:
    def __init__(self, path, name, act):
        self.path, self.name, self.act, self.failed = path, f"{name} {act}", act, False
        with open(path + ".json", encoding="utf-8") as f:
            self.want = json.load(f)
        self.expected = load_file(path + ".logits.safetensors")["logits"].astype(np.float64)
        self.spread = self.expected.max() - self.expected.min()

    def say(self, what, wrong, limit):
        good = wrong <= limit
        self.failed |= not good
        print(f"{self.name}: {what} {wrong:.2g} of {limit:.2g}  {'ok' if good else 'WRONG'}")

    def loss(self, got):
        self.say("loss differs by", abs(got - self.want["loss"]), LOSS if self.act == "f32" else SPREAD * self.spread)

    def logits(self, got):
        d = np.sqrt(np.square(got.reshape(self.expected.shape) - self.expected).mean(-1))
        if self.act == "f32":
            self.say("logits differ by", d.max() if np.isfinite(d).all() else np.inf, 1e-2 * SPREAD * self.spread)
        else:
            median = np.median(d) if np.isfinite(d).all() else np.inf
            self.say("logits of the median token differ by", median, SPREAD * self.spread)

    def parts(self, got):
        """The other parts of a reference's loss. Drops of several layers may be given by those that drop only."""
        for name, values in got.items():
            want = [x for x in self.want[name] if name != "dropped" or x]
            wrong = max((abs(a - b) for a, b in zip(values, want)), default=0) if len(values) == len(want) else np.inf
            self.say(f"{name} of {len(want)} differ by", wrong, LOSS * 10 if self.act == "f32" else SPREAD * self.spread)

    def total(self, got):
        self.say("sum of the losses differs by", abs(got - self.want["total"]), LOSS if self.act == "f32" else SPREAD * self.spread)

    def gradients(self, got):
        """The worst tensor, by the largest element. Every gradient that transformers has must be there."""
        want = {n: g for n, g in load_file(self.path + ".gradients.safetensors").items() if not n.endswith("correction_bias")}
        least = NOISE * max(np.abs(g).max() for g in want.values())

        def wrong(name):
            if name not in got or got[name].shape != want[name].shape or not np.isfinite(got[name]).all():
                return np.inf
            return float(np.abs(got[name] - want[name]).max() / max(np.abs(want[name]).max(), least))

        worst = max(want, key=wrong)
        self.say(f"gradients differ ({worst}) by", wrong(worst), GRADIENT)

    def tokens(self, got):
        want = self.want["ids"]
        self.say("greedy tokens differ:", sum(a != b for a, b in zip(got, want)) + abs(len(got) - len(want)), 0)
