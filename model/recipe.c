#include "model/recipe.h"

#include <string.h>

Recipe recipe_of(Arena *a, Recorder *r, const char *program, const ModelConfig *c, moec_type act,
                 int64_t sequences, int64_t positions)
{
    Recipe m = {.r = r,
                .c = c,
                .act = act,
                .sequences = sequences,
                .positions = positions,
                .layer = -1,
                .micro = -1,
                .program = program,
                .arena = a,
                .weights = model_weights(a, c)};
    recipe_share(&m);
    return m;
}

void recipe_at(Recipe *m, int layer, int micro)
{
    m->layer = layer, m->micro = micro;
    record_at(m->r, PHASE_forward, layer, micro);
}

const char *recipe_label(Recipe *m, const char *name)
{
    const char *layer = m->layer < 0 ? "" : arena_printf(m->arena, ".L%d", m->layer);
    return arena_printf(m->arena, m->micro < 0 ? "%s%s" : "%s%s.m%d", name, layer, m->micro);
}

BufferId recipe_scalar(Recipe *m, const char *name)
{
    return record_tensor(m->r, OWNER_state, recipe_label(m, name), MOEC_F32, 0, 0, NULL);
}

BufferId recipe_number(Recipe *m, const char *name, double value)
{
    return record_scalar(m->r, name, MOEC_F32, value);
}

BufferId recipe_add(Recipe *m, BufferId x, BufferId branch, ModelWeightId gain)
{
    record_module(m->r, "norms");
    return out(record(m->r, "sandwich", ARG(x, x), ARG(branch, branch), ARG(gain, recipe_weight(m, gain)),
                      ARG(eps, recipe_number(m, "eps", m->c->eps))),
               "y");
}

const char *recipe_never_kept(const char *module)
{
    return strcmp(module, "permute")
               ? NULL
               : "permuted rows are never kept, because the kernels of the experts make "
                 "them where they read them; what else these keep belongs to `swiglu`";
}

BufferId recipe_leave(Recipe *m, BufferId x, BufferId branch, ModelWeightId gain)
{
    if (m->c->sandwich_norm)
        return recipe_add(m, x, branch, gain);
    return out(record(m->r, "residual", ARG(x, x), ARG(branch, branch)), "y");
}

BufferId recipe_embed(Recipe *m, BufferId ids)
{
    return out(record(m->r, "embed", ARG(id, recipe_split(m, ids)), ARG(w, recipe_weight(m, MODEL_embed))),
               "x");
}

/* ---- feed-forward ---- */

static BufferId dense(Recipe *m, BufferId x)
{
    record_module(m->r, "norms");
    const BufferId n = out(record(m->r, "norm", ARG(x, x), ARG(gain, recipe_weight(m, MODEL_ffn_gain)),
                                  ARG(eps, recipe_number(m, "eps", m->c->eps))),
                           "n");
    const BufferId wg = recipe_weight(m, MODEL_dg), wu = recipe_weight(m, MODEL_du),
                   wd = recipe_weight(m, MODEL_dd);
    record_module(m->r, "swiglu");
    if (!m->c->sandwich_norm && record_members(m->r, AXIS_tp) == 1)
        return out(record(m->r, "dense", ARG(x, x), ARG(n, n), ARG(wg, wg), ARG(wu, wu), ARG(wd, wd)), "y");
    const Call branch =
        record(m->r, "dense_branch", ARG(n, recipe_gather(m, n)), ARG(wg, wg), ARG(wu, wu), ARG(wd, wd));
    return recipe_leave(m, x, recipe_scatter(m, out(branch, "y")), MODEL_ffn_post_gain);
}

/* Dense or experts, by the layer. */
static BufferId feed_forward(Recipe *m, BufferId x)
{
    return model_is_dense(m->c, m->layer) ? dense(m, x) : recipe_experts(m, x);
}

BufferId recipe_layer(Recipe *m, BufferId x) { return feed_forward(m, recipe_attention(m, x)); }

/* ---- head ---- */

/* Each rank of tp has the head of its rows. */
static BufferId loss_of_rows(Recipe *m, BufferId loss, BufferId x, Arg gain, Arg w, BufferId targets,
                             BufferId weights)
{
    const BufferId own = recipe_split(m, weights),
                   total = recipe_summed(m, AXIS_tp, out(record(m->r, "weigh", ARG(weight, own)), "total"));
    const Call part = record(m->r, m->c->tied ? "head_part_tied" : "head_part", ARG(x, x), gain,
                             ARG(eps, recipe_number(m, "eps", m->c->eps)), w,
                             ARG(target, recipe_split(m, targets)), ARG(weight, own), ARG(total, total));
    record_sum(m->r, AXIS_tp, out(part, "loss"), loss);
    return out(part, "loss");
}

