/* Passes over programs: what they leave alone, the same bits of losses and gradients, and that a wrong result of a pass is refused. */
#include "model_fixture.h"
#include "step/disk.h"
#include "step/passes.h"
#include "step/same.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what a pass does to a program ---- */

static const char head[] = "step t\n"
                           "kernel f of a.moe\n"
                           "kernel f_bwd of a.moe\n"
                           "buffer ids input i32[4]\n"
                           "buffer w weight f32[4]\n"
                           "buffer loss state f32\n"
                           "buffer d gradient f32[4]\n"
                           "buffer a activation f32[4]\n"
                           "buffer b activation f32[4]\n"
                           "buffer big activation f32[600]\n"
                           "buffer file disk f32[600]\n"
                           "buffer big~600 activation f32[600] view of big + 0\n"
                           "task 0 batch forward m0 writes ids=ids\n";

static Program *read_program(Arena *a, const char *tasks)
{
    const char *error, *text = arena_printf(a, "%s%s", head, tasks);
    Program *p = step_read(a, text, strlen(text), &error);
    if (!p)
        fail_msg("%s", error);
    return p;
}

static const char *tasks_of(const Program *p)
{
    Text t = {.arena = p->arena};
    step_print(p, &t);
    return strstr(text_string(&t), "task 0");
}

static Program *passed(Arena *a, StepPass pass, const char *tasks, const char *modules)
{
    Program *p = read_program(a, tasks);
    const char *choices[PASS_COUNT] = {0};
    choices[pass] = modules;
    const char *error = step_passes(p, choices);
    if (error)
        fail_msg("%s", error);
    return p;
}

static void becomes(StepPass pass, const char *tasks, const char *modules, const char *expected)
{
    Arena *a = arena_new();
    const char *batch = "task 0 batch forward m0 writes ids=ids\n";
    assert_string_equal(tasks_of(passed(a, pass, tasks, modules)), arena_printf(a, "%s%s", batch, expected));
    arena_free(a);
}

static const char chain[] = "task 1 kernel f forward L0 m0 in one dims T=4 reads x=ids, w=w writes y=a\n"
                            "task 2 kernel f forward L0 m0 in two dims T=4 reads x=a writes y=b, z=loss\n"
                            "task 3 kernel f_bwd backward L0 m0 dims T=4 reads b=b writes d=d ignores a=a\n";

static void repeats_what_is_read(void **state)
{
    (void)state;
    becomes(PASS_recompute, chain, "two",
            "task 1 kernel f forward L0 m0 in one dims T=4 reads x=ids, w=w writes y=a\n"
            "task 2 kernel f forward L0 m0 in two dims T=4 reads x=a writes y=b, z=loss\n"
            "task 3 kernel f recompute L0 m0 in two dims T=4 reads x=a writes y=b.again, z=loss.again\n"
            "task 4 kernel f_bwd backward L0 m0 dims T=4 reads b=b.again writes d=d ignores a=a\n");
    becomes(PASS_recompute, chain, "one,two:0-3",
            "task 1 kernel f forward L0 m0 in one dims T=4 reads x=ids, w=w writes y=a\n"
            "task 2 kernel f forward L0 m0 in two dims T=4 reads x=a writes y=b, z=loss\n"
            "task 3 kernel f recompute L0 m0 in one dims T=4 reads x=ids, w=w writes y=a.again\n"
            "task 4 kernel f recompute L0 m0 in two dims T=4 reads x=a.again writes y=b.again, z=loss.again\n"
            "task 5 kernel f_bwd backward L0 m0 dims T=4 reads b=b.again writes d=d ignores a=a\n");
    becomes(PASS_recompute, chain, "one", chain); /* the backward reads nothing of it */
}

