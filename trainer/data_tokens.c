/* Files of tokens as Megatron-LM writes them. PREFIX.bin: the tokens of all sequences. PREFIX.idx: "MMIDIDX\0\0", the version 1 (u64), the
 * type of a token (u8), the numbers of sequences and of documents plus one (u64), then for each sequence its length (i32), for
 * each its first byte (i64), and for each document the number of its first sequence (i64), ended by that of sequences. */
#include "trainer/data.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "trainer/complain.h"

enum { HEADER_BYTES = 34, CODES = 9 };

typedef struct TokenIndex {
    const char *path;
    int width;
    int64_t sequences, documents;
    const unsigned char *lengths, *begins, *firsts; /* not aligned */
} TokenIndex;

static int64_t i64_at(const unsigned char *at, int64_t i)
{
    int64_t v;
    memcpy(&v, at + i * (int64_t)sizeof v, sizeof v);
    return v;
}

static int32_t i32_at(const unsigned char *at, int64_t i)
{
    int32_t v;
    memcpy(&v, at + i * (int64_t)sizeof v, sizeof v);
    return v;
}

/* ---- paths ---- */

/* Without .bin or .idx. */
static const char *prefix_of(Arena *a, const char *path)
{
    const size_t n = strlen(path);
    const int named = n > 4 && (!strcmp(path + n - 4, ".bin") || !strcmp(path + n - 4, ".idx"));
    return arena_strndup(a, path, named ? n - 4 : n);
}

int data_is_tokens(const char *path)
{
    struct stat st;
    const size_t n = strlen(path);
    if (n > 4 && (!strcmp(path + n - 4, ".bin") || !strcmp(path + n - 4, ".idx")))
        return 1;
    Arena *a = arena_new();
    const int both = a && stat(path, &st) != 0 && stat(arena_printf(a, "%s.idx", path), &st) == 0;
    arena_free(a);
    return both;
}

/* ---- the index ---- */

static const char *flaw(Arena *a, const TokenIndex *x, const char *why)
{
    return arena_printf(a, "%s: %s", x->path, why);
}

static const char *read_index(Arena *a, const MappedFile *f, TokenIndex *x)
{
    static const int widths[CODES] = {[1] = 1, [4] = 4, [5] = 8, [8] = 2}; /* u8, i32, i64, u16 */
    if (f->len < HEADER_BYTES || memcmp(f->at, "MMIDIDX\0\0", 9) != 0 || i64_at(f->at + 9, 0) != 1)
        return flaw(a, x, "is no index of tokens: it must begin with MMIDIDX and version 1");
    const unsigned code = f->at[17];
    x->width = code < CODES ? widths[code] : 0;
    if (!x->width)
        return arena_printf(a,
                            "%s: tokens have type %u: must be 1 (uint8), 8 (uint16), 4 (int32) or 5 (int64)",
                            x->path, code);
    x->sequences = i64_at(f->at + 18, 0), x->documents = i64_at(f->at + 26, 0);
    const int64_t most = (int64_t)f->len;
    if (x->sequences < 1 || x->documents < 2 || x->sequences > most || x->documents > most ||
        HEADER_BYTES + x->sequences * 12 + x->documents * 8 > most)
        return flaw(a, x, "is shorter than its numbers of sequences and documents say, or has none");
    x->lengths = f->at + HEADER_BYTES;
    x->begins = x->lengths + 4 * x->sequences;
    x->firsts = x->begins + 8 * x->sequences;
    return NULL;
}

/* Sequences lie one behind the other, and documents have them in order; `tokens`: of the .bin. */
static const char *check_index(Arena *a, const TokenIndex *x, int64_t tokens)
{
    int64_t at = 0;
    for (int64_t i = 0; i < x->sequences && at <= tokens; i++) {
        if (i32_at(x->lengths, i) < 0 || i64_at(x->begins, i) != at * x->width)
            return arena_printf(a, "%s: sequence %lld does not begin where the one before it ends", x->path,
                                (long long)i);
        at += i32_at(x->lengths, i);
    }
    if (at != tokens)
        return arena_printf(a, "%s: has %lld tokens, and the .bin beside it %lld", x->path, (long long)at,
                            (long long)tokens);
    for (int64_t i = 0; i < x->documents; i++)
        if (i64_at(x->firsts, i) < (i ? i64_at(x->firsts, i - 1) : 0) || i64_at(x->firsts, i) > x->sequences)
            return arena_printf(a, "%s: document %lld does not begin behind the one before it", x->path,
                                (long long)i);
    return NULL;
}

/* ---- the tokens ---- */

/* Tokens of the first documents that are `share` of all, or more; but for the last document. One document: its beginning. A share of 0:
 * none. */
static int64_t validation_tokens(const TokenIndex *x, int64_t tokens, double share)
{
    const int64_t want = (int64_t)(share * (double)tokens);
    if (x->documents == 2 || share <= 0)
        return want;
    for (int64_t i = 1; i < x->documents - 1; i++) {
        const int64_t first = i64_at(x->firsts, i),
                      at = first < x->sequences ? i64_at(x->begins, first) / x->width : tokens;
        if (at >= want || i == x->documents - 2)
            return at;
    }
    return want;
}

static void add_run(TrainData *d, TokenPart *part, TokenRun r)
{
    vec_push(d->arena, &part->runs, r);
    part->tokens += r.len;
}

/* The same file has the same index, length and beginning. */
static void add_fingerprint(TrainData *d, const MappedFile *index, const MappedFile *tokens)
{
    enum { BEGINNING = 1 << 20 };
    uint64_t h = hash_bytes(index->at, index->len, (uint64_t)d->fingerprint);
    h = hash_bytes(tokens->at, tokens->len < BEGINNING ? tokens->len : BEGINNING, h + tokens->len);
    d->fingerprint = (int64_t)h;
}

static const char *add_file(TrainData *d, const Config *c, const char *path)
{
    const char *prefix = prefix_of(d->arena, path), *bin = arena_printf(d->arena, "%s.bin", prefix);
    TokenIndex x = {.path = arena_printf(d->arena, "%s.idx", prefix)};
    MappedFile index = {0}, tokens = {0};
    const char *error = file_map(d->arena, x.path, &index);
    if (!error)
        error = file_map(d->arena, bin, &tokens);
    vec_push(d->arena, &d->mapped, index);
    vec_push(d->arena, &d->mapped, tokens);
    if (!error)
        error = read_index(d->arena, &index, &x);
    const int64_t n = x.width ? (int64_t)tokens.len / x.width : 0;
    if (!error)
        error = check_index(d->arena, &x, n);
    if (error)
        return error;
    if (tokens.at) /* windows are read here and there: what lies behind them is not wanted */
        madvise((void *)(uintptr_t)tokens.at, tokens.len, MADV_RANDOM);
    const int64_t valid = validation_tokens(&x, n, c->validation);
    add_run(d, &d->valid, (TokenRun){tokens.at, x.width, valid, bin, 0});
    add_run(d, &d->train, (TokenRun){tokens.at + valid * x.width, x.width, n - valid, bin, valid});
    d->documents += x.documents - 1;
    add_fingerprint(d, &index, &tokens);
    return NULL;
}

int data_read_tokens(TrainData *d, const Config *c)
{
    for (uint32_t i = 0; i < c->data.len; i++) {
        const char *error =
            data_is_tokens(c->data.at[i])
                ? add_file(d, c, c->data.at[i])
                : arena_printf(d->arena, "%s: text and files of tokens cannot be mixed", c->data.at[i]);
        if (error)
            return complain("--data %s", error);
    }
    return 0;
}
