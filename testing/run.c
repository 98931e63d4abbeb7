/* One case through the interpreter and through compiled code, and the comparison. */
#include "testing/parts.h"
#include "passes/passes.h"

#include <math.h>
#include <string.h>

/* ---- the reference ---- */

static EvalRoute copy_route(const TestCase *c, const EvalRoute *from)
{
    EvalRoute r = *from;
    size_t slots = (size_t)(r.tokens * r.choices), rows = (size_t)r.rows, groups = (size_t)r.groups;
    r.start = arena_array(c->arena, int64_t, groups + 1);
    r.count = arena_array(c->arena, int64_t, groups + 1);
    r.slot_of = arena_array(c->arena, int32_t, rows + 1);
    r.row_of = arena_array(c->arena, int32_t, slots + 1);
    memcpy(r.start, from->start, sizeof *r.start * (groups + 1));
    memcpy(r.count, from->count, sizeof *r.count * groups);
    memcpy(r.slot_of, from->slot_of, sizeof *r.slot_of * rows);
    memcpy(r.row_of, from->row_of, sizeof *r.row_of * slots);
    return r;
}

static TestReference evaluate(const TestCase *c, const Kernel *k, EvalMode mode, int with_bounds)
{
    uint32_t n = c->k->params.len;
    TestReference r = {.data = arena_array(c->arena, double *, n + 1)};
    EvalArg *args = arena_array(c->arena, EvalArg, n + 1);
    r.bounds = arena_array(c->arena, double *, n + 1);
    r.routes = arena_array(c->arena, EvalRoute, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Tensor *t = test_tensor(c->k, i);
        const TestValue *v = &c->values[i];
        if (!t) {
            r.routes[i] = copy_route(c, &v->route);
            args[i].route = &r.routes[i];
            continue;
        }
        r.data[i] = args[i].data = arena_array(c->arena, double, v->count + 1);
        memcpy(r.data[i], v->data, sizeof(double) * (size_t)v->count);
        if (with_bounds && t->role != ROLE_IN)
            r.bounds[i] = arena_array(c->arena, double, v->count + 1);
    }
    r.error = ir_eval(k, mode, c->dims, args, with_bounds ? r.bounds : NULL, c->arena);
    return r;
}

/* Without the equations on which no output depends: what would be refused there may be left out (language page, section 4). */
static TestReference evaluate_live(const TestCase *c, Kernel *k, EvalMode mode, int with_bounds)
{
    const LiveEquations live = dce_live(k, NULL);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead = !live.equations[i];
    const TestReference r = evaluate(c, k, mode, with_bounds);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead = 0; /* none is, in a kernel as it was read */
    return r;
}

TestReference test_reference(const TestCase *c, EvalMode mode, int with_bounds)
{
    Kernel *k = reference_of(c->reference, c->k);
    const TestReference r = evaluate(c, k, mode, with_bounds);
    return r.error ? evaluate_live(c, k, mode, with_bounds) : r;
}

/* ---- compiled code ---- */

typedef struct TestCall {
    const TestCase *c;
    FencePlace place;
    Vec(Fenced) memory;
    uint32_t *first; /* of memory, by parameter: a tensor's, or RF_FIELDS of a route */
    moe_route *routes;
    void **args;
    int64_t *dims;
} TestCall;

static unsigned char *take_memory(TestCall *call, const char *name, size_t bytes, size_t align)
{
    Fenced f = fenced_memory(call->c->arena, bytes, align, call->place);
    f.name = name;
    vec_push(call->c->arena, &call->memory, f);
    return f.at;
}

static void *give_field(TestCall *call, const char *name, const void *from, int64_t count, size_t size)
{
    return memcpy(take_memory(call, name, (size_t)count * size, size), from, (size_t)count * size);
}

static void give_route(TestCall *call, uint32_t i)
{
    const TestCase *c = call->c;
    const EvalRoute *r = &c->values[i].route;
    const char *name = c->k->routes.at[c->k->params.at[i].id].name;
    moe_route *to = &call->routes[i];
    *to = test_entry_route(r);
    to->start = give_field(call, name, r->start, r->groups + 1, sizeof *r->start);
    to->count = give_field(call, name, r->count, r->groups, sizeof *r->count);
    to->slot_of = give_field(call, name, r->slot_of, r->rows, sizeof *r->slot_of);
    to->row_of = give_field(call, name, r->row_of, r->tokens * r->choices, sizeof *r->row_of);
    call->args[i] = to;
}

