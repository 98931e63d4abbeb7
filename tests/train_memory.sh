#!/bin/sh
# Passes that trade memory for time keep the bits of a training in bf16: losses, norms and the final validation. $1: build directory.
set -eu
export OMP_NUM_THREADS=2 # work space is counted for each
train=$1/bin/moe-train
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# trains NAME ARGUMENTS...: leaves the numbers of the log, and the bytes of the arena
trains() {
    name=$1
    shift
    "$train" --data LICENSE --layers 3 --width 64 --heads 2 --experts 4 --expert-width 64 \
        --shared-width 64 --sequence 512 --steps 4 --warmup 2 --sample 0 --validation-batches 1 \
        --micro-batches 2 --log "$scratch/log" "$@" >"$scratch/out" 2>&1 || {
        cat "$scratch/out"
        exit 1
    }
    grep -v '"options"\|"model"\|"end"' "$scratch/log" | sed 's/, "seconds.*//' >"$scratch/$name"
    sed -n 's/.*"arena_bytes": \([0-9]*\).*/\1/p' "$scratch/log" >"$scratch/$name.arena"
}

# keeps MOST-PERCENT ARGUMENTS...
keeps() {
    most=$1
    shift
    trains with "$@"
    cmp "$scratch/without" "$scratch/with" || failed=1
    paste "$scratch/without.arena" "$scratch/with.arena" | awk -v most="$most" -v what="$*" '
        { print what ": " $2 " bytes of " $1; exit $2 > $1 * most / 100 }' || failed=1
}

trains without
keeps 85 --recompute all
keeps 95 --recompute qkv,swiglu:1-2
keeps 80 --swap all --swap-folder "$scratch"
keeps 80 --recompute qkv,swiglu --swap all --swap-folder "$scratch"
exit $failed
