#include "trainer/trainer.h"

#include <string.h>

#define STRATEGY(name, doc) extern const Strategy strategy_##name;
#include "trainer/strategy.def"

const Strategy *strategy_find(const char *name)
{
    static const Strategy *const all[] = {
#define STRATEGY(name, doc) &strategy_##name,
#include "trainer/strategy.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}
