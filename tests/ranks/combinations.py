"""A random model on random axes: how it is drawn, run and compared with one rank.

One rank trains first and writes its choices of experts. The ranks then train with these choices: losses, norms and balance of all steps must
agree within LIMIT, and what they would have chosen may differ only where scores are within LIMIT of a tie. Twice, for the bits. Then they
choose freely: until the first choice that differs all must agree, and this one must be within LIMIT of a tie."""
import dataclasses
import filecmp
import json
import random

from choices import Choices, differences
from train_run import ROOT, mpirun, run, steps_of

LIMIT = 1e-5


@dataclasses.dataclass
class Case:
    ranks: int
    tp: int
    ep: int
    micro: int      # micro-batches of a rank
    parts: int      # of the one rank: those over which the same ranks' balance counts are one part
    batch: int
    sequence: int
    scope: str      # of the balance of the ranks; of the one rank its micro-batches are such groups
    model: dict

    def text(self):
        m = self.model
        kind = "MLA" if m.get("kv_lora_rank") else "GQA"
        words = [f"{self.ranks} ranks", f"tp {self.tp}", f"ep {self.ep}", f"dp {self.ranks // self.tp}", f"{self.micro} micro-batches", kind,
                 f"{m['num_hidden_layers']} layers ({m['first_k_dense_replace']} dense)", f"{m['num_experts_per_tok']} of {m['n_routed_experts']}",
                 f"shared {m['n_shared_experts']}", f"mtp {m['num_nextn_predict_layers']}", self.scope]
        return ", ".join(words + [k for k in ("tie_word_embeddings", "sandwich_norm", "router_enable_expert_bias", "capacity_factor") if m.get(k)])


@dataclasses.dataclass
class Result:
    wrong: list = dataclasses.field(default_factory=list)
    steps: int = 0           # that agree with free choices
    chosen: int = 0          # choices of tokens, with the other run's
    differ: int = 0          # of them, that scores would have made otherwise
    margin: float = 0        # the largest of these
    loss: float = 0          # the largest difference of a loss, relative, with the other run's choices
    free: str = "all steps"

    def text(self):
        return (f"losses within {self.loss:.1e}; {self.differ} of {self.chosen} choices would differ, by at most {self.margin:.1e}; "
                f"free: {self.free}")


# ---- drawing ----

