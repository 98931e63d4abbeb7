/* Types of elements and expressions, scalar operations, dimensions, extents and groups: what has no kernel. */
#ifndef IR_TYPE_H
#define IR_TYPE_H

#include "base/base.h"

typedef uint32_t DimId, GroupId, Extent, IndexId, TensorId, RouteId, ExprId;
enum { NONE = UINT32_MAX };

/* ---- types ---- */

typedef enum Elem { EL_F32, EL_BF16, EL_F16, EL_I32, EL_I64 /* locals only */, EL_COUNT } Elem;

/* The type of an expression. i32 elements are TY_INT (64-bit) as soon as they are read. */
typedef enum Type { TY_INT, TY_BOOL, TY_F32, TY_BF16, TY_F16 } Type;

const char *elem_name(Elem e);   /* "f32" */
size_t elem_bytes(Elem e);
Type elem_type(Elem e);          /* the type of reading one element */
static inline int type_is_float(Type t) { return t >= TY_F32; }
const char *type_name(Type t);   /* "integer", "condition", "f32" ... for messages */

typedef enum ScalarKind { SK_ARITH, SK_FLOAT, SK_COMPARE, SK_LOGIC, SK_CAST, SK_SAME, SK_INDEX } ScalarKind;

typedef enum ScalarOp {
#define SCALAR(name, spelling, arity, kind, cost, ulp, ga, gb, doc) OP_##name,
#include "ir/scalar.def"
    OP_COUNT
} ScalarOp;

typedef struct ScalarRow {
    const char *name, *spelling;
    uint8_t arity;
    ScalarKind kind;
    uint8_t cost;
    double ulp;
    const char *gradient[2];
    const char *doc;
} ScalarRow;
extern const ScalarRow scalar_table[OP_COUNT];
ScalarOp scalar_find(const char *function_name); /* a callable function or cast; OP_COUNT when there is none */

/* `type act = bf16`: programs hold the element type only, and the manifest has the name. */
typedef struct TypeParam {
    Name name;
    Elem elem; /* a float */
} TypeParam;

/* ---- dimensions, extents, groups ---- */

typedef struct Dim {
    Name name;
    Loc loc;
    int64_t constant; /* -1: known at call time */
    int64_t max;      /* -1: none */
    int64_t multiple; /* `% N`; 1: none */
    int64_t prefer;   /* 1: none */
} Dim;

/* An extent is a polynomial over dimensions with integer coefficients, interned: `2*F`, `T*K`, `E+1`. */
typedef struct Monomial {
    int64_t coef;
    uint32_t ndims;
    const DimId *dims; /* ascending, repeated for powers */
} Monomial;

typedef struct ExtentForm {
    const Monomial *terms; /* canonical order; no zero coefficient; a constant has ndims 0 */
    uint32_t nterms;
    Extent folded;         /* the same with constant dimensions put in */
} ExtentForm;

typedef enum GroupKind { GROUP_ROWS, GROUP_CAPACITY } GroupKind;

typedef struct Group {
    Name name;
    Loc loc;
    Extent groups;  /* E, number of runs */
    GroupKind kind;
    Extent size;    /* as written: rows: upper bound of all rows; capacity: places of each run */
    Extent rows;    /* extent of the row space: size, or groups * size */
} Group;

#endif
