/* An analysis as files: CSV and drawings. */
#include "trainer/analysis.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gnuplot.h"
#include "trainer/complain.h"

/* ---- CSV ---- */

static void write_shares(const Analysis *a, FILE *f)
{
    fprintf(f, "domain,layer,expert,share\n");
    for (uint32_t i = 0; i < a->domains.len; i++)
        for (int64_t l = 0; l < a->nlayers; l++)
            for (int64_t e = 0; e < a->model->experts; e++)
                fprintf(f, "%s,%lld,%lld,%.9g\n", a->domains.at[i].name, (long long)a->layers[l],
                        (long long)e, analysis_share(a, &a->domains.at[i], l, e));
}

static void write_pairs(const Analysis *a, FILE *f)
{
    const int64_t E = a->model->experts;
    fprintf(f, "layer,first,second,probability\n");
    for (int64_t l = 0; l < a->nlayers; l++)
        for (int64_t i = 0; i < E; i++)
            for (int64_t j = i + 1; j < E; j++)
                fprintf(f, "%lld,%lld,%lld,%.9g\n", (long long)a->layers[l], (long long)i, (long long)j,
                        a->pairs[(l * E + i) * E + j] / (double)a->tokens);
}

static void write_strengths(const Analysis *a, FILE *f)
{
    fprintf(f, "domain,layer,routed,shared\n");
    for (uint32_t i = 0; i < a->domains.len && a->has_shared; i++)
        for (int64_t l = 0; l < a->nlayers; l++) {
            const AnalysisDomain *d = &a->domains.at[i];
            fprintf(f, "%s,%lld,%.9g,%.9g\n", d->name, (long long)a->layers[l],
                    d->routed[l] / (double)d->tokens, d->shared[l] / (double)d->tokens);
        }
}

static void write_layers(const Analysis *a, FILE *f)
{
    fprintf(f, "layer,max_over_mean,deviation,front_bias,specialisation,first,second,together,routed_part\n");
    for (int64_t l = 0; l < a->nlayers; l++) {
        const LayerAnalysis x = analysis_layer(a, l);
        fprintf(f, "%lld,%.9g,%.9g,%.9g,%.9g,%lld,%lld,%.9g,", (long long)a->layers[l], x.largest,
                x.variation, x.front, x.special, (long long)x.first, (long long)x.second, x.together);
        fprintf(f, a->has_shared ? "%.9g\n" : "\n", x.routed);
    }
}

int analysis_write(const Analysis *a, const char *folder)
{
    static const struct {
        const char *name;
        void (*write)(const Analysis *, FILE *);
    } files[] = {{"shares.csv", write_shares},
                 {"pairs.csv", write_pairs},
                 {"strengths.csv", write_strengths},
                 {"layers.csv", write_layers}};
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return complain("--out %s: cannot be made: %s", folder, strerror(errno));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = arena_printf(a->arena, "%s/%s", folder, files[i].name);
        FILE *f = fopen(path, "w");
        if (f)
            files[i].write(a, f);
        if (!f || ferror(f) | fclose(f))
            return complain("%s: cannot be written: %s", path, strerror(errno));
    }
    return 0;
}

/* ---- drawings ---- */

static void write_map(const Analysis *a, FILE *f, int64_t l)
{
    fprintf(f, "$shares%lld << EOD\n", (long long)l);
    for (uint32_t i = 0; i < a->domains.len; i++) {
        for (int64_t e = 0; e < a->model->experts; e++)
            fprintf(f, "%.6g ", analysis_share(a, &a->domains.at[i], l, e));
        fputc('\n', f);
    }
    fprintf(f, "EOD\n$pairs%lld << EOD\n", (long long)l);
    for (int64_t i = 0; i < a->model->experts; i++) {
        for (int64_t j = 0; j < a->model->experts; j++)
            fprintf(f, "%.6g ",
                    a->pairs[(l * a->model->experts + i) * a->model->experts + j] / (double)a->tokens);
        fputc('\n', f);
    }
    fprintf(f, "EOD\n");
}

