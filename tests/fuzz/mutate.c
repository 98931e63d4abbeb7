/* Mutations of program text, token by token, so that many mutants still parse: libFuzzer's own change bytes. Nine of ten
 * mutants are made here, from a few edits of one text; words and numbers are mostly taken from the text itself, so that
 * names keep meaning something. */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
                                 uint8_t *out, size_t max_size, unsigned seed);

typedef enum TokenClass { CLASS_WORD, CLASS_NUMBER, CLASS_SIGN, CLASS_OPEN, CLASS_CLOSE } TokenClass;

typedef struct Span {
    size_t at, len;
    TokenClass class_;
} Span;

enum { TOKENS_MAX = 4096 };

/* A text and its tokens, without the space between them. */
typedef struct Tokens {
    Span at[TOKENS_MAX];
    uint32_t n;
} Tokens;

static size_t run_length(const uint8_t *text, size_t size, size_t at, int (*is)(int))
{
    size_t len = 0;
    while (at + len < size && (is(text[at + len]) || text[at + len] == '_'))
        len++;
    return len;
}

static Span span_at(const uint8_t *text, size_t size, size_t at)
{
    static const char *const two[] = {"+=", "==", "!=", "<=", ">=", "->", ".."};
    if (isalpha(text[at]) || text[at] == '_')
        return (Span){at, run_length(text, size, at, isalnum), CLASS_WORD};
    if (isdigit(text[at]))
        return (Span){at, run_length(text, size, at, isdigit), CLASS_NUMBER};
    for (uint32_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at + 1 < size && memcmp(text + at, two[i], 2) == 0)
            return (Span){at, 2, CLASS_SIGN};
    return (Span){at, 1,
                  strchr("([{", text[at])   ? CLASS_OPEN
                  : strchr(")]}", text[at]) ? CLASS_CLOSE
                                            : CLASS_SIGN};
}

static void tokenise(const uint8_t *text, size_t size, Tokens *t)
{
    t->n = 0;
    for (size_t at = 0; at < size && t->n < TOKENS_MAX;)
        if (isspace(text[at]) || text[at] == '\0') {
            at++;
        } else {
            t->at[t->n] = span_at(text, size, at);
            at += t->at[t->n++].len;
        }
}

/* ---- edits ---- */

typedef struct Edit {
    uint8_t *data;
    size_t size, max;
    uint64_t random;
    Tokens *t;
} Edit;

static uint32_t below(Edit *e, uint32_t n)
{
    e->random = e->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((e->random >> 33) % n);
}

/* data[at, at + len) becomes `with`, which may lie in data. */
static void replace(Edit *e, size_t at, size_t len, const uint8_t *with, size_t with_len)
{
    uint8_t *copy = malloc(with_len + 1);
    if (copy && e->size - len + with_len <= e->max) {
        memcpy(copy, with, with_len);
        memmove(e->data + at + with_len, e->data + at + len, e->size - at - len);
        memcpy(e->data + at, copy, with_len);
        e->size += with_len - len;
    }
    free(copy);
}

static void replace_text(Edit *e, size_t at, size_t len, const char *with)
{
    replace(e, at, len, (const uint8_t *)with, strlen(with));
}

/* A token, or from an opening sign to its closing one, with the word before it now and then: a factor of an expression. */
static Span any_part(Edit *e)
{
    const Tokens *t = e->t;
    uint32_t first = below(e, t->n), last = first, depth = 0;
    if (t->at[first].class_ == CLASS_WORD && first + 1 < t->n && t->at[first + 1].class_ == CLASS_OPEN &&
        below(e, 3))
        last++;
    if (t->at[last].class_ == CLASS_OPEN)
        for (uint32_t i = last; i < t->n; i++) {
            depth += t->at[i].class_ == CLASS_OPEN;
            depth -= t->at[i].class_ == CLASS_CLOSE;
            if (depth == 0) {
                last = i;
                break;
            }
        }
    return (Span){t->at[first].at, t->at[last].at + t->at[last].len - t->at[first].at, t->at[first].class_};
}

static void part_by_part(Edit *e)
{
    Span to = any_part(e), from = any_part(e);
    for (int i = 0; i < 20 && from.class_ != to.class_; i++)
        from = any_part(e);
    replace(e, to.at, to.len, e->data + from.at, from.len);
}

