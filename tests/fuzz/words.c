/* Words of the command line: the first line is a list of sizes (`T=33,K=2`), the rest a routing (`zipf(1.2), empty(40%)`).
 * Promise: a routing that is accepted can be printed and read back, and choices are drawn by it. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "testing/parts.h"
#include "frontend/frontend.h"

static const char dims[] = "moe 1\ndim T, K, E = 8\ndim H : % 16\ndim Fx <= 64\n";

static void draw(Arena *a, const TestRun *run)
{
    enum { TOKENS = 7, CHOICES = 3, GROUPS = 5 };
    double choices[TOKENS * CHOICES];
    TestCase c = {.arena = a, .run = run, .random = random_new(1), .shrink = 1};
    test_choices(&c, TOKENS, CHOICES, GROUPS, choices);
    for (int i = 0; i < TOKENS * CHOICES; i++)
        if (!(choices[i] >= -1 && choices[i] < GROUPS))
            fuzz_fail("choice %d is %g", i, choices[i]);
}

static void take_routing(Module *m, const char *text)
{
    TestRun run = {0}, again = {0};
    if (frontend_routing(m, text, &run))
        return;
    const char *printed = test_routing_text(&run, m->arena);
    if (frontend_routing(m, printed, &again) || strcmp(printed, test_routing_text(&again, m->arena)) != 0)
        fuzz_fail("routing '%s' prints as '%s', which reads back differently", text, printed);
    draw(m->arena, &run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_begin();
    FuzzText f = fuzz_text();
    if (fuzz_read_moe(&f, dims, strlen(dims)))
        fuzz_fail("%s", diag_text(&f.diags, f.arena));
    char *text = arena_strndup(f.arena, (const char *)data, size), *line = strchr(text, '\n');
    if (line)
        *line++ = '\0';
    int64_t sizes[8] = {0};
    frontend_sizes(f.m, text, sizes);
    if (line)
        take_routing(f.m, line);
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
