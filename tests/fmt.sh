#!/bin/sh
# `moec fmt` over every .moe file of the tree: it changes no word (the program prints as the same equations), keeps all comments,
# and changes nothing that it wrote.   usage: fmt.sh BUILD
set -u
cd "$(dirname "$0")/.."
moec=$1/bin/moec
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
files=0
fail() {
    echo "FAILED $1: $2"
    bad=1
}
equations() { "$moec" --emit=ir --stop-after=derive "$1" 2>/dev/null; }
comments() { grep -o '//.*' "$1" | sed 's/[ \t\r]*$//'; }

# The files beside those that use them, as in the tree, which other tests read meanwhile.
mkdir -p "$scratch/tests"
cp -r examples model bench "$scratch"
cp -r tests/differential tests/golden tests/numpy tests/growth "$scratch/tests"

for file in examples/*.moe model/*.moe bench/*.moe tests/differential/*.moe tests/golden/*.moe tests/numpy/*.moe tests/growth/*.moe; do
    once=$scratch/$(dirname "$file")/once.moe
    cp "$file" "$once"
    if "$moec" check --allow=W1002,W1003,W1004,W1005 "$file" >/dev/null 2>&1 || "$moec" fmt "$once" >/dev/null 2>&1; then
        files=$((files + 1))
        "$moec" fmt "$once" || fail "$file" "is refused"
        "$moec" fmt --check "$once" >/dev/null || fail "$file" "another layout when it is formatted again"
        grep -q '^ \{81\}' "$once" && fail "$file" "a line begins behind column 80"
        equations "$file" >"$scratch/before"
        equations "$once" >"$scratch/after"
        cmp -s "$scratch/before" "$scratch/after" || fail "$file" "another program"
        comments "$file" >"$scratch/before"
        comments "$once" >"$scratch/after"
        cmp -s "$scratch/before" "$scratch/after" || fail "$file" "other comments"
    fi
    rm -f "$once"
done
for file in examples/*.moe; do
    "$moec" fmt --check "$file" >/dev/null || fail "$file" "is not in its usual layout"
done
# A byte order mark is no word; what is no text is refused, also in a comment, and stays as it is.
printf '\357\273\277moe 1\ndim  T\n' >"$scratch/mark.moe"
printf 'moe 1\ndim T // \377\n' >"$scratch/bytes.moe"
cp "$scratch/bytes.moe" "$scratch/as_it_was"
"$moec" fmt "$scratch/mark.moe" && [ "$(cat "$scratch/mark.moe")" = "$(printf 'moe 1\ndim T')" ] || fail mark "is not removed"
"$moec" fmt "$scratch/bytes.moe" 2>/dev/null && fail bytes "a comment that is not UTF-8 is not refused"
cmp -s "$scratch/bytes.moe" "$scratch/as_it_was" || fail bytes "a refused file is written"
[ "$files" -gt 80 ] || fail "all" "only $files files were formatted"
exit $bad