static void write_layer_rows(const Analysis *a, FILE *f)
{
    fprintf(f, "$layers << EOD\n");
    for (int64_t l = 0; l < a->nlayers; l++) {
        const LayerAnalysis x = analysis_layer(a, l);
        fprintf(f, "%lld %.6g %.6g %.6g ", (long long)a->layers[l], x.largest, x.special, x.front);
        fprintf(f, a->has_shared ? "%.6g\n" : "NaN\n", x.routed);
    }
    fprintf(f, "EOD\n");
}

static void draw_maps(const Analysis *a, FILE *f, int64_t l)
{
    fprintf(f, "set xlabel 'expert'\nset xtics auto\nset yrange [-0.5:%u.5] reverse\nset ytics (",
            a->domains.len - 1);
    for (uint32_t i = 0; i < a->domains.len; i++) {
        fputs(i ? ", " : "", f);
        gnuplot_quoted(f, a->domains.at[i].name);
        fprintf(f, " %u", i);
    }
    fprintf(f,
            ") noenhanced\nset title 'layer %lld: share of tokens (even: %.3f)'\nset cbrange [0:*]\n"
            "plot $shares%lld matrix with image notitle\n",
            (long long)a->layers[l], (double)a->model->top_k / (double)a->model->experts, (long long)l);
    fprintf(f,
            "set yrange [-0.5:%lld.5]\nset ytics auto\n"
            "set title 'layer %lld: chosen together (at random: %.4f)'\nplot $pairs%lld matrix with image "
            "notitle\n",
            (long long)a->model->experts - 1, (long long)a->layers[l], analysis_random_pair(a), (long long)l);
}

static void draw_layers(const Analysis *a, FILE *f)
{
    fprintf(f,
            "unset colorbox\nset xrange [*:*]\nset offsets 0.2, 0.2, 0, 0\nset xlabel 'layer'\nset xtics 1\n"
            "set grid\nset key below\n"
            "set title 'load and specialisation'\nset yrange [1:*] noreverse\nset ytics nomirror\n"
            "set y2range [0:*]\nset y2tics\n"
            "plot $layers using 1:2 with linespoints pt 7 title 'most loaded / mean', "
            "$layers using 1:3 axes x1y2 with linespoints pt 7 title 'specialisation (right)'\n"
            "unset y2tics\nset ytics mirror\nset yrange [*:*]\n");
    fprintf(
        f, "set title 'front bias%s'\nplot $layers using 1:4 with linespoints pt 7 title 'front bias'%s\n",
        a->has_shared ? ", part of the routed experts" : "",
        a->has_shared ? ", $layers using 1:5 with linespoints pt 7 title 'routed / (routed + shared)'" : "");
}

int analysis_draw(const Analysis *a, const char *folder, const char *ending)
{
    const int64_t shown[] = {0, a->nlayers / 2, a->nlayers - 1}; /* a shallow, a middle and a deep one */
    Gnuplot g;
    const char *error =
        gnuplot_begin(&g, a->arena, arena_printf(a->arena, "%s/experts.%s", folder, ending), 1100, 1400);
    if (error)
        return complain("%s", error);
    FILE *f = g.script;
    for (int i = 0; i < 3; i++)
        write_map(a, f, shown[i]);
    write_layer_rows(a, f);
    fprintf(f,
            "set palette defined (0 '#ffffff', 1 '#fdbb6d', 2 '#c0392b', 3 '#4a0d2a')\n"
            "set rmargin 10\nset multiplot layout 4,2\nset xrange [-0.5:%lld.5]\n",
            (long long)a->model->experts - 1);
    for (int i = 0; i < 3; i++)
        draw_maps(a, f, shown[i]);
    draw_layers(a, f);
    error = gnuplot_end(&g, a->arena);
    return error ? complain("%s", error) : 0;
}
