/* What the files of ir_place() share: place.c (parameters, equations), place_value.c (expressions). */
#ifndef IR_PLACER_H
#define IR_PLACER_H

#include "ir/expr.h"
#include "ir/place.h"

/* What the processes together hold of an expression's value, at one assignment of the index variables. */
typedef struct Joint {
    enum { V_WHOLE, V_SUM, V_PART, V_NUMBER, V_SAME } kind;
    IndexId along; /* of V_PART, V_NUMBER and V_SAME: the index variable along D that it varies with */
    IndexId
        other; /* of V_SAME: a condition that holds only where `along` and `other` are about one element, so of one process */
    Axis
        space; /* of V_NUMBER: it counts this process's elements of that axis, from 0, so it is a subscript only */
} Joint;

typedef struct Placer {
    const Kernel *k;
    Arena *a;
    uint8_t *cut;      /* by DimId: a dimension that something is in parts along */
    const char *along; /* those, for messages; NULL: there is none */
    int *tensors;      /* by TensorId: a place */
    int *routes;       /* by RouteId: 0 or PLACE_WHOLE */
    Joint *values;     /* by ExprId */
    uint8_t *needed;   /* by ExprId: the equation has it, and its value is not known yet */
    uint8_t *known;
    Name lhs; /* of the equation that is looked at */
    const char *error;
} Placer;

#define REFUSE(p, ...) ((p)->error = (p)->error ? (p)->error : arena_printf((p)->a, __VA_ARGS__))
#define REFUSE_EQUATION(p, ...) REFUSE(p, "equation of `%s`: %s", (p)->lhs, arena_printf((p)->a, __VA_ARGS__))

int place_is_along(const Placer *p, Extent e);         /* along D */
int place_index_is_along(const Placer *p, IndexId i); /* it goes over an axis along D */
Joint place_joined(Placer *p, Joint a, Joint b);      /* of a function of both that is not linear */
Joint place_subscript(Placer *p, Joint access, Axis axis, Joint s); /* joins what subscript s of an axis varies with */
Joint place_value(Placer *p, ExprId root);

#endif
