/* Messages of JSON-RPC, each behind a head of lines that says how long it is. */
#include "lsp/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MAX = 64 << 20, HEAD_MAX = 4096 };

/* More bytes from the client; 0: it closed its end, or there is no memory. */
static int fill(RpcStream *s)
{
    enum { CHUNK = 1 << 16 };
    if (s->room - s->len < CHUNK) {
        char *more = realloc(s->bytes, s->len + 2 * (size_t)CHUNK);
        if (!more)
            return 0;
        s->bytes = more;
        s->room = s->len + 2 * (size_t)CHUNK;
    }
    ssize_t n;
    do
        n = read(s->in, s->bytes + s->len, s->room - s->len);
    while (n < 0 && errno == EINTR);
    s->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void drop(RpcStream *s, size_t n)
{
    memmove(s->bytes, s->bytes + n, s->len - n);
    s->len -= n;
}

/* The length that a head says; 0: none. */
static size_t content_length(const char *head, size_t len)
{
    static const char word[] = "Content-Length:";
    for (const char *line = head, *end = head + len; line < end;) {
        if ((size_t)(end - line) > sizeof word && strncasecmp(line, word, sizeof word - 1) == 0) {
            unsigned long n = strtoul(line + sizeof word - 1, NULL, 10);
            return n <= MESSAGE_MAX ? n : 0;
        }
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        line = newline ? newline + 1 : end;
    }
    return 0;
}

RpcRead rpc_read(RpcStream *s, json_t **message)
{
    static const char blank[] = "\r\n\r\n";
    const char *end;
    *message = NULL;
    while (!(end = s->len ? memmem(s->bytes, s->len, blank, strlen(blank)) : NULL)) {
        if (s->len > HEAD_MAX)
            return RPC_BROKEN;
        if (!fill(s))
            return s->len ? RPC_BROKEN : RPC_END;
    }
    size_t head = (size_t)(end - s->bytes) + strlen(blank), len = content_length(s->bytes, head);
    if (!len)
        return RPC_BROKEN;
    while (s->len < head + len)
        if (!fill(s))
            return RPC_BROKEN;
    *message = json_loadb(s->bytes + head, len, JSON_ALLOW_NUL, NULL);
    drop(s, head + len);
    if (*message && !json_is_object(*message)) {
        json_decref(*message);
        *message = NULL;
    }
    return RPC_MESSAGE;
}

int rpc_is_idle(const RpcStream *s)
{
    struct pollfd in = {.fd = s->in, .events = POLLIN};
    return !s->len && poll(&in, 1, 0) == 0;
}

static void write_all(int fd, const char *at, size_t len)
{
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* the client is gone, which the next read finds out */
        at += n;
        len -= (size_t)n;
    }
}

void rpc_write(RpcStream *s, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL, head[64];
    json_decref(message);
    if (!text)
        return;
    int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", strlen(text));
    write_all(s->out, head, (size_t)n);
    write_all(s->out, text, strlen(text));
    free(text);
}
