/* The mixture of experts: scores, choice, what is dropped, routes, experts, losses that balance their load. */
#include "model/recipe.h"

#include <math.h>

typedef struct Routing {
    BufferId n;     /* act[T, H], what experts read */
    BufferId c;     /* f32[T, E], scores of all experts */
    BufferId p, id; /* [T, K], weights and numbers of the chosen ones; -1: dropped */
    BufferId route;
} Routing;

/* The limit of rows of an expert, or 0. */
static int64_t capacity(const Recipe *m)
{
    const ModelConfig *c = m->c;
    const double mean = (double)(recipe_rows(m) * c->top_k) / (double)c->experts;
    const int64_t rows = (int64_t)ceil(mean * c->capacity_factor), tokens = recipe_rows(m);
    return c->capacity_factor > 0 ? (rows < tokens ? rows : tokens) : 0;
}

static Call scores(Recipe *m, BufferId x, BufferId z)
{
    record_module(m->r, "router");
    return record(m->r, m->c->scoring == SCORE_SIGMOID ? "scores_sigmoid" : "scores_softmax", ARG(x, x),
                  ARG(gain, recipe_weight(m, MODEL_ffn_gain)), ARG(eps, recipe_number(m, "eps", m->c->eps)),
                  ARG(w, recipe_weight(m, MODEL_router)), ARG(z, z));
}

/* Zeros where the model has no correction bias. */
static BufferId bias(Recipe *m)
{
    return recipe_has(m, MODEL_bias)
               ? recipe_weight(m, MODEL_bias)
               : record_tensor(m->r, OWNER_state, "no.bias", MOEC_F32, 0, 1, &m->c->experts);
}

static BufferId watched(Recipe *m, const char *name, moec_type type, int64_t columns)
{
    const int64_t shape[] = {recipe_rows(m), columns};
    return record_tensor(m->r, OWNER_state, recipe_label(m, name), type, 0, columns ? 2 : 1, shape);
}

static Call choose(Recipe *m, Arg c)
{
    const ModelConfig *config = m->c;
    const int kept = m->watched || m->choices;
    const Arg args[] = {c,
                        ARG(bias, bias(m)),
                        ARG(normalise, record_scalar(m->r, "renormalise", MOEC_I32, config->renormalise)),
                        ARG(factor, recipe_number(m, "routed.scale", config->routed_scale)),
                        SIZE(K, config->top_k),
                        SIZE(X, config->groups),
                        SIZE(Y, config->experts / config->groups),
                        SIZE(Z, config->group_limit),
                        ARG(id, kept ? watched(m, "chosen", MOEC_I32, config->top_k) : STEP_NONE)};
    const size_t n = sizeof args / sizeof *args;
    return record_call(m->r, config->groups > 1 ? "choose_grouped" : "choose", args, kept ? n : n - 1);
}

/* The choices that the host gives for the rows of this rank. */
static Call choose_given(Recipe *m, BufferId c)
{
    const int64_t shape[] = {recipe_rows(m), m->c->top_k};
    const BufferId id = record_tensor(m->r, OWNER_input, recipe_label(m, "given"), MOEC_I32, 0, 2, shape);
    recipe_place_own(m, id);
    record_place(m->r, id, AXIS_tp, PLACED_OWN);
    return record(m->r, "choose_given", ARG(c, c), ARG(given, id),
                  ARG(normalise, record_scalar(m->r, "renormalise", MOEC_I32, m->c->renormalise)),
                  ARG(factor, recipe_number(m, "routed.scale", m->c->routed_scale)));
}

/* What experts the tokens go to, by scores, or as given. */
static Call chosen_of(Recipe *m, BufferId c)
{
    if (m->choices)
        record(m->r, "biased", STOP(c, c), STOP(bias, bias(m)),
               ARG(d, watched(m, "scores", MOEC_F32, m->c->experts)));
    if (!m->given)
        return choose(m, ARG(c, c));
    if (m->choices)
        choose(m, STOP(c, c));
    return choose_given(m, c);
}

/* The choices that keep a row. */
static BufferId drop(Recipe *m, BufferId id, BufferId p)
{
    const int64_t C = capacity(m);
    if (!C)
        return id;
    if (m->c->drop_policy == DROP_POSITION)
        return out(record(m->r, "drop_by_position", ARG(id, id), SIZE(E, m->c->experts), SIZE(C, C)), "kept");
    return out(
        record(m->r, "drop_by_probability", ARG(id, id), STOP(p, p), SIZE(E, m->c->experts), SIZE(C, C)),
        "kept");
}

/* The gradient of a part of the step's loss is its coefficient's share of this rank's rows. */
static void add_loss(Recipe *m, BufferId loss, const char *name, double coefficient)
{
    if (m->train && m->balanced && coefficient > 0)
        record_seed(m->r, loss,
                    recipe_number(m, name, coefficient * m->share / (double)record_members(m->r, AXIS_tp)));
}

