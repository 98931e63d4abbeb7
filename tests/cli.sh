#!/bin/sh
# The command: exit codes, outputs that appear whole or not at all, the cache.   usage: cli.sh BUILD
set -u
cd "$(dirname "$0")/.."
moec=$(cd "$1/bin" && pwd)/moec
root=$(pwd)
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
export MOEC_CACHE="$scratch/cache" TMPDIR="$scratch/tmp"
mkdir "$TMPDIR"
cd "$scratch"
cp "$root/examples/rmsnorm.moe" a.moe
bad=0

# expect STATUS WORDS COMMAND...: the exit status, and words in what it printed
expect() {
    want=$1
    words=$2
    shift 2
    "$@" >out 2>&1 </dev/null
    got=$?
    if [ $got -ne "$want" ] || { [ -n "$words" ] && ! grep -q -- "$words" out; }; then
        echo "FAILED ($got for $want, '$words'): $*"
        head -n 20 out
        bad=1
    fi
}
# nothing NAME...: these files do not exist
nothing() {
    for name; do
        if ls "$name"* >/dev/null 2>&1; then
            echo "FAILED: left $(ls "$name"*)"
            bad=1
        fi
    done
}
same() {
    cmp "$1" "$2" || {
        echo "FAILED: $3"
        bad=1
    }
}

echo "-- bench"
expect 0 'GFLOP/s' "$moec" bench a.moe rmsnorm T=16 H=64 --seconds 0 --rounds 3
expect 0 'the second takes .* times as long' "$moec" bench a.moe T=16 H=64 --seconds 0 --rounds 3 --against a.moe:rmsnorm --threads 1,2
expect 0 '"confidence": 0.95' "$moec" bench a.moe T=16 H=64 --seconds 0 --rounds 3 --format=json \
    --against-schedule 'schedule rmsnorm { strip y : lanes = 64 }'
expect 1 'H of kernel rmsnorm: no size' "$moec" bench a.moe T=16
expect 2 'schedule takes' "$moec" bench a.moe T=16 H=64 --schedule nothing.txt
expect 1 'no kernel' "$moec" bench a.moe nothing T=16 H=64
expect 1 'take .* GiB, and this machine has' "$moec" bench a.moe rmsnorm T=1000000 H=1000000
printf 'moe 1\ndim T\nkernel f(in i: i32[T], out y: i32[T]) { y[t] = i[i[t] + T - 1] }\n' >outside.moe
expect 1 'f T=8: f: index [-0-9]* is outside axis 0 of i, whose extent is 8' "$moec" bench outside.moe T=8
cp out said
expect 0 '^1$' grep -c . said

echo "-- memory that ends"
printf 'moe 1\ndim T\nkernel f(in a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p: f32[T], out y: f32[T]) {\n  y[t] = %s\n}\n' \
    'a[t]+b[t]+c[t]+d[t]+e[t]+f[t]+g[t]+h[t]+i[t]+j[t]+k[t]+l[t]+m[t]+n[t]+o[t]+p[t]' >many.moe
expect 1 'many.moe: error: more than 2048 MiB of memory are needed' "$moec" run --no-time --interp many.moe T=16777216

echo "-- a kernel and its sizes, said in each way"
cp "$root/examples/moe_ffn.moe" ffn.moe
for command in "run --no-time" "report" "explain"; do
    routing='exact(3,2,1)'
    "$moec" $command ffn.moe ffn T=3 K=2 E=3 H=16 F=32 "routing=$routing" >one 2>/dev/null
    "$moec" $command ffn.moe:ffn --sizes="T=3, K=2,E=3" H=16 --sizes=F=32 --routing="$routing" >two 2>/dev/null
    "$moec" $command ffn.moe --sizes="T=3,K=2,E=3,H=16,F=32,routing=$routing" ffn >three 2>/dev/null
    expect 0 '' grep -q . one
    same one two "$command: FILE:KERNEL, --sizes and --routing"
    same one three "$command: --sizes with a routing"
    expect 2 "'more' is too much" "$moec" $command ffn.moe ffn more
    expect 1 'two sizes' "$moec" $command ffn.moe ffn T=3 --sizes=T=3
done
expect 0 'ffn .*E=100000' "$moec" bench ffn.moe ffn T=4096 K=1 E=100000 H=16 F=16 --seconds 0 --rounds 1 # routes take neither long nor much memory
expect 0 'ffn .*T=3 .*E=3' "$moec" bench ffn.moe:ffn --sizes=T=3,K=2,E=3 H=16 F=32 --seconds 0 --rounds 3 'routing=exact(3,2,1)'
expect 0 'T=3.*exact(3,2,1)' "$moec" tune ffn.moe ffn T=3 K=2 E=3 H=16 F=32 'routing=exact(3,2,1)' --budget 1s --no-db
expect 2 "'T=3' is too much" "$moec" test ffn.moe T=3
cp ffn.moe f:n.moe
expect 1 'nothing.moe:ffn: cannot be read' "$moec" run nothing.moe:ffn
expect 0 '^y:' "$moec" run f:n.moe:ffn
expect 0 '^y:' "$moec" run f:n.moe

echo "-- options that would have no effect"
for line in 'a.moe --machine=ascend910b2 --emit=tiles' 'test a.moe --machine=ascend910b2 --emulate' 'tune a.moe T=4 H=4 --by=npu:ascend910b2'; do
    expect 2 'target has no effect with the machine ascend910b2' "$moec" $line --target=avx2
done
expect 0 '' "$moec" a.moe --machine=host --target=avx2 -o a.so
for command in run bench report tune explain; do
    expect 1 'has no route: routing=zipf(1.2) would have no effect' "$moec" $command a.moe T=4 H=4 'routing=zipf(1.2)'
