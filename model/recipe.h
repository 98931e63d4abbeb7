/* Recipes: the modules of a model as calls of the recorder (step/record.h). One file for each kind of module; a module chooses
 * its kernels by the config. Kernels are those of model/<module>.moe. */
#ifndef MODEL_RECIPE_H
#define MODEL_RECIPE_H

#include "model/rope.h"
#include "model/shards.h"
#include "step/record.h"

typedef struct Recipe {
    Recorder *r;
    const ModelConfig *c;
    moec_type act;                /* element type of activations and of the weights of products */
    int64_t sequences, positions; /* of a micro-batch */
    int layer, micro;             /* where the calls that follow belong; -1: none */
    const char *program;          /* name of it */
    int64_t cached;               /* positions that caches have room for; 0: attention is over the sequence itself */
    int continues;                /* with caches: what this run reads attends to what they hold, not to itself alone */
    BufferId offset;              /* with caches: where the first position of this run lies in them */
    int balanced;                 /* the loss has all its parts: balance, z and multi-token prediction */
    int train;                    /* gradients are recorded */
    int logits;                   /* evaluations keep them, as `logits.m<micro>`: f32[T, V] */
    int watched;                  /* evaluations keep what analyses read, see recipe_program.c below */
    int loads;                    /* the counts of the experts' choices are kept, see there */
    int choices, given;           /* the choices are kept; those that are given hold; see there */
    double share;                 /* of the step's loss that a micro-batch's mean is: those of all ranks of dp count alike */
    double row_factor;            /* over ep a rank has room for that many times the rows that it sends; 0: for all that may come */
    Arena *arena;
    ModelWeights weights; /* what this rank has of each */
    ModelShards shards;   /* their gradients, and who shares their masters and moments */
    Vec(BufferId) counts; /* by layer: how often each expert was chosen, over the micro-batches so far */
} Recipe;

int recipe_add_sources(KernelSet *s); /* model/<module>.moe; 0, or 1 with kernels_error() */

/* positions: of each sequence of a micro-batch. The groups of ranks are given to the recorder before. */
Recipe recipe_of(Arena *a, Recorder *r, const char *program, const ModelConfig *c, moec_type act, int64_t sequences, int64_t positions);
void recipe_at(Recipe *m, int layer, int micro);

/* Why no pass can choose what other programs call a module and these recipes never keep; NULL: it is no such name. */
const char *recipe_never_kept(const char *module);

/* ---- whole programs: recipe_program.c ----
 * A micro-batch comes from a task `batch` with ids, targets: i32[T] and weights: f32[T] of the targets. The loss of micro-batch i
 * is the scalar `loss.m<i>`; its other parts in layer l are `balance.L<l>.m<i>`, `z.L<l>.m<i>` and `mtp.L<l>.m<i>`, which count with
 * the config's coefficients. `dropped.L<l>.m<i>` and `imbalance.L<l>.m<i>` tell of the routing. With
 * `watched` there are also the choices `chosen.L<l>.m<i>`: i32[T, K] and, where experts are shared, norms of the two parts of their result,
 * `routed.L<l>.m<i>` and `shared.L<l>.m<i>`: f32[T]. With `loads` and `balanced` there is `load.L<l>.m<i>`: f32[1, E], how many
 * tokens of the micro-batch chose each expert.
 *
 * With `choices` there are `chosen.L<l>.m<i>` as above, and `scores.L<l>.m<i>`: f32[T, E], by which the experts were chosen. With `given`
 * it is not they that hold but the input `given.L<l>.m<i>`: i32[T, K]; `chosen` is what would have been chosen. T: this rank's tokens. */
void recipe_setup(Recipe *m);                            /* forms of the weights, from their masters; tables of positions */
void recipe_evaluation(Recipe *m, int micro_batches);
void recipe_gradients(Recipe *m, int micro_batches);     /* of the mean of the micro-batches' losses: gradient.<weight> */
void recipe_step(Recipe *m, int micro_batches);          /* and AdamW, whose numbers are scalars: lr, beta1, beta2 ...
                                                          * A norm of the gradients above the scalar norm.limit, or a NaN: no update */
/* The tokens behind `positions` tokens of one sequence, with caches for `room` positions; they begin the sequence, or `continues` is
 * set: reads <program>.ids: i32[S] and the scalar `position`, the place of the first of them; writes the caches, and the most probable token
 * behind each into <program>.next: i32[S], or with `sampled` one drawn at the scalar `temperature` by <program>.draws: f32[S]. Over tp a rank
 * has a part of `next`, of the tokens of its rows. Ranks of dp have the same sequence. */
void recipe_generation(Recipe *m, int64_t room, int sampled);

/* ---- weights: recipe_weights.c ---- */