/* The bytes of a parameter before a call; of a packed output the header too is what the call must write. */
static void write_tensor(const TestCase *c, uint32_t i, unsigned char *to)
{
    const Tensor *t = test_tensor(c->k, i);
    const TestValue *v = &c->values[i];
    PackShape s;
    if (t->layout == LAYOUT_PAIRS) {
        s = test_pack_shape(c, t);
        if (t->role != ROLE_OUT)
            pack_begin(&s, to);
    }
    for (int64_t n = 0; n < v->count; n++)
        element_write(t->elem, v->data[n],
                      to + (t->layout == LAYOUT_PAIRS ? pack_place(&s, n) : (size_t)n * elem_bytes(t->elem)));
    if (t->layout == LAYOUT_PAIRS)
        pack_transpose(&s, to);
}

static void give_tensor(TestCall *call, uint32_t i)
{
    const Tensor *t = test_tensor(call->c->k, i);
    size_t bytes = test_tensor_bytes(call->c, t, call->c->values[i].count);
    call->args[i] = take_memory(call, t->name, bytes, elem_bytes(t->elem));
    write_tensor(call->c, i, call->args[i]);
}

static TestCall new_call(const TestCase *c, FencePlace place)
{
    uint32_t n = c->k->params.len;
    TestCall call = {.c = c,
                     .place = place,
                     .first = arena_array(c->arena, uint32_t, n + 1),
                     .routes = arena_array(c->arena, moe_route, n + 1),
                     .args = arena_array(c->arena, void *, n + 1),
                     .dims = test_entry_dims(c)};
    for (uint32_t i = 0; i < n; i++) {
        call.first[i] = call.memory.len;
        if (test_tensor(c->k, i))
            give_tensor(&call, i);
        else
            give_route(&call, i);
    }
    return call;
}

static int input_changed(const TestCall *call, uint32_t i)
{
    const TestCase *c = call->c;
    if (test_tensor(c->k, i)->role != ROLE_IN)
        return 0;
    const Fenced *f = &call->memory.at[call->first[i]];
    unsigned char *before = arena_alloc(c->arena, f->bytes + 1);
    write_tensor(c, i, before);
    return memcmp(before, f->at, f->bytes) != 0;
}

/* NULL, or what the call did to memory that is not its own. */
static const char *damage(const TestCall *call)
{
    const TestCase *c = call->c;
    for (uint32_t i = 0; i < call->memory.len; i++)
        if (!fenced_is_intact(&call->memory.at[i]))
            return arena_printf(c->arena, "wrote outside %s", call->memory.at[i].name);
    for (uint32_t i = 0; i < c->k->params.len; i++)
        if (test_tensor(c->k, i) && input_changed(call, i))
            return arena_printf(c->arena, "changed the input %s", test_tensor(c->k, i)->name);
    return NULL;
}

/* The elements in row-major order; a packed output that is not whole is a failure. */
static unsigned char *plain_bytes(const TestCall *call, uint32_t i, TestResult *r)
{
    const TestCase *c = call->c;
    const Tensor *t = test_tensor(c->k, i);
    unsigned char *memory = call->args[i];
    if (t->layout != LAYOUT_PAIRS)
        return memory;
    PackShape s = test_pack_shape(c, t);
    if (!r->failure && !r->status)
        r->failure = pack_refusal(&s, t->role, t->name, memory, c->arena);
    const char *flaw = r->failure || r->status ? NULL : pack_flaw(&s, memory);
    if (flaw)
        r->failure = arena_printf(c->arena, "left packed %s with %s", t->name, flaw);
    unsigned char *rows = arena_alloc(c->arena, elem_bytes(t->elem) * (size_t)c->values[i].count + 1);
    pack_unpack(&s, memory, rows);
    return rows;
}

static TestResult result_of(const TestCall *call, int status, const char *message)
{
    const TestCase *c = call->c;
    TestResult r = {
        .status = status, .failure = damage(call), .message = arena_printf(c->arena, "%s", message)};
    r.bytes = arena_array(c->arena, unsigned char *, c->k->params.len + 1);
    r.routes = call->routes;
    for (uint32_t i = 0; i < c->k->params.len; i++)
        r.bytes[i] = test_tensor(c->k, i) ? plain_bytes(call, i, &r) : NULL;
    return r;
}

