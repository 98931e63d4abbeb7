#!/bin/sh
# moe-train refuses what cannot work, by name, with the right exit code; and takes any number of threads. $1: build directory.
set -u
train=$1/bin/moe-train
scratch=$(mktemp -d)
mkdir "$scratch/data"
trap 'rm -rf "$scratch"' EXIT
failed=0

# refuses CODE TEXT ARGUMENTS...: exit code and a part of the message
refuses() {
    code=$1 text=$2
    shift 2
    "$train" "$@" >"$scratch/out" 2>&1
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -e "$text" "$scratch/out"; then
        echo "moe-train $*: exit $got, wanted $code and \`$text\`"
        cat "$scratch/out"
        failed=1
    fi
}

echo "int main(void);" >"$scratch/data/small.h"
: >"$scratch/data/empty.h"
printf 'a\0b' >"$scratch/data/binary.h"

refuses 2 "--lr takes a number from 0 to 10" --lr 99
refuses 2 "--layers takes a whole number from 1 to 256" --layers 2x
refuses 2 "--width must be a multiple" --heads 3
refuses 2 "--top-k is larger than --experts; --experts is 2, --top-k is 3" --experts 2 --top-k 3
refuses 2 "--micro-batches must divide" --micro-batches 3
echo '{"top-k": 9, "experts": 4}' >"$scratch/both.json"
refuses 2 "--experts is 4 in $scratch/both.json, --top-k is 8" --config "$scratch/both.json" --top-k 8
for option in layers width heads experts top-k expert-width shared-width vocab rotary-base balance; do
    refuses 2 "--$option has no effect beside --model: its config.json says that" --model examples/models/tiny.json --$option 8 --data LICENSE
done
echo '{"model": "examples/models/tiny.json", "experts": 64, "layers": 4}' >"$scratch/model.json"
refuses 2 "--experts has no effect beside --model of $scratch/model.json: its config.json says that; --experts is 64 in $scratch/model.json" --config "$scratch/model.json" --data LICENSE
refuses 2 "--beta1 takes a number from 0 to 0.9999999, not \`1\`" --beta1 1
refuses 2 "--row-factor must be 0 or at least 1" --row-factor 0.5
refuses 2 "--spike must be 0 or at least 1" --spike 0.5
refuses 2 "--row-factor must be 0 or at least 1" plan --model examples/models/tiny.json --row-factor 0.5
refuses 2 "--row-factor takes a number from 0 to 1000000, not \`1.5x\`" plan --model examples/models/tiny.json --row-factor 1.5x
refuses 1 "/nonexistent: No such file" --data /nonexistent
refuses 1 "neither a regular file nor a folder" --data /dev/null
refuses 1 "the data is too small" --data "$scratch/data"
refuses 1 "1 binary files, 1 empty" --data "$scratch/data"
sed 's/{/{"hiden_size": 1,/' examples/models/tiny.json >"$scratch/typo.json"
refuses 0 "typo.json: warning: fields that are not known have no effect: \"hiden_size\" (did you mean \`hidden_size\`?)" plan --model "$scratch/typo.json"
refuses 1 "/nonexistent: cannot be read: No such file" --model /nonexistent --data LICENSE
refuses 2 "--model is needed, and --data or --tokens" eval --model examples/models
refuses 2 "--logits and --gradients are one file" eval --model examples/models --tokens ids --logits out --gradients out
ids='{"ids":{"dtype":"I32","shape":[1,66],"data_offsets":[0,264]}}'
{
    printf "\\$(printf %03o ${#ids})"'\0\0\0\0\0\0\0%s' "$ids"
    head -c 264 /dev/zero
} >"$scratch/ids"
refuses 1 "sequences of 65 positions, and max_position_embeddings of --model is 64" eval --model examples/models/tiny.json --tokens "$scratch/ids"
refuses 1 "--ids 1,x: token 1 must be a whole number from 0 to" generate --model examples/models/deepseek_v3.json --ids 1,x
refuses 2 "--length takes a whole number from 1" generate --model examples/models --ids 1 --length 0
refuses 2 "--model is missing" plan
refuses 2 "--memory takes bytes, as 4G or 500M, not \`4 G\`" plan --model examples/models/tiny.json --memory "4 G"
refuses 1 "2 heads of keys over tp of 4 ranks" plan --model examples/models/tiny_gqa.json --ranks 4 --tp 4
refuses 1 "2 heads of keys over tp of 4 ranks" plan --model examples/models/tiny_gqa.json --ranks 4 --tp 4 --sequences 2
for field in hidden_size kv_lora_rank q_lora_rank; do
    sed "s/\"$field\": [0-9]*/\"$field\": 1/" examples/models/tiny.json >"$scratch/single.json"
    refuses 1 "$field is 1 over tp of 2 ranks: must be at least 2 there" plan --model "$scratch/single.json" --sequence 16 --ranks 2 --tp 2
