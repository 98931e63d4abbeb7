/* What the reference interpreter runs.
 *
 * Note [Reference]. A reference that runs after a pass repeats that pass's mistakes. So a kernel of the text runs as the
 * checker made it, before any pass, and a derived kernel runs as its printed text reads: what `moec grad` shows is what is
 * compared. Whether the derived text is the gradient is judged apart from it, by differences of the kernel as written. */
#ifndef DRIVER_REFERENCE_H
#define DRIVER_REFERENCE_H

#include "driver/driver.h"

typedef struct Reference {
    Module *program; /* the text, read */
    Module *derived; /* c->module, printed and read again; its derived kernels are used */
} Reference;

/* Needs c->module as compile_read(c, 1) leaves it. Both modules have the dimensions of c->module, in its order. Runs under
 * compile_guard(); returns a DriverStatus. */
int reference_make(Compilation *c, Reference *out);
/* What kernel k of c->module means: the kernel of the same name and parameters in one of the two. */
Kernel *reference_of(const Reference *r, const Kernel *k);

#endif
