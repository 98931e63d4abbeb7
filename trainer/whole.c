#include "trainer/whole.h"

#include <stdlib.h>
#include <string.h>

#include "model/shards.h"
#include "trainer/complain.h"

static const char *const shard_names[] = {
    [KEPT_MASTERS] = SHARD_MASTERS, [KEPT_MOMENT1] = SHARD_MOMENT1, [KEPT_MOMENT2] = SHARD_MOMENT2};
static const char *const prefixes[] = {
    [KEPT_MASTERS] = "", [KEPT_MOMENT1] = "moment1.", [KEPT_MOMENT2] = "moment2."};

/* ---- shards ---- */

static float *own_shard(const Whole *w) { return session_at(&w->t->session, "%s", shard_names[w->kept]); }

static int has_shards(const Trainer *t) { return session_at(&t->session, SHARD_MASTERS) != NULL; }

static int is_in_shards(const Trainer *t, const ModelWeight *w)
{
    return has_shards(t) && model_weight_has_gradient(w) && !model_is_vector(w);
}

/* ---- parts ---- */

static WeightPart part_of(const Trainer *t, const ModelWeight *w, int64_t rank)
{
    return recipe_part(comm_ranks(t->comm), rank, w);
}

/* Between the whole tensor and the part of a rank. */
static void copy_part(const WeightPart *p, float *whole, float *part, int keep)
{
    for (int64_t i = 0; i < p->elements; i += p->run) {
        float *there = whole + weight_part_at(p, i), *here = part + i;
        memcpy(keep ? here : there, keep ? there : here, (size_t)p->run * sizeof *here);
    }
}

/* ---- all weights ---- */

static float *own(const Whole *w, uint32_t i)
{
    return session_at(&w->t->session, "%s%s", prefixes[w->kept], w->t->session.weights.at[i].name);
}

/* Has this kind of the weight a place of its own here? */
static int is_shared(const Whole *w, uint32_t i)
{
    const ModelWeight *weight = &w->t->session.weights.at[i];
    return !has_shards(w->t) && part_of(w->t, weight, 0).elements < model_weight_elements(weight) &&
           own(w, i);
}

static int64_t place_parts(const Whole *w, int64_t *places)
{
    const ModelWeights *all = &w->t->session.weights;
    int64_t n = 0;
    for (uint32_t i = 0; i < all->len; i++) {
        places[i] = n;
        n += is_shared(w, i) ? model_weight_elements(&all->at[i]) : 0;
    }
    return n;
}

static int64_t place_shards(const Whole *w, int64_t *places)
{
    const ModelWeights *all = &w->t->session.weights;
    for (uint32_t i = 0; i < all->len; i++)
        if (is_in_shards(w->t, &all->at[i]))
            places[i] = model_shards_place(all, &all->at[i]);
    return model_shards(all, w->t->copies).rows * SHARD_ROW;
}

int whole_open(Whole *w, const Trainer *t, Kept kept)
{
    const ModelWeights *all = &t->session.weights;
    int64_t *places = arena_array(t->session.arena, int64_t, all->len + 1);
    *w = (Whole){.t = t, .kept = kept};
    w->elements = has_shards(t) ? place_shards(w, places) : place_parts(w, places);
    w->at = calloc(all->len + 1, sizeof *w->at);
    w->memory = w->elements ? calloc((size_t)w->elements, sizeof *w->memory) : NULL;
    if (!w->at || (w->elements && !w->memory)) {
        whole_close(w);
        return complain("no memory for the weights of all ranks, %.1f GiB", (double)w->elements * 4 / 0x1p30);
    }
    for (uint32_t i = 0; i < all->len; i++)
        w->at[i] = is_in_shards(t, &all->at[i]) || is_shared(w, i) ? w->memory + places[i] : own(w, i);
    return 0;
}

void whole_keep(const Whole *w)
{
    const Trainer *t = w->t;
    const int64_t shard = w->elements / t->copies;
    if (has_shards(t))
        memcpy(own_shard(w), w->memory + t->copy * shard, (size_t)shard * sizeof *w->memory);
    for (uint32_t i = 0; i < t->session.weights.len; i++) {
        const WeightPart p = part_of(t, &t->session.weights.at[i], comm_rank(t->comm));
        if (is_shared(w, i))
            copy_part(&p, w->at[i], own(w, i), 1);
    }
}

/* One weight's parts of all ranks; those that several ranks have are the same. parts: room for them. */
static int collect_parts(const Whole *w, uint32_t i, float *parts)
{
    const Trainer *t = w->t;
    const ModelWeight *weight = &t->session.weights.at[i];
    const int64_t n = part_of(t, weight, 0).elements, ranks = comm_ranks(t->comm)->number;
    if (comm_collect(t->comm, "a checkpoint", own(w, i), n * (int64_t)sizeof *parts, parts))
        return complain("%s", comm_error(t->comm));
    for (int64_t r = 0; r < ranks && !comm_rank(t->comm); r++) {
        const WeightPart p = part_of(t, weight, r);
        copy_part(&p, w->at[i], parts + r * n, 0);
    }
    return 0;
}

static int collect_all_parts(const Whole *w)
{
    const ModelWeights *all = &w->t->session.weights;
    int64_t most = 0;
    for (uint32_t i = 0; i < all->len; i++) {
        const int64_t n = is_shared(w, i) ? part_of(w->t, &all->at[i], 0).elements : 0;
        most = n > most ? n : most;
    }
    float *parts = malloc((size_t)(most * comm_ranks(w->t->comm)->number + 1) * sizeof *parts);
    int bad = parts ? 0 : complain("no memory to collect the weights of all ranks");
    for (uint32_t i = 0; i < all->len && !bad; i++)
        bad = is_shared(w, i) && collect_parts(w, i, parts);
    free(parts);
    return bad;
}

int whole_collect(const Whole *w)
{
    const int64_t bytes = w->elements / w->t->copies * (int64_t)sizeof *w->memory;
    if (!has_shards(w->t))
        return w->memory ? collect_all_parts(w) : 0;
    if (!comm_collect(w->t->comm, "a checkpoint", own_shard(w), bytes, w->memory))
        return 0;
    return complain("%s", comm_error(w->t->comm));
}

void whole_close(Whole *w)
{
    free(w->memory), free(w->at);
    *w = (Whole){0};
}
