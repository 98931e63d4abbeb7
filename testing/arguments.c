/* Arguments of a call as the entry takes them. Those of TestArguments are made without a double for each element: memory of the
 * system that reads as zero, in which only the numbers are stored that the program needs. */
#include "testing/parts.h"

#include <string.h>
#include <sys/mman.h>

static const size_t MEMORY_MAX = (size_t)1 << 42; /* bytes of a parameter */

PackShape test_pack_shape(const TestCase *c, const Tensor *t)
{
    int64_t extents[MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++)
        extents[i] = test_extent_value(c, t->axes[i].extent);
    return pack_shape(t->elem, t->both, extents, t->rank);
}

size_t test_tensor_bytes(const TestCase *c, const Tensor *t, int64_t count)
{
    if (t->layout != LAYOUT_PAIRS)
        return elem_bytes(t->elem) * (size_t)count;
    PackShape s = test_pack_shape(c, t);
    return (size_t)packed_bytes(&s);
}

moe_route test_entry_route(const EvalRoute *r)
{
    return (moe_route){r->tokens, r->choices, r->groups, r->rows, r->start, r->count, r->slot_of, r->row_of};
}

int64_t *test_entry_dims(const TestCase *c)
{
    const size_t room = c->k->module->dims.len + 1;
    DimId *passed = arena_array(c->arena, DimId, room);
    int64_t *dims = arena_array(c->arena, int64_t, room);
    for (uint32_t d = 0, n = ir_kernel_dims(c->k, passed); d < n; d++)
        dims[d] = c->dims[passed[d]];
    return dims;
}

/* SIZE_MAX: more than MEMORY_MAX, how much does not matter. */
static size_t bytes_of(const TestCase *c, const Tensor *t)
{
    int64_t n = test_elements(c, t);
    return n < 0 || (size_t)n > MEMORY_MAX ? SIZE_MAX : test_tensor_bytes(c, t, n);
}

static const char *reserve(TestArguments *args, uint32_t i)
{
    const TestCase *c = args->c;
    const Tensor *t = test_tensor(c->k, i);
    size_t bytes = bytes_of(c, t);
    if (bytes > MEMORY_MAX)
        return arena_printf(c->arena, "%s takes more than %zu bytes at these sizes", t->name, MEMORY_MAX);
    void *at =
        mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return arena_printf(c->arena, "%s has %zu bytes: there is no address space for it", t->name, bytes);
    args->bytes[i] = bytes;
    args->at[i] = at;
    if (t->layout == LAYOUT_PAIRS && t->role != ROLE_OUT) {
        PackShape s = test_pack_shape(c, t);
        pack_begin_in_zeros(&s, at); /* without data no page of it is touched */
    }
    for (int64_t n = 0; t->elem == EL_I32 && n < c->values[i].count; n++)
        element_write(t->elem, c->values[i].data[n], (unsigned char *)at + (size_t)n * 4);
    return NULL;
}

static void give_route(TestArguments *args, uint32_t i)
{
    args->routes[i] = test_entry_route(&args->c->values[i].route);
    args->at[i] = &args->routes[i];
}

/* Floats are given without data, so that test_fill leaves them alone. */
static const char *fill_integers(TestCase *c)
{
    static double nothing;
    TestValue *given = arena_array(c->arena, TestValue, c->k->params.len + 1);
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        if (t && t->elem != EL_I32)
            given[i].data = &nothing;
    }
    c->given = given;
    return test_fill(c);
}

const char *test_arguments(TestCase *c, TestArguments *out)
{
    uint32_t n = c->k->params.len;
    *out = (TestArguments){.c = c,
                           .bytes = arena_array(c->arena, size_t, n + 1),
                           .at = arena_array(c->arena, void *, n + 1),
                           .routes = arena_array(c->arena, moe_route, n + 1),
                           .dims = test_entry_dims(c)};
    const char *error = fill_integers(c);
    for (uint32_t i = 0; i < n && !error; i++) {
        if (test_tensor(c->k, i))
            error = reserve(out, i);
        else
            give_route(out, i);
    }
    return error;
}

void test_arguments_free(TestArguments *args)
{
    for (uint32_t i = 0; args->c && i < args->c->k->params.len; i++)
        if (test_tensor(args->c->k, i) && args->at[i])
            munmap(args->at[i], args->bytes[i] + 1);
    *args = (TestArguments){.c = NULL};
}

/* ---- random floats ---- */

/* Elements of a tensor repeat after so many, a prime, so that rows are unlike each other whatever their length. */
enum { PERIOD = 65521 };

static unsigned char *some_numbers(TestCase *c, const Tensor *t)
{
    double *values = arena_array(c->arena, double, PERIOD);
    unsigned char *bytes = arena_alloc(c->arena, PERIOD * elem_bytes(t->elem));
    test_random(c, t, values, PERIOD);
    for (size_t n = 0; n < PERIOD; n++)
        element_write(t->elem, values[n], bytes + n * elem_bytes(t->elem));
    return bytes;
}

static void put_numbers(TestCase *c, const Tensor *t, unsigned char *to, size_t count)
{
    size_t size = elem_bytes(t->elem);
    const unsigned char *numbers = some_numbers(c, t);
    PackShape s;
    if (t->layout == LAYOUT_PAIRS) {
        s = test_pack_shape(c, t);
        for (size_t n = 0; n < count; n++)
            memcpy(to + pack_place(&s, (int64_t)n), numbers + n % PERIOD * size, size);
        pack_transpose(&s, to);
        return;
    }
    for (size_t n = 0; n < count; n += PERIOD)
        memcpy(to + n * size, numbers, (count - n < PERIOD ? count - n : PERIOD) * size);
}

void test_arguments_fill(TestArguments *args)
{
    TestCase *c = args->c;
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        if (t && t->role != ROLE_OUT && t->elem != EL_I32)
            put_numbers(c, t, args->at[i], (size_t)test_elements(c, t));
        else if (t && t->role == ROLE_OUT)
            memset(args->at[i], 0, args->bytes[i]);
    }
}
