/* The loop of the server: which message does what. */
#include "lsp/lsp.h"

#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

typedef struct LspServer {
    RpcStream stream;
    Document *documents;
    int begun, shut, done;
} LspServer;

/* Error codes of JSON-RPC and of the protocol. */
enum {
    PARSE_ERROR = -32700,
    METHOD_NOT_FOUND = -32601,
    INVALID_PARAMS = -32602,
    NOT_INITIALIZED = -32002,
    INVALID_REQUEST = -32600
};

/* ---- answers ---- */

static void respond(LspServer *s, json_t *id, json_t *result)
{
    rpc_write(&s->stream, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

static void refuse(LspServer *s, json_t *id, int code, const char *why)
{
    json_t *of = id ? json_incref(id) : json_null();
    rpc_write(&s->stream, json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", of, "error", "code",
                                    code, "message", why));
}

static void notify(LspServer *s, const char *method, json_t *params)
{
    rpc_write(&s->stream, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}

/* ---- documents ---- */

static const char *uri_of(const json_t *params)
{
    const char *uri = json_string_value(json_object_get(json_object_get(params, "textDocument"), "uri"));
    return uri ? uri : "";
}

static Document **find(LspServer *s, const char *uri)
{
    Document **at = &s->documents;
    while (*at && strcmp((*at)->uri, uri) != 0)
        at = &(*at)->next;
    return at;
}

static void set_text(Document *d, const json_t *document, const json_t *text)
{
    d->version = json_integer_value(json_object_get(document, "version"));
    if (json_is_string(text))
        document_set_text(d, json_string_value(text), json_string_length(text));
}

static void did_open(LspServer *s, const json_t *params)
{
    const json_t *document = json_object_get(params, "textDocument");
    Document **at = find(s, uri_of(params));
    if (!*at)
        *at = document_new(uri_of(params));
    if (*at)
        set_text(*at, document, json_object_get(document, "text"));
}

/* The whole text: that is what the server asks for. */
static void did_change(LspServer *s, const json_t *params)
{
    Document *d = *find(s, uri_of(params));
    const json_t *changes = json_object_get(params, "contentChanges");
    size_t n = json_array_size(changes);
    if (d && n)
        set_text(d, json_object_get(params, "textDocument"),
                 json_object_get(json_array_get(changes, n - 1), "text"));
}

static void did_close(LspServer *s, const json_t *params)
{
    Document **at = find(s, uri_of(params)), *d = *at;
    if (!d)
        return;
    *at = d->next;
    notify(s, "textDocument/publishDiagnostics", json_pack("{s:s, s:[]}", "uri", d->uri, "diagnostics"));
    document_free(d);
}

/* A file that is saved may be used by the others. */
static void did_save(LspServer *s, const json_t *params)
{
    (void)params;
    for (Document *d = s->documents; d; d = d->next)
        d->is_new = 1;
}

/* Only when the client waits: between two strokes of a key nobody reads them. */
static void publish(LspServer *s)
{
    for (Document *d = s->documents; d && rpc_is_idle(&s->stream); d = d->next)
        if (d->is_new)
            notify(s, "textDocument/publishDiagnostics", check_document(d));
}

/* ---- requests about one document ---- */

static json_t *hover(Document *d, const json_t *params)
{
    return names_hover(d, json_object_get(params, "position"));
}

static json_t *definition(Document *d, const json_t *params)
{
    return names_definition(d, json_object_get(params, "position"));
}

static json_t *references(Document *d, const json_t *params)
{
    return names_references(d, json_object_get(params, "position"));
}

static json_t *symbols(Document *d, const json_t *params)
{
    (void)params;
    return names_symbols(d);
}

static json_t *formatting(Document *d, const json_t *params)
{
    (void)params;
    return names_formatting(d);
}

/* The edits of the last check: of the text as it is now, if it changed since then. */
static json_t *actions(Document *d, const json_t *params)
{
    if (d->is_new)
        json_decref(check_document(d)), d->is_new = 1; /* its diagnostics are still to be sent */
    return check_mends(d, json_object_get(params, "range"));
}

static const struct {
    const char *method;
    json_t *(*answer)(Document *d, const json_t *params);
} requests[] = {
    {"textDocument/hover", hover},           {"textDocument/definition", definition},
    {"textDocument/references", references}, {"textDocument/documentSymbol", symbols},
    {"textDocument/formatting", formatting}, {"textDocument/codeAction", actions},
};

static const struct {
    const char *method;
    void (*take)(LspServer *s, const json_t *params);
} notices[] = {
    {"textDocument/didOpen", did_open},
    {"textDocument/didChange", did_change},
    {"textDocument/didSave", did_save},
    {"textDocument/didClose", did_close},
};

/* ---- the life of a server ---- */

static json_t *capabilities(void)
{
    return json_pack("{s:{s:s, s:{s:b, s:i, s:{s:b}}, s:b, s:b, s:b, s:b, s:b, s:{s:[s]}}, s:{s:s, s:s}}",
                     "capabilities", "positionEncoding", "utf-16", "textDocumentSync", "openClose", 1,
                     "change", 1, "save", "includeText", 0, "hoverProvider", 1, "definitionProvider", 1,
                     "referencesProvider", 1, "documentSymbolProvider", 1, "documentFormattingProvider", 1,
                     "codeActionProvider", "codeActionKinds", "quickfix", "serverInfo", "name", "moec",
                     "version", MOEC_VERSION);
}

static void answer_about_document(LspServer *s, json_t *id, size_t request, const json_t *params)
{
    Document *d = *find(s, uri_of(params));
    if (d)
        respond(s, id, requests[request].answer(d, params));
    else
        refuse(s, id, INVALID_PARAMS, "the document is not open");
}

static void answer_request(LspServer *s, json_t *id, const char *method, const json_t *params)
{
    if (strcmp(method, "initialize") == 0) {
        s->begun = 1;
        respond(s, id, capabilities());
        return;
    }
    if (!s->begun || s->shut) {
        refuse(s, id, s->shut ? INVALID_REQUEST : NOT_INITIALIZED,
               s->shut ? "the server is shut down" : "`initialize` comes first");
        return;
    }
    if (strcmp(method, "shutdown") == 0) {
        s->shut = 1;
        respond(s, id, json_null());
        return;
    }
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (strcmp(method, requests[i].method) == 0) {
            answer_about_document(s, id, i, params);
            return;
        }
    refuse(s, id, METHOD_NOT_FOUND, "moec lsp does not answer this");
}

static void take_notice(LspServer *s, const char *method, const json_t *params)
{
    s->done = strcmp(method, "exit") == 0;
    for (size_t i = 0; s->begun && i < sizeof notices / sizeof *notices; i++)
        if (strcmp(method, notices[i].method) == 0)
            notices[i].take(s, params);
}

static void take(LspServer *s, json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *id = json_object_get(message, "id");
    const json_t *params = json_object_get(message, "params");
    if (!message)
        refuse(s, NULL, PARSE_ERROR, "no JSON object");
    else if (method && id)
        answer_request(s, id, method, params);
    else if (method)
        take_notice(s, method, params);
    json_decref(message);
}

int lsp_serve(int in, int out)
{
    LspServer s = {.stream = {.in = in, .out = out}};
    json_t *message;
    RpcRead read = RPC_MESSAGE;
    while (!s.done && (read = rpc_read(&s.stream, &message)) == RPC_MESSAGE) {
        take(&s, message);
        publish(&s);
    }
    if (read == RPC_BROKEN)
        refuse(&s, NULL, PARSE_ERROR,
               "no message of the protocol: `Content-Length: N`, an empty line, N bytes of JSON");
    while (s.documents) {
        Document *next = s.documents->next;
        document_free(s.documents);
        s.documents = next;
    }
    free(s.stream.bytes);
    return s.shut ? CLI_OK : CLI_ERROR;
}
