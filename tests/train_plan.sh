#!/bin/sh
# The models for work, as `moe-train plan` counts and plans them: parameters, and memory of a step of 2048 tokens. $1: build
# directory.
set -u
train=$1/bin/moe-train
failed=0

# plans MODEL PARAMETERS MOST-MIB ARGUMENTS...
plans() {
    model=$1 parameters=$2 most=$3
    shift 3
    out=$("$train" plan --model "examples/models/$model.json" "$@") || failed=1
    echo "$out" | grep -q "^ *all  *$parameters M " || {
        echo "$model: not $parameters M parameters"
        failed=1
    }
    echo "$out" | awk -v model="$model" -v most="$most" '
        /^program of a step/ { step = 1 }
        step && $3 ~ /^MiB/ { sum += $2 }
        END { print model ": " sum " MiB for a step"; exit !(sum > 0 && sum <= most) }' || failed=1
}

plans small 57.97 2048 --sequence 1024 --sequences 2
plans pilot 267.5 20480 --sequence 2048
exit $failed
