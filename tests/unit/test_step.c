/* Programs of steps: text form, memory, verifier. The recorder is tested by test_record.c. */
#include "step/memory.h"
#include "step/text.h"
#include "step/verify.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static const char good[] =
    "step train\n"
    "arena 448\n"
    "kernel f of a.moe\n"
    "kernel g_1 of b.moe by \"derive (f_1, g_1) from g wrt x, w += save s as f32\"\n"
    "buffer w weight bf16[4, 8] packed both bytes 1024 live 1..4\n"
    "buffer lr scalar f32 = 0.0030000000000000001 live 4..4\n"
    "buffer n scalar i32 = 3\n"
    "buffer ids input i32[4] live 0..1\n"
    "buffer a activation f32[4, 8] at 0 live 1..2\n"
    "buffer a~32 activation f32[32] view of a + 0 live 2..2\n"
    "buffer b activation bf16[32] at 128 live 1..3\n"
    "buffer c activation f32[16] at 0 live 3..4\n"
    "buffer c.low activation f32[8] view of c + 0 live 3..3\n"
    "buffer c.high activation f32[8] view of c + 32 live 3..3\n"
    "buffer r activation route[4, 2, 8, 8] at 192 live 3..4\n"
    "buffer work.3 work f32 bytes 64 at 64 live 3..3\n"
    "task 0 batch forward m0 writes ids=ids\n"
    "task 1 kernel f forward L0 m0 dims T=4 reads ids=ids, w=w writes a=a, b=b\n"
    "task 2 kernel f forward L0 m0 dims T=4 reads x=a~32\n"
    "task 3 kernel f forward L0 m0 dims P=n<=512 reads b=b writes lo=c.low, hi=c.high, r=r work work.3\n"
    "task 4 kernel g_1 backward L0 m0 reads x=c, r=r, rate=lr updates w=w ignores y=a\n";

static Program *read_good(Arena *a, const char *text)
{
    const char *error;
    Program *p = step_read(a, text, strlen(text), &error);
    if (!p)
        fail_msg("%s", error);
    return p;
}

static void test_text(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Program *p = read_good(a, good);
    assert_null(step_verify(p, NULL));
    Text t = {.arena = a};
    memory_lifetimes(p);
    step_print(p, &t);
    assert_string_equal(text_string(&t), good);
    arena_free(a);
}

static void refuse_text(const char *text, const char *words)
{
    Arena *a = arena_new();
    const char *error;
    Program *p = step_read(a, text, strlen(text), &error);
    if (p)
        error = step_verify(p, NULL);
    if (!error || !strstr(error, words))
        fail_msg("%s\n%s", text, error ? error : "accepted");
    arena_free(a);
}

