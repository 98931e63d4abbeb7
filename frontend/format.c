/* `moec fmt`: .moe text in its usual layout, by its words alone.
 *
 * Lines stay lines, and of blank ones one is kept. All else is decided here: blanks between words, the indent of each line, the
 * column of `=` in equations that follow each other and of the comments behind them. Arithmetic signs keep whether blanks are
 * around them, because `T*K` and `a + b` both read well. Words and comments stay as they are, so a program keeps its meaning. */
#include "frontend/frontend.h"

#include "frontend/parser.h"

#include "moe_parser.h"

#include <string.h>

enum {
    INDENT = 2,
    GOES_ON = 4,        /* more, where a line goes on with an equation */
    INSIDE_MOST = 80,   /* the column of a line inside brackets, where deeper ones are no further in */
    EQUALS_APART = 8,   /* left sides that differ by more are not aligned */
    BEFORE_COMMENT = 2, /* blanks, at least */
};

typedef struct FmtWord {
    int kind;
    const char *at;
    size_t len;
    int blank; /* blanks or a line's end stood before it */
} FmtWord;

typedef struct FmtLine {
    uint32_t first, end; /* words; none: a line of comment only */
    const char *comment; /* up to the end of the line; NULL: none */
    size_t comment_len;
    int blank; /* a blank line stands before it */
    /* as it is laid out */
    size_t indent, pad; /* blanks before the first word; more before `equals` */
    uint32_t equals;    /* the `=` of the equation that begins here; 0: none */
    int opens, closes;  /* ends with a `{`, begins with a `}` */
    const char *text;
} FmtLine;

typedef struct Format {
    Arena *arena;
    Vec(FmtWord) words;
    Vec(FmtLine) lines;
    /* while lines are laid out */
    Vec(size_t) columns; /* behind each bracket that is open */
    int depth;           /* of braces */
    int declaration;     /* the word that began it */
} Format;

static int kind_of(const Format *f, uint32_t word)
{
    return word < f->words.len ? f->words.at[word].kind : MOE_EOF;
}

static int is(const Format *f, uint32_t word, int kind) { return kind_of(f, word) == kind; }

/* ---- lines of words and comments ---- */

static size_t without_blanks(const char *at, size_t len)
{
    while (len && strchr(" \t\r\f\v", at[len - 1]))
        len--;
    return len;
}

/* Notes the comments between two words; returns whether a line ends there, and in *empty the lines without anything since then. */
static int add_gap(Format *f, const char *at, const char *end, uint32_t *empty)
{
    int ended = f->words.len == 0;
    *empty = 0;
    for (; at < end; at++) {
        if (*at == '\n') {
            *empty += ended && f->lines.len ? 1 : 0;
            ended = 1;
        }
        if (*at != '/')
            continue;
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (ended)
            vec_push(f->arena, &f->lines,
                     (FmtLine){.first = f->words.len, .end = f->words.len, .blank = *empty > 0});
        FmtLine *line = &f->lines.at[f->lines.len - 1];
        line->comment = at;
        line->comment_len = without_blanks(at, (size_t)(stop - at));
        at = stop - 1;
        *empty = 0;
        ended = 0;
    }
    return ended;
}

static int read_lines(Format *f, const char *text, size_t len)
{
    Parser *scan = parser_trial(f->arena, text, len);
    ParserToken t;
    size_t end = 0;
    uint32_t empty;
    do {
        scanner_next(scan, &t);
        int first = add_gap(f, text + end, text + t.offset, &empty);
        if (t.kind == MOE_EOF)
            break;
        if (first)
            vec_push(f->arena, &f->lines, (FmtLine){.first = f->words.len, .blank = empty > 0});
        vec_push(f->arena, &f->words, (FmtWord){t.kind, text + t.offset, t.loc.len, t.offset > end});
        f->lines.at[f->lines.len - 1].end = f->words.len;
        end = t.offset + t.loc.len;
    } while (t.kind != MOE_error);
    scanner_close(scan);
    return t.kind == MOE_EOF;
}

/* ---- blanks between words ---- */

static int ends_value(int kind)
{
    return kind == NAME || kind == INTEGER || kind == REAL || kind == ')' || kind == ']';
}

static int is_called(int kind)
{
    return kind == NAME || parser_is_elem(kind) || kind == KW_SUM || kind == KW_MAX || kind == KW_MIN ||
           kind == KW_TOP || kind == KW_IF || kind == KW_STOP || kind == KW_ROUTE;
}

