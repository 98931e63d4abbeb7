/* One process with the whole model and the whole batch: nothing to exchange. The file to copy for a new
 * strategy: rename, fill in the hooks, add a row to strategy.def. */
#include "trainer/trainer.h"

extern const Strategy strategy_single;

static int before(Trainer *t)
{
    (void)t; /* a parallel strategy fetches the weights it does not hold */
    return 0;
}

static int reduce(Trainer *t)
{
    (void)t; /* a parallel strategy sums t->model.gradient over the processes */
    return 0;
}

static int after(Trainer *t)
{
    (void)t; /* a parallel strategy hands out the new weights */
    return 0;
}

const Strategy strategy_single = {"single", before, reduce, after};