/* The program with one text replaced is refused with words. */
static void refuse(const char *from, const char *to, const char *words)
{
    Arena *a = arena_new();
    const char *at = strstr(good, from);
    assert_non_null(at);
    Text t = {.arena = a};
    text_add(&t, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    refuse_text(text_string(&t), words);
    arena_free(a);
}

static void test_refused_text(void **state)
{
    (void)state;
    refuse("step", "stop", "line 1: `step` is missing");
    refuse("buffer ids input", "buffer ids nobody", "line 8: `nobody` is no owner");
    refuse("buffer b activation bf16", "buffer a activation bf16", "buffer a is there twice");
    refuse("i32[4]", "i64[4]", "`i64` is no type");
    refuse("f32[16] at", "f32[4611686018427387904, 4] at", "more bytes than fit 64 bits");
    refuse("f32[16] at", "f32[1, 1, 1, 1, 1, 1, 1, 1, 1] at", "more than 8 axes");
    refuse("route[4, 2, 8, 8]", "route[4, 2, 8]", "a route has four sizes");
    refuse("task 2 kernel", "task 3 kernel", "this is task 2");
    refuse("task 2 kernel f", "task 2 kernel h", "there is no kernel h");
    refuse("reads x=a~32", "reads x=nothing", "there is no buffer nothing");
    refuse("reads x=a~32", "eats x=a~32", "is not expected here");
    refuse("kernel g_1 of b.moe by \"", "kernel g_1 of b.moe by ", "`\"` is missing");
    refuse("batch forward", "batch sideways", "`sideways` is no phase");
    refuse("arena 448", "arena 448\ngroup sp 2", "`sp` is no axis");
    refuse("i32[4] live", "i32[4] over tp half live", "`part`, `sum`, `own` or `mixed` is missing");
    refuse("i32[4] live", "i32[4] over tp part 8 live", "there is no dimension 8");
    refuse("task 2 kernel f", "task 2 send tp +9999999999", "no group has a member 9999999999 places away");
}

static void test_refused_programs(void **state)
{
    (void)state;
    refuse("writes a=a, b=b", "writes a=a", "reads b as `b` before any task has written it");
    refuse("writes lo=c.low, hi=c.high", "writes lo=c.low",
           "reads c as `x` before any task has written all of it");
    refuse("at 64 live 3..3", "at 0 live 3..3", "overlap");
    refuse("buffer b activation bf16[32] at 128", "buffer b activation bf16[32] at 64", "overlap");
    refuse("arena 448", "arena 256", "is not in the arena");
    refuse("bf16[32] at 128", "bf16[32] at 129", "is not in the arena");
    refuse("bf16[32] at 128 ", "bf16[32] ", "is not in the arena");
    refuse("view of c + 32", "view of c + 40", "bytes 40 to 72 of c, which has 64");
    refuse("view of c + 32", "view of c + 30", "begins 30 bytes behind c, which splits an element");
    refuse("i32 = 3", "i32 = 3.5", "3.5 is no i32 number of the host");
    refuse("i32 = 3", "i32 = 3e9", "3e+09 is no i32 number of the host");
    refuse("i32 = 3", "i32[2] = 3", "3 is no i32 number of the host");
    refuse("lr scalar f32 =", "lr scalar bf16 =", "is no bf16 number of the host");
    refuse("reads x=a~32", "reads x=a~32 work b", "b is no work space of a kernel");
    refuse("reads x=a~32", "reads x=work.3", "`x`, work.3, is work space");
    refuse("view of c + 0", "view of a~32 + 0", "a view of what is no buffer with memory of its own");
    refuse("c.low activation", "c.low gradient", "owned as gradient");
    refuse("reads b=b writes lo=c.low", "reads b=c.low writes lo=c.low", "in the same memory");
    refuse("updates w=w", "updates w=w, v=lr", "in the same memory");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32",
           "task 2 gate forward L0 m0 reads x=a~32, limit=lr", "reads an f32 number and its limit");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32", "task 2 gate forward L0 m0 reads x=lr",
           "reads an f32 number and its limit");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32",
           "task 2 gate forward L0 m0 reads limit=lr, x=lr", "reads an f32 number and its limit");
    refuse("reads x=c, r=r, rate=lr updates", "reads x=c, r=r writes rate=lr updates",
           "a number of the host");
    refuse("rate=lr updates w=w", "rate=w updates v=lr", "a number of the host");
    refuse("writes ids=ids", "writes a=ids, b=ids, c=ids, d=ids, e=ids, f=ids, g=ids, h=ids, i=ids",
           "fills 9 buffers, at most 8 are possible");
    refuse("P=n<=512", "P=lr<=512", "the extent of dimension P is no i32 number");
    refuse("i32[4] live", "i32[4] over tp part 0 live", "in parts of dimension 0, in a group of one");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32",
           "task 2 recv pp -1 forward L0 m0 writes y=b", "in a group of one nothing was sent before it");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32",
           "task 2 copy tp forward L0 m0 reads x=a writes y=b", "are not of one type");
    refuse("task 2 kernel f forward L0 m0 dims T=4 reads x=a~32",
           "task 2 allreduce tp forward L0 m0 reads x=w writes y=b", "reads no plain tensor as `x`");
    refuse_text("step train\narena 0\ngroup tp 2\n"
                "buffer a state f32 over tp own\nbuffer b state f32\n"
                "task 0 allgather tp forward reads x=a writes y=b\n",
                "`x`, a, is a number, which has no parts");
    refuse_text("step train\narena 0\ngroup tp 2\n"
                "buffer a state f32 over tp sum\nbuffer b state f32 over tp own\n"
                "task 0 reducescatter tp forward reads x=a writes y=b\n",
                "`y`, b, is a number, which has no parts");
    refuse("bytes 1024", "bytes 63", "63 bytes do not hold its elements");
}