static int is_binary(const Format *f, uint32_t word)
{
    int kind = kind_of(f, word);
    return (kind == '+' || kind == '-' || kind == '*' || kind == '/') && word > 0 &&
           ends_value(kind_of(f, word - 1));
}

/* Words of test and schedule blocks, where `T=33` and `M = 64` are usual. */
static int is_block(const Format *f) { return f->depth > 0 && f->declaration != KW_KERNEL; }

/* A sign that has blanks on both sides or on none, as the text has it on one of them. */
static int as_written(const Format *f, uint32_t sign)
{
    return f->words.at[sign].blank || f->words.at[sign + 1].blank;
}

static int is_free(const Format *f, uint32_t word)
{
    return is_binary(f, word) || (is(f, word, '=') && is_block(f));
}

static int blank_before(const Format *f, uint32_t b)
{
    uint32_t a = b - 1;
    int left = kind_of(f, a), right = kind_of(f, b);
    if (left == '(' || left == '[' || left == '@' || left == '.' || right == ')' || right == ']' ||
        right == ',' || right == ';' || right == '.')
        return 0;
    if (left == '-' && !is_binary(f, a))
        return 0;
    if (is_free(f, a))
        return as_written(f, a);
    if (right == '(' || right == '[')
        return right == '(' ? !is_called(left) : !(left == NAME || parser_is_elem(left) || left == KW_ROUTE);
    if (left == '?' || right == '%' || left == '%')
        return left == '?' ? 0 : f->words.at[b].blank;
    if (is_free(f, b))
        return as_written(f, b);
    if (right == ':')
        return f->columns.len == 0;
    if (f->columns.len && (left == '{' || right == '}')) /* ?{32, 64} */
        return 0;
    return 1;
}

/* ---- a line ---- */

/* Does the line go on with the statement of the line before it? */
static int goes_on(const Format *f, const FmtLine *line)
{
    int kind = kind_of(f, line->first), before = line->first ? kind_of(f, line->first - 1) : MOE_EOF;
    if (f->depth == 0)
        return !parser_begins_declaration(kind) && kind != KW_MOE && kind != '}' && kind != '{' &&
               kind != ';';
    if (is_block(f) || kind == '}' || kind == ';')
        return 0;
    return kind != NAME || !(ends_value(before) || before == '{' || before == ';' || before == '}');
}

static size_t indent_of(const Format *f, const FmtLine *line)
{
    if (f->columns.len)
        return f->columns.at[f->columns.len - 1];
    size_t base = (size_t)(line->closes && f->depth ? f->depth - 1 : f->depth) * INDENT;
    if (line->first == line->end || !goes_on(f, line))
        return base;
    return base + (f->depth ? GOES_ON : INDENT);
}

/* Where lines go on behind a bracket: behind it, or a little further in than its own line where that is its end or would be far out. */
static size_t inside(const FmtLine *line, uint32_t bracket, size_t column)
{
    const size_t further = line->indent + GOES_ON < INSIDE_MOST ? line->indent + GOES_ON : INSIDE_MOST;
    return bracket + 1 < line->end && column <= INSIDE_MOST ? column : further;
}

static void track(Format *f, const FmtLine *line, uint32_t word, size_t column)
{
    int kind = kind_of(f, word), choice = kind == '{' && word > 0 && is(f, word - 1, '?');
    if (f->depth == 0 && f->columns.len == 0 && parser_begins_declaration(kind))
        f->declaration = kind;
    if (kind == '(' || kind == '[' || choice)
        vec_push(f->arena, &f->columns, inside(line, word, column));
    else if (kind == '{')
        f->depth++;
    else if ((kind == ')' || kind == ']' || kind == '}') && f->columns.len)
        f->columns.len--;
    else if (kind == '}' && f->depth)
        f->depth--;
}

/* Writes words from..to and follows their brackets. */
static void put_words(Format *f, const FmtLine *line, uint32_t from, uint32_t to, Text *out)
{
    for (uint32_t i = from; i < to; i++) {
        size_t pad = line->equals == i && i > line->first ? line->pad : 0;
        if (i > line->first && blank_before(f, i))
            text_add(out, "%*s", (int)pad + 1, "");
        text_add_bytes(out, f->words.at[i].at, f->words.at[i].len);
        track(f, line, i, out->len);
    }
}

