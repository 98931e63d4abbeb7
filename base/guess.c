#include "base/guess.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40 };

/* Letters to change, add, drop or swap to come from a to b; a capital for a small letter costs nothing here.
 */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[3][LONGEST + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            uint32_t best = last[j - 1] + (same ? 0 : 1);
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            best = last[j] + 1 < best ? last[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

Guess guess_new(const char *wanted)
{
    /* one letter in three may be wrong; a name of one letter may only differ in case */
    size_t n = strlen(wanted);
    return (Guess){wanted, NULL, n < 2 ? 1 : n < 3 ? 2 : (uint32_t)(n / 3 + 1)};
}

void guess_try(Guess *g, const char *candidate)
{
    if (candidate == g->wanted)
        return;
    uint32_t distance = edit_distance(g->wanted, candidate);
    if (distance < g->distance) {
        g->distance = distance;
        g->best = candidate;
    }
}

const char *guess_help(Arena *a, const Guess *g, const char *otherwise)
{
    return g->best ? arena_printf(a, "did you mean `%s`?", g->best) : otherwise;
}

void guess_edit(Diags *d, const Guess *g, Loc loc)
{
    if (g->best)
        diag_edit(d, loc, g->best);
}
