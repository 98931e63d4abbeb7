/* Calls on teams of threads: a refused call ends on every thread, whichever check fails and however often, and a process
 * that was forked from one with threads computes, too.
 *
 *     test_threads [CALLS [THREADS]]      that many refused calls on so many threads, for longer runs by hand */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* `routed` begins with two serial launches, the first of which checks. Two launches of `computed` that check follow each
 * other, and another one them. */
static const char PROGRAM[] =
    "moe 1\n"
    "dim T, K, E, H, F, V\n"
    "group R : E rows T*K\n"
    "kernel routed(in x: f32[T, H], in rt: route[T, K -> R], in w: f32[E, H, F], out y: f32[T, F]) {\n"
    "  o[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]\n"
    "  y[t, f] = sum(k) o[rt.row(t, k), f]\n"
    "}\n"
    "kernel computed(in table: f32[V, H], in s: f32[T], out y: f32[T, H], out n: i32[H], out m: i32[V], out "
    "z: f32[H]) {\n"
    "  id[t] = i32(s[t])\n"
    "  y[t, h] = table[id[t], h]\n"
    "  n[h] = sum(t) 10000000 * id[t] * (h + 1)\n"
    "  m[v] = sum(h) n[h] * v\n"
    "  z[h] = sum(v) m[v] * table[v, h]\n"
    "}\n"
    "kernel looked_up(in table: f32[V, H], in id: i32[T], out y: f32[T, H], out z: f32[H]) {\n"
    "  y[t, h] = table[id[t], h]\n"
    "  z[h] = sum(t) y[t, h]\n"
    "}\n";

enum { T = 40, K = 2, E = 4, H = 16, F = 32, V = 8, THREADS = 4, PATIENCE = 20 /* seconds */ };

typedef struct Data {
    float x[T * H], w[E * H * F], y[T * F], table[V * H], s[T], z[H];
    int32_t id[T], n[H], m[V];
    moe_route *rt;
    moe_ctx *ctx;
} Data;

/* Row r is choice r % K of token r / K; all experts have as many. */
static void fill(Data *d)
{
    memset(d, 0, sizeof *d);
    d->ctx = moe_ctx_new(0);
    d->rt = moe_route_new(T, K, E, T * K);
    assert_true(d->ctx && d->rt);
    for (int e = 0; e < E; e++) {
        d->rt->count[e] = T * K / E;
        d->rt->start[e + 1] = (e + 1) * T * K / E;
    }
    for (int r = 0; r < T * K; r++)
        d->rt->slot_of[r] = d->rt->row_of[r] = r;
    for (int i = 0; i < T * H; i++)
        d->x[i] = (float)(i % 7);
    for (int i = 0; i < E * H * F; i++)
        d->w[i] = (float)(i % 5);
}

static void empty(Data *d)
{
    moe_route_free(d->rt);
    moe_ctx_free(d->ctx);
}

static int call(const moec_module *m, const char *kernel, Data *d)
{
    moe_entry *entry = moec_kernel_entry(moec_module_kernel(m, kernel));
    if (strcmp(kernel, "routed") == 0)
        return entry(d->ctx, (int64_t[]){T, K, E, H, F}, (void *[]){d->x, d->rt, d->w, d->y});
    if (strcmp(kernel, "computed") == 0)
        return entry(d->ctx, (int64_t[]){T, H, V}, (void *[]){d->table, d->s, d->y, d->n, d->m, d->z});
    return entry(d->ctx, (int64_t[]){T, H, V}, (void *[]){d->table, d->id, d->y, d->z});
}

/* ---- refusals ---- */

static void break_runs(Data *d) { d->rt->count[0]--; }
static void break_slots(Data *d) { d->rt->slot_of[T] = -5; }
static void break_id(Data *d) { d->id[T / 2] = V; }
static void break_computed(Data *d) { d->s[T - 1] = -1; }
static void break_first_range(Data *d) { d->s[3] = d->s[4] = V - 1; }
static void break_second_range(Data *d) { d->s[0] = 1; }

typedef struct Refusal {
    const char *kernel;
    void (*break_it)(Data *d);
    int status;
    const char *words;
} Refusal;

