#!/bin/sh
# No .moe file of the tree has a warning that it does not allow.   usage: warnings.sh BUILD
set -u
cd "$(dirname "$0")/.."
moec=$1/bin/moec
bad=0
for file in examples/*.moe model/*.moe bench/*.moe tests/differential/*.moe tests/golden/*.moe tests/numpy/*.moe tests/growth/*.moe; do
    case $file in tests/golden/warnings*.moe) continue ;; esac # they show them
    grep -q '^// exit: [1-9]' "$file" && continue        # it shows errors
    said=$("$moec" check --werror "$file" 2>&1) || {
        echo "FAILED $file: $said"
        bad=1
    }
done
exit $bad
