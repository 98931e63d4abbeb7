/* Row-block groups: what may be a member.
 *
 * Note [Row blocks]. A row-block group is computed for a block of rows after the other, so an equation joins only when
 * the order of the blocks cannot be seen: what one member writes, another one touches at its own outer and
 * row variables only. Its key variables follow from the member it is linked to: s[b, n, i, j] with outer
 * b, n and row i, read as s[b2, n2, i2, j2], says what that equation calls them. With all of them on its
 * left-hand side the equation is direct; with the row bound by its one sum over it, and the outer ones on
 * the left, it is a carrier: its sum grows from block to block. Without outer ones nothing would be left to do in parallel:
 * then blocks go in parts, each with sums of its own (Note [Parts] in lower/parts.c), which suits sums no larger than a
 * row. Such a carrier may be linked to a member by a row that both read, and nothing else. */
#include "passes/cluster_rowblock.h"

#include "passes/query.h"
#include "passes/schedule.h"

#include <string.h>

/* ---- facts ---- */

static int is_of_rows(const Kernel *k, IndexId i) { return k->indices.at[i].axis.group != NONE; }

/* Neither rows of groups nor routes nor counting sorts below e? */
static int is_plain(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        ExprKind kind = (ExprKind)x->kind;
        if (kind == X_TOKEN || kind == X_SLOT || kind == X_ROW || kind == X_GROUP)
            return 0;
        if (kind == X_INDEX && is_of_rows(k, x->sym))
            return 0;
        if (kind == X_REDUCE && query_is_bucketed(k, *n))
            return 0;
    }
    return 1;
}

static int may_join(const Kernel *k, const Equation *q)
{
    if ((q->kind != EQ_ASSIGN && q->kind != EQ_ADD && q->kind != EQ_TOP) || q->dead || q->cluster != NONE)
        return 0;
    for (uint32_t i = 0; i < q->nindex; i++) {
        ExprKind kind = (ExprKind)x_at(k, q->index[i])->kind;
        if ((kind != X_INDEX && kind != X_INT) || !is_plain(k, q->index[i]))
            return 0;
    }
    return is_plain(k, q->rhs);
}

static Nodes loads_of(const Kernel *k, ExprId e)
{
    if (e == NONE)
        return (Nodes){NULL, 0};
    Nodes below = x_below(k, e, EVERYWHERE);
    ExprId *at = arena_array(k->module->scratch, ExprId, below.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < below.n; i++)
        if (x_at(k, below.at[i])->kind == X_LOAD)
            at[n++] = below.at[i];
    return (Nodes){at, n};
}

int rowblock_is_product(const Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_REDUCE && x->op == RED_SUM && x->type != TY_INT && x_is_op(k, x_arg(k, e, 0), OP_mul);
}

static Operands operands_of(const Kernel *k, ExprId e)
{
    Operands found = {0};
    if (e == NONE)
        return found;
    each_below (sum, k, e, EVERYWHERE)
        if (rowblock_is_product(k, *sum)) {
            Nodes loads = loads_of(k, x_arg(k, *sum, 0));
            for (uint32_t i = 0; i < loads.n; i++)
                vec_push(k->module->scratch, &found.list, ((RowBlockOperand){*sum, loads.at[i]}));
        }
    return found;
}

static void add_place(const Facts *f, RowBlockPlaces *p, uint32_t at)
{
    if (!p->list.len || p->list.at[p->list.len - 1] != at)
        vec_push(f->k->module->scratch, &p->list, at);
}

