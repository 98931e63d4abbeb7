"""The kernels of model/*.moe, put together by hand to the models that make.py wrote, against what it expects: losses, gradients,
logits, and greedy tokens with a cache.   usage: tape.py FOLDER [--bf16] [MODEL...]

No recipe and no recorder is involved: a tape in Python calls each kernel and then, in reverse, its derived backward. (Not called
kernels.py: transformers imports a package of that name.)"""
import json
import math
import os
import sys

import numpy as np
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from model_kernels import Module  # noqa: E402
from judge import Judge           # noqa: E402
from models import MODELS, NEW, REFERENCES  # noqa: E402
from reference import fields, layer_norms  # noqa: E402

# Kernels that add a branch to the residual stream x: its gradient is that of y, and no equation is derived for it.
RESIDUAL = {"project", "dense", "experts", "routed", "routed_padded", "sandwich"}
MODULES = ("embed", "rope", "attention", "gqa", "mla", "norm", "dense", "router", "experts", "head", "mtp")


class Tensor:
    def __init__(self, value):
        self.value, self.grad = value, None

    def add(self, grad):
        grad = np.asarray(grad).reshape(np.shape(self.value))
        self.grad = grad if self.grad is None else self.grad + grad


class Tape:
    def __init__(self, act):
        self.module = {name: m for file in MODULES for m in [Module(file, act)] for name in m.kernels}
        self.calls, self.recording = [], True

    def call(self, name, sizes, /, **given):
        """Tensors and numbers in, the outputs out: one, or several in the order of the parameters."""
        m = self.module[name]
        values = {n: v.value if isinstance(v, Tensor) else v for n, v in given.items()}
        derived = self.recording and name + "_fwd" in m.kernels
        got = m.call(name + "_fwd" if derived else name, sizes, values)
        outputs = {p["name"]: Tensor(got[p["name"]]) for p in m.kernels[name].params if p["role"] != "in"}
        if derived:
            self.calls.append((m, name, sizes, given, {**values, **got}, outputs))
        return list(outputs.values())[0] if len(outputs) == 1 else list(outputs.values())

    def backward(self, losses):
        """Of a sum of losses, [(factor, loss)]."""
        for factor, loss in losses:
            loss.grad = np.float64(factor)
        for m, name, sizes, given, values, outputs in reversed(self.calls):
            d = {"d_" + o: np.zeros(np.shape(t.value)) if t.grad is None else t.grad for o, t in outputs.items()
                 if isinstance(t.value, (np.ndarray, np.float64)) and t.value.dtype == np.float64}
            got = m.call(name + "_bwd", sizes, {**values, **d})
            for x, t in given.items():
                if isinstance(t, Tensor) and "d_" + x in got:
                    t.add(got["d_" + x])
            if name in RESIDUAL:
                given["x"].add(outputs["y"].grad)


