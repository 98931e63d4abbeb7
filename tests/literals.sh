#!/bin/sh
# What stands in tables and descriptions stands nowhere else:
#   passes/ lower/ npu/  no number above 4: extents, fragments and alignments come from the machine, heuristics from
#               machines/heuristics.def. A limit is a constant NAME_MAX, a bit 1 << 4, a word of a set of bits / 64.
#               And nothing asks this computer (machine_probe)
#   passes/ lower/ backend/  no question whether the machine is a CPU or an NPU (traits answer: machines/figures.def)
#   all rooms but machines/  no name of an instruction set (numbers, traits and hooks answer: machines/cpu.def)
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
    code "$@" | sed -E 's/[A-Z]_MAX = [0-9]+/M/g; s/1 << [0-9]+/B/g; s/, 0xff,/, F,/; s/( \+ 63\))? [*\/%] 64/W/g' |
        grep -nE '(^|[^0-9A-Za-z_.])([5-9]|[1-9][0-9]+|0[0-9]+|0[xX][0-9a-fA-F]+)[uUlL]*([^0-9A-Za-z_.]|$)|machine_probe|machine_here' || true
}

names() {
    grep -nE "$1" | sed 's/:.*//' | tr '\n' ' '
}
ISA='\bISA_[a-z]'
KIND='\bpass_npu\b|\bMACHINE_[CN]PU\b'

# The test itself: it finds these lines, and none of what only looks like them.
own() {
    [ "$2" = "$3" ] || {
        echo "literals: finds lines $2 of its own test of $1, not $3"
        exit 1
    }
}
own numbers "$(printf '%s\n' 'a = b[16];' '/* 16' '256 */ a = 256u; // 16' 'f("16 /* ", x16, 1.16, s.f256) + 4' \
    'a = 0x100;' 'LIST_MAX = 160, a / 64 + (b + 63) / 64, 1 << 5' 'WORK = 6' 'a = 64' | figures | cut -d: -f1 | tr '\n' ' ')" \
    '1 3 5 7 8 '
own sets "$(printf '%s\n' 'isa >= ISA_avx512' 'ISA_COUNT' 'case ISA_amx:' 'MY_ISA_x' | names "$ISA")" '1 3 '
own kinds "$(printf '%s\n' 'if (pass_npu(c))' 'kind == MACHINE_NPU' 'the_pass_npu_of' | names "$KIND")" '1 2 '

bad=0
for file in $(find passes lower npu -name '*.[ch]' | sort); do
    found=$(figures "$file")
    [ -z "$found" ] || {
        echo "$found" | sed "s|^\([0-9]*\):|$file:\1: a bare figure: |"
        bad=1
    }
done
# The compiler holds switches over tables to naming every row (-Wswitch-enum), but not those over numbers.
grep -rn 'default:' base machines ir frontend passes lower npu emulator backend --include='*.c' --include='*.h' |
    grep -v '^emulator/html.c' && { echo "a switch with a default: takes new rows of a table without a word"; bad=1; }
grep -rniE 'gmm|permute|swiglu|softmax' backend && { echo "backend/ names an operation of the user's programs"; bad=1; }
grep -rnE "$ISA" passes lower npu backend emulator driver testing explain command --include='*.[ch]' &&
    { echo "an instruction set is named: ask for its trait, or give its row a hook (machines/cpu.def)"; bad=1; }
grep -rnE "$KIND" passes lower backend --include='*.[ch]' | grep -v '^passes/passes.h:.*machine_traits' &&
    { echo "a kind of machine is named: ask for its trait (pass_traits)"; bad=1; }

grep -rnE 'machine_probe|machine_here' backend && { echo "backend/ asks this computer: Note [Same machine, same code]"; bad=1; }
exit $bad
