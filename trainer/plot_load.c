/* Maps of the experts' load over the steps, from the lines `load` of a log. */
#include "trainer/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/gnuplot.h"
#include "trainer/complain.h"

enum { COLUMNS = 400 /* of a map at most */, MAP_HEIGHT = 260, IMAGE_WIDTH = 600, IMAGE_HEIGHT = 180 };

typedef struct LoadRow {
    int64_t step;
    const float *loads; /* [layers, experts]: share of tokens over the mean share of the layer */
} LoadRow;

typedef struct LoadLog {
    Arena *arena;
    int64_t *layers, nlayers, experts; /* numbers of the layers */
    Vec(LoadRow) rows;                 /* by step */
    Vec(int64_t) shown;                /* indices of `layers` */
} LoadLog;

/* ---- the log ---- */

static void begin(LoadLog *l, const json_t *layers, const json_t *shares)
{
    l->nlayers = (int64_t)json_array_size(layers);
    l->experts = (int64_t)json_array_size(json_array_get(shares, 0));
    l->layers = arena_array(l->arena, int64_t, l->nlayers);
    for (int64_t i = 0; i < l->nlayers; i++)
        l->layers[i] = json_integer_value(json_array_get(layers, (size_t)i));
}

/* shares: [experts] */
static void read_loads(const LoadLog *l, const json_t *shares, float *loads)
{
    double sum = 0;
    for (int64_t e = 0; e < l->experts; e++)
        sum += json_number_value(json_array_get(shares, (size_t)e));
    for (int64_t e = 0; e < l->experts; e++)
        loads[e] = (float)(json_number_value(json_array_get(shares, (size_t)e)) * (double)l->experts / sum);
}

/* A run that goes on from an older checkpoint makes steps again: the last ones count. */
static void read_event(void *log, const json_t *event)
{
    LoadLog *l = log;
    const char *kind = json_string_value(json_object_get(event, "event"));
    const json_t *layers = json_object_get(event, "layers"), *shares = json_object_get(event, "shares");
    const int64_t step = json_integer_value(json_object_get(event, "step"));
    if (!kind || strcmp(kind, "load") || !json_array_size(shares) ||
        json_array_size(layers) != json_array_size(shares))
        return;
    if (!l->rows.len)
        begin(l, layers, shares);
    while (l->rows.len && l->rows.at[l->rows.len - 1].step >= step)
        l->rows.len--;
    float *loads = arena_array(l->arena, float, l->nlayers * l->experts);
    for (int64_t i = 0; i < l->nlayers; i++)
        read_loads(l, json_array_get(shares, (size_t)i), loads + i * l->experts);
    vec_push(l->arena, &l->rows, (LoadRow){step, loads});
}

/* ---- which layers ---- */

static int show_layer(LoadLog *l, int64_t number)
{
    for (int64_t i = 0; i < l->nlayers; i++)
        if (l->layers[i] == number) {
            vec_push(l->arena, &l->shown, i);
            return 0;
        }
    return 1;
}

static int show_all(LoadLog *l)
{
    for (int64_t i = 0; i < l->nlayers; i++)
        vec_push(l->arena, &l->shown, i);
    return 0;
}

/* A list of numbers with commas between them. Returns 1 when it is none, or a layer is not in the log. */
static int show_listed(LoadLog *l, const char *list)
{
    for (const char *at = list;; at++) {
        char *end;
        const long long number = strtoll(at, &end, 10);
        if (end == at || show_layer(l, number))
            return 1;
        at = end;
        if (*at != ',')
            return *at != 0;
    }
}

static int choose_layers(LoadLog *l, const char *list)
{
    if (!(strcmp(list, "all") ? show_listed(l, list) : show_all(l)))
        return 0;
    return complain("--load takes `all`, or layers with experts like 0,3, from %lld to %lld, not `%s`",
                    (long long)l->layers[0], (long long)l->layers[l->nlayers - 1], list);
}

/* ---- the script ---- */

/* Steps from the first row to the end of the last one, as rows of even distances have them. */
static double steps_shown(const LoadLog *l)
{
    const double first = (double)l->rows.at[0].step, last = (double)l->rows.at[l->rows.len - 1].step;
    return l->rows.len > 1 ? (last - first) * (double)l->rows.len / (double)(l->rows.len - 1) : 1;
}

