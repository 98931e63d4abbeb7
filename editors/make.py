#!/usr/bin/env python3
"""Syntax files of editors, made from the compiler's own tables: the words of the scanner (frontend/moe.l), the scalar functions
(ir/scalar.def), the clauses of schedules (ir/schedule.def). The words of `derive` and `test` clauses are read from parser and
checker.

usage: make.py [--update]   (without: fails where a file is not what the tables say)"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPES = ["f32", "bf16", "f16", "i32"]
ROLES = ["in", "out", "inout", "packed"]
REDUCTIONS = ["sum", "max", "min", "top"]
CONDITIONS = ["where", "if", "and", "or", "not"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def scanner_words():
    return re.findall(r'^"([a-z0-9]+)"[ /].*(?:return|named)', read("frontend/moe.l"), re.M) + ["type"]


def words():
    """The words by what they are; every word of the scanner is in one of the lists."""
    scanner = list(dict.fromkeys(scanner_words()))
    special = TYPES + ROLES + REDUCTIONS + CONDITIONS + ["stop", "route"]
    missing = [word for word in special if word not in scanner]
    assert not missing, f"no words of the scanner: {missing}"
    derive = re.findall(r'\{"(\w+)", KW_\w+\}', read("frontend/parser.c"))
    knobs = re.findall(r'^KNOB\(\s*\w+,\s*"(\w+)",\s*"(\w*)"', read("ir/schedule.def"), re.M)
    routings = re.findall(r'word_is\(r, "(\w+)"\)', read("frontend/sema_test.c"))
    functions = re.findall(r'^\w+\(\s*\w+,\s*"([a-z]\w*)"', read("ir/scalar.def"), re.M)
    assert derive and knobs and routings and functions
    clauses = derive + [k for k, _ in knobs] + [w for _, w in knobs if len(w) > 1] + routings
    clauses += ["rows", "capacity", "prefer", "both", "at", "prologue", "epilogue", "scatter", "routing", "tol", "gradcheck", "exact"]
    return {
        "declarations": [w for w in scanner if w not in special],
        "types": TYPES,
        "roles": ROLES,
        "reductions": REDUCTIONS,
        "conditions": CONDITIONS,
        "functions": [f for f in dict.fromkeys(functions + ["stop", "route", "pack", "pack_t"])
                      if f not in TYPES + CONDITIONS],
        "clauses": [c for c in dict.fromkeys(clauses) if c not in scanner],
    }


def vim(w):
    groups = [("Declaration", "declarations", "Keyword"), ("Type", "types", "Type"), ("Role", "roles", "StorageClass"),
              ("Reduction", "reductions", "Repeat"), ("Condition", "conditions", "Conditional"),
              ("Function", "functions", "Function"), ("Clause", "clauses", "Statement")]
    lines = ['" Vim syntax file of the moec language. Made by editors/make.py --update; do not edit.', "if exists(\"b:current_syntax\")",
             "  finish", "endif", ""]
    for group, key, _ in groups:
        lines += [f"syn keyword moe{group} {word}" for word in w[key]]
    lines += ["", r'syn match moeNumber "\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"', r'syn match moeMap "\.\(token\|slot\|row\)\>"',
              r'syn match moeGroup "@\h\w*"', r'syn region moeString start=+"+ end=+"+ oneline',
              r'syn match moeComment "//.*$" contains=moeTodo,@Spell', "syn keyword moeTodo TODO FIXME allow contained", ""]
    lines += [f"hi def link moe{group} {link}" for group, _, link in groups]
    lines += [f"hi def link moe{a} {b}" for a, b in [("Number", "Number"), ("Map", "Function"), ("Group", "Identifier"),
                                                    ("String", "String"), ("Comment", "Comment"), ("Todo", "Todo")]]
    return "\n".join(lines + ["", 'let b:current_syntax = "moe"', ""])


def textmate(w):
    def match(name, key):
        return {"name": f"{name}.moe", "match": r"\b(" + "|".join(w[key]) + r")\b"}
    return json.dumps({
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "moe", "scopeName": "source.moe", "comment": "Made by editors/make.py --update; do not edit.",
        "patterns": [
            {"name": "comment.line.double-slash.moe", "match": "//.*$"},
            {"name": "string.quoted.double.moe", "begin": '"', "end": '"|$'},
            match("keyword.declaration", "declarations"), match("storage.type", "types"), match("storage.modifier", "roles"),
            match("keyword.control.reduction", "reductions"), match("keyword.control.conditional", "conditions"),
            match("support.function", "functions"), match("keyword.other.clause", "clauses"),
            {"name": "entity.name.function.map.moe", "match": r"(?<=\.)(token|slot|row)\b"},
            {"name": "variable.language.group.moe", "match": r"@[A-Za-z_]\w*"},
            {"name": "constant.numeric.moe", "match": r"\b\d+(\.\d+)?([eE][+-]?\d+)?\b"},
            {"name": "keyword.operator.moe", "match": r"\+=|->|[<>=!]=|[-+*/%<>=?]"},
        ]}, indent=2) + "\n"


def main():
    w = words()
    stale = 0
    for path, text in {"editors/vim/syntax/moe.vim": vim(w), "editors/vscode/syntaxes/moe.tmLanguage.json": textmate(w)}.items():
        full = os.path.join(ROOT, path)
        old = open(full, encoding="utf-8").read() if os.path.exists(full) else None
        if old == text:
            continue
        if "--update" in sys.argv:
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
            print(f"{path}: written")
        else:
            stale += 1
            print(f"FAILED  {path} is not what the tables say: editors/make.py --update")
    return stale > 0


if __name__ == "__main__":
    sys.exit(main())
