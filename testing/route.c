/* Random routes by the routings of a `test` block. */
#include "testing/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Multiplies the weight of each expert by what one routing says about it. */
static void apply_routing(TestCase *c, const TestRouting *routing, int64_t groups, double *weight)
{
    for (int64_t e = 0; e < groups; e++)
        switch (routing->kind) {
        case ROUTING_UNIFORM:
        case ROUTING_EXACT: break;
        case ROUTING_ZIPF: weight[e] *= pow((double)(e + 1), -routing->value); break;
        case ROUTING_HOT: weight[e] *= (double)e < routing->value; break;
        case ROUTING_EMPTY: weight[e] *= random_unit(&c->random) * 100 >= routing->value; break;
        }
}

/* Popularity belongs to a random expert, not to the first. */
static void shuffle(TestCase *c, double *list, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = random_below(&c->random, i + 1);
        double kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

/* Weights of experts in a tree of sums: node i has the sum of 2 i and 2 i + 1, and the experts begin at `first`. */
typedef struct WeightTree {
    double *sum;
    int64_t first;
} WeightTree;

static WeightTree weight_tree(Arena *a, const double *weight, int64_t groups)
{
    WeightTree t = {.first = 1};
    while (t.first < groups)
        t.first *= 2;
    t.sum = arena_array(a, double, 2 * t.first);
    memcpy(t.sum + t.first, weight, sizeof *weight * (size_t)groups);
    for (int64_t i = t.first - 1; i > 0; i--)
        t.sum[i] = t.sum[2 * i] + t.sum[2 * i + 1];
    return t;
}

static void set_weight(WeightTree *t, int64_t e, double weight)
{
    t->sum[t->first + e] = weight;
    for (int64_t i = (t->first + e) / 2; i > 0; i /= 2)
        t->sum[i] = t->sum[2 * i] + t->sum[2 * i + 1];
}

/* -1: none has a weight. Rounding never ends at an expert without one. */
static int64_t draw(TestCase *c, const WeightTree *t)
{
    double at = random_unit(&c->random) * t->sum[1];
    int64_t i = 1;
    while (i < t->first) {
        const double before = t->sum[2 * i];
        const int is_behind = before <= 0 || (at >= before && t->sum[2 * i + 1] > 0);
        at -= is_behind ? before : 0;
        i = 2 * i + is_behind;
    }
    return t->sum[1] > 0 ? i - t->first : -1;
}

/* A token's choices differ as long as there are experts left. */
static void draw_token(TestCase *c, WeightTree *left, const WeightTree *all, int64_t choices, double *out)
{
    for (int64_t k = 0; k < choices; k++) {
        int64_t e = draw(c, left);
        if (e < 0)
            e = draw(c, all);
        else
            set_weight(left, e, 0);
        out[k] = (double)e;
    }
    for (int64_t k = 0; k < choices && out[k] >= 0; k++)
        set_weight(left, (int64_t)out[k], all->sum[all->first + (int64_t)out[k]]);
}

/* exact(n0, n1, ...): that many choices of each expert, at random places, the rest dropped. */
static void deal(TestCase *c, const TestRouting *exact, int64_t groups, int64_t slots, double *out)
{
    int64_t used = 0;
    for (uint32_t e = 0; e < exact->counts.len && e < groups; e++)
        for (int64_t n = exact->counts.at[e]; n > 0 && used < slots; n--)
            out[used++] = e;
    while (used < slots)
        out[used++] = -1;
    shuffle(c, out, slots);
}

void test_choices(TestCase *c, int64_t tokens, int64_t choices, int64_t groups, double *out)
{
    double *weight = arena_array(c->arena, double, groups + 1);
    const TestRouting *exact = NULL;
    for (int64_t e = 0; e < groups; e++)
        weight[e] = 1;
    for (uint32_t i = 0; c->run && i < c->run->routings.len; i++) {
        apply_routing(c, &c->run->routings.at[i], groups, weight);
        if (c->run->routings.at[i].kind == ROUTING_EXACT)
            exact = &c->run->routings.at[i];
    }
    shuffle(c, weight, groups);
    if (exact) {
        deal(c, exact, groups, tokens * choices, out);
        return;
    }
    const WeightTree all = weight_tree(c->arena, weight, groups);
    WeightTree left = weight_tree(c->arena, weight, groups);
    for (int64_t t = 0; t < tokens; t++)
        draw_token(c, &left, &all, choices, out + t * choices);
}

EvalRoute test_route_room(TestCase *c, const Route *r)
{
    const Group *g = &c->k->module->groups.at[r->group];
    EvalRoute out = {.tokens = test_extent_value(c, r->tokens),
                     .choices = test_extent_value(c, r->choices),
                     .groups = test_extent_value(c, g->groups),
                     .rows = test_extent_value(c, g->rows)};
    int64_t slots;
    if (out.tokens < 0 || out.choices < 0 || out.groups < 0 || out.rows < 0 ||
        __builtin_mul_overflow(out.tokens, out.choices, &slots) || slots > 1 << 24 || out.rows > 1 << 24 ||
        out.groups > 1 << 24) {
        out.rows = -1;
        return out;
    }
    out.start = arena_array(c->arena, int64_t, out.groups + 1);
    out.count = arena_array(c->arena, int64_t, out.groups + 1);
    out.slot_of = arena_array(c->arena, int32_t, out.rows + 1);
    out.row_of = arena_array(c->arena, int32_t, slots + 1);
    return out;
}

EvalRoute test_route(TestCase *c, const Route *r)
{
    const Group *g = &c->k->module->groups.at[r->group];
    EvalRoute out = test_route_room(c, r);
    if (out.rows < 0)
        return out;
    int64_t slots = out.tokens * out.choices, kept = 0;
    double *choices = arena_array(c->arena, double, slots + 1);
    int32_t *ids = arena_array(c->arena, int32_t, slots + 1);
    test_choices(c, out.tokens, out.choices, out.groups, choices);
    for (int64_t i = 0; i < slots; i++) {
        int keep = choices[i] >= 0 && (g->kind == GROUP_CAPACITY || kept < out.rows);
        ids[i] = keep ? (int32_t)choices[i] : -1;
        kept += keep;
    }
    ir_make_route(ids, g->kind == GROUP_CAPACITY ? test_extent_value(c, g->size) : -1, &out);
    return out;
}

/* ---- text ---- */

static const char *const routing_words[] = {[ROUTING_UNIFORM] = "uniform",
                                            [ROUTING_ZIPF] = "zipf",
                                            [ROUTING_HOT] = "hot",
                                            [ROUTING_EMPTY] = "empty",
                                            [ROUTING_EXACT] = "exact"};

const char *test_routing_text(const TestRun *run, Arena *a)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; run && i < run->routings.len; i++) {
        const TestRouting *r = &run->routings.at[i];
        text_add(&t, i ? ", %s" : "%s", routing_words[r->kind]);
        if (r->kind == ROUTING_EXACT)
            for (uint32_t n = 0; n < r->counts.len; n++)
                text_add(&t, n ? ", %lld" : "(%lld", (long long)r->counts.at[n]);
        else if (r->kind != ROUTING_UNIFORM)
            text_add(&t, r->kind == ROUTING_EMPTY ? "(%g%%" : "(%g", r->value);
        text_add(&t, r->kind == ROUTING_UNIFORM ? "" : ")");
    }
    return text_string(&t);
}
