#!/bin/sh
# A batch gives the same losses and gradient norms in one piece and in micro-batches. $1: build directory. The text to
# train on is the licence, because losses must not depend on the machine, nor change with the repository's sources.
set -eu
train=$1/bin/moe-train
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The balance loss is not linear in the batch, so it is left out.
for parts in 1 2 8; do
    "$train" --data LICENSE --layers 2 --width 32 --heads 2 --experts 4 --expert-width 16 \
        --shared-width 16 --sequence 32 --steps 6 --warmup 2 --sample 0 --balance 0 --validation-batches 1 \
        --micro-batches $parts --log "$scratch/log" >"$scratch/out" || {
        cat "$scratch/out"
        exit 1
    }
    sed -n 's/.*"loss": \([0-9.]*\), .*"norm": \([0-9.]*\),.*/\1 \2/p' "$scratch/log" >"$scratch/$parts"
    paste "$scratch/1" "$scratch/$parts" | awk -v parts=$parts '
        function off(a, b) { return (a > b ? a - b : b - a) > 0.01 * a }
        { n++; if (off($1, $3) || off($2, $4)) { print "step " n ", " parts " micro-batches: " $0; bad = 1 } }
        END { exit bad || n != 6 }'
done