/* Results that a second task would not give, or that leave their layer. */
static void leaves_alone(void **state)
{
    (void)state;
    static const char *const kept[] = {
        "task 1 kernel f forward L0 m0 in one reads x=ids writes y=a\n"
        "task 2 batch forward m1 writes ids=ids\n"
        "task 3 kernel f_bwd backward L0 m0 reads a=a writes d=d\n",
        "task 1 kernel f forward L0 m0 in one reads x=ids writes y=a updates w=w\n"
        "task 2 kernel f_bwd backward L0 m0 reads a=a writes d=d\n",
        "task 1 kernel f forward L0 m0 in one reads x=ids writes y=a\n"
        "task 2 kernel f forward L1 m0 reads x=a writes y=b\n"
        "task 3 kernel f_bwd backward L1 m0 reads a=a, b=b writes d=d\n",
        "task 1 kernel f forward L0 m0 in one reads x=ids writes y=a\n"
        "task 2 kernel f forward L0 m0 reads x=ids updates y=a\n"
        "task 3 kernel f_bwd backward L0 m0 reads a=a writes d=d\n",
        "task 1 allreduce dp forward L0 m0 in one reads x=w writes y=a\n"
        "task 2 kernel f_bwd backward L0 m0 reads a=a writes d=d\n",
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        becomes(PASS_recompute, kept[i], "all", kept[i]);
}

/* Tasks between the two uses of a buffer that is large enough. */
static const char far[] =
    "task 1 kernel f forward L0 m0 in one reads x=ids writes y=big\n"
    "task 2 kernel f forward L0 m0 reads x=big writes y=b\n"
    "task 3 kernel f forward L1 m0 reads x=b writes y=a\n"
    "task 4 kernel f forward L1 m0 reads x=a writes y=b\n"
    "task 5 kernel f forward L1 m0 reads x=b writes y=a\n"
    "task 6 kernel f forward L1 m0 reads x=a writes y=b\n"
    "task 7 kernel f forward L1 m0 reads x=b writes y=a\n"
    "task 8 kernel f_bwd backward L0 m0 reads x=big~600, a=a writes d=d ignores y=big\n";

static void stores_what_is_far(void **state)
{
    (void)state;
    becomes(PASS_swap, far, "one",
            "task 1 kernel f forward L0 m0 in one reads x=ids writes y=big\n"
            "task 2 kernel f forward L0 m0 reads x=big writes y=b\n"
            "task 3 store forward L0 m0 reads x=big writes y=big.file\n"
            "task 4 kernel f forward L1 m0 reads x=b writes y=a\n"
            "task 5 kernel f forward L1 m0 reads x=a writes y=b\n"
            "task 6 load forward L1 m0 reads x=big.file writes y=big.back\n"
            "task 7 kernel f forward L1 m0 reads x=b writes y=a\n"
            "task 8 kernel f forward L1 m0 reads x=a writes y=b\n"
            "task 9 kernel f forward L1 m0 reads x=b writes y=a\n"
            "task 10 kernel f_bwd backward L0 m0 reads x=big~600.back, a=a writes d=d ignores y=big\n");
    becomes(PASS_swap, chain, "all", chain); /* small, and read again at once */
}

static void refuse_choice(const char *modules, const char *words)
{
    Arena *a = arena_new();
    const char *choices[PASS_COUNT] = {[PASS_recompute] = modules};
    const char *error = step_passes(read_program(a, chain), choices);
    if (!error || !strstr(error, words))
        fail_msg("%s: %s", modules, error ? error : "accepted");
    arena_free(a);
}

static void refused_choices(void **state)
{
    (void)state;
    refuse_choice("three",
                  "--recompute: `three`: no task belongs to it in these layers; the modules are one, two");
    refuse_choice("one:1", "`one`: no task belongs to it in these layers");
    refuse_choice("one,,two", "`` is no module");
    refuse_choice("one:x", "`one:x` is no module");
    refuse_choice("one:2-1", "`one:2-1` is no module");
    refuse_choice("one:0-", "`one:0-` is no module");
    refuse_choice("one:-1", "`one:-1` is no module");
    refuse_choice("one:0 ", "`one:0 ` is no module");
}

/* ---- the judge of passes ---- */

static const char *differs(const char *from, const char *to)
{
    static char text[200];
    Arena *a = arena_new();
    const char *error = step_same(read_program(a, from), read_program(a, to));
    snprintf(text, sizeof text, "%s", error ? error : "");
    arena_free(a);
    return text;
}

static void judge(void **state)
{
    (void)state;
    const char *one = "task 1 kernel f forward reads x=ids, w=w writes y=d\n",
               *two = "task 1 kernel f forward reads x=ids, w=w writes y=a\n"
                      "task 2 kernel f forward reads x=ids, w=w writes y=b\n"
                      "task 3 kernel f forward reads x=ids, w=w writes y=d\n",
               *moved = "buffer does not become what it was before the pass";
    assert_string_equal(differs(one, two), "");
    const char *const faults[] = {
        "task 1 kernel f_bwd forward reads x=ids, w=w writes y=d\n",
        "task 1 kernel f forward dims T=4 reads x=ids, w=w writes y=d\n",
        "task 1 kernel f forward reads x=w, w=ids writes y=d\n",
        "task 1 kernel f forward reads x=ids, w=w writes z=d\n",
        "task 1 kernel f forward reads x=ids, w=w writes y=a\n",
        ("task 1 gate optimizer reads x=loss, limit=loss\n"
         "task 2 kernel f forward reads x=ids, w=w writes y=d\n"),
        "task 1 batch forward writes ids=ids\ntask 2 kernel f forward reads x=ids, w=w writes y=d\n",
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strstr(differs(one, faults[i]), moved + strlen("buffer")))
            fail_msg("accepted: %s", faults[i]);
}

/* ---- models ---- */

static const char *const configs[] = {fixture_pangu, fixture_grouped};

static Program *gradients_of(ModelFixture *f)
{
    Recipe m = fixture_recipe(f, "gradients", 1);
    recipe_gradients(&m, FIXTURE_MICRO);
    return fixture_finish(&m);
}

/* A few random modules of random layers. */
static const char *random_modules(Random *r, Arena *a, const Program *p)
{
    Text t = {.arena = a};
    const uint32_t n = 1 + (uint32_t)random_below(r, 4);
    while (t.len == 0 || n > 3) {
        const Task *task = &p->tasks.at[random_below(r, p->tasks.len)];
        if (!task->module)
            continue;
        text_add(&t, "%s%s", t.len ? "," : "", task->module);
        if (random_below(r, 2))
            text_add(&t, ":%d", task->layer);
        if (random_below(r, n + 1) == 0)
            break;
    }
    return text_string(&t);
}

typedef struct Bits {
    void *gradients;
    float loss[FIXTURE_MICRO];
} Bits;

static Bits bits_of(ModelFixture *f, const Program *p)
{
    const int64_t bytes = p->buffers.at[step_find(p, "gradients")].bytes;
    Bits b = {.gradients = arena_alloc(f->arena, (size_t)bytes)};
    memcpy(b.gradients, store_at(f->store, "gradients"), (size_t)bytes);
    for (int m = 0; m < FIXTURE_MICRO; m++)
        b.loss[m] = *(float *)store_at(f->store, arena_printf(f->arena, "loss.m%d", m));
    return b;
}

static void run_once(ModelFixture *f, Program *p)
{
    Run *r = fixture_start(f, p);
    fixture_go(r);
    run_free(r);
}

static void check_bits(ModelFixture *f, const Bits *expected, const char *again, const char *stored)
{
    Program *p = gradients_of(f);
    const char *choices[PASS_COUNT] = {[PASS_recompute] = again, [PASS_swap] = stored};
    const char *error = step_passes(p, choices);
    if (error)
        fail_msg("%s", error);
    memset(store_at(f->store, "gradients"), 0, (size_t)p->buffers.at[step_find(p, "gradients")].bytes);
    run_once(f, p);
    const Bits got = bits_of(f, p);
    if (memcmp(got.loss, expected->loss, sizeof got.loss) ||
        memcmp(got.gradients, expected->gradients, (size_t)p->buffers.at[step_find(p, "gradients")].bytes) !=
            0)
        fail_msg("--recompute %s --swap %s: other bits", again ? again : "", stored ? stored : "");
}

static void passes_keep_the_bits(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        ModelFixture f = fixture_new(configs[c]);
        Recipe forms = fixture_recipe(&f, "setup", 0);
        recipe_setup(&forms);
        Program *setup = fixture_finish(&forms), *plain = gradients_of(&f);
        fixture_compile(&f);
        Run *forms_run = fixture_start(&f, setup), *first = fixture_start(&f, plain);
        fixture_draw(&f);
        fixture_go(forms_run);
        fixture_go(first);
        const Bits expected = bits_of(&f, plain);
        Random random = random_new(7);
        check_bits(&f, &expected, "all", NULL);
        check_bits(&f, &expected, NULL, "all");
        check_bits(&f, &expected, "all", "all");
        for (int i = 0; i < 6; i++)
            check_bits(&f, &expected, i % 3 ? random_modules(&random, f.arena, plain) : NULL,
                       i % 3 != 1 ? random_modules(&random, f.arena, plain) : NULL);
        run_free(forms_run);
        run_free(first);
        fixture_free(&f);
    }
}

