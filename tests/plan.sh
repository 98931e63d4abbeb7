#!/bin/sh
# Plans for NPUs: examples under the checking emulator of two of them, plan text, what is refused.
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

fail() {
    echo "FAILED  $*"
    status=1
}

# wants TEXT COMMAND...: the command fails, and says TEXT
wants() {
    text=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        fail "accepted: $*"
    elif ! grep -q -e "$text" "$work/out"; then
        fail "$*: does not say '$text':"
        cat "$work/out"
    fi
}

for machine in ascend910b2 ascend950pr; do
    for file in examples/*.moe; do
        "$moec" test --quiet --machine "$machine" --emulate=check "$file" >"$work/out" 2>&1 ||
            { fail "$machine $file"; cat "$work/out"; }
    done
done

# The plan is text that reads back as it is, verified after every pass.
for file in examples/*.moe; do
    "$moec" --machine ascend910b2 --verify-each --emit=tiles "$file" -o "$work/a.moetiles"
    "$moec" --machine ascend910b2 --emit=tiles "$work/a.moetiles" -o "$work/b.moetiles"
    cmp -s "$work/a.moetiles" "$work/b.moetiles" || fail "$file: the plan's text reads back differently"
done

# A plan's text runs, too.
"$moec" --machine ascend910b2 --emit=tiles examples/moe_ffn.moe -o "$work/ffn.moetiles"
"$moec" test --quiet --machine ascend910b2 --emulate=check --tiles="$work/ffn.moetiles" examples/moe_ffn.moe >/dev/null ||
    fail "a plan's text does not run"
# A vector loop that does not wait for what it reads is found.
sed '/\(wait\|set\) mte2 -> vector/d' "$work/ffn.moetiles" >"$work/race.moetiles"
"$moec" test --quiet --machine ascend910b2 --emulate=check --tiles="$work/race.moetiles" examples/moe_ffn.moe |
    grep -q 'race: vector reads in.* no chain of set and wait tells it that mte2 is done' || fail "a race of a vector loop goes unnoticed"

# What does not fit is refused with all that is there.
cat >"$work/large.moe" <<'END'
moe 1
dim M, N, K
kernel large(in a: bf16[M, K], in b: bf16[K, N], out c: f32[M, N]) {
  c[m, n] = sum(k) a[m, k] * b[k, n]
}
schedule large { tile c : M = 256 N = 256 }
END
wants 'error\[E0708\].*l0c of ascend910b2 has 131072 bytes, and 262144 are needed' \
    "$moec" --machine ascend910b2 --emit=tiles "$work/large.moe"

wants 'help: in schedule large this fits: tile c : M = 256 N = 128 K = 256 (instead of the one in line 6), or tile c : M = 128 N = 256 K' \
    "$moec" --machine ascend910b2 --emit=tiles "$work/large.moe"
sed 's/M = 256 N = 256/M = 256 N = 128 K = 256/' "$work/large.moe" >"$work/fits.moe"
"$moec" --machine ascend910b2 --emit=tiles "$work/fits.moe" >/dev/null || fail "what was said to fit does not"

# What one looks at on the way: `plan` leaves a plan, whatever is named beside it.
for look in --dump-ir=plan --stop-after=plan; do
    "$moec" --machine ascend910b2 $look examples/rmsnorm.moe 2>&1 | grep -q '^ *set mte2 -> vector' || fail "$look prints no plan"
done
"$moec" --machine ascend910b2 --stop-after=lower examples/rmsnorm.moe | grep -q '^ *set ' && fail "--stop-after=lower prints a plan"

# Words.
wants "there is no machine 'ascend9'" "$moec" --machine ascend9 --emit=tiles examples/moe_ffn.moe
wants 'there is no code for ascend910b2' "$moec" --machine ascend910b2 examples/moe_ffn.moe -o "$work/x.so"
wants '\-\-emulate=fast' "$moec" test --machine ascend910b2 --emulate=fast examples/moe_ffn.moe
wants 'emulate' "$moec" test --emulate examples/moe_ffn.moe
wants 'emulate' "$moec" test --machine host --emulate examples/moe_ffn.moe
wants 'only an NPU' "$moec" "$work/ffn.moetiles" -o "$work/x.so"
exit $status
