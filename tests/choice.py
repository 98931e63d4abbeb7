#!/usr/bin/env python3
"""A core whose VDPBF16PS is slow, or fast, is simulated by kept rates: JIT and .so must both take the code that is faster there,
which shows in the bits of a product, and results must stay inside the numeric contract.

usage: tests/choice.py BUILD    (77: this CPU has one way to multiply bf16 only)"""
import ctypes
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile

MOEC = os.path.abspath(os.path.join(sys.argv[1], "bin", "moec"))
NAMES = ["avx512", "avx512bf16"]
KERNEL = """moe 1
dim M, K, N
kernel product(in x: bf16[M, K], in w: bf16[K, N], out y: f32[M, N]) { y[m, n] = sum(k) x[m, k] * w[k, n] }
test product { M = 8, K = 512, N = 48; }
"""
SIZES = (8, 512, 48)
RUN = """
import ctypes, sys
kernel = ctypes.CDLL(sys.argv[1]).product__call
data = open(sys.argv[2], "rb").read()
m, k, n = sizes = %r
x, w, y = data[:2 * m * k], data[2 * m * k:], ctypes.create_string_buffer(4 * m * n)
args = (ctypes.c_void_p * 3)(ctypes.cast(x, ctypes.c_void_p), ctypes.cast(w, ctypes.c_void_p), ctypes.cast(y, ctypes.c_void_p))
assert kernel(None, (ctypes.c_int64 * 3)(*sizes), args) == 0
sys.stdout.buffer.write(y.raw)
""" % (SIZES,)


def run(*command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "MOE_ISA": "", **environment})
    if done.returncode:
        sys.exit(f"choice: {' '.join(command)}: {done.stderr.decode()}")
    return done.stdout


def checksum(data):
    total = 2166136261
    for byte in data:
        total = (total ^ byte) * 16777619 & 0xffffffff
    return total


def plant(path, rates):
    """The file of kept rates with others: its CPU stays, rates are the words before the checksum."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    for name, gflops in rates.items():
        place = len(data) - 4 * (len(ISAS) + 1 - ISAS.index(name))
        data[place:place + 4] = struct.pack("<I", 1000 * gflops)
    data[-4:] = struct.pack("<I", checksum(data[:-4]))
    with open(path, "wb") as f:
        f.write(data)


def instruction_sets(machine):
    rows = machine[machine.index("\ninstruction set"):].split("\n\n")[0].splitlines()[2:]
    return [row.split()[0] for row in rows], {row.split()[0] for row in rows if row.split()[3] in ("yes", "best")}


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    os.environ["MOEC_CACHE"] = f"{place}/cache"
    ISAS, HERE = instruction_sets(run(MOEC, "machines", "--probe").decode())
    if not HERE.issuperset(NAMES):
        sys.exit(77)
    kept, = glob.glob("cache/moec-cache/rates-*")
    draw = random.Random(1)
    with open("data", "wb") as f:  # of many sizes, so that sums round
        f.write(b"".join(struct.pack("<H", draw.choice((0x3c00, 0xbc00)) + draw.randrange(0x480)) for _ in range(8 * 512 + 512 * 48)))
    with open("a.moe", "w", encoding="utf-8") as f:
        f.write(KERNEL)
    run(MOEC, "a.moe", "--target=all", "-o", "all.so")
    def jit(isa):
        return run(MOEC, "run", "--no-time", "a.moe", "product", "M=8", "K=512", "N=48", MOE_ISA=isa)
    hashes = {name: jit(name) for name in NAMES}
    bits = {name: run(sys.executable, "-c", RUN, "./all.so", "data", MOE_ISA=name) for name in NAMES}
    if bits[NAMES[0]] == bits[NAMES[1]] or hashes[NAMES[0]] == hashes[NAMES[1]]:
        sys.exit("choice: the bits do not tell the instruction sets apart")
    bad = 0
    # Rates of the loops; what the host is then, and which of `all` has its products.
    for host, wanted, fma, dot in (("avx512widen", "avx512", 200, 100), ("avx512bf16", "avx512bf16", 100, 200)):
        plant(kept, {"avx512": fma, "avx512widen": fma, "avx512bf16": dot, "amx": 50})
        found = {
            "the machine": f"host is {host} " in run(MOEC, "machines", "host").decode().replace(";", " "),
            "explain": f"product for {host}\n" in run(MOEC, "explain", "a.moe").decode(),
            "the JIT": jit("") == hashes[wanted],
            "the .so with all": run(sys.executable, "-c", RUN, "./all.so", "data") == bits[wanted],
            "forced": all(run(sys.executable, "-c", RUN, "./all.so", "data", MOE_ISA=name) == bits[name] for name in NAMES),
        }
        run(MOEC, "a.moe", "-o", "host.so")
        found["a .so for the host"] = run(sys.executable, "-c", RUN, "./host.so", "data") == bits[wanted]
        run(MOEC, "test", "--quiet", "a.moe")  # interpreter, JIT and .so: within the contract
        for what, right in found.items():
            bad += not right
            if not right:
                print(f"choice: {what} does not take the code of {host}")
    print(f"choice: {bad} wrong")
    sys.exit(bad > 0)
