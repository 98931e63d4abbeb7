/* Help with text that does not parse; see advice.h.
 *
 * Note [Tried]. Nothing is advised as code that was not tried: the edited text is parsed, and must be right up to the end of the
 * line of the mistake. So the help may propose many things, and gives the first that works. */
#include "frontend/advice.h"

#include "moe_parser.h"

#include <ctype.h>
#include <string.h>

enum {
    TRIED_BYTES = 1 << 15, /* of text: longer ones get words only */
    TRIALS = 200,          /* for one file */
};

/* ---- words ---- */

Advice *advice_open(Parser *p, size_t offset)
{
    Advice *a = arena_new_of(p->arena, Advice);
    ParserToken t;
    a->p = p;
    Parser *scan = parser_trial(p->arena, p->text, p->len);
    scan->file_index = p->file_index;
    do {
        scanner_next(scan, &t);
        if (t.offset == offset)
            a->at = a->words.len;
        vec_push(p->arena, &a->words, t);
    } while (t.kind != MOE_EOF);
    scanner_close(scan);
    a->place = a->at;
    return a;
}

int advice_is(const Advice *a, uint32_t word, int kind)
{
    return word < a->words.len && a->words.at[word].kind == kind;
}

static size_t end_of(const Advice *a, uint32_t word)
{
    return a->words.at[word].offset + a->words.at[word].loc.len;
}

const char *advice_text(const Advice *a, uint32_t first, uint32_t last)
{
    size_t from = a->words.at[first].offset;
    return arena_strndup(a->p->arena, a->p->text + from, end_of(a, last) - from);
}

int advice_named(const Advice *a, uint32_t word, const char *name)
{
    if (word >= a->words.len || a->words.at[word].loc.len != strlen(name))
        return 0;
    return memcmp(a->p->text + a->words.at[word].offset, name, strlen(name)) == 0;
}

static int opens(int kind) { return kind == '(' || kind == '[' || kind == '{'; }
static int closes(int kind) { return kind == ')' || kind == ']' || kind == '}'; }

uint32_t advice_opening(const Advice *a, uint32_t closing)
{
    uint32_t depth = 0;
    for (uint32_t i = closing; i < a->words.len; i--) { /* below 0 it is large */
        depth += closes(a->words.at[i].kind) ? 1 : 0;
        if (opens(a->words.at[i].kind) && --depth == 0)
            return i;
    }
    return NO_WORD;
}

uint32_t advice_closing(const Advice *a, uint32_t opening)
{
    uint32_t depth = 0;
    for (uint32_t i = opening; i < a->words.len; i++) {
        depth += opens(a->words.at[i].kind) ? 1 : 0;
        if (closes(a->words.at[i].kind) && --depth == 0)
            return i;
    }
    return NO_WORD;
}

uint32_t advice_enclosing(const Advice *a, uint32_t word)
{
    for (uint32_t i = word; i-- > 0;) {
        if (opens(a->words.at[i].kind))
            return i;
        if (closes(a->words.at[i].kind)) {
            i = advice_opening(a, i);
            if (i == NO_WORD)
                return NO_WORD;
        }
    }
    return NO_WORD;
}

int advice_ends_value(const Advice *a, uint32_t word)
{
    int kind = word < a->words.len ? a->words.at[word].kind : MOE_EOF;
    return kind == NAME || kind == INTEGER || kind == REAL || kind == ')' || kind == ']';
}

static int ends_expression(const Advice *a, uint32_t word)
{
    static const int kinds[] = {'=',      ADD_TO, ',',   ';',    ':',     '?',
                                KW_WHERE, KW_AND, KW_OR, KW_NOT, MOE_EOF, MOE_error};
    int kind = a->words.at[word].kind;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kind == kinds[i])
            return 1;
    return advice_named(a, word, "else");
}

uint32_t advice_first(const Advice *a, uint32_t word)
{
    uint32_t i = word;
    while (i > 0 && !ends_expression(a, i - 1) && !opens(a->words.at[i - 1].kind)) {
        i--;
        i = closes(a->words.at[i].kind) ? advice_opening(a, i) : i;
        if (i == NO_WORD)
            return word;
    }
    return i;
}

uint32_t advice_last(const Advice *a, uint32_t word)
{
    uint32_t i = word;
    while (i < a->words.len && !ends_expression(a, i) && !closes(a->words.at[i].kind)) {
        if (i > word && a->words.at[i].first && advice_ends_value(a, i - 1))
            break; /* the next statement */
        i = opens(a->words.at[i].kind) ? advice_closing(a, i) : i;
        if (i == NO_WORD)
            return word;
        i++;
    }
    return i > word ? i - 1 : word;
}

/* Does it stand before brackets as the name of what is called or read? */
static int heads(const Advice *a, uint32_t word)
{
    int kind = a->words.at[word].kind;
    return kind == NAME || kind == KW_IF || kind == KW_STOP || parser_is_elem(kind);
}

uint32_t advice_value_before(const Advice *a, uint32_t last)
{
    uint32_t i = last;
    if (closes(a->words.at[i].kind)) {
        i = advice_opening(a, i);
        if (i == NO_WORD)
            return NO_WORD;
        i -= i > 0 && heads(a, i - 1) ? 1 : 0;
    }
    while (i > 1 && advice_is(a, i - 1, '.'))
        i -= 2;
    return i;
}

