#!/bin/sh
# The programs in examples/: a C program with only the generated header, linked with the .so and with the object; a
# Python one with numpy; gdb stops at a line of the .moe file and in JIT code.   usage: examples.sh BUILD [PYTHON]
set -eu
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
moec=$build/bin/moec
python=${2:-python3}
cc=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# as_written PROGRAM: the commands at the head of PROGRAM.c, in the folder of its .moe file
as_written() {
    commands=$(sed -n '/^ \*   /s/^ \*   //p' "$scratch/$1.c")
    test "$(echo "$commands" | wc -l)" -eq 2
    (cd "$scratch" && moec() { "$moec" "$@"; } && cc() { command $cc "$@"; } && eval "$commands")
}

echo "-- C, kernel.so"
"$moec" examples/moe_ffn.moe -o "$scratch/kernel.so"
cp examples/use_kernel.c examples/moe_ffn.moe "$scratch"
$cc -std=c11 -Wall -Wextra -Wconversion -Werror -I "$scratch" "$scratch/use_kernel.c" "$scratch/kernel.so" -lm \
    -o "$scratch/use_kernel"
"$scratch/use_kernel"
as_written use_kernel

echo "-- C, kernel.o"
"$moec" examples/moe_ffn.moe -o "$scratch/kernel.o"
$cc -std=c11 -I "$scratch" "$scratch/use_kernel.c" "$scratch/kernel.o" -lm -lgomp -o "$scratch/use_object"
"$scratch/use_object" >/dev/null

echo "-- what kernel.so needs"
needed=$(objdump -p "$scratch/kernel.so" | sed -n 's/^ *NEEDED *//p' | sort | tr '\n' ' ')
case $needed in
"libc.so.6 libgomp.so.1 libm.so.6 ") echo "$needed" ;;
*)
    echo "FAILED: needs $needed"
    exit 1
    ;;
esac

echo "-- C, packed weights"
"$moec" test --quiet examples/packed_ffn.moe
"$moec" examples/packed_ffn.moe -o "$scratch/packed.so"
cp examples/use_packed.c examples/packed_ffn.moe "$scratch"
$cc -std=c11 -Wall -Wextra -Wconversion -Werror -I "$scratch" "$scratch/use_packed.c" "$scratch/packed.so" -lm \
    -o "$scratch/use_packed"
"$scratch/use_packed"
as_written use_packed

echo "-- C, compiled at run time"
$cc -std=c11 -Wall -Wextra -Wconversion -Werror -I include examples/use_jit.c -L "$build/lib" -lmoec -lmoert -lm \
    -Wl,-rpath,"$build/lib" -o "$scratch/use_jit"
(cd examples && "$scratch/use_jit")

echo "-- header as C++"
if command -v g++ >/dev/null 2>&1; then
    printf '#include "kernel.h"\n#include "packed.h"\n#include "kernel.h"\nint main() { return packed_ffn_wg_pack_bytes(1, 16, 16) == 0; }\n' >"$scratch/a.cpp"
    g++ -Wall -Wextra -Werror -fsyntax-only "$scratch/a.cpp"
else
    echo "skipped: no g++"
fi

echo "-- Python, numpy"
if "$python" -c 'import numpy' 2>/dev/null; then
    "$python" examples/use_kernel.py "$scratch/kernel.so"
else
    echo "skipped: $python has no numpy"
fi

echo "-- gdb"
if command -v gdb >/dev/null 2>&1; then
    line=$(grep -n 'a\[r, f\]' examples/moe_ffn.moe | head -n 1 | cut -d: -f1)
    (
        cd "$scratch"
        "$moec" -g moe_ffn.moe -o kernel.so
        gdb -nx -batch -ex 'set breakpoint pending on' -ex "break moe_ffn.moe:$line" -ex run -ex bt ./use_kernel
    ) >"$scratch/gdb.out" 2>&1 || true
    if ! grep -q "Breakpoint 1[.0-9]*, .*moe_ffn.moe:$line" "$scratch/gdb.out"; then
        cat "$scratch/gdb.out"
        echo "FAILED: gdb did not stop at moe_ffn.moe:$line"
        exit 1
    fi
    grep "Breakpoint 1[.0-9]*, " "$scratch/gdb.out"
    MOEC_JIT_NAMES=1 gdb -nx -batch -ex 'set breakpoint pending on' -ex 'break ffn__call' -ex run --args \
        "$moec" run examples/moe_ffn.moe ffn >"$scratch/jit.out" 2>&1 || true
    if ! grep -q "Breakpoint 1, .*ffn" "$scratch/jit.out"; then
        cat "$scratch/jit.out"
        echo "FAILED: gdb did not stop in JIT code"
        exit 1
    fi
else
    echo "skipped: no gdb"
fi
