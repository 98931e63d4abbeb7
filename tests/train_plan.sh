#!/bin/sh
# The models for work, as `moe-train plan` counts and plans them: parameters, and memory of a step of 2048 tokens. $1: build
# directory.
set -u
train=$1/bin/moe-train
failed=0

# the memory of a step in MiB, as sum
sums='
    function mib(value, unit) { return value * 1024 ^ (index("BKMGTP", substr(unit, 1, 1)) - 3) }
    /^program of a step/ { step = 1 }
    step && $3 ~ /^(B|[KMGTP]iB),?$/ && $1 != "resident" { sum += mib($2, $3) }'

# plans MODEL PARAMETERS MOST-MIB ARGUMENTS...
plans() {
    model=$1 parameters=$2 most=$3
    shift 3
    out=$("$train" plan --model "examples/models/$model.json" "$@") || failed=1
    echo "$out" | grep -q "^ *all  *$parameters M " || {
        echo "$model: not $parameters M parameters"
        failed=1
    }
    echo "$out" | awk -v model="$model" -v most="$most" "$sums"'
        END { print model ": " sum " MiB for a step"; exit !(sum > 0 && sum <= most) }' || failed=1
}

plans small 57.97 2048 --sequence 1024 --sequences 2
plans pilot 267.5 20480 --sequence 2048

# 6144 ranks of the large model are verified. Of S tokens of H elements, 8 choices of each, an exchange of rows sends 6 S x H elements
# to the 3 other nodes and 1.75 inside: there are four in each of 59 layers, of 60 MiB.
"$train" plan --model examples/models/openpangu_ultra_moe_718b.json --ranks 6144 --ep 32 --ranks-per-node 8 --row-factor 1.25 |
    awk "$sums"'
        /^6144 ranks on 768 nodes: ep 32, dp 6144, edp 192$/ { mapped = 1 }
        $1 == "ep" { inside = mib($3, $4) / (59 * 4 * 60); between = mib($5, $6) / (59 * 4 * 60) }
        /^all ranks verified/ { verified = 1 }
        END {
            printf "an exchange of rows sends %.3f inside, %.3f between nodes\n", inside, between
            exit !(mapped && verified && inside > 1.715 && inside < 1.785 && between > 5.88 && between < 6.12)
        }' || failed=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$train" plan --model examples/models/tiny.json --ranks 8 --ep 3 2>&1 | grep -q "ep 3 must divide dp 8" || {
    echo "a plan that cannot be"
    failed=1
}
"$train" plan --model examples/models/openpangu_ultra_moe_718b.json --ranks 64 --tp 8 --ep 8 >"$scratch/large" || failed=1
grep -q "^64 ranks on 1 node: tp 8, ep 64 = tp 8 x --ep 8, dp 8$" "$scratch/large" &&
    grep -q "^  time  *not planned: no network is modelled" "$scratch/large" &&
    grep -q "^  weight  *111\.5 GiB$" "$scratch/large" && grep -q "^  resident  *[0-9.]* GiB in each rank: [0-9.]* GiB of the arena" "$scratch/large" || {
    echo "a plan of 64 ranks"
    cat "$scratch/large"
    failed=1
}
printf '{"capacity_factor": 1.5,%s' "$(tail -c +2 examples/models/tiny.json)" >"$scratch/capacity.json"
"$train" plan --model "$scratch/capacity.json" --ranks 2 --ep 2 2>&1 | grep -q "experts with a capacity are on one rank" || {
    echo "a plan with a capacity over ep"
    failed=1
}

# What is chosen under a bound fits it, by a second look; and what cannot fit is said.
tiny="--model examples/models/tiny.json --sequence 64 --sequences 4"
total() { awk "$sums"' END { print int(sum * 1024) }' "$1"; }
"$train" plan $tiny --measure >"$scratch/plain" || failed=1
grep -q "recompute swiglu" "$scratch/plain" || {
    echo "no price of a choice"
    failed=1
}
"$train" plan $tiny --recompute all >"$scratch/least" || failed=1
most=$((($(total "$scratch/plain") + $(total "$scratch/least")) / 2))
"$train" plan $tiny --memory ${most}K --bytes "$scratch/csv" >"$scratch/chosen" || failed=1
choice=$(sed -n 's/^passes: //p' "$scratch/chosen")
"$train" plan $tiny $choice >"$scratch/again" || failed=1
# numbers are rounded to four digits
[ -n "$choice" ] && [ "$(total "$scratch/again")" -le $((most + 4 * 52)) ] || {
    echo "under $most KiB \`$choice\` is chosen: $(total "$scratch/again") KiB"
    failed=1
}
# the table's largest sum is that of the file
awk -F, 'NR > 1 && $7 + $8 > top { top = $7 + $8 } END { top /= 1048576
        printf "%.*f MiB", top < 9.9995 ? 3 : top < 99.995 ? 2 : 1, top }' "$scratch/csv" >"$scratch/top"
grep -q "largest sum of live buffers $(cat "$scratch/top") " "$scratch/chosen" || {
    echo "the file of bytes has $(cat "$scratch/top")"
    failed=1
}
"$train" plan $tiny --memory 100K >"$scratch/out" 2>&1 && failed=1
grep -q "nothing fits 0.1 MiB; with all choices .* remain: .*of which work space" "$scratch/out" || {
    cat "$scratch/out"
    failed=1
}
exit $failed
