#!/usr/bin/env python3
"""Bad input never crashes or hangs the compiler, and never leaves an output file.   usage: bad_input.py MOEC [--asan]

Truncated and mutated copies of a real file must end with 0 or 1 in bounded time and memory; the named cases must end
with the status and the words that stand beside them."""
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC, ASAN = sys.argv[1], "--asan" in sys.argv
HEADER = "moe 1\ndim T\n"


def kernel(rhs):
    return HEADER + "kernel f(in x: f32[T], out y: f32[T]) { y[t] = " + rhs + " }\n"


CASES = [  # name, text or bytes, words of the message
    ("empty", b"", "error[E0107]"),
    ("only white space", b" \n\t\n", "error[E0107]"),
    ("no version", "dim T\n", "error[E0107]"),
    ("other version", "moe 2\n", "error[E0108]"),
    ("garbage", bytes(random.Random(1).randrange(256) for _ in range(5000)), "error["),
    ("zero bytes", b"moe 1\n\0\0\0", "error["),
    ("not UTF-8", b"moe 1\ndim T // \xff\xfe\n", "error[E0103]"),
    ("parentheses", kernel("(" * 100000 + "x[t]" + ")" * 100000), "error[E0109]"),
    ("open parentheses", kernel("(" * 100000), "error["),
    ("unary minus", kernel("-" * 100000 + "x[t]"), "error["),
    ("nested sums", kernel("".join(f"sum(i{n} where i{n} < T) " for n in range(5000)) + "x[t]"), "error["),
    ("nested ifs", kernel("if(t < 1, " * 5000 + "1" + ", 0)" * 5000), "error[E0109]"),
    ("braces", HEADER + "kernel f(" + "{" * 100000, "error["),
    ("huge integer", kernel("x[t] * 99999999999999999999999999"), "error[E0105]"),
    ("huge float", kernel("x[t] * 1e999999"), "error[E0105]"),
    ("huge constant dimension", "moe 1\ndim T = 99999999999999999999\n", "error[E0105]"),
    ("huge rank", HEADER + "kernel f(in x: f32[" + ", ".join(["T"] * 500) + "], out y: f32[T]) { y[t] = 1.0 }\n",
     "error[E0315]"),
    ("use of itself", 'moe 1\nuse "case.moe"\n', "error["),
    ("use of a missing file", 'moe 1\nuse "nowhere.moe"\n', "error[E0901]"),
    ("use of a folder", 'moe 1\nuse "."\n', "error[E0901]"),
    ("unknown function", kernel("blah(x[t])"), "error[E0203]"),
    ("function that calls itself", HEADER + "fn f(a) = f(a)\n" + kernel("f(x[t])")[len(HEADER):], "error[E0213]"),
    ("functions that grow", HEADER + "fn f0(a) = a + a * a\n" +
     "".join(f"fn f{n}(a) = f{n-1}(f{n-1}(a)) + f{n-1}(a)\n" for n in range(1, 40)) +
     kernel("f39(x[t])")[len(HEADER):], "error["),
]


def limits():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not ASAN:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def moec(arguments, folder, **options):
    try:
        done = subprocess.run([MOEC] + arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=40, preexec_fn=limits, **options)
    except subprocess.TimeoutExpired:
        return None, "did not end"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def compile_text(text, folder):
    """Compiles text to a .so; returns status, message and whether a file was left."""
    with open(os.path.join(folder, "case.moe"), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    status, output = moec(["case.moe", "-o", "case.so"], folder)
    left = sorted(set(os.listdir(folder)) - {"case.moe"})
    for name in left:
        os.unlink(os.path.join(folder, name))
    return status, output, left


def named_case(case):
    name, text, words = case
    with tempfile.TemporaryDirectory() as folder:
        status, output, left = compile_text(text, folder)
    wrong = []
    if status != 1:
        wrong.append(f"status {status}")
    if words not in output:
        wrong.append(f"no `{words}`")
    if left:
        wrong.append(f"left {left}")
    return f"{name}: {', '.join(wrong)}\n{output[:2000]}" if wrong else None


def survives(text):
    """A damaged file: any verdict will do, a crash or a hang will not."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "case.moe"), "wb") as f:
            f.write(text)
        status, output = moec(["case.moe", "--emit=ir"], folder)
    return None if status in (0, 1) else f"status {status} for\n{text!r}\n{output[:2000]}"


def damaged():
    with open(os.path.join(ROOT, "examples", "moe_ffn.moe"), "rb") as f:
        text = f.read()
    rng = random.Random(5)
    for end in range(0, len(text), 53 if ASAN else 11):
        yield text[:end]
    tokens = [b"(", b")", b"[", b"]", b"{", b"}", b",", b"sum", b"@", b"r", b"where", b"1", b"=", b"+=", b"T", b"->"]
    for _ in range(40 if ASAN else 200):
        at = rng.randrange(len(text))
        yield text[:at] + rng.choice(tokens) + text[at + rng.randrange(4):]


def files_case():
    """Files that cannot be read or written."""
    example = os.path.join(ROOT, "examples", "moe_ffn.moe")
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (["nowhere.moe", "-o", "a.so"], [".", "-o", "a.so"], [example, "-o", "no/such/folder/a.so"],
                          [example, "-o", "/proc/a.so"]):
            status, output = moec(arguments, folder)
            if status != 1 or os.listdir(folder):
                yield f"{arguments}: status {status}, left {os.listdir(folder)}\n{output}"
        if os.geteuid() != 0:
            with open(os.path.join(folder, "secret.moe"), "w") as f:
                f.write("moe 1\n")
            os.chmod(f.name, 0)
            status, output = moec(["secret.moe", "-o", "a.so"], folder)
            if status != 1:
                yield f"unreadable file: status {status}\n{output}"
            os.unlink(f.name)

        def full():
            limits()
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run([MOEC, example, "--no-cache", "-o", "a.so"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=full, timeout=40)
        if done.returncode != 1 or os.listdir(folder):
            yield f"full disk: status {done.returncode}, left {os.listdir(folder)}\n{done.stdout.decode()}"


def main():
    wrong = list(files_case())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        named = list(pool.map(named_case, CASES))
        texts = list(damaged())
        others = list(pool.map(survives, texts))
    wrong += [w for w in named + others if w]
    for w in wrong:
        print("FAILED ", w)
    print(f"bad input: {len(CASES)} cases, {len(texts)} damaged files, {len(wrong)} wrong")
    sys.exit(len(wrong) > 0)


main()
