/* What versions 2 and 3 of oneDNN spell differently: layouts, and descriptions of primitives. */
#ifndef BENCH_ONEDNN_VERSION_H
#define BENCH_ONEDNN_VERSION_H

#include <dnnl.h>
#include <stdlib.h>

typedef dnnl_primitive_desc_t Pd;

/* An operation on operands x, w and y, as peer.h names them. */
typedef enum OnednnOp { OP_MATMUL, OP_FORWARD, OP_DATA, OP_WEIGHTS } OnednnOp;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t Md;
typedef const_dnnl_memory_desc_t ConstMd;
#define APPEND_SUM(ops) dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef)

/* Strides of 0: any layout. NULL: it failed. */
static inline Md md_new(int64_t rows, int64_t cols, dnnl_data_type_t type, int64_t row_stride,
                        int64_t col_stride)
{
    dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    Md md = NULL;
    if (row_stride)
        dnnl_memory_desc_create_with_strides(&md, 2, dims, type, strides);
    else
        dnnl_memory_desc_create_with_tag(&md, 2, dims, type, dnnl_format_tag_any);
    return md;
}

static inline void md_free(Md md) { dnnl_memory_desc_destroy(md); }

/* a, b -> c: source, weights -> destination; those of OP_DATA are destination, weights -> source, of OP_WEIGHTS source,
 * destination -> weights. `hint`: the forward of OP_DATA and OP_WEIGHTS. */
static inline Pd pd_new(OnednnOp op, dnnl_engine_t engine, ConstMd a, ConstMd b, ConstMd c, Pd hint,
                        dnnl_primitive_attr_t attr)
{
    Pd pd = NULL;
    switch (op) {
    case OP_MATMUL: dnnl_matmul_primitive_desc_create(&pd, engine, a, b, NULL, c, attr); break;
    case OP_FORWARD:
        dnnl_inner_product_forward_primitive_desc_create(&pd, engine, dnnl_forward_training, a, b, NULL, c,
                                                         attr);
        break;
    case OP_DATA:
        dnnl_inner_product_backward_data_primitive_desc_create(&pd, engine, c, b, a, hint, attr);
        break;
    case OP_WEIGHTS:
        dnnl_inner_product_backward_weights_primitive_desc_create(&pd, engine, a, c, NULL, b, hint, attr);
        break;
    }
    return pd;
}

#else

typedef dnnl_memory_desc_t *Md;
typedef const dnnl_memory_desc_t *ConstMd;
#define APPEND_SUM(ops) dnnl_post_ops_append_sum(ops, 1)

static inline Md md_new(int64_t rows, int64_t cols, dnnl_data_type_t type, int64_t row_stride,
                        int64_t col_stride)
{
    dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    Md md = malloc(sizeof *md);
    if (!md)
        abort();
    dnnl_status_t status = row_stride ? dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides)
                                      : dnnl_memory_desc_init_by_tag(md, 2, dims, type, dnnl_format_tag_any);
    if (status == dnnl_success)
        return md;
    free(md);
    return NULL;
}

static inline void md_free(Md md) { free(md); }

static inline Pd pd_new(OnednnOp op, dnnl_engine_t engine, ConstMd a, ConstMd b, ConstMd c, Pd hint,
                        dnnl_primitive_attr_t attr)
{
    union {
        dnnl_matmul_desc_t matmul;
        dnnl_inner_product_desc_t inner;
    } d;
    dnnl_status_t status = dnnl_invalid_arguments;
    switch (op) {
    case OP_MATMUL: status = dnnl_matmul_desc_init(&d.matmul, a, b, NULL, c); break;
    case OP_FORWARD:
        status = dnnl_inner_product_forward_desc_init(&d.inner, dnnl_forward_training, a, b, NULL, c);
        break;
    case OP_DATA: status = dnnl_inner_product_backward_data_desc_init(&d.inner, c, b, a); break;
    case OP_WEIGHTS: status = dnnl_inner_product_backward_weights_desc_init(&d.inner, a, c, NULL, b); break;
    }
    Pd pd = NULL;
    if (status == dnnl_success)
        dnnl_primitive_desc_create(&pd, &d, attr, engine, hint);
    return pd;
}

#endif
#endif
