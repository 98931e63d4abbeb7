#!/usr/bin/env python3
"""A model trained on text, on text: moe-train eval --data, on text and on files of tokens, and generate --prompt.

usage: tests/train_text.py MOE-TRAIN [CASE...]"""
import json
import os
import sys

from train_eval import write_ids
from train_run import ROOT, TINY, run, run_cases
from train_tokens import write

TRAIN, BAD = sys.argv[1], []


def expect(good, what):
    if not good:
        BAD.append(what)


def close(a, b):
    return abs(a - b) < 1e-5


def refuses(code, text, *options):
    err = run(TRAIN, *options, code=code)[1]
    expect(text in err, f"`{text}` is not in: {err}")


def trained(at):
    """A checkpoint of a model of bytes, with sequences of 16 of its 64 positions."""
    run(TRAIN, *TINY, "--steps", 4, "--save", f"{at}/run")
    return f"{at}/run/step-00000004"


def evaluated(model, *options):
    return json.loads(run(TRAIN, "eval", "--model", model, "--f32", *options)[0])


def every_token_counts_once(at):
    model, text = trained(at), b"Each token of the text is a target, but for the first one.\n" * 9
    for size in (49, 55, 17):  # windows that fill the text, that do not, one
        with open(f"{at}/text", "wb") as f:
            f.write(text[:size])
        tokens = [*text[:size], 0]  # what ends a file of text
        targets, loss = len(tokens) - 1, 0
        for i in range(0, targets, 16):
            begin = min(i, targets - 16)
            write_ids(f"{at}/ids", [tokens[begin:begin + 17]])
            whole = evaluated(model, "--tokens", f"{at}/ids")["loss"]
            if i > begin:  # its last targets: those of the window less those that the one before has
                write_ids(f"{at}/ids", [tokens[begin:begin + 1 + i - begin]])
                loss += 16 * whole - (i - begin) * evaluated(model, "--tokens", f"{at}/ids")["loss"]
            else:
                loss += 16 * whole
        got = evaluated(model, "--data", f"{at}/text")
        expect(got["tokens"] == targets and got["files"] == 1 and got["sequence"] == 16, f"{size} bytes: {got}")
        expect(close(got["loss"], loss / targets), f"{size} bytes: {got}, expected {loss / targets}")
        write(f"{at}/tokens", [tokens[:20], tokens[20:]] if size > 20 else [tokens])
        same = evaluated(model, "--data", f"{at}/tokens")
        expect(same["loss"] == got["loss"] and same["documents"] == 1 + (size > 20), f"as tokens: {same}, as text: {got}")


def which_part(at):
    model = trained(at)
    size = os.path.getsize(f"{ROOT}/LICENSE") + 1
    whole = evaluated(model, "--data", f"{ROOT}/LICENSE")
    expect(whole["tokens"] == size - 1, f"{whole} of {size} tokens")
    kept = evaluated(model, "--data", f"{ROOT}/LICENSE", "--validation", 0.1)
    expect(kept["tokens"] == int(0.1 * size) - 1 and "files" not in kept, f"{kept} of {size} tokens")
    longer = evaluated(model, "--data", f"{ROOT}/LICENSE", "--sequence", 64)
    expect(longer["sequence"] == 64 and not close(longer["loss"], whole["loss"]), f"{longer}")
    os.mkdir(f"{at}/folder")
    for name in "ab":
        with open(f"{at}/folder/{name}", "w", encoding="utf-8") as f:
            f.write("some text, " * 20)
    got = evaluated(model, "--data", f"{at}/folder", "--data", f"{ROOT}/LICENSE")
    expect(got["files"] == 3 and got["tokens"] == size + 2 * 221 - 1, f"{got}")


def what_eval_refuses(at):
    model, small = f"{ROOT}/examples/models/tiny.json", f"{at}/small"
    with open(small, "w", encoding="utf-8") as f:
        f.write("small")
    for options, text in ((["--data", small, "--tokens", small], "--data and --tokens are two sources"),
                          (["--data", small, "--logits", "x"], "are of the sequences of --tokens, not of --data"),
                          (["--tokens", small, "--sequence", 8], "have no effect without --data"),
                          ([], "--model is needed, and --data or --tokens")):
        refuses(2, text, "eval", "--model", model, *options)
    refuses(1, f"--tokens {ROOT}/LICENSE: ", "eval", "--model", model, "--tokens", f"{ROOT}/LICENSE")
    refuses(1, "it takes safetensors with `ids`, I32 [sequences, positions + 1]: text and files of tokens are given with --data",
            "eval", "--model", model, "--tokens", f"{ROOT}/LICENSE")
    refuses(1, "6 tokens in 1 files or documents, and 65 (--sequence + 1) are needed", "eval", "--model", model, "--data", small)
    refuses(1, "--sequence is larger than max_position_embeddings", "eval", "--model", model, "--data", small, "--sequence", 65)
    refuses(1, "vocab_size of --model must be at least 256", "eval", "--model", f"{ROOT}/tests/models/deepseek_v3", "--data", small)
    write(f"{at}/beyond", [[256] * 100])
    refuses(1, "is 256, and the vocabulary has 256", "eval", "--model", trained(at), "--data", f"{at}/beyond")


def text_is_continued(at):
    """As its bytes are as tokens; the first part is the prompt as it was given."""
    model, prompt = trained(at), "Grüße, a "
    how = ["generate", "--model", model, "--length", 30, "--temperature", 1, "--seed", 3]
    out = run(TRAIN, *how, "--prompt", prompt)[0]
    ids = json.loads(run(TRAIN, *how, "--ids", ",".join(map(str, prompt.encode())))[0])["ids"]
    shown = "".join(chr(i) if i in (9, 10) or 32 <= i < 127 else f"\\x{i:02x}" for i in ids[len(prompt.encode()):])
    expect(out == prompt + shown + "\n", f"{out!r} of {ids}")
    # --sample of training reads the prompt in the same way
    sampled = run(TRAIN, *TINY, "--steps", 1, "--sample", 3, "--prompt", prompt)[0]
    expect(prompt in sampled, sampled)


def what_generate_refuses(at):
    tiny = ["generate", "--model", f"{ROOT}/examples/models/tiny.json"]
    refuses(2, "--model is needed, and --prompt or --ids", *tiny)
    refuses(2, "--prompt and --ids are two beginnings", *tiny, "--prompt", "a", "--ids", 1)
    refuses(2, "--prompt must not be empty", *tiny, "--prompt", "")
    refuses(1, "--prompt and --length 60 are more tokens than max_position_embeddings of --model, 64", *tiny, "--prompt", "12345", "--length", 60)
    refuses(1, "--prompt: the vocabulary of --model has 32768 tokens and is not the 256 bytes of text: give tokens with --ids",
            "generate", "--model", f"{ROOT}/examples/models/pilot.json", "--prompt", "a")


CASES = [every_token_counts_once, which_part, what_eval_refuses, text_is_continued, what_generate_refuses]


if __name__ == "__main__":
    run_cases("train_text", CASES, BAD)
