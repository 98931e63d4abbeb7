/* The program of a step: tasks on buffers.
 *
 * A step (of training, of evaluation, of generation) is recorded once (record.h), placed in memory (memory.h), verified
 * (verify.h), printed and read as text (text.h), and run many times (run.h). Nothing of a model is known here: a task calls
 * a kernel by name with buffers by the names of its parameters.
 *
 * Note [Views]. A view is a part of another buffer, or the same memory under another shape: it has a base and an offset, and
 * no memory of its own. Views are one level deep. A base that is read whole is written whole, or by views that together
 * cover it.
 *
 * Note [Placements]. A program is what one rank does. On each axis a buffer has a placement: whole, in parts of a dimension, a
 * partial sum, or each member's own; all ranks of the group have the same program, so they agree on it. A group of one has whole
 * tensors only. What a kernel makes of placements, its equations say (moec_kernel_place); what an exchange makes of them, its row in
 * task.def. A buffer keeps its placement: an exchange has another buffer for its result.
 *
 * Note [Own]. Along dp the members run other micro-batches, as one rank does one after the other. What they make of them is their
 * own: no equation holds between members, so a kernel that reads it makes what is their own again, and may read only what is whole
 * beside it. Two things lead back. A gradient of what all members have alike is a sum over micro-batches, so members' own
 * contributions to it are a partial sum. And an allreduce gives the sum of what the members have. */
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "base/base.h"
#include "moec/moec.h"
#include "step/names.h"

enum {
    STEP_NONE = UINT32_MAX,
    STEP_MAX_TASKS = 1 << 19, /* of a recorded program, which takes about 7 KiB for each */
    STEP_ALIGN = 64,   /* bytes, of every buffer's place */
    STEP_MAX_BATCH = 8 /* buffers that a task `batch` fills */
};

typedef uint32_t BufferId, TaskId;

typedef enum Owner {
#define OWNER(name, persistent, doc) OWNER_##name,
#include "step/owner.def"
    OWNER_COUNT
} Owner;

typedef enum Phase {
#define PHASE(name, doc) PHASE_##name,
#include "step/phase.def"
    PHASE_COUNT
} Phase;

typedef enum Lane { LANE_compute, LANE_loader, LANE_disk, LANE_net, LANE_COUNT } Lane;

typedef enum GroupAxis {
#define AXIS(name, doc) AXIS_##name,
#include "step/axis.def"
    AXIS_COUNT
} GroupAxis;

/* What the members of a group of an axis have of a tensor: Note [Placements]. */
typedef int8_t Placement;
enum {
    PLACED_WHOLE = 0,  /* all have the same */
    PLACED_SUM = -1,   /* the sum of theirs is meant */
    PLACED_OWN = -3,   /* each has its own, of its micro-batches: Note [Own] */
    PLACED_MIXED = -2, /* a base whose views have placements of their own: no task names it */
};
/* Each has a part of that dimension, one behind the other; of a route: of its tokens, 0. */
#define PLACED_PART(dim) ((Placement)(1 + (dim)))

typedef enum TaskKind {
#define TASK(name, lane, doc) TASK_##name,
#include "step/task.def"
    TASK_COUNT
} TaskKind;

/* What an exchange takes and gives: task.def. */
typedef enum Exchanged { EXCHANGED_WHOLE, EXCHANGED_SUM, EXCHANGED_PART, EXCHANGED_ROWS, EXCHANGED_SAME, EXCHANGED_NOTHING } Exchanged;
typedef struct ExchangeRule {
    int is_exchange;
    TaskKind adjoint;
    Exchanged takes, gives;
} ExchangeRule;

typedef struct StepBuffer {
    const char *name;             /* one of its kind in the program */
    moec_param_kind kind;         /* a tensor, a scalar passed by value, a route */
    moec_type type;               /* of a tensor's or scalar's elements */
    int packed;                   /* 0: row-major; 1: packed; 2: packed both */
    Owner owner;
    uint32_t rank;                /* of a route 4: tokens, choices, groups, rows */
    int64_t shape[MOEC_MAX_RANK];
    int64_t bytes;
    BufferId base;                /* of a view; else STEP_NONE */
    int64_t offset;               /* bytes, of a view in its base */
    double value;                 /* of a scalar, before the first run */
    Placement placed[AXIS_COUNT]; /* shape is this rank's part */
    int64_t place;                /* bytes from the start of the arena or of the swap file; -1: none (persistent, a view, not placed yet) */
    TaskId first, last;           /* the tasks between which it holds what is needed; STEP_NONE: no task names it */
} StepBuffer;

/* How a task uses a buffer. */
typedef enum OperandUse {
    USE_READ,
    USE_WRITE,  /* all of it is written, nothing read */
    USE_UPDATE, /* read and written */
    USE_SHAPE   /* nothing is read or written: a kernel has a parameter there of which it reads no element */
} OperandUse;

typedef struct Operand {
    const char *param; /* of the kernel; of other tasks the role that task.def names */
    BufferId buffer;
    OperandUse use;
} Operand;

