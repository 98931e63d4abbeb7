/* Reading the words of a schedule or test block one after the other. */
#ifndef FRONTEND_WORDS_H
#define FRONTEND_WORDS_H

#include "frontend/sema.h"

typedef struct WordReader {
    Sema *c;
    const AstWords *words;
    uint32_t at;
    DiagCode code;   /* of what does not fit */
    const char *end; /* how to call what follows the last word; NULL: `}` */
    int failed;
} WordReader;

const AstWord *word_at(const WordReader *r); /* the next one; at the end a sign "" */
int word_is(const WordReader *r, const char *text);
int word_take(WordReader *r, const char *text); /* the next one if it is this, else 0 */
int word_expect(WordReader *r, const char *text);
Name word_name(WordReader *r, const char *what, Loc *loc);
int64_t word_integer(WordReader *r, const char *what);
double word_number(WordReader *r, const char *what);
void word_refuse(WordReader *r, const char *wanted); /* once for each clause */

#endif
