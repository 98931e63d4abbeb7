/* Contexts of calls: who owns the work space and the text of the last failure. */
#include "moec/moert.h"

#include <stdlib.h>

moe_ctx *moe_ctx_new(int threads)
{
    moe_ctx *ctx = calloc(1, sizeof *ctx);
    char *message = calloc(1, MOE_MESSAGE_BYTES);
    if (!ctx || !message) {
        free(ctx);
        free(message);
        return NULL;
    }
    ctx->threads = threads;
    ctx->message = message;
    return ctx;
}

void moe_ctx_free(moe_ctx *ctx)
{
    if (!ctx)
        return;
    if (ctx->work_bytes >= 0) /* below 0: the caller lends it */
        free(ctx->work);
    free(ctx->message);
    free(ctx);
}

const char *moe_status_text(int status)
{
    static const char *const texts[] = {
#define STATUS(name, text) text,
#include "moec/abi.def"
    };
    int known = status >= 0 && (size_t)status < sizeof texts / sizeof *texts;
    return known ? texts[status] : "not a status";
}

const char *moe_ctx_message(const moe_ctx *ctx) { return ctx && ctx->message ? ctx->message : ""; }
