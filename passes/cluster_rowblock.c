/* Finds row-block groups: runs of equations that a thread computes for a block of rows after the other, with what
 * stands between them in its own memory (Note [Clusters] in ir/equation.h).
 *
 * requires: final equations     gives: Kernel.clusters, Equation.cluster, Tensor.placed; members adjoin
 * before:  s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d]
 *          m[b2, n2, i2] = max(j2 where j2 <= i2) s[b2, n2, i2, j2]  ...
 * after:   // row-block group over i for b, n: s, m, ...; placed: s, m, ...
 *          s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d]
 *          m[b, n, i] = max(j2 where j2 <= i) s[b, n, i, j2]  ...
 *
 * Every equation that reduces over a column of something is tried as the first member, with each of its
 * other variables as the row; where none pays, every local that another equation sums over, with what is summed over as
 * the row. A row-block group grows from there along reads and writes (Note [Row blocks]) as long as
 * it is worth it (Note [Worth]). The best one is formed, then the best of what is left. */
#include "passes/cluster_rowblock.h"
#include "passes/query.h"

#include <string.h>

/* ---- growing one row-block group ---- */

static RowBlockGroup new_rowblock(const Facts *f)
{
    const Kernel *k = f->k;
    Arena *a = k->module->scratch;
    return (RowBlockGroup){.f = f,
                           .member = arena_array(a, Member, k->eqs.len + 1),
                           .banned = arena_alloc(a, k->eqs.len + 1),
                           .read = arena_alloc(a, k->tensors.len + 1),
                           .keyed = arena_alloc(a, k->tensors.len + 1),
                           .key_of = arena_alloc(a, sizeof(uint8_t[MAX_RANK]) * (k->tensors.len + 1))};
}

static void clear(RowBlockGroup *s)
{
    const Kernel *k = s->f->k;
    for (uint32_t i = 0; i < s->n; i++) {
        const Equation *q = &k->eqs.at[s->at[i]];
        s->member[s->at[i]] = (Member){.part = PART_NONE};
        s->keyed[q->lhs] = PART_NONE;
        if (q->kind == EQ_TOP)
            s->keyed[q->ids] = PART_NONE;
        for (uint32_t n = 0; n < s->f->loads[s->at[i]].n; n++)
            s->read[x_at(k, s->f->loads[s->at[i]].at[n])->sym] = 0;
    }
    s->n = 0;
}

/* None of what another row-block group had but its members, which try_from() clears. */
static void begin(RowBlockGroup *s, const IndexId *key, uint32_t nkeys)
{
    memset(s->banned, 0, s->f->k->eqs.len);
    s->lost = 0;
    s->nkeys = nkeys;
    for (uint32_t i = 0; i < nkeys; i++)
        s->extent[i] = index_extent(s->f->k, key[i]);
}

static int join(RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    return !s->banned[at] && rowblock_wants(s, at, key) && rowblock_join(s, at, key);
}

static void grow(RowBlockGroup *s)
{
    uint32_t n = s->f->k->eqs.len;
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t at = 0; at < n; at++) {
            IndexId key[MAX_RANK];
            if (!rowblock_has(s, at) && s->f->allowed[at] && rowblock_linked(s, at, key))
                more |= join(s, at, key);
        }
    }
}

/* The row-block group that begins at one equation; 0 when it does not pay. Members that turn out to be useless are
 * left out and the rest grows again. */
static int try_from(RowBlockGroup *s, uint32_t first, const IndexId *key)
{
    for (;;) {
        clear(s);
        if (!join(s, first, key))
            return 0;
        grow(s);
        uint32_t useless = rowblock_useless(s);
        if (useless == NONE)
            break;
        s->banned[useless] = 1;
    }
    s->products = rowblock_products(s);
    return rowblock_pays(s);
}

/* ---- choosing ---- */

enum { MARKS_MAX = 9 };

/* What makes one row-block group better than another, the most important first. Where both keep as many tensors larger than any
 * parameter out of memory, the better one carries fewer sums: attention's backward carries the gradient of queries if its rows are the
 * keys, those of keys and of values if its rows are the queries. Carried products read their left operand against its rows. */
typedef struct Score {
    int mark[MARKS_MAX];
} Score;

/* The placed tensors with rows and columns. */
typedef struct Wide {
    int all, large, columns;
} Wide;

static void count_wide(const RowBlockGroup *s, TensorId t, Wide *wide)
{
    if (!rowblock_is_wide(s, t) || !rowblock_is_placed(s, t))
        return;
    int own = (int)(s->f->k->tensors.at[t].rank - s->nkeys);
    wide->columns = own > wide->columns ? own : wide->columns;
    wide->large += s->f->large[t];
    wide->all++;
}

static Score score_of(const RowBlockGroup *s, int row_place)
{
    Wide wide = {0, 0, 0};
    int carriers = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const Equation *q = &s->f->k->eqs.at[s->at[i]];
        count_wide(s, q->lhs, &wide);
        if (q->kind == EQ_TOP)
            count_wide(s, q->ids, &wide);
        carriers += s->member[s->at[i]].part == PART_CARRIER;
    }
    return (Score){{-(int)s->products.of_twice, rowblock_shares(s), wide.large, wide.large ? -carriers : 0,
                    wide.all, -wide.columns, -carriers, (int)s->nkeys, row_place}};
}

