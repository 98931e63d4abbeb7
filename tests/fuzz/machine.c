/* Descriptions of machines in JSON. Promise: a product is lowered for every machine that is accepted (or does not fit it,
 * which is said), and its tiles read back. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const char product[] = "moe 1\ndim T, H, F\n"
                              "kernel f(in x: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F]) {\n"
                              "  y[t, f] = bf16(sum(h) x[t, h] * w[h, f])\n"
                              "}\n";

static void lower_for(const Machine *machine)
{
    FuzzText f = fuzz_text();
    PipelineOptions o = {
        .context = {.isa = ISA_avx2, .machine = machine, .optimize = 1}, .verify_each = 1, .limit = -1};
    if (fuzz_read_moe(&f, product, strlen(product)) == 0 && pipeline_run(f.m, &o) == 0)
        fuzz_round_trip(f.m, tile_print, fuzz_read_tiles, "tiles");
    fuzz_show(&f);
    fuzz_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_begin();
    FuzzText f = fuzz_text();
    Description d;
    if (!machine_read(f.arena, "fuzz.json", (const char *)data, size, &d)) {
        machine_ask(&d);
        lower_for(&d.machine);
    }
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
