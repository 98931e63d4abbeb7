#!/usr/bin/env python3
"""Calls that MOE_LOG_CALLS logs, by JIT, API and a .so that a program loads itself; and `moec replay` of them.

usage: call_log.py MOEC"""
import ctypes
import glob
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile

from checking import check, result

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC = os.path.abspath(sys.argv[1])
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(MOEC)), "lib", "libmoec.so.0")
KERNEL = """moe 1
dim T, H
kernel scale(in x: f32[T, H], in s: f32, out y: f32[T, H]) { y[t, h] = s * x[t, h] }
kernel grow(in x: bf16[T, H], inout y: f32[T, H]) { y[t, h] += f32(x[t, h]) }
"""


def run(*command, status=0, before=None, **env):
    done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          preexec_fn=before)
    check(f"{' '.join(command)} ended with {done.returncode}", done.returncode == status, done.stdout)
    return done.stdout


def header(path):
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(length)), f.read()


def caller(so, size_t, h, call="scale"):
    """Calls a kernel of the .so through its C function, as any program would."""
    library = ctypes.CDLL(so)
    elements = max(size_t, 1) * h
    x, y = (ctypes.c_float * elements)(*range(elements)), (ctypes.c_float * elements)()
    y = x if call == "onto" else y
    status = library.scale(None, ctypes.c_int64(size_t), ctypes.c_int64(h), x, ctypes.c_float(0.5), y)
    print(status, *y[:3])


def by_jit(scratch):
    log = os.path.join(scratch, "jit")
    run(MOEC, "run", os.path.join(ROOT, "examples", "moe_ffn.moe"), "ffn_bwd", "T=9", "K=2", "E=3", "H=32", "F=16", "--no-time",
        MOE_LOG_CALLS=log)
    calls = sorted(glob.glob(log + "/*.in.safetensors"))
    check("a call by the JIT is logged", len(calls) == 1, str(os.listdir(log)))
    said = run(MOEC, "replay", log)
    check("the recorded bits", said.count("the recorded bits") >= 5 and "interpreter: error" in said, said)
    check("route in the log", {"rt.start", "rt.count", "rt.slot_of", "rt.row_of"} <= set(header(calls[0])[0]), str(calls))
    with open(log + "/calls.txt", encoding="utf-8") as f:
        line = f.read()
    check("a line for the call", re.fullmatch(r"000001-ffn_bwd  .*T=9.*  [\d.]+ ms  success\n", line), line)
    return calls[0]


def spoiled(call, scratch):
    """A recorded result with another bit, and files that are damaged."""
    out = call.replace(".in.", ".out.")
    with open(out, "r+b") as f:
        f.seek(-1, 2)
        last = f.read(1)
        f.seek(-1, 2)
        f.write(bytes([last[0] ^ 1]))
    said = run(MOEC, "replay", call, "--no-check", status=1)
    check("other bits are found", "other bits from element" in said and "interpreter" not in said, said)
    with open(call, "rb") as f:
        whole = f.read()
    path = os.path.join(scratch, "damaged.in.safetensors")
    takes = "but the kernel takes {"
    for name, content, expected in [("cut", whole[:-8], "not inside the file"), ("short", whole[:6], "not a file"),
                                    ("no JSON", b"\x08" + bytes(7) + b"xxxxxxxx", "no JSON object"),
                                    ("huge", b"\xff" * 16, "not a file"),
                                    ("other kernel", whole.replace(b'"kernel":"ffn_bwd"', b'"kernel":"ffn_fwd"'), "error:"),
                                    ("sizes", whole.replace(b"T=9", b"Q=9"), "no size of T"),
                                    ("larger", whole.replace(b"T=9", b"T=8"), takes),
                                    ("turned", whole.replace(b"[9,32]", b"[32,9]"), takes),
                                    ("rank", whole.replace(b"[9,32]", b"[288] "), takes),
                                    ("type", whole.replace(b'"dtype":"BF16"', b'"dtype":"F16" '), takes),
                                    ("route", whole.replace(b'"rt.row_of":{"dtype":"I32"', b'"rt.row_of":{"dtype":"F32"'), takes),
                                    ("threads", whole.replace(b'"threads":"0"', b'"threads":"x"'), "its threads is no whole number"),
                                    ("no size", whole.replace(b"T=9 K", b"T=  K"), "no size of K"),
                                    ("behind a size", whole.replace(b'F=16"', b'F=1x"'), "its sizes are not those of the kernel")]:
        check(f"a damaged file ({name}) is another one", content != whole)
        with open(path, "wb") as f:
            f.write(content)
        said = run(MOEC, "replay", path, status=1)
        check(f"a damaged file ({name})", expected in said, said)
    nothing = os.path.join(scratch, "nothing")
    check("a missing folder", f"there is no folder {nothing}," in run(MOEC, "replay", nothing, status=1))
    os.mkdir(os.path.join(scratch, "empty"))
    check("an empty folder", "no logged calls" in run(MOEC, "replay", os.path.join(scratch, "empty"), status=1))


