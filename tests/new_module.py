#!/usr/bin/env python3
"""A new module of a model, as CONTRIBUTING.md says: one .moe file and one recipe, with a row for the file, for the field of the
config that chooses it, and for its weight. In a copy of model/ attention gets a gate, y = o * sigmoid(norm(x) w). Then `moec
test` checks its gradients, `moe-train plan` counts its weight, and the gradient of the weight in a model is compared with
differences of the model's loss. Nothing else changes: memory, backward, checkpoint and optimizer follow.

usage: tests/new_module.py BUILD    (made with ninja)"""
import array
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from hooks import read, with_last_row
from train_eval import read_f32, run, write_ids

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "tests", "models", "mixtral")
GATE = "model.layers.%d.self_attn.gate_proj.weight"

KERNELS = """moe 1

// A gate on the result of attention: of each element, by the normed stream.

type act = bf16

dim T, H, A

kernel gate(in x: f32[T, H], in gain: f32[H], in eps: f32, in o: act[T, A], in w: act[H, A] packed both, out y: act[T, A]) {
  scale[t] = rsqrt((sum(h) x[t, h] * x[t, h]) / H + eps)
  n[t, h]  = act(x[t, h] * scale[t] * gain[h])
  s[t, a]  = sum(h) n[t, h] * w[h, a]
  y[t, a]  = act(o[t, a] * sigmoid(s[t, a]))
}

derive (gate_fwd, gate_bwd) from gate
  wrt x +=, gain +=, o, w +=
  save scale as f32, n as act, s as act

test gate { T=9 H=24 A=17; gradcheck }
"""

RECIPE = """/* A gate on the result of attention. */
#include "model/recipe.h"

BufferId recipe_gate(Recipe *m, BufferId x, BufferId o)
{
    if (!m->c->gated)
        return o;
    return out(record(m->r, "gate", ARG(x, x), ARG(gain, recipe_weight(m, MODEL_attn_gain)),
                      ARG(eps, recipe_number(m, "eps", m->c->eps)), ARG(o, o), ARG(w, recipe_weight(m, MODEL_w_gate))),
               "y");
}
"""

ROWS = {
    "sources.def": ("SOURCE(gate)",),
    "config.def": ('FLAG(gated, ALWAYS, "use_attention_gate", 0, "a gate on the result of attention")',),
    "weights.def": ('WEIGHT(w_gate, LAYER, ATTENTION, c->gated, PACKED, IN, 1, H, O, "self_attn.gate_proj.weight", "of the gate")',),
}
CALL = ("recipe_attention.c", "const BufferId o = SHAPED(m, heads, m->sequences * m->positions, c->heads * c->v_dim),",
        "const BufferId o = recipe_gate(m, x, SHAPED(m, heads, m->sequences * m->positions, c->heads * c->v_dim)),")