static void insert_part(Edit *e)
{
    static const char *const signs[] = {" + ", " * ", ", ", " - ", " / ", " and ", " == ", " <= ", " "};
    Span at = any_part(e), from = any_part(e);
    char text[256];
    const char *sign = signs[below(e, sizeof signs / sizeof *signs)];
    if (strlen(sign) + from.len + 1 > sizeof text)
        return;
    memcpy(text, sign, strlen(sign));
    memcpy(text + strlen(sign), e->data + from.at, from.len);
    text[strlen(sign) + from.len] = '\0';
    replace_text(e, at.at + at.len, 0, text);
}

static void wrap_part(Edit *e)
{
    static const char *const before[] = {"exp(",     "sum(i where i < T) ",
                                         "(1 - ",    "if(t >= 1, ",
                                         "bf16(",    "f32(",
                                         "max2(1, ", "max(h) ",
                                         "stop(",    "-(",
                                         "not ",     "sum(h) "};
    static const char *const after[] = {")", "", ")", ", 0)", ")", ")", ")", "", ")", ")", "", ""};
    Span at = any_part(e);
    uint32_t i = below(e, sizeof before / sizeof *before);
    replace_text(e, at.at + at.len, 0, after[i]);
    replace_text(e, at.at, 0, before[i]);
}

static void drop_part(Edit *e)
{
    Span at = any_part(e);
    replace_text(e, at.at, at.len, "");
}

static void another_sign(Edit *e)
{
    static const char *const signs[] = {
        "+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "=", "+=", ","};
    for (int i = 0; i < 20; i++) {
        Span at = e->t->at[below(e, e->t->n)];
        if (at.class_ == CLASS_SIGN) {
            replace_text(e, at.at, at.len, signs[below(e, sizeof signs / sizeof *signs)]);
            return;
        }
    }
}

static void another_word(Edit *e)
{
    static const char *const words[] = {
        "0",   "1",    "2",    "3",   "16",  "64",          "1e30",   "0.5", "bf16",      "f32",
        "f16", "i32",  "sum",  "max", "min", "packed",      "in",     "out", "inout",     "exp",
        "T",   "silu", "tanh", "t",   "h",   "packed both", "f32[T]", "top", "2147483648"};
    Span at = e->t->at[below(e, e->t->n)];
    if (at.class_ == CLASS_WORD || at.class_ == CLASS_NUMBER)
        replace_text(e, at.at, at.len, words[below(e, sizeof words / sizeof *words)]);
}

/* From the begin of a line to the end of it. */
static Span any_line(Edit *e)
{
    size_t at = e->size ? below(e, (uint32_t)e->size) : 0, end = at;
    while (at > 0 && e->data[at - 1] != '\n')
        at--;
    while (end < e->size && e->data[end] != '\n')
        end++;
    return (Span){at, end + (end < e->size) - at, CLASS_SIGN};
}

static void line_by_line(Edit *e)
{
    Span from = any_line(e), to = any_line(e);
    switch (below(e, 3)) {
    case 0: replace(e, to.at, 0, e->data + from.at, from.len); break;
    case 1: replace(e, to.at, to.len, e->data + from.at, from.len); break;
    default: replace_text(e, to.at, to.len, ""); break;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static void (*const edits[])(Edit *) = {part_by_part, part_by_part, part_by_part, insert_part,
                                            wrap_part,    drop_part,    another_sign, another_word,
                                            another_word, line_by_line};
    static Tokens tokens;
    Edit e = {.data = data, .size = size, .max = max_size, .random = seed, .t = &tokens};
    if (below(&e, 10) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t left = 1 + below(&e, 4); left > 0; left--) {
        tokenise(data, e.size, &tokens);
        if (tokens.n == 0)
            return LLVMFuzzerMutate(data, e.size, max_size);
        edits[below(&e, sizeof edits / sizeof *edits)](&e);
    }
    return e.size;
}

/* A line of the other text is put between two lines. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
                                 uint8_t *out, size_t max_size, unsigned seed)
{
    Edit other = {.data = (uint8_t *)(uintptr_t)data2, .size = size2, .max = max_size, .random = seed};
    Edit e = {.data = out, .size = size1 < max_size ? size1 : max_size, .max = max_size, .random = seed + 1u};
    memcpy(out, data1, e.size);
    Span from = any_line(&other), to = any_line(&e);
    replace(&e, to.at, below(&e, 2) ? to.len : 0, data2 + from.at, from.len);
    return e.size;
}
