/* The public functions about what `derive` made. */
#include "driver/module.h"

_Static_assert((int)MOEC_WRITE == (int)GRAD_WRITE && (int)MOEC_WRITE_F32 == (int)GRAD_WRITE_F32 &&
                   (int)MOEC_ADD == (int)GRAD_ADD && (int)MOEC_PASS == (int)GRAD_PASS,
               "moec_mode is GradMode");

size_t moec_module_pairs(const moec_module *m) { return m ? m->signatures.npairs : 0; }

/* That pair, or an empty one. */
static const SigPair *pair_at(const moec_module *m, size_t pair)
{
    static const SigPair none;
    return pair < moec_module_pairs(m) ? &m->signatures.pairs[pair] : &none;
}

moec_pair moec_module_pair(const moec_module *m, size_t pair) { return pair_at(m, pair)->pair; }

moec_saved moec_module_saved(const moec_module *m, size_t pair, size_t i)
{
    const SigPair *p = pair_at(m, pair);
    return i < p->pair.saved ? p->saved[i] : (moec_saved){NULL, NULL, NULL};
}

moec_cotangent moec_module_cotangent(const moec_module *m, size_t pair, size_t i)
{
    const SigPair *p = pair_at(m, pair);
    return i < p->pair.cotangents ? p->cotangents[i] : (moec_cotangent){NULL, NULL};
}

moec_gradient moec_module_gradient(const moec_module *m, size_t pair, size_t i)
{
    const SigPair *p = pair_at(m, pair);
    return i < p->pair.gradients ? p->gradients[i] : (moec_gradient){.mode = MOEC_WRITE};
}

const char *moec_module_handed(const moec_module *m, size_t pair, size_t i)
{
    const SigPair *p = pair_at(m, pair);
    return i < p->pair.handed ? p->handed[i] : NULL;
}