class Model:
    def __init__(self, path, act):
        with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
            self.c = fields(json.load(f))
        self.weights = {}
        self.files = load_file(os.path.join(path, "model.safetensors"))
        self.tape = Tape(act)
        self.latent = self.c.get("kv_lora_rank") is not None
        self.parts = {"mtp": [], "balance": [], "z": [], "dropped": []}
        self.experts = next((self.c[n] for n in ("n_routed_experts", "num_experts", "num_local_experts") if n in self.c), 0)
        self.rope_dim = self.c["qk_rope_head_dim"] if self.latent else self.c["head_dim"]

    def weight(self, name, turned=True):
        """A weight of the file; matrices as [in, out]."""
        if name not in self.weights:
            w = self.files[name].astype(np.float64)
            self.weights[name] = Tensor(np.ascontiguousarray(w.T) if turned and w.ndim == 2 else w)
        return self.weights[name]

    def stacked(self, layer, part):
        """One matrix of all experts. The gradient is cut again by `gradients`."""
        names = [f"{layer}experts.{e}.{part}.weight" for e in range(self.experts)]
        key = f"{layer}experts.*.{part}.weight"
        if key not in self.weights:
            self.weights[key] = Tensor(np.stack([self.files[n].astype(np.float64).T for n in names]))
        return self.weights[key]

    def gradients(self):
        for key, t in self.weights.items():
            g = np.zeros(np.shape(t.value)) if t.grad is None else t.grad
            if "*" in key:
                for e in range(self.experts):
                    yield key.replace("*", str(e)), g[e].T
            else:
                yield key, g.T if g.ndim == 2 and "embed" not in key else g

    # ---- positions ----

    def scaling(self):
        """Inputs of rotary_table, and the factor of the scores."""
        P = self.rope_dim // 2
        r = self.c.get("rope_parameters") or {"rope_type": "default", "rope_theta": self.c["rope_theta"]}
        out, scores = dict(base=r["rope_theta"], factor=r.get("factor", 1.0), low=-2.0, high=-1.0, size=1.0), 1.0
        if r["rope_type"] == "yarn":
            def pair(turns):
                return P * math.log(r["original_max_position_embeddings"] / (turns * 2 * math.pi)) / math.log(r["rope_theta"])

            def mscale(m):
                return 0.1 * m * math.log(r["factor"]) + 1 if r["factor"] > 1 else 1.0
            out["low"], out["high"] = max(math.floor(pair(r["beta_fast"])), 0), min(math.ceil(pair(r["beta_slow"])), 2 * P - 1)
            out["size"] = mscale(r["mscale"]) / mscale(r["mscale_all_dim"])
            scores = mscale(r["mscale_all_dim"]) ** 2
        return out, scores

    def tables(self, S, first):
        n = dict(S=S, O=first, P=self.rope_dim // 2, Q=self.c.get("qk_nope_head_dim"), SPAN=self.span())
        kernel, names = ("rotary_part_table", ("c", "behind", "before")) if self.latent else ("rotary_table", ("c", "s"))
        return dict(zip(names, (t.value for t in self.tape.call(kernel, n, **self.scaling()[0]))))

    def span(self):
        return 1 if self.c["rope_interleave"] else self.rope_dim // 2

    # ---- layers ----

    def latent_attention(self, layer, x, B, S, tables, cache):
        c, a = self.c, layer + "self_attn."
        N, Q, P, U, J = c["num_attention_heads"], c["qk_nope_head_dim"], self.rope_dim // 2, c["v_head_dim"], c["kv_lora_rank"]
        n = dict(B=B, S=S, T=B * S, H=c["hidden_size"], N=N, Q=Q, P=P, U=U, J=J, SPAN=self.span(),
                 A=N * (Q + 2 * P), W=N * (Q + U), D=Q + 2 * P)
        rank, call = c.get("q_lora_rank"), self.tape.call
        n["I"] = rank or n["A"]
        wq = self.weight(a + ("q_a_proj.weight" if rank else "q_proj.weight"))
        q, ckv = call("mla_down", n, x=x, gain=self.weight(layer + "input_layernorm.weight"), eps=c["rms_norm_eps"], wq=wq,
                      wkv=self.weight(a + "kv_a_proj_with_mqa.weight"))
        if rank:
            q = call("mla_queries", n, cq=q, gain=self.weight(a + "q_a_layernorm.weight"), eps=c["latent_eps"],
                     w=self.weight(a + "q_b_proj.weight"))
        q = call("rotary_part", n, x=q, **tables)
        latent = dict(gain=self.weight(a + "kv_a_layernorm.weight"), eps=c["latent_eps"])
        wkv, scale = self.weight(a + "kv_b_proj.weight"), self.scaling()[1] / math.sqrt(Q + 2 * P)
        if cache is not None:
            kept = call("mla_latent", n, ckv=ckv, **latent, **tables)
            n.update(L=cache["length"], O=cache["first"])
            seen = self.cached(cache, layer, n, kept, J + 2 * P)
            return call("mla_cached", n, q=q, cache=seen, w=wkv, scale=scale), N * U
        kv = call("mla_keys_values", n, ckv=ckv, w=wkv, **latent)
        k, v = call("mla_expand", n, kv=kv, ckv=ckv, **tables)
        return call("attention", {**n, "L": S, "O": 0}, q=q, k=k, v=v, scale=scale), N * U

    def cached(self, cache, layer, n, new, width):
        old = cache.setdefault(layer, Tensor(np.zeros((n["B"], n["L"], width))))
        cache[layer] = self.tape.call("cache_write", {**n, "W": width}, x=new, cache=old)
        return cache[layer]

    def grouped_attention(self, layer, x, B, S, tables, cache):
        c, a, call = self.c, layer + "self_attn.", self.tape.call
        N, M, D = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        n = dict(B=B, S=S, T=B * S, H=c["hidden_size"], N=N, M=M, X=N // M, D=D, U=D, P=D // 2, A=N * D, W=M * D)
        q, k, v = call("qkv", n, x=x, gain=self.weight(layer + "input_layernorm.weight"), eps=c["rms_norm_eps"],
                       **{"w" + p: self.weight(f"{a}{p}_proj.weight") for p in "qkv"})
        if a + "q_norm.weight" in self.files:
            q = call("head_norm", n, x=q, gain=self.weight(a + "q_norm.weight"), eps=c["rms_norm_eps"])
            k = call("head_norm", {**n, "N": M}, x=k, gain=self.weight(a + "k_norm.weight"), eps=c["rms_norm_eps"])
        q, k = call("rotary", n, x=q, **tables), call("rotary", {**n, "N": M}, x=k, **tables)
        if cache is not None:
            n.update(L=cache["length"], O=cache["first"])
            k, v = (self.cached(cache, layer + which, n, new, M * D) for which, new in (("k", k), ("v", v)))
            return call("attention_cached", n, q=q, k=k, v=v, scale=1 / math.sqrt(D)), N * D
        if M < N:
            k, v = call("repeat_heads", n, x=k), call("repeat_heads", n, x=v)
        return call("attention", {**n, "L": S, "O": 0}, q=q, k=k, v=v, scale=1 / math.sqrt(D)), N * D

    def swiglu(self, prefix, names=("wg", "wu", "wd")):
        return {n: self.weight(f"{prefix}{part}_proj.weight") for n, part in zip(names, ("gate", "up", "down"))}

    def dense(self, layer, gain, x, T):
        n, call = dict(T=T, H=self.c["hidden_size"], G=self.c["intermediate_size"]), self.tape.call
        normed = call("norm", n, x=x, gain=gain, eps=self.c["rms_norm_eps"])
        return self.branch("dense", n, x, layer, "post_mlp_layernorm", n=normed, **self.swiglu(layer + "mlp."))

    def branch(self, kernel, sizes, x, layer, norm, /, **given):
        """A branch and its sum with x: in one kernel, or with a norm between."""
        if not self.c["sandwich_norm"]:
            return self.tape.call(kernel, sizes, x=x, **given)
        return self.tape.call("sandwich", sizes, x=x, branch=self.tape.call(kernel + "_branch", sizes, **given),
                              gain=self.weight(f"{layer}{norm}.weight"), eps=self.c["rms_norm_eps"])

    def mixture(self, layer, gain, x, T):
        c, call = self.c, self.tape.call
        m, parts = (layer + "block_sparse_moe.", ("w1", "w3", "w2")) if c["model_type"] == "mixtral" else \
                   (layer + "mlp.", ("gate_proj", "up_proj", "down_proj"))
        score = c["scoring_func"] if self.latent else "softmax"
        n = dict(T=T, H=c["hidden_size"], E=self.experts, K=c["num_experts_per_tok"], X=c["n_group"], Z=c["topk_group"],
                 F=c.get("moe_intermediate_size", c["intermediate_size"]))
        n["Y"] = n["E"] // n["X"]
        normed, scores, z = call("scores_" + score, n, x=x, w=self.weight(m + "gate.weight"), gain=gain, eps=c["rms_norm_eps"])
        biased = m + "gate.e_score_correction_bias"
        bias = self.weight(biased).value if biased in self.files else np.zeros(n["E"])
        p, ids = call("choose_grouped" if n["X"] > 1 else "choose", n, c=scores, bias=bias, normalise=int(c["norm_topk_prob"]),
                      factor=c.get("routed_scaling_factor", 1.0))
        self.balance(n, scores, ids, z)
        given = dict(n=normed, p=p, **{w: self.stacked(m, part) for w, part in zip(("wg", "wu", "wd"), parts)})
        return self.experts_of(n, layer, m, x, ids, given)

    def balance(self, n, scores, ids, z):
        c, call = self.c, self.tape.call
        if not self.tape.recording:
            return
        B = self.sequences if c["aux_loss_scope"] == "sequence" else 1
        scope = {**n, "B": B, "S": n["T"] // B}
        count = call("count", scope, id=ids).value
        self.parts["balance"].append(call("balance", scope, c=scores, n=count, share=n["E"] / (n["K"] * scope["S"]), tokens=scope["S"]))
        self.parts["z"].append(z)

    def experts_of(self, n, layer, m, x, ids, given):
        c, call = self.c, self.tape.call
        shared = (lambda names: self.swiglu(m + "shared_experts.", names)) if c.get("n_shared_experts") else None
        n["G"] = n["F"] * c.get("n_shared_experts", 0)
        if c["capacity_factor"] and self.tape.recording:
            n["C"] = math.ceil(n["T"] * n["K"] / n["E"] * c["capacity_factor"])
            kept = call("drop_by_probability", n, id=ids, p=given["p"]) if c["drop_policy"] == "probs" else \
                call("drop_by_position", n, id=ids)
            self.parts["dropped"].append(call("load", n, id=kept, n=np.bincount(ids.value.reshape(-1), minlength=n["E"]))[0])
            if not c["sandwich_norm"]:     # padded rows drop the later ones by themselves
                y = call("routed_padded", n, x=x, rt=call("dispatch_padded", n, id=ids).value, **given)
                return call("dense", n, x=y, n=given["n"], **shared(("wg", "wu", "wd")))
            ids = kept
        rt = call("dispatch", {k: v for k, v in n.items() if k != "C"}, id=ids).value
        kernel, both = ("experts", shared(("vg", "vu", "vd"))) if shared else ("routed", {})
        return self.branch(kernel, n, x, layer, "post_mlp_layernorm", rt=rt, **given, **both)

    # ---- the model ----

    def layer(self, i, x, B, S, tables, cache):
        layer, T = f"model.layers.{i}.", B * S
        norms = [layer + n + ".weight" for n in layer_norms(self.c)]
        o, width = (self.latent_attention if self.latent else self.grouped_attention)(layer, x, B, S, tables, cache)
        n = dict(T=T, A=width, H=self.c["hidden_size"])
        x = self.branch("project", n, x, layer, "post_attention_layernorm", o=o, w=self.weight(layer + "self_attn.o_proj.weight"))
        gain = self.weight(norms[2] if self.c["sandwich_norm"] else norms[1])
        return (self.dense if i < self.c["first_k_dense_replace"] else self.mixture)(layer, gain, x, T)

    def embed(self, ids):
        return self.tape.call("embed", dict(T=ids.size, V=self.c["vocab_size"], H=self.c["hidden_size"]), id=ids.reshape(-1),
                              w=self.weight("model.embed_tokens.weight", turned=False))

    def hidden(self, ids, first=0, cache=None):
        (B, S), x = ids.shape, self.embed(ids)
        tables = self.tables(S, first)
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, x, B, S, tables, cache)
        return x

    def head(self, kernel, x, gain="model.norm.weight", **more):
        tied = self.c["tie_word_embeddings"]
        w = self.weight("model.embed_tokens.weight", turned=False) if tied else self.weight("lm_head.weight")
        n = dict(T=x.value.size // self.c["hidden_size"], V=self.c["vocab_size"], H=self.c["hidden_size"])
        return self.tape.call(kernel + ("_tied" if tied else ""), n, x=x, gain=self.weight(gain), eps=self.c["rms_norm_eps"], w=w,
                              **more)

    def predict(self, ids, x):
        """Modules of multi-token prediction behind the hidden state x."""
        (B, S), gain = ids[:, :-1].shape, "model.norm.weight"
        n, eps = dict(T=B * S, H=self.c["hidden_size"]), self.c["rms_norm_eps"]
        tables = self.tables(S, 0)
        for d in range(self.c["num_nextn_predict_layers"]):
            i = self.c["num_hidden_layers"] + d
            layer = f"model.layers.{i}."
            state = self.tape.call("norm", n, x=x, gain=self.weight(gain), eps=eps)
            e = self.embed(np.pad(ids[:, d + 1:], ((0, 0), (0, d))))
            w = self.weight(layer + "eh_proj.weight")
            x = self.tape.call("mtp", n, e=e, x=state, gain_e=self.weight(layer + "enorm.weight"),
                               gain_x=self.weight(layer + "hnorm.weight"), eps=eps, w=w)
            x = self.layer(i, x, B, S, tables, None)
            gain = layer + "shared_head.norm.weight"
            target = np.pad(ids[:, d + 2:], ((0, 0), (0, d + 1)))
            there = np.arange(S) < S - d - 1
            self.parts["mtp"].append(self.head("head", x, gain, target=target.reshape(-1), weight=np.tile(there, B)))

    def step(self, ids):
        """Loss and logits; the tape then holds what the backward needs. `losses`: the parts of what is trained."""
        self.sequences, targets = len(ids), ids[:, 1:].reshape(-1)
        x = self.hidden(ids[:, :-1])
        logits = self.head("logits", x)
        loss = self.head("head", x, target=targets, weight=np.ones(len(targets)))
        self.predict(ids, x)
        c, mtp = self.c, self.parts["mtp"]
        losses = [(1, loss)] + [(c["mtp_loss_coef"] / len(mtp), t) for t in mtp]
        losses += [(c["router_aux_loss_coef"], t) for t in self.parts["balance"]]
        losses += [(c["router_z_loss_coef"], t) for t in self.parts["z"]]
        return loss, logits.value, losses

    def generate(self, prompt):
        self.tape.recording, ids, cache = False, list(prompt), dict(length=len(prompt) + NEW)
        new, first = np.array([ids], np.int32), 0
        for _ in range(NEW):
            cache["first"] = first
            x = self.hidden(new, first, cache)
            logits = self.head("logits", x)
            last = dict(T=1, V=self.c["vocab_size"])
            first += new.size
            ids.append(int(self.tape.call("greedy", last, s=logits.value[-1:]).value[0]))
            new = np.array([ids[-1:]], np.int32)
        return ids


def judge(folder, name, act):
    path = os.path.join(folder, name)
    model, j = Model(path, act), Judge(path, name, act)
    loss, logits, losses = model.step(load_file(path + ".tokens.safetensors")["ids"])
    j.loss(float(loss.value))
    j.logits(logits)
    if name in REFERENCES:
        j.parts({n: [float(t.value) for t in part] for n, part in model.parts.items()})
    if act == "f32":
        model.tape.backward(losses if name in REFERENCES else losses[:1])
        j.gradients(dict(model.gradients()))
        j.tokens(model.generate(j.want["ids"][:j.want["prompt"]]))
    return j.failed


if __name__ == "__main__":
    names = [a for a in sys.argv[2:] if not a.startswith("--")]
    element = "bf16" if "--bf16" in sys.argv else "f32"
    sys.exit(any([judge(sys.argv[1], n, element) for n in names or MODELS | REFERENCES]))
