/* Extents: interned polynomials over dimensions. Terms are kept in one canonical order, so that equal
 * polynomials have equal ids. Coefficients saturate at INT64_MAX or INT64_MIN, which the verifier refuses. */
#include "ir/linear.h"

#include <string.h>

static int compare_dims(const Monomial *a, const Monomial *b)
{
    for (uint32_t i = 0; i < a->ndims && i < b->ndims; i++)
        if (a->dims[i] != b->dims[i])
            return a->dims[i] < b->dims[i] ? -1 : 1;
    /* products before their factors, the constant last: T*K + T + 1 */
    return a->ndims == b->ndims ? 0 : a->ndims > b->ndims ? -1 : 1;
}

static int64_t saturating_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t saturating_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : product;
}

static uint64_t form_hash(const Monomial *terms, uint32_t nterms)
{
    uint64_t h = nterms;
    for (uint32_t i = 0; i < nterms; i++)
        h = hash_bytes(terms[i].dims, sizeof *terms[i].dims * terms[i].ndims, h ^ (uint64_t)terms[i].coef);
    return h;
}

static int same_form(const ExtentForm *a, const Monomial *terms, uint32_t nterms)
{
    if (a->nterms != nterms)
        return 0;
    for (uint32_t i = 0; i < nterms; i++)
        if (a->terms[i].coef != terms[i].coef || compare_dims(&a->terms[i], &terms[i]) != 0)
            return 0;
    return 1;
}

static Extent intern(Module *m, const Monomial *terms, uint32_t nterms);

/* Constant dimensions put in. */
static Extent fold(Module *m, const Monomial *terms, uint32_t nterms)
{
    Extent sum = intern(m, NULL, 0);
    for (uint32_t i = 0; i < nterms; i++) {
        Monomial t = {.coef = terms[i].coef};
        DimId *left = arena_array(m->arena, DimId, terms[i].ndims + 1);
        for (uint32_t d = 0; d < terms[i].ndims; d++) {
            int64_t constant = m->dims.at[terms[i].dims[d]].constant;
            if (constant >= 0)
                t.coef = saturating_mul(t.coef, constant);
            else
                left[t.ndims++] = terms[i].dims[d];
        }
        t.dims = left;
        if (t.coef != 0)
            sum = ext_add(m, sum, intern(m, &t, 1));
    }
    return sum;
}

static int has_constant_dim(const Module *m, const Monomial *terms, uint32_t nterms)
{
    for (uint32_t i = 0; i < nterms; i++)
        for (uint32_t d = 0; d < terms[i].ndims; d++)
            if (m->dims.at[terms[i].dims[d]].constant >= 0)
                return 1;
    return 0;
}

/* The slot of an interned form, or the empty one where it would be. */
static uint32_t slot_of(const Module *m, const Monomial *terms, uint32_t nterms)
{
    uint32_t at = (uint32_t)form_hash(terms, nterms) & (m->extent_slots - 1);
    while (m->extent_table[at] && !same_form(&m->extents.at[m->extent_table[at] - 1], terms, nterms))
        at = (at + 1) & (m->extent_slots - 1);
    return at;
}

static void grow_table(Module *m)
{
    m->extent_slots = m->extent_slots ? m->extent_slots * 2 : 64;
    m->extent_table = arena_array(m->arena, uint32_t, m->extent_slots);
    for (Extent e = 0; e < m->extents.len; e++)
        m->extent_table[slot_of(m, m->extents.at[e].terms, m->extents.at[e].nterms)] = e + 1;
}

static Extent intern(Module *m, const Monomial *terms, uint32_t nterms)
{
    if (m->extents.len * 2 >= m->extent_slots)
        grow_table(m);
    uint32_t slot = slot_of(m, terms, nterms);
    if (m->extent_table[slot])
        return m->extent_table[slot] - 1;
    Monomial *copy = arena_array(m->arena, Monomial, nterms + 1);
    for (uint32_t i = 0; i < nterms; i++) {
        DimId *dims = arena_array(m->arena, DimId, terms[i].ndims + 1);
        if (terms[i].ndims)
            memcpy(dims, terms[i].dims, sizeof *dims * terms[i].ndims);
        copy[i] = (Monomial){terms[i].coef, terms[i].ndims, dims};
    }
    Extent e = m->extents.len;
    vec_push(m->arena, &m->extents, (ExtentForm){copy, nterms, e});
    m->extent_table[slot] = e + 1;
    if (has_constant_dim(m, copy, nterms)) {
        Extent folded = fold(m, copy, nterms);
        m->extents.at[e].folded = folded;
    }
    return e;
}