done
expect 0 '' "$moec" explain ffn.moe 'routing=exact(1)' E=1
expect 2 "takes codes of warnings and hints, as W1003, not 'zz'" "$moec" check a.moe --allow=W1003,zz
expect 2 "not 'E0101'" "$moec" check a.moe --allow=E0101
expect 2 "not ''" "$moec" a.moe --allow= -o a.so
expect 2 'threads has no effect without --tuned-for' "$moec" a.moe --threads=2 -o a.so
expect 2 'threads has no effect without --tuned-for' "$moec" explain a.moe --threads=2
expect 2 'tuned-for takes sizes' "$moec" a.moe --tuned-for= -o a.so
echo 'schedule rmsnorm { strip y : lanes = 64 }' >given.txt
expect 0 '' "$moec" a.moe --no-cache --emit=ir --stop-after=unread --schedule given.txt -o given.moe
expect 0 'strip y : lanes = 64' cat given.moe
expect 0 'lanes = 64.*schedule, <schedule> line 1' "$moec" explain a.moe rmsnorm --schedule given.txt
for command in run report explain; do
    expect 1 'E0705' "$moec" $command a.moe rmsnorm --schedule 'schedule rmsnorm { strip y : lanes = 63 }'
done
expect 0 ' 0 failed' "$moec" test --no-aot --no-gradcheck a.moe --schedule given.txt
expect 0 'kernel rmsnorm for ascend910b2' "$moec" explain --machine ascend910b2 a.moe rmsnorm
expect 0 'bf16 x bf16: cube' "$moec" explain --machine ascend910b2 "$root/examples/moe_ffn.moe" ffn
expect 0 'so -> y *stored .*another sum, which this machine computes by another unit' "$moec" explain --machine ascend910b2 "$root/model/experts.moe" experts
expect 2 'target has no effect with the machine ascend910b2' "$moec" explain --machine ascend910b2 --target=avx2 a.moe
expect 2 "schedule takes .schedule NAME { ... }. or a file that has it, not 'none.txt'" "$moec" a.moe --schedule none.txt -o a.so
expect 2 'schedule gives one' "$moec" a.moe --schedule given.txt --tuned-for=T=4 -o a.so
expect 2 '--schedule is about compiled code' "$moec" run a.moe --interp --schedule given.txt
expect 1 'tuned-for=zzz: .the end. does not fit' "$moec" a.moe --tuned-for=zzz -o a.so
expect 1 'E0960.: --type gives no element type' "$moec" a.moe --type= -o a.so
expect 2 'soname has no effect without -o FILE.so' "$moec" a.moe --soname=x --emit=asm
expect 2 "emit=asm, but the ending of 'a.so' is that of --emit=so" "$moec" a.moe --emit=asm -o a.so
expect 0 '' "$moec" a.moe --emit=asm -o a.text
expect 1 "unknown target ''" "$moec" a.moe --target= -o a.so
expect 2 'space, --decisions and --html are printed one at a time' "$moec" explain a.moe --space --decisions
expect 2 'there is no JSON of --space' "$moec" explain a.moe --space --format=json
expect 2 "threads takes a whole number from 0 to 4096, not ''" "$moec" bench a.moe T=16 H=64 --threads=
for option in --tiles=x --target=avx2 --threads=2 -O0 --schedule-seed=1; do
    expect 2 'is about compiled code, which --interp leaves out' "$moec" run a.moe --interp $option
done
expect 2 'db and --no-db' "$moec" tune a.moe T=16 H=64 --db=x --no-db
expect 2 'all has no effect without ls' "$moec" db prune --other-builds --all
expect 2 'older has no effect without prune' "$moec" db ls --older=3
expect 2 'keys is about all machines' "$moec" machines --keys host
expect 2 'probe times this CPU' "$moec" machines --probe ascend910b2
printf 'moe 1\ndim T, N, M // allow W1003\nkernel f(in x: f32[T, T], out y: f32[T]) { y[t] = x[t, 0] }\n' >unused.moe
expect 1 W1002 "$moec" check --werror --allow=W1005 unused.moe
expect 0 '' "$moec" check --werror --allow=W1005 --allow=W1002 unused.moe
for command in check explain grad; do
    expect 0 '' sh -c '! "$@" 2>&1 | grep W1002' - "$moec" $command --allow=W1002 unused.moe
done

echo "-- explain --html"
expect 0 '' "$moec" explain --html=page.html --target=avx2 a.moe rmsnorm
expect 0 '<span class="l" data-l="10">  y' grep 'y.t, h. = ' page.html
expect 0 'data-l="10">.*vmulps' cat page.html
expect 0 '<span class="l">rmsnorm.avx2' cat page.html
expect 1 'no kernel' "$moec" explain --html=nothing.html a.moe nothing
expect 1 'is a directory' "$moec" explain --html=/tmp a.moe rmsnorm
nothing nothing.html

