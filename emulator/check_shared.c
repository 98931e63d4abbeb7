/* Memory that all cores see: Note [Shadow of memory]. */
#include "emulator/check_own.h"

static int is_other(const Checker *c, uint32_t item)
{
    return item >= c->first && item != check_core(c)->item;
}

static void note_reader(Cell *cell, uint32_t item)
{
    if (cell->readers[0] == item)
        return;
    cell->readers[1] = cell->readers[0];
    cell->readers[0] = item;
}

Problem check_items(Checker *c, const CheckAccess *a, Cell *cell, Other *other)
{
    uint32_t item = check_core(c)->item;
    *other = (Other){.mark = cell->write, .buffer = a->buffer, .item = cell->item};
    if (is_other(c, cell->item))
        return MEETS_WRITE;
    for (uint32_t i = 0; a->write && i < 2; i++) {
        *other = (Other){.mark = cell->read, .buffer = a->buffer, .item = cell->readers[i]};
        if (is_other(c, cell->readers[i]))
            return MEETS_READ;
    }
    if (cell->item != item)
        cell->write = (Mark){0};
    if (cell->readers[0] != item) {
        cell->read = (Mark){0};
        cell->reads = NULL;
    }
    if (!a->write)
        note_reader(cell, item);
    return FINE;
}
