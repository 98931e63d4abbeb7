/* The token stream between scanner and grammar, and what is said about text that does not parse.
 *
 * Note [Recovery]: after a mistake bison drops what it has of the statement and waits for SYNC. The stream
 * skips words up to a place where a statement can begin, and hands out SYNC there: inside a kernel's
 * equations a name that is the first word of its line, `;` or `}`; everywhere a word that begins a
 * declaration and is the first of its line. The word that was the mistake itself may be such a place. When a
 * declaration begins while a kernel is still open, its `}` is supplied. So one mistake costs one statement,
 * and is reported once. */
#include "frontend/advice.h"

#include "frontend/frontend.h"
#include "moe_parser.h"

#include <string.h>

enum { MAX_TOKENS = 1 << 21 }; /* of one file: keeps the tree within some hundred megabytes */

int parser_begins_declaration(int kind)
{
    return kind == KW_USE || kind == KW_TYPE || kind == KW_DIM || kind == KW_GROUP || kind == KW_FN ||
           kind == KW_KERNEL || kind == KW_DERIVE || kind == KW_SCHEDULE || kind == KW_TEST;
}

static int can_resume(const Parser *p, const ParserToken *t)
{
    if (t->kind == MOE_EOF)
        return 1;
    if (t->first && parser_begins_declaration(t->kind))
        return 1;
    return p->in_body && (t->kind == '}' || t->kind == ';' || (t->first && t->kind == NAME));
}

/* Puts SYNC, perhaps a missing `}`, and the word found into the queue. */
static void resume(Parser *p)
{
    ParserToken found = p->last;
    p->in_body = p->was_in_body;
    p->kernel_ahead = 0;
    /* never twice at one place, so that every mistake uses up text */
    while (!can_resume(p, &found) || (p->resumed && found.offset == p->resumed_at && found.kind != MOE_EOF))
        scanner_next(p, &found);
    p->resumed = 1;
    p->resumed_at = found.offset;
    p->queued = 0;
    ParserToken sync = {.kind = SYNC, .loc = found.loc};
    p->queue[p->queued++] = sync;
    if (p->in_body && (found.kind == MOE_EOF || parser_begins_declaration(found.kind))) {
        sync.kind = '}';
        p->queue[p->queued++] = sync;
    }
    p->queue[p->queued++] = found;
    p->recovering = 0;
    p->brackets = 0;
}

static ParserToken take(Parser *p)
{
    ParserToken t;
    if (p->recovering)
        resume(p);
    if (p->queued == 0) {
        scanner_next(p, &t);
        return t;
    }
    t = p->queue[0];
    memmove(p->queue, p->queue + 1, sizeof *p->queue * --p->queued);
    return t;
}

static void track_body(Parser *p, int kind)
{
    if (kind == KW_KERNEL)
        p->kernel_ahead = 1;
    if (kind == '{' && p->kernel_ahead) {
        p->in_body = 1;
        p->kernel_ahead = 0;
    }
    if (kind == '}')
        p->in_body = 0;
}

/* After too many errors, or too much text, the rest is not read. */
static int enough(Parser *p)
{
    if (p->is_trial && p->mistake_at)
        return 1;
    if (p->tokens == MAX_TOKENS)
        diag_add(p->m->diags, DIAG_program_size, p->last.loc, "split the file",
                 "the file has more than %d words", MAX_TOKENS);
    if (p->tokens < MAX_TOKENS && p->m->diags->errors <= DIAG_LIMIT)
        return 0;
    p->file->broken = 1;
    return 1;
}

int parser_is_elem(int kind) { return kind == KW_F32 || kind == KW_BF16 || kind == KW_F16 || kind == KW_I32; }

/* Words of the clauses of `derive` are names elsewhere, and there too where the grammar wants a name: behind
 * a sign other than `)` and `+=`, and behind these words but for `pass`. */
static void track_clause(Parser *p, ParserToken *t)
{
    static const struct {
        const char *text;
        int kind;
    } words[] = {{"from", KW_FROM},
                 {"wrt", KW_WRT},
                 {"then", KW_THEN},
                 {"as", KW_AS},
                 {"pass", KW_PASS},
                 {"save", KW_SAVE},
                 {"cotangents", KW_COTANGENTS}};
    int before = p->last.kind;
    if (parser_begins_declaration(t->kind))
        p->in_derive = t->kind == KW_DERIVE;
    int ends =
        before == ')' || before == ADD_TO || before == NAME || before == KW_PASS || parser_is_elem(before);
    for (size_t i = 0; p->in_derive && t->kind == NAME && ends && i < sizeof words / sizeof *words; i++)
        if (strcmp(t->name, words[i].text) == 0)
            t->kind = words[i].kind;
}

