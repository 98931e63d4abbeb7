/* Row-block groups: what is worth it.
 *
 * Note [Worth]. A row-block group pays when it keeps something as large as rows x columns out of memory, or when it
 * saves reading such a thing twice. It costs where a product has a shared operand, a matrix that varies
 * neither with the row nor with the outer variables: weights. On its own such a product takes as many rows
 * together as it likes; in a row-block group its weights go by once for each block of rows. So
 *   - an equation without shared operands joins whatever it is linked to (all of attention: keys and
 *     values belong to one head, and all its rows are the row-block group's),
 *   - one with shared operands joins only for a tensor s that is *looked at twice*: some member reduces
 *     over columns of s, and another one, which waits for that result, reads s again. Softmax and its
 *     gradients are so; for them the alternative is to store s, or to compute it twice. The two products
 *     around an activation, gate and down, are not, and stay apart,
 *   - a carrier joins when it reads a placed tensor, or, where there are no outer variables, rows that a member reads.
 * Of the members' products of two matrices no more may become plain loops than stay products of a block of rows. Of two choices of
 * the row the better one keeps the products that write or read what is looked at twice: in `q[b, i, n, d] * k[b, j, n, d]` the row is
 * the position i, not the head n, though heads may share some keys.
 * Without a placed tensor of rows and columns, a row-block group pays for a norm: one member reduces over columns
 * of x, another one, which waits for it, reads x again. Where neighbours in memory are elements of neighbouring rows, x[t, f] with
 * row f, a group would use one element of each cache line: there none pays without a product. */
#include "passes/cluster_rowblock.h"

#include "passes/query.h"

/* ---- shared operands ---- */

static int is_reduced(const Kernel *k, RowBlockOperand o)
{
    for (uint32_t b = 0; b < x_at(k, o.sum)->nbound; b++)
        if (x_uses_index(k, o.load, x_bound(k, o.sum, b)))
            return 1;
    return 0;
}

/* A matrix whose elements serve all rows of all outer variables. */
static int is_shared(const RowBlockGroup *s, const Equation *q, const IndexId *key, RowBlockOperand o)
{
    const Kernel *k = s->f->k;
    int left = 0;
    for (uint32_t i = 0; i < s->nkeys; i++)
        if (x_uses_index(k, o.load, key[i]))
            return 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        left |=
            x_plain_index(k, q->index[i]) != NONE && x_uses_index(k, o.load, x_plain_index(k, q->index[i]));
    return left && is_reduced(k, o);
}

static int has_shared_operand(const RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Operands *all = &s->f->operands[at];
    for (uint32_t i = 0; i < all->list.len; i++)
        if (is_shared(s, &s->f->k->eqs.at[at], key, all->list.at[i]))
            return 1;
    return 0;
}

/* Rows of a block share the operand. */
static int serves_rows(const Kernel *k, IndexId row, RowBlockOperand o)
{
    return x_at(k, o.load)->nargs > 1 && !x_uses_index(k, o.load, row) && is_reduced(k, o);
}

int rowblock_shares(const RowBlockGroup *s)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->n; n++)
        for (uint32_t m = s->at[n], i = 0; s->member[m].part == PART_DIRECT && i < s->f->operands[m].list.len;
             i++)
            if (serves_rows(k, s->member[m].key[s->nkeys - 1], s->f->operands[m].list.at[i]))
                return 1;
    return 0;
}

/* ---- tensors that are looked at twice ---- */

/* Does equation `at`, which has all keys on its left, reduce over a column of t? */
static int reduces_columns(const RowBlockGroup *s, uint32_t at, TensorId t, const uint8_t *axes)
{
    const Kernel *k = s->f->k;
    const Equation *q = &k->eqs.at[at];
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        ExprId load = s->f->loads[at].at[n];
        for (uint32_t a = 0; x_at(k, load)->sym == t && a < x_at(k, load)->nargs; a++) {
            IndexId column = x_plain_index(k, x_arg(k, load, a));
            if (axes[a] == AXIS_FREE && column != NONE && query_on_left(k, q, column) < 0)
                return 1;
        }
    }
    return 0;
}

