"""What the ablations share: runs of moe-train, results as CSV, a drawing by gnuplot, and the tables of the page.

An ablation is a list of variants: a config.json and options of moe-train each. Every variant is trained with every seed. A run that is in
the folder of work already, with the same command, is not made again."""
import argparse
import csv
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# The model that variants change: see model/config.def for the fields.
MODEL = {"model_type": "moe", "vocab_size": 256, "hidden_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 256,
         "rms_norm_eps": 1e-5, "num_attention_heads": 4, "rope_theta": 10000, "n_routed_experts": 32, "num_experts_per_tok": 4,
         "moe_intermediate_size": 32, "n_shared_experts": 1, "router_aux_loss_coef": 0.01, "initializer": "fan_in"}
LAST = 0.2  # share of the steps at the end whose means count as "at the end"
MARK = re.compile(r"(<!-- (\w+): .*? -->\n).*?(<!-- end -->)", re.S)


class Variant:
    """name: in tables; config: fields of config.json that differ; micro_batches: of a step."""

    def __init__(self, name, config, micro_batches=1):
        self.name, self.micro_batches, self.config = name, micro_batches, {**MODEL, **config}


class Column:
    """of: a field of a run's results; form: of a number."""

    def __init__(self, title, of, form="{:.3f}"):
        self.title, self.of, self.form = title, of, form


COLUMNS = [Column("parameters, M", "parameters_m", "{:.2f}"), Column("active, M", "active_m", "{:.3f}"),
           Column("training loss", "loss"), Column("validation loss", "validation"),
           Column("load, largest / mean", "load_max", "{:.2f}"), Column("specialisation", "specialisation"),
           Column("CPU seconds", "seconds", "{:.0f}")]


# ---- options ----

def default_data():
    return [d for d in ["/usr/include", "/usr/share/perl", *sorted(glob.glob("/usr/lib/python3.*"))] if os.path.isdir(d)]


def read_options(name, what):
    p = argparse.ArgumentParser(description=what)
    p.add_argument("--train", default=f"{ROOT}/build/bin/moe-train", help="the program (build/bin/moe-train)")
    p.add_argument("--data", action="append", help="files and folders of text, each also a domain of the analysis "
                   "(/usr/include, /usr/share/perl and /usr/lib/python3.*)")
    p.add_argument("--steps", type=int, default=400, help="optimizer steps of a run (400)")
    p.add_argument("--batch", type=int, default=16, help="sequences of a step; a multiple of 8 (16)")
    p.add_argument("--sequence", type=int, default=128, help="bytes of a sequence (128)")
    p.add_argument("--seeds", type=int, default=3, help="runs of a variant (3)")
    p.add_argument("--work", default=f"{ROOT}/build/ablations/{name}", help="folder of logs and checkpoints (build/ablations/NAME)")
    p.add_argument("--out", default=HERE, help="folder of the page, the CSV files and the drawing (beside the script)")
    p.add_argument("--page", action="store_true", help="train nothing: write page and drawing of the CSV files that are there")
    options = p.parse_args()
    options.data = options.data or default_data()
    return options


# ---- one run ----

def domain(path):
    return re.sub(r"[^A-Za-z0-9.]+", "-", path.strip("/"))


