"""Files of `moe-train --choices`, and how far from a tie choices are that differ."""
import dataclasses

import numpy as np


class Choices:
    """chosen: i32[steps, layers, tokens, K], scores: f32[steps, layers, tokens, E]; trainer/choices.h has the layout"""

    def __init__(self, path):
        head = np.fromfile(path, np.int64, 8)
        assert head[:1].tobytes() == b"MCHOICE1", path
        layers, tokens, chosen, experts = map(int, head[1:5])
        words = np.fromfile(path, np.int32, offset=64).reshape(-1, layers, tokens * (chosen + experts))
        self.chosen = words[:, :, :tokens * chosen].reshape(-1, layers, tokens, chosen)
        self.scores = np.ascontiguousarray(words[:, :, tokens * chosen:]).view(np.float32).reshape(-1, layers, tokens, experts)

    def choices(self):
        return self.chosen.size


@dataclasses.dataclass
class Difference:
    step: int  # from 1 on
    layer: int  # among those with experts
    token: int
    wanted: list
    chosen: list
    margin: float  # how far the scores are from those that would make the wanted choice

    def text(self):
        return (f"step {self.step}, layer {self.layer}, token {self.token}: {self.chosen} instead of {self.wanted}, "
                f"{self.margin:.1e} from a tie")


def two_best(scores):
    return np.sort(scores)[-2:].sum()


def margin_of(scores, chosen, groups, limit):
    """The scores' distance from a choice: of the best expert that it leaves out to the worst that it takes, among groups that it may take
    experts of, and likewise of these groups. At most 0: the scores make this choice."""
    scores, width = scores.astype(np.float64), len(scores) // groups
    of_group = [two_best(scores[g * width:(g + 1) * width]) if groups > 1 else 0.0 for g in range(groups)]
    taken = {e // width for e in chosen}
    opened = (sorted(taken, key=lambda g: -of_group[g]) + sorted(set(range(groups)) - taken, key=lambda g: -of_group[g]))[:limit]
    if not taken <= set(opened):
        return float("inf")
    shut = [of_group[g] for g in range(groups) if g not in opened]
    between = max(shut) - min(of_group[g] for g in opened) if shut else 0.0
    left = [scores[e] for g in opened for e in range(g * width, (g + 1) * width) if e not in chosen]
    inside = max(left) - min(scores[list(chosen)]) if left else 0.0
    return max(between, inside, 0.0)


def differences(wanted, other, scores, model):
    """Tokens whose experts are not the same, in the order of steps and layers; `scores`: those of one of the two, by which the choice of the
    other one is so far from a tie."""
    groups, limit = model.get("n_group", 1), model.get("topk_group", 1)
    different = (np.sort(wanted.chosen, -1) != np.sort(other.chosen, -1)).any(-1)
    for step, layer, token in np.argwhere(different):
        pair = [list(map(int, c.chosen[step, layer, token])) for c in (wanted, other)]
        margin = max(margin_of(scores.scores[step, layer, token], chosen, groups, limit) for chosen in pair)  # 0 for the one of these scores
        yield Difference(int(step) + 1, int(layer), int(token), *pair, margin)
