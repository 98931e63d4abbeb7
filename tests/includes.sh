#!/bin/sh
# The picture in docs/architecture.md, section 1, checked: which room includes which, and which outside library is
# used where. Prints every #include that the table does not allow.
set -eu
cd "$(dirname "$0")/.."

for room in base machines ir frontend passes lower npu backend emulator runtime records driver testing explain tuner lsp command step comm model trainer bench python include; do
    find "$room" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.y' -o -name '*.l' \)
done | sort | xargs awk '
# One row per room: the rooms beside itself whose front door it may include, then the outside headers.
BEGIN {
    row("include",  "",                                                  "dlpack/dlpack.h")
    row("base",     "",                                                  "xxhash.h jansson.h argp.h dlfcn.h sanitizer/asan_interface.h")
    row("machines", "base",                                              "cpuid.h immintrin.h")
    row("ir",       "base",                                              "")
    row("frontend", "base ir",                                           "")
    row("passes",   "base ir machines",                                  "")
    row("lower",    "base ir machines passes",                           "")
    row("npu",      "base ir machines passes",                           "")
    row("backend",  "base ir machines",                                  "llvm-c/")
    row("emulator", "base ir machines",                                  "")
    row("runtime",  "base",                                              "omp.h dlfcn.h")
    row("records",  "base",                                              "sqlite3.h dlfcn.h")
    row("driver",   "base ir machines frontend passes backend emulator runtime records", "dlfcn.h omp.h xxhash.h")
    row("testing",  "base ir machines passes frontend emulator driver",  "omp.h")
    row("explain",  "base ir machines passes driver",                    "")
    row("tuner",    "base",                                              "")
    row("lsp",      "base ir frontend driver explain",                   "")
    row("command",  "base ir machines passes frontend emulator driver testing explain tuner lsp", "argp.h")
    row("step",     "base",                                              "")
    row("comm",     "base step",                                         "dlfcn.h mpi.h")
    row("model",    "base step",                                         "")
    row("trainer",  "base tuner step comm model",                        "argp.h")
    row("python",   "base ir driver",                                    "Python.h dlfcn.h")
    row("bench",    "",                                                  "argp.h dlfcn.h omp.h immintrin.h jansson.h dnnl.h cblas.h")
    doors = " base/base.h base/bind.h base/gnuplot.h base/json.h ir/ir.h ir/tile.h ir/tile_build.h ir/event.h emulator/simulate.h emulator/report.h " \
            "passes/query.h passes/join.h passes/schedule.h passes/report.h passes/cluster.h " \
            "driver/element.h driver/pack.h driver/reference.h driver/interpret.h driver/module.h driver/log.h runtime/log.h " \
            "step/record.h step/ranks.h step/verify_ranks.h step/kernels.h step/memory.h step/verify.h step/text.h step/run.h step/passes.h step/price.h model/recipe.h model/shards.h "  # else ROOM/ROOM.h
    public = " runtime records driver testing explain tuner command step model trainer bench python "             # the rooms that include the public headers
    split("base machines ir frontend passes lower npu backend emulator runtime records driver testing explain tuner lsp command step comm model trainer bench python", r, " ")
    for (i in r) known[r[i]] = 1
    split("assert ctype dirent errno fcntl fenv float ftw inttypes limits locale math setjmp signal stdarg " \
          "stdalign stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings time unistd getopt " \
          "threads pthread sched poll glob fnmatch libgen link spawn elf fts malloc", l, " ")
    for (i in l) libc[l[i] ".h"] = 1
}
function row(room, rooms, outside) { may[room] = " " rooms " "; lib[room] = outside }
function refuse(why) { printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why; bad = 1 }
function outside(room, header,   n, i, allowed) {
    if (header in libc || header ~ /^sys\//) return 1
    n = split(lib[room], allowed, " ")
    for (i = 1; i <= n; i++)
        if (header == allowed[i] || (allowed[i] ~ /\/$/ && index(header, allowed[i]) == 1)) return 1
    return 0
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    room = FILENAME; sub(/\/.*/, "", room)
    header = $0; sub(/^[^<"]*[<"]/, "", header); sub(/[>"].*/, "", header)
    head = header; sub(/\/.*/, "", head)
    if (header !~ /\// && room == "frontend" && header ~ /^moe_(parser|lexer)\.h$/) next
    if (head == "moec") {
        if (room == "include" || header ~ /\.def$/ || index(public, " " room " ")) next
        refuse("room " room " may not include public headers"); next
    }
    if (header ~ /\// && head in known) {
        if (head == room) next
        if (!index(may[room], " " head " ")) refuse("room " room " may not include room " head)
        else if (header !~ /\.def$/ && header != head "/" head ".h" && !index(doors, " " header " "))
            refuse("only the front door of room " head " may be included from outside")
        next
    }
    if ($0 ~ /"/ && header !~ /\//) { refuse("write the room: \"" room "/" header "\""); next }
    if (!outside(room, header)) refuse("room " room " does not use this library")
}
END { exit bad }
'
