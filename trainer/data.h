/* The tokens to learn from: bytes of text, or files of tokens. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "base/base.h"
#include "trainer/config.h"

/* Tokens one behind the other: unsigned numbers of `width` bytes, 1, 2, 4 or 8. */
typedef struct TokenRun {
    const unsigned char *at;
    int width;
    int64_t len;
    const char *path; /* of the file, for messages */
    int64_t first;    /* the number of the first token there */
} TokenRun;
typedef Vec(TokenRun) TokenRuns;

static inline int64_t run_token(const TokenRun *r, int64_t i)
{
    switch (r->width) {
    case 1: return r->at[i];
    case 2: return ((const uint16_t *)(const void *)r->at)[i];
    case 4: return ((const int32_t *)(const void *)r->at)[i];
    default: return ((const int64_t *)(const void *)r->at)[i];
    }
}

/* What a part of the data has: its runs, which no window crosses. */
typedef struct TokenPart {
    TokenRuns runs;
    int64_t tokens;
} TokenPart;

typedef struct TrainData {
    Arena *arena;
    TokenPart train, valid;
    int is_text; /* tokens are bytes of text files; else they come from files of tokens */
    size_t files, valid_files, unreadable, binary, empty; /* of text */
    int64_t documents;                                    /* of files of tokens */
    int64_t fingerprint;                                  /* differs where the data do */
    uint8_t *bytes;                                       /* of text */
    Vec(MappedFile) mapped;                               /* files of tokens */
} TrainData;

static inline int64_t data_fingerprint(const TrainData *d) { return d->fingerprint; }

/* Reads text, or maps the files of tokens; with a share for validation of 0 all of it is the training part. Returns 0, or 1 with a message
 * printed. */
int data_read(TrainData *d, const Config *c);
void data_free(TrainData *d);

/* data_text.c: all files one after the other, in the order of a hash of their names, each ended by a 0 byte. The first ones are the
 * validation part: so a file is wholly in one part, and which part does not depend on where it lies. */
int data_read_text(TrainData *d, const Config *c);

/* data_tokens.c: files PREFIX.bin and PREFIX.idx, as Megatron writes them. The first documents of each are for validation. */
int data_is_tokens(const char *path); /* names such a file, or the prefix */
int data_read_tokens(TrainData *d, const Config *c);

/* ---- windows: batches.c ----
 *
 * Windows of --sequence tokens and of the tokens that follow each of them: ids and targets, each [count, sequence].
 *
 * Note [Order of the data]. An epoch cuts each run of the training part into windows one behind the other, from a place that --seed and
 * the epoch choose, and goes through all of them in an order that these choose. So the number of a sequence (0, 1, ... from the
 * beginning of the run) is all that says where it is: there is no list, and a run that goes on needs no other state.
 *
 * Validation windows are spread evenly, the same for every model. */

int64_t batch_windows(const TokenPart *part, int64_t sequence); /* of an epoch; 0: the part is too small */
/* Both return 0, or 1 with a message printed: a token is beyond the vocabulary. */
int batch_train(const TrainData *d, const Config *c, int64_t first, int64_t count, int32_t *ids, int32_t *targets);
int batch_validation(const TrainData *d, const Config *c, int64_t first, int64_t count, int32_t *ids, int32_t *targets);

/* Windows of a part from its beginning to its end, in which each token but the first one of a run is a target that counts once: window n
 * of a run begins n * --sequence behind its begin, but the last one ends with the run, and targets that the one before it has have the
 * weight 0. A run without --sequence + 1 tokens has none. batch_all() also takes numbers behind the last window: nothing of these counts.
 * Returns the targets that count, or -1 with a message printed. */
int64_t batch_all_windows(const TokenPart *part, int64_t sequence);
int64_t batch_all(const TokenPart *part, const Config *c, int64_t first, int64_t count, int32_t *ids, int32_t *targets, float *weights);

/* The first n <= --sequence tokens of the validation part. */
int batch_first(const TrainData *d, const Config *c, int64_t n, int32_t *ids);

/* Cross entropy, in nat per byte, of the bigram model of the training part (counts plus 1/256) on the bytes of the validation batches;
 * NAN where tokens are not bytes. */
double batch_bigram_loss(const TrainData *d, const Config *c);

#endif
