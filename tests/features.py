#!/usr/bin/env python3
"""Each command of docs/features.md ends with 0, it has as many rows as it says, and rows that claim something have a command.

usage: features.py BUILD"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r"^\| (?P<feature>.*?) \| (?P<state>yes|part|no)\b.*? \|(?P<command>.*)\|$")


def rows():
    with open(os.path.join(ROOT, "docs", "features.md"), encoding="utf-8") as f:
        for line in f:
            found = ROW.match(line.rstrip("\n").replace("\\|", "\0"))
            if found:
                yield found["feature"], found["state"], found["command"].strip().strip("`").replace("\0", "|")


def said_rows():
    with open(os.path.join(ROOT, "docs", "features.md"), encoding="utf-8") as f:
        return int(re.search(r": (\d+) rows\.", f.read()).group(1))


def main():
    build = os.path.abspath(sys.argv[1])
    env = dict(os.environ, PATH=os.path.join(build, "bin") + os.pathsep + os.environ["PATH"])
    env.setdefault("MOEC_CACHE", os.path.join(build, "test-cache"))
    failed, count = 0, {"yes": 0, "part": 0, "no": 0}
    for feature, state, command in rows():
        count[state] += 1
        if not command and state != "no":
            print(f"FAILED {feature}: no command shows it")
            failed += 1
        elif command:
            done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if done.returncode:
                print(f"FAILED {feature}: `{command}` ended with {done.returncode}\n{done.stdout.decode(errors='replace')[-800:]}")
                failed += 1
    if sum(count.values()) != said_rows():
        print(f"FAILED: {sum(count.values())} rows instead of {said_rows()}")
        failed += 1
    print("features:", ", ".join(f"{n} {state}" for state, n in count.items()))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
