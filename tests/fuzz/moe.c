/* .moe text: through the front end, and what it accepts through all passes down to tiles.
 *
 * Promises: the program of the text, that after some pass of the equation level, and the tiles print text that reads back;
 * both verifiers hold after every pass. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static const Isa isas[] = {ISA_generic, ISA_avx2, ISA_avx512, ISA_avx512widen, ISA_avx512bf16, ISA_amx_soft};
static const char *const equation_passes[] = {"canonicalise", "derive", "checks", "fuse", "split", "cluster"};
enum { ISAS = sizeof isas / sizeof *isas, PASSES = sizeof equation_passes / sizeof *equation_passes };

static const Machine *npu(Arena *a)
{
    const MachineText *text = machine_find("ascend910b2");
    Description *d = arena_new_of(a, Description);
    const char *error = machine_read(a, text->name, (const char *)text->json, text->len, d);
    if (error)
        fuzz_fail("%s", error);
    return &d->machine;
}

static void check_equations(const char *text, size_t len, const PassContext *context, const char *pass)
{
    FuzzText f = fuzz_text();
    if (fuzz_compile(&f, text, len, context, pass) == 0)
        fuzz_round_trip(f.m, ir_print, fuzz_read_moe, pass);
    fuzz_show(&f);
    fuzz_free(&f);
}

static void check_tiles(const char *text, size_t len, const PassContext *context)
{
    FuzzText f = fuzz_text();
    if (fuzz_compile(&f, text, len, context, NULL) == 0)
        fuzz_round_trip(f.m, tile_print, fuzz_read_tiles, context->machine ? "plan" : "tiles");
    fuzz_show(&f);
    fuzz_free(&f);
}

/* The command that does the same. */
static void tell(const PassContext *c, const char *pass)
{
    fprintf(stderr,
            "moec --verify-each --target=%s -O%d --schedule-seed=%llu%s (and --emit=ir --stop-after=%s)\n",
            cpu_table[c->isa].name, c->optimize, (unsigned long long)c->schedule_seed,
            c->machine ? " --machine ascend910b2" : "", pass);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    fuzz_begin();
    FuzzText f = fuzz_text();
    FuzzPicks picks = fuzz_picks(data, size);
    int refused = fuzz_read_moe(&f, text, size);
    fuzz_show(&f);
    if (!refused) {
        fuzz_verify(f.m, f.arena, "front end");
        fuzz_round_trip(f.m, ir_print, fuzz_read_moe, "front end");
        PassContext c = {.isa = isas[fuzz_pick(&picks, ISAS)], .optimize = fuzz_pick(&picks, 4) > 0};
        c.schedule_seed = fuzz_pick(&picks, 3) ? 0 : 1 + fuzz_pick(&picks, 1000);
        const char *pass = equation_passes[fuzz_pick(&picks, PASSES)];
        c.machine = fuzz_pick(&picks, 4) ? NULL : npu(f.arena);
        if (getenv("FUZZ_TELL"))
            tell(&c, pass);
        check_equations(text, size, &c, pass);
        check_tiles(text, size, &c);
    }
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
