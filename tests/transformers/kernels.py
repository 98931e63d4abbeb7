"""The kernels of model/*.moe, put together by hand to the models that make.py wrote, against transformers: loss, gradients,
logits, and greedy tokens with a cache.   usage: kernels.py FOLDER [--bf16] [MODEL...]

No recipe and no recorder is involved: a tape in Python calls each kernel and then, in reverse, its derived backward."""
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
from models import MODELS, NEW    # noqa: E402

# Kernels that add a branch to the residual stream x: its gradient is that of y, and no equation is derived for it.
RESIDUAL = {"project", "dense", "experts", "routed", "sandwich"}
MODULES = ("embed", "rope", "attention", "gqa", "mla", "norm", "dense", "router", "experts", "head")


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

    def call(self, name, sizes, **given):
        """Tensors and numbers in, the outputs out: one, or several in the order of the parameters."""
        m = self.module[name]
        values = {n: v.value if isinstance(v, Tensor) else v for n, v in given.items()}
        derived = self.recording and name + "_fwd" in m.kernels
        got = m.call(name + "_fwd" if derived else name, sizes, values)
        outputs = {p["name"]: Tensor(got[p["name"]]) for p in m.kernels[name].params if p["role"] != "in"}
        if derived:
            self.calls.append((m, name, sizes, given, {**values, **got}, outputs))
        return list(outputs.values())[0] if len(outputs) == 1 else list(outputs.values())

    def backward(self, loss):
        loss.grad = np.float64(1)
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
            self.c = json.load(f)
        self.weights = {}
        self.files = load_file(os.path.join(path, "model.safetensors"))
        self.tape = Tape(act)
        self.latent = self.c.get("kv_lora_rank") is not None
        self.pairs = "_pairs" if self.c.get("rope_interleave") else ""
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
        r, P = self.c["rope_parameters"], self.rope_dim // 2
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
        scaling, _ = self.scaling()
        return self.tape.call("rotary_table", dict(S=S, O=first, P=self.rope_dim // 2), **scaling)

    # ---- layers ----

    def latent_attention(self, layer, x, B, S, tables, cache):
        c, a = self.c, layer + "self_attn."
        N, Q, P, U, J = c["num_attention_heads"], c["qk_nope_head_dim"], self.rope_dim // 2, c["v_head_dim"], c["kv_lora_rank"]
        n = dict(B=B, S=S, T=B * S, H=c["hidden_size"], N=N, Q=Q, P=P, U=U, J=J, Y=Q // 2, V=U // 2, G=J // 2,
                 A=N * (Q + 2 * P), W=N * (Q + U), D=Q + 2 * P)
        rank, call = c.get("q_lora_rank"), self.tape.call
        n["I"] = rank or n["A"]
        wq = self.weight(a + ("q_a_proj.weight" if rank else "q_proj.weight"))
        q, ckv = call("mla_down", n, x=x, gain=self.weight(layer + "input_layernorm.weight"), eps=c["rms_norm_eps"], wq=wq,
                      wkv=self.weight(a + "kv_a_proj_with_mqa.weight"))
        if rank:
            q = call("mla_queries", n, cq=q, gain=self.weight(a + "q_a_layernorm.weight"), eps=1e-6,
                     w=self.weight(a + "q_b_proj.weight"))
        q = call("mla_rotate" + self.pairs, n, q=q, **tables)
        latent = dict(gain=self.weight(a + "kv_a_layernorm.weight"), eps=1e-6)
        wkv, scale = self.weight(a + "kv_b_proj.weight"), self.scaling()[1] / math.sqrt(Q + 2 * P)
        if cache is not None:
            kept = call("mla_latent" + self.pairs, n, ckv=ckv, **latent, **tables)
            n.update(L=cache["length"], O=cache["first"])
            seen = self.cached(cache, layer, n, kept, J + 2 * P)
            return call("mla_cached", n, q=q, cache=seen, w=wkv, scale=scale), N * U
        kv = call("mla_keys_values", n, ckv=ckv, w=wkv, **latent)
        k, v = call("mla_expand" + self.pairs, n, kv=kv, ckv=ckv, **tables)
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

    def dense(self, layer, x, T):
        n, call = dict(T=T, H=self.c["hidden_size"], G=self.c["intermediate_size"]), self.tape.call
        normed = call("norm", n, x=x, gain=self.weight(layer + "post_attention_layernorm.weight"), eps=self.c["rms_norm_eps"])
        return call("dense", n, x=x, n=normed, **self.swiglu(layer + "mlp."))

    def swiglu(self, prefix, names=("wg", "wu", "wd")):
        return {n: self.weight(f"{prefix}{part}_proj.weight") for n, part in zip(names, ("gate", "up", "down"))}

    def mixture(self, layer, x, T):
        c, call = self.c, self.tape.call
        m, parts = (layer + "block_sparse_moe.", ("w1", "w3", "w2")) if c["model_type"] == "mixtral" else \
                   (layer + "mlp.", ("gate_proj", "up_proj", "down_proj"))
        sigmoid = c["model_type"] == "deepseek_v3"
        n = dict(T=T, H=c["hidden_size"], E=self.experts, K=c["num_experts_per_tok"], X=c.get("n_group", 1), Z=c.get("topk_group", 1),
                 F=c.get("moe_intermediate_size", c["intermediate_size"]))
        n["Y"] = n["E"] // n["X"]
        normed, scores, _ = call("scores_sigmoid" if sigmoid else "scores_softmax", n, x=x, w=self.weight(m + "gate.weight"),
                                 gain=self.weight(layer + "post_attention_layernorm.weight"), eps=c["rms_norm_eps"])
        bias = self.weight(m + "gate.e_score_correction_bias").value if sigmoid else np.zeros(n["E"])
        p, ids = call("choose_grouped" if n["X"] > 1 else "choose", n, c=scores, bias=bias,
                      normalise=int(c.get("norm_topk_prob", True)), factor=c.get("routed_scaling_factor", 1.0))
        rt = call("dispatch", n, id=ids)
        given = dict(x=x, n=normed, rt=rt.value, p=p, **{w: self.stacked(m, part) for w, part in zip(("wg", "wu", "wd"), parts)})
        if not c.get("n_shared_experts"):
            return call("routed", n, **given)
        n["G"] = n["F"] * c["n_shared_experts"]
        return call("experts", n, **given, **self.swiglu(m + "shared_experts.", ("vg", "vu", "vd")))

    # ---- the model ----

    def hidden(self, ids, first=0, cache=None):
        B, S = ids.shape
        T, H = B * S, self.c["hidden_size"]
        embedding = self.weight("model.embed_tokens.weight", turned=False)
        x = self.tape.call("embed", dict(T=T, V=self.c["vocab_size"], H=H), id=ids.reshape(-1), w=embedding)
        tables = dict(zip("cs", (t.value for t in self.tables(S, first))))
        for i in range(self.c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            o, width = (self.latent_attention if self.latent else self.grouped_attention)(layer, x, B, S, tables, cache)
            x = self.tape.call("project", dict(T=T, A=width, H=H), x=x, o=o, w=self.weight(layer + "self_attn.o_proj.weight"))
            x = (self.dense if i < self.c.get("first_k_dense_replace", 0) else self.mixture)(layer, x, T)
        return x

    def head(self, kernel, x, T, **more):
        tied = self.c["tie_word_embeddings"]
        w = self.weight("model.embed_tokens.weight", turned=False) if tied else self.weight("lm_head.weight")
        return self.tape.call(kernel + ("_tied" if tied else ""), dict(T=T, V=self.c["vocab_size"], H=self.c["hidden_size"]), x=x,
                              gain=self.weight("model.norm.weight"), eps=self.c["rms_norm_eps"], w=w, **more)

    def step(self, ids):
        """Loss and logits; the tape then holds what the backward needs."""
        targets = ids[:, 1:].reshape(-1)
        x = self.hidden(ids[:, :-1])
        logits = self.head("logits", x, len(targets))
        return self.head("head", x, len(targets), target=targets, weight=np.ones(len(targets))), logits.value

    def generate(self, prompt):
        self.tape.recording, ids, cache = False, list(prompt), dict(length=len(prompt) + NEW)
        new, first = np.array([ids], np.int32), 0
        for _ in range(NEW):
            cache["first"] = first
            x = self.hidden(new, first, cache)
            logits = self.head("logits", x, new.size)
            last = dict(T=1, V=self.c["vocab_size"])
            first += new.size
            ids.append(int(self.tape.call("greedy", last, s=logits.value[-1:]).value[0]))
            new = np.array([ids[-1:]], np.int32)
        return ids


def judge(folder, name, act):
    path = os.path.join(folder, name)
    model, j = Model(path, act), Judge(path, name, act)
    loss, logits = model.step(load_file(path + ".tokens.safetensors")["ids"])
    model.tape.backward(loss)
    j.loss(float(loss.value))
    j.logits(logits)
    if act == "f32":
        j.gradients(dict(model.gradients()))
        j.tokens(model.generate(j.want["ids"][:j.want["prompt"]]))
    return j.failed


if __name__ == "__main__":
    names = [a for a in sys.argv[2:] if not a.startswith("--")]
    element = "bf16" if "--bf16" in sys.argv else "f32"
    sys.exit(any([judge(sys.argv[1], n, element) for n in names or MODELS]))
