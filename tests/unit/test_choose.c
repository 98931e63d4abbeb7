/* Which instruction set is taken: Note [The right code] in machines.h. The decision by published rates, the probe by a clock of
 * its own, and the file of kept rates, whole or not at all. */
#include "machines/cpu_own.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HAS(isa) (1u << ISA_##isa)
enum {
    UP_TO_512 = HAS(generic) | HAS(avx2) | HAS(avx512),
    WITH_DOT = UP_TO_512 | HAS(avx512widen) | HAS(avx512bf16),
    WITH_AMX = WITH_DOT | HAS(amx)
};

/* ---- the decision ---- */

static CpuRates rates_of(uint32_t fma, uint32_t dot, uint32_t tile)
{
    CpuRates r = {.from = RATES_PROBE};
    r.mflops[ISA_avx512] = r.mflops[ISA_avx512widen] = fma * 1000;
    r.mflops[ISA_avx512bf16] = dot * 1000;
    r.mflops[ISA_amx] = tile * 1000;
    return r;
}

static void the_fastest_is_taken_if_it_gains(void **state)
{
    (void)state;
    static const struct {
        uint32_t isas, fma, dot, tile;
        Isa taken;
    } cases[] = {
        {WITH_DOT, 117, 235, 0, ISA_avx512bf16}, /* Zen 4 */
        {WITH_DOT, 250, 500, 0, ISA_avx512bf16}, /* Zen 5 */
        {WITH_DOT, 175, 90, 0, ISA_avx512widen}, /* Emerald Rapids without AMX */
        {WITH_DOT, 179, 86, 0, ISA_avx512widen},
        {WITH_AMX, 205, 102, 2700, ISA_amx},      /* with it */
        {WITH_AMX, 177, 88, 60, ISA_avx512widen}, /* an AMX that something emulates */
        {WITH_DOT, 124, 100, 0, ISA_avx512bf16},  /* near 1: the later one stays */
        {WITH_DOT, 125, 100, 0, ISA_avx512widen},
        {WITH_DOT, 0, 0, 0, ISA_avx512bf16}, /* nothing is known: CPUID's word */
        {WITH_DOT, 175, 0, 0, ISA_avx512bf16},
        {UP_TO_512, 177, 88, 0, ISA_avx512},                          /* what the CPU lacks does not count */
        {HAS(generic) | HAS(avx512bf16), 177, 88, 0, ISA_avx512bf16}, /* nor what was not compiled */
        {UP_TO_512 | HAS(avx512bf16), 177, 88, 0, ISA_avx512},        /* as in an `all` */
        {HAS(amx_soft), 0, 0, 0, ISA_amx_soft},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CpuRates r = rates_of(cases[i].fma, cases[i].dot, cases[i].tile);
        assert_string_equal(cpu_table[cpu_fastest(cases[i].isas, &r)].name, cpu_table[cases[i].taken].name);
    }
}

static void rates_are_asked_for_where_two_loops_compete(void **state)
{
    (void)state;
    assert_false(cpu_needs_rates(HAS(generic) | HAS(avx2)));
    assert_false(cpu_needs_rates(UP_TO_512));
    assert_false(cpu_needs_rates(HAS(generic) | HAS(avx512bf16)));
    assert_true(cpu_needs_rates(WITH_DOT));
    assert_true(cpu_needs_rates(WITH_AMX));
}

/* ---- the table ---- */

static Isa taken_by(const char *vendor, uint32_t family, uint32_t model, uint32_t isas)
{
    CpuId id = {.family = family, .model = model};
    CpuRates r;
    memcpy(id.vendor, vendor, sizeof id.vendor);
    return core_find(&id, &r) ? cpu_fastest(isas, &r) : ISA_COUNT;
}

static void known_cores_need_no_probe(void **state)
{
    (void)state;
    assert_int_equal(taken_by("AuthenticAMD", 0x19, 0x11, WITH_DOT), ISA_avx512bf16);  /* Genoa */
    assert_int_equal(taken_by("AuthenticAMD", 0x1a, 0x02, WITH_DOT), ISA_avx512bf16);  /* Turin */
    assert_int_equal(taken_by("GenuineIntel", 0x06, 0xcf, WITH_DOT), ISA_avx512widen); /* Emerald Rapids */
    assert_int_equal(taken_by("GenuineIntel", 0x06, 0xcf, WITH_AMX), ISA_amx);
    assert_int_equal(taken_by("AuthenticAMD", 0x19, 0x01, HAS(generic) | HAS(avx2)), ISA_avx2); /* Milan */
    assert_int_equal(taken_by("AuthenticAMD", 0x17, 0x31, WITH_DOT), ISA_COUNT);                /* Zen 2 */
    assert_int_equal(taken_by("GenuineIntel", 0x06, 0xad, WITH_AMX), ISA_COUNT); /* Granite Rapids */
    assert_int_equal(taken_by("GenuineIntel", 0x19, 0x11, WITH_DOT), ISA_COUNT);
}

