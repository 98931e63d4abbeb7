/* Records of tuned schedules: the database under faults, and which record a compilation takes. */
#include "moec/moec.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
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

static const char PROGRAM[] = "moe 1\n"
                              "dim T, K, E, H, F\n"
                              "group R : E rows T*K\n"
                              "kernel f(in x: bf16[T, H], in rt: route[T, K -> R], in w: bf16[E, H, F],\n"
                              "         inout y: f32[R, F]) {\n"
                              "  y[r, f] += sum(h) x[rt.token(r), h] * w[@r, h, f]\n"
                              "}\n";
static const char M32[] = "schedule f { tile y : M = 32 }", M64[] = "schedule f { tile y : M = 64 }";

static const moec_work work = {.path = "tuned.moe", .text = PROGRAM, .kernel = "f"};

typedef struct Scratch {
    moec_context *c;
    char folder[64], path[96];
} Scratch;

static int set_up(void **state)
{
    static Scratch s;
    strcpy(s.folder, "/tmp/moec-records-XXXXXX");
    assert_non_null(mkdtemp(s.folder));
    snprintf(s.path, sizeof s.path, "%s/t.db", s.folder);
    setenv("MOE_TUNED", s.path, 1);
    s.c = moec_context_new();
    *state = &s;
    return s.c == NULL;
}

static int tear_down(void **state)
{
    Scratch *s = *state;
    char command[128];
    moec_context_free(s->c);
    snprintf(command, sizeof command, "rm -rf %s", s->folder);
    return system(command);
}

static moec_records *open_records(Scratch *s)
{
    moec_records *r;
    if (moec_records_open(s->c, NULL, 1, &r))
        fail_msg("%s", moec_error_text(s->c));
    assert_string_equal(moec_records_path(r), s->path);
    return r;
}

/* Adds the record of a winner. */
static void add(Scratch *s, const char *sizes, const char *routing, const char *schedule,
                void (*change)(moec_record *))
{
    moec_work w = work;
    moec_record r;
    w.sizes = sizes;
    w.routing = routing;
    if (moec_records_name(s->c, &w, NULL, &r))
        fail_msg("%s", moec_error_text(s->c));
    r.state = *schedule ? MOEC_BEST : MOEC_KEPT;
    r.schedule = schedule;
    r.ratio = 0.9;
    r.low = 0.88;
    r.high = NAN;
    if (change)
        change(&r);
    moec_context *other = moec_context_new(); /* the texts of r are of the last call of s->c */
    moec_records *records;
    assert_int_equal(moec_records_open(other, NULL, 1, &records), 0);
    assert_int_equal(moec_records_add(records, &r), 0);
    moec_records_close(records);
    moec_context_free(other);
}

/* ---- records ---- */

static int look(void *user, const moec_record *r)
{
    int *n = user;
    assert_string_equal(r->kernel, "f");
    assert_string_equal(r->sizes, "T=40 K=2 E=3 H=64 F=96");
    assert_string_equal(r->routing, *n ? "uniform" : "zipf(1.2)");
    assert_string_equal(r->schedule, *n ? "" : M32);
    assert_string_equal(r->why, "");
    assert_int_equal(r->state, *n ? MOEC_KEPT : MOEC_BEST);
    assert_int_equal(r->threads, 1);
    assert_float_equal(r->ratio, 0.9, 1e-12);
    assert_true(isnan(r->high));
    assert_int_equal(r->id, ++*n);
    return 0;
}

static int stop(void *user, const moec_record *r)
{
    (void)r;
    return ++*(int *)user == 1;
}

