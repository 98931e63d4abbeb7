/* The layers in reverse. d_stream is the gradient of the residual stream at the point reached so far: the
 * branches add to it, the residual connections leave it as it is. */
#include "trainer/trainer.h"

/* Shorthands of this file: a buffer of layer l, a weight of layer l, its gradient. */
#define BUF(name) b->name[l]
#define W(name) weight_bf16(t, WEIGHT_##name, l)
#define NORM(name) weight_f32(t, WEIGHT_##name, l)
#define D(name) weight_gradient(t, WEIGHT_##name, l)

static int head(Trainer *t, float share)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, head_bwd, ARG(x, b->last[0]),
                ARG(norm_weight, weight_f32(t, WEIGHT_final_norm, 0)), ARG(w, weight_bf16(t, WEIGHT_head, 0)),
                ARG(target, b->targets[0]), ARG(scale, b->scale3[0]), ARG(n, b->normed3[0]),
                ARG(e, b->weight[0]), ARG(z, b->total[0]), ARG(d_loss, &share), ARG(d_x, b->d_stream[0]),
                ARG(d_norm_weight, weight_gradient(t, WEIGHT_final_norm, 0)),
                ARG(d_w, weight_gradient(t, WEIGHT_head, 0)));
}

static int experts(Trainer *t, int64_t l, float share)
{
    const Buffers *b = &t->buffers;
    float d_balance = share * (float)t->config->balance;
    return CALL(t->kernels, experts_bwd, ARG(x, BUF(resid_mid)), ARG(n, BUF(normed2)), ARG(rt, BUF(route)),
                ARG(p, BUF(p)), ARG(wg, W(wg)), ARG(wu, W(wu)), ARG(wd, W(wd)), ARG(vg, W(vg)),
                ARG(vu, W(vu)), ARG(vd, W(vd)), ARG(g, BUF(gate)), ARG(u, BUF(up)), ARG(sg, BUF(shared_gate)),
                ARG(su, BUF(shared_up)), ARG(d_y, b->d_stream[0]), ARG(d_n, b->d_normed[0]),
                ARG(d_p, b->d_p[0]), ARG(d_wg, D(wg)), ARG(d_wu, D(wu)), ARG(d_wd, D(wd)), ARG(d_vg, D(vg)),
                ARG(d_vu, D(vu)), ARG(d_vd, D(vd))) ||
           CALL(t->kernels, router_bwd, ARG(x, BUF(resid_mid)), ARG(norm_weight, NORM(ffn_norm)),
                ARG(w, W(router)), ARG(scale, BUF(scale2)), ARG(n, BUF(normed2)), ARG(d_n, b->d_normed[0]),
                ARG(d_p, b->d_p[0]), ARG(d_balance, &d_balance), ARG(d_x, b->d_stream[0]),
                ARG(d_norm_weight, D(ffn_norm)), ARG(d_w, D(router)));
}

static int attention(Trainer *t, int64_t l)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, project_bwd, ARG(x, BUF(stream)), ARG(o, BUF(heads)), ARG(w, W(wo)),
                ARG(d_y, b->d_stream[0]), ARG(d_o, b->d_heads[0]), ARG(d_w, D(wo))) ||
           CALL(t->kernels, attention_bwd, ARG(q, BUF(q)), ARG(k, BUF(k)), ARG(v, BUF(v)),
                ARG(m, BUF(row_max)), ARG(z, BUF(row_sum)), ARG(r, BUF(attn_out_saved)),
                ARG(d_o, b->d_heads[0]), ARG(d_q, b->d_q[0]), ARG(d_k, b->d_k[0]), ARG(d_v, b->d_v[0]));
}

static int rope_bwd(Trainer *t, const uint16_t *x, const uint16_t *d_y, uint16_t *d_x)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, rotary_bwd, ARG(x, x), ARG(c, b->cosine[0]), ARG(s, b->sine[0]), ARG(d_y, d_y),
                ARG(d_x, d_x));
}

static int qkv(Trainer *t, int64_t l)
{
    const Buffers *b = &t->buffers;
    return rope_bwd(t, BUF(q), b->d_q[0], b->d_plain_q[0]) ||
           rope_bwd(t, BUF(k), b->d_k[0], b->d_plain_k[0]) ||
           CALL(t->kernels, qkv_bwd, ARG(x, BUF(stream)), ARG(norm_weight, NORM(attn_norm)), ARG(wq, W(wq)),
                ARG(wk, W(wk)), ARG(wv, W(wv)), ARG(scale, BUF(scale1)), ARG(n, BUF(normed1)),
                ARG(d_q, b->d_plain_q[0]), ARG(d_k, b->d_plain_k[0]), ARG(d_v, b->d_v[0]),
                ARG(d_x, b->d_stream[0]), ARG(d_norm_weight, D(attn_norm)), ARG(d_wq, D(wq)),
                ARG(d_wk, D(wk)), ARG(d_wv, D(wv)));
}

static int embed(Trainer *t)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, embed_bwd, ARG(id, b->ids[0]), ARG(w, weight_bf16(t, WEIGHT_embed, 0)),
                ARG(d_x, b->d_stream[0]), ARG(d_w, weight_gradient(t, WEIGHT_embed, 0)));
}

int backward(Trainer *t, float share)
{
    if (head(t, share))
        return 1;
    for (int64_t l = t->buffers.layers; l-- > 0;)
        if (experts(t, l, share) || attention(t, l) || qkv(t, l))
            return 1;
    return embed(t);
}
