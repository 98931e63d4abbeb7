#include "trainer/analysis.h"

#include <math.h>
#include <stdio.h>

void analysis_begin(Analysis *a, const ModelConfig *model)
{
    a->model = model;
    a->layers = arena_array(a->arena, int64_t, model->layers);
    for (int64_t l = 0; l < model->layers; l++)
        if (!model_is_dense(model, l))
            a->layers[a->nlayers++] = l;
    a->has_shared = model->shared_experts > 0;
    a->pairs = arena_array(a->arena, double, a->nlayers * model->experts * model->experts);
    for (uint32_t i = 0; i < a->domains.len; i++) {
        AnalysisDomain *d = &a->domains.at[i];
        d->counts = arena_array(a->arena, double, a->nlayers * model->experts);
        d->routed = arena_array(a->arena, double, a->nlayers);
        d->shared = arena_array(a->arena, double, a->nlayers);
    }
}

/* ---- counting ---- */

/* id: [K] */
static void add_choice(Analysis *a, AnalysisDomain *d, int64_t l, const int32_t *id)
{
    const int64_t E = a->model->experts, K = a->model->top_k;
    for (int64_t i = 0; i < K; i++) {
        d->counts[l * E + id[i]]++;
        for (int64_t j = 0; j < K; j++)
            a->pairs[(l * E + id[i]) * E + id[j]] += i != j;
    }
}

static double sum_of(const Session *s, const char *name, int64_t layer, int64_t tokens)
{
    const float *at = session_at(s, "%s.L%lld.m0", name, (long long)layer);
    double sum = 0;
    for (int64_t t = 0; t < tokens; t++)
        sum += (double)at[t];
    return sum;
}

void analysis_add(Analysis *a, AnalysisDomain *d, const Session *s, int64_t tokens)
{
    for (int64_t l = 0; l < a->nlayers; l++) {
        const int32_t *id = session_at(s, "chosen.L%lld.m0", (long long)a->layers[l]);
        for (int64_t t = 0; t < tokens; t++)
            add_choice(a, d, l, id + t * a->model->top_k);
        if (a->has_shared) {
            d->routed[l] += sum_of(s, "routed", a->layers[l], tokens);
            d->shared[l] += sum_of(s, "shared", a->layers[l], tokens);
        }
    }
    d->tokens += tokens;
    a->tokens += tokens;
}

/* ---- numbers ---- */

double analysis_share(const Analysis *a, const AnalysisDomain *d, int64_t l, int64_t e)
{
    const int64_t at = l * a->model->experts + e;
    if (d)
        return d->counts[at] / (double)d->tokens;
    double sum = 0;
    for (uint32_t i = 0; i < a->domains.len; i++)
        sum += a->domains.at[i].counts[at];
    return sum / (double)a->tokens;
}

double analysis_random_pair(const Analysis *a)
{
    const double E = (double)a->model->experts, K = (double)a->model->top_k;
    return E > 1 ? K * (K - 1) / (E * (E - 1)) : 0;
}

static void measure_load(const Analysis *a, int64_t l, LayerAnalysis *out)
{
    const int64_t E = a->model->experts;
    const double mean = (double)a->model->top_k / (double)E;
    double squares = 0, numbers = 0;
    for (int64_t e = 0; e < E; e++) {
        const double share = analysis_share(a, NULL, l, e);
        out->largest = fmax(out->largest, share / mean);
        squares += (share - mean) * (share - mean);
        numbers += share * (double)e;
    }
    out->variation = sqrt(squares / (double)E) / mean;
    out->front = E > 1 ? numbers / (double)a->model->top_k / (0.5 * (double)(E - 1)) - 1 : 0;
}

static double specialisation(const Analysis *a, int64_t l)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->domains.len; i++)
        for (int64_t e = 0; e < a->model->experts; e++)
            sum += fabs(analysis_share(a, &a->domains.at[i], l, e) - analysis_share(a, NULL, l, e));
    return 0.5 * sum / (double)a->model->top_k / (double)a->domains.len;
}

static void measure_pairs(const Analysis *a, int64_t l, LayerAnalysis *out)
{
    const int64_t E = a->model->experts;
    for (int64_t i = 0; i < E; i++)
        for (int64_t j = i + 1; j < E; j++) {
            const double p = a->pairs[(l * E + i) * E + j] / (double)a->tokens;
            if (p > out->together)
                out->together = p, out->first = i, out->second = j;
        }
}

LayerAnalysis analysis_layer(const Analysis *a, int64_t l)
{
    LayerAnalysis out = {.special = specialisation(a, l), .routed = (double)NAN};
    double routed = 0, shared = 0;
    measure_load(a, l, &out);
    measure_pairs(a, l, &out);
    for (uint32_t i = 0; i < a->domains.len; i++)
        routed += a->domains.at[i].routed[l], shared += a->domains.at[i].shared[l];
    if (a->has_shared)
        out.routed = routed / (routed + shared);
    return out;
}

/* ---- table ---- */

static void print_domains(const Analysis *a)
{
    printf("%-16s %10s  expert chosen most often in layer", "domain", "tokens");
    for (int64_t l = 0; l < a->nlayers; l++)
        printf(" %7lld", (long long)a->layers[l]);
    putchar('\n');
    for (uint32_t i = 0; i < a->domains.len; i++) {
        const AnalysisDomain *d = &a->domains.at[i];
        printf("%-16s %10lld  %33s", d->name, (long long)d->tokens, "number: share of tokens");
        for (int64_t l = 0; l < a->nlayers; l++) {
            int64_t most = 0;
            for (int64_t e = 1; e < a->model->experts; e++)
                most =
                    d->counts[l * a->model->experts + e] > d->counts[l * a->model->experts + most] ? e : most;
            printf(" %3lld:%.2f", (long long)most, analysis_share(a, d, l, most));
        }
        putchar('\n');
    }
}

void analysis_print(const Analysis *a)
{
    printf("%lld experts, top-%lld: an even choice has a share of %.4f, and two certain experts are together "
           "in %.4f\n\n",
           (long long)a->model->experts, (long long)a->model->top_k,
           (double)a->model->top_k / (double)a->model->experts, analysis_random_pair(a));
    printf("layer  max/mean  deviation  front bias  specialisation  most often together  routed part\n");
    for (int64_t l = 0; l < a->nlayers; l++) {
        const LayerAnalysis x = analysis_layer(a, l);
        printf("%5lld  %8.2f  %9.3f  %+10.3f  %14.3f  %6lld %3lld: %7.4f", (long long)a->layers[l], x.largest,
               x.variation, x.front, x.special, (long long)x.first, (long long)x.second, x.together);
        if (a->has_shared)
            printf("  %11.3f", x.routed);
        putchar('\n');
    }
    putchar('\n');
    print_domains(a);
}