done
sed 's/"num_key_value_heads": 2/"num_key_value_heads": 4/' examples/models/tiny_gqa.json >"$scratch/heads.json"
refuses 1 "balance of 2 sequences over tp of 4 ranks" plan --model "$scratch/heads.json" --ranks 4 --tp 4 --sequences 2
refuses 1 "--recompute: \`sofa\`: no task belongs to it in these layers; the modules are latents, mla" plan --model examples/models/tiny.json --recompute sofa
refuses 1 "--recompute: \`permute\`: permuted rows are never kept" plan --model examples/models/tiny.json --recompute swiglu,permute:1
refuses 1 "in /nonexistent: No such file or directory" --swap all --swap-folder /nonexistent --data LICENSE
refuses 1 "modules of multi-token prediction in sequences of" plan --model examples/models/tiny.json --sequence 1
refuses 2 "vocab_size must be at least 256" --model tests/models/deepseek_v3 --data LICENSE
refuses 2 "--sequence is larger than max_position_embeddings" --model examples/models/trainer.json --sequence 4096 --data LICENSE
refuses 2 "--sequence is larger than max_position_embeddings" plan --model examples/models/tiny.json --sequence 65
refuses 1 "--ids and --length 64 are more tokens than max_position_embeddings of --model, 64" generate --model examples/models/tiny.json --ids 1 --length 64
refuses 1 " examples/models/model.safetensors.index.json: cannot be read" generate --model examples/models/tiny.json --ids 1 --length 4
refuses 1 "--log /nonexistent/log" --log /nonexistent/log --data LICENSE
refuses 2 "--trace-steps has no effect without --trace" --trace-steps 2
refuses 1 "--trace-after 3: this run ends behind step 3, so nothing would be traced" --steps 3 --trace "$scratch/trace" --trace-after 3 --data LICENSE
once="--data LICENSE --layers 1 --width 32 --heads 2 --experts 2 --expert-width 8 --shared-width 8 --sequence 16 --sample 0"
refuses 0 "warning: --warmup 50 is beyond --steps 2: the learning rate only comes up to 0.00012 of --lr 0.003" $once --steps 2 --warmup 50
(
    PMI_RANK=abc
    export PMI_RANK
    refuses 1 "PMI_RANK is \`abc\`, and a launcher puts a whole number there" $once --steps 1
    exit $failed
) || failed=1
echo kept >"$scratch/choices"
refuses 2 "--choices and --choices-from are one file" $once --choices "$scratch/choices" --choices-from "$scratch/choices"
grep -q kept "$scratch/choices" || failed=1
latin=$(printf 'gr\374n')
refuses 0 "1/1" $once --steps 1 --prompt "$latin"
refuses 2 "--prompt is not UTF-8, and --log and --save write all options as JSON" $once --steps 1 --prompt "$latin" --log "$scratch/log"
refuses 2 "--data is not UTF-8" --data "$latin" --save "$scratch/save"
refuses 2 "--keep has no effect without --save" --keep 2
refuses 2 "--swap-folder has no effect without --swap" --swap-folder /tmp
refuses 2 "--tune-seconds has no effect without --tune" --tune-seconds 2
refuses 1 "--log /dev/full: cannot be written: No space left on device" --log /dev/full --data LICENSE
refuses 1 "10000 micro-batches of 131 tasks each: a program has at most 524288 tasks, which are 4002 micro-batches" plan --model examples/models/tiny.json --micro-batches 10000
refuses 1 "choose smaller sizes" --experts 4096 --expert-width 65536 --data LICENSE
refuses 2 "unrecognized option" --no-such-option
refuses 2 "there is no command 'words'" words
refuses 1 "training has diverged" --steps 100 --lr 10 --warmup 0 --weight-decay 10 --clip 1e9 --layers 1 --width 16 --heads 1 --experts 2 --expert-width 8 --shared-width 8 --sequence 16 --data LICENSE

# More threads than the machine has cores, or OpenMP is told, compute the same.
for threads in 1 3; do
    OMP_NUM_THREADS=1 "$train" --threads $threads --steps 2 --layers 1 --width 32 --heads 2 --experts 2 --expert-width 8 --shared-width 8 --sequence 32 --batch 4 --data LICENSE >"$scratch/out" 2>&1 || {
        echo "--threads $threads with OMP_NUM_THREADS=1 fails"
        cat "$scratch/out"
        failed=1
    }
    grep "^validation" "$scratch/out" >"$scratch/loss.$threads"
done
cmp "$scratch/loss.1" "$scratch/loss.3" || failed=1
exit $failed