/* Calls add(f, what, at) for each tensor, or tensors + route, of a set. */
static void each_of(Facts *f, const uint64_t *set, uint32_t at, void (*add)(Facts *, uint32_t, uint32_t))
{
    for (uint32_t w = 0; w < f->order.words; w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            add(f, w * 64 + (uint32_t)__builtin_ctzll(left), at);
}

static void add_writer(Facts *f, uint32_t what, uint32_t at) { add_place(f, &f->writers[what], at); }
static void add_reader(Facts *f, uint32_t what, uint32_t at) { add_place(f, &f->readers[what], at); }

/* b waits for who wrote what it reads, and for all that they wait for: values flow forward only. */
static void add_waits(Facts *f, uint32_t what, uint32_t b)
{
    uint64_t *own = f->waits + (size_t)b * f->words;
    for (uint32_t i = 0; i < f->writers[what].list.len; i++) {
        uint32_t a = f->writers[what].list.at[i];
        const uint64_t *before = f->waits + (size_t)a * f->words;
        own[a / 64] |= (uint64_t)1 << a % 64;
        for (uint32_t w = 0; w <= a / 64; w++)
            own[w] |= before[w];
    }
}

static void find_flow(Facts *f)
{
    Kernel *k = f->k;
    uint32_t n = k->tensors.len + k->routes.len + 1;
    f->words = k->eqs.len / 64 + 1;
    f->waits = arena_array(k->module->scratch, uint64_t, (size_t)f->words * k->eqs.len);
    f->writers = arena_array(k->module->scratch, RowBlockPlaces, n);
    f->readers = arena_array(k->module->scratch, RowBlockPlaces, n);
    for (uint32_t at = 0; at < k->eqs.len; at++) {
        const Effects *e = &f->order.of[at];
        each_of(f, e->reads, at, add_reader);
        each_of(f, e->reads, at, add_waits);
        each_of(f, e->writes, at, add_writer);
    }
}

/* Does t take no more memory than some tensor that e reads: has that one all its axes? */
static int is_as_small(const Kernel *k, const Tensor *t, ExprId e)
{
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_LOAD)
            continue;
        const Tensor *read = &k->tensors.at[x_at(k, *n)->sym];
        uint32_t found = 0, taken = 0;
        for (uint32_t a = 0; a < t->rank; a++)
            for (uint32_t b = 0; b < read->rank; b++)
                if (!(taken >> b & 1) && ext_same(k->module, t->axes[a].extent, read->axes[b].extent)) {
                    taken |= 1u << b;
                    found++;
                    break;
                }
        if (found == t->rank)
            return 1;
    }
    return 0;
}

/* Sums that go on from row to row, which a group would compute anew for each: Note [Scans]. */
static int is_scan(Kernel *k, const PassContext *c, const Equation *q)
{
    const Tensor *t = q->lhs == NONE ? NULL : &k->tensors.at[q->lhs];
    return t && !pass_traits(c)->long_vectors && query_scan_index(k, q) != NONE &&
           (t->role != ROLE_LOCAL || is_as_small(k, t, q->rhs));
}

static Extent elements(const Kernel *k, TensorId t)
{
    const Tensor *x = &k->tensors.at[t];
    Extent all = ext_const(k->module, 1);
    for (uint32_t a = 0; a < x->rank; a++)
        all = ext_mul(k->module, all, x->axes[a].extent);
    return all;
}

static void find_large(Facts *f)
{
    const Kernel *k = f->k;
    Extent *size = arena_array(k->module->scratch, Extent, k->tensors.len + 1);
    for (TensorId t = 0; t < k->tensors.len; t++) {
        size[t] = elements(k, t);
        f->large[t] = 1;
    }
    for (TensorId p = 0; p < k->tensors.len; p++)
        for (TensorId t = 0; k->tensors.at[p].role != ROLE_LOCAL && t < k->tensors.len; t++)
            f->large[t] &= !ext_same(k->module, size[p], size[t]);
}

