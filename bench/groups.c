/* Which shapes are measured in which ways. What is asked of each stands beside it: Note [Asked] in README.md. */
#include "bench/cases.h"

/* clang-format off */

static const BenchShape single[] = {
    {"1024",           1, 1024, 1, 1024, 1024, .quick = true},
    {"2048",           1, 2048, 1, 2048, 2048, .quick = false},
    {"4096x2048x7680", 1, 4096, 1, 7680, 2048, .quick = false},
    {0}};

static const BenchShape grouped[] = { /* tokens choose skewed, some experts get nothing */
    {"A",  8, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 1, .quick = true},
    {"B",  8, 8192, 2, 2048, 1408, .zipf = 1.2, .empty = 1},
    {"C", 64, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 8, .quick = true},
    {"D", 64, 2048, 8, 1024,  512, .zipf = 1.2, .empty = 8},
    {"E", 64, 2048, 2, 2048, 1408, .zipf = 1.2, .empty = 8},
    {"F", 64, 2048, 8, 2048, 1408, .zipf = 1.2, .empty = 8},
    {"G", 64, 8192, 8, 2048, 1408, .zipf = 1.2, .empty = 8},
    {0}};

static const Kind grouped_products[] = {
    {"fwd",        "weights row-major",                make_product, PRODUCT_FWD,                  .ratio = 1.1,  .mean = 1.4},
    {"fwd.packed", "weights packed before",            make_product, PRODUCT_FWD | PRODUCT_PACKED, .ratio = 1.1,  .mean = 1.4, .share = 0.75},
    {"dx",         "weights row-major",                make_product, PRODUCT_DX,                   .ratio = 1.1,  .mean = 1.4},
    {"dx.packed",  "weights packed before, both ways", make_product, PRODUCT_DX | PRODUCT_PACKED,  .ratio = 1.1,  .mean = 1.4, .share = 0.75},
    {"dw",         "added into f32",                   make_product, PRODUCT_DW,                   .ratio = 1.15, .mean = 1.5, .share = 0.75},
    {0}};

static const BenchShape single_f32[] = {
    {"1024", 1, 1024, 1, 1024, 1024, .quick = true},
    {"2048", 1, 2048, 1, 2048, 2048, .quick = false},
    {0}};

static const Kind single_products[] = {
    {"fwd",        "weights row-major",                make_product, PRODUCT_FWD,                  .ratio = 1.1},
    {"fwd.packed", "weights packed before",            make_product, PRODUCT_FWD | PRODUCT_PACKED, .ratio = 1.3,  .share = 0.75},
    {"dx",         "weights row-major",                make_product, PRODUCT_DX,                   .ratio = 1.1},
    {"dx.packed",  "weights packed before, both ways", make_product, PRODUCT_DX | PRODUCT_PACKED,  .ratio = 1.3,  .share = 0.75},
    {"dw",         "added into f32",                   make_product, PRODUCT_DW,                   .ratio = 1.5,  .share = 0.75},
    {0}};

static const Kind f32_products[] = {
    {"fwd",        "weights row-major",     make_product, PRODUCT_F32 | PRODUCT_FWD,                  .ratio = 0.95},
    {"fwd.packed", "weights packed before", make_product, PRODUCT_F32 | PRODUCT_FWD | PRODUCT_PACKED, .ratio = 0.95},
    {"dx",         "weights row-major",     make_product, PRODUCT_F32 | PRODUCT_DX,                   .ratio = 0.95},
    {"dw",         "added to",              make_product, PRODUCT_F32 | PRODUCT_DW,                   .ratio = 0.95},
    {0}};

static const BenchShape few[] = {
    {"4", 4, 2048, 2, 7680, 2048, .zipf = 1.2},
    {0}};

static const BenchShape routings[] = {
    {"A.uniform",  8, 2048, 2, 1024,  512, .quick = false},
    {"A.zipf",     8, 2048, 2, 1024,  512, .zipf = 1.2},
    {"A.empty",    8, 2048, 2, 1024,  512, .empty = 4},
    {"D.uniform", 64, 2048, 8, 1024,  512, .quick = false},
    {"D.zipf",    64, 2048, 8, 1024,  512, .zipf = 1.2},
    {"D.empty",   64, 2048, 8, 1024,  512, .empty = 32},
    {0}};

static const Kind routed[] = {
    {"fwd.packed", "weights packed before", make_product, PRODUCT_FWD | PRODUCT_PACKED, .ratio = 1.1},
    {"dw",         "added into f32",        make_product, PRODUCT_DW,                   .ratio = 1.15},
    {0}};

