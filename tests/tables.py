#!/usr/bin/env python3
"""Documents that are made from the compiler's tables: docs/ops.md by `moec ops`, docs/machines.md by
`moec machines --keys`, docs/errors.md from base/errors.def, and the table of errors in docs/language.md from ir/scalar.def.
usage: tables.py MOEC [--update]"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r'ROW\(\s*\w+,\s*(\d+),\s*SEV_(\w+),\s*"((?:[^"\\]|\\.)*)"')
SCALAR = re.compile(r'^SCALAR\(\w+,\s*"([^"]+)",\s*\d,\s*(\w+),\s*\d+,\s*([\d.]+),', re.M)
ULP_HEAD = "| function | largest error, in ulp of f32 |\n|---|---|\n"
ULP_TABLE = re.compile(re.escape(ULP_HEAD) + r"(?:\|.*\n)*")
LETTER = {"ERROR": "E", "WARNING": "W", "HINT": "H"}


def errors(moec):
    with open(os.path.join(ROOT, "base", "errors.def"), encoding="utf-8") as f:
        rows = ROW.findall(f.read())
    text = ["# Errors, warnings and hints\n", "\n",
            "Made from base/errors.def by `tests/tables.py build/bin/moec --update`; do not edit. `moec explain CODE` prints the page of "
            "a code.\n"]
    for number, severity, title in sorted(rows, key=lambda row: int(row[0])):
        code = f"{LETTER[severity]}{int(number):04d}"
        page = subprocess.run([moec, "explain", code], check=True, stdout=subprocess.PIPE).stdout.decode()
        indented = "".join("    " + line if line.strip() else line for line in page.splitlines(keepends=True))
        text.append(f"\n## {code}: {title}\n\n{indented.rstrip()}\n")
    return "".join(text)


def ulp_row(ulp, names):
    words = "exact" if ulp == 0 else "correctly rounded (0.5)" if ulp == 0.5 else f"{ulp:g}"
    return f"| `{' '.join(names)}`{', casts to floats' if ulp == 0.5 else ''} | {words} |\n"


def language():
    """The page with its table of errors made anew: correctly rounded ones, exact ones, then by size."""
    with open(os.path.join(ROOT, "ir", "scalar.def"), encoding="utf-8") as f:
        rows = SCALAR.findall(f.read())
    names = {}
    for spelling, kind, ulp in rows:
        functions = names.setdefault(float(ulp), [])
        if kind in ("ARITH", "FLOAT", "INDEX") and not (spelling in functions or (spelling == "-" and float(ulp) == 0)):
            functions.append(spelling)
    order = sorted((ulp for ulp in names if names[ulp]), key=lambda ulp: (ulp != 0.5, ulp))
    table = ULP_HEAD + "".join(ulp_row(ulp, names[ulp]) for ulp in order)
    with open(os.path.join(ROOT, "docs", "language.md"), encoding="utf-8") as f:
        page, tables = ULP_TABLE.subn(lambda _: table, f.read())
    return page if tables == 1 else f"{tables} tables of errors"


def main():
    moec = os.path.abspath(sys.argv[1])
    made = {"docs/ops.md": subprocess.run([moec, "ops"], check=True, stdout=subprocess.PIPE).stdout.decode(),
            "docs/machines.md": subprocess.run([moec, "machines", "--keys"], check=True,
                                               stdout=subprocess.PIPE).stdout.decode(),
            "docs/errors.md": errors(moec),
            "docs/language.md": language()}
    stale = 0
    for name, text in made.items():
        path = os.path.join(ROOT, name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if old != text and "--update" in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print(f"{name}: written")
        elif old != text:
            stale += 1
            print(f"FAILED  {name} does not say what the tables say: tests/tables.py MOEC --update")
    sys.exit(stale > 0)


main()
