/* Which shapes are measured in which ways. */
#include "bench/cases.h"

/* clang-format off */

static const Shape single[] = {
    /*  name              E     T  K     H     F */
    {"1024",              1, 1024, 1, 1024, 1024, .quick = true},
    {"2048",              1, 2048, 1, 2048, 2048, .quick = false},
    {"4096x2048x7680",    1, 4096, 1, 7680, 2048, .quick = false},
    {0}};

static const Shape grouped[] = {
    {"A",  8, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 1, .quick = true},
    {"B",  8, 8192, 2, 2048, 1408, .zipf = 1.2, .empty = 1},
    {"C", 64, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 8, .quick = true},
    {"D", 64, 2048, 8, 1024,  512, .zipf = 1.2, .empty = 8},
    {"E", 64, 2048, 2, 2048, 1408, .zipf = 1.2, .empty = 8},
    {"F", 64, 2048, 8, 2048, 1408, .zipf = 1.2, .empty = 8},
    {"G", 64, 8192, 8, 2048, 1408, .zipf = 1.2, .empty = 8},
    {0}};

static const Kind bf16_products[] = {
    {"fwd",        "weights row-major",                    make_product, PRODUCT_FWD,                  1.1,  1.4, 0},
    {"fwd.packed", "weights packed before",                make_product, PRODUCT_FWD | PRODUCT_PACKED, 1.1,  1.4, 0},
    {"dx",         "weights row-major",                    make_product, PRODUCT_DX,                   1.1,  1.4, 0},
    {"dx.packed",  "transposed weights packed before",     make_product, PRODUCT_DX | PRODUCT_PACKED,  1.1,  1.4, 0},
    {"dw",         "added into f32",                       make_product, PRODUCT_DW,                   1.15, 1.5, 0},
    {0}};

static const Kind f32_products[] = {
    {"fwd",        "weights row-major",                    make_product, PRODUCT_F32 | PRODUCT_FWD,                  0.95, 0, 0},
    {"fwd.packed", "weights packed before",                make_product, PRODUCT_F32 | PRODUCT_FWD | PRODUCT_PACKED, 0.95, 0, 0},
    {"dx",         "weights row-major",                    make_product, PRODUCT_F32 | PRODUCT_DX,                   0.95, 0, 0},
    {"dw",         "added into f32",                       make_product, PRODUCT_F32 | PRODUCT_DW,                   0.95, 0, 0},
    {0}};

/* clang-format on */

static const Group product = {"single", "one product: tokens x F x H, bf16", single, bf16_products};
static const Group groups_bf16 = {"grouped", "a product of each expert's rows, bf16, skewed routing", grouped,
                                  bf16_products};
static const Group product_f32 = {"f32", "one product, f32", single, f32_products};

const Group *const groups[] = {&product, &groups_bf16, &product_f32, NULL};
