#!/usr/bin/env python3
"""Puts the tables that moe-bench wrote into docs/performance.md, in the place of those of the same machine; a machine that is not
there yet gets a section at the end.

usage: bench/tables.py PAGE NAME COMMIT TABLES    (NAME: letters, digits, - and _)"""
import re
import sys


def with_tables(page, name, tables):
    begin, end = f"<!-- moe-bench {name}: written by `bench/run tables {name}` -->\n", f"<!-- end {name} -->\n"
    section = f"{begin}\n{tables}\n{end}"
    if begin not in page:
        return f"{page.rstrip()}\n\n## {name}\n\n{section}"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"tables: the tables of {name} have no end")
    return before + section + after


def own_test():
    page = with_tables(with_tables("# Page\n", "a", "1\n"), "b", "2\n")
    again = with_tables(page, "a", "3\n")
    if not (again == page.replace("\n1\n", "\n3\n") != page and again.endswith("\n2\n\n<!-- end b -->\n")):
        sys.exit(f"tables: its own test fails: {again}")


own_test()
path, name, commit, tables = sys.argv[1:]
if not re.fullmatch(r"[\w-]+", name):
    sys.exit(f"tables: '{name}' is no name of a machine")
with open(tables, encoding="utf-8") as f:
    text = f"Commit {commit}.\n\n" + re.sub(r"--markdown \S+", "--markdown tables.md", f.read())
with open(path, encoding="utf-8") as f:
    page = f.read()
with open(path, "w", encoding="utf-8") as f:
    f.write(with_tables(page, name, text))