echo "-- tune"
# with_time TEXT COMMAND...: COMMAND --budget 2s, or more if it takes more before it prints TEXT: a busy machine measures nothing in 2 s
with_time() {
    until=$1
    shift
    for budget in 2s 10s 60s; do
        rm -f small.db* tuned.db*
        "$@" --budget $budget >said 2>&1
        got=$?
        ! grep -q -- "$until" said || break
    done
    cat said
    return $got
}
expect 0 'knobs; .* looked at' "$moec" tune a.moe:rmsnorm --sizes T=16,H=64 --budget 1s
expect 0 'not measured' "$moec" tune a.moe:rmsnorm --list-space
expect 0 'ascend910b2, 1 thread' "$moec" tune a.moe --sizes T=256,H=256 --by npu:ascend910b2 --budget 1s --strategy model --keep-bits
expect 0 'default  ' sh -c '"$0" tune a.moe:rmsnorm --sizes T=16,H=64 --budget 10m --no-db & sleep 1; kill -INT $!; wait $!' "$moec"
expect 1 'H of kernel rmsnorm: no size' "$moec" tune a.moe:rmsnorm --sizes T=16 --budget 1s
expect 1 'no kernel' "$moec" tune a.moe:nothing --sizes T=16,H=64
expect 1 'No such file or directory' "$moec" tune a.moe:rmsnorm --sizes T=16,H=64 --routing file:nothing
expect 1 'not a list of how many rows' "$moec" tune a.moe:rmsnorm --sizes T=16,H=64 --routing file:a.moe
expect 2 'strategy' "$moec" tune a.moe --sizes T=16,H=64 --strategy nothing
expect 2 'budget' "$moec" tune a.moe --sizes T=16,H=64 --budget 10x
expect 2 'no sizes' "$moec" tune a.moe
export MOE_TUNED="$scratch/tuned.db"
expect 0 'there are no records: .*tuned.db does not exist yet' "$moec" db ls
expect 1 'there are no records: .*tuned.db does not exist' "$moec" db show 1
expect 1 'there are no records: .*/tuned.db does not exist' "$moec" db ls --db "$scratch/tuned.db"
expect 1 'MOE_TUNED is off' env MOE_TUNED=off "$moec" db ls
expect 0 "kept in  $scratch/tuned.db" with_time 'looked at, [0-9]* measured' "$moec" tune a.moe:rmsnorm --sizes T=16,H=64
expect 0 'rmsnorm .* T=16 H=64' "$moec" db ls
expect 0 'tried' "$moec" db ls --all
expect 0 'kernel     rmsnorm of the program' "$moec" db show 1
expect 0 '^ratio      [0-9.]*, of 4 rounds' "$moec" db show 1
expect 1 'no record 99999' "$moec" db show 99999
expect 0 'record [0-9]* of .*tuned.db: at T=16 H=64' "$moec" explain a.moe rmsnorm --tuned-for T=16,H=64
expect 0 'no tuned schedules: there is no place for records' env -u MOE_TUNED -u HOME -u XDG_CACHE_HOME MOEC_CACHE=off "$moec" explain a.moe rmsnorm --tuned-for T=16,H=64
expect 0 'its records are of other sizes' "$moec" explain a.moe rmsnorm --tuned-for T=17,H=64
expect 0 'a.moe: warning.W1006.: kernel rmsnorm: no tuned schedule: its records are of other sizes' "$moec" a.moe --tuned-for T=17,H=64 -o tuned.so
expect 0 'a.moe: warning.W1006.: kernel rmsnorm: no tuned schedule: its records are of another routing or thread count' "$moec" a.moe --tuned-for T=16,H=64 --threads=3 -o tuned.so
expect 0 'MOE_TUNED is off' env MOE_TUNED=off "$moec" explain a.moe rmsnorm --tuned-for T=16,H=64
expect 0 '' "$moec" a.moe --tuned-for T=16,H=64 --emit=so -o tuned.so
expect 0 'a.moe: warning.W1006.: no tuned schedules: they are of one instruction set' "$moec" a.moe --tuned-for T=16,H=64 --target=generic,avx2 -o tuned.so
for text in x 'This file is longer than the header of a database.'; do
    echo "$text" >other.db
    expect 0 'a.moe: warning.W1006.: no tuned schedules: other.db: file is not a database' env MOE_TUNED=other.db "$moec" a.moe --tuned-for T=16,H=64 -o tuned.so
    expect 1 W1006 env MOE_TUNED=other.db "$moec" a.moe --werror --tuned-for T=16,H=64 -o tuned.so
    expect 1 'other.db: file is not a database; --no-db keeps no records' "$moec" tune a.moe T=16 H=64 --budget 1s --db other.db
    expect 1 'other.db: file is not a database' "$moec" db ls --db other.db
    echo "$text" | cmp - other.db || bad=1
done
expect 0 '' env MOE_TUNED=other.db "$moec" a.moe --werror --allow=W1006 --tuned-for T=16,H=64 -o tuned.so
rm other.db
expect 1 E0956 "$moec" a.moe --tuned-for Q=1 -o tuned.so
expect 0 '' "$moec" db plot -o plot.gp
expect 0 'plot .all using 1:2' cat plot.gp
if command -v gnuplot >/dev/null; then
    expect 0 '' "$moec" db plot -o plot.svg
    expect 0 '<svg' cat plot.svg
fi
expect 1 'nothing/plot.svg: cannot be written' "$moec" db plot -o nothing/plot.svg
echo old >plot.svg
expect 1 'gnuplot cannot be started' env PATH=/nothing "$moec" db plot -o plot.svg
expect 0 '^old$' cat plot.svg
expect 0 '^0 records removed' "$moec" db prune --other-builds
for command in "run a.moe" "report a.moe" "report none.moe" "run a.moe nothing"; do
    expect 1 'error' sh -c '"$0" "$@" T=-1 >out.txt' "$moec" $command
    expect 0 '' test ! -s out.txt
done
# A file that may not grow stands for a full disk: the result is there all the same.
in_70_blocks() { (ulimit -f 70 && "$moec" tune a.moe:rmsnorm T=16 H=64 --by npu:ascend910b2 --db small.db "$@"); }
expect 1 'small.db: .*; what is learned from here on is not kept' with_time 'is not kept' in_70_blocks
expect 0 'result   keep the default' cat said
expect 2 'prune takes' "$moec" db prune
expect 2 'say what' "$moec" db
unset MOE_TUNED
rm -f tuned.so tuned.h tuned.db* plot.gp plot.svg

echo "-- experiment"
printf '{"kernels": ["a.moe"], "sizes": ["T=16,H=64"], "rounds": 3, "seconds": 0}' >e.json
expect 0 'e/report.md: 1 of 1 points, 1 of them now' "$moec" experiment e.json
expect 0 '^a.moe,clock,host,1,"T=16,H=64",,default,measured,' cat e/rows.csv
expect 0 '1 of 1 points, 0 of them now' "$moec" experiment e.json
printf '{"kernels": ["a.moe"], "sizes": ["T=16,H=64"], "threads": 1}' >f.json
expect 1 'f.json: threads is 1: must be a list' "$moec" experiment f.json
expect 2 'no input file' "$moec" experiment
expect 1 '^moec: tmp: is a directory, and must be a file of JSON$' "$moec" experiment tmp
expect 1 'tmp: is a directory, and must be a file of JSON$' "$(dirname "$moec")/moe-train" --config tmp
rm -rf e.json f.json e

echo "-- help, version, tables"
expect 0 Usage "$moec" --help
expect 0 '^moec [0-9]' "$moec" --version
for command in check run test bench tune experiment db grad explain passes ops machines; do
    expect 0 Usage "$moec" $command --help