def by_program(scratch):
    so, log = os.path.join(scratch, "k.so"), os.path.join(scratch, "aot")
    me = [sys.executable, os.path.abspath(__file__), MOEC, "call", so]
    plain = run(*me, "2", "3")
    check("without a log nothing is written", plain == "0 0.0 0.5 1.0\n" and not os.path.exists(log), plain)
    for n in range(4):
        said = run(*me, "2", "3", MOE_LOG_CALLS=log, MOEC_LIBRARY=LIBRARY)
        check("the call does the same", said == plain, said)
    refused = run(*me, "-1", "3", MOE_LOG_CALLS=log, MOEC_LIBRARY=LIBRARY)
    check("a refused call is refused", refused.startswith("1 "), refused)
    found, data = header(os.path.join(log, "000001-scale.in.safetensors"))
    check("inputs in the file", found["x"]["shape"] == [2, 3] and found["s"]["shape"] == [] and found["x"]["dtype"] == "F32" and
          struct.unpack("<6f", data[slice(*found["x"]["data_offsets"])]) == tuple(map(float, range(6))), str(found))
    said = run(MOEC, "replay", log)
    check("five calls", said.count("the recorded bits") == 4 and "T is -1; a size is at least 0" in said, said)
    said = run(MOEC, "replay", os.path.join(log, "000001-scale.out.safetensors"))
    check("either file names the call", "000001-scale: T=2 H=3" in said and "the recorded bits" in said, said)
    onto = os.path.join(scratch, "onto")
    run(*me, "2", "3", "onto", MOE_LOG_CALLS=onto, MOEC_LIBRARY=LIBRARY)
    said = run(MOEC, "replay", onto)
    check("memory that overlaps is no difference", "cannot be repeated: an output overlaps" in said, said)
    only = os.path.join(scratch, "only")
    said = run(*me, "2", "3", MOE_LOG_CALLS=only, MOE_LOG_ONLY="grow", MOEC_LIBRARY=LIBRARY)
    check("only kernels that are asked for", not os.path.exists(only))
    check("a name of no kernel is told", "MOE_LOG_ONLY is 'grow', and no kernel of that name was called" in said, said)
    said = run(*me, "2", "3", MOE_LOG_CALLS=only, MOE_LOG_ONLY="grow,scale", MOEC_LIBRARY=LIBRARY)
    check("one name of several", said == plain and os.path.exists(only), said)
    said = run(*me, "2", "3", MOE_LOG_CALLS=log, MOEC_LIBRARY=os.path.join(scratch, "none.so"))
    check("without libmoec the call runs, and says why it is not logged", "calls are not logged" in said and plain in said, said)
    said = run(*me, "2", "3", MOE_LOG_CALLS="/proc/nothing", MOEC_LIBRARY=LIBRARY)
    check("a folder that cannot be made", "/proc/nothing: calls are not logged" in said and plain in said, said)


def full_disk():
    """Files of this process end after 100 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def without_room(scratch):
    """Nothing half-written stays, and the message has the file and the reason."""
    log = os.path.join(scratch, "full")
    said = run(sys.executable, os.path.abspath(__file__), MOEC, "call", os.path.join(scratch, "k.so"), "2", "3", before=full_disk,
               MOE_LOG_CALLS=log, MOEC_LIBRARY=LIBRARY)
    check("without room the call runs", said.endswith("0 0.0 0.5 1.0\n"), said)
    check("the file and the reason", f"{log}/000001-scale.in.safetensors: File too large" in said, said)
    check("no half file", not os.listdir(log), str(os.listdir(log)))


def kept(scratch):
    """Of many calls of one process the last ones."""
    log = os.path.join(scratch, "kept")
    run(MOEC, "run", os.path.join(scratch, "k.moe"), "grow", "T=3", "H=4", MOE_LOG_CALLS=log, MOE_LOG_KEEP="2")
    names = sorted(n for n in os.listdir(log) if n.endswith(".in.safetensors"))
    check("the last two of five calls", names == ["000004-grow.in.safetensors", "000005-grow.in.safetensors"], str(names))
    for bad in ("abc", "-1", "99999999999999999999"):
        said = run(MOEC, "run", os.path.join(scratch, "k.moe"), "grow", "T=3", "H=4", MOE_LOG_CALLS=log + bad, MOE_LOG_KEEP=bad)
        check("a number of calls that is none", said.count(f"MOE_LOG_KEEP is '{bad}', and must be a whole number") == 1
              and len(os.listdir(log + bad)) == 11, said)
    check("inout values are those before the call", "the recorded bits" in run(MOEC, "replay", log))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "k.moe"), "w", encoding="utf-8") as f:
            f.write(KERNEL)
        run(MOEC, os.path.join(scratch, "k.moe"), "-o", os.path.join(scratch, "k.so"))
        call = by_jit(scratch)
        by_program(scratch)
        without_room(scratch)
        kept(scratch)
        spoiled(call, scratch)
    return result("call log")


if __name__ == "__main__":
    sys.exit(caller(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:]) if sys.argv[2:3] == ["call"] else main())
