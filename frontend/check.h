/* Checking: AST -> the equation level. Shared by the check_*.c files.
 *
 * Note [Two walks]. An equation is walked twice. Binding (check_bind.c) finds out over which axis each index
 * ranges, from its uses as a whole subscript. Building (check_expr.c, check_access.c) then makes the
 * expression, with types, guards and proofs. Both stop at the first mistake: one statement, one error.
 *
 * Note [Poison]. What a mistaken statement would have defined is remembered as poisoned: statements that use
 * it are dropped in silence. */
#ifndef FRONTEND_CHECK_H
#define FRONTEND_CHECK_H

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/names.h"

/* Limits against texts that would exhaust memory or time; code E0904. */
enum {
    MAX_DECLARED = 4096, /* dimensions, groups, functions, kernels: of each */
    MAX_PARAMS = 1024,
    MAX_EQUATIONS = 4096,
    MAX_NODES = 1 << 18,  /* expression nodes of one kernel */
    MAX_CONDITIONS = 64, /* joined by `and` in one place, rows that may be dropped included */
    MAX_SLICES = 1 << 12, /* elements chosen by constant left-hand subscripts */
};

typedef struct Fn {
    const AstDecl *decl;
    enum { FN_NEW, FN_CHECKING, FN_GOOD, FN_BAD } state;
} Fn;

/* One frontend_read. */
typedef struct Checker {
    Module *m;
    Arena *arena;
    Vec(const AstDecl *) decls; /* of all files, `use` taken out */
    Vec(Fn) fns;
    NameMap dims, groups, functions, kernels;
    NameMap derived; /* names of kernels that derive makes */
    NameMap bad;     /* kernels with mistakes: what names them is not looked at closer */
    int broken;      /* something did not parse: a name may be missing for that reason */
} Checker;

/* ---- module level: check_decl.c, check_fn.c, check_derive.c, check_block.c ---- */

void check_declarations(Checker *c);
void check_function(Checker *c, uint32_t fn);
void check_derive(Checker *c, const AstDecl *d);
void check_schedule(Checker *c, const AstDecl *d);
void check_test(Checker *c, const AstDecl *d);
/* The kernel that a derive, schedule or test is about; NULL: reported, or one that derive will make. */
Kernel *check_target(Checker *c, const AstDecl *d, int may_be_derived);
/* Extent of dimensions, integers, + - *; 0 when it was refused. */
int check_extent(Checker *c, const AstExpr *e, Extent *out);
/* The same, where a group's name stands for its rows. */
int check_axis(Checker *c, const AstExpr *e, Axis *out);
int check_kernel_name(Checker *c, AstName name);
void check_exports(Checker *c); /* no two C functions of the module have one name */

const char *help_guess(Arena *a, const Guess *g, const char *otherwise);

/* ---- one kernel ---- */

typedef Vec(ExprId) ExprIds;

/* An index of the equation at hand. */
typedef struct Var {
    Name name;
    Loc loc;
    int on_left, known;
    Axis axis;
    Loc known_at;
    Name known_by; /* the tensor or route whose axis it was */
    IndexId id;
} Var;

/* Something that tells the axis of an index when nothing else does, looked at after the walk. */
typedef struct Hint {
    enum { HINT_IN, HINT_ROW, HINT_EQUAL } kind;
    uint32_t var;     /* HINT_IN: the row index; HINT_ROW: the x of @x; HINT_EQUAL: the index compared */
    const AstExpr *e; /* HINT_IN: the group; HINT_EQUAL: what it is compared with */
    uint32_t other;   /* the index that e is, or NONE */
    Loc loc;
} Hint;

/* What the equations so far did to a tensor. */
typedef struct Written {
    Loc first; /* the first equation */
    int poisoned, equations, adds;
    uint8_t fixed[MAX_RANK]; /* some equation has a constant there */
    uint8_t *slice;          /* by combination of constants: written */
    uint32_t slices, left;
} Written;

/* What all equations of the kernel have on their left, by name: known before the first is checked. */
typedef struct Ahead {
    Name name;
    uint32_t equations, adds;
    uint8_t rank, fixed[MAX_RANK];
    int64_t largest[MAX_RANK]; /* constant there */
    int is_route;
} Ahead;

/* A function being put in: its parameters' values. */
typedef struct Inlined {
    const AstDecl *fn;
    const ExprId *values;
} Inlined;

typedef struct InlinedCall {
    uint32_t fn, nargs;
    const ExprId *args;
    ExprId result;
} InlinedCall;

typedef enum SymbolKind { SYMBOL_TENSOR, SYMBOL_ROUTE } SymbolKind;

