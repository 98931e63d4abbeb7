/* The reader of step_print()'s text: a line is a list of words, which a few punctuation marks separate too. */
#include "step/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Program *p;
    Arena *arena;
    const char *at, *end; /* what is left of the text */
    uint32_t line;
    const char *error;
} Reader;

#define REFUSE_TEXT(r, ...)                                                       \
    ((r)->error = (r)->error ? (r)->error                                         \
                             : arena_printf((r)->arena, "line %u: %s", (r)->line, \
                                            arena_printf((r)->arena, __VA_ARGS__)))

/* ---- words ---- */

static int in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '~'; }

static void skip_blanks(Reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == ','))
        r->at++;
}

static int at_line_end(Reader *r)
{
    skip_blanks(r);
    return r->at == r->end || *r->at == '\n';
}

/* The next mark, if it is there. */
static int take(Reader *r, const char *mark)
{
    const size_t n = strlen(mark);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, mark, n) ||
        (isalpha((unsigned char)mark[0]) && r->at + n < r->end && in_name(r->at[n])))
        return 0;
    r->at += n;
    return 1;
}

static void expect(Reader *r, const char *mark)
{
    if (!take(r, mark))
        REFUSE_TEXT(r, "`%s` is missing", mark);
}

static const char *word(Reader *r)
{
    skip_blanks(r);
    const char *begin = r->at;
    while (r->at < r->end && in_name(*r->at))
        r->at++;
    if (r->at == begin)
        REFUSE_TEXT(r, "a name is missing");
    return arena_strndup(r->arena, begin, (size_t)(r->at - begin));
}

static int64_t number(Reader *r)
{
    char digits[24] = "";
    size_t n = 0;
    skip_blanks(r);
    while (r->at < r->end && (isdigit((unsigned char)*r->at) || (n == 0 && *r->at == '-')) &&
           n + 1 < sizeof digits)
        digits[n++] = *r->at++;
    char *rest;
    errno = 0;
    const long long value = strtoll(digits, &rest, 10);
    if (!n || *rest || errno || value < 0)
        REFUSE_TEXT(r, "a whole number from 0 to 2^63 - 1 is missing");
    return r->error ? 0 : value;
}

static double real(Reader *r)
{
    char digits[48] = "";
    size_t n = 0;
    skip_blanks(r);
    while (r->at < r->end && *r->at != ' ' && *r->at != '\n' && n + 1 < sizeof digits)
        digits[n++] = *r->at++;
    char *rest;
    const double value = strtod(digits, &rest);
    if (!n || *rest)
        REFUSE_TEXT(r, "a number is missing");
    return value;
}

/* The index of the next word in a list of names. */
static int row(Reader *r, const char *const *names, int n, const char *what)
{
    const char *name = word(r);
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    REFUSE_TEXT(r, "`%s` is no %s", name, what);
    return 0;
}

static BufferId buffer_named(Reader *r)
{
    const char *name = word(r);
    const BufferId b = step_find(r->p, name);
    if (b == STEP_NONE)
        REFUSE_TEXT(r, "there is no buffer %s above", name);
    return r->error ? 0 : b;
}

/* ---- lines ---- */

static void read_kernel(Reader *r)
{
    StepKernel k = {.name = word(r)};
    expect(r, "of");
    k.source = word(r);
    if (take(r, "by")) {
        expect(r, "\"");
        const char *begin = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\n')
            r->at++;
        k.derive = arena_strndup(r->arena, begin, (size_t)(r->at - begin));
        expect(r, "\"");
    }
    if (step_add_kernel(r->p, k) + 1 != r->p->kernels.len)
        REFUSE_TEXT(r, "kernel %s is there twice", k.name);
}

static void read_shape(Reader *r, StepBuffer *b)
{
    if (!take(r, "["))
        return;
    while (!r->error && !take(r, "]")) {
        if (b->rank == MOEC_MAX_RANK)
            REFUSE_TEXT(r, "buffer %s: more than %d axes", b->name, MOEC_MAX_RANK);
        else
            b->shape[b->rank++] = number(r);
    }
}

