/* What `moe-train plan` shares with the choice of passes: plan_price.c measures, plan_choose.c chooses. */
#ifndef TRAINER_PLAN_H
#define TRAINER_PLAN_H

#include "step/price.h"
#include "trainer/session.h"

typedef struct PlanOptions {
    const char *model, *map, *bytes, *swap_folder;
    const char *choices[PASS_COUNT]; /* modules of each pass, or NULL */
    int64_t sequence, sequences, micro_batches, threads;
    int64_t memory; /* that a step may take; 0: not asked */
    int64_t ranks;
    double row_factor;
    RanksAsked asked;
    int f32, emit, measure;
} PlanOptions;

/* The recorded program of a step, without passes. NULL with a message printed. */
Program *plan_record(Session *s, const PlanOptions *o);
/* Runs a few steps of a model with a few of the layers and notes their prices, which must be all that `recorded` asks for. Returns 0, or 1 with a message printed. */
int plan_measure(const ModelConfig *m, const PlanOptions *o, const Program *recorded, Prices *prices);

/* The groups of the ranks that are asked for. Returns 0, or 1 with the rule that is broken printed. */
int plan_ranks(Arena *a, const PlanOptions *o, Ranks *out);
/* Verifies the programs of all ranks of the session, which are this one, and prints which ranks share what and what they send. */
int plan_print_ranks(Session *s, const Program *p);

/* What a program with some passes needs. */
typedef struct PlanCost {
    int64_t bytes;  /* of all: what persists, and the largest sum of live buffers */
    int64_t peak;   /* that sum */
    int64_t kept;   /* the largest sum without work space */
    double seconds; /* of a step; below 0: not known */
} PlanCost;

/* A copy of a recorded program after passes, in `a`, with lifetimes. NULL with a message printed. */
Program *plan_passes(Session *s, Arena *a, const Program *recorded, const char *const choices[PASS_COUNT]);
PlanCost plan_cost(const Program *p, const Prices *prices);
/* Bytes of the arena over time; into a file too, which gives 0, or 1 with a message printed. prices: or NULL. */
void plan_print_bytes(const Program *p);
int plan_write_bytes(const Program *p, const Prices *prices, const char *path);
/* Each module of each pass alone: what it saves and what it costs. */
void plan_print_choices(Session *s, const Program *recorded, const Prices *prices);
/* The choices with which a step takes at most o->memory, into o->choices. Returns 0, or 1 with a message printed: nothing fits. */
int plan_choose(Session *s, const Program *recorded, const Prices *prices, PlanOptions *o);

#endif