static const BenchShape blocks[] = {
    {"A",  8, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 1, .quick = true},
    {"C", 64, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 8},
    {"D", 64, 2048, 8, 1024,  512, .zipf = 1.2, .empty = 8},
    {"E", 64, 2048, 2, 2048, 1408, .zipf = 1.2, .empty = 8},
    {0}};

static const Kind block_kinds[] = {
    {"fwd",  "forward",                                         make_block, BLOCK_FORWARD, .ratio = 2.8, .mean = 3.5},
    {"step", "forward and backward, gradients added into f32", make_block, BLOCK_STEP,    .ratio = 2.8, .mean = 3.5},
    {0}};

static const BenchShape decodes[] = {
    {"1",  32, 0, 1, 2048, 1408, .each = 1, .quick = true},
    {"4",  32, 0, 1, 2048, 1408, .each = 4},
    {"16", 32, 0, 1, 2048, 1408, .each = 16},
    {"32", 32, 0, 1, 2048, 1408, .each = 32},
    {0}};

static const Kind decode_kinds[] = {
    {"fwd",        "weights row-major",          make_product, PRODUCT_FWD,                  .share = 0.8},
    {"fwd.packed", "weights packed before",      make_product, PRODUCT_FWD | PRODUCT_PACKED, .share = 0.8},
    {"dx",         "weights row-major",          make_product, PRODUCT_DX,                   .share = 0.8},
    {"dx.packed",  "weights packed before",      make_product, PRODUCT_DX | PRODUCT_PACKED,  .share = 0.8},
    {"block",      "the block, weights packed",  make_block,   BLOCK_FORWARD,                .share = 0.8},
    {0}};

static const BenchShape rows[] = {
    {"8192x2048", 8, 8192, 2, 2048, 1024, .zipf = 1.2, .quick = true}, /* AdamW: E x H x F */
    {0}};

static const Kind row_kinds[] = {
    {"permute",      "a row for each choice",              make_rows, ROWS_PERMUTE,      .share = 0.9},
    {"unpermute",    "weighted sum of a token's rows",     make_rows, ROWS_UNPERMUTE,    .ratio = 6},
    {"rmsnorm",      "",                                   make_rows, ROWS_RMSNORM,      .share = 0.9},
    {"rmsnorm.bwd",  "gradients of rows and gain",         make_rows, ROWS_RMSNORM_BWD,  .share = 0.9},
    {"rotary",       "",                                   make_rows, ROWS_ROTARY,       .share = 0.9},
    {"adamw",        "weights row-major",                  make_rows, ROWS_ADAMW,        .share = 0.9},
    {"adamw.packed", "weights packed both ways", make_rows, ROWS_ADAMW_PACKED, .share = 0.9},
    {0}};

static const BenchShape attentions[] = { /* positions, heads, their width, window */
    {"4096", 0, 4096, 8, 64, 256, .quick = false},
    {0}};

static const BenchShape short_attentions[] = {
    {"1024", 0, 1024, 8, 64, 256, .quick = true},
    {0}};

static const BenchShape wide_attentions[] = {
    {"2048.wide", 0, 2048, 8, 128, 256, .quick = false},
    {0},
};
static const Kind short_attention_kinds[] = {
    {"fwd",  "forward",              make_attention, ATTENTION_FORWARD, .ratio = 2},
    {"step", "forward and backward", make_attention, ATTENTION_STEP,    .ratio = 2},
    {0}};

static const Kind attention_kinds[] = {
    {"fwd",         "forward",                             make_attention, ATTENTION_FORWARD,                    .ratio = 2},
    {"step",        "forward and backward",                make_attention, ATTENTION_STEP,                       .ratio = 2},
    {"window.fwd",  "forward, the last 256 positions",     make_attention, ATTENTION_WINDOW | ATTENTION_FORWARD, .ratio = 4},
    {"window.step", "forward and backward, likewise",      make_attention, ATTENTION_WINDOW | ATTENTION_STEP,    .ratio = 4},
    {0}};

static const BenchShape tiny[] = {
    {"tiny", 2, 4, 2, 32, 32, .quick = true},
    {0}};

static const Kind launch_kinds[] = {
    {"rmsnorm",   "4 rows of 32",                       make_rows,      ROWS_RMSNORM,                 .alone = true, .seconds = 2e-6},
    {"adamw",     "2048 parameters",                    make_rows,      ROWS_ADAMW,                   .alone = true, .seconds = 2e-6},
    {"product",   "8 rows of 2 experts, 32 x 32",       make_product,   PRODUCT_FWD | PRODUCT_PACKED, .alone = true, .seconds = 2e-6},
    {"dw",        "likewise",                           make_product,   PRODUCT_DW,                   .alone = true, .seconds = 2e-6},
    {"block",     "likewise",                           make_block,     BLOCK_FORWARD,                .alone = true, .seconds = 2e-6},
    {"step",      "likewise, forward and backward",     make_block,     BLOCK_STEP,                   .alone = true},
    {"attention", "4 positions, 2 heads of 32, likewise", make_attention, ATTENTION_STEP,             .alone = true},
    {0}};

