"""The command line of tests/random/run, and what a campaign prints."""
import argparse
import collections
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np

import shrink
from compare import Count
from program import module_text
from session import Setting, Tools, test_program

NOTHING_SAID = 0.1      # the largest share of what is compared that may be in doubt, or NaN
# refusals that the generator may cause: outside a constant axis; a gradient of nothing; `pass` of what is no residual
EXPECTED = re.compile(r"E0308|E0608|E0609: the gradient of `[^r]")


def settings_of(args, seed):
    rng = random.Random(f"setting {seed}")
    return [Setting(rng.choice(args.isas), rng.choice([0, 2, 2, 2]), rng.choice([0, 0, seed + 1]), rng.choice([1, 2, 3]),
                    rng.choice([0, 0, seed + 1]))
            for _ in range(args.settings)]


def here(moec):
    """The instruction sets that this CPU runs."""
    out = subprocess.run([moec, "machines", "host"], capture_output=True, text=True).stdout
    rows = [line.split() for line in out.split("\n")]
    return [r[0] for r in rows if len(r) > 3 and r[3] in ("yes", "best")]


def arguments():
    a = argparse.ArgumentParser(description="Random programs: compiled code and interpreter against an independent evaluator.")
    a.add_argument("--moec", default="build/bin/moec")
    a.add_argument("--seed", type=int, default=1, help="of the first program; a program is made by its seed alone")
    a.add_argument("--programs", type=int, default=10)
    a.add_argument("--kernels", type=int, default=8, help="kernels of a program")
    a.add_argument("--settings", type=int, default=1, help="ways of compiling each program")
    a.add_argument("--isa", default="host", help="instruction sets, with commas; `all`: each that this CPU runs")
    a.add_argument("--machine", help="also plan for this NPU, under the checking emulator")
    a.add_argument("--keep", help="a folder for the programs that fail, made small, one file each")
    a.add_argument("--shrink", type=int, default=30, metavar="SECONDS", help="time to make one failure small")
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--campaign", action="store_true", help="one line for every 50 programs, and all settings at random")
    args = a.parse_args()
    args.isas = here(args.moec) if args.isa == "all" or args.campaign else args.isa.split(",")
    return args


class Report:
    def __init__(self, args):
        self.args, self.count, self.codes, self.failed = args, Count(), collections.Counter(), 0
        self.programs = self.kernels = 0
        self.begin = time.monotonic()

    def program(self, tools, seed):
        settings = settings_of(self.args, seed)
        findings, refused, (module, into) = test_program(tools, seed, self.args.kernels, settings, self.count,
                                                         machine=self.args.machine)
        self.programs, self.kernels = self.programs + 1, self.kernels + len(module.kernels)
        for code, message, text in refused:
            self.codes[code] += 1
            if not EXPECTED.match(f"{code}: {message}"):
                self.failure(seed, f"refused: {code}: {message}", text)
        seen = set()
        for f in findings:
            if (f.kernel, f.kind) not in seen:
                seen.add((f.kernel, f.kind))
                self.failure(seed, str(f), self.small(tools, module, into, f))

    def small(self, tools, module, into, f):
        if f.kernel and f.setting and self.args.shrink:
            return shrink.report(shrink.shrink(tools, module, into, f, self.args.shrink))
        return f"// {f}\n" + module_text(module)

    def failure(self, seed, what, text):
        self.failed += 1
        print(f"FAILED  seed {seed}: {what}", flush=True)
        if self.args.keep:
            os.makedirs(self.args.keep, exist_ok=True)
            path = os.path.join(self.args.keep, f"seed{seed}_{self.failed}.moe")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print(f"        {path}", flush=True)
        elif text:
            print(text, flush=True)

    def line(self):
        c = self.count
        return (f"{self.programs} programs, {self.kernels} kernels, {c.calls} calls ({c.refusals} refused as they should), "
                f"{c.elements} elements ({c.exact} exactly), {c.gradients} gradients; in doubt: {c.loose} elements, "
                f"{c.gradient_doubt} gradients, {c.void} calls; {self.failed} failed, {time.monotonic() - self.begin:.0f} s")

    def says_something(self):
        """Comparisons that cannot fail are no proof."""
        c = self.count
        good = c.loose + c.nothing <= NOTHING_SAID * max(c.elements, 1) and c.void <= NOTHING_SAID * max(c.calls, 1)
        if not good:
            print(f"FAILED  too much is in doubt: {vars(c)}")
        return good


def campaign_head(args):
    commit = subprocess.run(["git", "log", "-1", "--format=%h %cs"], capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    print(f"commit {commit}, {cpu}, {', '.join(args.isas)}", flush=True)


def run(args, first, step):
    report = Report(args)
    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(args.moec, scratch)
        for seed in range(args.seed + first, args.seed + args.programs, step):
            try:
                report.program(tools, seed)
            except Exception:     # noqa: B902: of this test itself; the campaign goes on
                report.failure(seed, "the evaluator ended: " + traceback.format_exc(), "")
            if args.campaign and report.programs % 50 == 0:
                print(report.line(), flush=True)
    return report


def main():
    args = arguments()
    np.seterr(all="ignore")     # infinities and NaN are values here
    if args.campaign:
        campaign_head(args)
    children = []
    for job in range(1, args.jobs):
        pid = os.fork()
        if pid == 0:
            report = run(args, job, args.jobs)
            print(report.line(), flush=True)
            os._exit(report.failed > 0 or not report.says_something())
        children.append(pid)
    report = run(args, 0, args.jobs)
    print(report.line())
    bad = report.failed > 0 or not report.says_something()
    for pid in children:
        bad |= os.waitpid(pid, 0)[1] != 0
    sys.exit(bad)
