#!/bin/sh
# The tile level as text: written, read back and verified, written again, for every kernel of the differential tests and
# examples, with and without optimizing, for a target without and one with products of 16-bit types.
# usage: tile_text.sh MOEC
moec=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
# round_trip SOURCE OPTION...
round_trip() {
  first=$folder/first.moetiles second=$folder/second.moetiles
  if "$moec" --emit=tiles "$@" -o "$first" && "$moec" --emit=tiles "$first" -o "$second" && cmp -s "$first" "$second"; then
    return
  fi
  echo "FAILED  $*"
  diff "$first" "$second" | head -6
  failed=1
}
for source in tests/differential/*.moe examples/*.moe; do
  round_trip "$source" --target=amx-soft
  round_trip "$source" --target=avx2 -O0
done
# Of AMX's tiles others multiply no left operand in rows: refused, not wrong.
"$moec" --emit=tiles --target=amx-soft examples/attention.moe -o "$folder/amx.moetiles"
if "$moec" "$folder/amx.moetiles" --start-at=tiles --target=avx512bf16 -o "$folder/amx.so" 2>"$folder/said" ||
  ! grep -q 'avx512bf16 does not read left operands in rows' "$folder/said"; then
  echo "FAILED  tiles of AMX for avx512bf16: $(cat "$folder/said")"
  failed=1
fi
# Vectors of more lanes than a word has bits, stored one by one.
cat >"$folder/wide.moe" <<'END'
moe 1
dim K, T, F
kernel wide(in x: f32[K, T, F], out y: f32[K, F] packed) {
  y[k, f] = max(t) x[k, t, f]
}
test wide { K=3 T=2 F=300 }
END
"$moec" --emit=tiles --target=generic "$folder/wide.moe" | sed '/vector f/s/ by [0-9]* {$/ by 128 {/; s/f32 x [0-9]*/f32 x 128/' >"$folder/wide.moetiles"
for target in generic host; do
  if ! grep -q 'vector f .* by 128' "$folder/wide.moetiles" ||
    ! "$moec" test --quiet --no-aot --target=$target --tiles="$folder/wide.moetiles" "$folder/wide.moe" >"$folder/said" 2>&1; then
    echo "FAILED  vectors of 128 lanes for $target: $(cat "$folder/said" "$folder/wide.moetiles")"
    failed=1
  fi
done
exit $failed