/* ---- the probe ---- */

typedef struct Noise {
    uint32_t state;
    double fma, dot;
    int runs;
} Noise;

/* A neighbour takes the core away in three runs of four, for up to twenty times as long. */
static double noisy_run(Isa isa, void *user)
{
    Noise *n = user;
    assert_int_not_equal(isa, ISA_avx512widen); /* whose loop is that of avx512 */
    double rate = isa == ISA_avx512 ? n->fma : n->dot;
    n->state = n->state * 1664525u + 1013904223u;
    n->runs++;
    return n->state >> 30 ? rate / (1.0 + (n->state >> 8 & 0xffff) / 3449.0) : rate;
}

static void busy_neighbours_do_not_change_the_choice(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        Noise slow = {.state = seed, .fma = 177e9, .dot = 88e9},
              fast = {.state = seed, .fma = 118e9, .dot = 236e9};
        Noise even = {.state = seed, .fma = 177e9, .dot = 170e9};
        CpuRates r;
        cpu_probe(WITH_DOT, noisy_run, &slow, &r);
        assert_int_equal(cpu_fastest(WITH_DOT, &r), ISA_avx512widen);
        assert_int_equal(r.mflops[ISA_generic], 0);
        assert_int_equal(r.from, RATES_PROBE);
        cpu_probe(WITH_DOT, noisy_run, &fast, &r);
        assert_int_equal(cpu_fastest(WITH_DOT, &r), ISA_avx512bf16);
        cpu_probe(WITH_DOT, noisy_run, &even, &r);
        assert_int_equal(cpu_fastest(WITH_DOT, &r), ISA_avx512bf16);
    }
}

static double broken_clock(Isa isa, void *user)
{
    (void)isa, (void)user;
    return 0;
}

static void a_clock_that_stands_leaves_the_default(void **state)
{
    (void)state;
    CpuRates r;
    cpu_probe(WITH_DOT, broken_clock, NULL, &r);
    assert_int_equal(cpu_fastest(WITH_DOT, &r), ISA_avx512bf16);
}

/* The loops of this CPU, on the real clock: within what a core can do at all. */
static void the_loops_run(void **state)
{
    (void)state;
    uint32_t isas = cpu_choices();
    CpuRates r;
    cpu_probe(isas, cpu_time_loop, NULL, &r);
    for (Isa isa = 0; isa < ISA_COUNT; isa++) {
        assert_int_equal(r.mflops[isa] > 0, isas >> isa & 1 && cpu_is_timed(&cpu_table[isa]));
        assert_true(r.mflops[isa] < 20000000);
    }
}

/* ---- the file ---- */

static char home[64], folder[128], file[192];

static int make_home(void **state)
{
    (void)state;
    CpuId id;
    char name[32];
    strcpy(home, "/tmp/moec-test-XXXXXX");
    assert_non_null(mkdtemp(home));
    snprintf(folder, sizeof folder, "%s/" CPU_CACHE_OWN, home);
    assert_int_equal(mkdir(folder, 0700), 0);
    cpu_id(&id);
    kept_name(&id, name);
    snprintf(file, sizeof file, "%s/%s", folder, name);
    setenv("MOEC_CACHE", home, 1);
    unsetenv("MOE_ISA");
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    chmod(folder, 0700);
    unlink(file);
    rmdir(folder);
    rmdir(home);
    unsetenv("MOEC_CACHE");
    return 0;
}

static int reads(CpuRates *out)
{
    CpuId id;
    cpu_id(&id);
    return kept_read(&id, out);
}

static void write_file(const void *bytes, size_t len)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(file, 0600), 0);
}

static void kept_rates_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    CpuRates r, slow = rates_of(200, 100, 0);
    unsigned char bytes[sizeof(KeptRates) + 1] = {0};
    assert_false(reads(&r));
    assert_true(cpu_keep_rates(folder, &slow));
    assert_true(reads(&r));
    assert_int_equal(r.from, RATES_KEPT);
    assert_memory_equal(r.mflops, slow.mflops, sizeof r.mflops);
    cpu_find_rates(WITH_DOT, &r); /* it counts before the table and the probe */
    assert_memory_equal(r.mflops, slow.mflops, sizeof r.mflops);

    FILE *f = fopen(file, "rb");
    assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof(KeptRates));
    fclose(f);
    for (size_t len = 0; len < sizeof(KeptRates); len++) {
        write_file(bytes, len);
        assert_false(reads(&r));
    }
    write_file(bytes, sizeof bytes);
    assert_false(reads(&r));
    for (size_t i = 0; i < 8 * sizeof(KeptRates); i++) {
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        write_file(bytes, sizeof(KeptRates));
        assert_false(reads(&r));
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    write_file(bytes, sizeof(KeptRates));
    assert_true(reads(&r));
    assert_int_equal(chmod(file, 0622), 0); /* anybody could have written it */
    assert_false(reads(&r));
}

