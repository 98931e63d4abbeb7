/* .moe text -> AST -> checked -> equations. The front door of frontend/. */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ir/ir.h"

/* Reads .moe text into m (use files are opened relative to `path`). Errors are collected in m->diags; returns
 * 0 when there are none. Kernels, derive requests, schedules and tests are in m afterwards; no `derive` is
 * run. */
int frontend_read(Module *m, const char *path, const char *text, size_t len);

/* What is given beside a file; NULL: nothing. */
typedef struct FrontendExtras {
    const char *schedule; /* schedule blocks: a kernel that they name keeps none of the file's own */
    const char *schedule_from; /* what messages call that text; or NULL */
    const char *derive;   /* derive blocks, besides the file's own */
    const char *types;    /* "act=f32, ...": element types instead of those that the file declares */
} FrontendExtras;
int frontend_read_with(Module *m, const char *path, const char *text, size_t len, FrontendExtras extras);

/* What a command line says beside a file that was read, in the words of a `test` block: "T=33, K=2" into sizes[], by
 * DimId, where what is not named stays as it is; and "zipf(1.2), empty(40%)". NULL, or an error text in m's arena. */
const char *frontend_sizes(Module *m, const char *text, int64_t *sizes);
const char *frontend_routing(Module *m, const char *text, TestRun *run);

/* The text in its usual layout (format.c), in m's arena; NULL: it does not parse, which is reported. */
const char *frontend_format(Module *m, const char *path, const char *text, size_t len);

/* ---- for editors (outline.c) ---- */

typedef enum OutlineKind {
    OUTLINE_TYPE,
    OUTLINE_DIM,
    OUTLINE_GROUP,
    OUTLINE_FN,
    OUTLINE_KERNEL, /* of the text, or one that it asks to derive */
    OUTLINE_PARAM,
    OUTLINE_LOCAL,
    OUTLINE_INDEX, /* of an equation, or of a `fn` */
    OUTLINE_FILE,  /* the path behind `use` */
    OUTLINE_WORD   /* a function of the language; or nothing declares it */
} OutlineKind;

/* One place where a name stands. */
typedef struct OutlineName {
    Name name;
    Loc loc;
    OutlineKind kind;
    uint32_t declared; /* the place that declares it, maybe this one; NONE */
    Name kernel;       /* that it belongs to; or NULL */
} OutlineName;

typedef struct Outline {
    Vec(OutlineName) names;
} Outline;

/* The names of a text, and the declarations in files that it uses. The text is the first file that it adds to m->diags. */
Outline *frontend_outline(Module *m, const char *path, const char *text, size_t len);
/* `path` as seen from the folder of the file `from`. */
const char *frontend_used_path(Arena *a, const char *from, const char *path);

enum { FRONTEND_MAX_NESTING = 200, FRONTEND_MAX_BYTES = 16 << 20 };

#endif
