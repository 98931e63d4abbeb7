/* Semantic analysis: AST -> the equation level. Shared by the sema_*.c files, each of which calls those of later lines only:
 *
 *   sema                                              the order in which a module is checked
 *   kernel  fn  derive  schedule  test  exports  warn   one declaration
 *   gradcheck                                         one clause of a test
 *   equation  route                                   one statement of a kernel
 *   expr  access  call                                one expression; these three call each other
 *   bind  pack
 *   fit  swap  extent                                 an index on an axis of something else, or on none
 *   write                                             what the equations so far define
 *   symbol                                            the names of a kernel; how a mistake is reported
 *   type                                              element types by name
 *   decl                                              names, extents, dimensions, groups
 *
 * Note [Two walks]. An equation is walked twice. Binding (sema_bind.c) finds out over which axis each index
 * ranges, from its uses as a whole subscript. Building (sema_expr.c, sema_access.c) then makes the
 * expression, with types, guards and proofs. Both stop at the first mistake: one statement, one error.
 *
 * Note [Poison]. What a mistaken statement would have defined is remembered as poisoned: statements that use
 * it are dropped in silence. */
#ifndef FRONTEND_SEMA_H
#define FRONTEND_SEMA_H

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/names.h"

/* Limits against texts that would exhaust memory or time; code E0904. */
enum {
    MAX_DECLARED = 4096, /* dimensions, groups, functions, kernels: of each */
    MAX_PARAMS = 1024,
    MAX_EQUATIONS = 4096,
    MAX_NODES = 1 << 18,  /* expression nodes of one kernel */
    MAX_CONDITIONS = 128, /* joined by `and` in one place */
    MAX_DROPPED = 16,     /* rows that may be dropped, of one reduction */
    MAX_SLICES = 1 << 12, /* elements chosen by constant left-hand subscripts */
};

typedef struct Fn {
    const AstDecl *decl;
    enum { FN_NEW, FN_CHECKING, FN_GOOD, FN_BAD } state;
    uint32_t type;        /* its value is of this type parameter, and of the type of */
    Vec(uint32_t) passed; /* these arguments */
} Fn;

/* The type parameter of a value: its place in m->types, or one of these. */
enum {
    TYPE_PLAIN = NAME_ABSENT,     /* none */
    TYPE_MIXED = NAME_ABSENT - 1, /* an `if` of two types: they may be one, or f32, for other choices */
    TYPE_OPEN = NAME_ABSENT - 2,  /* of the arguments of a function alone */
};

/* An element type that a compilation gives instead of that of a `type` declaration. */
typedef struct GivenType {
    AstName name;
    Elem elem;
    int used; /* there is such a declaration */
} GivenType;

/* One frontend_read. */
typedef struct Sema {
    Module *m;
    Arena *arena;
    Vec(const AstDecl *) decls; /* of all files, `use` taken out */
    Vec(AstName) uses;          /* of the first file: paths as written */
    const AstDecl *declaration; /* the one that is checked */
    Vec(Fn) fns;                /* with the casts to type parameters */
    Vec(GivenType) given;
    NameMap types, dims, groups, functions, kernels;
    NameMap derived; /* names of kernels that derive makes */
    NameMap bad;     /* kernels with mistakes: what names them is not looked at closer */
    int broken;      /* something did not parse: a name may be missing for that reason */
} Sema;

/* A text, the files that it uses and what is given beside them as declarations that are not checked: frontend.c */
Sema *sema_read(Module *m, const char *path, const char *text, size_t len, FrontendExtras extras);

/* ---- declarations: sema_decl.c ---- */

int sema_kernel_name(Sema *c, AstName name);
int sema_too_many(Sema *c, Loc loc, uint32_t count, const char *what);
/* Extent of dimensions, integers, + - *; 0 when it was refused. */
int sema_extent(Sema *c, const AstExpr *e, Extent *out);
/* The same, where a group's name stands for its rows. */
int sema_axis(Sema *c, const AstExpr *e, Axis *out);
void sema_dim(Sema *c, const AstDecl *d);
void sema_group(Sema *c, const AstDecl *d);
int sema_add_function(Sema *c, const AstDecl *d); /* 0: refused */

/* ---- element types: sema_type.c, Note [Type parameters] ---- */

void sema_type(Sema *c, const AstDecl *d);
int sema_elem(Sema *c, AstName name, Elem *out); /* 0: refused */
void sema_take_types(Sema *c, const char *text); /* "act=f32, ...", before all declarations */
void sema_types_used(Sema *c); /* after all `type` declarations: each type that was given has one */

void sema_type_fn(const Sema *c, Fn *fn); /* fills in type and passed; those that it calls have them */

