/* Fresh names: the stem, or the stem with the lowest number from 2 on that nobody has.
 *
 * What a kernel has named is kept in a table, and so is the number at which the search of each stem ended: kernels
 * of thousands of equations ask for thousands of names with one stem. */
#include "ir/ir.h"

typedef struct Taken {
    Name name;     /* NULL: an empty place */
    int taken;     /* by a tensor, route or index */
    unsigned next; /* as a stem: the number to try first; 0: the stem itself */
} Taken;

/* How many tensors, routes and indices of the kernel are in the table. */
struct FreshNames {
    Taken *table;
    uint32_t slots, used;
    uint32_t tensors, routes, indices;
};

static Taken *place_of(const struct FreshNames *f, Name name)
{
    uint32_t at = (uint32_t)hash_bytes(&name, sizeof name, 0) & (f->slots - 1);
    while (f->table[at].name && f->table[at].name != name)
        at = (at + 1) & (f->slots - 1);
    return &f->table[at];
}

static void grow_table(struct FreshNames *f, Arena *a)
{
    Taken *old = f->table;
    uint32_t n = f->slots;
    f->slots = n ? n * 2 : 256;
    f->table = arena_array(a, Taken, f->slots);
    for (uint32_t i = 0; i < n; i++)
        if (old[i].name)
            *place_of(f, old[i].name) = old[i];
}

/* The entry of a name; taken or not, it has one from now on. */
static Taken *entry_of(struct FreshNames *f, Arena *a, Name name)
{
    if (f->used * 2 >= f->slots)
        grow_table(f, a);
    Taken *t = place_of(f, name);
    f->used += !t->name;
    t->name = name;
    return t;
}

static void take(struct FreshNames *f, Arena *a, Name name)
{
    if (name)
        entry_of(f, a, name)->taken = 1;
}

/* Tensors, routes and indices that came since the last time. */
static struct FreshNames *up_to_date(Kernel *k)
{
    Arena *a = k->module->arena;
    if (!k->fresh)
        k->fresh = arena_new_of(a, struct FreshNames);
    struct FreshNames *f = k->fresh;
    while (f->tensors < k->tensors.len)
        take(f, a, k->tensors.at[f->tensors++].name);
    while (f->routes < k->routes.len)
        take(f, a, k->routes.at[f->routes++].name);
    while (f->indices < k->indices.len)
        take(f, a, k->indices.at[f->indices++].name);
    return f;
}

static int is_taken(struct FreshNames *f, const Kernel *k, Name name)
{
    return entry_of(f, k->module->arena, name)->taken || ir_is_declared(k->module, name) ||
           scalar_find(name) != OP_COUNT || ir_find_kernel(k->module, name) != NULL;
}

Name ir_fresh_name(Kernel *k, const char *stem)
{
    Module *m = k->module;
    struct FreshNames *f = up_to_date(k);
    Name first = name_of(m->names, stem), name = first;
    unsigned n = entry_of(f, m->arena, first)->next;
    if (n)
        name = name_of(m->names, arena_printf(m->scratch, "%s%u", stem, n));
    for (; is_taken(f, k, name); name = name_of(m->names, arena_printf(m->scratch, "%s%u", stem, n)))
        n = n ? n + 1 : 2;
    entry_of(f, m->arena, first)->next = n;
    return name;
}

void ir_rename(Kernel *k, TensorId t, Name name)
{
    k->tensors.at[t].name = name;
    k->fresh = NULL; /* its old name is free */
}
