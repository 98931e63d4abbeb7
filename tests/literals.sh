#!/bin/sh
# What stands in tables and descriptions stands nowhere else:
#   passes/ lower/ npu/  no literal 16 or 256: extents, fragments and alignments come from machines/; a bit is 1 << 4, a limit
#               of a list another number. And nothing asks this computer (machine_probe)
#   the rooms up to backend/  no switch with a `default:`, but for one over characters
#   backend/    no name of an operation of the user's programs: it knows loops, packs and products only
# Prints every place that breaks a rule.
set -eu
cd "$(dirname "$0")/.."

# Code without comments, strings and characters; lines keep their numbers.
code() {
    awk '
    { out = ""
      for (line = $0; line != "";) {
          at = inside ? index(line, "*/") : 0
          if (inside && !at) break
          if (inside) { inside = 0; line = substr(line, at + 2) }
          else if (line ~ /^\/\//) break
          else if (line ~ /^\/\*/) { inside = 1; line = substr(line, 3) }
          else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) line = substr(line, RLENGTH + 1)
          else { out = out substr(line, 1, 1); line = substr(line, 2) }
      }
      print out }' "$@"
}

figures() {
    code "$@" | grep -nE '(^|[^0-9A-Za-z_.])(16|256|0[xX]0*100?|020|0400)[uUlL]*([^0-9A-Za-z_.]|$)|machine_probe' || true
}

# The test itself: it finds these three, and none of what only looks like them.
found=$(printf '%s\n' 'a = b[16];' '/* 16' '256 */ a = 256u; // 16' 'f("16 /* ", 160, x16, 1.16, s.f256) + 1' \
    'a = 0x100;' | figures | cut -d: -f1 | tr '\n' ' ')
[ "$found" = '1 3 5 ' ] || {
    echo "literals: finds lines $found of its own test, not 1 3 5"
    exit 1
}

bad=0
for file in $(find passes lower npu -name '*.[ch]' | sort); do
    found=$(figures "$file")
    [ -z "$found" ] || {
        echo "$found" | sed "s|^\([0-9]*\):|$file:\1: a figure of a machine: |"
        bad=1
    }
done
# The compiler holds switches over tables to naming every row (-Wswitch-enum), but not those over numbers.
grep -rn 'default:' base machines ir frontend passes lower npu emulator backend --include='*.c' --include='*.h' |
    grep -v '^emulator/html.c' && { echo "a switch with a default: takes new rows of a table without a word"; bad=1; }
grep -rniE 'gmm|permute|swiglu|softmax' backend && { echo "backend/ names an operation of the user's programs"; bad=1; }
grep -rn 'machine_probe' backend && { echo "backend/ asks this computer: Note [Same machine, same code]"; bad=1; }
exit $bad
