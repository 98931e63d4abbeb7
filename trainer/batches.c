/* Windows of the data. */
#include "trainer/data.h"

#include <math.h>
#include <stdlib.h>

#include "trainer/complain.h"

/* Where a window is. */
typedef struct TokenPlace {
    const TokenRun *run;
    int64_t at;
} TokenPlace;

/* n tokens from a place on. */
static int read_tokens(const Config *c, TokenPlace p, int64_t n, int32_t *out)
{
    const int64_t vocab = c->model_config.vocab;
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = run_token(p.run, p.at + i);
        if (token < 0 || token >= vocab)
            return complain("%s: token %lld is %lld, and the vocabulary has %lld: must be from 0 to %lld",
                            p.run->path, (long long)(p.run->first + p.at + i), (long long)token,
                            (long long)vocab, (long long)vocab - 1);
        out[i] = (int32_t)token;
    }
    return 0;
}

static int read_window(const Config *c, TokenPlace p, int32_t *ids, int32_t *targets)
{
    return read_tokens(c, p, c->sequence, ids) ||
           read_tokens(c, (TokenPlace){p.run, p.at + 1}, c->sequence, targets);
}

/* ---- training ---- */

/* Places where a window of the run can begin: the token behind it is needed, too. */
static int64_t places(const TokenRun *r, int64_t sequence)
{
    return r->len > sequence ? r->len - sequence : 0;
}

static int64_t windows_of(const TokenRun *r, int64_t sequence)
{
    const int64_t n = places(r, sequence);
    return n > sequence ? n / sequence : n > 0;
}

int64_t batch_windows(const TokenPart *part, int64_t sequence)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < part->runs.len; i++)
        n += windows_of(&part->runs.at[i], sequence);
    return n;
}

/* Note [Order of the data]. */
static TokenPlace train_place(const TokenPart *part, const Config *c, int64_t n)
{
    const int64_t S = c->sequence, windows = batch_windows(part, S), epoch = n / windows;
    const uint64_t order = hash_bytes(&epoch, sizeof epoch, (uint64_t)c->seed);
    int64_t window = random_permuted(order, n % windows, windows);
    uint32_t i = 0;
    for (; window >= windows_of(&part->runs.at[i], S); i++)
        window -= windows_of(&part->runs.at[i], S);
    const TokenRun *r = &part->runs.at[i];
    const int64_t room = places(r, S) < S ? places(r, S) : S;
    return (TokenPlace){r, window * S + (int64_t)(hash_bytes(&i, sizeof i, order) % (uint64_t)room)};
}

int batch_train(const TrainData *d, const Config *c, int64_t first, int64_t count, int32_t *ids,
                int32_t *targets)
{
    for (int64_t i = 0; i < count; i++)
        if (read_window(c, train_place(&d->train, c, first + i), ids + i * c->sequence,
                        targets + i * c->sequence))
            return 1;
    return 0;
}

/* ---- validation ---- */

/* Validation batches are those of a step, so that what they have does not depend on how a step is divided. */
static int64_t validation_windows(const Config *c) { return c->validation_batches * c->batch; }

/* Of the i-th validation sequence: the runs' places count as one row. */
static TokenPlace validation_place(const TokenPart *part, const Config *c, int64_t i)
{
    int64_t all = 0;
    for (uint32_t r = 0; r < part->runs.len; r++)
        all += places(&part->runs.at[r], c->sequence);
    int64_t at = (int64_t)((double)(all - 1) * (double)i / (double)validation_windows(c));
    const TokenRun *run = part->runs.at;
    for (; at >= places(run, c->sequence); run++)
        at -= places(run, c->sequence);
    return (TokenPlace){run, at};
}

int batch_validation(const TrainData *d, const Config *c, int64_t first, int64_t count, int32_t *ids,
                     int32_t *targets)
{
    for (int64_t i = 0; i < count; i++)
        if (read_window(c, validation_place(&d->valid, c, first + i), ids + i * c->sequence,
                        targets + i * c->sequence))
            return 1;
    return 0;
}

int batch_first(const TrainData *d, const Config *c, int64_t n, int32_t *ids)
{
    return read_tokens(c, validation_place(&d->valid, c, 0), n, ids);
}

/* ---- all of a part ---- */

static int64_t all_windows_of(const TokenRun *r, int64_t sequence)
{
    return places(r, sequence) ? (r->len - 2) / sequence + 1 : 0;
}

int64_t batch_all_windows(const TokenPart *part, int64_t sequence)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < part->runs.len; i++)
        n += all_windows_of(&part->runs.at[i], sequence);
    return n;
}

/* Of window n of the part; *again: its first targets that the window before it has. */
static TokenPlace all_place(const TokenPart *part, int64_t sequence, int64_t n, int64_t *again)
{
    const TokenRun *r = part->runs.at;
    for (; n >= all_windows_of(r, sequence); r++)
        n -= all_windows_of(r, sequence);
    const int64_t last = r->len - sequence - 1, at = n * sequence < last ? n * sequence : last;
    *again = n * sequence - at;
    return (TokenPlace){r, at};
}

int64_t batch_all(const TokenPart *part, const Config *c, int64_t first, int64_t count, int32_t *ids,
                  int32_t *targets, float *weights)
{
    const int64_t S = c->sequence, windows = batch_all_windows(part, S);
    int64_t counted = 0, again;
    for (int64_t i = 0; i < count; i++) {
        const int64_t n = first + i < windows ? first + i : windows - 1;
        if (read_window(c, all_place(part, S, n, &again), ids + i * S, targets + i * S))
            return -1;
        again = n < first + i ? S : again;
        for (int64_t k = 0; k < S; k++)
            weights[i * S + k] = k >= again;
        counted += S - again;
    }
    return counted;
}

double batch_bigram_loss(const TrainData *d, const Config *c)
{
    static const double prior = 1.0 / 256;
    uint64_t(*pairs)[256] = d->is_text ? calloc(256, sizeof *pairs) : NULL;
    uint64_t firsts[256] = {0};
    if (!pairs)
        return NAN;
    const TokenRun *train = d->train.runs.at;
    for (const uint8_t *p = train->at, *end = p + train->len - 1; p < end; p++) {
        pairs[p[0]][p[1]]++;
        firsts[p[0]]++;
    }
    double sum = 0;
    const int64_t windows = validation_windows(c);
    for (int64_t w = 0; w < windows; w++) {
        const TokenPlace place = validation_place(&d->valid, c, w);
        const uint8_t *p = place.run->at + place.at;
        for (int64_t i = 0; i < c->sequence; i++, p++)
            sum -= log(((double)pairs[p[0]][p[1]] + prior) / ((double)firsts[p[0]] + 1));
    }
    free(pairs);
    return sum / (double)(windows * c->sequence);
}
