#include "trainer/data.h"

#include <stdlib.h>

#include "trainer/checkpoint.h"
#include "trainer/complain.h"

static int check_size(const TrainData *d, const Config *c)
{
    const int whole = c->validation <= 0;
    if (batch_windows(&d->train, c->sequence) && (whole || batch_windows(&d->valid, c->sequence)))
        return 0;
    const long long files = (long long)d->files + d->documents, need = (long long)c->sequence + 1;
    if (whole)
        complain(
            "the data is too small: %lld tokens in %lld files or documents, and %lld (--sequence + 1) are "
            "needed in one piece",
            (long long)d->train.tokens, files, need);
    else
        complain("the data is too small: %lld tokens to train on and %lld to validate on in %lld files or "
                 "documents, and each "
                 "part needs %lld (--sequence + 1) in one piece",
                 (long long)d->train.tokens, (long long)d->valid.tokens, files, need);
    if (d->binary || d->empty || d->unreadable)
        complain("left out: %zu binary files, %zu empty, %zu unreadable", d->binary, d->empty, d->unreadable);
    return 1;
}

/* Behind what is wrong with paths that the command line has not. */
static void tell_source(const Config *c)
{
    if (c->source[OPTION_data] == FROM_CHECKPOINT)
        complain("this --data is from %s/" CHECKPOINT_OPTIONS ": give --data where the same data are now",
                 c->checkpoint);
    else if (c->source[OPTION_data] == FROM_FILE)
        complain("this --data is from %s", c->config);
}

int data_read(TrainData *d, const Config *c)
{
    *d = (TrainData){.arena = arena_new()};
    if (!d->arena)
        return complain("out of memory");
    const int tokens = data_is_tokens(c->data.at[0]);
    int bad = tokens ? data_read_tokens(d, c) : data_read_text(d, c);
    if (!bad)
        bad = check_size(d, c);
    if (bad) {
        tell_source(c);
        data_free(d);
    }
    return bad;
}

void data_free(TrainData *d)
{
    for (uint32_t i = 0; i < d->mapped.len; i++)
        file_unmap(&d->mapped.at[i]);
    free(d->bytes);
    arena_free(d->arena);
    *d = (TrainData){0};
}
