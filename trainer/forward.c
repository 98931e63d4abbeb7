#include "trainer/trainer.h"

/* Shorthands of this file: a buffer of layer l, a weight of layer l. */
#define BUF(name) b->name[l]
#define W(name) weight_bf16(t, WEIGHT_##name, l)
#define NORM(name) weight_f32(t, WEIGHT_##name, l)

static int embed(Trainer *t)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, embed_fwd, ARG(id, b->ids[0]), ARG(w, weight_bf16(t, WEIGHT_embed, 0)),
                ARG(x, b->stream[0]));
}

static int rope_fwd(Trainer *t, const uint16_t *x, uint16_t *y)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, rotary_fwd, ARG(x, x), ARG(c, b->cosine[0]), ARG(s, b->sine[0]), ARG(y, y));
}

static int qkv(Trainer *t, int64_t l)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, qkv_fwd, ARG(x, BUF(stream)), ARG(norm_weight, NORM(attn_norm)), ARG(wq, W(wq)),
                ARG(wk, W(wk)), ARG(wv, W(wv)), ARG(q, b->plain_q[0]), ARG(k, b->plain_k[0]), ARG(v, BUF(v)),
                ARG(scale, BUF(scale1)), ARG(n, BUF(normed1))) ||
           rope_fwd(t, b->plain_q[0], BUF(q)) || rope_fwd(t, b->plain_k[0], BUF(k));
}

static int attention(Trainer *t, int64_t l)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, attention_fwd, ARG(q, BUF(q)), ARG(k, BUF(k)), ARG(v, BUF(v)), ARG(o, BUF(heads)),
                ARG(m, BUF(row_max)), ARG(z, BUF(row_sum)), ARG(r, BUF(attn_out_saved))) ||
           CALL(t->kernels, project_fwd, ARG(x, BUF(stream)), ARG(o, BUF(heads)), ARG(w, W(wo)),
                ARG(y, BUF(resid_mid)));
}

static int experts(Trainer *t, int64_t l)
{
    const Buffers *b = &t->buffers;
    float *y = l + 1 < b->layers ? b->stream[l + 1] : b->last[0];
    return CALL(t->kernels, router_fwd, ARG(x, BUF(resid_mid)), ARG(norm_weight, NORM(ffn_norm)),
                ARG(w, W(router)), ARG(n, BUF(normed2)), ARG(p, BUF(p)), ARG(id, BUF(chosen)),
                ARG(rt, BUF(route)), ARG(balance, BUF(balance)), ARG(scale, BUF(scale2))) ||
           CALL(t->kernels, experts_fwd, ARG(x, BUF(resid_mid)), ARG(n, BUF(normed2)), ARG(rt, BUF(route)),
                ARG(p, BUF(p)), ARG(wg, W(wg)), ARG(wu, W(wu)), ARG(wd, W(wd)), ARG(vg, W(vg)),
                ARG(vu, W(vu)), ARG(vd, W(vd)), ARG(y, y), ARG(g, BUF(gate)), ARG(u, BUF(up)),
                ARG(sg, BUF(shared_gate)), ARG(su, BUF(shared_up)));
}

/* Routes carry their own sizes. */
static void size_routes(Trainer *t, int64_t tokens)
{
    for (int64_t l = 0; l < t->buffers.layers; l++) {
        t->buffers.route[l]->tokens = tokens;
        t->buffers.route[l]->rows = tokens * t->model.sizes.K;
    }
}

int forward_layers(Trainer *t, int64_t sequences, int64_t positions)
{
    kernels_size(t->kernels, SIZE_B, sequences);
    kernels_size(t->kernels, SIZE_S, positions);
    kernels_size(t->kernels, SIZE_T, sequences * positions);
    size_routes(t, sequences * positions);
    if (embed(t))
        return 1;
    for (int64_t l = 0; l < t->buffers.layers; l++)
        if (qkv(t, l) || attention(t, l) || experts(t, l))
            return 1;
    return 0;
}

int forward_loss(Trainer *t)
{
    const Buffers *b = &t->buffers;
    return CALL(t->kernels, head_fwd, ARG(x, b->last[0]),
                ARG(norm_weight, weight_f32(t, WEIGHT_final_norm, 0)), ARG(w, weight_bf16(t, WEIGHT_head, 0)),
                ARG(target, b->targets[0]), ARG(loss, b->loss[0]), ARG(scale, b->scale3[0]),
                ARG(n, b->normed3[0]), ARG(e, b->weight[0]), ARG(z, b->total[0]));
}