static void read_type(Reader *r, StepBuffer *b)
{
    const char *names[] = {step_type_name(MOEC_F32), step_type_name(MOEC_BF16), step_type_name(MOEC_F16),
                           step_type_name(MOEC_I32)};
    if (take(r, "route"))
        b->kind = MOEC_ROUTE;
    else
        b->type = (moec_type)row(r, names, 4, "type");
    read_shape(r, b);
    if (take(r, "packed"))
        b->packed = take(r, "both") ? 2 : 1;
    if (b->kind == MOEC_ROUTE && b->rank != 4)
        REFUSE_TEXT(r, "buffer %s: a route has four sizes", b->name);
}

static void read_placements(Reader *r, StepBuffer *b)
{
    while (!r->error && take(r, "over")) {
        const int axis = row(r, axis_names, AXIS_COUNT, "axis");
        if (take(r, "sum"))
            b->placed[axis] = PLACED_SUM;
        else if (take(r, "own"))
            b->placed[axis] = PLACED_OWN;
        else if (take(r, "mixed"))
            b->placed[axis] = PLACED_MIXED;
        else if (take(r, "part")) {
            const int64_t dim = number(r);
            if (dim >= MOEC_MAX_RANK)
                REFUSE_TEXT(r, "buffer %s: there is no dimension %lld", b->name, (long long)dim);
            else
                b->placed[axis] = PLACED_PART(dim);
        } else {
            REFUSE_TEXT(r, "buffer %s: `part`, `sum`, `own` or `mixed` is missing", b->name);
        }
    }
}

static int64_t bytes_of_shape(const StepBuffer *b)
{
    int64_t n = step_elements(b);
    for (uint32_t i = 0; b->kind == MOEC_ROUTE && i < 4; i++)
        if (b->shape[i] > INT32_MAX)
            return -1;
    if (b->kind == MOEC_ROUTE)
        return b->shape[0] * b->shape[1] > INT32_MAX ? -1 : step_route_bytes(b->shape);
    return n < 0 || __builtin_mul_overflow(n, step_type_bytes(b->type), &n) ? -1 : n;
}

static int64_t read_memory(Reader *r, StepBuffer *b)
{
    int64_t place = -1;
    b->base = STEP_NONE;
    b->bytes = bytes_of_shape(b);
    if (b->bytes < 0)
        REFUSE_TEXT(r, "buffer %s: more bytes than fit 64 bits", b->name);
    if (take(r, "view")) {
        expect(r, "of");
        b->base = buffer_named(r);
        expect(r, "+");
        b->offset = number(r);
    }
    if (take(r, "bytes"))
        b->bytes = number(r);
    if (take(r, "at"))
        place = number(r);
    if (take(r, "live")) {
        number(r);
        expect(r, "..");
        number(r);
    }
    return place;
}

static void read_buffer(Reader *r)
{
    StepBuffer b = {.name = word(r)};
    b.owner = (Owner)row(r, owner_names, OWNER_COUNT, "owner");
    read_type(r, &b);
    read_placements(r, &b);
    if (take(r, "=")) {
        b.kind = MOEC_SCALAR;
        b.value = real(r);
    }
    const int64_t place = read_memory(r, &b);
    if (step_find(r->p, b.name) != STEP_NONE)
        REFUSE_TEXT(r, "buffer %s is there twice", b.name);
    if (r->error)
        return;
    const BufferId id = step_add(r->p, b);
    r->p->buffers.at[id].place = place;
}

static void read_dims(Reader *r, Task *t)
{
    while (!r->error && !at_line_end(r) && memchr(r->at, '=', (size_t)(r->end - r->at))) {
        const char *before = r->at;
        TaskDim d = {.name = word(r), .extent = STEP_NONE};
        if (!take(r, "=")) {
            r->at = before; /* a word of the next part */
            return;
        }
        skip_blanks(r);
        if (r->at < r->end && !isdigit((unsigned char)*r->at)) {
            d.extent = buffer_named(r);
            expect(r, "<=");
        }
        d.size = number(r);
        vec_push(r->arena, &t->dims, d);
    }
}

