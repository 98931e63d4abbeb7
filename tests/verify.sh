#!/bin/sh
# Every .moe file of the repository through all passes for each machine, optimised and not, verified after every pass.
# Nothing but what tests/errors is about may be refused: an E0708 (a plan that does not fit the chip) is a failure, too.
# usage: verify.sh BUILD MACHINE...   a name of `moec machines`, or `npus`: every NPU among them
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
shift
[ "$*" != npus ] || set -- $("$moec" machines | grep ' an NPU ' | cut -d ' ' -f 1)
[ $# -gt 0 ]
files=$(find bench examples tests trainer -name '*.moe')
out=$(mktemp)
trap 'rm -f "$out"' EXIT
bad=0
for machine in "$@"; do
    for file in $files; do
        for level in 0 2; do
            code=0
            "$moec" --verify-each -O "$level" --target=avx2 --machine="$machine" --emit=tiles "$file" >/dev/null 2>"$out" ||
                code=$?
            case $code/$file in
            0/* | 1/tests/errors/*) ;;
            *)
                echo "FAILED $file at -O $level for $machine:"
                cat "$out"
                bad=1
                ;;
            esac
        done
    done
done
exit $bad
