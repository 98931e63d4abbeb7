#!/usr/bin/env python3
"""Checkpoints of moe-train: what is resumed continues bit for bit, what is damaged is passed over and named, signals save and
stop, and what cannot be written is an error that costs no older checkpoint.

usage: tests/train_checkpoint.py MOE-TRAIN [CASE...]"""
import ctypes
import json
import os
import resource
import shutil
import signal
import struct
import sys
import time

from train_run import TINY, checkpoints, differences, run, run_cases, start, steps_of

TRAIN, BAD = os.path.abspath(sys.argv[1]), []


def expect(good, what):
    if not good:
        BAD.append(what)


def expect_text(text, where):
    expect(text in where, f"`{text}` is not in:\n{where}")


def refuses(code, text, *options):
    expect_text(text, run(TRAIN, *options, code=code)[1])


def trained(folder, steps, *options):
    return run(TRAIN, *TINY, "--save", folder, "--steps", steps, *options)


def ten_and_ten_are_twenty(at):
    trained(f"{at}/whole", 20, "--save-every", 10, "--threads", 2, "--log", f"{at}/whole.log")
    os.mkdir(f"{at}/parts")
    shutil.copytree(f"{at}/whole/step-00000010", f"{at}/parts/step-00000010")
    out, _ = run(TRAIN, "--resume", f"{at}/parts", "--threads", 1, "--log", f"{at}/parts.log")
    expect_text("goes on from", out)
    BAD.extend(differences(f"{at}/whole/step-00000020", f"{at}/parts/step-00000020"))
    whole, parts = steps_of(f"{at}/whole.log"), steps_of(f"{at}/parts.log")
    expect(sorted(parts) == list(range(11, 21)), f"steps {sorted(parts)} instead of 11 to 20")
    for step, line in parts.items():
        for key in ("loss", "norm", "lr", "balance"):
            expect(line[key] == whole[step][key], f"step {step}: {key} {line[key]} instead of {whole[step][key]}")


def a_copy_goes_on_by_itself(at):
    trained(f"{at}/deep/er/a", 4, "--save-every", 1, "--keep", 2)
    before = checkpoints(f"{at}/deep/er/a")
    shutil.copytree(f"{at}/deep/er/a", f"{at}/b")
    out, _ = run(TRAIN, f"--resume={at}/b", "--steps", 6, "--save-every", 1)
    expect_text(f"goes on from {at}/b/step-00000004, saves into {at}/b", out)
    expect(checkpoints(f"{at}/b") == ["step-00000005", "step-00000006"], checkpoints(f"{at}/b"))
    shutil.copytree(f"{at}/b/step-00000006", f"{at}/deep/er/a/copy")
    refuses(1, "copy is not called step-00000006: --save must say where the run goes on", f"--resume={at}/deep/er/a/copy")
    run(TRAIN, f"--resume={at}/deep/er/a/copy/", "--steps", 7, "--save", f"{at}/c")
    expect(checkpoints(f"{at}/c") == ["step-00000007"], checkpoints(f"{at}/c"))
    expect_text("--steps 5: the checkpoint is at step 6, so no step is made", run(TRAIN, f"--resume={at}/b", "--steps", 5)[1])
    expect(checkpoints(f"{at}/deep/er/a") == before, f"the original is {checkpoints(f'{at}/deep/er/a')}, and was {before}")