static void add_living(Program *p, int i, int64_t elements, int64_t first, int64_t last)
{
    const BufferId b = step_add(p, (StepBuffer){.name = arena_printf(p->arena, "b%d", i),
                                                .owner = OWNER_activation,
                                                .rank = 1,
                                                .shape = {elements},
                                                .bytes = 4 * elements,
                                                .base = STEP_NONE});
    vec_push(p->arena, &p->tasks.at[first].operands, (Operand){"x", b, USE_WRITE});
    if (last > first)
        vec_push(p->arena, &p->tasks.at[last].operands, (Operand){"x", b, USE_READ});
}

static Program *program_of(Arena *a, int tasks)
{
    Program *p = step_new(a, "random");
    step_add_kernel(p, (StepKernel){"a.moe", "f", NULL});
    for (int t = 0; t < tasks; t++)
        vec_push(a, &p->tasks, (Task){.kind = TASK_kernel, .work = STEP_NONE});
    return p;
}

static int is_in_the_way(const StepBuffer *other, const StepBuffer *b, int64_t place)
{
    return other->bytes >= b->bytes && other->first <= b->last && b->first <= other->last &&
           other->place < place + b->bytes && place < other->place + other->bytes;
}

/* Below a buffer something larger, or as large, is in the way everywhere. */
static void check_lowest(const Program *p)
{
    for (BufferId i = 0; i < p->buffers.len; i++) {
        const StepBuffer *b = &p->buffers.at[i];
        for (int64_t place = 0; place < b->place; place += STEP_ALIGN) {
            int taken = 0;
            for (BufferId j = 0; j < p->buffers.len && !taken; j++)
                taken = j != i && is_in_the_way(&p->buffers.at[j], b, place);
            assert_true(taken);
        }
    }
}

/* Random lifetimes: the verifier, which knows nothing of how places were found, accepts them. */
static void test_places(void **state)
{
    (void)state;
    enum { TASKS = 60, BUFFERS = 80 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Arena *a = arena_new();
        Random random = random_new(seed);
        Program *p = program_of(a, TASKS);
        for (int i = 0; i < BUFFERS; i++) {
            const int64_t n = 1 + random_below(&random, 1000), first = random_below(&random, TASKS),
                          last = first + random_below(&random, TASKS - first);
            add_living(p, i, n, first, last);
        }
        memory_place(p);
        const char *error = step_verify(p, NULL);
        if (error)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error);
        assert_true(p->arena_bytes >= memory_peak(p).bytes);
        assert_true((double)p->arena_bytes <= 1.25 * (double)memory_peak(p).bytes);
        check_lowest(p);
        arena_free(a);
    }
}

/* What layers make lives until their backward: all of it together in the middle, where looking at each pair would take minutes. */
static void test_deep_places(void **state)
{
    (void)state;
    enum { BUFFERS = 20000 };
    Arena *a = arena_new();
    Program *p = program_of(a, 2 * BUFFERS);
    for (int i = 0; i < BUFFERS; i++)
        add_living(p, i, 16 * (1 + i % 7), i, 2 * BUFFERS - 1 - i);
    const clock_t begin = clock();
    memory_place(p);
    const char *error = step_verify(p, NULL);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 20);
    if (error)
        fail_msg("%s", error);
    assert_int_equal(p->arena_bytes, memory_peak(p).bytes);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_refused_text),
        cmocka_unit_test(test_refused_programs),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_deep_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