static void passes_need_less(void **state)
{
    (void)state;
    ModelFixture f = fixture_new(fixture_pangu);
    for (StepPass pass = 0; pass < PASS_COUNT; pass++) {
        Program *plain = gradients_of(&f), *less = gradients_of(&f);
        const char *choices[PASS_COUNT] = {0};
        choices[pass] = "all";
        assert_null(step_passes(less, choices));
        memory_place(plain);
        memory_place(less);
        assert_true(memory_peak(less).bytes < memory_peak(plain).bytes * 3 / 4);
    }
    fixture_free(&f);
}

/* ---- wrong results of a pass ---- */

static const char *verdict(const Program *before, Program *after)
{
    const char *error = step_verify(after, NULL);
    return error ? error : step_same(before, after);
}

static Program with_tasks(const Program *p)
{
    Program copy = *p;
    memset(&copy.tasks, 0, sizeof copy.tasks);
    return copy;
}

static void refuse_left_out(const Program *before, const Program *p, TaskId left_out)
{
    Program wrong = with_tasks(p);
    for (TaskId t = 0; t < p->tasks.len; t++)
        if (t != left_out)
            vec_push(p->arena, &wrong.tasks, p->tasks.at[t]);
    if (!verdict(before, &wrong))
        fail_msg("task %u is left out, and no one says it", left_out);
}

