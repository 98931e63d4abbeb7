/* Experts on several ranks: rows travel to the rank that has their expert, and what it makes of them travels back. No row is
 * dropped: a rank has room for all that the others may send, or for a multiple of the mean, and more end the step. Its kernels go
 * over the rows that came. */
#include "model/recipe.h"

#include <math.h>

/* Every choice of every token of the group that may be an expert of this rank: a token chooses none of them twice. */
static int64_t most_rows(const Recipe *m, int64_t ranks, int64_t experts)
{
    const int64_t tokens = recipe_rows(m), k = m->c->top_k,
                  all = ranks * tokens * (k < experts ? k : experts);
    const double room = ceil(m->row_factor * (double)(tokens * k));
    return m->row_factor > 0 && room < (double)all ? (int64_t)room : all;
}

/* Numbers of rows, by rank of the group. Those that this rank counts itself persist: passes leave alone what exchanges go by. */
typedef struct RowCounts {
    BufferId sent, received;
    BufferId rows; /* received from all of them: an extent */
} RowCounts;

static RowCounts count_rows(Recipe *m, BufferId id, int64_t ranks, int64_t experts)
{
    RowCounts n = {.sent = record_tensor(m->r, OWNER_state, recipe_label(m, "sent"), MOEC_I32, 0, 1, &ranks)};
    const Call to = record(m->r, "destinations", ARG(id, id), SIZE(L, experts), ARG(sent, n.sent));
    const BufferId one = out(to, "one");
    n.received = record_alltoallv(m->r, AXIS_ep, n.sent, one, one, ranks);
    n.rows = record_tensor(m->r, OWNER_state, recipe_label(m, "rows"), MOEC_I32, 0, 0, NULL);
    record(m->r, "arrivals", ARG(received, n.received), ARG(rows, n.rows));
    return n;
}

static BufferId arriving(Recipe *m, BufferId x, const RowCounts *c, int64_t most)
{
    const BufferId y = record_alltoallv(m->r, AXIS_ep, x, c->sent, c->received, most);
    record_rows(m->r, y, c->rows);
    return y;
}

BufferId recipe_exchanged(Recipe *m, BufferId n, BufferId p, BufferId id, BufferId route)
{
    const int64_t ranks = record_members(m->r, AXIS_ep), experts = m->c->experts / ranks,
                  most = most_rows(m, ranks, experts), tokens = recipe_rows(m);
    record_module(m->r, "exchange");
    const RowCounts c = count_rows(m, id, ranks, experts);
    const Call sorted = record(m->r, "permute", ARG(n, n), ARG(p, p), ARG(id, id), ARG(rt, route),
                               SIZE(M, ranks), SIZE(L, experts));
    const BufferId rows = arriving(m, out(sorted, "rows"), &c, most),
                   weight = arriving(m, out(sorted, "weight"), &c, most),
                   own = arriving(m, out(sorted, "own"), &c, most);
    record_module(m->r, "swiglu");
    const Call here =
        record(m->r, "dispatch", ARG(id, SHAPED(m, own, most, 1)), EXTENT(T, c.rows, most), SIZE(E, experts));
    const Call made = record(m->r, "routed_branch", ARG(n, rows), ARG(rt, out(here, "rt")),
                             ARG(p, SHAPED(m, weight, most, 1)), ARG(wg, recipe_weight(m, MODEL_wg)),
                             ARG(wu, recipe_weight(m, MODEL_wu)), ARG(wd, recipe_weight(m, MODEL_wd)),
                             EXTENT(T, c.rows, most));
    record_rows(m->r, out(made, "y"), c.rows);
    return record_alltoallv(m->r, AXIS_ep, out(made, "y"), c.received, c.sent, tokens * m->c->top_k);
}