typedef struct KernelCheck {
    Checker *c;
    Module *m;
    Kernel *k;
    const AstDecl *decl;
    NameMap symbols; /* 2 * id + SymbolKind */
    NameMap poison;  /* names whose definition was mistaken */
    NameMap ahead_map;
    Vec(Ahead) ahead;
    Vec(Written) written;   /* by TensorId */
    Vec(Loc) routed;        /* by RouteId: where it was made; line 0: not yet */
    Vec(uint16_t) heights;  /* by ExprId */
    Vec(InlinedCall) calls; /* memo */
    uint32_t *call_slots;   /* hash table of calls: index + 1 */
    uint32_t call_size;
    /* the equation at hand */
    int failed;
    TensorId writing;
    Vec(Var) vars;
    Vec(uint32_t) scope; /* vars that can be seen */
    Vec(Hint) hints;
    ExprId guard;       /* under which the expression at hand is evaluated, or NONE */
    Vec(ExprId) guards; /* its conjuncts */
    ExprIds *needs;     /* rows that the nearest reduction (or the equation) must ask for */
    const Inlined *inlined;
    Loc call_loc;
    uint32_t depth;
} KernelCheck;

/* Checks and builds; the kernel is in the module afterwards, whole when nothing was reported. */
void check_kernel(Checker *c, const AstDecl *d);

/* Reports, unless this statement was reported already, and marks it failed. Returns NONE. */
ExprId check_error(KernelCheck *c, DiagCode code, Loc loc, const char *help, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
const char *check_text(KernelCheck *c, ExprId e); /* as .moe text, for messages */
const char *axis_text(const KernelCheck *c, Axis a);

/* check_kernel.c: symbols. What is not found is reported; poisoned names fail in silence. */
TensorId check_find_tensor(KernelCheck *c, AstName name);
RouteId check_find_route(KernelCheck *c, AstName name);
int symbol_get(const KernelCheck *c, Name name, SymbolKind kind, uint32_t *id);
void symbol_set(KernelCheck *c, Name name, SymbolKind kind, uint32_t id);
const Ahead *check_ahead(const KernelCheck *c, Name name); /* NULL: no equation defines it */
/* Names of the kernel and the module that are near to this one. */
Guess check_guess(KernelCheck *c, Name wanted, int tensors, int scope);

/* check_write.c: what equations define. */
void check_ahead_of(KernelCheck *c, const AstEquations *list);
int check_readable(KernelCheck *c, TensorId t, Loc loc); /* defined above, or a parameter */
int check_rows(KernelCheck *c, GroupId g, Loc loc);      /* the kernel has a route of g, made above */
int check_route_ready(KernelCheck *c, RouteId r, Loc loc);
void check_equation(KernelCheck *c, const AstEquation *q);
void check_all_written(KernelCheck *c);
void written_add(KernelCheck *c, Written w);
int written_note(KernelCheck *c, const Equation *q, TensorId t); /* 0: an element is written twice */
void check_route_equation(KernelCheck *c, const AstEquation *q);

/* check_pack.c: the element equation that `wp = pack(w)` stands for; q itself when it is none; NULL: reported. */
const AstEquation *check_pack(KernelCheck *c, const AstEquation *q);
int is_pack(const KernelCheck *c, const AstExpr *e); /* a call of pack or pack_t, and no function has that name */

/* check_bind.c */
int var_find(const KernelCheck *c, Name name, uint32_t *var); /* of those in scope, the innermost */
int bind_left(KernelCheck *c, const AstEquation *q, const AstLhs *lhs, const Axis *axes /* or NULL */);
int bind_right(KernelCheck *c, AstExpr *e);
int bind_axis(KernelCheck *c, uint32_t var, Axis axis, Loc loc, Name by); /* a use over this axis */
int bind_extent(KernelCheck *c, uint32_t var, const AstExpr *extent);     /* `k: K` */
int bind_one(KernelCheck *c, AstBind *bind);
int bind_end(KernelCheck *c); /* every index has an axis, and its IndexId */
void scope_push(KernelCheck *c, uint32_t var);
void scope_leave(KernelCheck *c, uint32_t length);

/* check_expr.c */
ExprId build_expr(KernelCheck *c, const AstExpr *e);    /* NONE: reported */
ExprId build_integer(KernelCheck *c, const AstExpr *e); /* a subscript */
ExprId build_float(KernelCheck *c, ExprId e);           /* an integer as f32 */
ExprId build_conjunction(KernelCheck *c, Loc loc, const ExprIds *first, ExprId rest);
void guard_push(KernelCheck *c, ExprId condition);
void guard_leave(KernelCheck *c, uint32_t length, ExprId guard);
Loc build_loc(const KernelCheck *c, const AstExpr *e);
Type expr_type(const KernelCheck *c, ExprId e);

/* check_access.c */
ExprId build_access(KernelCheck *c, const AstExpr *e);
ExprId build_map(KernelCheck *c, const AstExpr *e);
ExprId build_group(KernelCheck *c, const AstExpr *e);
ExprId build_group_of(KernelCheck *c, Loc loc, ExprId row);
int check_subscript(KernelCheck *c, Name of, Axis axis, ExprId s, Loc loc);

/* check_call.c */
ExprId build_call(KernelCheck *c, const AstExpr *e);

#endif
