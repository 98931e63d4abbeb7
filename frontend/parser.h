/* One file on its way from text to AST: the state shared by scanner, grammar and AST builders. */
#ifndef FRONTEND_PARSER_H
#define FRONTEND_PARSER_H

#include "frontend/ast.h"

/* What a text is: a file, which begins with its version; or declarations given beside one, which have no line for that. */
typedef enum TextKind { TEXT_FILE, TEXT_BESIDE } TextKind;

/* What the scanner hands on. The grammar's union has one member of each kind that a token carries. */
typedef struct ParserToken {
    int kind; /* of the generated parser */
    Loc loc;
    size_t offset; /* of its first byte in the text */
    int first;     /* the first of its line */
    AstInt integer;
    double real;
    Name name;
} ParserToken;

struct Parser {
    Module *m;
    Arena *arena;
    AstFile *file;
    TextKind kind;
    const char *text;
    size_t len;
    uint32_t file_index;
    void *scanner;
    /* the scanner's place: of the next byte */
    uint32_t line, col;
    size_t offset;
    uint32_t last_line; /* of the last token */
    /* the token stream as the grammar sees it; Note [Recovery] in parser.c */
    ParserToken last;
    size_t resumed_at; /* offset of the word after the last SYNC */
    ParserToken queue[3];
    uint32_t queued;
    uint32_t brackets, tokens;
    int recovering, resumed, kernel_ahead, in_body, was_in_body; /* was: before the last token */
    int in_derive;
    /* advice.c */
    uint32_t trials; /* made for this text */
    int is_trial;    /* only to find out whether the text parses from `tried_from` on */
    size_t tried_from;
    uint32_t mistake_at; /* the line of the first mistake there; 0: none */
};

/* Text -> AST. Errors are reported; what could be parsed is in the result. `text` must outlive the module. */
AstFile *parser_read(Module *m, uint32_t file_index, TextKind kind, const char *text, size_t len);
/* The same of a whole text, known from then on as `path`: text and len become what is behind a byte order mark, which is no part of
 * the text. NULL: it is too long or not UTF-8, which is reported (source.c). */
AstFile *source_read(Module *m, const char *path, TextKind kind, const char **text, size_t *len);
/* The words of a text that is no file, as those of a block. NULL: some are no words, which is reported. */
const AstWords *parser_read_words(Module *m, uint32_t file_index, const char *text);

/* A parser of another text, which reports nothing. */
Parser *parser_trial(Arena *a, const char *text, size_t len);
/* The line of the first mistake at or behind this offset of the text, which has no end but its last byte; 0: there is none. */
uint32_t parser_mistake(Parser *p, const char *text, size_t len, size_t from);

/* Called by the generated parser. */
int parser_begins_declaration(int kind);
int parser_is_elem(int kind); /* a word that is an element type */
ParserToken parser_next(Parser *p);
Loc parser_span(const Loc *first, const Loc *last);
Loc parser_after(const Loc *before);
void parser_syntax_error(Parser *p, Loc loc, const char *const *expected, int nexpected);
void parser_stack_full(Parser *p, Loc loc);
/* Reports this word as one of the habits of other languages (advice.h); 0: it is none. */
int parser_habit(Parser *p, const ParserToken *t, DiagCode code);
/* Called by the scanner: reports and drops the statement. */
int parser_bad_token(Parser *p, DiagCode code, Loc loc, const char *help, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The scanner (moe.l), made for text in memory: it never touches a file. */
int scanner_open(Parser *p);
void scanner_close(Parser *p);
int scanner_next(Parser *p, ParserToken *t); /* fills t and returns its kind */

#endif
