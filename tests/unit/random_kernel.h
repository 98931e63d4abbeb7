/* Random kernels as .moe text: well typed, every access inside its tensor or guarded, every function inside
 * its domain. For tests that compare two ways to compute the same. */
#ifndef TESTS_UNIT_RANDOM_KERNEL_H
#define TESTS_UNIT_RANDOM_KERNEL_H

#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* What an index runs over. */
typedef enum Kind { KIND_T, KIND_K, KIND_E, KIND_H, KIND_V, KIND_S, KIND_R, KINDS } Kind;
static const char kind_dim[KINDS] = {'T', 'K', 'E', 'H', 'V', 'S', 'R'};

typedef struct Source { /* a tensor that expressions may read */
    char name[16];
    int rank;
    Kind axes[4];
} Source;

typedef struct Scope { /* index variables that are bound now */
    char name[24][16];
    Kind kind[24];
    int n;
} Scope;

typedef struct Generator {
    Random random;
    Text *out;
    Source sources[24];
    int nsources;
    int next_index; /* names of bound indices are numbered */
    int has_top;    /* e1[t, k] holds chosen experts */
} Generator;

static inline int pick(Generator *g, int n) { return (int)random_below(&g->random, n); }
static inline int chance(Generator *g, int percent) { return pick(g, 100) < percent; }

static inline void put_value(Generator *g, Scope *s, int depth);

/* An index variable of a kind that is in scope, or NULL. */
static inline const char *in_scope(Generator *g, const Scope *s, Kind kind)
{
    int start = s->n ? pick(g, s->n) : 0;
    for (int i = 0; i < s->n; i++)
        if (s->kind[(start + i) % s->n] == kind)
            return s->name[(start + i) % s->n];
    return NULL;
}

/* A subscript for an axis: a variable, a map of a variable, an element of a table; 0 when nothing in scope
 * fits. */
static inline int put_subscript(Generator *g, const Scope *s, Kind kind)
{
    const char *i = in_scope(g, s, kind), *r = in_scope(g, s, KIND_R), *t = in_scope(g, s, KIND_T),
               *k = in_scope(g, s, KIND_K);
    int mapped = chance(g, 40) || !i;
    if (mapped && kind == KIND_T && r)
        text_add(g->out, "rt.token(%s)", r);
    else if (mapped && kind == KIND_K && r)
        text_add(g->out, "rt.slot(%s)", r);
    else if (mapped && kind == KIND_E && r)
        text_add(g->out, "@%s", r);
    else if (mapped && kind == KIND_E && g->has_top && t && k)
        text_add(g->out, "e1[%s, %s]", t, k);
    else if (mapped && kind == KIND_R && t && k)
        text_add(g->out, "rt.row(%s, %s)", t, k);
    else if (mapped && kind == KIND_V && t)
        text_add(g->out, "id[%s]", t);
    else if (i)
        text_add(g->out, "%s", i);
    else
        return 0;
    return 1;
}

static inline int reachable(Generator *g, const Scope *s, Kind kind)
{
    int r = in_scope(g, s, KIND_R) != NULL, t = in_scope(g, s, KIND_T) != NULL,
        k = in_scope(g, s, KIND_K) != NULL;
    switch (kind) {
    case KIND_T:
    case KIND_K: return r || in_scope(g, s, kind) != NULL;
    case KIND_E: return r || (g->has_top && t && k) || in_scope(g, s, kind) != NULL;
    case KIND_R: return (t && k) || r;
    case KIND_V: return t || in_scope(g, s, kind) != NULL;
    case KIND_H:
    case KIND_S:
    case KINDS: break;
    }
    return in_scope(g, s, kind) != NULL;
}

static inline const char *bind(Generator *g, Scope *s, Kind kind)
{
    snprintf(s->name[s->n], sizeof s->name[0], "%c%d", kind_dim[kind] + ('a' - 'A'), g->next_index++);
    s->kind[s->n] = kind;
    return s->name[s->n++];
}