/* into: STEP_NONE, or where the counts are to be. */
static BufferId count(Recipe *m, BufferId id, int64_t scopes, BufferId into)
{
    const int64_t each = recipe_rows(m) / scopes;
    const Arg args[] = {ARG(id, SHAPED(m, id, scopes, each, m->c->top_k)), SIZE(E, m->c->experts),
                        ARG(n, into)};
    return out(record_call(m->r, "count", args, into == STEP_NONE ? 2 : 3), "n");
}

/* How often each expert was chosen in the micro-batch: f32[1, E]. */
static BufferId count_all(Recipe *m, BufferId chosen)
{
    const int64_t shape[] = {1, m->c->experts};
    return count(m, chosen, 1,
                 m->loads ? record_tensor(m->r, OWNER_state, recipe_label(m, "load"), MOEC_F32, 0, 2, shape)
                          : STEP_NONE);
}

/* The scopes of the balance loss that this rank has rows of. */
static int64_t scopes_here(Recipe *m)
{
    const int64_t tp = record_members(m->r, AXIS_tp);
    if (m->c->aux_scope != AUX_SEQUENCE || m->sequences == 1)
        return 1;
    if (m->sequences % tp == 0)
        return m->sequences / tp;
    record_refuse(
        m->r, "balance of %lld sequences over tp of %lld ranks: a rank has whole sequences, or all have one",
        (long long)m->sequences, (long long)tp);
    return 1;
}

/* Are the rows of a scope those of several ranks of the axis? The group of ep extends that of tp and lies in those of tp and dp. */
static int is_scope_over(const Recipe *m, GroupAxis axis)
{
    switch (m->c->aux_scope) {
    case AUX_SEQUENCE: return axis == AXIS_tp && m->sequences == 1;
    case AUX_MICRO_BATCH: return axis == AXIS_tp;
    case AUX_EP_GROUP: return axis == AXIS_ep;
    case AUX_DP_GROUP: return axis == AXIS_tp || axis == AXIS_dp;
    }
    return 0;
}

/* How often each expert was chosen in a scope, from the choices of this rank. On one rank of ep or dp the exchange is recorded too. */
static BufferId scope_counts(Recipe *m, BufferId n, int64_t *ranks)
{
    static const GroupAxis axes[] = {AXIS_tp, AXIS_ep, AXIS_dp};
    *ranks = 1;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (is_scope_over(m, axes[i]) && (axes[i] != AXIS_tp || record_members(m->r, AXIS_tp) > 1)) {
            n = record_exchange(m->r, TASK_allreduce, axes[i], n, 0);
            *ranks *= record_members(m->r, axes[i]);
        }
    return n;
}

/* Frequencies are of the scope. Scores are the mean of this rank's rows: the step's loss is the mean of the ranks', so that of the
 * scope is too. n: counts of this rank's rows, in one scope. */
static void balance(Recipe *m, const Routing *g, BufferId chosen, BufferId n)
{
    const ModelConfig *c = m->c;
    const int64_t scopes = scopes_here(m), each = recipe_rows(m) / scopes;
    int64_t ranks;
    const BufferId counts = scope_counts(m, scopes > 1 ? count(m, chosen, scopes, STEP_NONE) : n, &ranks),
                   loss = recipe_scalar(m, "balance");
    const double share = (double)c->experts / (double)(c->top_k * each * ranks);
    record(m->r, "balance", ARG(c, SHAPED(m, g->c, scopes, each, c->experts)), ARG(n, counts),
           ARG(share, recipe_number(m, "balance.share", share)),
           ARG(tokens, recipe_number(m, "balance.tokens", (double)each)), ARG(loss, loss));
    add_loss(m, loss, "balance.weight", c->aux_coeff);
}

/* The counts of this micro-batch, added to those of the layer's earlier ones: what recipe_bias() reads. */
static void add_counts(Recipe *m, BufferId n)
{
    while (m->counts.len <= (uint32_t)m->layer)
        vec_push(m->arena, &m->counts, STEP_NONE);
    BufferId *sum = &m->counts.at[m->layer];
    *sum = m->micro == 0 ? n : out(record(m->r, "add_counts", ARG(a, *sum), ARG(b, n)), "n");
}

void recipe_bias(Recipe *m, const ModelWeight *bias)
{
    if ((uint32_t)bias->layer >= m->counts.len) /* the layer's experts were refused */
        return;
    const BufferId n = recipe_summed(m, AXIS_dp, recipe_summed(m, AXIS_tp, m->counts.at[bias->layer]));
    record(m->r, "bias_update", ARG(bias, recipe_form(m, bias, MODEL_BUFFER)), ARG(n, n),
           ARG(rate, recipe_number(m, "bias.rate", m->c->bias_speed)));
}