/* One is what the other is in the swap file, or behind it. */
static int is_stored(const Program *p, const StepBuffer *a, const StepBuffer *b)
{
    static const char *const ends[] = {"", ".back", ".file"};
    for (size_t i = 0; i < 9; i++) {
        const char *x = arena_printf(p->arena, "%s%s", a->name, ends[i % 3]);
        if (!strcmp(x, arena_printf(p->arena, "%s%s", b->name, ends[i / 3])))
            return 1;
    }
    return 0;
}

/* Another buffer that could stand there. */
static BufferId another_like(const Program *p, BufferId b)
{
    const StepBuffer *like = &p->buffers.at[b];
    for (BufferId i = 0; i < p->buffers.len; i++) {
        const StepBuffer *other = &p->buffers.at[i];
        if (i != b && other->kind == like->kind && other->type == like->type && other->rank == like->rank &&
            other->bytes == like->bytes && other->base == STEP_NONE && other->owner != OWNER_scalar &&
            strcmp(arena_printf(p->arena, "%s.again", other->name), like->name) &&
            strcmp(arena_printf(p->arena, "%s.again", like->name), other->name) &&
            !is_stored(p, like, other) && !memcmp(other->shape, like->shape, sizeof like->shape))
            return i;
    }
    return STEP_NONE;
}

static void refuse_other_reads(const Program *before, const Program *p, TaskId t)
{
    for (uint32_t i = 0; i < p->tasks.at[t].operands.len; i++) {
        const Operand o = p->tasks.at[t].operands.at[i];
        const BufferId other = o.use == USE_READ ? another_like(p, o.buffer) : STEP_NONE;
        if (other == STEP_NONE || p->buffers.at[o.buffer].base != STEP_NONE)
            continue;
        p->tasks.at[t].operands.at[i].buffer = other;
        Program wrong = *p;
        if (!verdict(before, &wrong))
            fail_msg("task %u reads %s for %s, and no one says it", t, p->buffers.at[other].name,
                     p->buffers.at[o.buffer].name);
        p->tasks.at[t].operands.at[i].buffer = o.buffer;
    }
}

static void refused_results(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        ModelFixture f = fixture_new(configs[c]);
        Program *p = gradients_of(&f);
        const Program before = step_kept(p);
        const char *choices[PASS_COUNT] = {[PASS_recompute] = "all", [PASS_swap] = "all"};
        assert_null(step_passes(p, choices));
        assert_null(verdict(&before, p));
        uint32_t repeated = 0, moved = 0;
        for (TaskId t = 0; t < p->tasks.len; t++)
            if (p->tasks.at[t].phase == PHASE_recompute || task_lanes[p->tasks.at[t].kind] == LANE_disk) {
                repeated += p->tasks.at[t].phase == PHASE_recompute;
                moved += task_lanes[p->tasks.at[t].kind] == LANE_disk;
                refuse_left_out(&before, p, t);
                refuse_other_reads(&before, p, t);
            }
        assert_true(repeated > 20 && moved >= 4);
        fixture_free(&f);
    }
}

/* ---- the swap file ---- */