uint32_t advice_value_after(const Advice *a, uint32_t first)
{
    uint32_t i = first + (advice_is(a, first, '-') ? 1 : 0);
    while (advice_is(a, i + 1, '.'))
        i += 2;
    if (i < a->words.len && heads(a, i) && i + 1 < a->words.len && opens(a->words.at[i + 1].kind))
        i++;
    if (i >= a->words.len)
        return NO_WORD;
    return opens(a->words.at[i].kind) ? advice_closing(a, i) : i;
}

/* ---- trying ---- */

void advice_edit(Advice *a, uint32_t first, uint32_t last, const char *text)
{
    vec_push(a->p->arena, &a->edits, (AdviceEdit){first, last, text});
}

static int inserts(const AdviceEdit *e) { return e->last + 1 == e->first; }

/* A sign that closes or separates follows the word before it. */
static int follows(const AdviceEdit *e)
{
    return inserts(e) && e->first > 0 && *e->text && strchr(")],", *e->text);
}

static size_t edit_from(const Advice *a, const AdviceEdit *e)
{
    return follows(e) ? end_of(a, e->first - 1) : a->words.at[e->first].offset;
}

static int is_of_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* What is removed takes the blanks behind it along, unless that makes one word of two. */
static size_t edit_to(const Advice *a, const AdviceEdit *e)
{
    size_t from = edit_from(a, e);
    if (inserts(e))
        return from;
    if (*e->text || e->last + 1 >= a->words.len || a->words.at[e->last + 1].first)
        return end_of(a, e->last);
    size_t next = a->words.at[e->last + 1].offset;
    int joins = from > 0 && is_of_name(a->p->text[from - 1]) && is_of_name(a->p->text[next]);
    return joins ? end_of(a, e->last) : next;
}

static const char *edited(const Advice *a, uint32_t *lines)
{
    Text t = {.arena = a->p->arena};
    size_t at = 0;
    for (uint32_t i = 0; i < a->edits.len; i++) {
        const AdviceEdit *e = &a->edits.at[i];
        text_add_bytes(&t, a->p->text + at, edit_from(a, e) - at);
        text_add_bytes(&t, e->text, strlen(e->text));
        *lines += strchr(e->text, '\n') ? 1 : 0;
        at = edit_to(a, e);
    }
    text_add_bytes(&t, a->p->text + at, a->p->len - at);
    return text_string(&t);
}

int advice_works(const Advice *a)
{
    Parser *p = a->p;
    uint32_t lines = a->words.at[a->at].loc.line;
    if (a->edits.len == 0 || p->len > TRIED_BYTES || p->trials >= TRIALS)
        return 0;
    p->trials++;
    const char *text = edited(a, &lines);
    uint32_t wrong = parser_mistake(p, text, strlen(text), edit_from(a, &a->edits.at[0]));
    return wrong == 0 || wrong > lines;
}

/* ---- saying ---- */

static Loc edit_loc(const Advice *a, const AdviceEdit *e)
{
    const ParserToken *first = &a->words.at[e->first];
    Loc loc = first->loc;
    if (follows(e))
        loc = parser_after(&a->words.at[e->first - 1].loc);
    loc.len = (uint32_t)(edit_to(a, e) - edit_from(a, e));
    return inserts(e) || a->words.at[e->last].loc.line == loc.line
               ? loc
               : parser_span(&first->loc, &a->words.at[e->last].loc);
}

void advice_say(Advice *a, DiagCode code)
{
    Parser *p = a->p;
    int works = advice_works(a);
    parser_bad_token(p, code, a->words.at[a->place].loc, a->help, "%s", a->message);
    if (a->label_text)
        diag_label(p->m->diags, a->words.at[a->label].loc, "%s", a->label_text);
    for (uint32_t i = 0; works && i < a->edits.len; i++)
        diag_edit(p->m->diags, edit_loc(a, &a->edits.at[i]), a->edits.at[i].text);
    diag_close(p->m->diags);
}

/* ---- what is missing or too much ---- */

static int try_edit(Advice *a, uint32_t first, uint32_t last, const char *text)
{
    a->edits.len = 0;
    advice_edit(a, first, last, text);
    if (advice_works(a))
        return 1;
    a->edits.len = 0;
    return 0;
}

static int is_expected(const char *const *expected, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (strcmp(expected[i], what) == 0)
            return 1;
    return 0;
}

/* Signs in the order in which they are forgotten. */
static int try_signs(Advice *a, const char *const *expected, int n)
{
    static const struct {
        const char *symbol, *text;
    } signs[] = {{"')'", ")"}, {"']'", "]"}, {"','", ","},  {"':'", ": "}, {"'='", "= "},
                 {"'('", "("}, {"'['", "["}, {"'%'", "% "}, {"in", "in "}, {"'{'", "{ "}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (is_expected(expected, n, signs[i].symbol) && try_edit(a, a->at, a->at - 1, signs[i].text)) {
            a->expected =
                arena_printf(a->p->arena, "`%.*s`", (int)strcspn(signs[i].text, " "), signs[i].text);
            a->help =
                arena_printf(a->p->arena, "write `%.*s`", (int)strcspn(signs[i].text, " "), signs[i].text);
            return 1;
        }
    return 0;
}

void advice_missing(Advice *a, const char *const *expected, int n)
{
    if (!advice_is(a, a->at, MOE_error) && try_signs(a, expected, n))
        return;
    int sign = advice_is(a, a->at, ')') || advice_is(a, a->at, ']') || advice_is(a, a->at, ',') ||
               advice_is(a, a->at, ';');
    if (sign && try_edit(a, a->at, a->at, ""))
        a->help = "remove it";
}