/* n: [experts]. */
static void report_load(Recipe *m, const Routing *g, BufferId n)
{
    if (m->train && recipe_has(m, MODEL_bias))
        add_counts(m, n);
    record(m->r, "load", ARG(id, g->id), ARG(n, n), ARG(dropped, recipe_scalar(m, "dropped")),
           ARG(imbalance, recipe_scalar(m, "imbalance")));
}

static Routing route(Recipe *m, BufferId x)
{
    const BufferId z = recipe_scalar(m, "z");
    const Call scored = scores(m, x, z), chosen = chosen_of(m, out(scored, "c"));
    Routing g = {.n = out(scored, "n"), .c = out(scored, "c"), .p = out(chosen, "p")};
    g.id = drop(m, out(chosen, "id"), g.p);
    g.route = out(record(m->r, "dispatch", ARG(id, g.id), SIZE(E, m->c->experts)), "rt");
    if (m->balanced) {
        const BufferId n = count_all(m, out(chosen, "id"));
        balance(m, &g, out(chosen, "id"), n);
        report_load(m, &g, SHAPED(m, n, m->c->experts));
        add_loss(m, z, "z.weight", m->c->z_coeff);
    }
    return g;
}

/* All experts are on this rank: one kernel. */
static BufferId experts_here(Recipe *m, BufferId x, const Routing *g)
{
    record_module(m->r, "swiglu");
    const Arg n = ARG(n, g->n), rt = ARG(rt, g->route), p = ARG(p, g->p),
              wg = ARG(wg, recipe_weight(m, MODEL_wg)), wu = ARG(wu, recipe_weight(m, MODEL_wu)),
              wd = ARG(wd, recipe_weight(m, MODEL_wd));
    const int sandwich = m->c->sandwich_norm;
    if (!recipe_has(m, MODEL_vg))
        return sandwich ? recipe_add(m, x, out(record(m->r, "routed_branch", n, rt, p, wg, wu, wd), "y"),
                                     MODEL_ffn_post_gain)
                        : out(record(m->r, "routed", ARG(x, x), n, rt, p, wg, wu, wd), "y");
    const Arg vg = ARG(vg, recipe_weight(m, MODEL_vg)), vu = ARG(vu, recipe_weight(m, MODEL_vu)),
              vd = ARG(vd, recipe_weight(m, MODEL_vd));
    if (m->watched)
        record(m->r, "strengths", n, rt, p, wg, wu, wd, vg, vu, vd,
               ARG(routed, watched(m, "routed", MOEC_F32, 0)),
               ARG(shared, watched(m, "shared", MOEC_F32, 0)));
    return sandwich
               ? recipe_add(m, x, out(record(m->r, "experts_branch", n, rt, p, wg, wu, wd, vg, vu, vd), "y"),
                            MODEL_ffn_post_gain)
               : out(record(m->r, "experts", ARG(x, x), n, rt, p, wg, wu, wd, vg, vu, vd), "y");
}

/* Each rank has some of the routed experts, and all shared ones. */
static BufferId experts_of_ranks(Recipe *m, BufferId x, const Routing *g)
{
    const BufferId rows = recipe_exchanged(m, g->n, g->p, g->id, g->route);
    const Arg from = ARG(rows, rows), rt = ARG(rt, g->route);
    const int sandwich = m->c->sandwich_norm;
    if (!recipe_has(m, MODEL_vg))
        return sandwich ? recipe_add(m, x, out(record(m->r, "unpermute_alone", from, rt), "y"),
                                     MODEL_ffn_post_gain)
                        : out(record(m->r, "unpermute", ARG(x, x), from, rt), "y");
    const Arg n = ARG(n, g->n), wg = ARG(wg, recipe_weight(m, MODEL_vg)),
              wu = ARG(wu, recipe_weight(m, MODEL_vu)), wd = ARG(wd, recipe_weight(m, MODEL_vd));
    if (sandwich) {
        const BufferId shared = out(record(m->r, "dense_branch", n, wg, wu, wd), "y");
        const Call both = record(m->r, "unpermute_branch", ARG(shared, shared), from, rt);
        return recipe_add(m, x, out(both, "y"), MODEL_ffn_post_gain);
    }
    const BufferId y = out(record(m->r, "dense", ARG(x, x), n, wg, wu, wd), "y");
    return out(record(m->r, "unpermute", ARG(x, y), from, rt), "y");
}

BufferId recipe_experts(Recipe *m, BufferId x)
{
    const int shared_out = record_members(m->r, AXIS_ep) > 1;
    if (shared_out && capacity(m))
        return record_refuse(m->r, "experts with a capacity are on one rank: over ep no row is dropped");
    if (shared_out && m->watched)
        return record_refuse(m->r, "an analysis looks at all experts on one rank, not over ep");
    const Routing g = route(m, x);
    return shared_out ? experts_of_ranks(m, x, &g) : experts_here(m, x, &g);
}
