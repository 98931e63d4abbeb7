#!/bin/sh
# The tile level as text: written, read back, written again, for every kernel of the differential tests and examples.
# usage: tile_text.sh MOEC
moec=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
for source in tests/differential/*.moe examples/*.moe; do
  first=$folder/first.moetiles second=$folder/second.moetiles
  if ! "$moec" --emit=tiles "$source" -o "$first" || ! "$moec" --emit=tiles "$first" -o "$second" ||
    ! cmp -s "$first" "$second"; then
    echo "FAILED  $source"
    diff "$first" "$second" | head -6
    failed=1
  fi
done
exit $failed
