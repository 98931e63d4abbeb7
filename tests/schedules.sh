#!/bin/sh
# Random legal schedules, under each instruction set that this CPU has in turn: results within the contract, and the bits
# that every knob of ir/schedule.def promises to keep. Finite differences are of equations, so they are left out.
# usage: schedules.sh BUILD FIRST LAST   (seeds)
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
first=$2
last=$3
files="tests/differential/schedule.moe examples/attention.moe examples/rmsnorm.moe examples/router.moe
    tests/differential/schedule.moe tests/differential/matmul.moe tests/differential/routed.moe tests/differential/reduce.moe"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0

targets=
for isa in $("$moec" machines host | awk '/^instruction set/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'); do
    if "$moec" run --no-time --target=$isa examples/rmsnorm.moe rmsnorm >"$scratch/out" 2>&1; then
        targets="$targets $isa"
    fi
done

# bits SEED FILE KERNEL SIZE...: the outputs under this seed's schedule against those under the usual one
bits() {
    seed=$1
    shift
    usual="$scratch/$(echo "$target" "$@" | tr -c 'a-zA-Z0-9\n' _)"
    [ -e "$usual" ] || "$moec" run --no-time --target="$target" "$@" >"$usual"
    "$moec" run --no-time --target="$target" --schedule-seed="$seed" "$@" >"$scratch/now" 2>&1 || true
    if ! diff "$usual" "$scratch/now"; then
        echo "FAILED: --schedule-seed=$seed changes the bits of: moec run --target=$target $*"
        bad=1
    fi
}

seed=$first
while [ "$seed" -le "$last" ]; do
    set -- $targets
    shift $((seed / 8 % $#))
    target=$1
    set -- $files
    shift $((seed % $#))
    if ! "$moec" test --no-aot --no-gradcheck --quiet --target="$target" --schedule-seed="$seed" "$1" >"$scratch/out" 2>&1; then
        echo "FAILED: moec test --no-aot --no-gradcheck --target=$target --schedule-seed=$seed $1"
        cat "$scratch/out"
        bad=1
    fi
    case $((seed % 12)) in
    0) bits "$seed" examples/moe_ffn.moe ffn_fwd T=67 K=3 E=7 H=48 F=80 ;;
    3) bits "$seed" examples/moe_ffn.moe ffn_bwd T=67 K=3 E=7 H=48 F=80 ;;
    6) bits "$seed" examples/attention.moe attention_bwd B=2 S=40 N=3 D=24 ;;
    9) bits "$seed" tests/golden/bits_products.moe products M=90 N=70 P=111 ;;
    esac
    seed=$((seed + 1))
done
echo "schedules $first to $last: $([ $bad = 0 ] && echo ok || echo failed)"
exit $bad
