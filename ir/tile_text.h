/* Shared by the files of the tile reader: tokens (tile_token.c), expressions (tile_read_expr.c), statements
 * (tile_read_stmt.c), the rest (tile_read.c). Private to ir/.
 *
 * The first error ends the reading: it is reported, and from then on every token is the end of the text, so that
 * all loops stop and every parse function returns something harmless. */
#ifndef IR_TILE_TEXT_H
#define IR_TILE_TEXT_H

#include "ir/tile.h"

typedef enum TokenKind { TOKEN_END, TOKEN_WORD, TOKEN_INT, TOKEN_FLOAT, TOKEN_STRING, TOKEN_SIGN } TokenKind;

typedef struct TileToken {
    TokenKind kind;
    Loc loc;
    Name text;      /* word; sign as written; string with its escapes undone */
    uint64_t i;     /* int: up to 2^63 */
    double f;
} TileToken;

typedef struct TileReader {
    Module *m;
    Kernel *k;
    uint32_t file;
    const char *at, *end;
    uint32_t line, col;
    TileToken token;    /* the one not yet consumed */
    TileToken ahead;    /* and the one after it */
    uint32_t depth;
    int failed;
    Vec(IndexId) scope; /* loop variables, innermost last */
} TileReader;

void token_start(TileReader *r, const char *text, size_t len);
void token_next(TileReader *r);
int token_is(const TileReader *r, const char *text); /* a word or sign */
int token_take(TileReader *r, const char *text);     /* consumes it when it is there */
void token_expect(TileReader *r, const char *text);
Name token_word(TileReader *r, const char *what);
int64_t token_int(TileReader *r, const char *what);
/* Reports once, then ends the text. */
void token_fail(TileReader *r, DiagCode code, Loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

Axis tile_read_axis(TileReader *r); /* a size, or the name of a group */
StmtId tile_read_launch(TileReader *r);
ExprId tile_read_typed(TileReader *r, int condition); /* a condition, or a value */
ExprId tile_read_int(TileReader *r);                  /* an integer */
TensorId tile_read_buffer(TileReader *r);             /* NAME or ROUTE.FIELD; a tensor even after an error */
uint8_t tile_read_subscripts(TileReader *r, ExprId *out, uint32_t limit);
ExprId tile_read_load(TileReader *r, Loc loc);        /* BUFFER[subscripts] */
RouteId tile_read_route(TileReader *r);

#endif
