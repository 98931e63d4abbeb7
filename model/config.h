/* The sizes and choices of a model: a Hugging Face config.json as one struct. The rows of config.def say what each field means,
 * how it is called in JSON, and which values are refused. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "base/base.h"

typedef enum ModelArch {
#define ARCH(id, class, doc) ARCH_##id,
#include "model/config.def"
    ARCH_COUNT
} ModelArch;

typedef enum RopeScaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_YARN } RopeScaling;
typedef enum ScoreFunction { SCORE_SOFTMAX, SCORE_SIGMOID } ScoreFunction;
typedef enum AuxScope { AUX_SEQUENCE, AUX_MICRO_BATCH, AUX_EP_GROUP, AUX_DP_GROUP } AuxScope;
typedef enum DropPolicy { DROP_PROBS, DROP_POSITION } DropPolicy;
typedef enum Initializer { INIT_NORMAL, INIT_TINY, INIT_FAN_IN } Initializer;

/* Plain values that keep every rule of config.def. Fallbacks that follow from other fields are filled in: kv_heads,
 * shared_width, latent_eps; with grouped-query attention head_dim = rope_dim = v_dim and nope_dim = 0, with latent attention head_dim =
 * nope_dim + rope_dim. So attention of both kinds has heads x (nope_dim + rope_dim) queries and heads x v_dim results. */
typedef struct ModelConfig {
    ModelArch arch;
    int quantized; /* the weights beside config.json are quantised: such a model is counted, not loaded */
#define INT(field, ...) int64_t field;
#define REAL(field, ...) double field;
#define FLAG(field, ...) int field;
#define CHOICE(field, Type, ...) Type field;
#include "model/config.def"
} ModelConfig;

static inline int model_is_latent(const ModelConfig *c) { return c->kv_lora > 0; } /* MLA, else GQA */
/* Layers from c->layers on are those of multi-token prediction, which look like the last ones. */
static inline int model_is_dense(const ModelConfig *c, int64_t layer) { return layer < c->dense_layers || !c->experts; }

#define MODEL_PARAMETERS_MAX ((int64_t)1 << 50) /* of a model; bytes and operations fit 64 bits and a double many times over */

typedef Vec(const char *) ModelNames;

/* Every field at its fallback, required ones at 0: to be filled in and checked. */
ModelConfig model_config_new(ModelArch arch);

/* Reads the text of a config.json. Returns NULL, or a message that names file, field, value and rule. `unknown` (or NULL) gets
 * the fields that no row of config.def names, each with what was probably meant. Texts are allocated in `a`. */
const char *model_config_read(Arena *a, const char *file, const char *text, size_t len, ModelConfig *out, ModelNames *unknown);
const char *model_config_load(Arena *a, const char *path, ModelConfig *out, ModelNames *unknown);

/* The config as JSON under the names of its architecture; read again, it has the same values. */
void model_config_write(const ModelConfig *c, Text *out);

/* NULL, or the broken rule: for a config that a program has filled in, not a file. */
const char *model_config_check(Arena *a, const char *file, ModelConfig *c);

/* ---- the rows as data, for documents and tests ---- */

typedef enum ConfigKind { CONFIG_INT, CONFIG_REAL, CONFIG_FLAG, CONFIG_CHOICE } ConfigKind;
typedef enum ConfigWhen { WHEN_ALWAYS, WHEN_MLA, WHEN_GQA } ConfigWhen;

typedef struct ConfigRow {
    ConfigKind kind;
    ConfigWhen when;
    const char *field, *name, *doc;
    const char *words;             /* of a choice, with a blank between two */
    size_t at;                     /* of the field in ModelConfig */
    int null;                      /* 0 is written as null */
    double least, most, fallback;  /* fallback: NAN where a value is required */
} ConfigRow;
extern const ConfigRow config_table[];
extern const uint32_t config_count;

double model_config_value(const ModelConfig *c, const ConfigRow *row); /* a choice: the number of its word */

#endif