def data_is_found_from_elsewhere(at):
    """A run that was given relative paths goes on in another folder; what is gone is said to be of the checkpoint."""
    os.mkdir(f"{at}/elsewhere")
    shutil.copy(TINY[3], f"{at}/text")
    near = [TINY[0], TINY[1], *TINY[4:], "--data", "text"]
    run(TRAIN, *near, "--save", "a", "--steps", 2, cwd=at)
    with open(f"{at}/a/step-00000002/options.json", encoding="utf-8") as f:
        expect(json.load(f)["data"] == [f"{os.path.realpath(at)}/text"], "the path of --data is not absolute")
    run(TRAIN, "--resume", f"{at}/a", "--steps", 3, cwd=f"{at}/elsewhere")
    os.rename(f"{at}/text", f"{at}/moved")
    _, err = run(TRAIN, "--resume", f"{at}/a", "--steps", 4, code=1)
    expect_text("/text: No such file or directory\nmoe-train: this --data is from "
                f"{at}/a/step-00000003/options.json: give --data where the same data are now\n", err)
    run(TRAIN, "--resume", "../a", "--steps", 4, "--data", "../moved", cwd=f"{at}/elsewhere")
    with open(f"{at}/gone.json", "w", encoding="utf-8") as f:
        json.dump({"data": ["gone"]}, f)
    _, err = run(TRAIN, "--config", f"{at}/gone.json", code=1)
    expect_text(f"--data gone: No such file or directory\nmoe-train: this --data is from {at}/gone.json\n", err)


def files_are_cut_by_size(at):
    trained(f"{at}/cut", 2, "--file-limit", 0.02)
    with open(f"{at}/cut/step-00000002/model.safetensors.index.json", encoding="utf-8") as f:
        files = set(json.load(f)["weight_map"].values())
    expect(len(files) > 2 and all(os.path.exists(f"{at}/cut/step-00000002/{f}") for f in files), f"files {files}")
    run(TRAIN, "--resume", f"{at}/cut", "--steps", 4, "--file-limit", 4096)
    expect(checkpoints(f"{at}/cut") == ["step-00000002", "step-00000004"], checkpoints(f"{at}/cut"))


def the_last_ones_are_kept(at):
    trained(f"{at}/a", 7, "--save-every", 1, "--keep", 2)
    expect(checkpoints(f"{at}/a") == ["step-00000006", "step-00000007"], checkpoints(f"{at}/a"))


def damaged_ones_are_passed_over(at):
    trained(f"{at}/a", 4, "--save-every", 1, "--keep", 9)
    with open(f"{at}/a/step-00000004/model.safetensors", "r+b") as f:
        f.seek(-1, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))
    os.truncate(f"{at}/a/step-00000003/optimizer.safetensors", 100)
    os.remove(f"{at}/a/step-00000002/state.safetensors")
    shutil.copytree(f"{at}/a", f"{at}/b")
    out, err = run(TRAIN, "--resume", f"{at}/a")
    expect_text("goes on from " + f"{at}/a/step-00000001", out)
    for step, why in ((4, "model.safetensors: its content is not what was written"),
                      (3, "optimizer.safetensors: its content is not what was written"),
                      (2, "state.safetensors: cannot be read")):
        expect_text(f"--resume passes over {at}/a/step-0000000{step}: {at}/a/step-0000000{step}/{why}", err)
    trained(f"{at}/whole", 4)
    BAD.extend(differences(f"{at}/a/step-00000004", f"{at}/whole/step-00000004"))
    shutil.rmtree(f"{at}/b/step-00000001")
    refuses(1, "none of its checkpoints is whole", "--resume", f"{at}/b")
    refuses(1, "its content is not what was written", f"--resume={at}/b/step-00000004")
    for damage in (lambda f: f.truncate(40), lambda f: f.write(b"x" * 40), lambda f: f.truncate(0)):
        with open(f"{at}/a/step-00000004/XXH128SUMS", "r+b") as f:
            damage(f)
        expect_text("passes over", run(TRAIN, "--resume", f"{at}/a", "--steps", 1, "--save", f"{at}/c")[1])
        shutil.rmtree(f"{at}/c", ignore_errors=True)


