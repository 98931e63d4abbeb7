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
exit $failed