/* A dimension of a kernel: a constant, or an extent, a number that changes from run to run and has a bound. */
typedef struct TaskDim {
    const char *name;
    int64_t size;    /* of an extent: its bound */
    BufferId extent; /* a scalar, or an i32 number in memory that persists, which a task writes; STEP_NONE: a constant */
} TaskDim;

typedef struct Task {
    TaskKind kind;
    Phase phase;
    int32_t layer, micro; /* -1: none */
    const char *module;   /* what the recipe calls the part of the layer that a forward task belongs to; NULL: none */
    uint32_t kernel;      /* index in Program.kernels; STEP_NONE: of another kind */
    GroupAxis axis;            /* of an exchange: whose group does it */
    int32_t peer;         /* of send and recv: places behind this rank in the group, which is a ring; below 0: before it */
    Vec(TaskDim) dims;    /* in the order of the kernel */
    Vec(Operand) operands; /* of a kernel each of its parameters, in any order */
    BufferId work;        /* its work space, or STEP_NONE */
} Task;

/* A kernel that tasks call: of a source file, or made by a `derive` block that the recorder asked for. */
typedef struct StepKernel {
    const char *source; /* "router.moe" */
    const char *name;
    const char *derive; /* the block's text, or NULL */
} StepKernel;

typedef struct Program {
    Arena *arena;
    const char *name; /* "train" */
    Vec(StepBuffer) buffers;
    Vec(Task) tasks;
    Vec(StepKernel) kernels;
    int64_t members[AXIS_COUNT]; /* of this rank's group of each axis */
    int64_t arena_bytes;    /* of all that is placed; -1: not placed yet */
    int64_t disk_bytes;     /* of the swap file, in which the places of buffers of owner `disk` are */
    NameTable by_name;      /* for step_find() */
} Program;

extern const char *const owner_names[OWNER_COUNT];
extern const int owner_persists[OWNER_COUNT];
extern const char *const phase_names[PHASE_COUNT];
extern const char *const task_names[TASK_COUNT];
extern const Lane task_lanes[TASK_COUNT];
extern const char *const axis_names[AXIS_COUNT];
extern const ExchangeRule exchange_rules[TASK_COUNT];
extern const char *const use_words[4];

const char *step_type_name(moec_type t);
int64_t step_type_bytes(moec_type t);
/* Elements of a tensor; -1: more than fit an int64. */
int64_t step_elements(const StepBuffer *b);
int64_t step_route_bytes(const int64_t sizes[4]); /* of the arrays of a route */

/* The buffer that holds b's memory: b, or the base of a view. */
static inline BufferId step_home(const Program *p, BufferId b)
{
    return p->buffers.at[b].base == STEP_NONE ? b : p->buffers.at[b].base;
}
static inline int step_persists(const Program *p, BufferId b)
{
    return owner_persists[p->buffers.at[b].owner];
}
static inline int use_reads(OperandUse u) { return u == USE_READ || u == USE_UPDATE; }
static inline int use_writes(OperandUse u) { return u == USE_WRITE || u == USE_UPDATE; }

const char *step_placement_text(Arena *a, Placement p); /* "whole", "in parts of dimension 0" ... */
/* Consecutive runs of elements that a tensor in parts has of each of its parts: the same for all its shapes. Other placements: 0. */
int64_t step_runs(const StepBuffer *b, Placement p);
/* Note [Axes in axes]. A group of dp consists of groups of ep (without tp, which extends them) and of edp, so what one exchange makes
 * of a tensor says something on other axes too: what is whole over dp is whole over edp, and with tp over ep; what is whole over ep
 * is whole over tp, and with edp over dp; a sum over a group is no longer a part of the sum over the larger one; and parts of a sum
 * over a group are each member's own over the groups in it.
 * Turns the placements of an exchange's operand into those of its result, which is `given` over the axis. */
void step_place_result(const Program *p, TaskKind kind, GroupAxis axis, Placement given, Placement placed[AXIS_COUNT]);
/* The same placement under another shape of as many elements, of several dimensions the first (members may have one head each, or one
 * sequence); PLACED_MIXED: there is none. */
Placement step_reshaped(const StepBuffer *from, Placement p, uint32_t rank, const int64_t *shape);

Program *step_new(Arena *a, const char *name); /* groups of one */
/* Tasks and buffers that can be changed, in `a`; operands of tasks are shared. */
Program *step_copy(Arena *a, const Program *p);
BufferId step_add(Program *p, StepBuffer b);            /* its name must be new */
BufferId step_find(const Program *p, const char *name); /* STEP_NONE: there is none */
/* Index of the kernel of that name, added when it is new. */
uint32_t step_add_kernel(Program *p, StepKernel k);

/* In a group of one a rank sends to itself: what recv gets, the first send before it that no recv before it has got. STEP_NONE:
 * there is none. */
TaskId step_send_of(const Program *p, TaskId recv);

#define each_operand(task, o)                                                                                \
    for (const Operand *o = (task)->operands.at, *o##_end = o ? o + (task)->operands.len : o; o < o##_end; o++)

#endif