/* What kernels read of a weight of the current layer: packed, rows, or the f32 master itself. */
BufferId recipe_weight(Recipe *m, ModelWeightId id);
int recipe_has(const Recipe *m, ModelWeightId id);
BufferId recipe_master(Recipe *m, const ModelWeight *w);   /* f32[matrices, rows, columns] */
BufferId recipe_tensor(Recipe *m, Owner owner, const char *name, moec_type type, int packed, const ModelWeight *w); /* likewise */
BufferId recipe_form(Recipe *m, const ModelWeight *w, ModelForm form);
/* The gradients of a pool, one tensor of rows of SHARD_ROW, so that their norm is taken in one call; places between them are 0. Partial
 * sums over the ranks that add them up. STEP_NONE: there are none. */
BufferId recipe_pool(Recipe *m, WeightPool pool);
BufferId recipe_gradient_of(Recipe *m, BufferId all, const ModelWeight *w); /* the same part of what was made of the pool, named .sum */
void recipe_train_weights(Recipe *m);                      /* all of them get gradients */

/* Ranks of dp have micro-batches of their own. Over ep they share the routed experts: each has as many of them, and ranks of edp have
 * the same. */
void recipe_share(Recipe *m); /* of the model what this rank has of it, in m->c and m->weights */
/* Over tp a rank has some of the heads and of the columns of dense networks. Between them the stream is in rows that are its own: what
 * all need is gathered before, and of the partial sums behind each gets the sum of its rows. */
int64_t recipe_rows(const Recipe *m); /* tokens of the stream on this rank */
BufferId recipe_gather(Recipe *m, BufferId x);  /* of own rows, those of all */
BufferId recipe_scatter(Recipe *m, BufferId x); /* of partial sums of all rows, the sums of the own ones */
BufferId recipe_split(Recipe *m, BufferId x);   /* of what all have, the own rows */
BufferId recipe_summed(Recipe *m, GroupAxis axis, BufferId x); /* over its group, of which x may be the sum already */
void recipe_place_weight(Recipe *m, BufferId b, const ModelWeight *w);
void recipe_place_own(Recipe *m, BufferId b); /* what is of this rank's micro-batches */

/* ---- the optimizer ---- */

/* What AdamW reads and moves of a weight, or of a shard; form: what it writes for other kernels, STEP_NONE: what the kernel makes. */
typedef struct AdamwTensors {
    BufferId master, moment1, moment2, gradient, form;
} AdamwTensors;
Call recipe_adamw(Recipe *m, const char *kernel, const AdamwTensors *t, int decays, BufferId factor);

/* Of a pool in shards: Note [Shards] of shards.h. gradient: of all ranks, this rank's part. */
void recipe_shard_update(Recipe *m, WeightPool pool, BufferId gradient, BufferId factor); /* and what kernels read of the weights */
void recipe_shard_setup(Recipe *m, WeightPool pool);                                  /* that, from the masters */

/* ---- modules ----
 * x: f32[T, H], the residual stream; each gives the stream behind the module. */
BufferId recipe_embed(Recipe *m, BufferId ids);           /* [T] -> [T, H] */
BufferId recipe_attention(Recipe *m, BufferId x);
BufferId recipe_experts(Recipe *m, BufferId x);
/* Over ep: what the routed experts make of n [T, H] with weights p and numbers id [T, K], as rows of the route: act[T*K, H]. */
BufferId recipe_exchanged(Recipe *m, BufferId n, BufferId p, BufferId id, BufferId route);
void recipe_bias(Recipe *m, const ModelWeight *bias); /* moves a router's correction bias toward a balanced load */
BufferId recipe_layer(Recipe *m, BufferId x);
/* Cross entropy, a scalar of that name: the mean of the targets by their weights. gain: of the norm before the head. Gives what
 * its gradient is seeded in: over tp this rank's part. */
BufferId recipe_loss(Recipe *m, const char *name, BufferId x, ModelWeightId gain, BufferId targets, BufferId weights);
/* Losses of multi-token prediction, `mtp<d>.m<micro>`, from the stream behind the last layer; they count when training. */
void recipe_mtp(Recipe *m, BufferId x, BufferId targets, BufferId weights);
BufferId recipe_logits(Recipe *m, BufferId x); /* f32[T, V] */
void recipe_keep_logits(Recipe *m, BufferId x);

/* Helpers of the recipes. */
BufferId recipe_number(Recipe *m, const char *name, double value); /* an f32 that kernels take by value */
BufferId recipe_scalar(Recipe *m, const char *name);               /* an f32 that kernels write and the host may read */
const char *recipe_label(Recipe *m, const char *name);             /* with .L3.m0 behind, of where the recipe is */
BufferId recipe_add(Recipe *m, BufferId x, BufferId branch, ModelWeightId gain); /* behind a branch: sandwich norm */
BufferId recipe_leave(Recipe *m, BufferId x, BufferId branch, ModelWeightId gain); /* that, or without such norms the sum */
void recipe_tables(Recipe *m);                                     /* of positions */
#define SHAPED(m, b, ...)                                                                                    \
    record_reshape((m)->r, (b), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

#endif
