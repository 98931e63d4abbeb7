"""What PyTorch needs for the cases of moe-bench: a request in JSON on each line of stdin, answers as lines of text.

{"make": NAME, sizes by their letters, "expert": [...]}  -> a line with the number of ways to do it, and their names
{"run": WAY, "calls": N}                                 -> seconds
{"forget": true}                                         -> nothing

Each function below is a request's NAME; it yields (name of the way, function that does it once)."""
import json
import sys
import time

import torch
import torch.nn.functional as nn

torch.set_grad_enabled(False)


def numbers(*shape, scale=1.0, dtype=torch.bfloat16):
    """Uniform in (-scale, scale); a part of them again and again, because making them takes long."""
    n = 1
    for extent in shape:
        n *= extent
    part = torch.empty(min(n, 1 << 20)).uniform_(-scale, scale).to(dtype)
    return part.repeat(n // len(part) + 1)[:n].reshape(shape).clone()


class Routed:
    """Rows sorted by expert, those of each as a slice."""

    def __init__(self, r):
        self.T, self.K, self.H, self.F, self.E = (r[letter] for letter in "TKHFE")
        expert = torch.tensor(r["expert"])
        order = torch.sort(expert, stable=True).indices
        self.token = order // self.K
        self.row_of = torch.empty_like(order)
        self.row_of[order] = torch.arange(len(order))
        count, first = torch.bincount(expert, minlength=self.E).tolist(), 0
        self.slices = []  # (expert, slice of its rows, their tokens)
        for e, n in enumerate(count):
            if n:
                self.slices.append((e, slice(first, first + n), self.token[first:first + n].contiguous()))
            first += n
        self.rows = len(order)


TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
GROUPED = getattr(nn, "grouped_mm", None)


def compiled(f):
    """By inductor, for any shape; f itself where that cannot be (no C++ compiler, an old PyTorch)."""
    try:
        made = torch.compile(f, dynamic=True)
        made(torch.ones(4, 6), torch.ones(4, 3))
        return made
    except Exception:  # whatever is missing
        return None


def act(gu, _):
    g, u = gu.chunk(2, 1)
    return nn.silu(g) * u


def act_backward(gu, d_a):
    g, u = gu.chunk(2, 1)
    s = torch.sigmoid(g)
    return torch.cat((d_a * u * s * (1 + g * (1 - s)), d_a * g * s), 1)


COMPILED = {}


def pointwise():
    """Compiled act and act_backward, or None: made when first asked for, because it takes long."""
    if not COMPILED:
        COMPILED["pair"] = (compiled(act), compiled(act_backward))
    return COMPILED["pair"] if all(COMPILED["pair"]) else None


# ---- products: rows are permuted already ----


def ends(routed):
    """Of the rows of each expert, as grouped_mm takes them."""
    last = torch.zeros(routed.E, dtype=torch.int32)
    for e, at, _ in routed.slices:
        last[e] = at.stop
    return torch.cummax(last, 0).values.to(torch.int32)


def fwd(r):
    routed = Routed(r)
    for name, dtype in TYPES.items():
        x, w = numbers(routed.rows, routed.H, dtype=dtype), numbers(routed.E, routed.H, routed.F, scale=routed.H ** -0.5, dtype=dtype)
        y = torch.empty(routed.rows, routed.F, dtype=dtype)

        def run(x=x, w=w, y=y):
            for e, at, _ in routed.slices:
                torch.mm(x[at], w[e], out=y[at])
        yield f"mm, {name}", run
        if GROUPED and routed.E > 1:
            yield f"grouped_mm, {name}", lambda x=x, w=w, offs=ends(routed): GROUPED(x, w, offs=offs)


def dx(r):
    routed = Routed(r)
    for name, dtype in TYPES.items():
        y, w = numbers(routed.rows, routed.F, dtype=dtype), numbers(routed.E, routed.H, routed.F, scale=routed.H ** -0.5, dtype=dtype)
        x = torch.empty(routed.rows, routed.H, dtype=dtype)

        def run(x=x, w=w, y=y):
            for e, at, _ in routed.slices:
                torch.mm(y[at], w[e].t(), out=x[at])
        yield f"mm, {name}", run


def dw(r):
    routed = Routed(r)
    for name, dtype in TYPES.items():
        x, y = numbers(routed.rows, routed.H, dtype=dtype), numbers(routed.rows, routed.F, dtype=dtype)
        w = torch.zeros(routed.E, routed.H, routed.F)

        def run(x=x, w=w, y=y):  # a product of bf16 is rounded to bf16: there is none that adds into f32
            for e, at, _ in routed.slices:
                w[e].add_(torch.mm(x[at].t(), y[at]))
        yield f"mm and add, {name}", run
        if dtype == torch.float32:
            def add(x=x, w=w, y=y):
                for e, at, _ in routed.slices:
                    w[e].addmm_(x[at].t(), y[at])
            yield "addmm_, f32", add


# ---- the expert block ----


class Block(Routed):
    """Gate and up are one matrix [E, H, 2F]. Everything is of one type, but for sums of weighted rows in f32."""

    def __init__(self, r, dtype):
        super().__init__(r)
        self.dtype = dtype
        self.x = numbers(self.T, self.H, dtype=dtype)
        self.p = torch.rand(self.T * self.K)
        order = torch.empty_like(self.row_of)
        order[self.row_of] = torch.arange(self.rows)
        self.scale = self.p[order].unsqueeze(1).to(dtype)  # [rows, 1]
        self.wgu = numbers(self.E, self.H, 2 * self.F, scale=self.H ** -0.5, dtype=dtype)
        self.wd = numbers(self.E, self.F, self.H, scale=self.F ** -0.5, dtype=dtype)
        self.ends = ends(self)

    def forward(self, act, into=None, saved=None):
        y = torch.zeros(self.T, self.H, dtype=into or self.dtype)
        for e, at, tokens in self.slices:
            x = self.x.index_select(0, tokens)
            gu = torch.mm(x, self.wgu[e])
            a = act(gu, gu)
            o = torch.mm(a, self.wd[e])
            y.index_add_(0, tokens, (o * self.scale[at]).to(y.dtype))
            if saved is not None:
                saved.append((x, gu, a, o))
        return y.to(self.dtype)

    def unpermuted(self, o):
        weighted = o.index_select(0, self.row_of).view(self.T, self.K, self.H) * self.p.view(self.T, self.K, 1)
        return weighted.sum(1).to(self.dtype)

    def forward_permuted(self, act):
        """Permute and unpermute once for all experts."""
        x, o = self.x.index_select(0, self.token), torch.empty(self.rows, self.H, dtype=self.dtype)
        gu = torch.empty(self.rows, 2 * self.F, dtype=self.dtype)
        for e, at, _ in self.slices:
            torch.mm(x[at], self.wgu[e], out=gu[at])
        a = act(gu, gu)
        for e, at, _ in self.slices:
            torch.mm(a[at], self.wd[e], out=o[at])
        return self.unpermuted(o)

    def forward_grouped(self, act):
        gu = GROUPED(self.x.index_select(0, self.token), self.wgu, offs=self.ends)
        return self.unpermuted(GROUPED(act(gu, gu), self.wd, offs=self.ends))

    def backward(self, saved, d_y, act_backward, d_wgu, d_wd):
        d_x, d_p = torch.zeros(self.T, self.H), torch.empty(self.rows)
        for (e, at, tokens), (x, gu, a, o) in zip(self.slices, saved):
            d_rows = d_y.index_select(0, tokens)
            d_p[at] = (o * d_rows).sum(1, dtype=torch.float32)
            d_o = d_rows * self.scale[at]
            d_gu = act_backward(gu, torch.mm(d_o, self.wd[e].t())).to(self.dtype)
            if self.dtype == torch.float32:
                d_wd[e].addmm_(a.t(), d_o)
                d_wgu[e].addmm_(x.t(), d_gu)
            else:
                d_wd[e].add_(torch.mm(a.t(), d_o))
                d_wgu[e].add_(torch.mm(x.t(), d_gu))
            d_x.index_add_(0, tokens, torch.mm(d_gu, self.wgu[e].t()).float())
        return d_x.to(self.dtype), d_p


    def step_grouped(self, d_y, act, act_backward, d_wgu, d_wd):
        """Forward and backward by grouped_mm; its products by expert are added afterwards."""
        x = self.x.index_select(0, self.token)
        gu = GROUPED(x, self.wgu, offs=self.ends)
        a = act(gu, gu)
        o = GROUPED(a, self.wd, offs=self.ends)
        y = self.unpermuted(o)
        d_rows = d_y.index_select(0, self.token)
        d_p, d_o = (o * d_rows).sum(1, dtype=torch.float32), d_rows * self.scale
        d_gu = act_backward(gu, GROUPED(d_o, self.wd.transpose(1, 2), offs=self.ends)).to(self.dtype)
        d_wd.add_(GROUPED(a.t(), d_o, offs=self.ends))
        d_wgu.add_(GROUPED(x.t(), d_gu, offs=self.ends))
        d_x = GROUPED(d_gu, self.wgu.transpose(1, 2), offs=self.ends).index_select(0, self.row_of)
        return y, d_x.view(self.T, self.K, self.H).sum(1), d_p


def ways():
    """(name, act, act_backward)"""
    yield "", act, act_backward
    if pointwise():
        yield ", compiled", *pointwise()


def block(r):
    for name, dtype in TYPES.items():
        b = Block(r, dtype)
        for how, f, _ in ways():
            yield f"per expert, {name}{how}", lambda b=b, f=f: b.forward(f, torch.float32)
            yield f"permuted once, {name}{how}", lambda b=b, f=f: b.forward_permuted(f)
            if GROUPED:
                yield f"grouped_mm, {name}{how}", lambda b=b, f=f: b.forward_grouped(f)


def step(r):
    """Forward and backward; gradients of weights are added into f32."""
    for name, dtype in TYPES.items():
        b = Block(r, dtype)
        d_y = numbers(b.T, b.H, dtype=dtype)
        sums = [torch.zeros(w.shape) for w in (b.wgu, b.wd)]
        for how, f, back in ways():
            def run(b=b, f=f, back=back, d_y=d_y, sums=sums):
                saved = []
                b.forward(f, torch.float32, saved)
                b.backward(saved, d_y, back, *sums)
            yield f"per expert, {name}{how}", run
            if GROUPED:
                yield f"grouped_mm, {name}{how}", lambda b=b, f=f, back=back, d_y=d_y, sums=sums: b.step_grouped(d_y, f, back, *sums)


def unpermute(r):
    routed = Routed(r)
    p = torch.rand(routed.T, routed.K, 1)
    order = torch.empty_like(routed.row_of)
    order[routed.row_of] = torch.arange(routed.rows)
    for name, dtype in TYPES.items():
        o, q = numbers(routed.rows, routed.H, dtype=dtype), p.to(dtype)
        scale = q.view(-1)[order].unsqueeze(1)

        def gathered(p, o=o, dtype=dtype):
            return (o.index_select(0, routed.row_of).view(routed.T, routed.K, routed.H) * p).sum(1).to(dtype)

        def added(o=o, scale=scale, dtype=dtype):
            return torch.zeros(routed.T, routed.H, dtype=dtype).index_add_(0, routed.token, o * scale)
        yield f"index_select, {name}, sums in f32", lambda gathered=gathered: gathered(p)
        if dtype != torch.float32:
            yield f"index_select, {name}", lambda gathered=gathered, q=q: gathered(q)
        yield f"index_add, {name}", added


# ---- attention: N heads of D, causal ----


def heads(r, dtype):
    return [numbers(1, r["N"], r["S"], r["D"], dtype=dtype) for _ in range(3)]


def attend(q, k, v):
    return nn.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention(r):
    for name, dtype in TYPES.items():
        q, k, v = heads(r, dtype)
        yield f"scaled_dot_product_attention, {name}", lambda q=q, k=k, v=v: attend(q, k, v)


def attention_step(r):
    """Forward and backward."""
    for name, dtype in TYPES.items():
        q, k, v = heads(r, dtype)
        d_o = numbers(1, r["N"], r["S"], r["D"], dtype=dtype)
        for t in (q, k, v):
            t.requires_grad_(True)

        def run(q=q, k=k, v=v, d_o=d_o):
            with torch.enable_grad():
                o = attend(q, k, v)
            torch.autograd.grad(o, (q, k, v), d_o)
        yield f"scaled_dot_product_attention, {name}", run


# ---- requests ----

MAKERS = {f.__name__: f for f in (fwd, dx, dw, block, step, unpermute, attention, attention_step)}


def make(request):
    torch.set_num_threads(request["threads"])
    try:
        return list(MAKERS[request["make"]](request))
    except RuntimeError as e:  # there is no memory
        print("torch_peer:", e, file=sys.stderr)
        return []


def seconds(run, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - begin


def main():
    print(torch.__version__, flush=True)
    ways = []
    for line in sys.stdin:
        request = json.loads(line)
        if "make" in request:
            ways = make(request)
            print(len(ways), *(name for name, _ in ways), sep="\n", flush=True)
        elif "run" in request:
            print(seconds(ways[request["run"]][1], request["calls"]), flush=True)
        else:
            ways = []


main()
