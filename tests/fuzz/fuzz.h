/* Shared by the fuzz targets: one file each, moe.c, values.c, tiles.c, machine.c, words.c, config.c, safetensors.c, step.c, with the entry point of libFuzzer.
 *
 * A target reads one input as the compiler would and aborts on a finding: a crash, an internal error, more processor time
 * than FUZZ_SECONDS, more memory than FUZZ_BYTES, or a broken promise (printed text reads back to the same program, every
 * invariant holds after every pass). replay.c feeds files to a target without libFuzzer. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "ir/ir.h"
#include "ir/tile.h"
#include "driver/pipeline.h"

enum { FUZZ_BYTES = 1 << 30, FUZZ_PRINTED = 1 << 17 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One reading of one text: an arena of its own and what was reported. */
typedef struct FuzzText {
    Arena *arena;
    Diags diags;
    Module *m;
} FuzzText;

typedef int FuzzRead(FuzzText *f, const char *text, size_t len); /* 0: nothing was reported */
typedef void FuzzPrint(const Module *m, const Kernel *kernel, Text *out);

/* From fuzz_begin to fuzz_end an input may take FUZZ_SECONDS of processor time. */
void fuzz_begin(void);
void fuzz_end(void);

FuzzText fuzz_text(void);
void fuzz_free(FuzzText *f);
FuzzRead fuzz_read_moe, fuzz_read_tiles;
/* .moe text read and taken through the passes up to one, or NULL: to the end; 0: nothing was reported. */
int fuzz_compile(FuzzText *f, const char *text, size_t len, const PassContext *context,
                 const char *stop_after);

/* Aborts with a text that says what was promised. */
_Noreturn void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Diagnostics can be shown, as text and as well-formed JSON. */
void fuzz_show(const FuzzText *f);
/* What m prints is read without an error and prints the same again. `when` goes into the message. */
void fuzz_round_trip(const Module *m, FuzzPrint *print, FuzzRead *read, const char *when);
/* Every kernel keeps the invariants of its level. */
void fuzz_verify(const Module *m, Arena *a, const char *when);

/* Picks that depend on the input alone: pick(n) is below n. */
typedef struct FuzzPicks {
    uint64_t state;
} FuzzPicks;
FuzzPicks fuzz_picks(const void *data, size_t size);
uint32_t fuzz_pick(FuzzPicks *p, uint32_t n);

#endif
