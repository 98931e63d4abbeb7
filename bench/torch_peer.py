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


# ---- products: rows are permuted already ----


def fwd(r):
    routed = Routed(r)
    x, w = numbers(routed.rows, routed.H), numbers(routed.E, routed.H, routed.F, scale=routed.H ** -0.5)
    y = torch.empty(routed.rows, routed.F, dtype=torch.bfloat16)

    def run():
        for e, at, _ in routed.slices:
            torch.mm(x[at], w[e], out=y[at])
    yield "mm", run


def dx(r):
    routed = Routed(r)
    y, w = numbers(routed.rows, routed.F), numbers(routed.E, routed.H, routed.F, scale=routed.H ** -0.5)
    x = torch.empty(routed.rows, routed.H, dtype=torch.bfloat16)

    def run():
        for e, at, _ in routed.slices:
            torch.mm(y[at], w[e].t(), out=x[at])
    yield "mm", run


def dw(r):
    routed = Routed(r)
    x, y = numbers(routed.rows, routed.H), numbers(routed.rows, routed.F)
    w = torch.zeros(routed.E, routed.H, routed.F)

    def run():  # the product is rounded to bf16: there is none that adds into f32
        for e, at, _ in routed.slices:
            w[e].add_(torch.mm(x[at].t(), y[at]))
    yield "mm and add", run


# ---- the expert block ----


class Block(Routed):
    def __init__(self, r):
        super().__init__(r)
        self.x = numbers(self.T, self.H)
        self.p = torch.rand(self.T * self.K)
        order = torch.empty_like(self.row_of)
        order[self.row_of] = torch.arange(self.rows)
        self.scale = self.p[order].unsqueeze(1)  # [rows, 1]
        self.scale_bf16 = self.scale.bfloat16()
        self.wg, self.wu = (numbers(self.E, self.H, self.F, scale=self.H ** -0.5) for _ in range(2))
        self.wd = numbers(self.E, self.F, self.H, scale=self.F ** -0.5)

    def expert(self, e, tokens):
        x = self.x.index_select(0, tokens)
        g, u = torch.mm(x, self.wg[e]), torch.mm(x, self.wu[e])
        a = nn.silu(g).mul_(u)
        return x, g, u, a, torch.mm(a, self.wd[e])

    def forward(self, dtype, saved=None):
        y = torch.zeros(self.T, self.H, dtype=dtype)
        for e, at, tokens in self.slices:
            values = self.expert(e, tokens)
            y.index_add_(0, tokens, values[-1] * (self.scale if dtype == torch.float32 else self.scale_bf16)[at])
            if saved is not None:
                saved.append(values)
        return y.bfloat16()

    def forward_permuted(self):
        """Permute and unpermute once for all experts."""
        x, o = self.x.index_select(0, self.token), torch.empty(self.rows, self.H, dtype=torch.bfloat16)
        g, u = (torch.empty(self.rows, self.F, dtype=torch.bfloat16) for _ in range(2))
        for e, at, _ in self.slices:
            torch.mm(x[at], self.wg[e], out=g[at])
            torch.mm(x[at], self.wu[e], out=u[at])
        a = nn.silu(g).mul_(u)
        for e, at, _ in self.slices:
            torch.mm(a[at], self.wd[e], out=o[at])
        weighted = o.index_select(0, self.row_of).view(self.T, self.K, self.H) * self.p.view(self.T, self.K, 1)
        return weighted.sum(1).bfloat16()

    def backward(self, saved, d_y, dtype, d_wg, d_wu, d_wd):
        d_x, d_p = torch.zeros(self.T, self.H, dtype=dtype), torch.empty(self.rows)
        for (e, at, tokens), (x, g, u, a, o) in zip(self.slices, saved):
            d_rows = d_y.index_select(0, tokens)
            d_p[at] = (o * d_rows).sum(1, dtype=torch.float32)
            d_o = d_rows * self.scale_bf16[at]
            d_a = torch.mm(d_o, self.wd[e].t())
            d_wd[e].add_(torch.mm(a.t(), d_o))
            d_g, d_u = torch.ops.aten.silu_backward(d_a * u, g), d_a * nn.silu(g)
            d_wg[e].add_(torch.mm(x.t(), d_g))
            d_wu[e].add_(torch.mm(x.t(), d_u))
            d_xe = torch.addmm(torch.mm(d_g, self.wg[e].t()), d_u, self.wu[e].t())
            d_x.index_add_(0, tokens, d_xe.to(dtype))
        return d_x.bfloat16(), d_p


def block(r):
    b = Block(r)
    yield "per expert, index_add in f32", lambda: b.forward(torch.float32)
    yield "per expert, index_add in bf16", lambda: b.forward(torch.bfloat16)
    yield "permuted once", b.forward_permuted


def step(r):
    """Forward and backward; gradients of weights are added into f32."""
    b = Block(r)
    d_y = numbers(b.T, b.H)
    sums = [torch.zeros(w.shape) for w in (b.wg, b.wu, b.wd)]

    def run(dtype):
        saved = []
        b.forward(dtype, saved)
        b.backward(saved, d_y, dtype, *sums)
    yield "per expert, index_add in f32", lambda: run(torch.float32)
    yield "per expert, index_add in bf16", lambda: run(torch.bfloat16)


def unpermute(r):
    routed = Routed(r)
    o, p = numbers(routed.rows, routed.H), torch.rand(routed.T, routed.K, 1)
    p_bf16 = p.bfloat16()
    order = torch.empty_like(routed.row_of)
    order[routed.row_of] = torch.arange(routed.rows)
    scale = p_bf16.view(-1)[order].unsqueeze(1)

    def gathered(p):
        return (o.index_select(0, routed.row_of).view(routed.T, routed.K, routed.H) * p).sum(1).bfloat16()

    def added():
        y = torch.zeros(routed.T, routed.H, dtype=torch.bfloat16)
        return y.index_add_(0, routed.token, o * scale)
    yield "index_select, f32", lambda: gathered(p)
    yield "index_select, bf16", lambda: gathered(p_bf16)
    yield "index_add, bf16", added


# ---- attention: N heads of D, causal ----


def heads(r):
    return [numbers(r["N"], r["S"], r["D"]) for _ in range(3)], torch.full((r["S"], r["S"]), float("-inf")).triu(1)


def attend(q, k, v, mask):
    return torch.matmul(nn.softmax(torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + mask, -1), v)


def attention(r):
    (q, k, v), mask = heads(r)
    mask = mask.bfloat16()
    yield "all heads at once", lambda: attend(q, k, v, mask)
    yield "head by head", lambda: [attend(q[n], k[n], v[n], mask) for n in range(r["N"])]


def attention_step(r):
    """Forward and backward."""
    (q, k, v), mask = heads(r)
    mask, d_o = mask.bfloat16(), numbers(r["N"], r["S"], r["D"])
    for t in (q, k, v):
        t.requires_grad_(True)

    def run(part):
        with torch.enable_grad():
            o = attend(q[part], k[part], v[part], mask)
        torch.autograd.grad(o, (q, k, v), d_o[part])

    def by_head():
        for n in range(r["N"]):
            run(n)
    yield "all heads at once", lambda: run(slice(None))
    yield "head by head", by_head


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
