#!/bin/sh
# Every program of the tests, the examples and the trainer through all passes, verified after each, optimised and not.
# usage: verify.sh BUILD
set -eu
cd "$(dirname "$0")/.."
bad=0
for file in examples/*.moe trainer/*.moe tests/differential/*.moe tests/numpy/*.moe tests/golden/*.moe; do
    for level in 0 2; do
        "$1/bin/moec" --verify-each -O $level --target=avx2 --emit=tiles "$file" >/dev/null || {
            echo "FAILED $file at -O $level"
            bad=1
        }
    done
done
exit $bad
