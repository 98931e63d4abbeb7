/* Rows of cells, each column as wide as its widest cell; the last one is not padded. Private to explain/. */
#ifndef EXPLAIN_TABLE_H
#define EXPLAIN_TABLE_H

#include "base/base.h"

enum { CELLS = 4 };

typedef struct ExplainTable {
    Arena *arena;
    Vec(struct TableRow { const char *cell[CELLS]; }) rows;
} ExplainTable;

void table_add(ExplainTable *t, const char *a, const char *b, const char *c, const char *d);
void table_put(const ExplainTable *t, const char *title, Text *out); /* nothing if there are no rows */

#endif
