"""What transformers made of a model, and how near to it another program must come."""
import json

import numpy as np
from safetensors.numpy import load_file

LOSS = 1e-4          # of f32
GRADIENT = 1e-3      # of the largest element of a tensor's gradient, in f32
SPREAD = 0.01        # of the logits' spread, in bf16: the loss, and the logits of the median token. (Where two experts score alike,
                     # rounding may choose the other one: such a token, and what attends to it, may be far off in any program.)


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
            self.say("logits of the median token differ by", np.median(d) if np.isfinite(d).all() else np.inf, SPREAD * self.spread)

    def parts(self, got):
        """The other parts of a reference's loss. Drops of several layers may be given by those that drop only."""
        for name, values in got.items():
            want = [x for x in self.want[name] if name != "dropped" or x]
            wrong = max((abs(a - b) for a, b in zip(values, want)), default=0) if len(values) == len(want) else np.inf
            self.say(f"{name} of {len(want)} differ by", wrong, LOSS * 10 if self.act == "f32" else SPREAD * self.spread)

    def gradients(self, got):
        """The worst tensor, by the largest element. Every gradient that transformers has must be there."""
        worst, where = -1.0, ""
        for name, want in load_file(self.path + ".gradients.safetensors").items():
            if name.endswith("e_score_correction_bias"):
                continue     # a buffer
            if name not in got or got[name].shape != want.shape:
                wrong = np.inf
            else:
                wrong = np.abs(got[name] - want).max() / max(np.abs(want).max(), 1e-30) if np.isfinite(got[name]).all() else np.inf
            if want.any() or wrong > 0:
                worst, where = max((worst, where), (float(wrong), name))
        self.say(f"gradients differ ({where}) by", worst, GRADIENT)

    def tokens(self, got):
        self.say("greedy tokens differ:", sum(a != b for a, b in zip(got, self.want["ids"])) + abs(len(got) - len(self.want["ids"])), 0)