def checksum(path):
    class Hash(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.restype, function.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    with open(path, "rb") as f:
        data = f.read()
    h = function(data, len(data))
    return f"{h.high:016x}{h.low:016x}"


def edited(folder, field, value):
    """One number of the state is another one, and the sums say so."""
    with open(f"{folder}/state.safetensors", "r+b") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        at = json.loads(f.read(size))[field]["data_offsets"][0]
        f.seek(8 + size + at)
        f.write(struct.pack("<f" if field == "norm_mean" else "<q", value))
    names = sorted(set(os.listdir(folder)) - {"XXH128SUMS"})
    with open(f"{folder}/XXH128SUMS", "w", encoding="utf-8") as f:
        f.write("".join(f"{checksum(f'{folder}/{name}')}  {name}\n" for name in names))


def impossible_states_are_refused(at):
    trained(f"{at}/a", 2)
    whole = f"{at}/a/step-00000002"
    for field, value, text in (("steps", -1, "`steps` is -1"), ("updates", -1, "`updates` is -1, and must be from 0 to 2"),
                               ("updates", 3, "`updates` is 3"), ("skipped", 1, "`skipped` is 1, and must be from 0 to 0"),
                               ("sequences", -7, "`sequences` is -7"), ("norm_mean", float("nan"), "`norm_mean` is nan"),
                               ("norm_mean", -1, "`norm_mean` is -1")):
        shutil.copytree(whole, f"{at}/b/step-00000002")
        edited(f"{at}/b/step-00000002", field, value)
        refuses(1, text, "--resume", f"{at}/b", "--steps", 3)
        shutil.rmtree(f"{at}/b")
    shutil.copytree(whole, f"{at}/b/step-00000002")
    edited(f"{at}/b/step-00000002", "updates", 1)
    run(TRAIN, "--resume", f"{at}/b", "--steps", 3)


def other_options_are_refused(at):
    trained(f"{at}/a", 2)
    for option, value, text in (("batch", 8, "--batch is 8, and"), ("sequence", 8, "--sequence is 8, and"),
                                ("seed", 2, "--seed is 2, and"), ("validation", 0.2, "--validation is 0.2, and")):
        refuses(1, text, "--resume", f"{at}/a", f"--{option}", value)
    refuses(1, "--f32 is true, and", "--resume", f"{at}/a", "--f32")
    for value in (16, 8):  # with the value of the checkpoint's options, which --model has replaced, and without
        refuses(2, f"--experts has no effect beside --model of {at}/a/step-00000002: its config.json says that; --experts is {value}",
                "--resume", f"{at}/a", "--experts", value)
    with open(TINY[1], encoding="utf-8") as f:
        other = json.load(f)
    other["num_hidden_layers"] += 1
    with open(f"{at}/other.json", "w", encoding="utf-8") as f:
        json.dump(other, f)
    refuses(1, "the model's num_hidden_layers is", "--resume", f"{at}/a", "--model", f"{at}/other.json")
    refuses(1, "the data are not those", "--resume", f"{at}/a", "--data", TINY[3], "--data", TINY[1])
    refuses(1, "has step-00000002, and this run is at step 0", *TINY, "--save", f"{at}/a")
    begins = "begins where there is no checkpoint yet"
    refuses(1, f"cannot be read: No such file or directory; `--save {at}/nothing --resume` {begins}", f"--resume={at}/nothing")
    refuses(1, f"has no checkpoint; `--save {at} --resume` {begins}", f"--resume={at}")
    refuses(1, f"name one, as {at}/a/step-00000002", "generate", "--model", f"{at}/a", "--ids", 1)
    refuses(1, "without a folder", *TINY, "--resume")
    run(TRAIN, "--data", TINY[3], "--layers", 1, "--width", 32, "--heads", 2, "--experts", 4, "--save", f"{at}/options", "--steps", 1,
        "--sample", 0, "--validation-batches", 1, "--seed", 2**53)
    refuses(1, f"--seed is {2**53 + 1}, and", "--resume", f"{at}/options", "--seed", 2**53 + 1)
    refuses(1, "--experts is 8, and", "--resume", f"{at}/options", "--experts", 8)
    run(TRAIN, "--resume", f"{at}/options", "--experts", 4, "--steps", 2)
    run(TRAIN, "--resume", f"{at}/a", "--steps", 3, "--lr", 1e-4, "--micro-batches", 1, "--threads", 1)
    expect(checkpoints(f"{at}/a") == ["step-00000002", "step-00000003"], checkpoints(f"{at}/a"))
    refuses(1, "has step-00000003, and this run is at step 2", f"--resume={at}/a/step-00000002")
    for made in (False, True):  # none yet: it begins
        out, _ = run(TRAIN, *TINY, "--resume", "--save", f"{at}/new", "--steps", 1 + made)
        expect(f"--resume: {at}/new has no checkpoint, so the run begins at step 1\n" in out or made, out)
        expect(("goes on from" in out) == made and ("no checkpoint" in out) != made, out)
        out, _ = run(TRAIN, *TINY, "--resume", f"{at}/named", "--save", f"{at}/named", "--steps", 1 + made)
        expect(("goes on from" in out) == made and ("no checkpoint" in out) != made, out)


def stopped(at, *signals):
    """A run that gets signals after its first step; its exit code, stdout, stderr and last step."""
    process = start(TRAIN, *TINY, "--save", f"{at}/a", "--steps", 100000, "--log", f"{at}/log")
    while not os.path.exists(f"{at}/log") or '"event": "step"' not in open(f"{at}/log", encoding="utf-8").read():
        time.sleep(0.01)
    for number in signals:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, max(steps_of(f"{at}/log"))


def signals_save_and_stop(at):
    for number in (signal.SIGINT, signal.SIGTERM):
        os.mkdir(f"{at}/{number}")
        code, out, err, last = stopped(f"{at}/{number}", number)
        expect(code == -number, f"signal {number}: exit code {code}\n{err}")
        expect_text(f"stopped by a signal after step {last}", out)
        expect(checkpoints(f"{at}/{number}/a") == [f"step-{last:08d}"], checkpoints(f"{at}/{number}/a"))
        run(TRAIN, "--resume", f"{at}/{number}/a", "--steps", last + 1)


def interrupted(at, event, *options, **how):
    """What a run without a checkpoint to come says that gets a signal when its log has that event."""
    process = start(TRAIN, *TINY, "--steps", 100000, "--log", f"{at}/log", *options, **how)
    while not os.path.exists(f"{at}/log") or event not in open(f"{at}/log", encoding="utf-8").read():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    expect(process.returncode == -signal.SIGINT, f"exit code {process.returncode}: {err}")
    os.remove(f"{at}/log")
    return out


def nothing_was_saved(at):
    expect_text(": nothing was saved, because there is no --save\n", interrupted(at, '"event": "step"'))
    slow = {"env": dict(os.environ, MOEC_CACHE="off")}  # kernels are compiled for seconds, behind the log's first line
    out = interrupted(at, '"event": "options"', "--save", f"{at}/a", **slow)
    expect_text("stopped by a signal after step 0: no step was made, and nothing was saved\n", out)
    expect(not os.listdir(f"{at}/a"), os.listdir(f"{at}/a"))


def one_run_saves_at_a_time(at):
    process = start(TRAIN, *TINY, "--save", f"{at}/a", "--steps", 100000)
    process.stdout.readline()  # it is open by then
    refuses(1, "another moe-train saves there", *TINY, "--save", f"{at}/a")
    process.terminate()
    process.communicate(timeout=60)


def what_cannot_be_written(at):
    refuses(1, "cannot be made: Not a directory", *TINY, "--save", "LICENSE/a")
    if os.getuid():
        os.mkdir(f"{at}/locked", 0o500)
        refuses(1, "cannot be written: Permission denied", *TINY, "--save", f"{at}/locked")
    else:
        print("train_checkpoint: skipped: root may write everywhere, so no folder is unwritable")
    trained(f"{at}/a", 2)
    largest = max(os.path.getsize(f"{at}/a/step-00000002/{f}") for f in os.listdir(f"{at}/a/step-00000002"))
    _, err = run(TRAIN, "--resume", f"{at}/a", "--steps", 4, "--save-every", 1, code=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1)))
    for step in (3, 4):
        expect_text(f"checkpoint of step {step}: {at}/a/step-0000000{step}.tmp/", err)
    expect_text("cannot be written: File too large", err)
    expect(os.listdir(f"{at}/a") == ["step-00000002"], f"left behind: {os.listdir(f'{at}/a')}")
    trained(f"{at}/whole", 4)
    run(TRAIN, "--resume", f"{at}/a", "--steps", 4)
    expect(checkpoints(f"{at}/a")[-1] == "step-00000004", checkpoints(f"{at}/a"))


