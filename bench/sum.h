/* References: sums in f64, and how far a result may be from them. */
#ifndef BENCH_SUM_H
#define BENCH_SUM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Of n terms; `terms` of their magnitudes, `squares` of their squares. */
typedef struct BenchSum {
    double value, terms, squares;
    int64_t n;
} BenchSum;

static inline void sum_add(BenchSum *s, double term)
{
    s->value += term;
    s->terms += fabs(term);
    s->squares += term * term;
    s->n++;
}

/* The language's contract for a sum of exact terms (docs/language.md, section 5), and a rounding to bf16. */
static inline bool sum_holds(const BenchSum *s, double got, bool rounded)
{
    double allowed = (double)(s->n + 2) * 0x1p-24 * s->terms + (rounded ? 0x1p-8 * fabs(s->value) : 0);
    return fabs(got - s->value) <= allowed;
}

/* The same where terms are made of values that were rounded to bf16 a few times: their errors add up like noise. */
static inline bool sum_close(const BenchSum *s, double got)
{
    return fabs(got - s->value) <= 0.03 * sqrt(s->squares) + 0x1p-7 * fabs(s->value) + 1e-6;
}

#endif