/* The keys that t's axes give to a reader: all plain. */
static int reader_keys(const RowBlockGroup *s, uint32_t at, TensorId t, const uint8_t *axes, IndexId *key)
{
    const Kernel *k = s->f->k;
    for (uint32_t i = 0; i < s->nkeys; i++)
        key[i] = NONE;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        ExprId load = s->f->loads[at].at[n];
        for (uint32_t a = 0; x_at(k, load)->sym == t && a < x_at(k, load)->nargs; a++) {
            IndexId i = x_plain_index(k, x_arg(k, load, a));
            if (axes[a] == AXIS_FREE)
                continue;
            if (i == NONE || (key[axes[a]] != NONE && key[axes[a]] != i))
                return 0;
            key[axes[a]] = i;
        }
    }
    return key[s->nkeys - 1] != NONE;
}

/* Some reader reduces over columns, and another one waits for it. */
static int is_read_twice(const RowBlockGroup *s, TensorId t, const uint8_t *axes, int members_only)
{
    IndexId key[MAX_RANK];
    const RowBlockPlaces *readers = &s->f->readers[t];
    for (uint32_t i = 0; i < readers->list.len; i++) {
        uint32_t first = readers->list.at[i];
        if (members_only && s->member[first].part != PART_DIRECT)
            continue;
        if (!s->f->allowed[first] || !reader_keys(s, first, t, axes, key) ||
            rowblock_part(s, first, key) != PART_DIRECT || !reduces_columns(s, first, t, axes))
            continue;
        for (uint32_t j = i + 1; j < readers->list.len; j++) {
            uint32_t then = readers->list.at[j];
            if (rowblock_waits(s->f, first, then) && (!members_only || s->member[then].part == PART_DIRECT))
                return 1;
        }
    }
    return 0;
}

/* A local with one definition that has all keys and a column. */
static int could_be_placed(const RowBlockGroup *s, TensorId t, const uint8_t *axes)
{
    const Tensor *x = &s->f->k->tensors.at[t];
    uint32_t keys = 0;
    for (uint32_t a = 0; a < x->rank; a++)
        keys += axes[a] != AXIS_FREE;
    return x->role == ROLE_LOCAL && !s->f->stored[t] && s->f->writers[t].list.len == 1 && keys == s->nkeys &&
           x->rank > keys;
}

/* Is every reader of t one that could be a member? */
static int readers_fit(const RowBlockGroup *s, TensorId t, const uint8_t *axes)
{
    const RowBlockPlaces *readers = &s->f->readers[t];
    IndexId key[MAX_RANK];
    for (uint32_t i = 0; i < readers->list.len; i++) {
        uint32_t r = readers->list.at[i];
        if (!s->f->allowed[r] || !reader_keys(s, r, t, axes, key) || rowblock_part(s, r, key) == PART_NONE)
            return 0;
    }
    return 1;
}

static int is_looked_at_twice(const RowBlockGroup *s, TensorId t, const uint8_t *axes)
{
    return could_be_placed(s, t, axes) && readers_fit(s, t, axes) && is_read_twice(s, t, axes, 0);
}

/* ---- placed tensors ---- */

/* top defines two tensors with one list of subscripts: its results are placed as they are or not at all. */
static int is_in_order(const RowBlockGroup *s, TensorId t)
{
    for (uint32_t i = 0; i < s->nkeys; i++)
        if (s->key_of[t][i] != i)
            return 0;
    return 1;
}

static int is_defined_whole(const RowBlockGroup *s, TensorId t)
{
    const Kernel *k = s->f->k;
    if (s->f->writers[t].list.len != 1)
        return 0;
    uint32_t writer = s->f->writers[t].list.at[0];
    const Equation *q = &k->eqs.at[writer];
    if (s->member[writer].part != PART_DIRECT || q->kind == EQ_ADD)
        return 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_plain_index(k, q->index[i]) == NONE)
            return 0;
    return q->kind != EQ_TOP || is_in_order(s, t);
}

int rowblock_is_placed(const RowBlockGroup *s, TensorId t)
{
    const Kernel *k = s->f->k;
    if (s->keyed[t] != PART_DIRECT || k->tensors.at[t].role != ROLE_LOCAL || s->f->stored[t] ||
        !is_defined_whole(s, t))
        return 0;
    for (uint32_t i = 0; i < s->f->readers[t].list.len; i++)
        if (!rowblock_has(s, s->f->readers[t].list.at[i]))
            return 0;
    return 1;
}

