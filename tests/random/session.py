"""One program of several kernels: refused kernels out, compiled, called, judged."""
import os
import random
import re
import resource
import subprocess
from dataclasses import replace

import call
import compare
import gradient
from data import Case
from evaluate import Evaluator
from generate import make_module
from program import Param, kernel_text, module_text

ERROR = re.compile(r":(\d+):\d+: error\[(E\d+)\]: (.*)")


class Setting:
    """How kernels are compiled and called."""

    def __init__(self, target="host", level=2, schedule_seed=0, threads=1, clauses=0):
        self.target, self.level, self.schedule_seed, self.threads = target, level, schedule_seed, threads
        self.clauses = clauses      # seed of schedule blocks in the text, or 0

    def options(self):
        return [f"--target={self.target}", f"-O{self.level}", f"--schedule-seed={self.schedule_seed}", "--no-cache",
                "--verify-each"]

    def __str__(self):
        return (f"{self.target} -O{self.level} --schedule-seed={self.schedule_seed} threads {self.threads}" +
                (f" clauses {self.clauses}" if self.clauses else ""))


class Finding:
    def __init__(self, kind, text, seed, kernel="", setting=None, case_seed=0, who=""):
        self.kind, self.text, self.seed, self.kernel = kind, text, seed, kernel
        self.setting, self.case_seed, self.who = setting, case_seed, who

    def __str__(self):
        return f"{self.kind}: {self.kernel} by {self.who} ({self.setting}), inputs {self.case_seed}: {self.text}"