static void rates_of_another_cpu_are_none(void **state)
{
    (void)state;
    CpuRates r, slow = rates_of(200, 100, 0);
    CpuId id, other;
    KeptRates kept;
    char name[32], others[32];
    cpu_id(&id);
    other = id;
    other.stepping++;
    kept_name(&id, name);
    kept_name(&other, others);
    assert_string_not_equal(name, others);
    kept_fill(&other, &slow, &kept);
    write_file(&kept, sizeof kept); /* even under this one's name */
    assert_false(reads(&r));
    assert_true(cpu_keep_rates(folder, &slow)); /* made again over it */
    assert_true(reads(&r));
}

static void no_folder_is_no_error(void **state)
{
    (void)state;
    CpuRates r, slow = rates_of(200, 100, 0);
    char deep[3 * CPU_PATH];
    assert_false(cpu_keep_rates("/proc/none", &slow));
    memset(deep, 'a', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_false(cpu_keep_rates(deep, &slow));
    setenv("MOEC_CACHE", deep, 1);
    assert_false(reads(&r));
    setenv("MOEC_CACHE", "", 1);
    assert_false(reads(&r));
    setenv("MOEC_CACHE", home, 1);
    assert_int_equal(mkdir(file, 0700), 0); /* a folder in its place */
    assert_false(reads(&r));
    assert_false(cpu_keep_rates(folder, &slow));
    assert_int_equal(rmdir(file), 0);
}

/* Two write other rates again and again; who reads gets those of one of them. */
static void two_processes_may_write_at_once(void **state)
{
    (void)state;
    CpuRates r, rates[2] = {rates_of(200, 100, 0), rates_of(100, 200, 0)};
    pid_t writers[2];
    assert_true(cpu_keep_rates(folder, &rates[0]));
    for (int w = 0; w < 2; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        for (int i = 0; !writers[w] && i < 300; i++)
            if (!cpu_keep_rates(folder, &rates[w]))
                _exit(1);
        if (!writers[w])
            _exit(0);
    }
    for (int i = 0; i < 2000; i++) {
        assert_true(reads(&r));
        assert_true(r.mflops[ISA_avx512] + r.mflops[ISA_avx512bf16] == 300000);
    }
    for (int w = 0; w < 2; w++) {
        int status = 1;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
}

/* ---- what compiled code calls ---- */

static void compiled_code_chooses_by_kept_rates(void **state)
{
    (void)state;
    CpuRates slow = rates_of(200, 100, 0), fast = rates_of(100, 200, 0);
    const char *word = NULL;
    if (!cpu_has(ISA_avx512bf16))
        skip();
    assert_true(cpu_keep_rates(folder, &slow));
    assert_int_equal(moec_choose(WITH_DOT, &word), ISA_avx512widen);
    assert_int_equal(moec_choose(HAS(avx512bf16), &word), ISA_avx512bf16);
    assert_true(cpu_keep_rates(folder, &fast));
    assert_int_equal(moec_choose(WITH_DOT, &word), ISA_avx512bf16);
    assert_true(cpu_keep_rates(folder, &slow));
    setenv("MOE_ISA", "avx512bf16", 1); /* forced: rates do not count */
    assert_int_equal(moec_choose(WITH_DOT, &word), ISA_avx512bf16);
    assert_int_equal(moec_choose(UP_TO_512, &word), CHOICE_FORCED);
    assert_string_equal(word, "avx512bf16");
    assert_int_equal(moec_choose(WITH_DOT, NULL), ISA_avx512widen);
    assert_int_equal(moec_choose(UP_TO_512 | HAS(avx512bf16), NULL), ISA_avx512);
    setenv("MOE_ISA", "", 1);
    assert_int_equal(moec_choose(WITH_DOT, &word), ISA_avx512widen);
    unsetenv("MOE_ISA");
    assert_int_equal(moec_choose(0, &word), CHOICE_NONE);
}

int main(void)
{
#define IN_HOME(f) cmocka_unit_test_setup_teardown(f, make_home, remove_home)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken_if_it_gains),
        cmocka_unit_test(rates_are_asked_for_where_two_loops_compete),
        cmocka_unit_test(known_cores_need_no_probe),
        cmocka_unit_test(busy_neighbours_do_not_change_the_choice),
        cmocka_unit_test(a_clock_that_stands_leaves_the_default),
        cmocka_unit_test(the_loops_run),
        IN_HOME(kept_rates_are_read_whole_or_not_at_all),
        IN_HOME(rates_of_another_cpu_are_none),
        IN_HOME(no_folder_is_no_error),
        IN_HOME(two_processes_may_write_at_once),
        IN_HOME(compiled_code_chooses_by_kept_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
