/* Tile text: `tiles 1` files. Promises: the verifier comes to a verdict on what was read, and it prints text that reads
 * back. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_begin();
    FuzzText f = fuzz_text();
    if (fuzz_read_tiles(&f, (const char *)data, size) == 0) {
        for (uint32_t i = 0; i < f.m->kernels.len; i++)
            tile_verify(f.m->kernels.at[i], f.arena);
        fuzz_round_trip(f.m, tile_print, fuzz_read_tiles, "tiles");
    }
    fuzz_show(&f);
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
