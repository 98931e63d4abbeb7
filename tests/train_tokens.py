#!/usr/bin/env python3
"""Files of tokens: the same windows as text of the same tokens, documents, several files, a file larger than memory, what is refused;
and scripts/tokenize, where the Python package `tokenizers` is installed.

usage: tests/train_tokens.py MOE-TRAIN"""
import importlib.util
import json
import os
import re
import resource
import socket
import struct
import subprocess
import sys

from train_run import ROOT, TINY, differences, run, run_cases, steps_of

TRAIN, BAD = sys.argv[1], []
TYPES = {"uint8": (1, "B"), "uint16": (8, "H"), "int32": (4, "i"), "int64": (5, "q")}
OPTIONS = [*TINY[:2], *TINY[4:], "--steps", 4]


def expect(good, what):
    if not good:
        BAD.append(what)


def index(documents, code, width, begins=None):
    n, at = len(documents), 0
    if begins is None:
        begins = []
        for d in documents:
            begins.append(at)
            at += d * width
    return b"MMIDIDX\0\0" + struct.pack(f"<QBQQ{n}i{n}q{n + 1}q", 1, code, n, n + 1, *documents, *begins, *range(n + 1))


def write(prefix, documents, kind="uint16"):
    code, letter = TYPES[kind]
    with open(prefix + ".bin", "wb") as f:
        for d in documents:
            f.write(struct.pack(f"<{len(d)}{letter}", *d))
    with open(prefix + ".idx", "wb") as f:
        f.write(index([len(d) for d in documents], code, struct.calcsize(letter)))


def losses(at, data, *options):
    run(TRAIN, *OPTIONS, "--data", data, "--log", f"{at}/log", *options)
    return [e["loss"] for e in steps_of(f"{at}/log").values()]


def refuses(text, *options):
    err = run(TRAIN, *OPTIONS, *options, code=1)[1]
    expect(text in err, f"`{text}` is not in: {err}")


def as_text(at):
    with open(f"{ROOT}/LICENSE", "rb") as f:
        tokens = [*f.read(), 0]  # what ends a file of text
    want = losses(at, f"{ROOT}/LICENSE")
    for kind in TYPES:
        write(f"{at}/{kind}", [tokens], kind)
        expect(losses(at, f"{at}/{kind}.bin") == want, f"{kind}: other losses than of text")
    cut = [tokens[i:i + 500] for i in range(0, len(tokens), 500)]
    write(f"{at}/cut", cut)
    out, _ = run(TRAIN, *OPTIONS, "--data", f"{at}/cut")
    expect(f"data: {len(cut)} documents, 0.01 M tokens to train on" in out and "nat/token" in out, out)
    write(f"{at}/first", cut[:9])
    write(f"{at}/second", cut[9:])
    out, _ = run(TRAIN, *OPTIONS, "--data", f"{at}/first", "--data", f"{at}/second", "--sample", 5)
    expect(f"data: {len(cut)} documents" in out, out)
    sample = json.loads(out.splitlines()[-1])["ids"]
    expect(sample[:8] == tokens[:8] and len(sample) == 13, f"sample {sample}")


def resumed(at):
    """Two runs of different types side by side, so that the position counts sequences of both."""
    write(f"{at}/a", [[i % 250 for i in range(3000)], [i * i % 250 for i in range(900)]])
    write(f"{at}/b", [[i * 7 % 250 for i in range(2000)]] * 2, "int32")
    data = ["--data", f"{at}/a", "--data", f"{at}/b", "--steps", 20]
    run(TRAIN, *OPTIONS, *data, "--save", f"{at}/whole", "--save-every", 10)
    run(TRAIN, f"--resume={at}/whole/step-00000010", "--save", f"{at}/parts")
    BAD.extend(differences(f"{at}/whole/step-00000020", f"{at}/parts/step-00000020"))
    write(f"{at}/b", [[i * 7 % 250 for i in range(2000)]] * 3, "int32")
    refuses("the data are not those", f"--resume={at}/whole", *data)


def every_window_once(at):
    """Tokens that name their window: an epoch has each."""
    size, windows = 64, 32
    write(f"{at}/a", [[w for w in range(windows) for _ in range(size)]])
    # A step of one window that is one token repeated has another loss for each token, and the same for a token seen again.
    options = ["--sequence", 16, "--batch", 1, "--micro-batches", 1, "--lr", 0, "--weight-decay", 0]
    seen = losses(at, f"{at}/a", *options, "--steps", 200, "--validation", 0.5)
    again = losses(at, f"{at}/a", *options, "--steps", 200, "--validation", 0.5)
    other = losses(at, f"{at}/a", *options, "--steps", 200, "--validation", 0.5, "--seed", 2)
    expect(seen == again and seen != other, "the order does not follow from the seed")