/* A load of `source`, inside reductions over the axes that nothing in scope can name. */
static inline void put_load(Generator *g, Scope *s, const Source *source)
{
    int before = s->n;
    Kind missing[4];
    int n = 0;
    for (int a = 0; a < source->rank; a++) {
        int known = reachable(g, s, source->axes[a]);
        for (int m = 0; m < n; m++)
            known |= missing[m] == source->axes[a];
        if (!known)
            missing[n++] = source->axes[a];
    }
    if (n && s->n + n <= 20) {
        static const char *const ops[] = {"sum", "sum", "sum", "max", "min"};
        const char *op = ops[pick(g, 5)];
        text_add(g->out, "(%s(", op);
        for (int m = 0; m < n; m++) {
            const char *i = bind(g, s, missing[m]);
            text_add(g->out, "%s%s: %c", m ? ", " : "", i, kind_dim[missing[m]]);
        }
        text_add(g->out, ") ");
    }
    text_add(g->out, "%s", source->name);
    for (int a = 0; a < source->rank; a++) {
        text_add(g->out, a ? ", " : "[");
        put_subscript(g, s, source->axes[a]);
    }
    text_add(g->out, source->rank ? "]" : "");
    if (n && s->n > before)
        text_add(g->out, ")");
    s->n = before;
}

/* c[s - 1] and the like, under the condition that keeps it inside. */
static inline void put_shifted(Generator *g, Scope *s)
{
    const char *i = in_scope(g, s, KIND_S);
    int before = s->n;
    if (i && chance(g, 50)) {
        text_add(g->out, chance(g, 50) ? "if(%s >= 1, c[%s - 1], 0.5)" : "if(%s + 2 < S, c[%s + 2], 0)", i,
                 i);
    } else if (i) {
        const char *j = bind(g, s, KIND_S);
        text_add(g->out, "(sum(%s: S where %s + %s < S) c[%s + %s] * c[%s])", j, i, j, i, j, j);
    } else {
        const char *j = bind(g, s, KIND_S);
        text_add(g->out, "(sum(%s: S where %s >= 1) c[%s] * c[%s - 1])", j, j, j, j);
    }
    s->n = before;
}

static inline void put_condition(Generator *g, Scope *s, int depth)
{
    const char *a = s->n ? s->name[pick(g, s->n)] : NULL, *b = s->n ? s->name[pick(g, s->n)] : NULL;
    int form = pick(g, 4);
    if (a && form == 0) {
        text_add(g->out, "%s %s %s", a, chance(g, 50) ? "<=" : "!=", b);
    } else if (a && form == 1) {
        text_add(g->out, "not (%s == 1 or %s > 2)", a, b);
    } else {
        put_value(g, s, depth - 1);
        text_add(g->out, form == 2 ? " > 0.1" : " < 0.3");
    }
}

static inline void put_reduction(Generator *g, Scope *s, int depth)
{
    static const char *const ops[] = {"sum", "sum", "sum", "max", "min"};
    int before = s->n;
    Kind kind = (Kind)pick(g, KINDS);
    if (s->n >= 20) {
        text_add(g->out, "0.25");
        return;
    }
    const char *op = ops[pick(g, 5)], *e = in_scope(g, s, KIND_E);
    if (kind == KIND_R && e && chance(g, 60)) {
        const char *r = bind(g, s, kind);
        text_add(g->out, "(sum(%s in %s) ", r, e);
    } else {
        const char *i = bind(g, s, kind);
        text_add(g->out, "(%s(%s: %c", strcmp(op, "sum") == 0 || kind != KIND_R ? op : "sum", i,
                 kind_dim[kind]);
        if (strcmp(op, "sum") == 0 && chance(g, 40)) {
            text_add(g->out, " where ");
            put_condition(g, s, depth);
        }
        text_add(g->out, ") ");
    }
    /* an empty max is infinite: squash it */
    text_add(g->out, "tanh(");
    put_value(g, s, depth - 1);
    text_add(g->out, ")");
    if (chance(g, 50)) {
        text_add(g->out, " * ");
        put_value(g, s, depth - 2);
    }
    text_add(g->out, ")");
    s->n = before;
}

