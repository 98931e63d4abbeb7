/* What the files of the language server share. Private to lsp/. */
#ifndef LSP_SERVER_H
#define LSP_SERVER_H

#include "base/base.h"
#include "base/json.h"
#include "driver/driver.h"

/* ---- rpc.c ---- */

/* Messages on their way in and out: `Content-Length: N`, an empty line, N bytes of JSON. */
typedef struct RpcStream {
    int in, out;
    char *bytes; /* that were read and not taken yet */
    size_t len, room;
} RpcStream;

typedef enum RpcRead { RPC_MESSAGE, RPC_END, RPC_BROKEN } RpcRead;
/* Waits for a message. *message: a new reference; NULL: its text is no JSON object, after which the stream goes on. RPC_BROKEN: the
 * frame is wrong, so that nothing behind it can be read. */
RpcRead rpc_read(RpcStream *s, json_t **message);
int rpc_is_idle(const RpcStream *s); /* no further message has begun to arrive */
void rpc_write(RpcStream *s, json_t *message); /* takes the reference */

/* ---- document.c ---- */

/* A text that an editor has open. */
typedef struct Document {
    char *uri, *path, *text; /* path: of another scheme than file: the URI */
    size_t len;
    json_int_t version;
    int is_new;   /* not checked since it changed */
    json_t *mends; /* an array: edits of the last check, each with its range and title */
    struct Document *next;
} Document;

void document_set_text(Document *d, const char *text, size_t len);
Document *document_new(const char *uri); /* NULL: no memory */
void document_free(Document *d);

json_t *document_range(const char *text, size_t len, Loc loc); /* {"start": .., "end": ..} */
/* The place of a position; line 0: it is none. */
Loc document_place(const Document *d, const json_t *position);
char *document_uri(const char *path); /* file://..., to be freed; NULL: no memory */

/* ---- check.c ---- */

/* {"uri": .., "diagnostics": [..]} of the document; also fills d->mends. */
json_t *check_document(Document *d);
json_t *check_mends(const Document *d, const json_t *range); /* code actions there */

/* ---- names.c: answers, null where there is none ---- */

json_t *names_hover(Document *d, const json_t *position);
json_t *names_definition(Document *d, const json_t *position);
json_t *names_references(Document *d, const json_t *position);
json_t *names_symbols(Document *d);
json_t *names_formatting(Document *d); /* `moec fmt` as one edit of the whole text */

#endif