done
expect 0 lower "$moec" passes
expect 0 rsqrt "$moec" ops
expect 0 E0101 "$moec" explain E0101
expect 1 E9999 "$moec" explain E9999
expect 0 'kernel rmsnorm_bwd for' "$moec" explain a.moe
expect 0 'schedule rmsnorm {' "$moec" explain --space a.moe rmsnorm
expect 0 '"target": "generic"' "$moec" explain --format=json --target=generic --sizes T=64,H=32 a.moe
expect 1 E0955 "$moec" explain a.moe nothing
expect 1 E0956 "$moec" explain a.moe --sizes T=-1
expect 1 E0956 "$moec" explain a.moe --sizes Q=1
expect 1 E0956 "$moec" explain a.moe --routing uniform
expect 1 E0951 "$moec" explain a.moe --target=all
expect 1 'cannot be read' "$moec" explain nothing.moe
expect 2 'text or json' "$moec" explain a.moe --format=xml
expect 2 'too much' "$moec" explain a.moe b c
expect 0 '' "$moec" a.moe --schedule-seed=7 -o seed.so
expect 2 'whole number' "$moec" a.moe --schedule-seed=x -o seed.so
expect 0 '0 failed' "$moec" test --schedule-seed=7 a.moe
expect 0 '^rmsnorm T=.* H=.*  error .* of bound  ok$' "$moec" test a.moe

echo "-- words"
expect 0 'check \[OPTION\|check FILE' "$moec" help
expect 0 'Usage: moec check' "$moec" help check
expect 0 'Usage: moec check' "$moec" check -h
expect 0 'Usage: moec ' "$moec" -h
expect 2 'did you mean `moec check`' "$moec" chekc a.moe
expect 2 'no command or file .frobnicate.; `moec help` lists' "$moec" frobnicate
expect 2 'no command or file .nothing' "$moec" help nothing
expect 1 'nothing.moe: cannot be read' "$moec" nothing.moe -o a.so
expect 2 'did you mean `moe-train eval`' "$(dirname "$moec")/moe-train" evla
expect 2 'whole number' "$(dirname "$moec")/moe-train" --batch=0
for command in check run test bench grad explain report machines passes ops; do
    expect 0 "^.SH NAME" "$moec" $command --man-page
done
expect 0 '^--emit=$' "$moec" --option-names
expect 0 '^machines$' "$moec" --option-names
expect 0 '^--werror$' "$moec" check --option-names

echo "-- docs/cli.md names every command and every option"
for command in '' $("$moec" --option-names | grep -v '^-'); do
    for word in $("$moec" $command --option-names | sed 's/=$//'); do
        if ! grep -qE -- "(^|[^a-z-])$word([^a-z-]|$)" "$root/docs/cli.md"; then
            echo "FAILED: docs/cli.md lacks $word of moec $command"
            bad=1
        fi
    done
done

echo "-- options of the commands"
# A wrong value is refused by the option's name.
for line in 'bench --threads=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17' 'bench --format=xml' 'bench --seed=x' 'bench --schedule-seed=x' \
    'bench --rounds=0' 'bench --seconds=x' 'tune --threads=x' 'tune --by=luck' 'tune --seed=x' 'run --seed=x' 'run --threads=-1' 'run -O7' \
    'report --seed=x' 'report --threads=0' 'report -O7' 'report --schedule-seed=x' 'explain -O7' 'explain --threads=0' \
    'explain --schedule-seed=x' 'test --emulate=hope' 'test --seed=x' 'doctor --format=xml'; do
    set -- $line
    name=${2%%=*}
    expect 2 "${name%7}" "$moec" "$@" a.moe
done
expect 2 'text or json' "$moec" a.moe --error-format=xml -o a.so
expect 2 "'more' is too much" "$moec" db ls more
expect 2 'number of a record' "$moec" db show
expect 2 'plot takes -o' "$moec" db plot
expect 2 "'more' is too much" "$moec" grad a.moe rmsnorm more
expect 2 'no input file' "$moec" grad
expect 2 'no input file' "$moec" fmt
expect 2 'no folder of calls' "$moec" replay
expect 2 'would leave no rows' "$moec" experiment --again --report e.json
# quietly COMMAND...: what it prints, but for times
quietly() { "$@" 2>/dev/null | grep -v '^time'; }
quietly "$moec" run a.moe T=5 H=32 >one
quietly "$moec" run --seed=2 a.moe T=5 H=32 >two
quietly "$moec" run -O0 --threads=2 --schedule-seed=9 a.moe T=5 H=32 >three
cmp -s one two && { echo "FAILED: --seed draws the same data"; bad=1; }
same one three "run -O0 --threads --schedule-seed: other bits"
expect 0 ' 85 runs, 0 failed' "$moec" test --sweep --no-aot -O0 --seed=3 a.moe
expect 0 ' 0 failed' "$moec" test --quiet --no-aot --every-isa a.moe
expect 2 'every-isa is about machine code' "$moec" test --every-isa --machine=ascend910b2 --emulate a.moe
expect 0 ' gradient error ' "$moec" test --no-aot a.moe
expect 0 '' sh -c '! "$0" test --no-aot --no-gradcheck a.moe | grep gradient' "$moec"
expect 0 '0 failed' "$moec" test --quiet --machine=ascend910b2 --emulate a.moe
expect 0 '"target": "generic"' "$moec" bench a.moe T=16 H=64 --seconds 0 --rounds 3 --target=generic --seed=5 --schedule-seed=4 -O0 --format=json
expect 0 'generic, 2 threads' "$moec" bench a.moe T=16 H=64 --seconds 0 --rounds 3 --target=generic --threads=2
"$moec" report a.moe T=300 H=64 >one
"$moec" report -O0 a.moe T=300 H=64 >two
cmp -s one two && { echo "FAILED: report -O0 is as fast"; bad=1; }
for seed in 1 2; do
    "$moec" report --seed=$seed ffn.moe T=64 K=2 E=8 H=64 F=64 'routing=zipf(1)' >$seed 2>/dev/null