static void read_operands(Reader *r, Task *t, OperandUse use)
{
    while (!r->error && !at_line_end(r)) {
        const char *before = r->at;
        Operand o = {.param = word(r), .use = use};
        if (!take(r, "=")) {
            r->at = before;
            return;
        }
        o.buffer = buffer_named(r);
        vec_push(r->arena, &t->operands, o);
    }
}

static uint32_t kernel_named(Reader *r)
{
    const char *name = word(r);
    for (uint32_t i = 0; i < r->p->kernels.len; i++)
        if (!strcmp(r->p->kernels.at[i].name, name))
            return i;
    REFUSE_TEXT(r, "there is no kernel %s above", name);
    return STEP_NONE;
}

/* L3, m0: -1 where it is missing. */
static int32_t label(Reader *r, char letter)
{
    skip_blanks(r);
    if (r->end - r->at < 2 || *r->at != letter || !isdigit((unsigned char)r->at[1]))
        return -1;
    r->at++;
    const int64_t n = number(r);
    if (n > INT32_MAX)
        REFUSE_TEXT(r, "%c%lld is too large", letter, (long long)n);
    return (int32_t)n;
}

/* +1, -1: 0 where it is missing. */
static int32_t peer(Reader *r)
{
    const int before = take(r, "-");
    if (!before && !take(r, "+"))
        return 0;
    const int64_t n = number(r);
    if (n > INT32_MAX)
        REFUSE_TEXT(r, "no group has a member %lld places away", (long long)n);
    return (int32_t)(before ? -n : n);
}

static void read_task(Reader *r)
{
    Task t = {.kernel = STEP_NONE, .work = STEP_NONE};
    if (number(r) != r->p->tasks.len)
        REFUSE_TEXT(r, "this is task %u", r->p->tasks.len);
    t.kind = (TaskKind)row(r, task_names, TASK_COUNT, "kind of task");
    if (t.kind == TASK_kernel)
        t.kernel = kernel_named(r);
    if (exchange_rules[t.kind].is_exchange)
        t.axis = (GroupAxis)row(r, axis_names, AXIS_COUNT, "axis");
    t.peer = peer(r);
    t.phase = (Phase)row(r, phase_names, PHASE_COUNT, "phase");
    t.layer = label(r, 'L');
    t.micro = label(r, 'm');
    if (take(r, "in"))
        t.module = word(r);
    if (take(r, "dims"))
        read_dims(r, &t);
    for (OperandUse use = USE_READ; use <= USE_SHAPE; use++)
        if (take(r, use_words[use]))
            read_operands(r, &t, use);
    if (take(r, "work"))
        t.work = buffer_named(r);
    vec_push(r->arena, &r->p->tasks, t);
}

static void read_group(Reader *r)
{
    const int axis = row(r, axis_names, AXIS_COUNT, "axis");
    r->p->members[axis] = number(r);
}

static void read_line(Reader *r)
{
    if (take(r, "arena"))
        r->p->arena_bytes = number(r);
    else if (take(r, "disk"))
        r->p->disk_bytes = number(r);
    else if (take(r, "group"))
        read_group(r);
    else if (take(r, "kernel"))
        read_kernel(r);
    else if (take(r, "buffer"))
        read_buffer(r);
    else if (take(r, "task"))
        read_task(r);
    else if (!at_line_end(r))
        REFUSE_TEXT(r, "a line begins with step, arena, disk, group, kernel, buffer or task");
}

Program *step_read(Arena *a, const char *text, size_t len, const char **error)
{
    Reader r = {.arena = a, .at = text, .end = text + len, .line = 1};
    expect(&r, "step");
    r.p = step_new(a, word(&r));
    while (!r.error && r.at < r.end) {
        if (!at_line_end(&r))
            REFUSE_TEXT(&r, "`%c` is not expected here", *r.at);
        if (r.at == r.end)
            break;
        r.at++, r.line++;
        read_line(&r);
    }
    *error = r.error;
    return r.error ? NULL : r.p;
}