/* ---- what is read after them: a file each ---- */

void sema_declarations(Sema *c); /* all, in order: sema.c */
void sema_function(Sema *c, uint32_t fn);
void sema_kernel(
    Sema *c, const AstDecl *d); /* the kernel is in the module afterwards, whole when nothing was reported */
void sema_derive(Sema *c, const AstDecl *d);
void sema_schedule(Sema *c, const AstDecl *d);
void sema_test(Sema *c, const AstDecl *d);
/* sema_gradcheck.c: refuses it at loc where nothing is derived; k: the kernel, or NULL, which derive makes. */
void sema_gradcheck(Sema *c, const AstDecl *test, const Kernel *k, Loc loc);
void sema_warn(Sema *c, uint32_t file); /* warns of what this file declares: unused names, idle rules */
void sema_exports(Sema *c); /* no two C functions of the module have one name */
/* sema_derive.c: the kernel that a derive, schedule or test is about; NULL: reported, or one that derive will make. */
Kernel *sema_target(Sema *c, const AstDecl *d, int may_be_derived);

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
    const AstExpr *use; /* the subscript on the right that told it, or NULL */
    uint32_t beside; /* an index that is compared with it, or NONE */
    Extent near;   /* of an axis where it stands in a sum, as t in x[t - 1]; or NONE */
    const AstExpr *term; /* the reduction that binds it, or what `top` goes over; NULL: it is of the left side */
    IndexId id;
} Var;

