/* The bytes to learn from. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "base/base.h"
#include "trainer/config.h"

/* All files one after the other, in the order of a hash of their names, each ended by a 0 byte. The first
 * ones are the validation part: so a file is wholly in one part, and which part does not depend on where it
 * lies. */
typedef struct TrainData {
    uint8_t *bytes;
    size_t valid_len, train_len; /* bytes[0 .. valid_len) and the train_len bytes after them */
    size_t files, valid_files, unreadable, binary, empty;
} TrainData;

/* Returns 0, or 1 with a message printed. */
int data_read(TrainData *d, const Config *c);
void data_free(TrainData *d);
int64_t data_fingerprint(const TrainData *d); /* differs where the data do */

/* Windows of --sequence bytes and of the bytes that follow each of them: ids and targets, each [count, sequence].
 *
 * Note [Order of the data]. An epoch cuts the training part into windows one behind the other, from a place that --seed and the
 * epoch choose, and goes through them in an order that these choose. So the number of a sequence (0, 1, ... from the beginning of
 * the run) is all that says where it is: there is no list, and a run that goes on needs no other state.
 *
 * Validation windows are spread evenly, the same for every model. */
void data_train_batch(const TrainData *d, const Config *c, int64_t first, int64_t count, int32_t *ids, int32_t *targets);
void data_validation_batch(const TrainData *d, const Config *c, int64_t batch, int32_t *ids, int32_t *targets);

/* Cross entropy, in nat per byte, of the bigram model of the training part (counts plus 1/256) on the bytes
 * of the validation batches. */
double data_bigram_loss(const TrainData *d, const Config *c);

#endif
