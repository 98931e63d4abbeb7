/* The counts of a model as tables. */
#include "model/count.h"

/* Four digits and a unit: "717.9 B". */
static const char *with_unit(Arena *a, double value, const char *const units[], double step)
{
    int i = 0;
    for (; value >= 999.95 && units[i + 1]; i++)
        value /= step;
    int digits = i == 0 ? 0 : value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
    return arena_printf(a, "%.*f %s", digits, value, units[i]);
}

static const char *count_text(Arena *a, double value)
{
    static const char *const units[] = {"", "K", "M", "B", "T", NULL};
    return with_unit(a, value, units, 1000);
}

static const char *flops_text(Arena *a, double value)
{
    static const char *const units[] = {"F", "KF", "MF", "GF", "TF", "PF", NULL};
    return with_unit(a, value, units, 1000);
}

const char *model_bytes_text(Arena *a, double value)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};
    return with_unit(a, value, units, 1024);
}

static void print_parameters(Text *out, const char *title, int64_t total, int64_t active)
{
    if (total)
        text_add(out, "  %-38s %9s %9s\n", title, count_text(out->arena, (double)total),
                 count_text(out->arena, (double)active));
}

static void print_count(const ModelConfig *c, Text *out)
{
    ModelCount n = model_count(c);
    int64_t v = model_vocabulary(c), all = n.all.total, active = n.all.active, untied = c->tied ? 0 : v;
    text_add(out, "  %-38s %9s %9s\n", "parameters", "total", "active");
    for (int i = 0; i < MODULE_COUNT; i++)
        print_parameters(out, model_module_titles[i], n.module[i].total, n.module[i].active);
    print_parameters(out, "all", all, active);
    if (untied)
        print_parameters(out, "all, with one of embedding and head", all - v, active - v);
    print_parameters(out, "all, without embedding and head", all - v - untied, active - v - untied);
    print_parameters(out, "one dense layer", n.dense_layer.total, n.dense_layer.active);
    print_parameters(out, "one layer of experts", n.expert_layer.total, n.expert_layer.active);
    print_parameters(out, "multi-token prediction, beside all", n.all_mtp.total, n.all_mtp.active);
}

static void print_line(Text *out, const char *title, const char *value)
{
    text_add(out, "  %-38s %9s\n", title, value);
}

static void print_flops(const ModelConfig *c, int64_t positions, int causal, Text *out)
{
    Arena *a = out->arena;
    ModelFlops f = model_flops(c, positions, causal);
    text_add(out, "  operations of a token, %lld positions%s\n", (long long)positions,
             causal ? ", causal" : "");
    if (f.dense_layer > 0)
        print_line(out, "one dense layer", flops_text(a, f.dense_layer));
    if (f.expert_layer > 0)
        print_line(out, "one layer of experts", flops_text(a, f.expert_layer));
    print_line(out, "head", flops_text(a, f.head));
    if (c->mtp)
        print_line(out, "one module of multi-token prediction", flops_text(a, f.mtp));
    print_line(out, "forward", flops_text(a, f.forward));
    print_line(out, "forward and backward", flops_text(a, f.training));
}

static void print_bytes(const ModelConfig *c, int act_bytes, Text *out)
{
    Arena *a = out->arena;
    ModelBytes b = model_bytes(c, act_bytes);
    text_add(out, "  bytes, %s\n", act_bytes == 2 ? "bf16" : "f32");
    print_line(out, "masters", model_bytes_text(a, b.masters));
    print_line(out, "copies for kernels", model_bytes_text(a, b.copies));
    print_line(out, "gradients", model_bytes_text(a, b.gradients));
    print_line(out, "moments", model_bytes_text(a, b.moments));
    print_line(out, "activations of a token in training", model_bytes_text(a, b.activations));
    print_line(out, "cache of a position in decoding", model_bytes_text(a, b.cache));
}

void model_count_print(const ModelConfig *c, int64_t positions, Text *out)
{
    print_count(c, out);
    print_flops(c, positions, 1, out);
    print_flops(c, positions, 0, out);
    print_bytes(c, 2, out);
}
