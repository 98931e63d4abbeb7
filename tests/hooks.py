#!/usr/bin/env python3
"""What a row of a table needs elsewhere cannot be forgotten. Some rows have hooks: without one of them the build fails and names
the row. Others are figures or words: each is read somewhere.

    tests/hooks.py                  every row of the second kind has a reader
    tests/hooks.py --forget BUILD   a pretend row in each table of a copy of the tree: what is to fail fails, and names it

usage: tests/hooks.py [--forget BUILD]    (BUILD: made with ninja, without sanitizers)"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = "include/moec base machines ir frontend passes lower npu backend emulator runtime records driver testing explain tuner command".split()

# Tables whose rows are read by name: table, macro, what a reader looks like ({0}, {1}: the row's first words), where it stands.
READ = [
    ("ir/schedule.def", "KNOB", r"\bKNOB_{0}\b", "passes lower npu"),
    ("machines/figures.def", "FIGURE", r"[.>]{1}\b", "machines passes lower npu emulator backend testing"),
    ("machines/figures.def", "TRAIT", r"[.>]{0}\b", "passes lower npu emulator backend driver testing"),
    ("machines/cpu.def", "CPU_TRAIT", r"\bCPU_{0}\b", "machines driver backend"),
    ("machines/heuristics.def", "HEURISTIC", r"\b{0}\b", "machines passes lower npu backend emulator"),
    ("passes/passes.def", "PASS", r"\bPASS_{0}\b", "driver"),
    ("base/errors.def", "ROW", r"\bDIAG_{0}\b", "base ir frontend passes lower npu backend driver testing explain command"),
    ("include/moec/abi.def", "STATUS", r"\b(MOE|STATUS)_{0}\b", "backend runtime driver lower testing"),
    ("include/moec/abi.def", "CTX", r"(CTX_|[.>]){0}\b", "backend runtime driver"),
    ("include/moec/abi.def", "ROUTE", r"[.>]{0}\b", "ir backend runtime driver testing"),
    ("include/moec/abi.def", "ROUTE_ARRAY", r"\bRF_{0}\b", "ir backend"),
    ("driver/options.def", "OPTION", r"[.>]{1}\b", "driver command"),
    ("step/owner.def", "OWNER", r"\bOWNER_{0}\b", "step model trainer"),
    ("step/phase.def", "PHASE", r"\bPHASE_{0}\b", "step model"),
    ("model/weights.def", "WEIGHT", r"\bMODEL_{0}\b", "model"),
] + [("trainer/config.def", macro, r"[.>]{0}\b|PASS\({0},", "trainer step/passes.def") for macro in ("INT", "REAL", "TEXT", "MAYBE", "FLAG")]

# Figures that `moec machines` prints and the model does not use yet. The list may only shrink.
UNREAD = {("machines/figures.def", ("rates", key)) for key in ("gm_read", "gm_write", "ub_gm")}

# Pretend rows (OLD -> NEW: a change of one), and who must miss a hook: a file that does not compile, or a program that does not link with the file made anew,
# and the word that is to be named.
FORGET = [
    ("ir/scalar.def", 'SCALAR(zz, "zz", 1, FLOAT, 1, 0.5, "d", "", "Pretend.")',
     [("ir/eval_error.c", "OP_zz"), ("ir/eval_scalar.c > bin/moec", "eval_zz"),
      ("backend/emit_scalar.c > lib/moec-llvm.so", "emit_zz")]),
    ("ir/tile.def", 'TILE(zz, "Pretend.", BODY)',
     [("ir/tile_print.c", "print_zz"), ("ir/tile_read_stmt.c", "read_zz"), ("ir/tile_unit.c", "TILE_zz"),
      ("emulator/report.c", "TILE_zz"), ("ir/tile_verify.c > bin/moec", "tile_verify_zz"),
      ("backend/emit_hooks.c > lib/moec-llvm.so", "emit_tile_zz")]),
    ("tuner/search.def", 'STRATEGY(zz, "Pretend.")', [("tuner/strategies.c > bin/moec", "strategy_zz")]),
    ("tuner/grid.def", 'AXIS(zz, zz, "")', [("tuner/experiment_read.c", "read_zz")]),
    ("ir/event.def", 'EVENT(zz, Zz, "Pretend.",)', [("emulator/emulator.c", "EVENT_zz")]),
    ("include/moec/abi.def", 'ROUTE_ARRAY(zz, int32_t, "Pretend.")', [("ir/tile.c", "RF_zz"), ("backend/emit_precondition.c", "RF_zz")]),
    ("ir/unit.def", 'UNIT(zz, "Pretend.")', [("emulator/core.c", "UNIT_zz"), ("emulator/simulate.c", "UNIT_zz")]),
    ("ir/unit.def", 'PATH(zz, SPACE_GM, SPACE_L0A, mte2, "Pretend.")', [("emulator/simulate.c", "PATH_zz")]),
    ("machines/cpu.def", 'CPU(zz, x86, "zz", 4, 4, 2, 128, 0, 2, 0, 1, 1, zz, zz, zz, zz, 0, NEEDS(0), "+sse2", "Pretend.")',
     [("backend/emit_product_heights.c > lib/moec-llvm.so", "emit_zz_fragment")]),
    ("machines/cpu.def", 'FAMILY(zz, "zz", "zz", "Pretend.")',
     [("machines/cpu.c > bin/moec", "cpu_has_zz"), ("backend/target.c > lib/moec-llvm.so", "family_fence_zz"), ("backend/target.c > lib/moec-llvm.so", "family_pin_zz")]),
    ("machines/figures.def", 'SECTION(zz, MACHINE_CPU, "Pretend.")', [("machines/description.c", "zz")]),
    ("machines/figures.def", 'FIGURE(blocks, zz, "elements", none, "Pretend.")', [("machines/description.c", "zz")]),
    ("machines/figures.def", 'ub_gm, "bytes/cycle", none -> ub_gm, "bytes/cycle", zz',
     [("machines/description.c > bin/moec", "probe_zz")]),
    ("passes/passes.def", 'PASS(zz, EQUATIONS, 0, 0, 0, "Pretend.")', [("driver/pipeline.c > bin/moec", "pass_zz")]),
    ("command/commands.def", 'COMMAND(zz, "", "Pretend.")', [("command/main.c > bin/moec", "command_zz")]),
    ("step/task.def", 'TASK(zz, compute, "Pretend.")', [("step/verify.c", "verify_task_zz"), ("step/run.c", "run_task_zz")]),
    ("step/passes.def", 'PASS(zz, "Pretend.")',
     [("trainer/trainer.c", "zz"), ("step/passes.c > bin/moe-train", "step_pass_zz")]),
    ("step/task.def", 'EXCHANGE(zz, net, copy, WHOLE, WHOLE, "Pretend.")', [("step/run_exchange.c", "TASK_zz")]),
    ("model/sources.def", "SOURCE(zz)", [("model/sources.c > bin/moe-train", "source_zz")]),
]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def rows_of(text, macro):
    """The first two words of each row."""
    for row in re.finditer(rf"^\s*{macro}\s*\(\s*(\w+)(?:\s*,\s*(\w+))?|(?<=\) ){macro}\((\w+)", text, re.M):
        yield row.group(1) or row.group(3), row.group(2)


def unread(root, table, macro, form, rooms):
    paths = [path for room in rooms.split() for path in sorted(glob.glob(f"{root}/{room}/*.[chyl]")) or [f"{root}/{room}"]]
    code = "".join(map(read, paths))
    rows = list(rows_of(read(f"{root}/{table}"), macro))
    if not rows:
        yield f"{table} has no {macro}"
    for row in rows:
        is_read = re.search(form.format(*row), code) is not None
        if is_read == ((table, row) in UNREAD):
            yield f"{table}: {'now something' if is_read else 'nothing'} reads {macro}({', '.join(filter(None, row))})"


def every_row_is_read():
    bad = [line for entry in READ for line in unread(ROOT, *entry)]
    print("\n".join(bad + [f"hooks: {len(READ)} tables of figures and words, {len(bad)} rows that nothing reads"]))
    return len(bad) > 0


# ---- forgotten hooks ----

def with_last_row(text, row):
    """The row before the last one of its macro; where only a name is given, the rest as in that one."""
    macro, lines = row.partition("(")[0], text.splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if re.match(rf"\s*{macro}\s*\(", line))
    if not row.endswith(")"):
        row += lines[last].strip()[lines[last].strip().index(","):]
    return "".join(lines[:last] + [row + "\n"] + lines[last:])


class Copy:
    """A copy of the tree that is compiled and linked beside the objects of a build."""

    def __init__(self, root, build):
        self.root, self.build = root, os.path.abspath(build)
        for room in ROOMS + ["step", "comm", "model", "trainer"]:
            shutil.copytree(f"{ROOT}/{room}", f"{root}/{room}")
        with open(f"{build}/compile_commands.json", encoding="utf-8") as f:
            self.commands = {os.path.relpath(c["file"], ROOT): c["command"].split(" -o ")[0] for c in json.load(f)}
        self.links = {}

    def compile(self, file, more):
        command = self.commands[file].replace(self.build, "@BUILD@").replace(ROOT, self.root).replace("@BUILD@", self.build)
        return self.run(f"{command} -O0 {more} {file}", self.root)

    def run(self, command, where):
        return subprocess.run(command, shell=True, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    def link(self, program, file):
        """The program with this object in place of its own: first on the line, so that no archive brings the other."""
        if program not in self.links:
            done = self.run(f"ninja -t commands {program}", self.build)
            self.links[program] = done.stdout.strip().splitlines()[-1]
        own = re.compile(r"\S*/" + re.escape(os.path.basename(file)) + r"\.o(?= )")
        line = own.sub("", self.links[program]).replace(f"-o {program}", f"-o {self.root}/linked {self.root}/made.o")
        return self.run(line, self.build)

    def missing(self, place, row, word):
        """What is wrong when the row stands in the copy, or None: it is refused by name."""
        file, _, program = place.partition(" > ")
        done = self.compile(file, f"-c -o {self.root}/made.o" if program else "-fsyntax-only")
        if program and done.returncode == 0:
            done = self.link(program, file)
        if done.returncode == 0:
            return f"{row}: {place} does not miss {word}"
        return None if re.search(rf"\b{word}\b", done.stdout) else f"{row}: {place} fails and does not name {word}:\n{done.stdout}"

    def with_row(self, table, row, check):
        path = f"{self.root}/{table}"
        before = read(path)
        old, arrow, new = row.partition(" -> ")
        with open(path, "w", encoding="utf-8") as f:
            f.write(before.replace(old, new) if arrow else with_last_row(before, row))
        bad = [line for line in check(row) if line]
        with open(path, "w", encoding="utf-8") as f:
            f.write(before)
        return bad


def pretend(macro, form):
    """A row of a table that is read by name."""
    return f"{macro}(zz_first, zz_second)" if "{1}" in form else f"{macro}(zz_first)"


def forget(build):
    with tempfile.TemporaryDirectory(prefix="moec-hooks-") as root:
        copy, bad, hooks = Copy(root, build), [], 0
        for table, row, places in FORGET:
            whole = [copy.missing(place, "the tree as it is", word) for place, word in places]
            bad += [f"{place} fails without a row of its own" for (place, _), fault in zip(places, whole)
                    if not fault or "does not miss" not in fault]
            bad += copy.with_row(table, row, lambda row: [copy.missing(place, row, word) for place, word in places])
            hooks += len(places)
        for table, macro, form, rooms in READ:
            found = copy.with_row(table, pretend(macro, form), lambda row: unread(root, table, macro, form, rooms))
            if not any("zz_first" in line for line in found):
                bad.append(f"{table}: a row {macro} that nothing reads is not found")
    print("\n".join(bad + [f"hooks: {hooks} hooks of {len(FORGET)} rows, {len(READ)} rows without readers"]))
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(forget(sys.argv[2]) if sys.argv[1:2] == ["--forget"] else every_row_is_read())
