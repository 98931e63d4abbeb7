/* Descriptions of machines: what is read, and that each rule of the schema refuses with file, key, value and rule. */
#include "ir/tensor.h"
#include "machines/machines.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

static int set_up(void **state) { return !(*state = arena_new()); }

static int tear_down(void **state)
{
    arena_free(*state);
    return 0;
}

static const char *text_of(Arena *a, const char *name)
{
    const MachineText *t = machine_find(name);
    assert_non_null(t);
    return arena_strndup(a, (const char *)t->json, t->len);
}

/* The text with the `nth` occurrence of `from` made `to`. */
static const char *with(Arena *a, const char *text, int nth, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    while (at && nth-- > 1)
        at = strstr(at + 1, from);
    if (!at)
        fail_msg("'%s' does not stand in the description", from);
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void refused(Arena *a, const char *text, const char *want)
{
    Description d;
    const char *error = machine_read(a, "mine.json", text, strlen(text), &d);
    if (!error)
        fail_msg("not refused; expected: %s", want);
    assert_string_equal(error, want);
}

/* The text without the last figure of a section, which begins with `from`. */
static const char *without(Arena *a, const char *text, const char *from)
{
    const char *at = strstr(text, from), *end = at ? strstr(at, "\n  }") : NULL;
    assert_non_null(end);
    return arena_printf(a, "%.*s%s", (int)(at - text), text, end);
}

/* ---- what is known ---- */

static void every_description_is_whole(void **state)
{
    Arena *a = *state;
    for (uint32_t i = 0; i < machine_text_count; i++) {
        const MachineText *t = &machine_texts[i];
        Description d;
        assert_null(machine_read(a, t->name, (const char *)t->json, t->len, &d));
        assert_string_equal(d.machine.name, t->name);
        for (uint32_t f = 0; f < d.figures.len; f++) {
            assert_true(d.figures.at[f].value > 0);
            assert_true(strlen(d.figures.at[f].source) > 3);
        }
    }
    assert_null(machine_find("none"));
}

static void the_npu_is_read(void **state)
{
    Arena *a = *state;
    Description d;
    const char *text = text_of(a, "ascend910b2");
    assert_null(machine_read(a, "ascend910b2.json", text, strlen(text), &d));
    const Machine *m = &d.machine;
    assert_int_equal(m->kind, MACHINE_NPU);
    assert_int_equal(m->cube_16bit.rows * m->cube_16bit.cols * m->cube_16bit.depth, 4096);
    assert_int_equal(m->cores.cube * m->clock.core * 2 * 4096 / 1000, 353894); /* Gflop/s */
    assert_int_equal(m->l0c.bytes, 128 << 10);
    assert_int_equal(m->ub.align, 32);
    assert_int_equal(m->caches.l1, 0); /* it has none */
    /* The default blocks fit: two of each operand in L0, the sums once. */
    Blocks b = m->l0_blocks;
    assert_true(2 * 2 * b.rows * b.depth <= m->l0a.bytes && 2 * 2 * b.depth * b.cols <= m->l0b.bytes);
    assert_true(4 * b.rows * b.cols <= m->l0c.bytes);
}

static void *read_host(void *a) { return (void *)(uintptr_t)machine_host(a); }

static void the_host_is_read_once(void **state)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    Arena *arenas[THREADS];
    void *got[THREADS];
    const Machine *first = machine_host(*state);
    for (int i = 0; i < THREADS; i++) {
        arenas[i] = arena_new();
        assert_int_equal(pthread_create(&threads[i], NULL, read_host, arenas[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &got[i]);
        assert_ptr_equal(got[i], first);
        assert_int_equal(arena_bytes(arenas[i]), 0); /* nothing was read again */
        arena_free(arenas[i]);
    }
    assert_string_equal(first->name, "host");
    assert_int_equal(first->kind, MACHINE_CPU);
    assert_int_equal(first->blocks.depth % first->cube_16bit.depth, 0);
}

/* A block of an instruction set is another one with it only. */
static void blocks_are_of_an_instruction_set(void **state)
{
    Arena *a = *state;
    Description d;
    const char *text =
        with(a, text_of(a, "host"), 1, "{\"avx2\": {\"value\": 384", "{\"generic\": {\"value\": 768");
    assert_null(machine_read(a, "host.json", text, strlen(text), &d));
    for (Isa isa = 0; isa < ISA_COUNT; isa++) {
        const ProductBlocks *b = &d.machine.of_isa[isa];
        assert_int_equal(b->blocks.rows, isa == ISA_generic ? 768 : d.machine.blocks.rows);
        assert_int_equal(b->blocks.plain_rows == d.machine.blocks.plain_rows, isa != ISA_avx2);
        assert_int_equal(b->blocks.cols, d.machine.blocks.cols);
        assert_int_equal(b->place_blocks.rows == d.machine.place_blocks.rows,
                         isa != ISA_avx512bf16 && isa != ISA_avx2);
    }
}

static void the_host_is_asked_for_what_is_marked(void **state)
{
    Arena *a = *state;
    Description d;
    const char *text = text_of(a, "host");
    int probed = 0;
    assert_null(machine_read(a, "host.json", text, strlen(text), &d));
    for (uint32_t i = 0; i < d.figures.len; i++) {
        const Figure *f = &d.figures.at[i];
        assert_true(f->probed || machine_probe(f->row) == 0);
        probed += f->probed;
        if (strcmp(f->row->section, "cores") == 0)
            assert_true(machine_probe(f->row) >= 1);
    }
    assert_int_equal(probed, 5);
}

/* A figure of a core counts on that core only, and only for who asks. */
static void figures_of_cores_are_of_these_cores(void **state)
{
    Arena *a = *state;
    Description d;
    const char *text = text_of(a, "host"), *clock = "{\"zen5\": {\"value\": 3900, ";
    for (uint32_t i = 0; i < core_count; i++) {
        const char *name = core_table[i].name, *source = "generic";
        Figure f = {.value = 1};
        vec_push(a, &f.on, (NamedFigure){name, "measured", 2});
        int is_here = strcmp(name, cpu_core()) == 0;
        assert_int_equal(machine_here(&f, &source), is_here ? 2 : 0);
        assert_string_equal(source, is_here ? "measured" : "generic");
    }
    if (!*cpu_core())
        return;
    assert_null(machine_read(a, "host.json", text, strlen(text), &d));
    int64_t plain = d.machine.clock.core;
    machine_ask(&d);
    const char *own =
        arena_printf(a, "\"%s\": {\"value\": %lld, ", cpu_core(), (long long)d.machine.clock.core);
    if (d.machine.clock.core == plain) /* the file has no clock of this core */
        text = with(a, text, 1, clock, arena_printf(a, "{\"%s\": {\"value\": 4321, ", cpu_core()));
    else
        text = with(a, text, 1, own, arena_printf(a, "\"%s\": {\"value\": 4321, ", cpu_core()));
    assert_null(machine_read(a, "host.json", text, strlen(text), &d));
    assert_int_equal(d.machine.clock.core, machine_host(a)->clock.core); /* code goes by this */
    machine_ask(&d);
    assert_int_equal(d.machine.clock.core, 4321);
}

/* ---- what is refused ---- */

static void not_json(void **state)
{
    refused(*state, "", "mine.json:1:0: '[' or '{' expected near end of file");
    refused(*state, "{\"name\": \"a\", \"name\": \"b\"}",
            "mine.json:1:20: duplicate object key near '\"name\"'");
    refused(*state, "[1]", "mine.json: the file is [1]: must be an object");
}

static void the_head(void **state)
{
    Arena *a = *state;
    const char *good = text_of(a, "host");
    refused(a, with(a, good, 1, "\"name\": \"host\",", ""), "mine.json: name is missing: must be a text");
    refused(a, with(a, good, 1, "\"host\"", "\"My host\""),
            "mine.json: name is \"My host\": must be a to z, 0 to 9 and _, at most 31 of them");
    refused(a, with(a, good, 1, "\"host\"", "\"a123456789b123456789c123456789d1\""),
            "mine.json: name is \"a123456789b123456789c123456789d1\": must be a to z, 0 to 9 and _, at most "
            "31 of them");
    refused(a, with(a, good, 1, "\"cpu\"", "\"gpu\""),
            "mine.json: kind is \"gpu\": must be \"cpu\" or \"npu\"");
    refused(a, with(a, good, 1, "\"cpu\"", "7"), "mine.json: kind is 7: must be a text");
    refused(a, with(a, good, 1, "\"doc\": \"the CPU that compiles and runs the kernels\"", "\"doc\": \"\""),
            "mine.json: doc is \"\": must be a text");
}

static void sections(void **state)
{
    Arena *a = *state;
    const char *good = text_of(a, "host");
    const char *unknown = with(a, good, 1, "\"blocks\"", "\"block\"");
    Description d;
    const char *error = machine_read(a, "mine.json", unknown, strlen(unknown), &d);
    assert_non_null(strstr(error, "mine.json: block is {\"rows\":{\"value\":256,"));
    assert_non_null(
        strstr(error, "...: there is no such key, here are name, kind, doc, cube_16bit, align, blocks, "));
    refused(a, with(a, good, 1, "\"cpu\"", "\"npu\""),
            "mine.json: blocks.rows.with is {\"avx2\":{\"value\":384,\"source\":\"measured on an EPYC (Zen "
            "3) w...: must be an object, of a "
            "figure of a cpu's blocks");
    refused(a,
            with(a, text_of(a, "ascend910b2"), 1, "\"cube\": {\"value\"",
                 "\"cube\": {\"probed\": true, \"value\""),
            "mine.json: cores.cube.probed is true: only cores and caches of a cpu are asked for");
    refused(a, "{\"name\": \"a\", \"kind\": \"cpu\", \"doc\": \"d\"}",
            "mine.json: cube_16bit is missing: must be an object of figures");
    refused(a, "{\"name\": \"a\", \"kind\": \"cpu\", \"doc\": \"d\", \"cube_16bit\": 5}",
            "mine.json: cube_16bit is 5: must be an object of figures");
    const char *npu = text_of(a, "ascend910b2"), *at = strstr(npu, ",\n  \"costs\"");
    refused(a, arena_printf(a, "%.*s}", (int)(at - npu), npu),
            "mine.json: costs is missing: must be an object of figures");
}

static void figures(void **state)
{
    Arena *a = *state;
    const char *good = text_of(a, "host"), *line = "{\"value\": 64, \"unit\": \"bytes\", \"source\": ";
    assert_non_null(strstr(good, line));
    refused(a, without(a, good, ",\n    \"depth\""),
            "mine.json: cube_16bit.depth is missing: must be an object with value, unit and source");
    refused(a, with(a, good, 1, "\"fragment\"", "\"edge\""),
            "mine.json: align.edge is {\"value\":16,\"unit\":\"elements\",\"source\":\"edge of an AMX "
            "tile;...: there is "
            "no such key, here are fragment, block, line");
    refused(a, with(a, good, 1, line, "64, \"x\": {\"value\": 64, \"unit\": \"bytes\", \"source\": "),
            "mine.json: align.x is {\"value\":64,\"unit\":\"bytes\",\"source\":\"cache line of every x86...: "
            "there is no such "
            "key, here are fragment, block, line");
    refused(a, with(a, good, 1, line, "{\"unit\": \"bytes\", \"source\": "),
            "mine.json: align.line.value is missing: must be a whole number");
    refused(a, with(a, good, 1, line, "{\"value\": 6.5, \"unit\": \"bytes\", \"source\": "),
            "mine.json: align.line.value is 6.5: must be a whole number");
    refused(a, with(a, good, 1, line, "{\"value\": 0, \"unit\": \"bytes\", \"source\": "),
            "mine.json: align.line.value is 0: must be positive");
    refused(a, with(a, good, 1, line, "{\"value\": -64, \"unit\": \"bytes\", \"source\": "),
            "mine.json: align.line.value is -64: must be positive");
    refused(a, with(a, good, 1, line, "{\"value\": 1125899906842625, \"unit\": \"bytes\", \"source\": "),
            "mine.json: align.line.value is 1125899906842625: must be at most 2^20");
    refused(a, with(a, good, 1, line, "{\"value\": 64, \"unit\": \"KiB\", \"source\": "),
            "mine.json: align.line.unit is \"KiB\": must be \"bytes\"");
    refused(a, with(a, good, 1, line, "{\"value\": 64, \"source\": "),
            "mine.json: align.line.unit is missing: must be a text");
    refused(a, with(a, good, 1, line, "{\"value\": 64, \"unit\": \"bytes\", \"from\": "),
            "mine.json: align.line.from is \"cache line of every x86-64 CPU with AVX2\": there is no such "
            "key, here are "
            "value, unit, source, probed, on, with");
    refused(a, with(a, good, 1, line, "{\"value\": 64, \"unit\": \"bytes\", \"probed\": true, \"source\": "),
            "mine.json: align.line.probed is true: only cores and caches of a cpu are asked for");
    refused(a, with(a, good, 1, line, "{\"value\": 64, \"unit\": \"bytes\", \"on\": {}, \"source\": "),
            "mine.json: align.line.on is {}: must be an object, of a figure of a cpu's core, clock or "
            "memory");
    refused(a,
            with(a, good, 1, "\"on\": {\"zen5\": {\"value\": 3900, ",
                 "\"on\": {\"z80\": 3, \"zen5\": {\"value\": 3900, "),
            "mine.json: clock.core.on.z80 is 3: must be an object, and the name that of a core "
            "(machines/cores.def)");
    refused(a, with(a, good, 1, "\"zen5\": {\"value\": 128", "\"zen5\": {\"value\": 0"),
            "mine.json: core.add.on.zen5.value is 0: must be positive");
    refused(a, with(a, good, 1, "\"with\": {\"avx2\"", "\"with\": {\"avx9\""),
            "mine.json: blocks.rows.with.avx9 is {\"value\":384,\"source\":\"measured on an EPYC (Zen 3) "
            "with one ...: must be an object, "
            "and the name that of an instruction set (machines/cpu.def)");
    refused(a, with(a, good, 1, "\"probed\": true", "\"probed\": 1"),
            "mine.json: cores.cube.probed is 1: must be true or false");
    refused(a,
            with(a, good, 1, "\"source\": \"cache line of every x86-64 CPU with AVX2\"", "\"source\": \"\""),
            "mine.json: align.line.source is \"\": must be a text");
}

/* A figure that is alone breaks this rule: 16 -> 24 of the fragment, 256 -> 250 of a block, 65536 -> 65535 of L0A. */
static void rules_between_figures(void **state)
{
    Arena *a = *state;
    const char *cpu = text_of(a, "host"), *npu = text_of(a, "ascend910b2");
    refused(a, with(a, cpu, 3, "\"value\": 16,", "\"value\": 24,"),
            "mine.json: align.block.value is 256: must be a multiple of align.fragment, which is 24");
    refused(a, with(a, cpu, 1, "\"value\": 128", "\"value\": 100"),
            "mine.json: blocks.plain_rows.value is 100: must be a multiple of align.fragment, which is 16");
    refused(a, with(a, cpu, 1, "{\"avx2\": {\"value\": 96", "{\"avx2\": {\"value\": 100"),
            "mine.json: blocks.plain_rows.with.avx2.value is 100: must be a multiple of align.fragment, "
            "which is 16");
    refused(a, with(a, npu, 1, "\"value\": 65536,", "\"value\": 65535,"),
            "mine.json: l0a.bytes.value is 65535: must be a multiple of l0a.align, which is 512");
    refused(a, with(a, npu, 1, "\"value\": 48,", "\"value\": 3,"),
            "mine.json: cores.vector.value is 3: must be a multiple of cores.cube, which is 24");
    refused(a, with(a, npu, 1, "\"value\": 32,", "\"value\": 64,"),
            "mine.json: l1.align.value is 64: must divide 2 * align.fragment, which is 32");
}

/* Memory that the emulator cannot have, and times whose sums overflow. */
static void largest_figures(void **state)
{
    Arena *a = *state;
    const char *npu = text_of(a, "ascend910b2");
    refused(a, with(a, npu, 1, "\"value\": 524288,", "\"value\": 1099511627776,"),
            "mine.json: l1.bytes.value is 1099511627776: must be at most 2^30");
    refused(a, with(a, npu, 1, "\"value\": 24,", "\"value\": 1099511627776,"),
            "mine.json: cores.cube.value is 1099511627776: must be at most 2^16");
    refused(a, with(a, npu, 1, "\"value\": 1800,", "\"value\": 2147483648,"),
            "mine.json: clock.core.value is 2147483648: must be at most 2^20");
}

/* ---- instruction sets ---- */

/* What the lowering and the back end rely on, and no single row of cpu.def can promise. */
static void instruction_sets_lean_on_each_other(void **state)
{
    (void)state;
    for (Isa isa = 0; isa < ISA_COUNT; isa++) {
        const Cpu *cpu = &cpu_table[isa], *f32 = &cpu_table[cpu->f32], *code = &cpu_table[cpu->code];
        assert_true(f32->family == cpu->family && code->family == cpu->family);
        assert_int_equal(f32->f32, cpu->f32);
        assert_int_equal(code->code, cpu->code);
        assert_int_equal(code->lanes, cpu->lanes); /* they share tile programs */
        assert_int_equal(code->traits & ~cpu->traits, 0);
        assert_true(cpu->terms >= 1);
        assert_true(!cpu->rows_read || cpu->terms == 1 || cpu->terms == 32 ||
                    cpu_can(cpu, CPU_MASKS)); /* 32: tiles */
        assert_true(cpu->rows_read % LAYOUT_EDGE == 0 && cpu->streams >= 1 &&
                    LAYOUT_EDGE % cpu->streams == 0);
    }
}

/* AVX2 is told from AVX-512 by masks and by its narrow fragments, and from SSE2 by all that x86-64-v3 has. */
static void traits_grow_with_the_rows(void **state)
{
    (void)state;
    const Cpu *plain = &cpu_table[ISA_generic], *avx2 = &cpu_table[ISA_avx2], *wide = &cpu_table[ISA_avx512];
    assert_int_equal(plain->traits, 0);
    assert_true(cpu_can(avx2, CPU_FMA) && cpu_can(avx2, CPU_F16) && !cpu_can(avx2, CPU_MASKS));
    assert_int_equal(avx2->traits & ~wide->traits, 1u << CPU_WIDE | 1u << CPU_STRIPS | 1u << CPU_ASKS_EVENLY);
    assert_true(cpu_can(wide, CPU_MASKS) && !cpu_can(wide, CPU_ROUND_BF16));
    assert_int_equal(cpu_plainest(), ISA_generic);
}

static void an_npu_has_other_traits(void **state)
{
    (void)state;
    assert_true(machine_traits(MACHINE_NPU)->zero_sums && !machine_traits(MACHINE_CPU)->zero_sums);
    assert_true(machine_traits(MACHINE_CPU)->lookups && !machine_traits(MACHINE_NPU)->lookups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_sets_lean_on_each_other),
        cmocka_unit_test(traits_grow_with_the_rows),
        cmocka_unit_test(an_npu_has_other_traits),
        cmocka_unit_test(every_description_is_whole),
        cmocka_unit_test(the_npu_is_read),
        cmocka_unit_test(the_host_is_read_once),
        cmocka_unit_test(blocks_are_of_an_instruction_set),
        cmocka_unit_test(the_host_is_asked_for_what_is_marked),
        cmocka_unit_test(figures_of_cores_are_of_these_cores),
        cmocka_unit_test(not_json),
        cmocka_unit_test(the_head),
        cmocka_unit_test(sections),
        cmocka_unit_test(figures),
        cmocka_unit_test(rules_between_figures),
        cmocka_unit_test(largest_figures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
