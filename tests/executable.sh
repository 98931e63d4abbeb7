#!/bin/sh
# Documents name scripts as commands (`tests/costs.py --update ...`): a file that begins with `#!` can be executed.
set -eu
cd "$(dirname "$0")/.."
bad=$(find . -type f -not -path './build*' -not -path './.git/*' ! -perm -u+x \
    -exec awk 'FNR == 1 { if (/^#!/) print FILENAME; nextfile }' {} +)
[ -z "$bad" ] || {
    echo "$bad"
    echo "executable: these begin with #! and cannot be executed: chmod +x"
    exit 1
}
