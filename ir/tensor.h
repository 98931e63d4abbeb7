/* Tensors, routes and index variables: what the expressions of a kernel are about. */
#ifndef IR_TENSOR_H
#define IR_TENSOR_H

#include "ir/type.h"

/* One axis of a tensor or index variable: dense 0..extent-1, or the rows of a group. */
typedef struct Axis {
    Extent extent; /* for rows: the group's `rows` */
    GroupId group; /* NONE: dense */
} Axis;

typedef struct Index {
    Name name; /* unique among live indices of the kernel when printed; see ir_fresh_name */
    Loc loc;
    Axis axis;
} Index;

typedef enum Role { ROLE_IN, ROLE_OUT, ROLE_INOUT, ROLE_LOCAL } Role;
const char *role_name(Role r); /* "in" */

/* Where a tensor lives. The equation level knows SPACE_GM only. */
typedef enum Space {
    SPACE_GM,     /* a parameter: the caller's memory */
    SPACE_WORK,   /* work space shared by all threads of a call */
    SPACE_THREAD, /* work space of one thread */
    SPACE_REG,    /* registers: constant extents, subscripts constant after unrolling */
    SPACE_L1, /* on the chip of an NPU, at a fixed place (Tensor.at), one for each core: blocks of both operands, */
    SPACE_L0A, /* left operands, */
    SPACE_L0B, /* right operands */
    SPACE_L0C, /* and sums of the cube; */
    SPACE_UB,  /* what the vector unit reads and writes */
    SPACE_COUNT,
} Space;
const char *space_name(Space s);                                         /* "work"; of SPACE_GM "" */
static inline int space_is_memory(Space s) { return s <= SPACE_THREAD; } /* global memory of an NPU */
static inline int space_is_on_chip(Space s) { return s >= SPACE_L1; }
static inline int space_is_private(Space s)
{
    return s >= SPACE_THREAD;
} /* each item of a launch has its own */

enum { MAX_RANK = 8 };

/* Note [Layouts]. How the last two axes [x, y] of a tensor lie in memory; subscripts are the same in all layouts.
 *   rows   row-major.
 *   sums   row-major, of f32: what block products add into.
 *   lines  the left operand A[row, k] of a block product: [y / L][x][L], L elements being one cache line (64 bytes).
 *   pairs  the right operand B[k, column]: panels of 32 columns, [y / 32][x / P][32][P], P elements being one 32-bit
 *          word: two k of a 16-bit type lie side by side, as the matrix instructions of all targets want them.
 *   zN, nZ, zZ   what an NPU's matrix unit reads and writes: fractals of 16 x 16 elements, N: fractals below each other
 *          first, Z: beside each other first; n: elements below each other first, z: beside each other first. Blocks of
 *          operands and sums are zN, left operands zZ, right ones nZ.
 * All but the first are allocated for extents rounded up: rows and columns to 32, k to whole lines. What lies beyond the
 * extent in k is zero; beyond it in rows and columns it is never looked at. Callers keep memory in layout pairs: a change
 * of it is a change of MOE_PACKED_LAYOUT (include/moec/abi.def). Of a tensor `packed both` its panels are followed by those
 * of the transposed matrices, so that a sum over y finds pairs of y: at the tile level they are a tensor of their own (see
 * tile_transposed), and every store goes to both. */
typedef enum Layout {
    LAYOUT_ROWS,
    LAYOUT_SUMS,
    LAYOUT_LINES,
    LAYOUT_PAIRS,
    LAYOUT_ZN,
    LAYOUT_NZ,
    LAYOUT_ZZ,
    LAYOUT_COUNT
} Layout;
enum { LAYOUT_FRACTAL = 16, LAYOUT_EDGE = 32, LAYOUT_LINE_BYTES = 64, LAYOUT_WORD_BYTES = 4 };
const char *layout_name(Layout y); /* "rows" */
static inline int layout_is_dense(Layout y) { return y <= LAYOUT_SUMS; } /* row-major */
static inline int layout_is_fractal(Layout y) { return y >= LAYOUT_ZN; }
/* True if a write to this accumulator may overrun to the next multiple of 32 in rows and columns: the buffer is padded. */
static inline int sums_have_room(Space space, Layout y) { return space == SPACE_THREAD || y == LAYOUT_SUMS; }
/* Of a matrix [x, y], x and y being its extents: the elements that it takes, and the place of element [i, j]. */
int64_t layout_elements(Layout layout, Elem e, int64_t x, int64_t y);
int64_t layout_place(Layout layout, Elem e, int64_t x, int64_t y, int64_t i, int64_t j);

typedef struct Tensor {
    Name name;
    Name original; /* NULL, or its name in the kernel that this one is derived from: schedules know it by that too */
    Loc loc;
    Elem elem;
    Role role;
    uint8_t rank;
    Axis axes[MAX_RANK];
    uint32_t placed; /* cluster + 1 of the row-block group whose threads keep it (Note [Clusters]); 0: in work space or gm */
    Layout layout; /* parameters: `packed` is LAYOUT_PAIRS; locals: the lowering's choice */
    uint8_t unread; /* an `in` parameter of which the kernel reads no element: passes/interface.c */
    uint8_t both;  /* `packed both`: the panels of the transposed matrices [.., y, x] stand behind those of [.., x, y] */
    /* tile level */
    Space space;
    int64_t at;      /* on-chip spaces: its first byte */
    uint32_t lanes;  /* SPACE_REG: values per element, one for each lane; 0: scalar */
    RouteId route;   /* this tensor is a field of a route: see RouteField; else NONE */
    uint8_t field;
    uint32_t transposed; /* 1 + the tensor `packed both` whose transposed matrices these are: see tile_transposed(); else 0 */
} Tensor;

typedef struct Route {
    Name name;
    Loc loc;
    Role role;
    Extent tokens, choices;
    GroupId group;
} Route;

/* The arrays of a route. */
typedef enum RouteField {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) RF_##field,
#include "moec/abi.def"
    RF_FIELDS
} RouteField;

typedef struct Param {
    enum { PARAM_TENSOR, PARAM_ROUTE } kind;
    uint32_t id; /* TensorId or RouteId */
} Param;

#endif