def larger_than_memory(at):
    """A file with a hole: it takes no room on the disk, and reads as zeros."""
    sizes = [1 << 30] * 32  # of 2 bytes: 64 GiB
    try:
        with open(f"{at}/a.bin", "wb") as f:
            f.truncate(2 * sum(sizes))
    except OSError as e:
        print(f"train_tokens: skipped: no file of 64 GiB here: {e}")
        return
    with open(f"{at}/a.idx", "wb") as f:
        f.write(index(sizes, 8, 2))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    out, _ = run(TRAIN, *OPTIONS, "--data", f"{at}/a")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    expect("M tokens to train on" in out, out)
    expect(peak < max(2 << 20, before + (1 << 20)), f"it took {peak >> 10} MiB")


def refused(at):
    good = index([3000], 8, 2)
    with open(f"{at}/a.bin", "wb") as f:
        f.write(bytes(6000))
    for text, data in (("must begin with MMIDIDX", b"x" + good[1:]), ("must begin with MMIDIDX", good[:20]),
                       ("must begin with MMIDIDX", good[:9] + b"\2" + good[10:]),
                       ("tokens have type 6: must be 1 (uint8)", good[:17] + b"\6" + good[18:]),
                       ("is shorter than its numbers", good[:-1]), ("is shorter than its numbers", index([], 8, 2)),
                       ("is shorter than its numbers", good[:18] + b"\xff" * 8 + good[26:]),
                       ("has 2999 tokens, and the .bin beside it 3000", index([2999], 8, 2)),
                       ("sequence 1 does not begin where", index([1500, 1500], 8, 2, [0, 2998])),
                       ("sequence 0 does not begin where", index([-1], 8, 2, [0])),
                       ("document 1 does not begin behind", good[:-8] + struct.pack("<q", 2))):
        with open(f"{at}/a.idx", "wb") as f:
            f.write(data)
        refuses(text, "--data", f"{at}/a")
    os.remove(f"{at}/a.idx")
    refuses("a.idx: cannot be read: No such file", "--data", f"{at}/a.bin")
    write(f"{at}/b", [[1] * 3000 + [256] * 3000])
    _, err = run(TRAIN, *OPTIONS, "--data", f"{at}/b", "--steps", 50, code=1)
    said = [line for line in err.splitlines() if "warning" not in line]
    place = re.fullmatch(f"moe-train: {re.escape(at)}/b.bin: token ([0-9]+) is 256, and the vocabulary has 256: must be from 0 to 255", said[0])
    expect(len(said) == 1 and place and 3000 <= int(place[1]) < 6000, err)
    refuses("text and files of tokens cannot be mixed", "--data", f"{at}/b", "--data", f"{ROOT}/LICENSE")
    write(f"{at}/c", [[1] * 10] * 3)
    refuses("the data is too small", "--data", f"{at}/c")


def whole_lines(at):
    """The loader tells of a token while the first thread prints: its message is one write, which such a socket keeps apart."""
    write(f"{at}/b", [[256] * 3000])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            subprocess.run([TRAIN, *map(str, OPTIONS), "--data", f"{at}/b"], stdout=subprocess.DEVNULL, stderr=theirs, check=False)
        said = list(iter(lambda: ours.recv(4096).decode(), ""))
    expect(len(said) == 1 and all(s.startswith("moe-train: ") and s.endswith("\n") for s in said), said)


def tokenized(at):
    if not importlib.util.find_spec("tokenizers"):
        print("train_tokens: skipped: scripts/tokenize, because the Python package `tokenizers` is not installed")
        done = subprocess.run([f"{ROOT}/scripts/tokenize", "--tokenizer", "x", "--decode", "1"], capture_output=True, encoding="utf-8")
        expect("is not installed (pip install tokenizers)" in done.stderr and done.returncode == 1, done.stderr)
        return
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train([f"{ROOT}/LICENSE"], trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], show_progress=False))
    t.save(f"{at}/tokenizer.json")
    tool = [sys.executable, f"{ROOT}/scripts/tokenize", "--tokenizer", f"{at}/tokenizer.json"]
    texts = [f"{ROOT}/LICENSE", f"{ROOT}/README.md"]
    out = subprocess.run([*tool, "--out", f"{at}/a", "--end", "<end>", *texts], check=True, capture_output=True, encoding="utf-8").stdout
    vocab = t.get_vocab_size()
    expect(f"2 documents" in out and f"--vocab {vocab}" in out, out)
    out, _ = run(TRAIN, "--layers", 1, "--width", 32, "--heads", 2, "--experts", 4, "--expert-width", 16, "--shared-width", 16,
                 "--sequence", 32, "--batch", 2, "--steps", 3, "--vocab", vocab, "--data", f"{at}/a", "--sample", 3,
                 "--validation-batches", 1)
    ids = json.loads(out.splitlines()[-1])["ids"]
    text = subprocess.run([*tool, "--decode", "-"], input=json.dumps({"ids": ids[:8]}), check=True, capture_output=True,
                          encoding="utf-8").stdout
    with open(f"{ROOT}/LICENSE", encoding="utf-8") as f:
        expect(f.read().startswith(text.rstrip("\n")), f"{ids[:8]} is {text!r}")


CASES = [as_text, resumed, every_window_once, larger_than_memory, refused, whole_lines, tokenized]


if __name__ == "__main__":
    run_cases("train_tokens", CASES, BAD)