int rowblock_is_wide(const RowBlockGroup *s, TensorId t) { return s->f->k->tensors.at[t].rank > s->nkeys; }

static int is_placed_wide(const RowBlockGroup *s, TensorId t)
{
    return rowblock_is_placed(s, t) && rowblock_is_wide(s, t);
}

/* Does the equation write or read a placed tensor of rows and columns? */
static int serves_placed(const RowBlockGroup *s, uint32_t at)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++)
        if (is_placed_wide(s, x_at(k, s->f->loads[at].at[n])->sym))
            return 1;
    return is_placed_wide(s, k->eqs.at[at].lhs);
}

static int works_on_twice(const RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    const Kernel *k = s->f->k;
    uint8_t axes[MAX_RANK];
    rowblock_axes(s, at, key, axes);
    if (is_looked_at_twice(s, k->eqs.at[at].lhs, axes))
        return 1;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        TensorId t = x_at(k, s->f->loads[at].at[n])->sym;
        if (s->keyed[t] == PART_DIRECT && is_looked_at_twice(s, t, s->key_of[t]))
            return 1;
    }
    return 0;
}

static int is_key(const RowBlockGroup *s, const Member *m, IndexId i)
{
    for (uint32_t n = 0; n < s->nkeys; n++)
        if (m->key[n] == i)
            return 1;
    return 0;
}

/* ---- products of two matrices ---- */

/* Does one of n operands vary with i and not with j? */
static int varies_alone(const Kernel *k, const RowBlockOperand *first, uint32_t n, IndexId i, IndexId j)
{
    for (uint32_t o = 0; o < n; o++)
        if (x_uses_index(k, first[o].load, i) && !x_uses_index(k, first[o].load, j))
            return 1;
    return 0;
}

/* A sum of a member with its operands. */
typedef struct MemberSum {
    uint32_t at; /* the member */
    const RowBlockOperand *first;
    uint32_t n;
} MemberSum;

static int is_product_of(const RowBlockGroup *s, MemberSum p, IndexId i, IndexId j)
{
    const Kernel *k = s->f->k;
    return i != NONE && j != NONE && varies_alone(k, p.first, p.n, i, j) &&
           varies_alone(k, p.first, p.n, j, i);
}

/* Is it a product of two matrices, which vary with one left-hand index each? */
static int is_matrix_product(const RowBlockGroup *s, MemberSum p)
{
    const Kernel *k = s->f->k;
    const Equation *q = &k->eqs.at[p.at];
    for (uint32_t a = 0; a < q->nindex; a++)
        for (uint32_t b = 0; b < a; b++)
            if (is_product_of(s, p, x_plain_index(k, q->index[a]), x_plain_index(k, q->index[b])))
                return 1;
    return 0;
}

/* Is it one of a block of the group's rows and of columns? */
static int is_product_of_rows(const RowBlockGroup *s, MemberSum p)
{
    const Kernel *k = s->f->k;
    const Equation *q = &k->eqs.at[p.at];
    const Member *m = &s->member[p.at];
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId column = x_plain_index(k, q->index[a]);
        if (!is_key(s, m, column) && is_product_of(s, p, m->key[s->nkeys - 1], column))
            return 1;
    }
    return 0;
}

RowBlockProducts rowblock_products(const RowBlockGroup *s)
{
    RowBlockProducts found = {0, 0, 0};
    for (uint32_t n = 0; n < s->n; n++) {
        MemberSum p = {.at = s->at[n]};
        const Member *m = &s->member[p.at];
        const Operands *all = &s->f->operands[p.at];
        for (uint32_t i = 0; m->part == PART_DIRECT && i < all->list.len; i += p.n) {
            p.first = &all->list.at[i];
            for (p.n = 1; i + p.n < all->list.len && p.first[p.n].sum == p.first->sum;)
                p.n++;
            int kept = is_product_of_rows(s, p), spoilt = !kept && is_matrix_product(s, p);
            found.kept += (uint32_t)kept;
            found.spoilt += (uint32_t)spoilt;
            found.of_twice += (uint32_t)(spoilt && works_on_twice(s, p.at, m->key));
        }
    }
    return found;
}

/* ---- decisions ---- */

