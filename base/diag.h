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

/* The len of what goes on in later lines. */
enum { LOC_LINES = 1 << 30 };

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

/* Text of a place: what to write there instead of it, or what it has to do with the mistake. */
typedef struct DiagNote {
    Loc loc;
    const char *text;
} DiagNote;

typedef struct Diag {
    DiagCode code;
    Loc loc;
    const char *message; /* one sentence with the symbol and the values */
    const char *help;    /* what to do, or NULL */
    Vec(DiagNote) edits; /* the help as code, in the order of their places: the program is right after them */
    Vec(DiagNote) labels; /* "declared here" */
} Diag;

typedef struct Diags {
    Arena *arena;
    Vec(SourceFile) files;
    Vec(Diag) list;    /* in the order found; at most DIAG_LIMIT errors are kept, one per statement */
    uint32_t errors;   /* all that were reported */
    uint32_t repeated; /* of them those that are labels of another one, which has the same cause */
    uint32_t open; /* what diag_edit and diag_label add to: its number in the list + 1; 0: it was not kept */
    const char *allowed; /* "W1003,...": warnings and hints that are not kept; or NULL */
    int color;           /* diag_text colours what it writes */
} Diags;

enum { DIAG_LIMIT = 20 };

uint32_t diag_add_file(Diags *d, const char *path, const char *text, size_t len);

/* Does a list like `allowed` name only codes of warnings and hints? If not, *bad is the first other word. */
int diag_may_allow(const char *list, char *bad, size_t room);
/* Reports; `help` may be NULL. Texts are formatted into the arena. A warning or hint is not kept if `allowed` lists its code, or
 * if its line, the line above or a comment at the beginning of its file says `// allow W1003`. */
void diag_add(Diags *d, DiagCode code, Loc loc, const char *help, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* To the one that was reported last: `text` for the text at loc, which is of one line (len 0: before it); or what that place
 * has to do with it. Nothing when diag_add did not keep it. */
void diag_edit(Diags *d, Loc loc, const char *text);
void diag_label(Diags *d, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Two edits, around the text at loc. */
void diag_wrap(Diags *d, Loc loc, const char *before, const char *after);
/* What follows in diag_edit and diag_label has no report: the statement was reported before. */
void diag_close(Diags *d);

/* A line of source, without its end. 0: there is no such place. */
typedef struct DiagLine {
    const char *at;
    size_t len;
} DiagLine;
int diag_line(const Diags *d, Loc loc, DiagLine *out);

/* The whole list as text (file:line:col: error[E0101]: message, source line, caret range, help) or JSON. */
const char *diag_text(const Diags *d, Arena *a);
const char *diag_json(const Diags *d, Arena *a);

/* A failure that is no diagnostic, in the form of diag_json(), into at most `size` bytes: it needs no arena. */
void diag_json_failure(const char *severity, const char *message, char *to, size_t size);

const char *diag_code_name(DiagCode code); /* "E0101" */
const char *diag_title(DiagCode code);
Severity diag_severity(DiagCode code);
const char *diag_page(const char *code_name); /* the page of `moec explain`, NULL when unknown */

#endif