def a_full_disk(at):
    os.mkdir(f"{at}/disk")
    if os.getuid() or os.system(f"mount -t tmpfs -o size=6m tmpfs {at}/disk 2>/dev/null"):
        print("train_checkpoint: skipped: a file system of 6 MiB can be mounted by root only")
        return
    try:
        os.mkdir(f"{at}/disk/a")
        _, err = run(TRAIN, *TINY, "--save", f"{at}/disk/a", "--save-every", 1, "--steps", 6, "--keep", 9, code=1)
        expect_text("cannot be written: No space left on device", err)
        kept = checkpoints(f"{at}/disk/a")
        expect(kept == ["step-00000001"], f"kept {kept}")
        expect_text(f"goes on from {at}/disk/a/{kept[0]}", run(TRAIN, "--resume", f"{at}/disk/a", "--save", f"{at}/b")[0])
    finally:
        os.system(f"umount {at}/disk")


def spikes(at):
    """A limit that half of the steps break: those are named, and with `skip` change no weight."""
    log = f"{at}/log"
    common = [*TINY, "--steps", 40, "--spike", 1.0, "--lr", 1e-4]
    refuses(1, "times the mean of the steps before", *common)
    _, err = run(TRAIN, *common, "--on-spike", "skip", "--log", log, "--save", f"{at}/a", "--save-every", 1, "--keep", 99, code=0)
    skipped = [s for s, e in steps_of(log).items() if e["skipped"]]
    expect(skipped and min(skipped) > 20 and len(skipped) < 20, f"skipped {skipped}")
    expect(err.count("moe-train: step ") == len(skipped), err)
    expect_text(f"step {skipped[0]} (sequences {(skipped[0] - 1) * 4} to {skipped[0] * 4 - 1}): the norm of the gradients is", err)
    expect_text("of its square is the gradient of", err)
    for step in range(21, 41):
        same = not any("model" in d or "optimizer" in d
                       for d in differences(f"{at}/a/step-{step - 1:08d}", f"{at}/a/step-{step:08d}"))
        expect(same == (step in skipped), f"step {step}: weights are {'the same' if same else 'others'}, skipped {skipped}")