done
cmp -s 1 2 && { echo "FAILED: report --seed draws the same routes"; bad=1; }
printf 'schedule rmsnorm { rowblock t : rows = 32 }' >rows.txt
expect 0 'the second takes' "$moec" bench a.moe T=64 H=64 --seconds 0 --rounds 6 --against-schedule rows.txt
rm -f one two three 1 2 rows.txt

echo "-- standard input"
printf 'moe 1\nkernel k(out y: f32) { y = z }\n' >wrong.moe
expect 0 '' sh -c "'$moec' check - <a.moe"
expect 0 '0 failed' sh -c "cat a.moe | '$moec' test -"
expect 0 '' sh -c "'$moec' - -o piped.so <a.moe"
"$moec" a.moe -o named.so && same piped.h named.h 'a header of standard input'
expect 1 '<stdin>:2:28' sh -c "'$moec' check - <wrong.moe"
expect 1 'is a directory' sh -c "'$moec' check - <."

echo "-- usage"
expect 1 'a.moe: error.E0950.: nothing/k.so: cannot be written: there is no folder nothing$' "$moec" a.moe -o nothing/k.so
expect 1 "a.moe: error.E0955.: the file has no kernel 'nosuch' (it has rmsnorm, rmsnorm_fwd, rmsnorm_bwd)" "$moec" grad a.moe nosuch
expect 1 "nothing is derived from 'f': derive (f_fwd, f_bwd) from f wrt ... asks for it; derived are g_bwd$" sh -c "printf 'moe 1\nkernel f(in x: f32, out y: f32) { y = x }
kernel g(in x: f32, out y: f32) { y = x }\nderive (g_fwd, g_bwd) from g wrt x' | '$moec' grad - f"
expect 1 'a.moe: error: there is no dimension Q' "$moec" run a.moe T=3 Q=4
expect 1 'a.moe: error: H of kernel rmsnorm: no size' "$moec" bench a.moe T=3
expect 1 'a.moe: error: H of kernel rmsnorm: no size' "$moec" tune a.moe T=3 --no-db
expect 1 'ffn.moe: error: routing zipf(: `the end` does not fit here' "$moec" run ffn.moe 'routing=zipf('
expect 2 'no input file' "$moec"
expect 2 'say what to write' "$moec" a.moe
expect 2 'ending' "$moec" a.moe -o a.xyz
expect 2 'emit' "$moec" a.moe --emit=pancakes
expect 2 'whole number' "$moec" a.moe -O9 -o a.so
expect 2 'unrecognized' "$moec" a.moe --frobnicate
expect 2 'one input' "$moec" a.moe b.moe -o a.so
expect 2 'no input' "$moec" run
expect 1 '-1. does not fit here; expected a size of T' "$moec" run a.moe rmsnorm T=-1
expect 1 'the integer 99999999999999999999 does not fit 64 bits' "$moec" run a.moe rmsnorm T=99999999999999999999
expect 1 'x has 10000000000 elements at T=100000 H=100000; random data' "$moec" run a.moe rmsnorm T=100000 H=100000
expect 1 'x has too many elements at T=4000000000 H=4000000000' "$moec" run a.moe rmsnorm T=4000000000 H=4000000000
expect 0 'y: 0 bf16, hash' "$moec" run a.moe rmsnorm T=0
expect 0 'time: [0-9.e-]*[1-9][0-9]* ms, the best of' "$moec" run a.moe rmsnorm T=1 H=1
expect 1 '/nowhere: no directory for temporary files can be made there: No such file' env TMPDIR=/nowhere "$moec" a.moe --no-cache -o x.so
expect 1 "has no kernel 'nothing' (it has rmsnorm, rmsnorm_fwd, rmsnorm_bwd)" "$moec" run a.moe nothing
expect 1 "has no kernel 'nothing' (it has rmsnorm, rmsnorm_fwd, rmsnorm_bwd)" "$moec" explain a.moe nothing
expect 1 "a.moe: error: the file has no kernel 'nothing' (it has rmsnorm" "$moec" test --kernel=nothing a.moe
expect 1 "'rmsnorm_bwd' is derived" "$moec" test --kernel=rmsnorm_bwd a.moe
# every element hangs on a rounding: a run that compared nothing is no success
cat >doubt.moe <<'END'
moe 1
dim N
kernel f(in x: f32[N], out y: f32[N]) { y[n] = exp(x[n]) / (x[n] * 1.00001 - x[n] - 0.00001 * x[n]) }
test f { N=50 }
END
expect 1 '50 of 50 elements not compared: 50 in doubt, 0 NaN' "$moec" test doubt.moe
expect 2 'too much' "$moec" passes me
expect 2 'one machine' "$moec" machines host host

echo "-- layout"
printf 'moe 1\ndim T // positions\n\n\nkernel f(in x: f32[ T ],\n  out y: f32[T]){\n y[t]=- (x[t]+1)*2 // doubled\n}' >ugly.moe
printf 'moe 1\ndim T  // positions\n\nkernel f(in x: f32[T],\n         out y: f32[T]) {\n  y[t] = -(x[t]+1)*2  // doubled\n}\n' >neat.moe
expect 1 ugly.moe "$moec" fmt --check ugly.moe neat.moe
"$moec" fmt - <ugly.moe | cmp - neat.moe || { echo "FAILED: fmt -" && bad=1; }
expect 0 '' "$moec" fmt ugly.moe
same ugly.moe neat.moe "fmt in place"
printf 'moe 1\ndim T T\n' >wrong.moe
expect 1 E0101 "$moec" fmt wrong.moe
rm ugly.moe neat.moe wrong.moe

echo "-- doctor"
expect 0 'avx\|generic' "$moec" doctor
expect 0 '"problems"' "$moec" doctor --format=json
expect 1 "error: MOE_ISA forces 'nothing'" env MOE_ISA=nothing "$moec" doctor
expect 0 'warning: OMP_WAIT_POLICY' env OMP_WAIT_POLICY=active "$moec" doctor