Facts rowblock_facts(Kernel *k, const PassContext *c)
{
    Arena *a = k->module->scratch;
    Facts f = {.k = k, .order = order_of(k)};
    f.loads = arena_array(a, Nodes, k->eqs.len + 1);
    f.operands = arena_array(a, Operands, k->eqs.len + 1);
    f.allowed = arena_alloc(a, k->eqs.len + 1);
    f.stored = arena_alloc(a, k->tensors.len + 1);
    f.large = arena_alloc(a, k->tensors.len + 1);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        f.loads[i] = loads_of(k, q->rhs);
        f.operands[i] = operands_of(k, q->rhs);
        f.allowed[i] = (uint8_t)(may_join(k, q) && !is_scan(k, c, q));
    }
    for (TensorId t = 0; t < k->tensors.len; t++)
        f.stored[t] = k->tensors.at[t].role == ROLE_LOCAL && schedule_stores(c, k, k->tensors.at[t].name);
    if (!pass_traits(c)->long_vectors)
        find_large(&f);
    find_flow(&f);
    return f;
}

/* ---- keys of one equation ---- */

/* The float sum of e that goes over v, when e holds no other reduction beside it; else NONE. */
static ExprId sum_over(const Kernel *k, ExprId root, IndexId v)
{
    ExprId outermost[2];
    if (query_reductions(k, root, outermost, 2) != 1)
        return NONE;
    const Expr *x = x_at(k, outermost[0]);
    return x->op == RED_SUM && x->type != TY_INT && x_binds(k, outermost[0], v) ? outermost[0] : NONE;
}

/* Does the sum read some tensor at the row and at all left-hand variables of q? Its result is then no larger than a row. */
static int is_sum_of_rows(const Kernel *k, const Equation *q, ExprId sum, IndexId row)
{
    each_below (n, k, sum, EVERYWHERE) {
        int reads = x_at(k, *n)->kind == X_LOAD && x_uses_index(k, *n, row);
        for (uint32_t i = 0; i < q->nindex && reads; i++)
            reads =
                x_plain_index(k, q->index[i]) != NONE && x_uses_index(k, *n, x_plain_index(k, q->index[i]));
        if (reads)
            return q->nindex > 0 && q->nindex < MAX_RANK && x_at(k, sum)->nbound == 1;
    }
    return 0;
}

RowBlockPart rowblock_part(const RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Kernel *k = s->f->k;
    const Equation *q = &k->eqs.at[at];
    for (uint32_t i = 0; i + 1 < s->nkeys; i++)
        if (query_on_left(k, q, key[i]) < 0)
            return PART_NONE;
    for (uint32_t i = 0; q->kind == EQ_TOP && i < s->nkeys; i++)
        if (query_on_left(k, q, key[i]) + 1 == q->nindex) /* which of the best ones: not known one by one */
            return PART_NONE;
    if (query_on_left(k, q, key[s->nkeys - 1]) >= 0)
        return PART_DIRECT;
    ExprId sum = q->kind == EQ_TOP ? (ExprId)NONE : sum_over(k, q->rhs, key[s->nkeys - 1]);
    int carries =
        sum != NONE && (s->nkeys > 1 || is_sum_of_rows(k, q, sum, key[0])) &&
        (x_is_asked_for(k, q->rhs, sum) || checks_inside(s->f->k, sum)); /* it is computed everywhere */
    return carries ? PART_CARRIER : PART_NONE;
}

void rowblock_axes(const RowBlockGroup *s, uint32_t at, const IndexId *key, uint8_t *axes)
{
    const Equation *q = &s->f->k->eqs.at[at];
    memset(axes, AXIS_FREE, MAX_RANK);
    for (uint32_t i = 0; i < s->nkeys; i++) {
        int place = query_on_left(s->f->k, q, key[i]);
        if (place >= 0)
            axes[place] = (uint8_t)i;
    }
}

/* ---- links ---- */

/* A load of a tensor that a member writes names the keys of the loading equation. */
static int keys_of_load(const RowBlockGroup *s, ExprId load, IndexId *key)
{
    const Kernel *k = s->f->k;
    const uint8_t *axes = s->key_of[x_at(k, load)->sym];
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        if (axes[a] == AXIS_FREE)
            continue;
        key[axes[a]] = x_plain_index(k, x_arg(k, load, a));
        if (key[axes[a]] == NONE)
            return 0;
    }
    return 1;
}

