/* The tokens of tile text. */
#include "ir/tile_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void token_fail(TileReader *r, DiagCode code, Loc loc, const char *format, ...)
{
    if (r->failed)
        return;
    va_list args;
    va_start(args, format);
    const char *message = arena_vprintf(r->m->arena, format, args);
    va_end(args);
    diag_add(r->m->diags, code, loc, NULL, "%s", message);
    r->failed = 1;
    r->at = r->end;
    r->token.kind = r->ahead.kind = TOKEN_END;
    r->token.text = r->ahead.text = "";
}

static void skip_space(TileReader *r)
{
    while (r->at < r->end) {
        if (*r->at == '\n') {
            r->line++;
            r->col = 1;
        } else if (r->at + 1 < r->end && r->at[0] == '/' && r->at[1] == '/') {
            while (r->at + 1 < r->end && r->at[1] != '\n')
                r->at++;
        } else if (isspace((unsigned char)*r->at)) {
            r->col++;
        } else {
            return;
        }
        r->at++;
    }
}

static TileToken new_token(const TileReader *r, TokenKind kind)
{
    return (TileToken){.kind = kind, .loc = {r->file, r->line, r->col, 1}, .text = ""};
}

static void consume(TileReader *r, TileToken *t, size_t len)
{
    t->loc.len = (uint32_t)len;
    r->col += (uint32_t)len;
    r->at += len;
}

static TileToken read_word(TileReader *r)
{
    TileToken t = new_token(r, TOKEN_WORD);
    size_t len = 0;
    while (r->at + len < r->end && (isalnum((unsigned char)r->at[len]) || r->at[len] == '_'))
        len++;
    t.text = name_of_bytes(r->m->names, r->at, len);
    consume(r, &t, len);
    return t;
}

static size_t digits(const TileReader *r, size_t from)
{
    size_t len = from;
    while (r->at + len < r->end && isdigit((unsigned char)r->at[len]))
        len++;
    return len;
}

/* Length of a number; *real: it has a fraction or an exponent. `0..4` is an integer before a range sign. */
static size_t number_length(const TileReader *r, int *real)
{
    size_t len = digits(r, 0), left = (size_t)(r->end - r->at);
    *real = 0;
    if (len < left && r->at[len] == '.' && !(len + 1 < left && r->at[len + 1] == '.')) {
        *real = 1;
        len = digits(r, len + 1);
    }
    if (len < left && (r->at[len] == 'e' || r->at[len] == 'E')) {
        size_t sign = len + 1 < left && (r->at[len + 1] == '-' || r->at[len + 1] == '+');
        size_t end = digits(r, len + 1 + sign);
        if (end > len + 1 + sign) {
            *real = 1;
            len = end;
        }
    }
    return len;
}

static TileToken read_number(TileReader *r)
{
    int real;
    size_t len = number_length(r, &real);
    TileToken t = new_token(r, real ? TOKEN_FLOAT : TOKEN_INT);
    char *text = arena_strndup(r->m->arena, r->at, len);
    consume(r, &t, len);
    if (real) {
        t.f = strtod(text, NULL); /* beyond the range: infinity, which has no other spelling */
        return t;
    }
    errno = 0;
    t.i = strtoull(text, NULL, 10);
    if (errno || t.i > (uint64_t)INT64_MAX + 1)
        token_fail(r, DIAG_tile_syntax, t.loc, "the number %s does not fit 64 bits", text);
    return t;
}

static TileToken read_string(TileReader *r)
{
    TileToken t = new_token(r, TOKEN_STRING);
    Text text = {.arena = r->m->arena};
    const char *p = r->at + 1;
    while (p < r->end && *p != '"' && *p != '\n') {
        if (*p == '\\' && p + 1 < r->end)
            p++;
        text_add_bytes(&text, p++, 1);
    }
    int closed = p < r->end && *p == '"';
    consume(r, &t, (size_t)(p - r->at) + (closed ? 1 : 0));
    t.text = text_string(&text);
    if (!closed)
        token_fail(r, DIAG_tile_syntax, t.loc, "a text is not closed by \" before the line ends");
    return t;
}

static TileToken read_sign(TileReader *r)
{
    static const char *const signs[] = {"..", "->", "+=", "==", "!=", "<=", ">="};
    TileToken t = new_token(r, TOKEN_SIGN);
    size_t len = 1;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (r->at + 1 < r->end && memcmp(r->at, signs[i], 2) == 0)
            len = 2;
    t.text = name_of_bytes(r->m->names, r->at, len);
    int known = len == 2 || (*r->at && strchr("()[]{},:;=<>+-*/@.%", *r->at));
    int byte = (unsigned char)*r->at;
    consume(r, &t, len);
    if (!known)
        token_fail(r, DIAG_tile_syntax, t.loc, "the byte 0x%02x means nothing in tile text", byte);
    return t;
}

static TileToken read_token(TileReader *r)
{
    skip_space(r);
    if (r->at >= r->end)
        return new_token(r, TOKEN_END);
    unsigned char c = (unsigned char)*r->at;
    if (isalpha(c) || c == '_')
        return read_word(r);
    if (isdigit(c))
        return read_number(r);
    return c == '"' ? read_string(r) : read_sign(r);
}

void token_next(TileReader *r)
{
    r->token = r->ahead;
    TileToken t = read_token(r);
    if (!r->failed)
        r->ahead = t;
}

void token_start(TileReader *r, const char *text, size_t len)
{
    r->at = text;
    r->end = text + len;
    r->line = r->col = 1;
    token_next(r);
    token_next(r);
}

int token_is(const TileReader *r, const char *text)
{
    return (r->token.kind == TOKEN_WORD || r->token.kind == TOKEN_SIGN) && strcmp(r->token.text, text) == 0;
}

int token_take(TileReader *r, const char *text)
{
    if (!token_is(r, text))
        return 0;
    token_next(r);
    return 1;
}

static const char *token_spelling(const TileReader *r)
{
    switch (r->token.kind) {
    case TOKEN_END: return "the end of the text";
    case TOKEN_INT:
    case TOKEN_FLOAT: return "a number";
    case TOKEN_STRING: return "a text";
    case TOKEN_WORD:
    case TOKEN_SIGN: break;
    }
    return arena_printf(r->m->arena, "`%s`", r->token.text);
}

void token_expect(TileReader *r, const char *text)
{
    if (!token_take(r, text))
        token_fail(r, DIAG_tile_syntax, r->token.loc, "expected `%s` but found %s", text, token_spelling(r));
}

Name token_word(TileReader *r, const char *what)
{
    Name word = r->token.text;
    if (r->token.kind != TOKEN_WORD)
        token_fail(r, DIAG_tile_syntax, r->token.loc, "expected %s but found %s", what, token_spelling(r));
    token_next(r);
    return r->failed ? name_of(r->m->names, "") : word;
}

int64_t token_int(TileReader *r, const char *what)
{
    TileToken t = r->token;
    if (t.kind != TOKEN_INT || t.i > INT64_MAX)
        token_fail(r, DIAG_tile_syntax, t.loc, "expected %s but found %s", what, token_spelling(r));
    token_next(r);
    return r->failed ? 0 : (int64_t)t.i;
}