/* The `=` of an equation that begins with this line, or 0. */
static uint32_t equals_of(const Format *f, const FmtLine *line)
{
    int open = 0;
    if (f->depth != 1 || f->declaration != KW_KERNEL || f->columns.len || goes_on(f, line))
        return 0;
    for (uint32_t i = line->first; i < line->end; i++) {
        open += is(f, i, '(') || is(f, i, '[') ? 1 : is(f, i, ')') || is(f, i, ']') ? -1 : 0;
        if (open == 0 && (is(f, i, '=') || is(f, i, ADD_TO)))
            return i;
    }
    return 0;
}

/* ---- columns of `=` ---- */

/* Lays the lines out once, so that each knows its `=`, and how far left sides reach. */
static size_t *left_sides(Format *f)
{
    size_t *width = arena_array(f->arena, size_t, f->lines.len + 1);
    for (uint32_t i = 0; i < f->lines.len; i++) {
        FmtLine *line = &f->lines.at[i];
        Text out = {.arena = f->arena};
        line->closes = line->first < line->end && is(f, line->first, '}');
        line->opens = line->first < line->end && is(f, line->end - 1, '{');
        line->equals = line->first < line->end ? equals_of(f, line) : 0;
        if (line->equals)
            put_words(f, line, line->first, line->equals, &out);
        width[i] = out.len;
        put_words(f, line, line->equals ? line->equals : line->first, line->end, &out);
    }
    f->depth = f->declaration = 0;
    f->columns.len = 0;
    return width;
}

static void align_equals(Format *f)
{
    const size_t *width = left_sides(f);
    for (uint32_t from = 0, to; from < f->lines.len; from = to) {
        size_t most = 0, least = SIZE_MAX;
        for (to = from; to < f->lines.len && f->lines.at[to].equals && (to == from || !f->lines.at[to].blank);
             to++) {
            most = width[to] > most ? width[to] : most;
            least = width[to] < least ? width[to] : least;
        }
        for (uint32_t i = from; i < to && most - least <= EQUALS_APART; i++)
            f->lines.at[i].pad = most - width[i];
        to += to == from ? 1 : 0;
    }
}

/* ---- all ---- */

static void lay_out(Format *f)
{
    for (uint32_t i = 0; i < f->lines.len; i++) {
        FmtLine *line = &f->lines.at[i];
        Text out = {.arena = f->arena};
        line->indent = indent_of(f, line);
        text_add(&out, "%*s", (int)line->indent, "");
        put_words(f, line, line->first, line->end, &out);
        line->text = text_string(&out);
    }
}

/* The column of comments behind the lines from..: of those up to a blank line, a line of comment only, or a brace. */
static size_t comment_column(const Format *f, uint32_t from, uint32_t *to)
{
    size_t column = 0;
    for (*to = from; *to < f->lines.len; ++*to) {
        const FmtLine *line = &f->lines.at[*to];
        if (*to > from &&
            (line->blank || line->first == line->end || line->closes || f->lines.at[*to - 1].opens))
            break;
        size_t width = strlen(line->text);
        column = line->comment && width > column ? width : column;
    }
    return column + BEFORE_COMMENT;
}

static const char *put_lines(Format *f)
{
    Text out = {.arena = f->arena};
    for (uint32_t i = 0, to; i < f->lines.len; i = to) {
        size_t column = comment_column(f, i, &to);
        for (; i < to; i++) {
            const FmtLine *line = &f->lines.at[i];
            size_t blanks = line->first == line->end ? 0 : column - strlen(line->text);
            text_add(&out, "%s%s", line->blank ? "\n" : "", line->text);
            if (line->comment)
                text_add(&out, "%*s%.*s", (int)blanks, "", (int)line->comment_len, line->comment);
            text_add(&out, "\n");
        }
    }
    return text_string(&out);
}

static int same_words(const Format *a, const Format *b)
{
    if (a->words.len != b->words.len)
        return 0;
    for (uint32_t i = 0; i < a->words.len; i++) {
        const FmtWord *x = &a->words.at[i], *y = &b->words.at[i];
        if (x->kind != y->kind || x->len != y->len || memcmp(x->at, y->at, x->len) != 0)
            return 0;
    }
    return 1;
}

const char *frontend_format(Module *m, const char *path, const char *text, size_t len)
{
    Format f = {.arena = m->arena}, check = {.arena = m->arena};
    const AstFile *file = source_read(m, path, TEXT_FILE, &text, &len);
    if (!file || file->broken || !read_lines(&f, text, len))
        return NULL;
    align_equals(&f);
    lay_out(&f);
    const char *out = put_lines(&f);
    if (!read_lines(&check, out, strlen(out)) || !same_words(&f, &check))
        BUG(m->arena, "the formatter changed a word");
    return out;
}