/* A member's load of what equation q writes names the keys of q. */
static int keys_of_writer(const RowBlockGroup *s, const Equation *q, ExprId load, const Member *reader,
                          IndexId *key)
{
    const Kernel *k = s->f->k;
    uint32_t found = 0;
    for (uint32_t a = 0; a < q->nindex; a++)
        for (uint32_t i = 0; i < s->nkeys; i++)
            if (x_plain_index(k, x_arg(k, load, a)) == reader->key[i] &&
                x_plain_index(k, q->index[a]) != NONE) {
                key[i] = x_plain_index(k, q->index[a]);
                found |= 1u << i;
            }
    return found == (1u << s->nkeys) - 1;
}

static int writes(const Equation *q, TensorId t)
{
    return q->kind != EQ_CHECK && (q->lhs == t || (q->kind == EQ_TOP && q->ids == t));
}

static int linked_up(const RowBlockGroup *s, uint32_t at, IndexId *key)
{
    const Kernel *k = s->f->k;
    const Equation *q = &k->eqs.at[at];
    int is_read = q->kind != EQ_CHECK && (s->read[q->lhs] || (q->kind == EQ_TOP && s->read[q->ids]));
    for (uint32_t i = 0; is_read && i < s->n; i++)
        for (uint32_t m = s->at[i], n = 0; n < s->f->loads[m].n; n++) {
            ExprId load = s->f->loads[m].at[n];
            if (writes(q, x_at(k, load)->sym) && keys_of_writer(s, q, load, &s->member[m], key))
                return 1;
        }
    return 0;
}

/* The row of a load of a tensor that a member reads as well, at its own row and over columns. */
static IndexId row_beside(const RowBlockGroup *s, ExprId load)
{
    const Kernel *k = s->f->k;
    for (uint32_t i = 0; s->read[x_at(k, load)->sym] && i < s->n; i++)
        for (uint32_t m = s->at[i], n = 0; s->member[m].part == PART_DIRECT && n < s->f->loads[m].n; n++) {
            ExprId other = s->f->loads[m].at[n];
            for (uint32_t a = 0; x_at(k, other)->sym == x_at(k, load)->sym && x_at(k, other)->nargs > 1 &&
                                 a < x_at(k, other)->nargs;
                 a++)
                if (x_plain_index(k, x_arg(k, other, a)) == s->member[m].key[0])
                    return x_plain_index(k, x_arg(k, load, a));
        }
    return NONE;
}

int rowblock_beside(const RowBlockGroup *s, uint32_t at, IndexId *key)
{
    for (uint32_t n = 0; s->nkeys == 1 && n < s->f->loads[at].n; n++) {
        key[0] = row_beside(s, s->f->loads[at].at[n]);
        if (key[0] != NONE && rowblock_part(s, at, key) == PART_CARRIER)
            return 1;
    }
    return 0;
}

int rowblock_linked(const RowBlockGroup *s, uint32_t at, IndexId *key)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        ExprId load = s->f->loads[at].at[n];
        TensorId t = x_at(k, load)->sym;
        if (s->keyed[t] == PART_DIRECT && keys_of_load(s, load, key))
            return 1;
    }
    return linked_up(s, at, key) || rowblock_beside(s, at, key);
}

/* ---- joining ---- */

/* Is every load of t in equation `at` at its own outer and row variables? */
static int at_own_place(const RowBlockGroup *s, uint32_t at, const IndexId *key, TensorId t,
                        const uint8_t *axes)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        ExprId load = s->f->loads[at].at[n];
        if (x_at(k, load)->sym != t)
            continue;
        for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
            if (axes[a] != AXIS_FREE && x_plain_index(k, x_arg(k, load, a)) != key[axes[a]])
                return 0;
    }
    return 1;
}

static int touches(const RowBlockGroup *s, uint32_t at, TensorId t)
{
    return order_reads(&s->f->order, at, t) || writes(&s->f->k->eqs.at[at], t);
}

/* May the equation write t? A carrier's result is not there before the last block, so no member touches
 * it. */