static int64_t columns_of(const LoadLog *l) { return l->rows.len < COLUMNS ? l->rows.len : COLUMNS; }

/* Mean loads of expert e in the columns: out[columns]. A column without a row repeats the one before. */
static void fill_columns(const LoadLog *l, int64_t layer, int64_t e, double *out)
{
    const int64_t columns = columns_of(l);
    const double width = steps_shown(l) / (double)columns;
    uint32_t row = 0;
    for (int64_t c = 0; c < columns; c++) {
        const double end = (double)l->rows.at[0].step + ((double)c + 1 - 1e-6) * width;
        double sum = 0;
        const uint32_t first = row;
        for (; row < l->rows.len && (double)l->rows.at[row].step < end; row++)
            sum += (double)l->rows.at[row].loads[layer * l->experts + e];
        out[c] = row > first ? sum / (row - first) : out[c - 1];
    }
}

/* Points of the image that show a cell, because viewers blur an image that has fewer points than the screen. */
static int64_t points_of(int64_t cells, int64_t pixels) { return (pixels + cells - 1) / cells; }

static void write_map(const LoadLog *l, FILE *f, int64_t layer)
{
    double at[COLUMNS];
    fprintf(f, "$load%lld << EOD\n", (long long)l->layers[layer]);
    for (int64_t row = 0; row < l->experts * points_of(l->experts, IMAGE_HEIGHT); row++) {
        fill_columns(l, layer, row / points_of(l->experts, IMAGE_HEIGHT), at);
        for (int64_t c = 0; c < columns_of(l) * points_of(columns_of(l), IMAGE_WIDTH); c++)
            fprintf(f, "%.3g ", at[c / points_of(columns_of(l), IMAGE_WIDTH)]);
        fputc('\n', f);
    }
    fprintf(f, "EOD\n");
}

/* 1 is white, so that what is above and below shows; what is above 3 has its colour. */
static void draw_maps(const LoadLog *l, FILE *f)
{
    const double width = steps_shown(l) / (double)columns_of(l), /* of a column */
        begin = (double)l->rows.at[0].step - 0.5 * width,
                 dx = width / (double)points_of(columns_of(l), IMAGE_WIDTH),
                 dy = 1.0 / (double)points_of(l->experts, IMAGE_HEIGHT);
    fprintf(f,
            "set palette defined (0 '#2166ac', 1 '#ffffff', 2 '#ef8a62', 3 '#67001f')\nset cbrange [0:3]\n"
            "set cblabel 'load / mean'\nset ylabel 'expert'\nset xlabel 'step'\n"
            "set yrange [-0.5:%lld.5]\nset xrange [%.9g:%.9g]\n",
            (long long)l->experts - 1, begin, begin + steps_shown(l));
    for (uint32_t i = 0; i < l->shown.len; i++) {
        const long long number = (long long)l->layers[l->shown.at[i]];
        fprintf(f,
                "set title 'layer %lld'\nplot $load%lld matrix using (%.9g + %.9g * $1):(%.9g + %.9g * $2):3 "
                "with image notitle\n",
                number, number, begin + 0.5 * dx, dx, -0.5 + 0.5 * dy, dy);
    }
}

static int draw(const LoadLog *l, const char *log, const char *out)
{
    Gnuplot g;
    const char *error = gnuplot_begin(&g, l->arena, out, 900, 60 + MAP_HEIGHT * (int)l->shown.len);
    if (error)
        return complain("%s", error);
    FILE *f = g.script;
    for (uint32_t i = 0; i < l->shown.len; i++)
        write_map(l, f, l->shown.at[i]);
    fprintf(f, "set multiplot layout %u,1 title ", l->shown.len);
    gnuplot_quoted(f, log);
    fprintf(f, " noenhanced\n");
    draw_maps(l, f);
    error = gnuplot_end(&g, l->arena);
    if (error)
        return complain("%s", error);
    printf("%s: %u layers, %u rows of load\n", out, l->shown.len, l->rows.len);
    return 0;
}

int plot_load(Arena *a, const char *log, const char *layers, const char *out)
{
    LoadLog l = {.arena = a};
    if (plot_read(log, read_event, &l) < 0)
        return 1;
    if (!l.rows.len)
        return complain("%s: has no load of experts: it must be what --log of a run with --load-every wrote",
                        log);
    return choose_layers(&l, layers) || draw(&l, log, out);
}