static inline void put_function(Generator *g, Scope *s, int depth)
{
    static const struct {
        const char *open, *close;
    } forms[] = {
        {"tanh(", ")"},
        {"sigmoid(", ")"},
        {"silu(tanh(", "))"},
        {"gelu(tanh(", "))"},
        {"relu(", ")"},
        {"abs(", ")"},
        {"exp(tanh(", "))"},
        {"log(1.5 + tanh(", "))"},
        {"sqrt(1.5 + tanh(", "))"},
        {"rsqrt(1.5 + tanh(", "))"},
        {"bf16(", ")"},
        {"f16(tanh(", "))"},
        {"f32(", ")"},
        {"(stop(0.5) * ", ")"},
        {"floor(3 * tanh(", "))"},
        {"-(", ")"},
        {"pow(1.5 + tanh(", "), 1.5)"},
        {"swish(tanh(", "))"},
        {"leaky(", ")"},
    };
    int f = pick(g, (int)(sizeof forms / sizeof *forms));
    text_add(g->out, "%s", forms[f].open);
    put_value(g, s, depth - 1);
    text_add(g->out, "%s", forms[f].close);
}

static inline void put_binary(Generator *g, Scope *s, int depth)
{
    static const char *const forms[][3] = {
        {"(", " + ", ")"},
        {"(", " - ", ")"},
        {"(", " * ", ")"},
        {"(", " * ", ")"},
        {"(", " / (1.5 + tanh(", ")))"},
        {"max2(", ", ", ")"},
        {"min2(", ", ", ")"},
        {"pow(sigmoid(", ") + 0.5, tanh(", "))"},
    };
    int f = pick(g, 8);
    text_add(g->out, "%s", forms[f][0]);
    put_value(g, s, depth - 1);
    text_add(g->out, "%s", forms[f][1]);
    put_value(g, s, depth - 1);
    text_add(g->out, "%s", forms[f][2]);
}

static inline void put_value(Generator *g, Scope *s, int depth)
{
    int form = pick(g, 100);
    if (depth <= 0 || form < 25)
        put_load(g, s, &g->sources[pick(g, g->nsources)]);
    else if (form < 30)
        put_shifted(g, s);
    else if (form < 50)
        put_function(g, s, depth);
    else if (form < 75)
        put_binary(g, s, depth);
    else if (form < 83) {
        text_add(g->out, "if(");
        put_condition(g, s, depth);
        text_add(g->out, ", ");
        put_value(g, s, depth - 1);
        text_add(g->out, ", ");
        if (chance(g, 40))
            text_add(g->out, "0");
        else
            put_value(g, s, depth - 1);
        text_add(g->out, ")");
    } else if (form < 97) {
        put_reduction(g, s, depth);
    } else {
        text_add(g->out, "%d.%d", pick(g, 2), 1 + pick(g, 9));
    }
}

static inline void add_source(Generator *g, const char *name, const char *axes)
{
    Source *s = &g->sources[g->nsources++];
    *s = (Source){.rank = 0};
    snprintf(s->name, sizeof s->name, "%s", name);
    for (; *axes; axes++)
        for (int k = 0; k < KINDS; k++)
            if (kind_dim[k] == *axes)
                s->axes[s->rank++] = (Kind)k;
}

/* `NAME[i, j] = value`, over random axes unless given; the new tensor can be read afterwards. */
static inline void put_definition(Generator *g, const char *name, const char *axes, int is_local, int depth)
{
    char own[4] = "";
    if (!axes) {
        int rank = 1 + pick(g, 2);
        for (int a = 0; a < rank; a++) {
            do
                own[a] = kind_dim[pick(g, KINDS)];
            while (a && own[a] == own[0]);
            own[a + 1] = '\0';
        }
        axes = own;
    }
    Scope s = {.n = 0};
    add_source(g, name, axes);
    g->nsources--;
    text_add(g->out, "  %s[", name);
    for (int a = 0; axes[a]; a++) {
        const char *i = bind(g, &s, g->sources[g->nsources].axes[a]);
        text_add(g->out, is_local ? "%s%s: %c" : "%s%s", a ? ", " : "", i, axes[a]);
    }
    text_add(g->out, "] = f32(");
    put_value(g, &s, depth);
    text_add(g->out, ")\n");
    g->nsources++;
}

