/* Text as it comes from a file: UTF-8, of a size that is read, perhaps behind a byte order mark. */
#include "frontend/frontend.h"
#include "frontend/parser.h"

#include <string.h>

/* The first byte that is not UTF-8 text, or len. */
static size_t first_bad_byte(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = text[i] == '\0' ? 0 : text_character(text + i, len - i);
        if (n == 0)
            return i;
        i += n;
    }
    return len;
}

/* Bytes of the mark with which some editors begin a UTF-8 file. */
static size_t byte_order_mark(const char *text, size_t len)
{
    static const char mark[] = "\xef\xbb\xbf";
    return len >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
}

static Loc loc_of(uint32_t file, const char *text, size_t at)
{
    Loc loc = {file, 1, 1, 1};
    for (size_t i = 0; i < at; i++) {
        loc.col = text[i] == '\n' ? 1 : loc.col + 1;
        loc.line += text[i] == '\n' ? 1 : 0;
    }
    return loc;
}

static int text_ok(Module *m, uint32_t file, const char *text, size_t len)
{
    if (len > FRONTEND_MAX_BYTES) {
        diag_add(m->diags, DIAG_file_size, (Loc){.file = file}, "split it into files that `use` each other",
                 "the file holds %zu bytes; at most %d are read", len, FRONTEND_MAX_BYTES);
        return 0;
    }
    size_t bad = first_bad_byte(text, len);
    if (bad == len)
        return 1;
    diag_add(m->diags, DIAG_not_utf8, loc_of(file, text, bad), "save the file as UTF-8 text",
             text[bad] ? "the byte 0x%02x here is not UTF-8 text" : "a NUL byte (0x%02x) in the text",
             (unsigned)(unsigned char)text[bad]);
    return 0;
}

AstFile *source_read(Module *m, const char *path, TextKind kind, const char **text, size_t *len)
{
    size_t mark = byte_order_mark(*text, *len);
    *text += mark;
    *len -= mark;
    uint32_t file = diag_add_file(m->diags, path, *text, *len);
    return text_ok(m, file, *text, *len) ? parser_read(m, file, kind, *text, *len) : NULL;
}
