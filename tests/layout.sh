#!/bin/sh
# clang-format decides the layout of every .c file (.clang-format); headers and tables are laid out by hand.
# `clang-format -i FILE` mends one.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || {
    echo "layout: no clang-format here (scripts/deps installs it): nothing is checked"
    exit 77
}
bad=$(find . -name '*.c' -not -path './build*' -print0 | sort -z | xargs -0 -n 64 -P 2 clang-format --dry-run 2>&1 |
    grep 'warning: code should be clang-formatted' || true)
[ -z "$bad" ] || {
    echo "$bad"
    exit 1
}