def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def draw_attention(rng, tp):
    heads = tp * rng.choice([1, 2, 3])
    if rng.random() < 0.5:
        return {"num_attention_heads": heads, "kv_lora_rank": rng.choice([8, 12, 16]), "q_lora_rank": rng.choice([8, 12, 24] + [0] * (tp == 1)),
                "qk_nope_head_dim": rng.choice([4, 8, 10]), "qk_rope_head_dim": rng.choice([2, 4, 8]), "v_head_dim": rng.choice([4, 6, 8])}
    return {"num_attention_heads": heads, "num_key_value_heads": tp * rng.choice(divisors(heads // tp)), "head_dim": rng.choice([4, 6, 8]),
            "use_qk_norm": rng.random() < 0.5}


def draw_experts(rng, group):
    """group: ranks that share them."""
    experts = group * rng.choice([n for n in (1, 2, 3, 4, 6) if group * n >= 2])
    groups = rng.choice([n for n in divisors(experts) if experts // n >= 2] + [1])
    limit = rng.randint(1, groups)
    return {"n_routed_experts": experts, "n_group": groups, "topk_group": limit,
            "num_experts_per_tok": rng.randint(1, min(6, experts // groups * limit)), "moe_intermediate_size": rng.choice([4, 8, 12, 16]),
            "n_shared_experts": rng.choice([0, 1, 1, 2]), "scoring_func": rng.choice(["softmax", "sigmoid"]),
            "norm_topk_prob": rng.random() < 0.7, "routed_scaling_factor": rng.choice([1.0, 2.5]),
            "router_enable_expert_bias": rng.random() < 0.5, "router_aux_loss_coef": rng.choice([0.0, 0.01, 0.1]),
            "router_z_loss_coef": rng.choice([0.0, 0.01])}


def draw_model(rng, tp, group, positions):
    layers = rng.randint(1, 3)
    model = {"model_type": "moe", "vocab_size": 256, "hidden_size": rng.choice([16, 24, 32, 40]), "num_hidden_layers": layers,
             "max_position_embeddings": positions, "first_k_dense_replace": rng.randint(0, layers - 1), "intermediate_size": tp * rng.choice([8, 16, 20]),
             "sandwich_norm": rng.random() < 0.5, "tie_word_embeddings": rng.random() < 0.3, "num_nextn_predict_layers": rng.choice([0, 0, 1, 2]),
             "rope_interleave": rng.random() < 0.5, "initializer": rng.choice(["tiny", "fan_in"])}
    return {**model, **draw_attention(rng, tp), **draw_experts(rng, group)}


def draw(seed, most=8):
    rng = random.Random(f"ranks {seed}")
    ranks = rng.choice([n for n in (2, 2, 3, 4, 4, 6, 8) if n <= most])
    tp = rng.choice([1, 1] + divisors(ranks))
    dp = ranks // tp
    ep = rng.choice([1] + divisors(dp))
    micro, sequences = rng.randint(1, 3), rng.choice([1, 2, 3])
    sequence = tp * rng.randint(max(2, 6 // tp), max(3, 20 // tp))
    if sequences > 1 and sequences % tp:
        sequences = tp if tp <= 4 else 1
    scope = rng.choice(["sequence", "micro_batch", "ep_group", "dp_group"])
    model = draw_model(rng, tp, tp * ep, sequence + rng.randint(0, 8))
    if tp * ep == 1 and scope in ("sequence", "micro_batch") and rng.random() < 0.4:
        # Which rows are dropped by probability is another choice that may be a tie, and no file of choices has it.
        model.update(capacity_factor=rng.choice([0.75, 1.0, 1.5]), drop_policy="position")
    parts = micro * {"sequence": dp, "micro_batch": dp, "ep_group": dp // ep, "dp_group": 1}[scope]
    return Case(ranks, tp, ep, micro, parts, dp * micro * sequences, sequence, scope, model)


# ---- running ----

def options_of(case, steps, at, scope):
    with open(f"{at}/{scope}.json", "w", encoding="utf-8") as f:
        json.dump({**case.model, "aux_loss_scope": scope}, f)
    return ["--model", f"{at}/{scope}.json", "--data", f"{ROOT}/LICENSE", "--f32", "--threads", 1, "--steps", steps, "--warmup", 2,
            "--sequence", case.sequence, "--batch", case.batch, "--sample", 0, "--validation-batches", 1]


def run_one(train, case, steps, at):
    """Groups of ranks are the micro-batches of one rank."""
    scope = case.scope if case.scope == "sequence" else "micro_batch"
    run(train, *options_of(case, steps, at, scope), "--micro-batches", case.parts, "--log", f"{at}/one", "--choices", f"{at}/one.choices")


def run_ranks(train, case, steps, at, name, *more):
    mpirun(case.ranks, train, *options_of(case, steps, at, case.scope), "--micro-batches", case.micro, "--tp", case.tp, "--ep", case.ep,
           "--comm-timeout", 120, "--log", f"{at}/{name}", "--choices", f"{at}/{name}.choices", *more)


# ---- comparing ----

def apart(one, other):
    """The largest relative difference of a step's numbers. Behind the first step gradients are of weights that differ by rounding
    already, and a norm of activations close to 0 makes more of that: their norm counts a hundredth."""
    far = {n: abs(other[n] - one[n]) / max(1, abs(one[n])) for n in ("loss", "balance", "norm")}
    far["norm"] *= 1 if one["step"] == 1 else 0.01
    return max(far.values())


def compare_given(result, case, at):
    one, given = steps_of(f"{at}/one"), steps_of(f"{at}/given")
    for step, line in one.items():
        far = apart(line, given[step])
        result.loss = max(result.loss, far)
        if not far <= LIMIT:
            result.wrong.append(f"with the choices of one rank step {step} is {far:.1e} off: {given[step]} instead of {line}")
            break
    wanted, would = Choices(f"{at}/one.choices"), Choices(f"{at}/given.choices")
    result.chosen = wanted.choices()
    for d in differences(wanted, would, would, case.model):
        result.differ += 1
        result.margin = max(result.margin, d.margin)
        if not d.margin <= LIMIT and len(result.wrong) < 5:
            result.wrong.append(f"with the choices of one rank: {d.text()}")


def compare_free(result, case, at):
    one, free = steps_of(f"{at}/one"), steps_of(f"{at}/free")
    wanted, chosen = Choices(f"{at}/one.choices"), Choices(f"{at}/free.choices")
    first = next(differences(wanted, chosen, wanted, case.model), None)
    if first:
        result.free = f"{first.step - 1} steps, then {first.text()}"
        if not first.margin <= LIMIT:
            result.wrong.append(f"free choices: {first.text()}")
    for step, line in one.items():
        far = apart(line, free[step])
        if not far <= LIMIT and (not first or step < first.step or step == 1):
            result.wrong.append(f"free choices, step {step}: {far:.1e} off: {free[step]} instead of {line}")
            break


def compare_bits(result, at):
    logs = [[(e["loss"], e["norm"], e["balance"]) for e in steps_of(f"{at}/{name}").values()] for name in ("given", "again")]
    if logs[0] != logs[1] or not filecmp.cmp(f"{at}/given.choices", f"{at}/again.choices", shallow=False):
        result.wrong.append("two runs differ")


def try_case(train, case, steps, at):
    result = Result()
    try:
        run_one(train, case, steps, at)
        for name in ("given", "again"):
            run_ranks(train, case, steps, at, name, "--choices-from", f"{at}/one.choices")
        run_ranks(train, case, steps, at, "free")
    except SystemExit as ended:
        result.wrong.append(str(ended))
        return result
    compare_given(result, case, at)
    compare_free(result, case, at)
    compare_bits(result, at)
    return result