echo "-- warnings"
expect 0 'warning.W1002' "$moec" check "$root/tests/golden/warnings.moe"
expect 1 'warning.W1002' "$moec" check --werror "$root/tests/golden/warnings.moe"
expect 0 '' "$moec" check --werror --allow=W1002,W1003,W1004,W1005 "$root/tests/golden/warnings.moe"
expect 1 'warning.W1002' "$moec" --werror --emit=ir "$root/tests/golden/warnings.moe"
expect 0 'warning.W1002' "$moec" --emit=ir "$root/tests/golden/warnings.moe"

echo "-- sizes and routings: one reader for all commands"
ffn=$root/examples/moe_ffn.moe
small="T=6 K=2 E=3 H=16 F=16"
# refused WORDS SIZES: by report, run and explain
refused() {
    commas=$(echo "$2" | tr ' ' ,)
    expect 1 "$1" "$moec" report "$ffn" --sizes "$commas"
    expect 1 "$1" "$moec" run "$ffn" ffn $2
    expect 1 "$1" "$moec" explain "$ffn" --sizes "$commas"
}
refused 'x. does not fit here; expected a size of T' "T=x"
refused 'nan. does not fit here; expected a size of T' "T=nan"
refused '3.5. does not fit here; expected a size of T' "T=3.5"
refused 'the end. does not fit here; expected a size of T' "T="
refused 'T has two sizes' "T=3 K=1 T=4"
refused 'there is no dimension Q (the file has T, K, E, H, F)' "Q=3"
refused 'H=10: the dimension H is a multiple of 16' "H=10"
refused 'K=65: the dimension K is at most 64' "K=65"
refused 'the integer 9223372036854775808 does not fit 64 bits' "T=9223372036854775808"
refused 'sizes of route rt do not fit 64 bits' "T=4611686018427387904 K=2 E=3 H=16 F=16"
expect 1 'wg takes more than 4398046511104 bytes' "$moec" report "$ffn" --sizes H=1073741824,F=1073741824
expect 1 'x has too many elements at' "$moec" run "$ffn" ffn H=4611686018427387904 F=16
# refused_rows WORDS ROUTING
refused_rows() {
    expect 1 "$1" "$moec" report "$ffn" --sizes "$(echo "$small" | tr ' ' ,),routing=$2"
    expect 1 "$1" "$moec" run "$ffn" ffn $small --routing "$2"
    expect 1 "$1" "$moec" explain "$ffn" --sizes "$(echo "$small" | tr ' ' ,)" --routing "$2"
}
refused_rows 'the number 1e999 does not fit f32' 'zipf(1e999)'
refused_rows 'nan. does not fit here; expected a number from 0 on' 'zipf(nan)'
refused_rows 'inf. does not fit here; expected a number from 0 on' 'zipf(inf)'
refused_rows '-1. does not fit here; expected a number from 0 on' 'zipf(-1)'
refused_rows '101. does not fit here; expected a number from 0 to 100' 'empty(101%)'
refused_rows '0. does not fit here; expected a number from 1' 'hot(0)'
refused_rows 'add up to more than the 12 rows of R' 'exact(6, 7)'
refused_rows 'add up to more than the 12 rows of R' 'exact(9223372036854775807, 9223372036854775807)'
refused_rows 'exact(...) has numbers for 4 groups; R has 3' 'exact(1, 1, 1, 1)'
refused_rows 'foo. does not fit here; expected uniform, zipf' 'foo'
refused_rows 'empty. does not fit here; expected .,. and a routing' 'zipf(1) empty(40%)'
expect 0 '' "$moec" run --interp "$ffn" ffn $small --routing 'exact(6, 6), uniform'

echo "-- integers: values have 64 bits, elements 32"
printf 'moe 1\ndim T\nkernel f(in a: i32[T], out y: f32[T]) { c[t] = (a[t] + 2000000000) * 2  y[t] = f32(c[t]) }\n' >local.moe
printf 'moe 1\ndim T\nkernel f(in a: i32[T], out y: f32[T]) { y[t] = f32((a[t] + 2000000000) * 2) }\n' >value.moe
expect 1 'does not fit the i32 of c' "$moec" run local.moe T=3
expect 1 'local.moe: error: f: .*does not fit i32 tensor c' "$moec" run --interp local.moe T=3
expect 0 'from 4e+09 to 4e+09' "$moec" run value.moe T=3
expect 0 'from 4e+09 to 4e+09' "$moec" run --interp value.moe T=3

echo "-- a gradient that is wrong"
printf 'moe 1\ndim N\nkernel f(in x: f32[N], out y: f32[N]) { y[n] = stop(x[n]) * x[n] }
derive (f_fwd, f_bwd) from f wrt x\ntest f { N=5; gradcheck }\n' >wrong.moe
expect 1 'f_bwd N=5  gradient error 0.33  FAILED' "$moec" test wrong.moe

echo "-- element types that are given"
printf 'moe 1\ntype act = bf16 type wt = act dim N kernel f(in x: act[N], in w: wt[N], out y: act[N]) { y[n] = act(x[n] * w[n]) }
derive (f_fwd, f_bwd) from f wrt x, w\ntest f { N=5; gradcheck }\n' >types.moe
expect 0 'float .w,' "$moec" types.moe --emit=header --type wt=f32
expect 0 'x: f32.N., in w: bf16' "$moec" types.moe --emit=ir --type act=f32 --type wt=bf16
expect 0 'x: f32.N., in w: f16' "$moec" types.moe --emit=ir --type act=f32,wt=f16
expect 0 'x: f32.N., in w: f16.N., in d_y: f32.N., out d_x: f32.N., out d_w: f16.N.' "$moec" grad types.moe --type act=f32,wt=f16
expect 0 '' "$moec" check types.moe --type act=f32
expect 0 'y: 5 f32' "$moec" run types.moe f N=5 --type act=f32
expect 0 '0 failed' "$moec" test types.moe --type act=f32
expect 0 'f_bwd' "$moec" explain types.moe --type act=f32
expect 0 'f_bwd on' "$moec" report types.moe f_bwd --type act=f32
expect 1 E0960 "$moec" test types.moe --type acts=f32
expect 2 'too often' "$moec" types.moe --type "$(head -c 5000 /dev/zero | tr '\0' ' ')"