DECLARED = ("recipe.h", "BufferId recipe_attention(Recipe *m, BufferId x);",
            "BufferId recipe_attention(Recipe *m, BufferId x);\nBufferId recipe_gate(Recipe *m, BufferId x, BufferId o);")


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def done(command, where):
    made = subprocess.run(command, shell=isinstance(command, str), cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        sys.exit(f"new_module: {command}\n{made.stdout}")
    return made.stdout


# ---- the copy ----

def add_module(model):
    write(f"{model}/gate.moe", KERNELS)
    write(f"{model}/recipe_gate.c", RECIPE)
    for name, rows in ROWS.items():
        for row in rows:
            write(f"{model}/{name}", with_last_row(read(f"{model}/{name}"), row))
    for name, old, new in (CALL, DECLARED):
        text = read(f"{model}/{name}")
        if text.count(old) != 1:
            sys.exit(f"new_module: model/{name} has not once: {old}")
        write(f"{model}/{name}", text.replace(old, new))


def compile_room(copy, build, room, more):
    """Objects of all files of a room of the copy; those that are new are compiled like the first."""
    with open(f"{build}/compile_commands.json", encoding="utf-8") as f:
        known = {c["file"]: c["command"].split(" -o ")[0] for c in json.load(f)}
    like = next(command for file, command in sorted(known.items()) if file.startswith(f"{ROOT}/{room}/"))
    like = like.replace(f"-I{ROOT} ", f"-I{copy} -I{ROOT} ")
    files = [f"{copy}/{room}/{name}" for name in sorted(os.listdir(f"{copy}/{room}")) if name.endswith(".c")] + more
    jobs = [subprocess.Popen(f"{like} -O0 -c {file} -o {file}.o", shell=True, cwd=build, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for file in files]
    for job in jobs:
        said = job.communicate()[0]
        if job.returncode:
            sys.exit(f"new_module: {room} does not build\n{said}")
    return [f"{file}.o" for file in files]


def link(copy, build, objects):
    """moe-train of these objects: those of the build with the same symbols stay in their archives."""
    line = done("ninja -t commands bin/moe-train", build).strip().splitlines()[-1]
    line = re.sub(r"trainer/\S*\.o ", "", line).replace("-o bin/moe-train", f"{' '.join(objects)} -o {copy}/moe-train")
    done(line, build)
    return f"{copy}/moe-train"


def build_copy(copy, build):
    for room in ("model", "trainer"):
        shutil.copytree(f"{ROOT}/{room}", f"{copy}/{room}")
    add_module(f"{copy}/model")
    done(["cmake", f"-DFILE={copy}/model/gate.moe", "-DNAME=gate", f"-DOUT={copy}/source_gate.c", "-P",
          f"{ROOT}/cmake/embed.cmake"], copy)
    return link(copy, build, compile_room(copy, build, "model", [f"{copy}/source_gate.c"]) + compile_room(copy, build, "trainer", []))


# ---- a model that has it ----

def write_model(folder, gates):
    """The checkpoint of tests/models with a gate in each layer: gates[l] is [out * in] f32."""
    os.makedirs(folder, exist_ok=True)
    config = json.loads(read(f"{MODEL}/config.json"))
    width = config["hidden_size"]
    write(f"{folder}/config.json", json.dumps(dict(config, use_attention_gate=True)))
    with open(f"{MODEL}/model.safetensors", "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    for layer, gate in enumerate(gates):
        raw = gate.tobytes()
        header[GATE % layer] = {"dtype": "F32", "shape": [width, width], "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + body)


def check_gradients(train, scratch):
    width, layers, h = 8, 2, 2e-3
    gates = [array.array("f", (((i * 37 + l * 11) % 19 - 9) / 9 for i in range(width * width))) for l in range(layers)]
    folder, ids, out = f"{scratch}/gated", f"{scratch}/ids.safetensors", f"{scratch}/gradients.safetensors"
    write_ids(ids, [[(i * i + 3 * i + row) % 11 for i in range(13)] for row in range(2)])
    write_model(folder, gates)
    run(train, "eval", "--model", folder, "--tokens", ids, "--f32", "--gradients", out)
    gradients = read_f32(out)
    for l in range(layers):
        gradient = gradients[GATE % l]
        along = [(g > 0) - (g < 0) for g in gradient]
        losses = []
        for sign in (1, -1):
            moved = list(gates)
            moved[l] = array.array("f", (w + sign * h * a for w, a in zip(gates[l], along)))
            write_model(folder, moved)
            losses.append(run(train, "eval", "--model", folder, "--tokens", ids, "--f32")["loss"])
        slope, recorded = (losses[0] - losses[1]) / (2 * h), sum(abs(g) for g in gradient)
        if not recorded > 0 or abs(slope - recorded) > 0.02 * recorded:
            sys.exit(f"new_module: layer {l}: the gradient says {recorded:.6g}, differences {slope:.6g}")
        print(f"new_module: layer {l}: slope along the gradient's signs {recorded:.6g}, by differences {slope:.6g}")


def attention_parameters(train, config):
    return re.search(r"^ *attention +(\S+ \S?) ", done([train, "plan", "--model", config, "--sequence", "32"], ROOT), re.M).group(1)


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as copy:
        train = build_copy(copy, build)
        print(done([f"{build}/bin/moec", "test", "--quiet", f"{copy}/model/gate.moe"], ROOT).strip())
        config = dict(json.loads(read(f"{ROOT}/examples/models/tiny_gqa.json")))
        counts = []
        for gated in (False, True):
            write(f"{copy}/config.json", json.dumps(dict(config, use_attention_gate=gated)))
            counts.append(attention_parameters(train, f"{copy}/config.json"))
        print(f"new_module: parameters of attention without and with the gate: {counts[0]}, {counts[1]}")
        if counts[0] == counts[1]:
            sys.exit("new_module: the gate's weight is not counted")
        check_gradients(train, copy)


if __name__ == "__main__":
    main()
