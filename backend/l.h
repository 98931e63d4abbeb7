/* Short helpers over the LLVM builder: l_load, l_add, l_call ... One L is one LLVM module under construction.
 *
 * Two-operand helpers broadcast: when one operand has lanes (is a vector) and the other has none, the other
 * is repeated. A value's LLVM type says whether it has lanes. */
#ifndef BACKEND_L_H
#define BACKEND_L_H

#include "backend/backend.h"
#include "backend/llvm.h"

typedef struct L {
    Arena *arena;
    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    Ty i1, i8, i16, i32, i64, f16, f32, f64, ptr, none;
    unsigned md_scope, md_others; /* kinds of alias metadata */
    unsigned md_past;             /* of stores past the caches */
    Family family;                /* of the CPUs that run the module */
    V fn;                         /* function being emitted */
    Block entry;                  /* its first block: stack slots, and what is computed once */
    int split;                    /* the module is a part: what parts share is hidden, not internal */
    int quick, first;             /* a part that is generated fast; the first of its kind has what all need */
    int words;                    /* the target broadcasts 16-bit words */
    int hides;                    /* l_for() hides what loop variables are */
    Vec(V) later;                 /* l_quick_later() */
} L;

enum { LANES_MAX = 256 }; /* of a vector */

void l_init(L *l, Arena *arena, LLVMContextRef ctx, LLVMModuleRef mod);

/* Types and constants. */
uint32_t l_width(V v);                          /* lanes, 0: none */
Ty l_lanes_of(L *l, Ty scalar, uint32_t lanes); /* the scalar type when lanes is 0 */
Ty l_like(L *l, Ty scalar, V shape);            /* scalar, with as many lanes as shape */
int l_is_int(V v);                              /* integers and conditions, with or without lanes */
int l_is_bool(V v);
V l_int(Ty type, int64_t value); /* type may have lanes */
V l_i64(L *l, int64_t value);
V l_i32(L *l, int64_t value);
V l_true(L *l);
V l_false(L *l);
V l_f32(L *l, double value);
V l_real(Ty type, double value);  /* type may have lanes */
V l_text(L *l, const char *text); /* address of a private constant */
V l_bytes(L *l, const char *bytes, size_t n); /* likewise, with a zero behind them */
V l_table(L *l, Ty type, V *all, size_t n, const char *name);
V l_iota(L *l, Ty scalar, uint32_t lanes);
int l_constant(V v, int64_t *value); /* v is a known integer */
int l_constant_lanes(L *l, V v, int64_t *value); /* or lanes of 64 bits that all are */

/* Operations. */
V l_splat(L *l, V v, uint32_t lanes);
V l_part(L *l, V v, uint32_t from, uint32_t n); /* lanes from .. from + n - 1; behind the last one anything */
V l_join(L *l, V a, V b);                       /* the lanes of a, then those of b, which are not more */
void l_match(L *l, V *a, V *b);
V l_bin(L *l, LLVMOpcode op, V a, V b);
V l_add(L *l, V a, V b);
V l_sub(L *l, V a, V b);
V l_mul(L *l, V a, V b);
V l_and(L *l, V a, V b);
V l_or(L *l, V a, V b);
V l_not(L *l, V a);
V l_shl(L *l, V a, int bits);
V l_shr(L *l, V a, int bits); /* logical */
V l_sar(L *l, V a, int bits); /* arithmetic */
V l_fadd(L *l, V a, V b);
V l_fsub(L *l, V a, V b);
V l_fmul(L *l, V a, V b);
V l_fdiv(L *l, V a, V b);
V l_icmp(L *l, LLVMIntPredicate p, V a, V b);
V l_fcmp(L *l, LLVMRealPredicate p, V a, V b);
V l_select(L *l, V c, V a, V b);
V l_min(L *l, V a, V b); /* signed */
V l_max(L *l, V a, V b);
V l_round_up(L *l, V v, int64_t to); /* to a multiple of a power of two */
V l_cast(L *l, LLVMOpcode op, V v, Ty scalar); /* keeps lanes */
V l_bits(L *l, V v, Ty scalar);                /* bitcast, keeps lanes */
V l_lane(L *l, V v, V index);                  /* one lane */
V l_any(L *l, V mask);       /* at least one lane holds; a condition without lanes: itself */
V l_lane_bits(L *l, V mask); /* iN of the lanes */

