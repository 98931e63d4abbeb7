#!/bin/sh
# The same bits on 1 and 2 threads and run after run, of kernels and of a short training
# run.   usage: same_bits.sh BUILD
set -eu
cd "$(dirname "$0")/.."
moec=$1/bin/moec
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0

# compare NAME COMMAND...: the output with 1, 2 and again 2 threads
compare() {
    name=$1
    shift
    for threads in 1 2 2; do
        OMP_NUM_THREADS=$threads "$@" >"$scratch/$threads" 2>&1 || {
            cat "$scratch/$threads"
            echo "FAILED $name: ended with an error"
            bad=1
            return
        }
        if [ $threads != 1 ] && ! diff "$scratch/1" "$scratch/$threads"; then
            echo "FAILED $name: $threads threads"
            bad=1
        fi
    done
    echo "same $name"
}

# One thread, or a team however small the sizes are.
run() { "$moec" run --no-time --threads=$threads "$@"; }
compare ffn run examples/moe_ffn.moe ffn T=67 K=3 E=7 H=48 F=80
compare ffn_fwd run examples/moe_ffn.moe ffn_fwd T=67 K=3 E=7 H=48 F=80
compare ffn_bwd run --routing='zipf(1.2), empty(40%)' examples/moe_ffn.moe ffn_bwd T=67 K=3 E=7 H=48 F=80
compare attention run examples/attention.moe attention B=2 S=40 N=3 D=24
compare attention_bwd run examples/attention.moe attention_bwd B=2 S=40 N=3 D=24
compare router run examples/router.moe router T=300 K=2 E=33 H=48
compare products run tests/golden/bits_products.moe products M=90 N=70 P=111
compare transposed_bwd run tests/differential/products.moe transposed_bwd T=265 H=67 F=53
compare capacity run tests/differential/products.moe capacity T=301 K=2 E=5 H=77 F=131 C=33
for isa in host amx-soft; do
    compare "dense $isa" run --target=$isa tests/differential/products.moe dense T=140 H=261 F=131
    compare "glu_bwd $isa" run --target=$isa --routing='zipf(2), empty(40%)' tests/differential/products.moe \
        glu_bwd T=200 K=2 E=5 H=67 F=39
done
compare buckets run tests/golden/bits_buckets.moe buckets N=30000 V=70
compare scatter run tests/golden/bits_scatter.moe scatter N=3000 V=70 M=20
compare "unpermute into product" run --routing='zipf(1.2), empty(40%)' tests/differential/scatter.moe ffn T=151 K=3 E=7 H=157 F=37
compare "its gradient" run tests/differential/scatter.moe ffn_bwd T=151 K=3 E=7 H=157 F=37
compare "unpermute beside a product" run tests/differential/scatter.moe shared T=151 K=3 E=7 H=157 F=37 G=41
compare gradient run tests/golden/bits_gradient.moe gradient T=100 K=3 E=5 M=50 N=40

# However a rowblock is cut: the same bits, also where targets add two or 32 terms at a time.
for isa in host amx-soft; do
    for rows in 64 160; do
        cp examples/attention.moe "$scratch/rowblocks.moe"
        echo "schedule attention { rowblock i : rows = $rows }" >>"$scratch/rowblocks.moe"
        "$moec" run --no-time --target=$isa "$scratch/rowblocks.moe" attention_bwd B=1 S=200 N=2 D=24 >"$scratch/rows$rows"
    done
    cmp "$scratch/rows64" "$scratch/rows160" || bad=1
    echo "same rowblocks $isa"
done
# In strips of columns, of any width or none, and of any rows; with a running maximum of any rows.
for isa in host amx-soft; do
    for columns in 0 32 160; do
        sed "s/^test .*//" model/attention.moe >"$scratch/strips.moe"
        echo "schedule attention { rowblock i : rows = $((columns + 32)) columns = $columns }" >>"$scratch/strips.moe"
        "$moec" run --no-time --target=$isa "$scratch/strips.moe" attention_bwd B=1 S=203 L=233 O=30 N=2 D=24 U=40 \
            >"$scratch/columns$columns"
        "$moec" run --no-time --target=$isa "$scratch/strips.moe" attention B=1 S=203 L=2233 O=2030 N=2 D=24 U=40 \
            >>"$scratch/columns$columns"
    done
    for columns in 32 160; do
        cmp "$scratch/columns0" "$scratch/columns$columns" || bad=1
    done
    echo "same strips $isa"
done
train() {
    rm -f "$scratch/log"
    "$1/bin/moe-train" --layers 1 --width 64 --experts 8 --sequence 64 --batch 4 --steps 5 --data-limit 1 --sample 0 \
        --validation-batches 1 --log "$scratch/log" >/dev/null || return 1
    # the work space of kernels, a part of the arena, is for so many threads
    sed 's/"seconds".*//; s/, "arena_bytes".*//; /"end"/d; /"options"/d' "$scratch/log"
}
compare moe-train train "$1"
exit $bad