ExtentMark ext_mark(const Module *m)
{
    return (ExtentMark){.arena = arena_mark(m->arena),
                        .at = m->extents.at,
                        .len = m->extents.len,
                        .cap = m->extents.cap,
                        .table = m->extent_table,
                        .slots = m->extent_slots};
}

/* The youngest form leaves the table first, so that no search for an older one ends early. */
void ext_release(Module *m, ExtentMark mark)
{
    m->extent_table = mark.table;
    m->extent_slots = mark.slots;
    for (Extent e = m->extents.len; mark.table && e-- > mark.len;) {
        uint32_t slot = slot_of(m, m->extents.at[e].terms, m->extents.at[e].nterms);
        if (m->extent_table[slot] == e + 1)
            m->extent_table[slot] = 0;
    }
    m->extents.at = mark.at;
    m->extents.len = mark.len;
    m->extents.cap = mark.cap;
    arena_release(m->arena, mark.arena);
    arena_regain(mark.at, sizeof *mark.at * mark.cap);
}

Extent ext_const(Module *m, int64_t value)
{
    Monomial t = {.coef = value};
    return intern(m, &t, value != 0);
}

Extent ext_dim(Module *m, DimId dim)
{
    Monomial t = {1, 1, &dim};
    return intern(m, &t, 1);
}

enum { SHORT_FORM = 16 }; /* terms, or factors of one, that are put together on the stack: nearly all */

Extent ext_add(Module *m, Extent a, Extent b)
{
    ExtentForm x = m->extents.at[a], y = m->extents.at[b];
    Monomial few[SHORT_FORM];
    Monomial *sum =
        x.nterms + y.nterms <= SHORT_FORM ? few : arena_array(m->arena, Monomial, x.nterms + y.nterms);
    uint32_t n = 0, i = 0, j = 0;
    while (i < x.nterms || j < y.nterms) {
        int order = i == x.nterms ? 1 : j == y.nterms ? -1 : compare_dims(&x.terms[i], &y.terms[j]);
        Monomial t = order <= 0 ? x.terms[i++] : y.terms[j++];
        if (order == 0)
            t.coef = saturating_add(t.coef, y.terms[j++].coef);
        if (t.coef != 0)
            sum[n++] = t;
    }
    return intern(m, sum, n);
}

static Extent mul_terms(Module *m, const Monomial *a, const Monomial *b)
{
    DimId few[SHORT_FORM];
    DimId *dims = a->ndims + b->ndims <= SHORT_FORM ? few : arena_array(m->arena, DimId, a->ndims + b->ndims);
    uint32_t n = 0, i = 0, j = 0;
    while (i < a->ndims || j < b->ndims)
        dims[n++] = j == b->ndims || (i < a->ndims && a->dims[i] <= b->dims[j]) ? a->dims[i++] : b->dims[j++];
    Monomial t = {saturating_mul(a->coef, b->coef), n, dims};
    return intern(m, &t, t.coef != 0);
}

/* factor * e, factor not 0 */
static Extent scaled(Module *m, Extent e, int64_t factor)
{
    ExtentForm x = m->extents.at[e];
    Monomial few[SHORT_FORM];
    Monomial *terms = x.nterms <= SHORT_FORM ? few : arena_array(m->arena, Monomial, x.nterms);
    for (uint32_t i = 0; i < x.nterms; i++)
        terms[i] = (Monomial){saturating_mul(x.terms[i].coef, factor), x.terms[i].ndims, x.terms[i].dims};
    return intern(m, terms, x.nterms);
}

Extent ext_mul(Module *m, Extent a, Extent b)
{
    ExtentForm x = m->extents.at[a], y = m->extents.at[b];
    if (x.nterms == 1 && x.terms[0].ndims == 0)
        return scaled(m, b, x.terms[0].coef);
    if (y.nterms == 1 && y.terms[0].ndims == 0)
        return scaled(m, a, y.terms[0].coef);
    Extent sum = ext_const(m, 0);
    for (uint32_t i = 0; i < x.nterms; i++)
        for (uint32_t j = 0; j < y.nterms; j++)
            sum = ext_add(m, sum, mul_terms(m, &x.terms[i], &y.terms[j]));
    return sum;
}

