#!/usr/bin/env python3
"""Proves the examples of the documents. In every Markdown file given:

    ```moe        a complete file (it begins with `moe 1`): must compile without a diagnostic of severity error
    ```moe E0301  a complete file that must be refused with this code
    ```console    lines `$ command` are run in a scratch copy of the source tree's examples, what follows is their
                  output: a line `...` stands for any lines, `<...>` inside a line for any text
    ```console llvm-22   likewise, but other versions of LLVM may print something else: with them the commands are
                  run and their output is not compared
    ```text, ```sh and so on are not looked at

and that the files and headings exist to which the documents link. --update writes the outputs anew that differ, where no `...` or
`<...>` stands in them.

usage: docs.py [--update] --build DIR FILE.md..."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FENCE = re.compile(r"^( *)```(\w+)?[ ]*(.*)$")


def blocks(path):
    """(line number, language, rest of the info string, text) of each fenced block."""
    inside, found = None, []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            fence = FENCE.match(line.rstrip("\n"))
            if fence and inside is None:
                inside = (number, fence.group(2) or "", fence.group(3).strip(), [], len(fence.group(1)))
            elif inside is not None and line.strip() == "```":
                found.append((inside[0], inside[1], inside[2], "".join(inside[3])))
                inside = None
            elif inside is not None:
                inside[3].append(line[inside[4]:] if line.strip() else line)
    return found


def pattern(expected):
    """A regular expression for the expected output of a command."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            pieces = [re.escape(p) for p in line.rstrip().split("<...>")]
            parts.append(".*?".join(pieces) + r"[ ]*\n")
    return re.compile("".join(parts) + r"\Z")


def run(command, cwd, env):
    done = subprocess.run(["sh", "-c", command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def check_moe(text, code, scratch, env):
    path = os.path.join(scratch, "block.moe")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    status, output = run("moec block.moe -o block.so", scratch, env)
    if not code:
        return None if status == 0 else output
    if status == 1 and f"error[{code}]" in output:
        return None
    return f"expected to be refused with {code}, got status {status}:\n{output}"


class Step:
    """A command of a console block: its lines, the command, the lines of its output."""

    def __init__(self, line):
        self.lines, self.command, self.expected = [line], line[2:], []

    def add(self, line):
        if self.command.endswith("\\"):
            self.lines.append(line)
            self.command = self.command[:-1] + line.strip()
        else:
            self.expected.append(line)

    def is_exact(self):
        return not any(line.strip() == "..." or "<...>" in line for line in self.expected)


def steps_of(text):
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line))
        elif steps:
            steps[-1].add(line)
        else:
            sys.exit(f"docs.py: output before the first command: {line}")
    return steps


def check_console(text, scratch, env, compare=True, update=False):
    """None or what is wrong, and the block's text as it is to be."""
    wrong, lines = None, []
    for step in steps_of(text):
        _, output = run(step.command, scratch, env)
        if output and not output.endswith("\n"):
            output += "\n"
        if compare and not pattern(step.expected).match(output):
            if update and step.is_exact():
                step.expected = [line.rstrip() for line in output.splitlines()]
            else:
                wrong = wrong or f"`{step.command}` printed\n{output}"
        lines += step.lines + step.expected
    return wrong, "".join(line + "\n" for line in lines)


def llvm_of(env):
    """llvm-22, say: what the compiler was built with."""
    version = subprocess.run(["moec", "--version"], env=env, stdout=subprocess.PIPE, check=True).stdout.decode()
    return "llvm-" + re.search(r"LLVM (\d+)", version).group(1)


def write_block(path, number, old, new):
    """The block that begins after line `number` as `new`. Lines below may move."""
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    indent = FENCE.match(lines[number - 1].rstrip("\n")).group(1)
    lines[number:number + len(old.splitlines())] = [indent + line if line.strip() else line
                                                    for line in new.splitlines(keepends=True)]
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(lines)


def prose(path):
    """A document without its fenced blocks."""
    with open(path, encoding="utf-8") as f:
        return re.sub(r"(?ms)^ *```.*?^ *```$", "", f.read())


def anchors(path):
    """What may stand behind `#` in a link to this document: its headings, as GitHub writes them."""
    titles = re.findall(r"(?m)^#+ +(.*?)\s*$", prose(path))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def leads_nowhere(path, file, anchor):
    target = os.path.join(os.path.dirname(path), file) if file else path
    return not os.path.exists(target) or anchor and target.endswith(".md") and anchor not in anchors(target)


def broken_links(path):
    """Relative links of a document that lead nowhere."""
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", prose(path))
    return [file + "#" * bool(anchor) + anchor for file, anchor in links if leads_nowhere(path, file, anchor)]


class Checker:
    def __init__(self, scratch, env, update):
        self.scratch, self.env, self.update = scratch, env, update
        self.llvm = llvm_of(env)
        self.failed = self.count = self.skipped = 0
        self.moved = 0  # lines that --update has added to the file above the block

    def console(self, path, number, info, text):
        compare = not info or info == self.llvm
        self.skipped += not compare
        wrong, new = check_console(text, self.scratch, self.env, compare, self.update)
        if new != text:
            write_block(path, number, text, new)
            self.moved += len(new.splitlines()) - len(text.splitlines())
            print(f"updated {path}:{number}")
        return wrong

    def block(self, path, number, language, info, text):
        if language == "moe":
            wrong = check_moe(text, info, self.scratch, self.env)
        elif language == "console":
            wrong = self.console(path, number, info, text)
        else:
            return
        self.count += 1
        if wrong:
            self.failed += 1
            print(f"FAILED  {path}:{number}\n{wrong}")

    def file(self, path):
        for link in broken_links(os.path.join(ROOT, path)):
            self.failed += 1
            self.count += 1
            print(f"FAILED  {path}: nothing at {link}")
        self.moved = 0
        for number, *block in blocks(path):
            self.block(path, number + self.moved, *block)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    env = dict(os.environ, LC_ALL="C", PATH=os.path.join(build, "bin") + os.pathsep + os.environ.get("PATH", ""))
    env.setdefault("MOEC_CACHE", os.path.join(build, "test-cache"))
    with tempfile.TemporaryDirectory(prefix="moec-docs-") as scratch:
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(scratch, "examples"))
        os.makedirs(os.path.join(scratch, "build"))
        os.symlink(os.path.join(build, "bin"), os.path.join(scratch, "build", "bin"))
        checker = Checker(scratch, env, options.update)
        for path in options.files:
            checker.file(path)
    if checker.skipped:
        print(f"skipped: output of {checker.skipped} examples is of another LLVM than {checker.llvm}")
    print(f"docs: {checker.count - checker.failed} of {checker.count} examples hold")
    sys.exit(checker.failed > 0)


if __name__ == "__main__":
    main()