def train_command(o, v, seed, at):
    command = [o.train, "--model", f"{at}/model.json", "--seed", seed, "--steps", o.steps, "--batch", o.batch, "--micro-batches",
               v.micro_batches, "--validation-batches", 32 * v.micro_batches, "--sequence", o.sequence, "--warmup", o.steps // 10,
               "--threads", 1, "--sample", 0, "--log", f"{at}/log", "--load-every", max(o.steps // 100, 1), "--save", f"{at}/model"]
    return list(map(str, command + [x for d in o.data for x in ("--data", d)]))


def analyse_command(o, at):
    command = [o.train, "analyse", "--model", f"{at}/model/step-{o.steps:08d}", "--out", f"{at}/analysis", "--sequence", o.sequence,
               "--threads", 1]
    return list(map(str, command + [x for d in o.data for x in ("--domain", f"{domain(d)}={d}")]))


def call(command):
    """CPU seconds of a command that must succeed."""
    before = os.times()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def folder_name(variant):
    return re.sub("[^a-z0-9.]+", "-", variant.lower())


def run(o, v, seed):
    """Trains and analyses, unless that was done; the folder with the results."""
    at = f"{o.work}/{folder_name(v.name)}-{seed}"
    commands = [train_command(o, v, seed, at), analyse_command(o, at)]
    wanted = {"config": v.config, "commands": commands}
    if os.path.exists(f"{at}/done.json"):
        with open(f"{at}/done.json", encoding="utf-8") as f:
            if json.load(f)["wanted"] == wanted:
                return at
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(at)
    with open(f"{at}/model.json", "w", encoding="utf-8") as f:
        json.dump(v.config, f)
    seconds = call(commands[0])
    call(commands[1])
    shutil.rmtree(f"{at}/model")
    with open(f"{at}/done.json", "w", encoding="utf-8") as f:
        json.dump({"wanted": wanted, "seconds": seconds}, f)
    return at


# ---- its results ----

def read_log(at):
    events = {}
    with open(f"{at}/log", encoding="utf-8") as f:
        for line in f:
            event = json.loads(line)
            events.setdefault(event["event"], []).append(event)
    return events


def at_the_end(events):
    return events[-max(int(LAST * len(events)), 1):]


def mean(values):
    return statistics.fmean(values)


def largest_load(event):
    """The most loaded expert's share over the mean, mean of the layers."""
    return mean(max(s) * len(s) / sum(s) for s in event["shares"])


def results(v, seed, at):
    log = read_log(at)
    with open(f"{at}/done.json", encoding="utf-8") as f:
        seconds = json.load(f)["seconds"]
    with open(f"{at}/analysis/layers.csv", encoding="utf-8") as f:
        layers = list(csv.DictReader(f))
    end = at_the_end(log["step"])
    return {"variant": v.name, "seed": seed, "parameters_m": 1e-6 * log["model"][0]["parameters"],
            "active_m": 1e-6 * log["model"][0]["active"], "train_bytes_m": 1e-6 * log["model"][0]["train_tokens"],
            "loss": mean(e["loss"] for e in end), "validation": log["validation"][-1]["loss"], "bigram": log["validation"][-1]["bigram"],
            "dropped": mean(e["dropped"] for e in end), "load_max": mean(largest_load(e) for e in at_the_end(log["load"])),
            "specialisation": mean(float(r["specialisation"]) for r in layers), "seconds": seconds}


def curve(at, points=30):
    """(step, mean loss of the steps up to it)"""
    steps = read_log(at)["step"]
    each = max(len(steps) // points, 1)
    return [(part[-1]["step"], mean(e["loss"] for e in part)) for part in (steps[i:i + each] for i in range(0, len(steps), each))]


def write_csv(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        w.writeheader()
        w.writerows({k: f"{x:.6g}" if isinstance(x, float) else x for k, x in r.items()} for r in rows)


def read_csv(path):
    with open(path, encoding="utf-8") as f:
        return [{k: x if k == "variant" else float(x) for k, x in r.items()} for r in csv.DictReader(f)]


def train_all(o, name, variants):
    runs, curves = [], []
    for seed in range(1, o.seeds + 1):
        for v in variants:
            began = time.monotonic()
            at = run(o, v, seed)
            runs.append(results(v, seed, at))
            curves += [{"variant": v.name, "seed": seed, "step": step, "loss": loss} for step, loss in curve(at)]
            print(f"{v.name}, seed {seed}: validation {runs[-1]['validation']:.3f}, {time.monotonic() - began:.0f} s", flush=True)
    runs.sort(key=lambda r: [v.name for v in variants].index(r["variant"]))
    write_csv(f"{o.out}/{name}.csv", runs)
    write_csv(f"{o.out}/{name}_curves.csv", curves)
    with open(f"{o.out}/{name}.json", "w", encoding="utf-8") as f:
        settings = {"data": o.data, "steps": o.steps, "batch": o.batch, "sequence": o.sequence, "seeds": o.seeds}
        f.write(json.dumps(settings, indent=2) + "\n")


# ---- the page ----

def of_variant(runs, name):
    return [r for r in runs if r["variant"] == name]


def spread(form, values):
    text = form.format(mean(values))
    return f"{text} ± {form.format(statistics.stdev(values))}" if len(values) > 1 and statistics.stdev(values) > 0 else text


def differences(runs, name, first):
    """Of the validation losses to those of the first variant, seed by seed."""
    return [a["validation"] - b["validation"] for a, b in zip(of_variant(runs, name), of_variant(runs, first))]


def table(runs, columns):
    names = list(dict.fromkeys(r["variant"] for r in runs))
    lines = ["| variant | " + " | ".join(c.title for c in columns) + " | against the first |", "|---" * (len(columns) + 2) + "|"]
    for name in names:
        cells = [spread(c.form, [r[c.of] for r in of_variant(runs, name)]) for c in columns]
        d = differences(runs, name, names[0])
        against = "" if name == names[0] else f"{mean(d):+.3f} ({min(d):+.3f} to {max(d):+.3f})"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {against} |")
    return "\n".join(lines) + "\n"


def settings_text(runs, s):
    tokens = s["steps"] * s["batch"] * s["sequence"]
    return (f"Each run: {s['steps']} steps of {s['batch']} sequences of {s['sequence']} bytes, {tokens / 1e6:.2f} M bytes of the "
            f"{runs[0]['train_bytes_m']:.1f} M in {', '.join(s['data'])}; one thread. Seeds: {s['seeds']}, which change the initial "
            f"weights and the order of the data; the numbers are means ± standard deviations over them. The whole ablation took "
            f"{sum(r['seconds'] for r in runs) / 60:.1f} minutes of CPU time. Bigram model of the same data: "
            f"{runs[0]['bigram']:.3f} nat per byte.\n")


def write_page(o, name, columns):
    runs = read_csv(f"{o.out}/{name}.csv")
    with open(f"{o.out}/{name}.json", encoding="utf-8") as f:
        settings = json.load(f)
    with open(f"{HERE}/{name}.md", encoding="utf-8") as f:
        page = f.read()
    parts = {"settings": settings_text(runs, settings), "table": table(runs, columns)}
    with open(f"{o.out}/{name}.md", "w", encoding="utf-8") as f:
        f.write(MARK.sub(lambda m: m.group(1) + parts[m.group(2)] + m.group(3), page))


# ---- the drawing ----

def data_block(name, rows):
    return f"${name} << EOD\n" + "".join(" ".join(f"{x:.6g}" for x in r) + "\n" for r in rows) + "EOD\n"


def difference_curve(curves, name, first):
    """(step, mean over the seeds of the loss less that of the first variant, which saw the same bytes)"""
    losses = [{(c["seed"], c["step"]): c["loss"] for c in of_variant(curves, n)} for n in (name, first)]
    steps = sorted({step for _, step in losses[0]})
    return [(step, mean(losses[0][at] - losses[1][at] for at in losses[0] if at[1] == step)) for step in steps]


def panels(names, title):
    """Two: the curves, and the validation losses."""
    curves = ", ".join(f"$curve{i} using 1:2 with lines lw 1.5 lc {i + 1} title '{name}'" for i, name in enumerate(names))
    points = ", ".join(f"$runs{i} using 1:2 with points pt 7 ps 0.6 lc {i + 1}, $mean{i} using 1:2 with points pt 2 ps 1.6 lw 2 lc {i + 1}"
                       for i in range(len(names)))
    ticks = ", ".join('"{}" {}'.format("\\n".join(textwrap.wrap(name, 12)), i) for i, name in enumerate(names))
    return (f"set multiplot layout 1,2 title '{title}'\nset lmargin 11\nset xlabel 'step'\nset key below\n"
            f"set ylabel 'training loss less that of `{names[0]}`'\nplot {curves}\n"
            f"unset key\nset bmargin 6\nset xlabel ''\nset ylabel 'validation loss of each seed (cross: mean)'\n"
            f"set offsets 0, 0, graph 0.1, graph 0.1\nset xrange [-0.5:{len(names) - 0.5}]\nset xtics ({ticks})\nplot {points}\n")


def script(runs, curves, title, out):
    names = list(dict.fromkeys(r["variant"] for r in runs))
    text = f"set terminal svg size 1100,460 background rgb 'white' font 'sans,11'\nset output '{out}'\nset grid lc rgb '#dddddd'\n"
    for i, name in enumerate(names):
        losses = [r["validation"] for r in of_variant(runs, name)]
        text += data_block(f"curve{i}", difference_curve(curves, name, names[0]))
        text += data_block(f"runs{i}", [(i, loss) for loss in losses]) + data_block(f"mean{i}", [(i, mean(losses))])
    return text + panels(names, title)


def draw(o, name, title):
    if not shutil.which("gnuplot"):
        print("no drawing: gnuplot is not installed (Debian: gnuplot-nox)")
        return
    text = script(read_csv(f"{o.out}/{name}.csv"), read_csv(f"{o.out}/{name}_curves.csv"), title, f"{o.out}/{name}.svg")
    subprocess.run(["gnuplot"], input=text, encoding="utf-8", check=True)


def draw_load(o, name, variant):
    """The load of each expert over the steps, first seed."""
    short = folder_name(variant)
    if shutil.which("gnuplot"):
        subprocess.run([os.path.abspath(o.train), "plot", f"{short}-1/log", "--load", "all", "--out",
                        f"{os.path.abspath(o.out)}/{name}_load_{short}.svg"], cwd=o.work, check=True, stdout=subprocess.DEVNULL)


# ---- all of it ----

def main(name, title, what, variants, columns, maps=()):
    """variants: a function of the options; columns: of the table; maps: names of variants whose load is drawn."""
    o = read_options(name, what)
    os.makedirs(o.out, exist_ok=True)
    if not o.page:
        train_all(o, name, variants(o))
        for variant in maps:
            draw_load(o, name, variant)
    write_page(o, name, columns)
    draw(o, name, title)