static int is_better(Score a, Score b)
{
    for (uint32_t i = 0; i < MARKS_MAX; i++)
        if (a.mark[i] != b.mark[i])
            return a.mark[i] > b.mark[i];
    return 0;
}

typedef struct Choice {
    const Facts *f;
    uint8_t *member; /* by equation: of some row-block group that was tried */
    RowBlockGroup trial, best;
    Score score;
    int found;
} Choice;

/* The row-block group on trial, when it is better than the best one so far, changes places with it. */
static void keep_better(Choice *c, Score score)
{
    if (c->found && !is_better(score, c->score))
        return;
    RowBlockGroup before = c->best;
    c->best = c->trial;
    c->trial = before;
    c->score = score;
    c->found = 1;
}

static void consider(Choice *c, uint32_t first, const IndexId *key, uint32_t nkeys)
{
    RowBlockGroup *s = &c->trial;
    begin(s, key, nkeys);
    int pays = try_from(s, first, key);
    for (uint32_t i = 0; i < s->n; i++)
        c->member[s->at[i]] = 1;
    IndexId kept[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < nkeys; i++)
        if (!(s->lost >> i & 1))
            kept[n++] = key[i];
    int fewer = s->lost && n > 1;
    if (pays)
        keep_better(c, score_of(s, query_on_left(c->f->k, &c->f->k->eqs.at[first], key[nkeys - 1])));
    if (fewer)
        consider(c, first, kept, n);
}

/* Does a reader of t sum over its axis? */
static int is_summed_over(const Facts *f, TensorId t, uint32_t axis)
{
    const Kernel *k = f->k;
    for (uint32_t i = 0; i < f->readers[t].list.len; i++) {
        uint32_t at = f->readers[t].list.at[i];
        for (uint32_t n = 0; n < f->loads[at].n; n++) {
            ExprId load = f->loads[at].at[n];
            IndexId row = x_at(k, load)->sym == t ? x_plain_index(k, x_arg(k, load, axis)) : (IndexId)NONE;
            if (row != NONE && query_on_left(k, &k->eqs.at[at], row) < 0)
                return 1;
        }
    }
    return 0;
}

/* All variables on both sides of a load, each as the row, the others as outer. */
static void consider_load(Choice *c, uint32_t first, ExprId load)
{
    const Kernel *k = c->f->k;
    const Equation *q = &k->eqs.at[first];
    IndexId shared[MAX_RANK], key[MAX_RANK];
    uint32_t n = 0, columns = 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
            if (x_plain_index(k, q->index[i]) != NONE && x_arg(k, load, a) == q->index[i]) {
                shared[n++] = x_plain_index(k, q->index[i]);
                break;
            }
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
        columns += x_plain_index(k, x_arg(k, load, a)) != NONE &&
                   query_on_left(k, q, x_plain_index(k, x_arg(k, load, a))) < 0;
    for (uint32_t row = 0; columns > 0 && row < n; row++) {
        uint32_t outer = 0;
        for (uint32_t i = 0; i < n; i++)
            if (i != row)
                key[outer++] = shared[i];
        key[outer] = shared[row];
        consider(c, first, key, n);
    }
}

/* What a reader sums over all rows of is a row-block group with its rows. */
static void consider_local(Choice *c, uint32_t writer)
{
    const Kernel *k = c->f->k;
    const Equation *q = &k->eqs.at[writer];
    if (q->kind != EQ_ASSIGN || k->tensors.at[q->lhs].role != ROLE_LOCAL || q->nindex < 2)
        return;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId row = x_plain_index(k, q->index[a]);
        if (row != NONE && is_summed_over(c->f, q->lhs, a))
            consider(c, writer, &row, 1);
    }
}

static Choice choose(const Facts *f)
{
    uint32_t all = f->k->eqs.len;
    Choice c = {.f = f, .trial = new_rowblock(f), .best = new_rowblock(f)};
    c.member = arena_alloc(f->k->module->scratch, all + 1);
    for (uint32_t i = 0; i < all; i++) {
        int begins = f->allowed[i] && (all <= ROWBLOCK_BEGINNERS || !c.member[i]);
        for (uint32_t n = 0; begins && n < f->loads[i].n; n++)
            consider_load(&c, i, f->loads[i].at[n]);
    }
    for (uint32_t i = 0; i < all && !c.found; i++)
        if (f->allowed[i] && (all <= ROWBLOCK_BEGINNERS || !c.member[i]))
            consider_local(&c, i);
    return c;
}

static int best_rowblock(Kernel *k, const PassContext *c)
{
    Facts f = rowblock_facts(k, c);
    Choice best = choose(&f);
    if (!best.found)
        return 0;
    rowblock_form(&best.best);
    rowblock_share_sums(k, k->clusters.len - 1);
    cluster_drop_guards(k, k->clusters.len - 1);
    cluster_along(k, c, k->clusters.len - 1);
    return 1;
}

void cluster_rowblocks(Kernel *k, const PassContext *c)
{
    rowblock_split_terms(k);
    for (int more = 1; more;) {
        ArenaMark mark = arena_mark(k->module->scratch);
        more = best_rowblock(k, c);
        arena_release(k->module->scratch, mark);
    }
}