ParserToken parser_next(Parser *p)
{
    ParserToken t =
        enough(p) ? (ParserToken){.kind = MOE_EOF, .loc = p->last.loc, .offset = p->len} : take(p);
    p->tokens++;
    p->was_in_body = p->in_body;
    track_body(p, t.kind);
    track_clause(p, &t);
    if (t.kind == '(' || t.kind == '[')
        p->brackets++;
    if ((t.kind == ')' || t.kind == ']') && p->brackets)
        p->brackets--;
    if (t.kind == SYNC || t.kind == '}')
        p->brackets = 0;
    p->last = t;
    if (p->brackets > FRONTEND_MAX_NESTING && t.kind != MOE_EOF) /* which is asked for until it comes */
        p->last.kind = t.kind = parser_bad_token(p, DIAG_nesting, t.loc,
                                                 "give the inner part a name of its own in an equation above",
                                                 "brackets nest deeper than %d here", FRONTEND_MAX_NESTING);
    return t;
}

Loc parser_span(const Loc *first, const Loc *last)
{
    Loc loc = *first;
    if (last->line > first->line || last->len >= LOC_LINES)
        loc.len = LOC_LINES;
    else if (last->col + last->len > first->col)
        loc.len = last->col + last->len - first->col;
    return loc;
}

Loc parser_after(const Loc *before)
{
    return (Loc){before->file, before->line, before->col + (before->len < LOC_LINES ? before->len : 0), 0};
}

/* ---- what is said ---- */

static void note_mistake(Parser *p, Loc loc)
{
    if (!p->mistake_at && (p->offset > p->tried_from || p->offset == p->len))
        p->mistake_at = loc.line;
}

int parser_bad_token(Parser *p, DiagCode code, Loc loc, const char *help, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_close(p->m->diags);
    if (p->is_trial)
        note_mistake(p, loc);
    else if (!p->recovering && p->tokens < MAX_TOKENS)
        diag_add(p->m->diags, code, loc, help, "%s", arena_vprintf(p->arena, format, args));
    va_end(args);
    p->recovering = 1;
    p->file->broken = 1;
    return MOE_error;
}

void parser_stack_full(Parser *p, Loc loc)
{
    parser_bad_token(p, DIAG_nesting, loc, "give the inner part a name of its own in an equation above",
                     "the text nests too deep here");
}

static int expects(const char *const *expected, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (strcmp(expected[i], what) == 0)
            return 1;
    return 0;
}

/* The sign or kind of word that most likely was forgotten; NULL: none. */
static const char *likely(const char *const *expected, int n)
{
    static const char *const first[] = {"'='", "')'", "']'", "'}'", "','",
                                        "':'", "'('", "'{'", "'['", "\"moe\""};
    if (expects(expected, n, "'@'"))
        return "an expression";
    if (expects(expected, n, "a name"))
        return "a name";
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (expects(expected, n, first[i]))
            return first[i];
    return n > 0 && strcmp(expected[0], "the end of the file") != 0 ? expected[0] : NULL;
}

static const char *unquoted(Parser *p, const char *symbol)
{
    size_t n = strlen(symbol);
    if (n > 2 && *symbol == '\'')
        return arena_printf(p->arena, "`%.*s`", (int)n - 2, symbol + 1);
    int describes = strchr(symbol, ' ') != NULL; /* a name, the end of the file */
    return describes ? symbol : arena_printf(p->arena, "`%s`", symbol);
}

static const char *found_text(Parser *p, const ParserToken *t)
{
    if (t->kind == MOE_EOF)
        return "the end of the file";
    int len = (int)(t->loc.len < 60 ? t->loc.len : 60);
    return arena_printf(p->arena, "`%.*s`", len, p->text + t->offset);
}

static int is_word(const Parser *p, const ParserToken *t)
{
    char c = t->offset < p->len ? p->text[t->offset] : '\0';
    return t->kind != NAME && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
}

/* A word of the grammar where a name is wanted. */
static const char *name_help(Parser *p, const ParserToken *t, const char *wanted)
{
    if (!wanted || strcmp(wanted, "a name") != 0 || !is_word(p, t))
        return NULL;
    if (t->first && parser_begins_declaration(t->kind))
        return "the statement above is not whole: write a name at its end";
    return arena_printf(p->arena, "%s is a word of the grammar: choose another name, such as `%.*s_`",
                        found_text(p, t), (int)t->loc.len, p->text + t->offset);
}

enum { ADVISED_BYTES = 1 << 16 }; /* for longer texts there are messages only */

int parser_habit(Parser *p, const ParserToken *t, DiagCode code)
{
    if (p->is_trial || p->recovering || p->len > ADVISED_BYTES)
        return 0;
    Advice *a = advice_open(p, t->offset);
    if (!habit_find(a))
        return 0;
    advice_say(a, code);
    return 1;
}

