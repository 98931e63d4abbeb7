#!/bin/sh
# Every .moe file of the repository through all passes for each machine, on the first one also not optimised, verified after every pass.
# Nothing but what tests/errors is about, or says so in its head (// exit: 1), may be refused: an E0708 (a plan that does
# not fit the chip) is a failure, too.
# usage: verify.sh BUILD MACHINE...   a name of `moec machines`, or `npus`: every NPU among them
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
shift
[ "$*" != npus ] || set -- $("$moec" machines | grep ' an NPU ' | cut -d ' ' -f 1)
[ $# -gt 0 ]
files=$(find bench examples model step tests -name '*.moe')
out=$(mktemp)
trap 'rm -f "$out"' EXIT
bad=0
levels='0 2'
is_refused() {
    case $1 in tests/errors/*) return 0 ;; esac
    grep -q '^// exit: 1$' "$1"
}
for machine in "$@"; do
    target=
    [ "$machine" = host ] && target=--target=avx2
    for file in $files; do
        for level in $levels; do
            code=0
            "$moec" --verify-each -O "$level" $target --machine="$machine" --emit=tiles "$file" >/dev/null 2>"$out" ||
                code=$?
            if [ "$code" -ne 0 ] && ! { [ "$code" -eq 1 ] && is_refused "$file"; }; then
                echo "FAILED $file at -O $level for $machine:"
                cat "$out"
                bad=1
            fi
        done
    done
    levels=2
done
# A model runs in f32, too.
target=
[ "$1" = host ] && target=--target=avx2
for file in model/*.moe; do
    "$moec" --verify-each --type act=f32 $target --machine="$1" --emit=tiles "$file" >/dev/null 2>"$out" || {
        echo "FAILED $file with act=f32 for $1:"
        cat "$out"
        bad=1
    }
done
exit $bad