/* A file with one kernel `f` and a request to derive it by all float inputs. */
static inline const char *random_kernel(Arena *arena, uint64_t seed)
{
    Text out = {.arena = arena};
    Generator g = {.random = random_new(seed), .out = &out};
    static const char *const types[] = {"f32", "bf16", "f16"};
    const char *tx = types[pick(&g, 3)], *tw = types[pick(&g, 3)];
    text_add(&out, "moe 1\ndim T\ndim K <= 64\ndim E, H, V, S, P\ngroup R : E %s\n",
             chance(&g, 50) ? "rows T*K" : "capacity P");
    text_add(&out, "fn swish(x) = x / (1 + exp(-x))\nfn leaky(x) = if(x > 0, x, 0.1 * x)\n");
    int own_route = chance(&g, 40);
    text_add(&out,
             "kernel f(in a: %s[T, H], in w: %s[E, H], in b: %s[V, H], in c: f32[S], in d: f32[T, K],\n", tx,
             tw, types[pick(&g, 3)]);
    text_add(&out,
             "         in q: f32[T, E], in id: i32[T], %sout y: f32[T, H], out z: f32[%s], out l: f32) {\n",
             own_route ? "" : "in rt: route[T, K -> R], ", chance(&g, 50) ? "S" : "E, H");
    int z_is_s = strstr(out.at, "out z: f32[S]") != NULL;
    add_source(&g, "a", "TH");
    add_source(&g, "w", "EH");
    add_source(&g, "b", "VH");
    add_source(&g, "c", "S");
    add_source(&g, "d", "TK");
    add_source(&g, "q", "TE");
    if (own_route || chance(&g, 40)) {
        text_add(&out, "  p1[t, k: K], e1[t, k] = top(e) q[t, e] * %s\n",
                 chance(&g, 50) ? "q[t, e]" : "exp(q[t, e])");
        add_source(&g, "p1", "TK");
        g.has_top = 1;
    }
    if (own_route)
        text_add(&out, "  rt = route(e1 -> R)\n");
    int locals = 2 + pick(&g, 3);
    char name[16];
    for (int i = 0; i < locals; i++) {
        snprintf(name, sizeof name, "m%d", i);
        put_definition(&g, name, NULL, 1, 3);
    }
    if (!own_route || chance(&g, 50)) {
        put_definition(&g, "xr", "RH", 1, 2);
        put_definition(&g, "o", "RH", 1, 3);
    }
    put_definition(&g, "y", "TH", 0, 3);
    put_definition(&g, "z", z_is_s ? "S" : "EH", 0, 3);
    /* every target and local reaches an output, smoothly */
    text_add(
        &out,
        "  l = (sum(t, h) a[t, h] * a[t, h]) + (sum(e, h) w[e, h] * a[0, h]) + (sum(v, h) b[v, h]) * 0.5\n"
        "    + (sum(s) c[s] * c[s]) + (sum(t, k) d[t, k]) + sum(t, e) q[t, e] * w[e, 0]\n");
    for (int i = 6; i < g.nsources; i++) {
        Scope s = {.n = 0};
        text_add(&out, "    + 0.5 * ");
        put_load(&g, &s, &g.sources[i]);
        text_add(&out, "\n");
    }
    text_add(&out, "}\nderive (f_fwd, f_bwd) from f wrt a, w +=, b, c +=, d, q\n");
    for (int i = 0, saved = 0; i < locals; i++)
        if (chance(&g, 30))
            text_add(&out, "%sm%d as %s", saved++ ? ", " : "  save ", i, types[pick(&g, 2)]);
    text_add(&out, "\n");
    return text_string(&out);
}

#endif