BufferId recipe_loss(Recipe *m, const char *name, BufferId x, ModelWeightId gain, BufferId targets,
                     BufferId weights)
{
    const BufferId loss = recipe_scalar(m, name), eps = recipe_number(m, "eps", m->c->eps);
    const BufferId w =
        m->c->tied ? recipe_form(m, &m->weights.at[0], MODEL_PACKED) : recipe_weight(m, MODEL_head);
    if (record_members(m->r, AXIS_tp) > 1)
        return loss_of_rows(m, loss, x, ARG(gain, recipe_weight(m, gain)), ARG(w, w), targets, weights);
    record(m->r, m->c->tied ? "head_tied" : "head", ARG(x, x), ARG(gain, recipe_weight(m, gain)),
           ARG(eps, eps), ARG(w, w), ARG(target, targets), ARG(weight, weights), ARG(loss, loss));
    return loss;
}

static Call logits(Recipe *m, BufferId x, Arg into)
{
    const BufferId w =
        m->c->tied ? recipe_form(m, &m->weights.at[0], MODEL_PACKED) : recipe_weight(m, MODEL_head);
    return record(m->r, m->c->tied ? "logits_tied" : "logits", STOP(x, x),
                  STOP(gain, recipe_weight(m, MODEL_final_gain)),
                  ARG(eps, recipe_number(m, "eps", m->c->eps)), STOP(w, w), into);
}

/* No gradient flows through logits: that of the loss comes from recipe_loss(). */
BufferId recipe_logits(Recipe *m, BufferId x) { return out(logits(m, x, SIZE(V, m->c->vocab)), "s"); }

void recipe_keep_logits(Recipe *m, BufferId x)
{
    const int64_t shape[] = {m->sequences * m->positions, m->c->vocab};
    logits(m, x, ARG(s, record_tensor(m->r, OWNER_state, recipe_label(m, "logits"), MOEC_F32, 0, 2, shape)));
}

/* ---- multi-token prediction ---- */

static BufferId normed(Recipe *m, BufferId x, ModelWeightId gain)
{
    return out(record(m->r, "norm", ARG(x, x), ARG(gain, recipe_weight(m, gain)),
                      ARG(eps, recipe_number(m, "eps", m->c->eps))),
               "n");
}

/* Module d: from the state of token i and the embedding of token i + d + 1 to the loss of token i + d + 2. Gives its stream. */
static BufferId mtp_module(Recipe *m, int64_t d, BufferId state, BufferId targets, BufferId weights)
{
    const int64_t B = m->sequences, S = m->positions;
    const BufferId ids = SHAPED(m, targets, B, S), kept = SHAPED(m, weights, B, S);
    const Call enters = record(m->r, "shift", ARG(id, ids), ARG(weight, kept), SIZE(D, d));
    const Call wanted = record(m->r, "shift", ARG(id, ids), ARG(weight, kept), SIZE(D, d + 1));
    const BufferId e = recipe_embed(m, SHAPED(m, out(enters, "ids"), B * S));
    BufferId x =
        out(record(m->r, "mtp", ARG(e, e), ARG(x, state), ARG(gain_e, recipe_weight(m, MODEL_mtp_e_gain)),
                   ARG(gain_x, recipe_weight(m, MODEL_mtp_x_gain)),
                   ARG(eps, recipe_number(m, "eps", m->c->eps)), ARG(w, recipe_weight(m, MODEL_mtp_w))),
            "y");
    x = recipe_layer(m, x);
    const BufferId loss = recipe_loss(m, "mtp", x, MODEL_mtp_gain, SHAPED(m, out(wanted, "ids"), B * S),
                                      SHAPED(m, out(wanted, "weights"), B * S));
    if (m->train)
        record_seed(m->r, loss,
                    recipe_number(m, "mtp.weight", m->share * m->c->mtp_coeff / (double)m->c->mtp));
    return x;
}

void recipe_mtp(Recipe *m, BufferId x, BufferId targets, BufferId weights)
{
    ModelWeightId gain = MODEL_final_gain;
    if (m->c->mtp >= m->positions)
        record_refuse(
            m->r,
            "%lld modules of multi-token prediction in sequences of %lld positions: each module has a "
            "target less than the one before, and the last has none",
            (long long)m->c->mtp, (long long)m->positions);
    for (int64_t d = 0; d < m->c->mtp; d++) {
        const BufferId state = normed(m, x, gain);
        recipe_at(m, (int)(m->c->layers + d), m->micro);
        x = mtp_module(m, d, state, targets, weights);
        gain = MODEL_mtp_gain;
    }
    recipe_at(m, -1, m->micro);
}