/* A word that the grammar has no place for. */
static void refuse_word(Parser *p, Loc loc, const char *const *expected, int n)
{
    const char *wanted = likely(expected, n);
    const char *help = name_help(p, &p->last, wanted), *sign = wanted ? unquoted(p, wanted) : NULL;
    Advice *a = help || p->len > ADVISED_BYTES ? NULL : advice_open(p, p->last.offset);
    if (a)
        advice_missing(a, expected, n);
    sign = a && a->expected ? a->expected : sign;
    const char *message = arena_printf(p->arena, "%s cannot stand here%s%s", found_text(p, &p->last),
                                       sign ? "; expected " : "", sign ? sign : "");
    if (!a) {
        parser_bad_token(p, DIAG_syntax, loc, help, "%s", message);
        return;
    }
    a->message = message;
    if (!a->help)
        a->help =
            sign ? arena_printf(p->arena, "write %s, or end the statement before it", sign) : "remove it";
    advice_say(a, DIAG_syntax);
}

void parser_syntax_error(Parser *p, Loc loc, const char *const *expected, int nexpected)
{
    const ParserToken *t = &p->last;
    if (p->is_trial || p->recovering) {
        parser_bad_token(p, DIAG_syntax, loc, NULL, " ");
        return;
    }
    if (p->tokens <= 1) {
        parser_bad_token(p, DIAG_version_missing, loc, "write `moe 1` as the first line",
                         t->kind == MOE_EOF
                             ? "there is nothing in the file but blanks and comments, and no language version"
                             : "the file begins with %s, not with its language version",
                         found_text(p, t));
        diag_edit(p->m->diags, (Loc){loc.file, loc.line, loc.col, 0}, "moe 1\n");
        return;
    }
    if (!parser_habit(p, t, DIAG_syntax))
        refuse_word(p, loc, expected, nexpected);
}

static Parser *open_parser(Module *m, uint32_t file_index, const char *text, size_t len)
{
    Parser *p = arena_new_of(m->arena, Parser);
    p->m = m;
    p->arena = m->arena;
    p->file = arena_new_of(m->arena, AstFile);
    p->text = text;
    p->len = len;
    p->file_index = file_index;
    if (scanner_open(p) != 0)
        arena_escape(m->arena, ESCAPE_MEMORY, "no memory for the scanner");
    return p;
}

Parser *parser_trial(Arena *a, const char *text, size_t len)
{
    Diags *silent = arena_new_of(a, Diags);
    silent->arena = a;
    Module *m = ir_module(a, silent, "");
    Parser *trial = open_parser(m, diag_add_file(silent, "", text, len), text, len);
    trial->is_trial = 1;
    return trial;
}

/* A text beside a file has no version, with which the grammar begins. */
static int parse(Parser *p)
{
    static const ParserToken version[] = {{.kind = KW_MOE}, {.kind = INTEGER, .integer = {.value = 1}}};
    if (p->kind == TEXT_BESIDE) {
        memcpy(p->queue, version, sizeof version);
        p->queued = sizeof version / sizeof *version;
    }
    return moe_parse(p);
}

uint32_t parser_mistake(Parser *p, const char *text, size_t len, size_t from)
{
    Arena *scratch = arena_scratch(p->arena);
    ArenaMark mark = arena_mark(scratch);
    Parser *trial = parser_trial(scratch, text, len);
    trial->tried_from = from;
    trial->kind = p->kind;
    parse(trial);
    scanner_close(trial);
    uint32_t line = trial->mistake_at;
    arena_release(scratch, mark);
    return line;
}

AstFile *parser_read(Module *m, uint32_t file_index, TextKind kind, const char *text, size_t len)
{
    Parser *p = open_parser(m, file_index, text, len);
    p->kind = kind;
    if (parse(p) != 0)
        p->file->broken = 1;
    scanner_close(p);
    return p->file;
}

/* A minus sign takes what follows with it: no clause has a place for it, and a refusal shows the word. */
static AstWord word_of(Parser *p, const ParserToken *t)
{
    if (t->kind == INTEGER)
        return ast_integer_word(p, t->integer);
    const char *at = p->text + t->offset;
    size_t len = t->kind == '-' ? strcspn(at, " ,;()") : t->loc.len;
    AstWord word = ast_sign_word(p, arena_strndup(p->arena, at, len), t->loc);
    word.kind = t->kind == NAME ? WORD_NAME : t->kind == REAL ? WORD_FLOAT : WORD_SIGN;
    word.real = t->real;
    return word;
}

const AstWords *parser_read_words(Module *m, uint32_t file_index, const char *text)
{
    Parser *p = open_parser(m, file_index, text, strlen(text));
    AstWords *words = arena_new_of(m->arena, AstWords);
    ParserToken t;
    while (scanner_next(p, &t) != MOE_EOF && !p->file->broken)
        ast_add_word(p, words, word_of(p, &t));
    scanner_close(p);
    return p->file->broken ? NULL : words;
}