static const BenchShape isas[] = {
    {"1024", 1, 1024, 1, 1024, 1024, .quick = false},
    {0}};

static const Kind isa_kinds[] = {
    {"generic.f32",    "",             make_product, PRODUCT_F32 | PRODUCT_FWD, .isa = "generic",    .alone = true},
    {"avx2.f32",       "",             make_product, PRODUCT_F32 | PRODUCT_FWD, .isa = "avx2",       .alone = true, .share = 0.8},
    {"avx512.f32",     "",             make_product, PRODUCT_F32 | PRODUCT_FWD, .isa = "avx512",     .alone = true, .share = 0.85},
    {"generic.bf16",   "",             make_product, PRODUCT_FWD,               .isa = "generic",    .alone = true},
    {"avx2.bf16",      "",             make_product, PRODUCT_FWD,               .isa = "avx2",       .alone = true, .share = 0.8},
    {"avx512.bf16",    "",             make_product, PRODUCT_FWD,               .isa = "avx512",     .alone = true, .share = 0.85},
    {"avx512widen.bf16", "",           make_product, PRODUCT_FWD,               .isa = "avx512widen", .alone = true, .share = 0.75},
    {"avx512bf16.bf16", "",            make_product, PRODUCT_FWD,               .isa = "avx512bf16", .alone = true, .share = 0.75},
    {"amx.bf16",       "",             make_product, PRODUCT_FWD,               .isa = "amx",        .alone = true, .share = 0.75},
    {0}};

static const BenchShape threaded[] = {
    {"A",  8, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 1, .quick = true},
    {"C", 64, 2048, 2, 1024,  512, .zipf = 1.2, .empty = 8},
    {"D", 64, 2048, 8, 1024,  512, .zipf = 1.2, .empty = 8},
    {0}};

static const Kind thread_kinds[] = {
    {"fwd.packed", "weights packed before", make_product, PRODUCT_FWD | PRODUCT_PACKED, .gain = true, .share = 0.9},
    {"dx.packed",  "weights packed before", make_product, PRODUCT_DX | PRODUCT_PACKED,  .gain = true, .share = 0.9},
    {"dw",         "added into f32",        make_product, PRODUCT_DW,                   .gain = true, .share = 0.9},
    {"block",      "forward",               make_block,   BLOCK_FORWARD,                .gain = true, .share = 0.9},
    {"step",       "forward and backward",  make_block,   BLOCK_STEP,                   .gain = true, .share = 0.9},
    {0}};

static const Kind thread_row_kinds[] = {
    {"permute",   "a row for each choice",          make_rows, ROWS_PERMUTE,   .gain = true, .share = 0.9},
    {"unpermute", "weighted sum of a token's rows", make_rows, ROWS_UNPERMUTE, .gain = true, .share = 0.9},
    {"adamw",     "weights row-major",              make_rows, ROWS_ADAMW,     .gain = true, .share = 0.9},
    {0}};

const BenchGroup groups[] = {
    {"single",    "one product of bf16: tokens x F x H",                 single,     single_products},
    {"grouped",   "a product of each expert's rows, bf16",               grouped,    grouped_products},
    {"few",       "few wide experts",                                    few,        grouped_products},
    {"routing",   "other choices of experts",                            routings,   routed},
    {"block",     "the expert block",                                    blocks,     block_kinds},
    {"decode",    "few rows for each of 32 experts",                     decodes,    decode_kinds},
    {"rows",      "what moves memory",                                   rows,       row_kinds},
    {"attention", "4096 positions, 8 heads of 64, causal",               attentions, attention_kinds},
    {"attention", "1024 positions, likewise",                            short_attentions, short_attention_kinds},
    {"attention", "2048 positions, 8 heads of 128, causal",              wide_attentions, short_attention_kinds},
    {"f32",       "one product of f32",                                  single_f32,     f32_products},
    {"isa",       "one product by each instruction set",                 isas,       isa_kinds},
    {"launch",    "a call that computes next to nothing",                tiny,       launch_kinds},
    {"threads",   "two threads beside one",                              threaded,   thread_kinds},
    {"threads",   "two threads beside one, what moves memory",           rows,       thread_row_kinds},
    {0}};

/* clang-format on */