class Tools:
    def __init__(self, moec, scratch, seconds=10):
        self.moec, self.scratch, self.seconds = moec, scratch, seconds
        self.libmoec = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(moec))), "lib", "libmoec.so")

    def run(self, *words):
        """60 s of processor time: other work on the machine makes no hang. Of what succeeds no warnings."""
        try:
            done = subprocess.run([self.moec, *words], capture_output=True, text=True, timeout=1200, errors="replace",
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
            return done.returncode, done.stdout + (done.stderr if done.returncode else "")
        except subprocess.TimeoutExpired:
            return -1, "no end after 1200 s"

    def write(self, source):
        path = os.path.join(self.scratch, f"random{os.getpid()}.moe")
        with open(path, "w", encoding="utf-8") as f:
            f.write(source)
        return path

    def compile(self, source, setting):
        """(path of the .so, None), or (None, the message)."""
        library = os.path.join(self.scratch, f"random{os.getpid()}.so")
        status, out = self.run(self.write(source), "-o", library, *setting.options())
        return (library, None) if status == 0 else (None, f"exit {status}: {out[:2000]}")


def without_refused(tools, module):
    """The module without the kernels that the front end refuses, and (code, message, text) of each of those."""
    refused = []
    while module.kernels:
        source = module_text(module)
        status, out = tools.run("check", tools.write(source))
        errors = ERROR.findall(out)
        if status != 1 or not errors:
            return module, refused, None if status == 0 else f"check: exit {status}: {out[:2000]}"
        gone = set()
        for line, code, message in errors:
            name = kernel_at(module, source, int(line))
            if code.startswith("E06") and module.kernel(name).derive:
                module = module.with_kernel(replace(module.kernel(name), derive=None))
                refused.append((code, message, ""))
            elif name not in gone:
                gone.add(name)
                refused.append((code, message, kernel_text(module.kernel(name))))
        module = replace(module, kernels=tuple(k for k in module.kernels if k.name not in gone))
    return module, refused, None


# ---- schedules ----

def with_schedules(tools, module, setting):
    """The text of the module, with random clauses of the space that the compiler says it has."""
    source = module_text(module)
    if not setting.clauses:
        return source
    rng = random.Random(setting.clauses)
    _, space = tools.run("explain", "--space", f"--target={setting.target}", tools.write(source))
    chosen = {}
    for kernel, lines in re.findall(r"^schedule (\w+) \{\n(.*?)^\}", space, re.M | re.S):
        chosen[kernel] = [pick_value(rng, line.strip(" /")) for line in lines.split("\n") if line.strip() and rng.random() < 0.4]
    while any(chosen.values()):
        blocks = [(kernel, clauses) for kernel, clauses in chosen.items() if clauses]
        text = source + "".join(f"schedule {kernel} {{ " + " ".join(clauses) + " }\n" for kernel, clauses in blocks)
        status, out = tools.run("check", tools.write(text))
        if status == 0:
            return text
        lines = {int(line) - source.count("\n") - 1 for line, _, _ in ERROR.findall(out)} & set(range(len(blocks)))
        for n in lines or range(len(blocks)):       # two clauses may contradict each other: one is left, then none
            kernel, clauses = blocks[n]
            chosen[kernel] = clauses[:1] if len(clauses) > 1 else []
    return source


def pick_value(rng, clause):
    return re.sub(r"\?\{([^}]*)\}", lambda m: rng.choice(m.group(1).split(",")).strip(), clause)


def kernel_at(module, source, line):
    before = source.split("\n")[:line]
    for text in reversed(before):
        found = re.match(r"(?:kernel (\w+)\(|derive \([\w, ]+\) from (\w+))", text)
        if found:
            return found.group(1) or found.group(2)
    return module.kernels[0].name


# ---- calls ----

class Run:
    """A kernel with one set of inputs: what is expected, and the calls that were made."""

    def __init__(self, module, kernel, into, case_seed, scale=1, dims=None):
        self.kernel, self.case_seed = kernel, case_seed
        self.case = Case(module, kernel, into, case_seed, scale, kernel.derive is not None, dims)
        self.expected = Evaluator(module, kernel, self.case.dims).run(self.case.values(), self.case.routes)
        if self.case.breaks_rule:       # refused before anything else is looked at
            self.expected.faults, self.expected.maybe = {"rule"}, set()


def forward_params(kernel):
    """Parameters of NAME_fwd: those of the kernel, then what is saved."""
    saved = []
    for name, elem, held in kernel.derive.saves:
        if held:
            continue
        q = next(q for q in kernel.equations if q.name == name)
        spaces = dict(q.spaces)
        saved.append(Param("out", name, elem, tuple(spaces[s.data] for s in q.subscripts)))
    return kernel.params + tuple(saved)


def calls_of(arena, module, run, setting):
    """The kernel on one thread and on several, and by the interpreter."""
    made = []
    for threads, interpret in ((-1, False), (-setting.threads, False), (-1, True)):
        if threads != -1 or setting.threads != 1 or interpret or not made:
            made.append(call.Call(arena, module, run.kernel.name, run.kernel.params, run.case, threads, interpret))
    return made


def who(c):
    return "interpreter" if c.interpret else f"compiled code, {-c.threads} threads"


def blamed(module, error):
    """The kernel that an error of the compiler names, else the only one, else none."""
    for name in re.findall(r"\b(k\d+)(?:_fwd|_bwd|_later)?\b", error):
        if any(k.name == name for k in module.kernels):
            return name
    return module.kernels[0].name if len(module.kernels) == 1 else ""


def test_module(tools, module, into, seed, setting, case_seeds, count, scale=1, dims=None):
    """Findings of a module that the front end takes. A kernel that does not compile is left out."""
    findings = []
    library, error = tools.compile(with_schedules(tools, module, setting), setting)
    while error:
        name = blamed(module, error)
        findings.append(Finding("compile", error, seed, name, setting, case_seeds[0], "compiler"))
        module = replace(module, kernels=tuple(k for k in module.kernels if k.name != name))
        if not name or not module.kernels:
            return findings
        library, error = tools.compile(with_schedules(tools, module, setting), setting)
    arena, made, pairs = call.Arena(), [], gradient.pairs_of(library)
    for kernel in module.kernels:
        for case_seed in case_seeds:
            run = Run(module, kernel, into[kernel.name], case_seed, scale, dims)
            for c in calls_of(arena, module, run, setting):
                made.append((run, c, lambda run=run, c=c: compare.judge(c, run.expected, count)))
            if kernel.derive and not run.expected.faults and not run.expected.maybe and not run.expected.void:
                made += gradient.calls(arena, module, run, setting, count, pairs)
    return findings + run_all(tools, arena, library, module_text(module), made, seed, setting)


def run_all(tools, arena, library, source, made, seed, setting):
    findings, left = [], made
    while left:
        failed, text = call.run_calls(arena, tools.libmoec, library, source, [c for _, c, _ in left], {"OMP_WAIT_POLICY": "passive"},
                                      tools.seconds)
        done = next((i for i, (_, c, _) in enumerate(left) if c is failed), len(left))
        for run, c, judge in left[:done]:
            found = judge()
            if found:
                findings.append(Finding(*found, seed, run.kernel.name, setting, run.case_seed, f"{c.name}, {who(c)}"))
        if failed is not None:
            run, c, _ = left[done]
            kind = "crash" if "killed" in text else "hang" if "no end" in text else "call"
            findings.append(Finding(kind, text, seed, run.kernel.name, setting, run.case_seed, f"{c.name}, {who(c)}"))
        left = left[done + 1:]
    return findings


def unreadable(tools, module):
    """Why what the compiler prints is not the language: equations after the front end, and derived kernels; or None."""
    path = tools.write(module_text(module))
    for words in (["--emit=ir", path], ["grad", path]):
        if words[0] == "grad" and not any(k.derive for k in module.kernels):
            continue
        status, text = tools.run(*words)
        if status == 0:
            again = path + ".printed.moe"
            with open(again, "w", encoding="utf-8") as f:
                f.write(text)
            status, text = tools.run("check", again)
        if status:
            return f"moec {words[0]}: exit {status}: {text[:1500]}"
    return None


def printed(tools, module, seed):
    """Findings of kernels whose printed form does not compile."""
    if not unreadable(tools, module):
        return []
    alone = [(k.name, unreadable(tools, replace(module, kernels=(k,)))) for k in module.kernels]
    return [Finding("printed", text, seed, name, Setting(), 0, "compiler") for name, text in alone if text]


def emulated(tools, module, into, seed, machine):
    """The plan for an NPU under the checking emulator, against the interpreter, at sizes of each kernel."""
    blocks = ""
    for kernel in module.kernels:
        dims = Case(module, kernel, into[kernel.name], seed * 100).dims
        free = {d.name for d in module.dims if d.constant < 0}
        blocks += f"test {kernel.name} {{ {' '.join(f'{n}={v}' for n, v in dims.items() if n in free)}; routing empty(30%) }}\n"
    path = tools.write(module_text(module) + blocks)
    status, text = tools.run("test", "--quiet", "--machine", machine, "--emulate=check", path)
    return [Finding("emulated", f"exit {status}: {text[:2000]}", seed)] if status else []


def test_program(tools, seed, kernels, settings, count, cases=2, machine=None):
    """(findings, refused) of the program of a seed."""
    module, into = make_module(seed, kernels)
    module, refused, error = without_refused(tools, module)
    if error:
        return [Finding("check", error, seed)], refused, (module, into)
    findings = printed(tools, module, seed) if module.kernels else []
    if machine:
        findings += emulated(tools, module, into, seed, machine)
    for n, setting in enumerate(settings):
        if module.kernels:
            seeds = [seed * 100 + n * cases + i for i in range(cases)]
            findings += test_module(tools, module, into, seed, setting, seeds, count)
    return findings, refused, (module, into)
