/* The syntax tree: what the parser builds and sema_*.c read, close to the text and without meaning.
 *
 * All of it lives in the module's arena. Every action of the grammar is one call of a function below. */
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "ir/ir.h"

typedef struct Parser Parser;
typedef struct AstExpr AstExpr;

typedef struct AstName {
    Name name; /* NULL: absent */
    Loc loc;
} AstName;

typedef struct AstInt {
    int64_t value; /* -1: absent (the grammar has no negative integers) */
    Loc loc;
} AstInt;

typedef struct AstNames {
    Vec(AstName) list;
} AstNames;

typedef struct AstExprs {
    Vec(AstExpr *) list;
} AstExprs;

/* An index that a reduction or `top` binds: `r`, `r in e`, `k: K`. */
typedef struct AstBind {
    AstName index;
    AstExpr *in, *extent;
    uint32_t var; /* for sema_bind.c */
} AstBind;

typedef struct AstBinds {
    Vec(AstBind) list;
} AstBinds;

typedef enum AstKind {
    AST_BAD,    /* already reported */
    AST_INT,    /* integer */
    AST_FLOAT,  /* real */
    AST_NAME,   /* name */
    AST_ACCESS, /* name[args] */
    AST_CALL,   /* name(args): a function or a cast */
    AST_MAP,    /* name.field(args): rt.token(r) */
    AST_GROUP,  /* @args[0] */
    AST_OP,     /* op: ScalarOp */
    AST_IF,     /* args: condition, then, else */
    AST_REDUCE, /* op: ReduceKind; binds; args[0]: body */
} AstKind;

struct AstExpr {
    AstKind kind;
    uint8_t op;
    uint8_t closed;  /* it stands in parentheses */
    uint16_t height; /* longest way to a leaf, at most AST_MAX_HEIGHT */
    Loc loc;
    AstName name, field;
    int64_t integer;
    double real;
    AstExpr **args;
    uint32_t nargs;
    AstBinds *binds;
    AstExpr *condition; /* AST_REDUCE: or NULL */
};

enum { AST_MAX_HEIGHT = 1000 };

typedef struct AstPacked {
    Loc loc; /* line 0: not packed */
    int both;
} AstPacked;

typedef struct AstType {
    Loc loc;
    int is_route;
    AstName elem;            /* of a tensor or scalar */
    const AstExprs *extents; /* NULL: a scalar; a route: tokens, choices */
    AstName group;           /* of a route */
    AstPacked packed;
} AstType;

typedef struct AstParam {
    Role role;
    AstName name;
    const AstType *type;
} AstParam;

typedef struct AstParams {
    Vec(AstParam) list;
} AstParams;

typedef struct AstSubscript {
    AstExpr *value;
    AstExpr *extent; /* of `k: K`, or NULL */
} AstSubscript;

typedef struct AstSubscripts {
    Vec(AstSubscript) list;
} AstSubscripts;

typedef struct AstLhs {
    AstName name;
    Loc loc;
    const AstSubscripts *subscripts; /* NULL: none */
} AstLhs;

typedef struct AstEquation {
    EqKind kind;
    Loc loc;
    const AstLhs *lhs, *ids_lhs; /* ids_lhs: of `top` */
    AstBind bound;               /* of `top` */
    AstExpr *rhs;
    AstName ids, group; /* of `route(ids -> group)`; group may be absent */
} AstEquation;

typedef struct AstEquations {
    Vec(const AstEquation *) list;
    int broken; /* some statement did not parse: names may be missing */
} AstEquations;

/* A word of a schedule or test block, whose clauses are read by hand (sema_schedule.c, sema_test.c). */
typedef struct AstWord {
    enum { WORD_NAME, WORD_INT, WORD_FLOAT, WORD_SIGN } kind;
    Name text; /* as written */
    int64_t integer;
    double real; /* of integers too */
    Loc loc;
} AstWord;

typedef struct AstWords {
    Vec(AstWord) list;
} AstWords;

typedef struct AstWrt {
    AstName name;
    GradMode mode;
    int later; /* behind `then` */
} AstWrt;

typedef struct AstWrts {
    Vec(AstWrt) list;
} AstWrts;

typedef struct AstSave {
    AstName name, elem, in; /* in: of an output, or without a name */
} AstSave;
#define SAVED_ROUTE "is a route, and routes cannot be saved"
#define SAVED_ROUTE_HELP "take it out: the backward has the route, or makes it again"

typedef struct AstSaves {
    Vec(AstSave) list;
} AstSaves;

typedef enum AstDeclKind {
    DECL_USE,
    DECL_TYPE,
    DECL_DIM,
    DECL_GROUP,
    DECL_FN,
    DECL_KERNEL,
    DECL_DERIVE,
    DECL_SCHEDULE,
    DECL_TEST
} AstDeclKind;

typedef struct AstDecl {
    AstDeclKind kind;
    Loc loc;
    AstName name;                           /* use: the path; derive, schedule, test: the kernel */
    const AstNames *names;                  /* dim; fn: parameters; type: x */
    AstInt max, multiple, prefer, constant; /* dim */
    AstExpr *groups, *size;                 /* group */
    GroupKind group_kind;                   /* group */
    AstExpr *body;                          /* fn; type: the cast bf16(x) */
    const AstParams *params;                /* kernel */
    const AstEquations *equations;          /* kernel */
    AstName forward, backward, later;       /* derive; later: or its name is NULL */
    const AstWrts *wrts;                    /* derive */
    const AstSaves *saves;                  /* derive, or NULL */
    int cotangents_f32;                     /* derive */
    const AstWords *words;                  /* schedule, test */
} AstDecl;