/* Memory. Alignment 0: the type's own scalar alignment. */
V l_load(L *l, Ty type, V ptr, unsigned align);
V l_store(L *l, V v, V ptr, unsigned align);
V l_store_past(L *l, V v, V ptr, unsigned align); /* past the caches */
V l_at(L *l, Ty elem, V ptr, V index); /* address of ptr[index]; inbounds */
V l_field(L *l, Ty type, V ptr, unsigned field);
V l_slot(L *l, Ty type, const char *name); /* a stack slot in the entry block */
V l_slot_bytes(L *l, uint64_t bytes, const char *name); /* one that begins a cache line */
V l_byte(L *l, V ptr, V offset);           /* address of a byte */

/* Calls. */
V l_declare(L *l, const char *name, Ty type);
V l_call(L *l, V fn, const V *args, unsigned n);
V l_call_at(L *l, Ty type, V address, const V *args, unsigned n); /* the address of one of several functions */
V l_intrinsic(L *l, const char *name, Ty overload, const V *args, unsigned n); /* overload NULL: none */
V l_intrinsic2(L *l, const char *name, Ty a, Ty b, const V *args, unsigned n);
Ty l_fn_type(L *l, Ty result, const Ty *params, unsigned n);
void l_shared(L *l, V fn_or_global); /* seen by all parts of the object, by no one else */
V l_shared_function(L *l, const char *name, Ty type); /* the one of the name, declared if need be */
void l_attribute(L *l, V fn, const char *name);
void l_pure(L *l, V fn);  /* what it returns follows from its arguments, and it does nothing else */
void l_plain(L *l, V fn); /* for any CPU of the family */
void l_quick(L *l, V fn); /* code that runs once per call: generated fast rather than well */
/* The same once its instructions are optimized: l_optimized() says that they are. Registers are given well, addresses
 * are not folded. */
void l_quick_later(L *l, V fn);
void l_optimized(L *l);
void l_attribute_text(L *l, V fn, const char *name, const char *value);

/* Blocks. */
Block l_block(L *l, const char *name);
void l_enter(L *l, Block b);
void l_goto(L *l, Block to);
void l_branch(L *l, V condition, Block then, Block otherwise);
Block l_here(L *l);
V l_phi(L *l, Ty type, V a, Block from_a, V b, Block from_b);
/* Moves to the end of the entry block and back: what is computed between is known in the whole function. */
Block l_to_entry(L *l);
void l_from_entry(L *l, Block back);
/* Begins a function: an entry block that falls through to a first block, where the builder stands. */
void l_begin(L *l, V fn);

/* Emits a function in the middle of another: between begin and end the builder stands in fn. */
typedef struct Aside {
    V fn;
    Block entry, here;
    LLVMMetadataRef line;
} Aside;
Aside l_begin_aside(L *l, V fn);
void l_end_aside(L *l, const Aside *a);

/* A counted loop in rotated form: tested before the first trip and after each. `var` is valid in the body. */
typedef struct For {
    Block body, exit, outside;
    V var, phi, next, hi;
} For;
For l_for(L *l, V lo, V hi, int64_t step, const char *name);
void l_end_for(L *l, For *f);

/* A loop over the lanes of a mask, lowest first; `lane` is valid in the body. */
typedef struct EachLane {
    Block body, done;
    V left, lane;
} EachLane;
EachLane l_each_lane(L *l, V mask);
void l_end_lanes(L *l, EachLane *x);

/* Values that a loop carries: call right after l_for() with what they are before it; `now` is what they are in the
 * body, to be overwritten with what they become; after l_carried() it is what they are after the loop. */
typedef struct LoopCarry {
    V *now, *first, *phi;
    uint32_t n;
} LoopCarry;
LoopCarry l_carry(L *l, const For *f, V *values, uint32_t n);
void l_carried(L *l, For *f, LoopCarry *c); /* ends the loop */

/* if (condition) { ... } */
typedef struct When {
    Block exit;
} When;
When l_when(L *l, V condition);
void l_end_when(L *l, When *w);

#endif
