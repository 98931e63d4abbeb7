/* The text of a step's program. Promise: what is read prints text that reads back to the same, and the verifier comes to a
 * verdict; of a program that it accepts, lifetimes and peak can be computed. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "step/memory.h"
#include "step/text.h"
#include "step/verify.h"

static const char *print(Program *p, Arena *a)
{
    Text t = {.arena = a};
    step_print(p, &t);
    return text_string(&t);
}

static void round_trip(Arena *a, Program *p)
{
    const char *error;
    memory_lifetimes(p);
    const char *once = print(p, a);
    Program *again = step_read(a, once, strlen(once), &error);
    if (!again)
        fuzz_fail("%s\n%s", error, once);
    memory_lifetimes(again);
    if (strcmp(once, print(again, a)))
        fuzz_fail("read back differently:\n%s", once);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *error;
    fuzz_begin();
    FuzzText f = fuzz_text();
    Program *p = step_read(f.arena, (const char *)data, size, &error);
    if (p && !step_verify(p, NULL)) {
        round_trip(f.arena, p);
        memory_peak(p);
    }
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