/* Something that tells the axis of an index when nothing else does, looked at after the walk. */
typedef struct Hint {
    enum { HINT_IN, HINT_ROW, HINT_EQUAL } kind;
    uint32_t var;     /* HINT_IN: the row index; HINT_ROW: the x of @x; HINT_EQUAL: the index compared */
    const AstExpr *e; /* HINT_IN: the group; HINT_EQUAL: what it is compared with */
    uint32_t other;   /* the index that e is, HINT_EQUAL: the x of e when e is @x; or NONE */
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

typedef struct KernelSema {
    Sema *c;
    Module *m;
    Kernel *k;
    const AstDecl *decl;
    NameMap symbols; /* 2 * id + SymbolKind */
    NameMap poison;  /* names whose definition was mistaken */
    NameMap typed;   /* by tensor: the type parameter of its elements */
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
    Vec(Var) vars;
    Vec(uint32_t) scope; /* vars that can be seen */
    Vec(Hint) hints;
    ExprId guard;       /* under which the expression at hand is evaluated, or NONE */
    Vec(ExprId) guards; /* its conjuncts */
    /* Rows that the nearest reduction (or the equation) must ask for, where the guards from `needs_from` on hold, which stand
     * inside of it. */
    ExprIds *needs;
    uint32_t needs_from;
    Loc access;         /* the tensor access whose subscripts are looked at; line 0: none */
    const AstEquation *equation;
    const AstEquation *bound; /* whose indices are bound, without `pack`; NULL: none yet */
    const Inlined *inlined;
    Loc call_loc;
    uint32_t depth;
} KernelSema;

/* ---- sema_symbol.c: names and mistakes ---- */

/* Reports, unless this statement was reported already, and marks it failed. Returns NONE. */
ExprId sema_error(KernelSema *c, DiagCode code, Loc loc, const char *help, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
const char *sema_text(KernelSema *c, ExprId e); /* as .moe text, for messages */
const char *axis_text(const KernelSema *c, Axis a);
int symbol_get(const KernelSema *c, Name name, SymbolKind kind, uint32_t *id);
void symbol_set(KernelSema *c, Name name, SymbolKind kind, uint32_t id);
/* What is not found is reported; poisoned names fail in silence. */
TensorId sema_find_tensor(KernelSema *c, AstName name);
RouteId sema_find_route(KernelSema *c, AstName name);
/* Refuses a tensor of the equation's own left side; 0: it is another one. */
int sema_is_recurrence(KernelSema *c, AstName name);
/* sema_reach.c: is the name that nothing binds there bound by a reduction that ends before it? Then it says so. */
int sema_is_behind_reduction(KernelSema *c, const AstExpr *e);
const Ahead *sema_ahead(const KernelSema *c, Name name); /* NULL: no equation defines it */
/* Names of the kernel and the module that are near to this one. */
Guess sema_guess(KernelSema *c, Name wanted, int tensors, int scope);

/* ---- sema_write.c: what equations define ---- */

void sema_ahead_of(KernelSema *c, const AstEquations *list);
int sema_readable(KernelSema *c, TensorId t, Loc loc); /* defined above, or a parameter */
int sema_rows(KernelSema *c, GroupId g, Loc loc);      /* the kernel has a route of g, made above */
int sema_route_ready(KernelSema *c, RouteId r, Loc loc);
void sema_all_written(KernelSema *c);
void written_add(KernelSema *c, Written w);
int written_note(KernelSema *c, const Equation *q, TensorId t); /* 0: an element is written twice ... */
Loc written_first(const KernelSema *c, const Equation *q, TensorId t); /* ... first there */

/* ---- sema_type.c ---- */

/* The type parameter of e in the equation at hand. */
uint32_t sema_type_param(const KernelSema *c, const AstExpr *e);

/* ---- sema_pack.c ---- */

/* The element equation that `wp = pack(w)` stands for; q itself when it is none; NULL: reported. */
const AstEquation *sema_pack(KernelSema *c, const AstEquation *q);
int is_pack(const KernelSema *c,
            const AstExpr *e); /* a call of pack or pack_t, and no function has that name */

/* ---- sema_fit.c ---- */

/* What to write instead of an index, and that in words; text NULL: it is not known. */
typedef struct IndexFit {
    const char *text, *help;
} IndexFit;
extern const char fit_by_route[]; /* help where none is known */
IndexFit fit_row(const KernelSema *c, const char *row, GroupId group, Axis axis); /* of a row of the group, on this axis */
/* Of an index that is met on this axis; *at is where, unless it is to change at its other place. */
IndexFit fit_index(const KernelSema *c, const Var *v, Axis axis, Loc *at);
IndexFit fit_other_row(KernelSema *c, ExprId row, GroupId group); /* of a row of another group */

/* ---- sema_swap.c ---- */

/* The only two subscripts of an access, one of which is the index, whose exchange makes both fit all other uses; 0: there are
 * none, or several. */
int find_swap(const KernelSema *c, Name index, const AstExpr **a, const AstExpr **b);

/* ---- sema_extent.c ---- */

int refuse_extent(KernelSema *c, const Var *v); /* nothing tells it; returns 0 */

/* ---- sema_bind.c ---- */

int var_find(const KernelSema *c, Name name, uint32_t *var); /* of those in scope, the innermost */
int bind_left(KernelSema *c, const AstEquation *q, const AstLhs *lhs, const Axis *axes /* or NULL */);
int bind_right(KernelSema *c, AstExpr *e);
int bind_axis(KernelSema *c, uint32_t var, Axis axis, Loc loc, Name by); /* a use over this axis */
int bind_extent(KernelSema *c, uint32_t var, const AstExpr *extent);     /* `k: K` */
int bind_one(KernelSema *c, AstBind *bind);
int bind_end(KernelSema *c); /* every index has an axis, and its IndexId */
void scope_push(KernelSema *c, uint32_t var);
void scope_leave(KernelSema *c, uint32_t length);

/* ---- sema_expr.c, sema_access.c, sema_call.c: expressions ---- */

ExprId build_expr(KernelSema *c, const AstExpr *e);    /* NONE: reported */
ExprId build_integer(KernelSema *c, const AstExpr *e); /* a subscript */
/* Refuses a condition where something else is wanted. */
ExprId sema_condition(KernelSema *c, const AstExpr *e, const char *text, const char *wanted);
ExprId build_float(KernelSema *c, ExprId e); /* an integer as f32 */
ExprId build_conjunction(KernelSema *c, Loc loc, const ExprIds *first, ExprId rest);
Loc build_loc(const KernelSema *c, const AstExpr *e);
Type expr_type(const KernelSema *c, ExprId e);

/* The fields of a route; MAP_FIELDS: reported, an unknown name or another number of arguments. */
typedef enum MapField { MAP_TOKEN, MAP_SLOT, MAP_ROW, MAP_FIELDS } MapField;
MapField sema_find_map(KernelSema *c, const AstExpr *e);

ExprId build_access(KernelSema *c, const AstExpr *e);
ExprId build_map(KernelSema *c, const AstExpr *e);
ExprId build_group(KernelSema *c, const AstExpr *e);
ExprId build_group_of(KernelSema *c, Loc loc, ExprId row);
int sema_subscript(KernelSema *c, Name of, Axis axis, ExprId s, Loc loc);

ExprId build_call(KernelSema *c, const AstExpr *e);
const char *sema_quotient(KernelSema *c, ExprId e); /* a / b or floor(a / b) of integers as idiv(a, b), if that can be; else NULL */
void sema_edit_integer(KernelSema *c, Loc loc, const char *quotient); /* to an error: what stands there as that, or (NULL) cast */

/* ---- sema_equation.c, sema_route.c ---- */

void sema_equation(KernelSema *c, const AstEquation *q);
void sema_route_equation(KernelSema *c, const AstEquation *q);

#endif