static const Refusal refusals[] = {
    {"routed", break_runs, MOE_ROUTE, "count[0] is 19"},
    {"routed", break_slots, MOE_ROUTE, "slot_of[40] is -5"},
    {"looked_up", break_id, MOE_INDEX, "axis 0 of table, whose extent is 8"},
    {"computed", break_computed, MOE_COMPUTED, "index -1 is outside axis 0 of table"},
    {"computed", break_first_range, MOE_RANGE, "i32 of n"},
    {"computed", break_second_range, MOE_RANGE, "i32 of m"},
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

static int threads_here(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *e; (e = readdir(tasks));)
        n += e->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* After a call on a team the process has its threads, and perhaps those of an earlier, larger one: OpenMP keeps them. The
 * tests go from small teams to large ones. */
static void expect_team(int threads) { assert_true(threads_here() >= threads); }

static char doing[64]; /* for the alarm */

static void hangs(int signal)
{
    (void)signal;
    ssize_t n = write(STDERR_FILENO, doing, strlen(doing));
    _exit(n < 0 ? 2 : 1);
}

/* The alarm gives a thousand calls as long as PATIENCE; they take a few hundredths of a second. */
static void refuse(const moec_module *m, const Refusal *r, int threads, long calls)
{
    static Data d;
    fill(&d);
    d.ctx->threads = -threads; /* the sizes are small */
    assert_int_equal(call(m, r->kernel, &d), MOE_OK);
    expect_team(threads);
    r->break_it(&d);
    for (long i = 0; i < calls; i++) {
        if (i % 1000 == 0) {
            snprintf(doing, sizeof doing, "%s hangs on %d threads, call %ld..\n", r->kernel, threads, i);
            alarm(PATIENCE);
        }
        assert_int_equal(call(m, r->kernel, &d), r->status);
    }
    alarm(0);
    if (!strstr(moe_ctx_message(d.ctx), r->words))
        fail_msg("'%s' does not say '%s'", moe_ctx_message(d.ctx), r->words);
    expect_team(threads);
    empty(&d);
}

static void a_refused_call_ends_on_all_threads(void **state)
{
    for (int threads = 1; threads <= THREADS; threads++)
        for (int i = 0; i < REFUSALS; i++)
            refuse(*state, &refusals[i], threads, 500);
}

/* ---- after a fork ---- */

/* Runs `f` in a forked process, which has to end by itself and say 0. */
static void in_child(int (*f)(void *), void *with)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        snprintf(doing, sizeof doing, "a forked process hangs\n");
        alarm(PATIENCE);
        _exit(f(with));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

typedef struct Routed {
    moe_entry *entry; /* of the kernel `routed` */
    float expected[T * F];
} Routed;

static int call_routed(moe_entry *entry, Data *d)
{
    d->ctx->threads = -2;
    memset(d->y, 0, sizeof d->y);
    return entry(d->ctx, (int64_t[]){T, K, E, H, F}, (void *[]){d->x, d->rt, d->w, d->y});
}

/* 0: it computes the same, on the one thread there is, and refuses. */
static int computes(void *with)
{
    static Data d;
    const Routed *r = with;
    fill(&d);
    if (call_routed(r->entry, &d) || memcmp(d.y, r->expected, sizeof d.y) != 0)
        return 1;
    break_runs(&d);
    if (call_routed(r->entry, &d) != MOE_ROUTE)
        return 2;
    return threads_here() == 1 ? 0 : 3;
}

static void forked(moe_entry *entry)
{
    static Data d;
    Routed r = {.entry = entry};
    fill(&d);
    for (int i = 0; i < 2; i++) { /* the second time a child has come and gone */
        assert_int_equal(call_routed(entry, &d), MOE_OK);
        expect_team(2);
        memcpy(r.expected, d.y, sizeof d.y);
        in_child(computes, &r);
    }
    empty(&d);
}

static void a_forked_process_computes(void **state)
{
    forked(moec_kernel_entry(moec_module_kernel(*state, "routed")));
}

static moec_module *compile(int no_cache)
{
    moec_options o = {.no_cache = no_cache};
    moec_context *c = moec_context_new();
    moec_module *m = NULL;
    if (moec_compile_text(c, "threads.moe", PROGRAM, strlen(PROGRAM), &o, &m))
        print_error("%s", moec_error_text(c));
    moec_context_free(c);
    return m;
}

static int compiles_and_computes(void *with)
{
    moec_module *m = compile(*(int *)with);
    static Data d;
    fill(&d);
    return m ? call_routed(moec_kernel_entry(moec_module_kernel(m, "routed")), &d) : 1;
}

/* Its module is new, but OpenMP's pool is still that of the process it came from. */
static void a_forked_process_compiles(void **state)
{
    static Data d;
    fill(&d);
    assert_int_equal(call_routed(moec_kernel_entry(moec_module_kernel(*state, "routed")), &d), MOE_OK);
    for (int no_cache = 0; no_cache <= 1; no_cache++) {
        moec_module_free(compile(no_cache)); /* now the cache has it */
        in_child(compiles_and_computes, &no_cache);
    }
    empty(&d);
}

static void a_forked_process_computes_by_a_library(void **state)
{
    (void)state;
    char directory[] = "/tmp/moec-test-XXXXXX", command[512], path[64];
    const char *build = getenv("MOEC_BUILD");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/k.moe", directory);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(PROGRAM, f) >= 0 && fclose(f) == 0);
    snprintf(command, sizeof command, "%s/bin/moec %s/k.moe -o %s/k.so", build ? build : "build", directory,
             directory);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/k.so", directory);
    void *so = dlopen(path, RTLD_NOW);
    assert_non_null(so);
    forked((moe_entry *)(uintptr_t)dlsym(so, "routed__call"));
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state) { return (*state = compile(0)) == NULL; }

static int tear_down(void **state)
{
    moec_module_free(*state);
    return 0;
}

/* So many refused calls, spread over all kinds. */
static int run_long(long calls, int threads)
{
    moec_module *m = compile(0);
    for (int i = 0; i < REFUSALS; i++)
        refuse(m, &refusals[i], threads, calls / REFUSALS + (i < calls % REFUSALS));
    printf("%ld calls on %d threads, all refused\n", calls, threads);
    moec_module_free(m);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGALRM, hangs);
    if (argc > 1)
        return run_long(atol(argv[1]), argc > 2 ? atoi(argv[2]) : 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_call_ends_on_all_threads),
        cmocka_unit_test(a_forked_process_computes),
        cmocka_unit_test(a_forked_process_compiles),
        cmocka_unit_test(a_forked_process_computes_by_a_library),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