static int fits_result(const RowBlockGroup *s, uint32_t at, const Member *as, TensorId t, const uint8_t *axes)
{
    const Kernel *k = s->f->k;
    if (s->keyed[t] != PART_NONE &&
        (s->keyed[t] != as->part || memcmp(s->key_of[t], axes, k->tensors.at[t].rank) != 0))
        return 0;
    if (as->part == PART_DIRECT && !at_own_place(s, at, as->key, t, axes))
        return 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t m = s->at[i];
        if (touches(s, m, t) && (as->part == PART_CARRIER || !at_own_place(s, m, s->member[m].key, t, axes)))
            return 0;
    }
    return 1;
}

static int fits_operands(const RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        TensorId t = x_at(k, s->f->loads[at].at[n])->sym;
        if (s->keyed[t] == PART_CARRIER ||
            (s->keyed[t] == PART_DIRECT && !at_own_place(s, at, key, t, s->key_of[t])))
            return 0;
    }
    return 1;
}

/* Distinct, dense, and over the row-block group's extents? */
static int fits_keys(const RowBlockGroup *s, const IndexId *key)
{
    const Kernel *k = s->f->k;
    for (uint32_t i = 0; i < s->nkeys; i++) {
        if (is_of_rows(k, key[i]) || !ext_same(k->module, index_extent(k, key[i]), s->extent[i]))
            return 0;
        for (uint32_t j = 0; j < i; j++)
            if (key[i] == key[j])
                return 0;
    }
    return 1;
}

/* Into an ascending list of n places. */
static void insert(uint32_t *list, uint32_t n, uint32_t at)
{
    for (; n > 0 && list[n - 1] > at; n--)
        list[n] = list[n - 1];
    list[n] = at;
}

/* Can the members be neighbours, with `at` among them? */
static int keeps_order(const RowBlockGroup *s, uint32_t at)
{
    uint32_t list[CLUSTER_MAX];
    memcpy(list, s->at, sizeof *list * s->n);
    insert(list, s->n, at);
    return order_blocks(&s->f->order, list, s->n + 1) == NONE;
}

/* Outer variables that a sum over rows goes over as well: with fewer outer ones it would be a carrier. */
static void note_lost(RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Kernel *k = s->f->k;
    ExprId sum = sum_over(k, k->eqs.at[at].rhs, key[s->nkeys - 1]);
    if (sum == NONE)
        return;
    for (uint32_t i = 0; i + 1 < s->nkeys; i++)
        if (x_binds(k, sum, key[i]))
            s->lost |= 1u << i;
}

static void keep_result(RowBlockGroup *s, RowBlockPart part, TensorId t, const uint8_t *axes)
{
    s->keyed[t] = (uint8_t)part;
    memcpy(s->key_of[t], axes, MAX_RANK);
}

int rowblock_join(RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Equation *q = &s->f->k->eqs.at[at];
    Member as = {.part = PART_NONE};
    uint8_t axes[MAX_RANK];
    if (!s->f->allowed[at] || s->n == CLUSTER_MAX || !fits_keys(s, key))
        return 0;
    memcpy(as.key, key, sizeof *key * s->nkeys);
    as.part = rowblock_part(s, at, key);
    if (as.part == PART_NONE) {
        note_lost(s, at, key);
        return 0;
    }
    rowblock_axes(s, at, key, axes);
    if (!fits_operands(s, at, key) || !fits_result(s, at, &as, q->lhs, axes) ||
        (q->kind == EQ_TOP && !fits_result(s, at, &as, q->ids, axes)) || !keeps_order(s, at))
        return 0;
    s->member[at] = as;
    insert(s->at, s->n++, at);
    for (uint32_t n = 0; n < s->f->loads[at].n; n++)
        s->read[x_at(s->f->k, s->f->loads[at].at[n])->sym] = 1;
    keep_result(s, as.part, q->lhs, axes);
    if (q->kind == EQ_TOP)
        keep_result(s, as.part, q->ids, axes);
    return 1;
}