static int reads_wide(const RowBlockGroup *s, uint32_t at)
{
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        TensorId t = x_at(s->f->k, s->f->loads[at].at[n])->sym;
        if (s->keyed[t] == PART_DIRECT && could_be_placed(s, t, s->key_of[t]))
            return 1;
    }
    return 0;
}

int rowblock_wants(const RowBlockGroup *s, uint32_t at, const IndexId *key)
{
    IndexId row;
    if (rowblock_part(s, at, key) == PART_CARRIER)
        return reads_wide(s, at) || (rowblock_beside(s, at, &row) && row == key[0]);
    return !has_shared_operand(s, at, key) || works_on_twice(s, at, key);
}

uint32_t rowblock_useless(const RowBlockGroup *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t m = s->at[i];
        const Member *x = &s->member[m];
        IndexId row;
        if ((x->part == PART_CARRIER || has_shared_operand(s, m, x->key)) && !serves_placed(s, m) &&
            !(rowblock_beside(s, m, &row) && row == x->key[0]))
            return m;
    }
    return NONE;
}

/* Does a member read rows of t that another one has reduced already? The keys of t's axes come from the
 * loads. */
static int is_norm(const RowBlockGroup *s, uint32_t at)
{
    const Kernel *k = s->f->k;
    for (uint32_t n = 0; n < s->f->loads[at].n; n++) {
        ExprId load = s->f->loads[at].at[n];
        uint8_t axes[MAX_RANK];
        uint32_t keys = 0;
        for (uint32_t a = 0; a < x_at(k, load)->nargs && a < MAX_RANK; a++) {
            axes[a] = AXIS_FREE;
            for (uint32_t i = 0; i < s->nkeys; i++)
                if (x_plain_index(k, x_arg(k, load, a)) == s->member[at].key[i])
                    axes[a] = (uint8_t)i;
            keys += axes[a] != AXIS_FREE;
        }
        if (keys == s->nkeys && keys < x_at(k, load)->nargs && is_read_twice(s, x_at(k, load)->sym, axes, 1))
            return 1;
    }
    return 0;
}

/* Accesses to memory with rows and columns: those with columns side by side, and those with rows (or what an outer variable picks)
 * side by side and columns of the left-hand side, over which lanes go. */
typedef struct Accesses {
    uint32_t straight, turned;
} Accesses;

static void count_access(const RowBlockGroup *s, uint32_t member, TensorId t, const ExprId *at, uint32_t n,
                         Accesses *sum)
{
    const Kernel *k = s->f->k;
    const Member *m = &s->member[member];
    uint32_t rows = 0, columns = 0, lanes = 0;
    int last_is_key = 0;
    for (uint32_t a = 0; a < n; a++) {
        IndexId i = x_plain_index(k, at[a]);
        int is_column = i != NONE && !is_key(s, m, i);
        rows += i == m->key[s->nkeys - 1];
        columns += (uint32_t)is_column;
        lanes += is_column && query_on_left(k, &k->eqs.at[member], i) >= 0;
        last_is_key = is_key(s, m, i);
    }
    if (rows == 0 || columns == 0 || rowblock_is_placed(s, t))
        return;
    sum->turned += last_is_key && lanes > 0;
    sum->straight += (uint32_t)!last_is_key;
}

static int goes_turned(const RowBlockGroup *s)
{
    const Kernel *k = s->f->k;
    Accesses sum = {0, 0};
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t m = s->at[i];
        const Equation *q = &k->eqs.at[m];
        if (s->member[m].part == PART_DIRECT)
            count_access(s, m, q->lhs, q->index, q->nindex, &sum);
        for (uint32_t n = 0; n < s->f->loads[m].n; n++) {
            ExprId load = s->f->loads[m].at[n], subscript[MAX_RANK];
            for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
                subscript[a] = x_arg(k, load, a);
            count_access(s, m, x_at(k, load)->sym, subscript, x_at(k, load)->nargs, &sum);
        }
    }
    return sum.turned > 0 && sum.straight == 0;
}

int rowblock_pays(const RowBlockGroup *s)
{
    if ((goes_turned(s) && !rowblock_shares(s)) || s->products.spoilt > s->products.kept)
        return 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t m = s->at[i];
        if (s->n > 1 && s->member[m].part == PART_DIRECT && (serves_placed(s, m) || is_norm(s, m)))
            return 1;
    }
    return 0;
}