Extent ext_sub(Module *m, Extent a, Extent b) { return ext_add(m, a, ext_mul(m, ext_const(m, -1), b)); }

int64_t ext_rest(const Module *m, Extent e, Extent by)
{
    const ExtentForm *form = &m->extents.at[e];
    int64_t number, constant = 0;
    if (form->nterms && form->terms[form->nterms - 1].ndims == 0)
        constant = form->terms[form->nterms - 1].coef;
    return ext_is_const(m, by, &number) ? (constant % number + number) % number : constant;
}

/* t / by, where the dimensions of by are among those of t; 0 where they are not. */
static int divide_term(Module *m, const Monomial *t, const Monomial *by, Monomial *out)
{
    DimId *left = arena_array(m->arena, DimId, t->ndims + 1);
    uint32_t n = 0, taken = 0;
    for (uint32_t d = 0; d < t->ndims; d++)
        if (taken < by->ndims && t->dims[d] == by->dims[taken])
            taken++;
        else
            left[n++] = t->dims[d];
    if (taken < by->ndims || (by->coef == -1 && t->coef == INT64_MIN) || t->coef % by->coef != 0)
        return 0;
    *out = (Monomial){t->coef / by->coef, n, left};
    return 1;
}

Extent ext_divide(Module *m, Extent e, Extent by)
{
    ExtentForm x = m->extents.at[m->extents.at[e].folded], y = m->extents.at[m->extents.at[by].folded];
    Extent sum = ext_const(m, 0);
    if (ext_same(m, e, by) && y.nterms)
        return ext_const(m, 1);
    if (y.nterms != 1)
        return NONE;
    for (uint32_t i = 0; i < x.nterms; i++) {
        Monomial t;
        if (!divide_term(m, &x.terms[i], &y.terms[0], &t))
            return NONE;
        sum = ext_add(m, sum, intern(m, &t, 1));
    }
    return sum;
}

int ext_same(const Module *m, Extent a, Extent b)
{
    return m->extents.at[a].folded == m->extents.at[b].folded;
}

int axis_same(const Module *m, Axis a, Axis b)
{
    return a.group == b.group && ext_same(m, a.extent, b.extent);
}

int ext_is_const(const Module *m, Extent e, int64_t *value)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    if (f->nterms > 1 || (f->nterms == 1 && f->terms[0].ndims > 0))
        return 0;
    *value = f->nterms ? f->terms[0].coef : 0;
    return 1;
}

int ext_is_below(const Module *m, Extent e, int64_t n)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    int64_t sum = 0;
    for (uint32_t i = 0; i < f->nterms; i++) {
        const Monomial *t = &f->terms[i];
        int64_t product = t->coef;
        if (t->coef < 0 && t->ndims)
            continue; /* of 0 and more */
        for (uint32_t d = 0; d < t->ndims; d++) {
            int64_t most = m->dims.at[t->dims[d]].max;
            if (most < 0 || __builtin_mul_overflow(product, most, &product))
                return 0;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return 0;
    }
    return sum < n;
}

int ext_eval(const Module *m, Extent e, const int64_t *dims, int64_t *value)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    int64_t sum = 0;
    for (uint32_t i = 0; i < f->nterms; i++) {
        int64_t product = f->terms[i].coef;
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            if (__builtin_mul_overflow(product, dims[f->terms[i].dims[d]], &product))
                return 0;
        if (__builtin_add_overflow(sum, product, &sum))
            return 0;
    }
    *value = sum;
    return 1;
}

void ext_print(const Module *m, Extent e, Text *out)
{
    const ExtentForm *f = &m->extents.at[e];
    if (f->nterms == 0)
        text_add(out, "0");
    for (uint32_t i = 0; i < f->nterms; i++) {
        const Monomial *t = &f->terms[i];
        int64_t coef = t->coef;
        if (i > 0)
            text_add(out, coef < 0 ? " - " : " + ");
        else if (coef < 0)
            text_add(out, "-");
        unsigned long long magnitude = coef < 0 ? 0ull - (unsigned long long)coef : (unsigned long long)coef;
        if (magnitude != 1 || t->ndims == 0)
            text_add(out, t->ndims ? "%llu*" : "%llu", magnitude);
        for (uint32_t d = 0; d < t->ndims; d++)
            text_add(out, d ? "*%s" : "%s", m->dims.at[t->dims[d]].name);
    }
}
