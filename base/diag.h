/* Diagnostics: what the compiler tells its user, collected, never printed here and never fatal.
 *
 * A code (`E0123`) is a row of errors.def: severity, one-line rule, the page of `moec explain`. */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/text.h"

/* A range of source text; line and column count from 1, columns in bytes; line 0: no place. */
typedef struct Loc {
    uint32_t file; /* index into Diags.files */
    uint32_t line, col, len;
} Loc;

typedef struct SourceFile {
    const char *path;
    const char *text;
    size_t len;
} SourceFile;

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_HINT } Severity;

#define DIAG_ENUM(code, number, severity, title, page) DIAG_##code,
typedef enum DiagCode {
#define ROW DIAG_ENUM
#include "base/errors.def"
#undef ROW
    DIAG_COUNT
} DiagCode;

typedef struct Diag {
    DiagCode code;
    Loc loc;
    const char *message; /* one sentence with the symbol and the values */
    const char *help;    /* one concrete edit, or NULL */
} Diag;

typedef struct Diags {
    Arena *arena;
    Vec(SourceFile) files;
    Vec(Diag) list; /* in the order found; at most DIAG_LIMIT errors are kept, one per statement */
    uint32_t errors;
} Diags;

enum { DIAG_LIMIT = 20 };

uint32_t diag_add_file(Diags *d, const char *path, const char *text, size_t len);

/* Reports; `help` may be NULL. Texts are formatted into the arena. */
void diag_add(Diags *d, DiagCode code, Loc loc, const char *help, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The whole list as text (file:line:col: error[E0101]: message, source line, caret range, help) or JSON. */
const char *diag_text(const Diags *d, Arena *a);
const char *diag_json(const Diags *d, Arena *a);

const char *diag_code_name(DiagCode code);     /* "E0101" */
const char *diag_title(DiagCode code);
const char *diag_page(const char *code_name);  /* the page of `moec explain`, NULL when unknown */

#endif
