#!/bin/sh
# What is installed works from a folder that it was moved to: programs, manual pages, completion, pkg-config, find_package(moec).
# usage: install.sh BUILD
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
root=$(pwd)
cc=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/first" >"$scratch/log"
mv "$scratch/first" "$scratch/usr"
prefix=$scratch/usr
export PATH="$prefix/bin:$PATH" MOEC_CACHE="$scratch/cache"
lib=$(dirname "$(find "$prefix" -name 'libmoert.so')")
cd "$scratch"

echo "-- programs"
moec --version
moe-train --version
cp "$root/examples/rmsnorm.moe" "$root/examples/moe_ffn.moe" .
moec rmsnorm.moe -o kernel.so
moec test --quiet rmsnorm.moe

echo "-- manual pages"
for command in check run test replay lsp grad explain report machines passes ops; do
    test -s "$prefix/share/man/man1/moec-$command.1"
done
if command -v groff >/dev/null 2>&1; then
    for page in "$prefix"/share/man/man1/*.1; do
        said=$(groff -man -ww -z "$page" 2>&1)
        test -z "$said" || { echo "FAILED: $page: $said"; exit 1; }
    done
else
    echo "not looked at: no groff"
fi

echo "-- completion"
if command -v bash >/dev/null 2>&1; then
    complete() {
        bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _moec; echo "${COMPREPLY[*]}"' \
            "$prefix/share/bash-completion/completions/moec" "$@"
    }
    test "$(complete moec che)" = check
    test "$(complete moec check --w)" = --werror
    test "$(complete moec rmsnorm.moe --emi)" = --emit=
    test "$(complete moec check rms)" = rmsnorm.moe
    test "$(complete moe-train plan --mod)" = --model=
fi

echo "-- two kernels in one program"
moec rmsnorm.moe -o one.o
moec moe_ffn.moe -o other.o
printf '#include "one.h"\n#include "other.h"\nint main(void) { return !rmsnorm || !ffn; }\n' >both.c
"$cc" both.c one.o other.o -fopenmp -lm -o both
./both

echo "-- pkg-config: the command that the example names"
if command -v pkg-config >/dev/null 2>&1; then
    cp "$root/examples/use_jit.c" .
    command=$(sed -n 's/^ \* *\(cc use_jit.*-o use_jit\) .*/\1/p' use_jit.c)
    mkdir bin
    ln -s "$(command -v "$cc")" bin/cc
    PKG_CONFIG_PATH=$lib/pkgconfig PATH="$scratch/bin:$PATH" sh -c "$command"
    LD_LIBRARY_PATH=$lib ./use_jit
else
    echo "skipped: no pkg-config"
fi

echo "-- find_package(moec)"
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(uses_moec C)
find_package(moec 0.1 REQUIRED)
moec_add_kernel(norm rmsnorm.moe OPTIONS --target=generic)
add_executable(uses uses.c)
target_link_libraries(uses norm moec::moert)
END
cat >uses.c <<'END'
#include "norm.h"
#include <moec/moert.h>
#include <stdio.h>
int main(void)
{
    const int32_t ids[] = {1, 0, 1};
    moe_route *r = moe_route_from_ids(ids, 3, 1, 2, -1);
    moe_ctx *ctx = moe_ctx_new(1);
    if (!r || !ctx || r->start[1] != 1 || rmsnorm(ctx, -1, 1, NULL, NULL, NULL) != MOE_SIZE)
        return 1;
    printf("a kernel in a library: %s\n", moe_ctx_message(ctx));
    moe_ctx_free(ctx);
    moe_route_free(r);
    return 0;
}
END
cmake -S . -B made -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >log 2>&1 || { cat log; exit 1; }
cmake --build made >log 2>&1 || { cat log; exit 1; }
made/uses
echo "install: ok"