static int run_call(const TestCall *call, moe_entry *entry, moe_ctx *ctx)
{
    Fence fence = {call->c->k->name, call->memory.at, call->memory.len};
    if (call->place == FENCE_NONE)
        return entry(ctx, call->dims, call->args);
    fence_raise(&fence);
    int status = entry(ctx, call->dims, call->args);
    fence_lower(&fence);
    return status;
}

/* In a work space as large as the context's, which is lent: full of NaN, and behind it a fence. */
static int run_lent(TestCall *call, moe_entry *entry, moe_ctx *ctx)
{
    moe_ctx lent = *ctx;
    size_t bytes = ((size_t)ctx->work_bytes + 63) / 64 * 64;
    Fenced f = fenced_memory(call->c->arena, bytes, 64, FENCE_AFTER);
    f.name = "its work space";
    vec_push(call->c->arena, &call->memory, f);
    memset(f.at, 0xff, bytes);
    lent.work = f.at;
    lent.work_bytes = -(int64_t)bytes;
    return run_call(call, entry, &lent);
}

TestResult test_call(const TestCase *c, const TestTarget *t)
{
    moe_entry *entry;
    const char *missing = test_entry(t->code, c->k, c->arena, &entry);
    if (missing)
        return (TestResult){.failure = missing};
    moe_ctx *ctx = moe_ctx_new(t->threads);
    if (!ctx)
        return (TestResult){.failure = "out of memory"};
    TestCall call = new_call(c, t->strict ? FENCE_AFTER : FENCE_NONE);
    EmulatedCall emulated = {0};
    const char *wrong = NULL;
    if (t->emulation)
        wrong = emulate_call(t->emulation, c->k->name, c->dims, entry, ctx, call.dims, call.args, c->arena,
                             t->mode, &emulated);
    double start = clock_seconds();
    int status = t->emulation ? emulated.status : run_call(&call, entry, ctx);
    double seconds = clock_seconds() - start;
    if (t->strict) {
        call = new_call(c, FENCE_BEFORE);
        status = ctx->work ? run_lent(&call, entry, ctx) : run_call(&call, entry, ctx);
    }
    TestResult r = result_of(&call, status, moe_ctx_message(ctx));
    r.failure = wrong ? wrong : r.failure;
    r.seconds = seconds;
    moe_ctx_free(ctx);
    return r;
}

/* ---- comparison ---- */

static const char *place(const TestCase *c, const Tensor *t, int64_t flat)
{
    Text text = {.arena = c->arena};
    int64_t at[MAX_RANK];
    for (uint32_t i = t->rank; i-- > 0;) {
        int64_t extent = test_extent_value(c, t->axes[i].extent);
        at[i] = flat % extent;
        flat /= extent;
    }
    text_add(&text, "%s", t->name);
    for (uint32_t i = 0; i < t->rank; i++)
        text_add(&text, i ? ", %lld" : "[%lld", (long long)at[i]);
    text_add(&text, t->rank ? "]" : "");
    return text_string(&text);
}

static int same_value(double a, double b)
{
    return (isnan(a) && isnan(b)) || !(a < b || a > b || isnan(a) || isnan(b));
}

static double allowed(const TestReference *want, uint32_t param, Elem elem, int64_t n, double tolerance)
{
    double value = fabs(want->data[param][n]);
    if (tolerance > 0 && elem != EL_I32)
        return tolerance * (value > 1 ? value : 1);
    return want->bounds[param] ? want->bounds[param][n] : 0;
}

/* An integer may differ where a tie leaves the choice open, and nowhere else. */
static const char *difference(const TestCase *c, const Tensor *t, int64_t n, double got, double want,
                              double bound)
{
    if (t->elem == EL_I32)
        return arena_printf(c->arena,
                            "%s: got %.9g, want %.9g: another choice, which no tie within rounding explains",
                            place(c, t, n), got, want);
    return arena_printf(c->arena, "%s: got %.9g, want %.9g, bound %.3g", place(c, t, n), got, want, bound);
}

