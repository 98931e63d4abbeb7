/* What a trained model does with its experts, by layer and by domain of text. */
#ifndef TRAINER_ANALYSIS_H
#define TRAINER_ANALYSIS_H

#include "trainer/session.h"

typedef struct AnalysisDomain {
    const char *name, *path;
    int64_t tokens;
    double *counts;           /* [layers, experts]: how often each was chosen */
    double *routed, *shared;  /* [layers]: sums over the tokens of the norms of both parts of the experts' result */
} AnalysisDomain;

typedef struct Analysis {
    Arena *arena;
    const ModelConfig *model;
    Vec(AnalysisDomain) domains;
    int64_t *layers;          /* numbers of those with experts */
    int64_t nlayers, tokens;
    double *pairs;            /* [layers, experts, experts]: how often both were chosen by a token */
    int has_shared;
} Analysis;

void analysis_begin(Analysis *a, const ModelConfig *model); /* after the domains are named */
void analysis_add(Analysis *a, AnalysisDomain *d, const Session *s, int64_t tokens); /* a batch that has run */

/* ---- numbers of layer l (an index of a->layers) ---- */

double analysis_share(const Analysis *a, const AnalysisDomain *d, int64_t l, int64_t e); /* choices of e per token; d NULL: of all */
typedef struct LayerAnalysis {
    double largest;     /* load of the most loaded expert / mean load */
    double variation;   /* standard deviation of the loads / mean load */
    double front;       /* mean number of a chosen expert / that of an even choice - 1: below 0, low numbers are preferred */
    double special;     /* mean over the domains of half the sum of |share - share of all| / K: from 0, alike, to 1, apart */
    double together;    /* largest probability that two certain experts are chosen by one token, and which */
    int64_t first, second;
    double routed;      /* mean norm of the routed part / that of both; NAN: no experts are shared */
} LayerAnalysis;
LayerAnalysis analysis_layer(const Analysis *a, int64_t l);
double analysis_random_pair(const Analysis *a); /* of choices at random */

/* ---- output ---- */

void analysis_print(const Analysis *a);
/* shares.csv, pairs.csv, strengths.csv and layers.csv in a folder, which is made where there is none. Return 0, or 1 with a message
 * printed. */
int analysis_write(const Analysis *a, const char *folder);
int analysis_draw(const Analysis *a, const char *folder, const char *ending); /* experts.svg: maps and curves */

#endif
