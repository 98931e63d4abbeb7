/* Tables of text (table.h). */
#include "explain/table.h"

#include <string.h>

void table_add(ExplainTable *t, const char *a, const char *b, const char *c, const char *d)
{
    vec_push(t->arena, &t->rows, (struct TableRow){{a, b, c, d}});
}

static void put_row(const struct TableRow *row, const size_t *width, Text *out)
{
    Text line = {.arena = out->arena};
    text_add(&line, "   ");
    for (int c = 0; c < CELLS; c++)
        text_add(&line, " %-*s ", (int)width[c], row->cell[c]);
    text_string(&line);
    while (line.len > 0 && line.at[line.len - 1] == ' ')
        line.len--;
    text_add_bytes(out, line.at, line.len);
    text_add(out, "\n");
}

void table_put(const ExplainTable *t, const char *title, Text *out)
{
    size_t width[CELLS] = {0};
    if (t->rows.len == 0)
        return;
    text_add(out, "  %s\n", title);
    for (uint32_t i = 0; i < t->rows.len; i++)
        for (int c = 0; c + 1 < CELLS; c++) {
            size_t len = strlen(t->rows.at[i].cell[c]);
            width[c] = len > width[c] ? len : width[c];
        }
    for (uint32_t i = 0; i < t->rows.len; i++)
        put_row(&t->rows.at[i], width, out);
}