echo "-- every product"
for emit in ir tiles llvm asm header manifest; do
    expect 0 rmsnorm "$moec" a.moe --emit=$emit
done
for output in a.so a.o a.s a.ll a.json a2.moe a.moetiles; do
    expect 0 '' "$moec" a.moe -o $output
    [ -s $output ] || { echo "FAILED: no $output" && bad=1; }
done
expect 0 '' "$moec" a.moe --emit=so -o -
expect 0 rmsnorm "$moec" a.moe --stop-after=fuse
expect 0 canonicalise "$moec" a.moe --time-passes
expect 0 rmsnorm "$moec" a.moe --dump-ir=fuse
expect 0 '' "$moec" a.moe --dump-ir=fuse,lower --dump-dir=dumps
expect 0 'launch y' cat dumps/02-lower.moetiles
expect 0 '' "$moec" check dumps/01-fuse.moe
expect 1 '01-unread.moe: cannot be written' "$moec" a.moe --dump-dir=a.moe
expect 0 '' "$moec" a.moe --verify-each --no-cache -o a.so
expect 0 '' "$moec" a.moe --soname=libnorm.so.1 -o named.so
expect 0 'SONAME *libnorm.so.1$' objdump -p named.so
expect 0 '' "$moec" a.moe -o named.so
objdump -p named.so | grep -q SONAME && { echo "FAILED: a .so of the cache has another's name"; bad=1; }
expect 2 'name of a file' "$moec" a.moe --soname=a/b -o a.so
expect 0 '' "$moec" a.moe --target=all -o all.so
expect 0 'kernel rmsnorm_bwd' "$moec" grad a.moe
expect 1 'no kernel .other.' "$moec" grad a.moe other
"$moec" grad a.moe >bwd.moe && expect 0 '' "$moec" bwd.moe -o bwd.so

echo "-- an object's table of sections is where ELF wants it, at a multiple of 8"
[ $(($(od -An -t u8 -j 40 -N 8 a.o) % 8)) -eq 0 ] || { echo "FAILED: the sections of a.o" && bad=1; }

echo "-- moec test finds a kernel that relies on its work space"
printf 'moe 1\ndim T, H\nkernel stale(in x: f32[T, H], out y: f32[T, T]) {\n  u[t, h] = if(h >= 1, exp(x[t, h]), 0)
  y[t, s] = max(h) u[t, h] * u[s, h]\n}\ntest stale { T=40 H=2000 }\n' >stale.moe
"$moec" stale.moe -o stale.moetiles
expect 0 '0 failed' "$moec" test stale.moe --tiles=stale.moetiles
sed -i 's/vector h in v0\.\./vector h in max2(v0, 1)../' stale.moetiles # the first column is never written
expect 1 '1 failed' "$moec" test stale.moe --tiles=stale.moetiles

echo "-- both texts read back"
"$moec" a.moe --stop-after=fuse -o fused.moeir
expect 0 '' "$moec" fused.moeir --start-at=split -o fused.so
expect 0 '' "$moec" a.moetiles -o tiles.so

echo "-- failing compiles leave nothing, and older output alone"
printf 'moe 1\nkernel f(\n' >wrong.moe
expect 1 'error\[E' "$moec" wrong.moe -o wrong.so
expect 1 '"line"' "$moec" wrong.moe --error-format=json -o wrong.so
expect 1 'error\[E' "$moec" check wrong.moe
nothing wrong.so wrong.h
cp a.so old.so && cp a.h old.h
expect 1 'error' "$moec" wrong.moe -o a.so
expect 1 'not a pass' "$moec" a.moe --stop-after=none -o a.so
expect 1 'before .lower' "$moec" a.moe --stop-after=cse -o a.so
expect 1 'unknown target' "$moec" a.moe --target=z80 -o a.so
expect 1 'MOE_ISA' env MOE_ISA=z80 "$moec" a.moe -o a.so
same a.so old.so "an older a.so changed"
same a.h old.h "an older a.h changed"
cat >hand.h <a.moe
expect 1 'not written by moec' "$moec" a.moe -o hand.so
nothing hand.so
expect 1 'is the input' "$moec" a.moe --emit=ir -o a.moe
same a.moe "$root/examples/rmsnorm.moe" "the input was overwritten"

echo "-- files that cannot be read or written"
: >empty.moe
mkdir folder.moe
head -c 20000000 /dev/zero | tr '\0' ' ' >huge.moe
printf 'moe 1 // \377\n' >latin.moe
expect 1 'nowhere.moe' "$moec" nowhere.moe -o x.so
expect 1 'directory' "$moec" folder.moe -o x.so
expect 1 'error' "$moec" empty.moe -o x.so
expect 1 'limit' "$moec" huge.moe -o x.so
expect 1 'UTF-8' "$moec" latin.moe -o x.so
expect 1 'no/such' "$moec" a.moe -o no/such/x.so
expect 1 'directory' "$moec" a.moe --emit=ir -o folder.moe
nothing x.so x.h
if [ -w /dev/full ]; then
    expect 1 'No space' "$moec" a.moe --emit=so -o /dev/full
    expect 1 'No space' sh -c '"$0" ops >/dev/full' "$moec"
    expect 1 'No space' sh -c '"$0" --help >/dev/full' "$moec"
    expect 1 'No space' sh -c '"$0" a.moe --emit=ir >/dev/full' "$moec"
fi
expect 1 'standard output' sh -c '"$0" ops >&-' "$moec"
expect 1 'standard output' sh -c '"$0" a.moe --emit=ir >&-' "$moec"
expect 0 '' sh -c '"$0" a.moe -o closed.so <&- >&- 2>&-' "$moec"
[ -s closed.so ] || { echo "FAILED: no closed.so" && bad=1; }
if [ "$(id -u)" != 0 ]; then
    chmod 0 latin.moe
    expect 1 'cannot be read' "$moec" latin.moe -o x.so