typedef struct AstFile {
    Vec(const AstDecl *) decls;
    int broken; /* something did not parse: declarations may be missing */
} AstFile;

/* ---- builders: the actions of the grammar ---- */

AstExpr *ast_int(Parser *p, AstInt value);
AstExpr *ast_float(Parser *p, Loc loc, double value);
AstExpr *ast_name(Parser *p, AstName name);
AstExpr *ast_access(Parser *p, Loc loc, AstName name, const AstExprs *args);
AstExpr *ast_call(Parser *p, Loc loc, AstName name, const AstExprs *args);
AstExpr *ast_cast(Parser *p, Loc loc, AstName type, AstExpr *arg);
AstExpr *ast_map(Parser *p, Loc loc, AstName route, AstName field, const AstExprs *args);
AstExpr *ast_group(Parser *p, Loc loc, AstExpr *row);
AstExpr *ast_unary(Parser *p, Loc loc, ScalarOp op, AstExpr *a);
AstExpr *ast_binary(Parser *p, Loc loc, ScalarOp op, AstExpr *a, AstExpr *b);
AstExpr *ast_if(Parser *p, Loc loc, AstExpr *condition, AstExpr *then, AstExpr *otherwise);
/* The head of a reduction: binds and condition; the body joins in ast_reduce. */
AstExpr *ast_reduce_head(Parser *p, Loc loc, ReduceKind kind, AstBinds *binds, AstExpr *condition);
AstExpr *ast_closed(AstExpr *e);
AstExpr *ast_reduce(Parser *p, Loc loc, AstExpr *head, AstExpr *body);

AstNames *ast_add_name(Parser *p, AstNames *list, AstName name); /* list NULL: a new one; so below */
AstExprs *ast_add_expr(Parser *p, AstExprs *list, AstExpr *e);
AstBinds *ast_add_bind(Parser *p, AstBinds *list, AstBind bind);
AstSubscripts *ast_add_subscript(Parser *p, AstSubscripts *list, AstExpr *value, AstExpr *extent);
AstParams *ast_add_params(Parser *p, AstParams *list, AstParams *more);
AstParams *ast_params(Parser *p, Role role, const AstNames *names, const AstType *type);
AstWords *ast_add_word(Parser *p, AstWords *list, AstWord word);
/* `?{ inner }` as words. */
AstWords *ast_add_choice(Parser *p, AstWords *list, Loc open, const AstWords *inner, Loc close);
AstWord ast_integer_word(Parser *p, AstInt value);
AstWord ast_sign_word(Parser *p, const char *sign, Loc loc);
AstWrts *ast_add_wrt(Parser *p, AstWrts *list, AstWrt wrt);
AstWrts *ast_then(Parser *p, AstWrts *first, const AstWrts *later); /* one list of both */
AstSaves *ast_add_save(Parser *p, AstSaves *list, AstSave save);

AstName ast_elem(Parser *p, Loc loc, Elem elem);
AstPacked ast_packed(Parser *p, Loc loc, AstName both /* or name NULL */);
AstType *ast_tensor_type(Parser *p, Loc loc, AstName elem, const AstExprs *extents, AstPacked packed);
AstType *ast_route_type(Parser *p, Loc loc, AstExpr *tokens, AstExpr *choices, AstName group);

AstLhs *ast_lhs(Parser *p, Loc loc, AstName name, const AstSubscripts *subscripts);
AstEquation *ast_equation(Parser *p, Loc loc, EqKind kind, const AstLhs *lhs, AstExpr *rhs);
AstEquation *ast_top(Parser *p, Loc loc, const AstLhs *lhs, const AstLhs *ids, AstBind bound, AstExpr *rhs);
AstEquation *ast_route(Parser *p, Loc loc, const AstLhs *lhs, AstName ids, AstName group);
AstEquations *ast_add_equation(Parser *p, AstEquations *list,
                               const AstEquation *q); /* q NULL: it did not parse */

AstDecl *ast_use(Parser *p, Loc loc, AstName path);
AstDecl *ast_type_decl(Parser *p, Loc loc, AstName name, AstName elem);
AstDecl *ast_dim(Parser *p, Loc loc, const AstNames *names, AstInt max, const AstDecl *rule, AstInt constant);
AstDecl *ast_dim_rule(Parser *p, AstInt multiple, AstName word, AstInt prefer);
AstDecl *ast_group_decl(Parser *p, Loc loc, AstName name, AstExpr *groups, AstName word, AstExpr *size);
AstDecl *ast_fn(Parser *p, Loc loc, AstName name, const AstNames *params, AstExpr *body);
AstDecl *ast_kernel(Parser *p, Loc loc, AstName name, const AstParams *params, const AstEquations *equations);
/* later.name NULL: one backward kernel */
AstDecl *ast_derive_names(Parser *p, AstName forward, AstName backward, AstName later);
AstDecl *ast_derive(AstDecl *names, Loc loc, AstName kernel, const AstWrts *wrts, const AstSaves *saves,
                    int cotangents_f32);
AstDecl *ast_block(Parser *p, Loc loc, AstDeclKind kind, AstName kernel, const AstWords *words);
void ast_add_decl(Parser *p, const AstDecl *decl); /* NULL: it did not parse */
void ast_version(Parser *p, AstInt version);

#endif
