#!/usr/bin/env python3
"""Proves the examples of the documents. In every Markdown file given:

    ```moe        a complete file (it begins with `moe 1`): must compile without a diagnostic of severity error
    ```moe E0301  a complete file that must be refused with this code
    ```console    lines `$ command` are run in a scratch copy of the source tree's examples, what follows is their
                  output: a line `...` stands for any lines, `<...>` inside a line for any text
    ```text, ```sh and so on are not looked at

and that the files exist to which the documents link.

usage: docs.py --build DIR FILE.md..."""
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


def check_console(text, scratch, env):
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps and steps[-1][0].endswith("\\"):
            steps[-1] = (steps[-1][0][:-1] + line.strip(), [])
        elif steps:
            steps[-1][1].append(line)
        else:
            return f"output before the first command: {line}"
    for command, expected in steps:
        _, output = run(command, scratch, env)
        if output and not output.endswith("\n"):
            output += "\n"
        if not pattern(expected).match(output):
            return f"`{command}` printed\n{output}"
    return None


def broken_links(path):
    """Relative links of a document that lead nowhere."""
    with open(path, encoding="utf-8") as f:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", f.read())
    return [link for link in links if not os.path.exists(os.path.join(os.path.dirname(path), link))]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    env = dict(os.environ, LC_ALL="C", PATH=os.path.join(build, "bin") + os.pathsep + os.environ.get("PATH", ""))
    env.setdefault("MOEC_CACHE", os.path.join(build, "test-cache"))
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="moec-docs-") as scratch:
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(scratch, "examples"))
        os.makedirs(os.path.join(scratch, "build"))
        os.symlink(os.path.join(build, "bin"), os.path.join(scratch, "build", "bin"))
        for path in options.files:
            for link in broken_links(os.path.join(ROOT, path)):
                failed += 1
                count += 1
                print(f"FAILED  {path}: nothing at {link}")
            for number, language, info, text in blocks(path):
                if language == "moe":
                    wrong = check_moe(text, info, scratch, env)
                elif language == "console":
                    wrong = check_console(text, scratch, env)
                else:
                    continue
                count += 1
                if wrong:
                    failed += 1
                    print(f"FAILED  {path}:{number}\n{wrong}")
    print(f"docs: {count - failed} of {count} examples hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
