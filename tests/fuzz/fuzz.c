/* What the fuzz targets share: limits, and promises that hold for every input. */
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "frontend/frontend.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

/* The sanitizers and the counters of libFuzzer take about three times the time. */
#ifdef SANITIZED
enum { FUZZ_SECONDS = 15 };
#else
enum { FUZZ_SECONDS = 5 };
#endif

void fuzz_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "\nFINDING: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* ---- limits ---- */

static void too_long(int signal)
{
    static const char text[] = "\nFINDING: the input takes too long\n";
    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    abort();
}

static void set_timer(time_t seconds)
{
    struct itimerval t = {.it_value.tv_sec = seconds};
    setitimer(ITIMER_VIRTUAL, &t, NULL);
}

void fuzz_begin(void)
{
    signal(SIGVTALRM, too_long);
    set_timer(FUZZ_SECONDS);
}

void fuzz_end(void) { set_timer(0); }

/* ---- one text ---- */

FuzzText fuzz_text(void)
{
    FuzzText f = {.arena = arena_new()};
    if (!f.arena)
        fuzz_fail("no memory");
    arena_set_limit(f.arena, FUZZ_BYTES);
    f.diags.arena = f.arena;
    return f;
}

void fuzz_free(FuzzText *f) { arena_free(f->arena); }

int fuzz_read_moe(FuzzText *f, const char *text, size_t len)
{
    f->diags.arena = f->arena;
    f->m = ir_module(f->arena, &f->diags, "no/such/folder/fuzz.moe");
    return frontend_read(f->m, "no/such/folder/fuzz.moe", text, len);
}

int fuzz_read_tiles(FuzzText *f, const char *text, size_t len)
{
    f->diags.arena = f->arena;
    f->m = ir_module(f->arena, &f->diags, "fuzz.moetiles");
    return tile_read(f->m, diag_add_file(&f->diags, "fuzz.moetiles", text, len), text, len);
}

int fuzz_compile(FuzzText *f, const char *text, size_t len, const PassContext *context,
                 const char *stop_after)
{
    PipelineOptions o = {.context = *context, .stop_after = stop_after, .verify_each = 1, .limit = -1};
    return fuzz_read_moe(f, text, len) || pipeline_run(f->m, &o);
}

/* ---- promises ---- */

void fuzz_show(const FuzzText *f)
{
    diag_text(&f->diags, f->arena);
    const char *json = diag_json(&f->diags, f->arena);
    json_error_t error;
    json_t *parsed = json_loads(json, 0, &error);
    if (!parsed)
        fuzz_fail("diagnostics are no JSON: %s\n%s", error.text, json);
    json_decref(parsed);
}

static const char *printed(const Module *m, FuzzPrint *print, Arena *a)
{
    Text t = {.arena = a};
    print(m, NULL, &t);
    return text_string(&t);
}

/* The first line of a and b that differs and is no comment (those say what passes decided); NULL: there is none. */
static const char *first_difference(const char *a, const char *b)
{
    while (*a || *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        size_t a_space = strspn(a, " "), b_space = strspn(b, " ");
        if (strncmp(a + a_space, "//", 2) == 0) {
            a += n + (a[n] == '\n');
        } else if (strncmp(b + b_space, "//", 2) == 0) {
            b += m + (b[m] == '\n');
        } else {
            if (n != m || strncmp(a, b, n) != 0)
                return a;
            a += n + (a[n] == '\n');
            b += m + (b[m] == '\n');
        }
    }
    return NULL;
}

void fuzz_round_trip(const Module *m, FuzzPrint *print, FuzzRead *read, const char *when)
{
    if (!ir_prints_within(m, FUZZ_PRINTED)) /* the command refuses to print what is too long */
        return;
    const char *first = printed(m, print, m->arena);
    FuzzText again = fuzz_text();
    if (read(&again, first, strlen(first)))
        fuzz_fail("%s: printed text is refused\n%s\n%s", when, diag_text(&again.diags, again.arena), first);
    const char *second = printed(again.m, print, again.arena);
    const char *differs = first_difference(first, second);
    if (differs)
        fuzz_fail("%s: read back it prints differently: %.*s\n%s\n-----\n%s", when,
                  (int)strcspn(differs, "\n"), differs, first, second);
    fuzz_free(&again);
}

void fuzz_verify(const Module *m, Arena *a, const char *when)
{
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        const char *broken = k->tiles ? tile_verify(k, a) : ir_verify(k, a);
        if (broken)
            fuzz_fail("%s: kernel %s: %s", when, k->name, broken);
    }
}

/* ---- picks ---- */

FuzzPicks fuzz_picks(const void *data, size_t size)
{
    const char *fixed = getenv("FUZZ_PICKS"); /* of a finding that is made smaller by hand */
    return (FuzzPicks){fixed ? strtoull(fixed, NULL, 0) : hash_bytes(data, size, 1)};
}

uint32_t fuzz_pick(FuzzPicks *p, uint32_t n)
{
    uint32_t picked = (uint32_t)(p->state % n);
    p->state /= n;
    return picked;
}
