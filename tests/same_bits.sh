#!/bin/sh
# The same bits on 1, 2 and 3 threads and run after run, of every kernel of the examples and the differential tests and
# of a short training run.   usage: same_bits.sh BUILD
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0

# compare NAME COMMAND...: the output with OMP_NUM_THREADS 1, 2, 3 and 2 again
compare() {
    name=$1
    shift
    for threads in 1 2 3 2; do
        OMP_NUM_THREADS=$threads "$@" >"$scratch/$threads" 2>&1 || {
            cat "$scratch/$threads"
            echo "FAILED $name: ended with an error"
            bad=1
            return
        }
        if [ $threads != 1 ] && ! diff "$scratch/1" "$scratch/$threads"; then
            echo "FAILED $name: $threads threads"
            bad=1
        fi
    done
    echo "same $name"
}

for file in examples/*.moe tests/differential/*.moe; do
    [ -e "$file" ] && compare "$file" "$moec" run "$file"
done
train() {
    rm -f "$scratch/log"
    "$1/bin/moe-train" --layers 1 --width 64 --experts 8 --sequence 64 --batch 4 --steps 5 --data-limit 1 --sample 0 \
        --validation-batches 1 --log "$scratch/log" >/dev/null || return 1
    sed 's/"seconds".*//; /"end"/d; /"options"/d' "$scratch/log"
}
compare moe-train train "$1"
exit $bad
