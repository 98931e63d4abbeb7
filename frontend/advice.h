/* What a mistake in the text probably was: advice.c tries signs that may be missing, habit.c knows what people write who come
 * from other languages. */
#ifndef FRONTEND_ADVICE_H
#define FRONTEND_ADVICE_H

#include "frontend/parser.h"

/* `text` instead of the words first..last; last < first: before first. */
typedef struct AdviceEdit {
    uint32_t first, last;
    const char *text;
} AdviceEdit;

typedef struct Advice {
    Parser *p;
    Vec(ParserToken) words; /* of the whole text; the last is MOE_EOF */
    uint32_t at;            /* the word that cannot stand where it does */
    /* what is said */
    uint32_t place, label; /* the word that is pointed at; another one, or 0 */
    const char *message, *help, *label_text;
    const char *expected;  /* the sign that was missing */
    Vec(AdviceEdit) edits; /* in order; none: the help is words only */
} Advice;

#define ADVICE_TEXT(...) arena_printf(a->p->arena, __VA_ARGS__)

/* Fills in message and help; returns 1. */
static inline int advice_with(Advice *a, const char *message, const char *help)
{
    a->message = message;
    a->help = help;
    return 1;
}

/* The words of p's text, looked at from the one at this offset. */
Advice *advice_open(Parser *p, size_t offset);
/* Do the edits take the parser past the line of the mistake? */
int advice_works(const Advice *a);
/* The report, with the edits if they work. */
void advice_say(Advice *a, DiagCode code);
/* Fills a in when the mistake is one of those that people bring along; 0: it is none of them. */
int habit_find(Advice *a);
int habit_role(Advice *a);
int habit_names(Advice *a);
int habit_dim(Advice *a);
int habit_type_first(Advice *a);
int habit_result(Advice *a);
int habit_function_body(Advice *a);
int habit_save(Advice *a);
int habit_unopened(Advice *a);
/* What there is instead of a function, and of a type, that other languages have; NULL: they have none of this name either. */
const char *habit_absent(const char *function);
const char *habit_function(const char *name); /* of a function that has another name here */
const char *habit_value(const char *name); /* of a constant that has no name here */
const char *habit_type(const char *name);

/* Help for a syntax error: what is said about it beside the message, and the edit. `expected` as in parser_syntax_error. */
void advice_missing(Advice *a, const char *const *expected, int n);

/* ---- questions about words ---- */

enum { NO_WORD = UINT32_MAX };

int advice_is(const Advice *a, uint32_t word, int kind);
int advice_named(const Advice *a, uint32_t word, const char *name); /* a NAME or a word that is this text */
const char *advice_text(const Advice *a, uint32_t first, uint32_t last); /* as it stands in the file */
uint32_t advice_opening(const Advice *a, uint32_t closing); /* the bracket that belongs to it, or NO_WORD */
uint32_t advice_closing(const Advice *a, uint32_t opening);
uint32_t advice_enclosing(const Advice *a, uint32_t word); /* the bracket that is open there, or NO_WORD */
int advice_ends_value(const Advice *a, uint32_t word);     /* can an expression end with this word? */
uint32_t advice_first(const Advice *a, uint32_t word);     /* of the expression that goes on at this word */
uint32_t advice_last(const Advice *a,
                     uint32_t word); /* of the expression that begins there; ends at `:` and `else` */
uint32_t advice_value_before(const Advice *a, uint32_t last); /* first word of the operand that ends there */
uint32_t advice_value_after(const Advice *a, uint32_t first); /* last word of the operand that begins there */
void advice_edit(Advice *a, uint32_t first, uint32_t last, const char *text);

#endif
