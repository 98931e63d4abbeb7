"""Kernels of the examples with sizes, the schedules that `moec explain --space` lists for them, and what a call takes. For
benchmarks of schedules."""
import os
import re
import time

import numpy as np

import kernel

GEMM = """moe 1
dim T, H, F
kernel gemm(in x: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F]) { y[t, f] = bf16(sum(h) x[t, h] * w[h, f]) }
kernel gemm_grad(in x: bf16[T, H], in d: bf16[T, F], inout w: f32[H, F]) { w[h, f] += sum(t) x[t, h] * d[t, f] }
"""


def last_cache():
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as f:
            return int(f.read().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return 0


# Norms and updates are larger than the caches: so many times what is larger than one of 32 MiB.
LARGER = max(1, 1 << (last_cache() // (32 << 20)).bit_length() >> 1)
# A text or an example, its kernels, sizes of a few milliseconds and more.
CASES = [
    (GEMM, ("gemm", "gemm_grad"), dict(T=1024, H=1024, F=1024)),
    ("moe_ffn", ("ffn_fwd", "ffn_bwd"), dict(T=1024, K=2, E=8, H=512, F=512)),
    ("attention", ("attention_fwd", "attention_bwd"), dict(B=1, S=1024, N=4, D=64)),
    ("xent", ("xent_fwd", "xent_bwd"), dict(T=512, H=512, V=8192)),
    ("rmsnorm", ("rmsnorm_fwd", "rmsnorm_bwd"), dict(T=8192 * LARGER, H=2048)),
    ("adamw", ("adamw",), dict(N=LARGER << 23)),
]


def text_of(source):
    if source.startswith("moe 1"):
        return source
    with open(os.path.join(kernel.ROOT, "examples", source + ".moe"), encoding="utf-8") as f:
        return f.read()


def space_of(text, isa, moec):
    with kernel.source_of(text) as path:
        return kernel.run_moec("explain", "--space", "--target=" + isa, path, moec=moec)


def body_of(listed, name):
    return re.search(rf"^schedule {name} \{{\n(.*?)^\}}", listed, re.M | re.S).group(1)


def knobs_of(listed, name):
    """[(word, clause without its value, values)] of a kernel's block; the usual value is first."""
    return [(word, head, values.split(", ")) for head, word, values in
            re.findall(r"^  (.*?(\w+)(?: =)?) \?\{(.*)\}$", body_of(listed, name), re.M)]


def choices_of(listed, name):
    """Clauses of a kernel's block that would fuse or store what the compiler does not."""
    return re.findall(r"^  // (.*)$", body_of(listed, name), re.M)


def block(name, clauses):
    return f"schedule {name} {{\n" + "\n".join(clauses) + "\n}\n"


def make_route(sizes, seed):
    """Choices skewed over groups, each token's different."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, sizes["E"] + 1)
    key = np.log(weight) + rng.gumbel(size=(sizes["T"], sizes["E"]))
    return kernel.Route(np.argsort(-key, axis=1)[:, :sizes["K"]].astype(np.int32), sizes["E"])


def arguments(k, sizes, route):
    args = k.random(sizes, np.random.default_rng(1), route)
    for p in k.params:
        if p["kind"] == "tensor" and p["type"] == "i32":
            args[p["name"]] = np.random.default_rng(2).integers(0, min(sizes.values()), args[p["name"]].shape, np.int32)
    return args


def computed(call, threads):
    """Seconds that this thread computes, to which a busy machine adds little; or that pass, where several threads do."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    begin = clock()
    call()
    return clock() - begin