def numbers_that_are_not_finite(at):
    wild = [*TINY, "--steps", 60, "--lr", 10, "--warmup", 0, "--weight-decay", 10, "--clip", 1e9, "--seed", 2]
    _, err = run(TRAIN, *wild, code=1)
    expect_text("elements that are not finite, the first is number", err)
    expect_text("training has diverged; try", err)
    _, err = run(TRAIN, *wild, "--on-spike", "skip", code=1)
    expect_text("the weights keep their values", err)
    expect_text("10 steps in a row had to be skipped", err)
    large = [*TINY, "--batch", 2, "--micro-batches", 1, "--steps", 30, "--lr", 10, "--warmup", 0]
    expect_text("the norm of the gradients inf; the largest is the gradient of ", run(TRAIN, *large, code=1)[1])


CASES = [ten_and_ten_are_twenty, a_copy_goes_on_by_itself, data_is_found_from_elsewhere, files_are_cut_by_size, the_last_ones_are_kept, damaged_ones_are_passed_over, impossible_states_are_refused, other_options_are_refused,
         signals_save_and_stop, nothing_was_saved, one_run_saves_at_a_time, what_cannot_be_written, a_full_disk, spikes, numbers_that_are_not_finite]


if __name__ == "__main__":
    run_cases("train_checkpoint", CASES, BAD)