static const char *compare_tensor(const TestCase *c, const TestReference *want, const TestResult *got,
                                  uint32_t i, double tolerance, TestScore *score)
{
    const Tensor *t = test_tensor(c->k, i);
    const char *bad = NULL;
    for (int64_t n = 0; t->role != ROLE_IN && n < c->values[i].count; n++) {
        double g = element_read(t->elem, got->bytes[i] + (size_t)n * elem_bytes(t->elem)),
               w = want->data[i][n];
        double bound = allowed(want, i, t->elem, n, tolerance);
        score->elements++;
        score->doubt += isinf(bound) != 0;
        score->nan += isnan(w) && !isinf(bound);
        if (same_value(g, w) || (isnan(g) && isinf(bound)))
            continue;
        double error = fabs(g - w);
        score->flipped += t->elem == EL_I32 && error <= bound;
        if (!(error <= bound)) {
            score->worst = INFINITY;
            score->wrong++;
            score->mischosen += t->elem == EL_I32;
            if (!bad)
                bad = difference(c, t, n, g, w, bound);
        } else if (bound > 0 && error / bound > score->worst) {
            score->worst = error / bound;
        }
    }
    return bad;
}

static const char *compare_list(const TestCase *c, const char *route, const char *field, const void *got,
                                const void *want, int64_t count, size_t size)
{
    for (int64_t n = 0; n < count; n++) {
        Elem e = size == 8 ? EL_I64 : EL_I32;
        double g = element_read(e, (const unsigned char *)got + (size_t)n * size);
        double w = element_read(e, (const unsigned char *)want + (size_t)n * size);
        if (!same_value(g, w))
            return arena_printf(c->arena, "%s.%s[%lld]: got %.0f, want %.0f", route, field, (long long)n, g,
                                w);
    }
    return NULL;
}

static const char *compare_route(const TestCase *c, const EvalRoute *w, const moe_route *g, const char *name)
{
    const char *bad = compare_list(c, name, "start", g->start, w->start, w->groups + 1, 8);
    if (!bad)
        bad = compare_list(c, name, "count", g->count, w->count, w->groups, 8);
    if (!bad)
        bad = compare_list(c, name, "slot_of", g->slot_of, w->slot_of, w->rows, 4);
    return bad ? bad : compare_list(c, name, "row_of", g->row_of, w->row_of, w->tokens * w->choices, 4);
}

/* There an access, or a `max` of no integers, that does not vary with the index may be checked, though it is not evaluated (language
 * page, section 4). */
static int has_empty_range(const TestCase *c)
{
    const Kernel *k = reference_of(c->reference, c->k);
    int64_t extent;
    for (uint32_t i = 0; i < k->indices.len; i++)
        if (ext_eval(k->module, k->indices.at[i].axis.extent, c->dims, &extent) && extent == 0)
            return 1;
    return 0;
}

static const char *compare_param_route(const TestCase *c, const TestReference *want, const TestResult *got,
                                       uint32_t i, TestScore *score)
{
    if (want->routes[i].doubtful)
        return NULL;
    const char *bad =
        compare_route(c, &want->routes[i], &got->routes[i], c->k->routes.at[c->k->params.at[i].id].name);
    score->wrong += bad != NULL;
    return bad;
}

const char *test_compare(const TestCase *c, const TestReference *want, const TestResult *got,
                         double tolerance, TestScore *score)
{
    if (got->failure)
        return got->failure;
    if (!want->error && (got->status == MOE_INDEX || got->status == MOE_RANGE) && has_empty_range(c))
        return NULL;
    if (!want->error != !got->status)
        return arena_printf(c->arena, "the interpreter says '%s', compiled code returns %d '%s'",
                            want->error ? want->error : "success", got->status, got->message);
    const char *choice = NULL, *other = NULL; /* where a choice differs, so do numbers that hang on it */
    for (uint32_t i = 0; !want->error && i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        const char *bad = t ? compare_tensor(c, want, got, i, tolerance, score)
                            : compare_param_route(c, want, got, i, score);
        const char **first = t && t->elem == EL_I32 ? &choice : &other;
        *first = *first ? *first : bad;
    }
    return choice ? choice : other;
}

/* After a failure the outputs are unspecified. */
const char *test_same(const TestCase *c, const TestResult *a, const TestResult *b)
{
    if (a->failure || b->failure)
        return a->failure ? a->failure : b->failure;
    if (a->status != b->status)
        return arena_printf(c->arena, "status %d and %d", a->status, b->status);
    for (uint32_t i = 0; !a->status && i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        for (int64_t n = 0; t && n < c->values[i].count; n++) {
            size_t size = elem_bytes(t->elem), at = (size_t)n * size;
            if (memcmp(a->bytes[i] + at, b->bytes[i] + at, size) != 0)
                return arena_printf(c->arena, "%s: %.9g and %.9g", place(c, t, n),
                                    element_read(t->elem, a->bytes[i] + at),
                                    element_read(t->elem, b->bytes[i] + at));
        }
    }
    return NULL;
}
