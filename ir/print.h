/* What the printers of one equation share. Private to ir/. */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include "ir/ir.h"

/* Names are given on the way down, so that no index variable hides another one, a tensor or a dimension. */
typedef struct Printer {
    const Kernel *k;
    Text *out;
    Name *name;          /* by IndexId; NULL: not met yet, or out of scope again */
    Vec(IndexId) scope;  /* index variables that have a name now */
} Printer;

/* Declarations, a line each; the same at both levels. */
void print_dim(const Dim *d, Text *out);
void print_group(const Module *m, const Group *g, Text *out);
/* Above equation `at`, when it is the first one of a cluster. */
void print_cluster(const Kernel *k, uint32_t at, Text *out);

Printer printer_new(const Kernel *k, Text *out);
Name printer_bind(Printer *p, IndexId i);              /* brings i into scope */
void printer_leave(Printer *p, uint32_t scope_length); /* and takes the youngest out again */

/* The weakest operator that may stand without parentheses. */
typedef enum Precedence { PREC_OR, PREC_AND, PREC_NOT, PREC_COMPARE, PREC_SUM, PREC_PRODUCT, PREC_UNARY,
                     PREC_PRIMARY } Precedence;
void printer_expr(Printer *p, ExprId e, Precedence level);
/* `i`, or `i: EXTENT` when no use in the given expressions (each or NONE) tells the extent. */
void printer_binding(Printer *p, IndexId i, const ExprId *uses, uint32_t nuses);
void printer_extent(Printer *p, Extent e, Precedence level); /* as an expression: 2 * F */

#endif
