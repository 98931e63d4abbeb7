/* Functions and types of other languages, and what there is instead of each. */
#include "frontend/advice.h"

#include <string.h>

static const struct {
    const char *name, *help;
} absent[] = {
    {"mean", "divide a sum by the extent, as in (sum(h) x[t, h]) / H"},
    {"avg", "divide a sum by the extent, as in (sum(h) x[t, h]) / H"},
    {"average", "divide a sum by the extent, as in (sum(h) x[t, h]) / H"},
    {"prod", "add logarithms, as in exp(sum(h) log(x[t, h]))"},
    {"product", "add logarithms, as in exp(sum(h) log(x[t, h]))"},
    {"argmax", "take the first of `top`, as in v[t, k: 1], i[t, k] = top(h) x[t, h]"},
    {"argmin", "take the first of `top` of what is negated, as in v[t, k: 1], i[t, k] = top(h) -x[t, h]"},
    {"softmax", "divide exponentials by their sum, as in m[t] = max(h) x[t, h], q[t, h] = exp(x[t, h] - "
                "shift(m[t])), c[t, h] = q[t, h] / (sum(j) q[t, j])"},
    {"logsumexp", "take the logarithm of a sum, as in m[t] = max(h) x[t, h], l[t] = log(sum(h) exp(x[t, h] - "
                  "shift(m[t]))) + shift(m[t])"},
    {"cumsum", "sum up to the index, as in sum(j where j <= i) x[j]"},
    {"scan", "sum up to the index, as in sum(j where j <= i) x[j]"},
    {"any", "compare a maximum, as in (max(h) if(x[t, h] > 0, 1, 0)) > 0"},
    {"all", "compare a minimum, as in (min(h) if(x[t, h] > 0, 1, 0)) > 0"},
};

const char *habit_absent(const char *function)
{
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (strcmp(absent[i].name, function) == 0)
            return absent[i].help;
    return NULL;
}

const char *habit_function(const char *name)
{
    static const char *const names[][2] = {
        {"fmax", "max2"}, {"fmin", "min2"},      {"maximum", "max2"},  {"minimum", "min2"},
        {"fabs", "abs"},  {"ln", "log"},         {"power", "pow"},     {"swish", "silu"},
        {"expf", "exp"},  {"logf", "log"},       {"sqrtf", "sqrt"},    {"logistic", "sigmoid"},
        {"mod", "imod"},  {"remainder", "imod"}, {"floordiv", "idiv"}, {"floor_divide", "idiv"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    return NULL;
}

const char *habit_value(const char *name)
{
    static const char infinity[] = "there is no word for it: leave terms out, as in max(j where j <= i) s[i, "
                                   "j], or take a number such as 1e30";
    static const char *const rows[][2] = {
        {"inf", infinity},
        {"Inf", infinity},
        {"infinity", infinity},
        {"INFINITY", infinity},
        {"nan", "there is no word for it: a choice takes a number, as in if(c, x[t], 0)"},
        {"NaN", "there is no word for it: a choice takes a number, as in if(c, x[t], 0)"},
        {"pi", "write the number: 3.141592653589793"},
        {"PI", "write the number: 3.141592653589793"},
        {"M_PI", "write the number: 3.141592653589793"},
        {"true", "write a condition, as in 1 > 0, or leave the choice out"},
        {"false", "write a condition, as in 1 < 0, or leave the choice out"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], name) == 0)
            return rows[i][1];
    return NULL;
}

const char *habit_type(const char *name)
{
    static const struct {
        const char *name, *type;
    } types[] = {
        {"float", "f32"},   {"float32", "f32"}, {"fp32", "f32"},      {"single", "f32"},  {"real", "f32"},
        {"double", "f32"},  {"f64", "f32"},     {"float64", "f32"},   {"fp64", "f32"},    {"half", "f16"},
        {"float16", "f16"}, {"fp16", "f16"},    {"bfloat16", "bf16"}, {"bfloat", "bf16"}, {"int", "i32"},
        {"int32", "i32"},   {"int32_t", "i32"}, {"integer", "i32"},   {"i64", "i32"},     {"int64", "i32"},
        {"long", "i32"},    {"u32", "i32"},     {"uint32", "i32"},    {"size_t", "i32"},  {"i8", "i32"},
        {"int8", "i32"},    {"u8", "i32"},      {"bool", "i32"},      {"fp8", "bf16"},    {"f8", "bf16"},
        {"e4m3", "bf16"},   {"e5m2", "bf16"},   {"f8e4m3", "bf16"},   {"f8e5m2", "bf16"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return NULL;
}
