/* unread, interface: what callers are told about kernels, as soon as all kernels are there.
 *
 * A backward kernel has the inputs of its forward as parameters, and many of them only give shapes: the cotangent of
 * x in `y = a * x` needs a, not x. Those are marked, so that a caller may give their memory away, and the entries of
 * compiled code ask for no memory behind their pointers. Of kernels that are not to become code nothing but the
 * signature is needed, so the passes that follow do not meet them. */
#include "passes/passes.h"

#include <string.h>

static void mark_unread(Kernel *k)
{
    const uint8_t *read = dce_live(k, NULL).read;
    for (TensorId t = 0; t < k->tensors.len; t++)
        k->tensors.at[t].unread = k->tensors.at[t].role == ROLE_IN && !read[t];
}

static void refuse_unknown(Module *m, const char *list)
{
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *name = arena_strndup(m->arena, at, strcspn(at, ","));
        if (!ir_find_kernel(m, name_of(m->names, name)))
            diag_add(m->diags, DIAG_driver_kernel, (Loc){0},
                     "name kernels of the program, with commas between them",
                     "there is no kernel '%s' to make code of", name);
    }
}

void interface_select(Module *m, const char *kernels)
{
    uint32_t kept = 0;
    if (!kernels)
        return;
    refuse_unknown(m, kernels);
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        Kernel *k = m->kernels.at[i];
        if (text_lists(kernels, k->name))
            m->kernels.at[kept++] = k;
        else
            vec_push(m->arena, &m->interfaces, k);
    }
    m->kernels.len = kept;
}

/* Before:  kernel f(in x: f32[T], in n: i32[T], out y: f32[T]) { rest[t] = x[n[t]]  y[t] = 0 * x[t] }
 * After:   n is unread. Whether x is does not hang on what later passes prove: the reference reads it (Note [Reference]).
 * Requires, gives and breaks nothing. */
void pass_unread(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        mark_unread(m->kernels.at[i]);
}

/* Before:  kernel f_bwd(in x: f32[T], in a: f32[T], in d_y: f32[T], out d_x: f32[T]) { d_x[t] = d_y[t] * a[t] }
 * After:   x is unread.
 * Requires derived kernels, gives complete signatures, breaks nothing. */
void pass_interface(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (m->kernels.at[i]->derived)
            mark_unread(m->kernels.at[i]);
    interface_select(m, c->kernels);
}