static void records_come_back(void **state)
{
    Scratch *s = *state;
    static const char sizes[] = "T=40, K=2, E=3, H=64, F=96";
    int n = 0, seen = 0;
    int64_t removed;
    add(s, sizes, "zipf(1.2)", M32, NULL);
    add(s, sizes, NULL, "", NULL);
    moec_records *r = open_records(s);
    assert_int_equal(moec_records_each(r, look, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(moec_records_each(r, stop, &seen), 0);
    assert_int_equal(seen, 1);
    assert_int_equal(moec_records_prune(r, NULL, 0, &removed), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(moec_records_prune(r, "another build", 0, &removed), 0);
    assert_int_equal(removed, 2);
    moec_records_close(r);
}

static void without_records_there_is_nothing(void **state)
{
    Scratch *s = *state;
    moec_records *r;
    moec_record record = {.kernel = "f"};
    assert_int_equal(moec_records_open(s->c, NULL, 0, &r), 1); /* there is no file to read */
    assert_null(r);
    assert_int_equal(moec_records_open(s->c, "/nonesuch/t.db", 1, &r), 1);
    assert_non_null(strstr(moec_error_text(s->c), "/nonesuch/t.db"));
    assert_int_equal(moec_records_open(s->c, NULL, 1, NULL), 1);
    assert_int_equal(moec_records_open(NULL, NULL, 1, &r), 1);
    assert_string_equal(moec_records_default(s->c), s->path);
    assert_null(moec_records_default(NULL));
    setenv("MOE_TUNED", "off", 1);
    assert_null(moec_records_default(s->c));
    assert_int_equal(moec_records_open(s->c, NULL, 1, &r), 1);
    assert_non_null(strstr(moec_error_text(s->c), "MOE_TUNED is off"));
    moec_records_close(NULL);
    assert_null(moec_records_path(NULL));
    assert_int_equal(moec_records_add(NULL, &record), 1);
    assert_int_equal(moec_records_each(NULL, stop, NULL), 1);
    assert_int_equal(moec_records_prune(NULL, NULL, 0, NULL), 1);
    assert_non_null(strstr(moec_records_error(NULL), "no records"));
    assert_int_equal(moec_records_name(s->c, NULL, NULL, &record), 1);
    assert_int_equal(moec_records_name(s->c, &work, NULL, NULL), 1);
    assert_int_equal(moec_records_name(NULL, &work, NULL, &record), 1);
    setenv("MOE_TUNED", s->path, 1);
    r = open_records(s);
    assert_int_equal(moec_records_add(r, NULL), 1);
    assert_int_equal(moec_records_add(r, &record), 0); /* texts that are NULL are empty */
    assert_int_equal(moec_records_each(r, NULL, NULL), 1);
    moec_records_close(r);
}

/* ---- faults ---- */

static int count(void *user, const moec_record *r)
{
    int *n = user;
    assert_int_equal(r->rounds, *n); /* in order, and none is missing */
    ++*n;
    return 0;
}

/* Adds records until it is killed; each time it says so after one is there. */
static void write_until_killed(const char *path, int from, int told)
{
    moec_context *c = moec_context_new();
    moec_records *r;
    if (moec_records_open(c, path, 1, &r))
        _exit(1);
    for (moec_record record = {.kernel = "f", .rounds = from};; record.rounds++) {
        if (moec_records_add(r, &record) || write(told, "x", 1) != 1)
            _exit(1);
    }
}

static void who_is_killed_loses_what_was_not_told(void **state)
{
    Scratch *s = *state;
    int there = 0;
    for (int round = 0; round < 12; round++) {
        int told[2];
        char x;
        assert_int_equal(pipe(told), 0);
        pid_t pid = fork();
        if (!pid)
            write_until_killed(s->path, there, told[1]);
        close(told[1]);
        for (int i = 0; i < 1 + round * 3; i++)
            assert_int_equal(read(told[0], &x, 1), 1);
        kill(pid, SIGKILL);
        int more = 0;
        while (read(told[0], &x, 1) == 1)
            more++;
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(told[0]);
        int n = 0, promised = there + 1 + round * 3 + more;
        moec_records *r = open_records(s);
        assert_int_equal(moec_records_each(r, count, &n), 0);
        moec_records_close(r);
        assert_true(n == promised || n == promised + 1); /* one may have been written and not told */
        there = n;
    }
}

static void add_many(const char *path, int n)
{
    moec_context *c = moec_context_new();
    moec_records *r;
    int bad = moec_records_open(c, path, 1, &r);
    for (int i = 0; i < n && !bad; i++)
        bad = moec_records_add(r, &(moec_record){.kernel = "f"});
    _exit(bad);
}

static int count_all(void *user, const moec_record *r)
{
    (void)r;
    ++*(int *)user;
    return 0;
}

static void several_write_at_once(void **state)
{
    enum { WRITERS = 4, EACH = 25 };
    Scratch *s = *state;
    int n = 0, status;
    for (int i = 0; i < WRITERS; i++)
        if (!fork())
            add_many(s->path, EACH);
    for (int i = 0; i < WRITERS; i++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    moec_records *r = open_records(s);
    assert_int_equal(moec_records_each(r, count_all, &n), 0);
    assert_int_equal(n, WRITERS * EACH);
    moec_records_close(r);
}

static void refused(Scratch *s, const char *words)
{
    moec_records *r;
    for (int writes = 0; writes < 2; writes++) {
        assert_int_equal(moec_records_open(s->c, NULL, writes, &r), 1);
        if (!strstr(moec_error_text(s->c), words) || !strstr(moec_error_text(s->c), s->path))
            fail_msg("'%s' does not say '%s'", moec_error_text(s->c), words);
    }
}

static void write_file(const char *path, const char *bytes, size_t n, long at)
{
    FILE *f = fopen(path, at < 0 ? "w" : "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at < 0 ? 0 : at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void what_is_not_ours_is_refused_by_name(void **state)
{
    Scratch *s = *state;
    char noise[4096];
    memset(noise, 'n', sizeof noise);
    write_file(s->path, noise, sizeof noise, -1);
    refused(s, "not a database");
    unlink(s->path);
    moec_records_close(open_records(s));      /* closing it writes the log back into the file */
    write_file(s->path, "\0\0\0\x07", 4, 60); /* user_version of the file's header */
    refused(s, "of version 7");
    write_file(s->path, "abcd", 4, 68); /* application_id */
    refused(s, "not a database of moec");
}

/* SQLite would keep these in memory, and lose them. */
static void no_name_means_memory(void **state)
{
    Scratch *s = *state;
    moec_records *r;
    assert_int_equal(moec_records_open(s->c, "", 1, &r), 1);
    assert_non_null(strstr(moec_error_text(s->c), "unable to open"));
    assert_int_equal(moec_records_open(s->c, ":memory:", 1, &r), 0);
    moec_records_close(r);
    assert_int_equal(unlink(":memory:"), 0);
}

/* ---- which record is taken ---- */

static void digest_of(Scratch *s, const char *tuned_for, int threads, const char *schedule, char *digest)
{
    const moec_options o = {.tuned_for = tuned_for, .tuned_threads = threads, .schedule = schedule};
    if (moec_decide(s->c, &work, &o, digest))
        fail_msg("%s", moec_error_text(s->c));
}

/* With these sizes the program comes to what it is with that schedule (NULL: by default). */
static void takes(Scratch *s, const char *tuned_for, const char *schedule)
{
    char got[33], want[33];
    digest_of(s, tuned_for, 0, NULL, got);
    digest_of(s, NULL, 0, schedule, want);
    if (strcmp(got, want) != 0)
        fail_msg("%s does not take %s", tuned_for, schedule ? schedule : "the default");
}

static void the_nearest_record_inside_the_range_is_taken(void **state)
{
    Scratch *s = *state;
    takes(s, "T=100,K=2,E=3,H=64,F=96", NULL); /* without a file nothing happens */
    add(s, "T=100, K=2, E=3, H=64, F=96", NULL, M32, NULL);
    takes(s, "T=100,K=2,E=3,H=64,F=96", M32);
    takes(s, "T=100,K=2,E=3,H=64,F=96,routing=uniform", M32);
    takes(s, "T=101,K=2,E=3,H=64,F=96", NULL); /* nothing was measured there */
    takes(s, "T=100,K=2,E=3,H=64,F=97", NULL);
    takes(s, "T=100,K=2,E=3,H=64,F=96,routing=zipf(1.2)", NULL);
    takes(s, "T=100", NULL); /* the other sizes are not said */
    add(s, "T=400, K=2, E=3, H=64, F=96", NULL, M64, NULL);
    takes(s, "T=150,K=2,E=3,H=64,F=96", M32);
    takes(s, "T=250,K=2,E=3,H=64,F=96", M64);
    takes(s, "T=401,K=2,E=3,H=64,F=96", NULL);
    takes(s, NULL, NULL);
    add(s, "T=3200, K=2, E=3, H=64, F=96", NULL, M64, NULL);
    takes(s, "T=1000,K=2,E=3,H=64,F=96", NULL); /* between them, but too far from each */
    add(s, "T=100, K=2, E=3, H=64, F=96", NULL, "", NULL);
    takes(s, "T=100,K=2,E=3,H=64,F=96", NULL); /* a later record says that the default is as good */
    add(s, "T=100, K=2, E=3, H=64, F=96", "zipf(1.2)", M64, NULL);
    takes(s, "T=100,K=2,E=3,H=64,F=96,routing=zipf(1.3)", M64);
    takes(s, "T=100,K=2,E=3,H=64,F=96,routing=zipf(2)", NULL);
}

static void of_another_build(moec_record *r) { r->build = "0.0.1"; }
static void of_another_machine(moec_record *r) { r->machine = "Z80"; }
static void of_another_target(moec_record *r) { r->target = "zz"; }
static void of_another_program(moec_record *r) { r->content = "0123"; }
static void only_tried(moec_record *r) { r->state = MOEC_TRIED; }
static void on_two_threads(moec_record *r) { r->threads = 2; }

static void records_of_others_are_not_taken(void **state)
{
    static void (*const changes[])(moec_record *) = {of_another_build,  of_another_machine,
                                                     of_another_target, of_another_program,
                                                     only_tried,        on_two_threads};
    static const char sizes[] = "T=100, K=2, E=3, H=64, F=96";
    Scratch *s = *state;
    char got[33], want[33];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        add(s, sizes, NULL, M32, changes[i]);
    takes(s, sizes, NULL);
    digest_of(s, sizes, 2, NULL, got);
    digest_of(s, NULL, 0, M32, want);
    assert_string_equal(got, want);
    setenv("MOE_TUNED", "off", 1);
    digest_of(s, sizes, 2, NULL, got);
    assert_string_not_equal(got, want);
}

/* It is read where the user's own database has nothing about the program, and may be where nothing can be written. */
static void the_system_has_records_for_all(void **state)
{
    static const char sizes[] = "T=100, K=2, E=3, H=64, F=96";
    Scratch *s = *state;
    char folder[80], system[96];
    snprintf(folder, sizeof folder, "%s/system", s->folder);
    snprintf(system, sizeof system, "%s/tuned.db", folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    setenv("MOE_TUNED", system, 1);
    add(s, sizes, NULL, M32, NULL);
    assert_int_equal(chmod(system, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    setenv("MOE_TUNED", s->path, 1);
    takes(s, sizes, NULL);
    setenv("MOE_TUNED_SYSTEM", system, 1);
    takes(s, sizes, M32);
    add(s, sizes, NULL, M64, NULL);
    takes(s, sizes, M64); /* the user's own come first */
    setenv("MOE_TUNED", "off", 1);
    takes(s, sizes, NULL);
    unsetenv("MOE_TUNED_SYSTEM");
    chmod(folder, 0777);
}

static void what_the_caller_gives_is_the_last_word(void **state)
{
    static const char sizes[] = "T=100, K=2, E=3, H=64, F=96";
    Scratch *s = *state;
    char got[33], want[33];
    add(s, sizes, NULL, M32, NULL);
    digest_of(s, sizes, 0, M64, got);
    digest_of(s, NULL, 0, M64, want);
    assert_string_equal(got, want);
    const moec_options wrong = {.tuned_for = "Q=1"};
    assert_int_equal(moec_decide(s->c, &work, &wrong, got), 1);
    assert_non_null(strstr(moec_error_text(s->c), "Q"));
}

/* A record whose text was damaged is named by what messages say of it. */
static void a_damaged_schedule_is_named_by_record_and_file(void **state)
{
    Scratch *s = *state;
    char got[33], name[160];
    const moec_options o = {.tuned_for = "T=100,K=2,E=3,H=64,F=96"};
    add(s, "T=400, K=2, E=3, H=64, F=96", NULL, M64, NULL);
    add(s, o.tuned_for, NULL, "schedule ffn { garbage", NULL);
    assert_int_equal(moec_decide(s->c, &work, &o, got), 1);
    snprintf(name, sizeof name, "<schedule of record 2 of %s>:1:", s->path);
    assert_non_null(strstr(moec_error_text(s->c), name));
}

/* A broken file costs what it would have brought, and nothing else. */
static void a_broken_file_is_no_error_of_a_compilation(void **state)
{
    Scratch *s = *state;
    char noise[4096];
    memset(noise, 'n', sizeof noise);
    write_file(s->path, noise, sizeof noise, -1);
    takes(s, "T=100,K=2,E=3,H=64,F=96", NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(records_come_back),
        CASE(without_records_there_is_nothing),
        CASE(who_is_killed_loses_what_was_not_told),
        CASE(several_write_at_once),
        CASE(what_is_not_ours_is_refused_by_name),
        CASE(no_name_means_memory),
        CASE(the_nearest_record_inside_the_range_is_taken),
        CASE(records_of_others_are_not_taken),
        CASE(the_system_has_records_for_all),
        CASE(what_the_caller_gives_is_the_last_word),
        CASE(a_damaged_schedule_is_named_by_record_and_file),
        CASE(a_broken_file_is_no_error_of_a_compilation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