static void refuse_program(const char *tasks, const char *words)
{
    Arena *a = arena_new();
    const char *error = step_verify(read_program(a, tasks), NULL);
    if (!error || !strstr(error, words))
        fail_msg("%s: %s", tasks, error ? error : "accepted");
    arena_free(a);
}

static void rules_of_the_file(void **state)
{
    (void)state;
#define MADE "task 1 kernel f forward reads x=ids writes y=big, z=a\n"
    refuse_program(MADE "task 2 load forward reads x=file writes y=big\n",
                   "reads file as `x` before any task has written it");
    refuse_program(MADE "task 2 store forward reads x=a writes y=file\n",
                   "moves no whole activation into the swap file");
    refuse_program(MADE "task 2 store forward reads x=big~600 writes y=file\n",
                   "moves no whole activation into the swap file");
    refuse_program(MADE "task 2 store forward reads x=big writes y=a\n",
                   "moves no whole activation into the swap file");
    refuse_program(MADE "task 2 store forward reads x=big\n", "moves no whole activation into the swap file");
    refuse_program(
        MADE
        "task 2 store forward reads x=big writes y=file\ntask 3 load forward reads x=file writes y=loss\n",
        "moves no whole activation out of the swap file");
    refuse_program(MADE "task 2 kernel f forward reads x=big writes y=file\n", "file is in the swap file");
#undef MADE
    Arena *a = arena_new();
    Program *p = passed(a, PASS_swap, far, "one");
    memory_place(p);
    assert_null(step_verify(p, NULL));
    assert_true(p->disk_bytes >= 2400 && p->arena_bytes >= 2400);
    p->disk_bytes = 2300;
    assert_non_null(strstr(step_verify(p, NULL), "is not in the swap file of 2300"));
    arena_free(a);
}

/* What a run says of a file that does not do what it should. */
static void refuse_file(int fd, const char *words)
{
    ModelFixture f = fixture_new(fixture_grouped);
    const char *choices[PASS_COUNT] = {[PASS_swap] = "all"}, *error;
    Recipe forms = fixture_recipe(&f, "setup", 0);
    recipe_setup(&forms);
    Program *setup = fixture_finish(&forms), *p = gradients_of(&f);
    assert_null(step_passes(p, choices));
    fixture_compile(&f);
    run_once(&f, setup);
    assert_int_equal(kernels_add_work(f.kernels, p), 0);
    memory_place(p);
    Run *r = run_new(p, f.kernels, f.store,
                     &(RunOptions){.threads = 2, .source = {fixture_next, &f}, .swap_fd = fd}, &error);
    if (r) {
        assert_int_equal(run_program(r), 1);
        error = run_error(r);
    }
    if (!strstr(error, words))
        fail_msg("%s", error);
    run_free(r);
    fixture_free(&f);
}

static void faults_of_the_file(void **state)
{
    (void)state;
    const int full = open("/dev/full", O_RDWR), only_read = open("/dev/null", O_RDONLY);
    refuse_file(0, "there is none");
    refuse_file(full, "cannot be written: No space left on device");
    refuse_file(only_read, "cannot be written: Bad file descriptor");
    close(full), close(only_read);
}

static void short_file(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    char bytes[100] = "what is stored", back[100] = "";
    const DiskJob jobs[] = {{bytes, 100, 64, 0}, {back, 100, 64, 1}, {back, 100, 65, 1}};
    Disk *d = disk_new(fileno(file), jobs, 3);
    for (int turn = 0; turn < 2; turn++) {
        memset(back, 0, sizeof back);
        disk_begin(d);
        disk_post(d), disk_post(d);
        assert_int_equal(disk_wait(d, 2), 0);
        assert_string_equal(back, bytes);
        assert_string_equal(disk_error(d), "");
    }
    disk_post(d);
    assert_int_equal(disk_wait(d, 3), 1);
    assert_string_equal(disk_error(d), "the swap file, 100 bytes at 65, cannot be read: it ends before");
    disk_free(d);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_what_is_read), cmocka_unit_test(leaves_alone),
        cmocka_unit_test(refused_choices),      cmocka_unit_test(judge),
        cmocka_unit_test(passes_keep_the_bits), cmocka_unit_test(passes_need_less),
        cmocka_unit_test(refused_results),      cmocka_unit_test(stores_what_is_far),
        cmocka_unit_test(rules_of_the_file),    cmocka_unit_test(faults_of_the_file),
        cmocka_unit_test(short_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