fi
# A file system that fills up while the linker or we write: a limit on file size acts the same for any user.
expect 1 '' sh -c 'ulimit -f 1; "$0" a.moe --no-cache -o full.so' "$moec"
nothing full.so full.h
expect 1 'cannot be written: File too large' sh -c 'ulimit -f 1; "$0" --help >help.txt' "$(dirname "$moec")/moe-train"
mkdir small
if mount -t tmpfs -o size=8k none small 2>/dev/null; then
    expect 1 'No space' "$moec" a.moe -o small/x.so
    expect 1 'error' env TMPDIR="$scratch/small" "$moec" a.moe --no-cache -o x.so
    expect 0 '' env MOEC_CACHE="$scratch/small" "$moec" a.moe -o x.so
    nothing small/x small/moec
    umount small
    rm -f x.so x.h
fi

echo "-- replay files"
cp a.moe broken.moe
expect 3 'pass fuse ends here' "$moec" broken.moe --break-in=fuse -O1 --target=avx2 -o broken.so
mv broken.moe elsewhere.moe
expect 3 'broken.moe: internal error: pass fuse ends here' "$moec" broken.moe.replay
sed -i 's/^\/\/ break_in=.*/\/\/ break_in=lower/' broken.moe.replay
expect 3 'pass lower ends here' "$moec" broken.moe.replay
sed -i '/^\/\/ break_in=/d' broken.moe.replay
expect 0 '' "$moec" broken.moe.replay
expect 0 '' "$moec" broken.moe.replay -o broken.so
expect 1 'not a replay file' sh -c 'echo moe 1 >no.replay && "$0" no.replay' "$moec"
rm broken.moe.replay
cp types.moe broken.moe
expect 3 'pass fuse ends here' "$moec" broken.moe --type act=f32 --type wt=f16 --break-in=fuse -o broken.so
sed -i '/^\/\/ break_in=/d' broken.moe.replay
expect 0 '' "$moec" broken.moe.replay -o broken.so
expect 0 'in f16.N.' cat broken.h
rm broken.moe.replay

echo "-- the cache"
rm -rf cache
"$moec" a.moe -o one.so
own=cache/moec-cache
entry=$(ls $own/*.so)
[ "$(echo "$entry" | wc -w)" = 1 ] || { echo "FAILED: entries $entry" && bad=1; }
printf 'moe 1\ndim T\nkernel cpu_find(in x: f32[T], out y: f32[T]) { y[t] = x[t] }\n' >named.moe
expect 0 "" "$moec" named.moe --no-cache -o named.so
expect 0 ' cpu_find$' readelf -W --dyn-syms named.so # the name of a function inside
expect 0 NODELETE readelf -d one.so # its OpenMP pool may outlive a dlclose
sed 's/^\/\/.*//' a.moe >commentless.moe
expect 0 '' "$moec" commentless.moe -o two.so
same one.so two.so "comments changed the code"
same one.h two.h "comments changed the header"
[ "$(ls $own/*.so | wc -l)" = 1 ] || { echo "FAILED: comments made another entry" && bad=1; }
if command -v strace >/dev/null 2>&1; then
    ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=openat,execve -o trace "$moec" a.moe -o hit.so
    if grep -q libLLVM trace || [ "$(grep -c execve trace)" != 1 ]; then
        echo "FAILED: a cache hit loaded LLVM or started a linker"
        bad=1
    fi
fi
printf 'X' | dd of="$entry" bs=1 seek=100 conv=notrunc 2>/dev/null
expect 0 '' "$moec" a.moe -o three.so
same one.so three.so "a damaged entry was used"
: >"$entry"
expect 0 '' "$moec" a.moe -o three.so
same one.so three.so "a truncated entry was used"
[ -s "$entry" ] || { echo "FAILED: the entry was not made anew" && bad=1; }
expect 0 '' env MOEC_CACHE=/proc/none "$moec" a.moe -o three.so
expect 0 '' env MOEC_CACHE="$scratch/a.moe" "$moec" a.moe -o three.so
expect 0 '' env MOEC_CACHE=off "$moec" a.moe -o three.so
nothing off
expect 0 '' "$moec" a.moe -O0 -o plain.so
[ "$(ls $own/*.so | wc -l)" = 2 ] || { echo "FAILED: -O0 shares an entry" && bad=1; }
sed 's/^type.*dim/dim/; s/act\[/f32[/g; s/wt\[/f32[/g; s/act(/f32(/' types.moe >plain.moe
expect 0 '' "$moec" types.moe -o types.so
expect 0 '' "$moec" types.moe --type act=f32 -o types.so
expect 0 '' "$moec" plain.moe -o plain.so # whose manifest has no types
[ "$(ls $own/*.so | wc -l)" = 5 ] || { echo "FAILED: element types share an entry" && bad=1; }
same types.h plain.h "a parameter and what it stands for differ"
(for i in 1 2 3 4; do "$moec" a.moe -O1 -o "par$i.so" & done; wait)
for i in 2 3 4; do same par1.so par$i.so "concurrent compiles differ"; done
nothing $own/*.so.
for name in libimportant.so.1 fedcba9876543210fedcba9876543210.so; do
    truncate -s 600M "cache/$name"
done
expect 0 '' "$moec" commentless.moe -O0 -g -o debug.so
[ "$(ls cache | wc -l)" = 3 ] || { echo "FAILED: the cache deleted what is not its own" && bad=1; }
rm -f cache/*.so*

echo "-- a program that is ended while it links"
mkdir slow
printf '#!/bin/sh\nsleep 0.5\nexec %s "$@"\n' "$(command -v ld)" >slow/ld
chmod +x slow/ld
for ends in HUP TERM; do
    PATH="$PWD/slow:$PATH" "$moec" a.moe --no-cache -o ended.so &
    for i in $(seq 500); do
        ls "$TMPDIR"/moec-* >/dev/null 2>&1 && break
        sleep 0.02
    done
    kill -$ends $! && ! wait $! || { echo "FAILED: it is not ended by $ends" && bad=1; }
    nothing "$TMPDIR/moec" ended
done

echo "-- no temporary files"
nothing "$TMPDIR/moec"
for left in *.so.?????? *.h.??????; do
    [ -e "$left" ] && { echo "FAILED: left $left" && bad=1; }
done
exit $bad
