/* Words of a block; see words.h. */
#include "frontend/words.h"

#include <string.h>

const AstWord *word_at(const WordReader *r)
{
    static const AstWord end = {.kind = WORD_SIGN, .text = ""};
    return r->at < r->words->list.len ? &r->words->list.at[r->at] : &end;
}

int word_is(const WordReader *r, const char *text) { return strcmp(word_at(r)->text, text) == 0; }

int word_take(WordReader *r, const char *text)
{
    if (!word_is(r, text) || !*text)
        return 0;
    r->at++;
    return 1;
}

void word_refuse(WordReader *r, const char *wanted)
{
    const AstWord *w = word_at(r);
    uint32_t last = r->words->list.len ? r->words->list.len - 1 : 0;
    Loc loc = r->at < r->words->list.len ? w->loc
              : r->words->list.len       ? r->words->list.at[last].loc
                                         : (Loc){0};
    if (!r->failed)
        diag_add(r->c->m->diags, r->code, loc, arena_printf(r->c->arena, "write %s here", wanted),
                 "`%s` does not fit here; expected %s",
                 *w->text ? w->text
                 : r->end ? r->end
                          : "}",
                 wanted);
    r->failed = 1;
}

int word_expect(WordReader *r, const char *text)
{
    if (word_take(r, text))
        return 1;
    word_refuse(r, arena_printf(r->c->arena, "`%s`", text));
    if (r->at < r->words->list.len) { /* not at the end, which is no word */
        Loc before = word_at(r)->loc;
        before.len = 0;
        diag_edit(r->c->m->diags, before, arena_printf(r->c->arena, "%s ", text));
    }
    return 0;
}

Name word_name(WordReader *r, const char *what, Loc *loc)
{
    const AstWord *w = word_at(r);
    *loc = w->loc;
    if (w->kind == WORD_NAME) {
        r->at++;
        return w->text;
    }
    word_refuse(r, what);
    return "";
}

int64_t word_integer(WordReader *r, const char *what)
{
    const AstWord *w = word_at(r);
    if (w->kind == WORD_INT) {
        r->at++;
        return w->integer;
    }
    word_refuse(r, what);
    return 0;
}

double word_number(WordReader *r, const char *what)
{
    const AstWord *w = word_at(r);
    if (w->kind == WORD_INT || w->kind == WORD_FLOAT) {
        r->at++;
        return w->real;
    }
    word_refuse(r, what);
    return 0;
}
