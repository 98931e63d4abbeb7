/* The parts of libmoec that hold the outside world: files, the cache, targets. */
#include "driver/driver.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>

typedef struct Place {
    Arena *arena;
    char directory[64];
} Place;

static int set_up(void **state)
{
    Place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->arena = arena_new();
    strcpy(p->directory, "/tmp/moec-test-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    *state = p;
    return 0;
}

static int count_files(const char *directory, int remove_them)
{
    int n = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            n++;
            if (remove_them)
                unlinkat(dirfd(d), e->d_name, 0);
        }
    closedir(d);
    return n;
}

static int tear_down(void **state)
{
    Place *p = *state;
    chmod(p->directory, 0700);
    count_files(p->directory, 1);
    rmdir(p->directory);
    arena_free(p->arena);
    free(p);
    return 0;
}

static Bytes bytes(const char *text) { return (Bytes){text, strlen(text)}; }

static const char *in(Place *p, const char *name)
{
    return arena_printf(p->arena, "%s/%s", p->directory, name);
}

static void expect_content(Place *p, const char *path, const char *text)
{
    Bytes got;
    assert_null(output_read_file(path, 1 << 20, p->arena, &got));
    assert_string_equal(got.at, text);
}

/* ---- output ---- */

static void files_appear_together(void **state)
{
    Place *p = *state;
    Output o = {.arena = p->arena};
    struct stat s;
    mode_t mask = umask(022);
    assert_null(output_add(&o, in(p, "a.so"), bytes("code"), 1));
    assert_null(output_add(&o, in(p, "a.h"), bytes("text"), 0));
    assert_int_not_equal(access(in(p, "a.so"), F_OK), 0);
    assert_null(output_commit(&o));
    umask(mask);
    expect_content(p, in(p, "a.so"), "code");
    expect_content(p, in(p, "a.h"), "text");
    assert_int_equal(stat(in(p, "a.so"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0755);
    assert_int_equal(stat(in(p, "a.h"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0644);
    assert_int_equal(count_files(p->directory, 0), 2);
}

static void a_failure_leaves_nothing(void **state)
{
    Place *p = *state;
    Output o = {.arena = p->arena};
    assert_null(output_add(&o, in(p, "old"), bytes("old"), 0));
    assert_null(output_commit(&o));
    assert_null(output_add(&o, in(p, "old"), bytes("new"), 0));
    assert_non_null(strstr(output_add(&o, in(p, "missing/a"), bytes("x"), 0), "missing/a"));
    assert_int_equal(count_files(p->directory, 0), 1);
    expect_content(p, in(p, "old"), "old");
    assert_non_null(strstr(output_add(&o, p->directory, bytes("x"), 0), "directory"));
}

static void a_full_device_fails_the_rest(void **state)
{
    Place *p = *state;
    Output o = {.arena = p->arena};
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_null(output_add(&o, in(p, "a"), bytes("x"), 0));
    assert_null(output_add(&o, "/dev/full", bytes("x"), 0));
    assert_non_null(strstr(output_commit(&o), "/dev/full"));
    assert_int_equal(count_files(p->directory, 0), 0);
}

static void what_does_not_fit_is_taken_back(void **state)
{
    Place *p = *state;
    struct rlimit before, little;
    const int fd = open(in(p, "log"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_add(fd, "a line\n", 7), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 10;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    const int reason = file_add(fd, "a longer line\n", 14);
    const off_t end = lseek(fd, 0, SEEK_END);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_int_equal(reason, EFBIG);
    assert_int_equal(end, 7);
    assert_int_equal(file_add(fd, "another\n", 8), 0);
    close(fd);
    expect_content(p, in(p, "log"), "a line\nanother\n");
}

static void a_link_is_written_through(void **state)
{
    Place *p = *state;
    Output o = {.arena = p->arena};
    struct stat s;
    assert_null(output_add(&o, in(p, "target"), bytes("old"), 0));
    assert_null(output_commit(&o));
    assert_int_equal(symlink("target", in(p, "link")), 0);
    assert_null(output_add(&o, in(p, "link"), bytes("new"), 0));
    assert_null(output_commit(&o));
    assert_int_equal(lstat(in(p, "link"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    expect_content(p, in(p, "target"), "new");
}

static void reading_has_limits(void **state)
{
    Place *p = *state;
    Output o = {.arena = p->arena};
    Bytes got;
    assert_null(output_add(&o, in(p, "ten"), bytes("0123456789"), 0));
    assert_null(output_commit(&o));
    assert_null(output_read_file(in(p, "ten"), 10, p->arena, &got));
    assert_int_equal(got.len, 10);
    assert_non_null(strstr(output_read_file(in(p, "ten"), 9, p->arena, &got), "limit"));
    assert_non_null(strstr(output_read_file("/dev/zero", 100000, p->arena, &got), "limit"));
    assert_non_null(strstr(output_read_file(in(p, "none"), 9, p->arena, &got), "cannot be read"));
    assert_non_null(strstr(output_read_file(p->directory, 9, p->arena, &got), "directory"));
}

/* ---- cache ---- */

static const char KEY[] = "0123456789abcdef0123456789abcdef";

static void an_entry_comes_back(void **state)
{
    Place *p = *state;
    CacheEntry e;
    const char *d = cache_directory(p->directory, p->arena);
    assert_string_equal(d, in(p, "moec-cache"));
    assert_false(cache_find(d, KEY, p->arena, &e));
    cache_store(d, KEY, bytes("machine code"), bytes("header"), p->arena);
    assert_true(cache_find(d, KEY, p->arena, &e));
    assert_int_equal(e.so.len, 12);
    assert_memory_equal(e.so.at, "machine code", 12);
    assert_int_equal(e.header.len, 6);
    assert_memory_equal(e.header.at, "header", 6);
    assert_int_equal(count_files(d, 1), 1);
    assert_int_equal(rmdir(d), 0);
}

static void flip(const char *path, off_t at)
{
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void every_damaged_byte_is_noticed(void **state)
{
    Place *p = *state;
    CacheEntry e;
    struct stat s;
    cache_store(p->directory, KEY, bytes("machine code"), bytes("header"), p->arena);
    assert_true(cache_find(p->directory, KEY, p->arena, &e));
    assert_int_equal(stat(e.path, &s), 0);
    for (off_t at = 0; at < s.st_size; at++) {
        flip(e.path, at);
        assert_false(cache_find(p->directory, KEY, p->arena, &(CacheEntry){.path = NULL}));
        flip(e.path, at);
    }
    for (off_t size = s.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(e.path, size), 0);
        assert_false(cache_find(p->directory, KEY, p->arena, &(CacheEntry){.path = NULL}));
    }
}

static void another_name_is_not_taken(void **state)
{
    Place *p = *state;
    CacheEntry e;
    static const char other[] = "fedcba9876543210fedcba9876543210";
    cache_store(p->directory, KEY, bytes("machine code"), bytes("header"), p->arena);
    assert_int_equal(rename(arena_printf(p->arena, "%s/%s.so", p->directory, KEY),
                            arena_printf(p->arena, "%s/%s.so", p->directory, other)),
                     0);
    assert_false(cache_find(p->directory, other, p->arena, &e));
}

/* A file of 600 MB, most of it holes, that nobody used for long. */
static const char *large_and_old(Place *p, const char *name)
{
    struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    int fd = open(in(p, name), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)600 << 20), 0);
    assert_int_equal(futimens(fd, past), 0);
    close(fd);
    return in(p, name);
}

static int is_there(const char *path) { return access(path, F_OK) == 0; }

static void the_oldest_entries_go(void **state)
{
    Place *p = *state;
    const char *entry = large_and_old(p, "fedcba9876543210fedcba9876543210.so");
    cache_store(p->directory, KEY, bytes("machine code"), bytes("header"), p->arena);
    assert_false(is_there(entry));
    assert_true(cache_find(p->directory, KEY, p->arena, &(CacheEntry){.path = NULL}));
    const char *unfinished = large_and_old(p, "fedcba9876543210fedcba9876543210.so.aB3xYz");
    cache_store(p->directory, KEY, bytes("machine code"), bytes("header"), p->arena);
    assert_false(is_there(unfinished));
}

static void other_files_stay(void **state)
{
    Place *p = *state;
    static const char *const names[] = {
        "libimportant.so",
        "libimportant.so.1",
        "fedcba9876543210fedcba9876543210",
        "fedcba9876543210fedcba9876543210.s",
        "fedcba9876543210fedcba9876543210.so1",
        "fedcba9876543210fedcba9876543210.so.1",
        "fedcba9876543210fedcba9876543210.so.backup1",
        "fedcba9876543210fedcba9876543210.so.aB3x.z",
        "fedcba9876543210fedcba987654321.so",
        "fedcba9876543210fedcba98765432100.so",
        "FEDCBA9876543210FEDCBA9876543210.so",
        "gedcba9876543210fedcba9876543210.so",
    };
    enum { N = sizeof names / sizeof *names };
    for (int i = 0; i < N; i++)
        large_and_old(p, names[i]);
    cache_store(p->directory, KEY, bytes("machine code"), bytes("header"), p->arena);
    for (int i = 0; i < N; i++)
        if (!is_there(in(p, names[i])))
            fail_msg("%s is gone", names[i]);
}

static void unusable_places_are_not_used(void **state)
{
    Place *p = *state;
    assert_null(cache_directory("", p->arena));
    assert_null(cache_directory("/proc/none/cache", p->arena));
    assert_int_equal(chmod(p->directory, 0777), 0);
    assert_null(cache_directory(p->directory, p->arena)); /* anybody could put code there */
    cache_store("/proc/none", KEY, bytes("x"), bytes("y"), p->arena);
    const char *path = arena_printf(p->arena, "%s/%s.so", p->directory, KEY);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(cache_find(p->directory, KEY, p->arena, &(CacheEntry){.path = NULL}));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_false(cache_find(p->directory, KEY, p->arena, &(CacheEntry){.path = NULL}));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(in(p, "made"), 0700), 0);
    const char *deep = cache_directory(in(p, "made/on/demand"), p->arena);
    assert_non_null(deep);
    rmdir(deep);
    rmdir(in(p, "made/on/demand"));
    rmdir(in(p, "made/on"));
    rmdir(in(p, "made"));
}

/* In a process of its own: 1 when the entry was there, 2 when it had to be made, else 0. */
static int makes_or_finds(const char *directory)
{
    static const char text[] = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = exp(x[t]) }\n";
    CompileOptions o = compile_defaults;
    Bytes so;
    o.cache_dir = directory;
    Compilation *c = compile_new(&o);
    if (!c)
        return 0;
    compile_text(c, "f.moe", text, strlen(text));
    const int status = compile_product(c, PRODUCT_SO, &so);
    const int found = c->from_cache;
    compile_free(c);
    return status ? 0 : 2 - found;
}

static void several_at_once_compile_once(void **state)
{
    Place *p = *state;
    enum { N = 4 };
    pid_t child[N];
    int made = 0;
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i])
            _exit(makes_or_finds(p->directory));
    }
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) > 0);
        made += WEXITSTATUS(status) == 2;
    }
    assert_int_equal(made, 1);
    assert_int_equal(count_files(in(p, "moec-cache"), 1), 2); /* the entry, `turns` */
    rmdir(in(p, "moec-cache"));
}

static void turns_are_of_one_key(void **state)
{
    Place *p = *state;
    static const char other[] = "fedcba9876543210fedcba9876543210";
    const time_t begin = time(NULL);
    int one = cache_take_turn(p->directory, KEY, p->arena);
    int two = cache_take_turn(p->directory, other, p->arena);
    assert_true(one >= 0 && two >= 0);
    cache_end_turn(&one);
    one = cache_take_turn(p->directory, KEY, p->arena);
    assert_true(one >= 0 && time(NULL) - begin < 30); /* waiting takes a minute */
    cache_end_turn(&one);
    cache_end_turn(&two);
    assert_int_equal(two, -1);
    two = cache_take_turn("/proc/none", KEY, p->arena);
    assert_int_equal(two, -1);
}

/* ---- targets ---- */

/* Of this computer's family, those that `all` means. */
static uint32_t count_all(void)
{
    uint32_t n = 0;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        n += cpu_table[isa].family == cpu_table[cpu_best()].family &&
             !cpu_can(&cpu_table[isa], CPU_BY_NAME) && !cpu_can(&cpu_table[isa], CPU_VARIANT);
    return n;
}

static void targets_are_sorted_and_refused_by_name(void **state)
{
    Place *p = *state;
    IsaList list;
    assert_null(target_parse("avx512,generic,avx512", p->arena, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.at[0], ISA_generic);
    assert_int_equal(list.at[1], ISA_avx512);
    assert_null(target_parse("all", p->arena, &list));
    assert_int_equal(list.n, count_all());
    assert_int_equal(list.at[0], ISA_generic);
    assert_null(target_parse("all,amx-soft", p->arena, &list));
    assert_int_equal(list.n, count_all() + 1);
    assert_non_null(strstr(target_parse("avx2,sse9", p->arena, &list), "sse9"));
    assert_non_null(strstr(target_parse("avx2,", p->arena, &list), "''"));
    setenv("MOE_ISA", "generic", 1);
    assert_null(target_parse(NULL, p->arena, &list));
    assert_int_equal(list.at[0], ISA_generic);
    setenv("MOE_ISA", "amx-soft", 1);
    assert_null(target_parse("host", p->arena, &list));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.at[0], ISA_amx_soft);
    assert_null(target_parse("all,amx-soft", p->arena, &list));
    assert_null(target_for_this_cpu(&list, p->arena));
    assert_int_equal(list.at[0], ISA_amx_soft);
    assert_null(target_parse("all", p->arena, &list));
    assert_non_null(strstr(target_for_this_cpu(&list, p->arena), "amx-soft"));
    setenv("MOE_ISA", "mips", 1);
    assert_non_null(strstr(target_parse("host", p->arena, &list), "mips"));
    unsetenv("MOE_ISA");
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_has(isa)) {
            setenv("MOE_ISA", cpu_table[isa].name, 1);
            assert_non_null(strstr(target_parse("host", p->arena, &list), cpu_table[isa].name));
            unsetenv("MOE_ISA");
            list = (IsaList){.at = {isa}, .n = 1};
            assert_non_null(target_for_this_cpu(&list, p->arena));
        }
    assert_null(target_parse("all", p->arena, &list));
    assert_null(target_for_this_cpu(&list, p->arena));
    assert_int_equal(list.n, 1);
    assert_true(cpu_has(list.at[0]));
    if (!cpu_can(&cpu_table[cpu_best()], CPU_VARIANT)) /* `all` has no variants */
        assert_int_equal(list.at[0], cpu_best());
}

static void the_build_has_a_name(void **state)
{
    Place *p = *state;
    const char *id = plugin_build_id(p->arena);
    assert_int_equal(strlen(id), 32);
    assert_string_equal(id, plugin_build_id(p->arena));
    setenv("MOEC_BACKEND", "/proc/self/exe", 1);
    assert_string_not_equal(id, plugin_build_id(p->arena)); /* another back end, another name */
    unsetenv("MOEC_BACKEND");
}

/* The build's name with a back end that is a program with one note: a name of `bytes` bytes, of which four are there. */
static const char *id_with_note(Place *p, unsigned char mark, uint32_t bytes)
{
    struct {
        ElfW(Ehdr) header;
        ElfW(Phdr) segment;
        ElfW(Nhdr) note;
        char owner[4], name[4];
    } image = {.header = {.e_phoff = sizeof(ElfW(Ehdr)), .e_phentsize = sizeof(ElfW(Phdr)), .e_phnum = 1},
               .segment = {.p_type = PT_NOTE},
               .note = {4, bytes, NT_GNU_BUILD_ID},
               .owner = "GNU",
               .name = {1, 2, 3, 4}};
    memcpy(image.header.e_ident, ELFMAG, SELFMAG);
    image.header.e_ident[EI_PAD] = mark;
    image.segment.p_offset = offsetof(__typeof__(image), note);
    image.segment.p_filesz = sizeof image.note + sizeof image.owner + sizeof image.name;
    Output o = {.arena = p->arena};
    assert_null(output_add(&o, in(p, "backend.so"), (Bytes){(const char *)&image, sizeof image}, 0));
    assert_null(output_commit(&o));
    setenv("MOEC_BACKEND", in(p, "backend.so"), 1);
    const char *id = plugin_build_id(p->arena);
    unsetenv("MOEC_BACKEND");
    return id;
}

/* Then all bytes of the file count. */
static void a_name_that_is_cut_off_is_none(void **state)
{
    assert_string_equal(id_with_note(*state, 1, 4), id_with_note(*state, 2, 4));
    assert_string_not_equal(id_with_note(*state, 1, 8), id_with_note(*state, 2, 8));
    assert_string_not_equal(id_with_note(*state, 1, UINT32_MAX), id_with_note(*state, 2, UINT32_MAX));
}

static void a_wrong_object_is_an_error(void **state)
{
    Place *p = *state;
    Bytes so;
    setenv("TMPDIR", p->directory, 1);
    const char *error = link_shared(bytes("this is not an object"), NULL, p->arena, &so);
    unsetenv("TMPDIR");
    assert_non_null(error);
    assert_int_equal(count_files(p->directory, 0), 0);
}

/* ---- escapes ---- */

static int has_a_bug(Compilation *c, void *user)
{
    (void)user;
    BUG(c->arena, "pass \"none\" broke node %d", 7);
}

static int wants_too_much(Compilation *c, void *user)
{
    (void)user;
    arena_alloc(c->arena, (size_t)1 << 40);
    return DRIVER_OK;
}

static void a_bug_leaves_a_replay_file(void **state)
{
    Place *p = *state;
    Bytes got;
    Compilation *c = compile_new(NULL);
    compile_text(c, in(p, "a.moe"), "moe 1\n", 6);
    assert_int_equal(compile_guard(c, has_a_bug, NULL), DRIVER_INTERNAL);
    assert_non_null(strstr(c->errors, "internal error: pass"));
    assert_non_null(strstr(c->errors, "node 7"));
    assert_non_null(strstr(c->errors_json, "\"internal\""));
    const char *replay = compile_replay(c);
    assert_string_equal(replay, in(p, "a.moe.replay"));
    assert_null(output_read_file(replay, 1 << 20, p->arena, &got));
    assert_non_null(strstr(got.at, "node 7"));
    assert_non_null(strstr(got.at, "\nmoe 1\n"));
    compile_free(c);
    c = compile_new(NULL);
    compile_text(c, "/proc/none/a.moe", "moe 1\n", 6);
    assert_int_equal(compile_guard(c, has_a_bug, NULL), DRIVER_INTERNAL);
    assert_null(compile_replay(c));
    compile_free(c);
}

static void other_text(Option_text *value) { *value = "100%\n b=c"; }

static void other_number(Option_number *value) { *value = -77; }

static void other_seed(Option_seed *value) { *value = UINT64_MAX; }

static const char *text_of(const Place *p, const CompileOptions *o)
{
    Text t = {.arena = p->arena};
    options_print(o, "", &t);
    return text_string(&t);
}

/* Every option there is comes back from a replay file, and so do the text and what was made of it. */
static void a_replay_restores_everything(void **state)
{
    Place *p = *state;
    CompileOptions o = compile_defaults;
    static const char text[] = "tiles 1\n// text\nx\n";
#define OPTION(kind, field, value, cache, doc) other_##kind(&o.field);
#include "driver/options.def"
    Compilation *c = compile_new(&o);
    compile_text(c, in(p, "a.moe"), text, sizeof text - 1);
    c->product = PRODUCT_HEADER;
    assert_int_equal(compile_guard(c, has_a_bug, NULL), DRIVER_INTERNAL);
    const char *replay = in(p, "a.moe.replay");
    assert_string_equal(compile_replay(c), replay);
    compile_free(c);
    c = compile_new(NULL);
    assert_string_not_equal(text_of(p, &c->options), text_of(p, &o));
    assert_int_equal(compile_open(c, replay), DRIVER_OK);
    assert_string_equal(text_of(p, &c->options), text_of(p, &o));
    assert_int_equal(c->product, PRODUCT_HEADER);
    assert_string_equal(c->path, in(p, "a.moe"));
    assert_int_equal(c->text.len, sizeof text - 1);
    assert_memory_equal(c->text.at, text, sizeof text - 1);
    compile_free(c);
}

static void a_damaged_replay_is_refused(void **state)
{
    Place *p = *state;
    static const char *const texts[] = {"",
                                        "moe 1\n",
                                        "// moec replay\n",
                                        "// moec replay\n\n\n// product=so\n// text\n",
                                        "// moec replay\n\n\n// level=2x\n// text\n",
                                        "// moec replay\n\n\n// nonsense=1\n// text\n",
                                        "// moec replay\n\n\n// dump=%4\n// text\n"};
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Compilation *c = compile_new(NULL);
        c->path = in(p, "a.moe.replay");
        assert_non_null(compile_restore(c, bytes(texts[i])));
        compile_free(c);
    }
}

static void exhausted_memory_is_an_error(void **state)
{
    (void)state;
    Compilation *c = compile_new(NULL);
    compile_text(c, "a.moe", "moe 1\n", 6);
    assert_int_equal(compile_guard(c, wants_too_much, NULL), DRIVER_ERROR);
    assert_non_null(strstr(c->errors, "a.moe: error: "));
    compile_free(c);
}

int main(void)
{
    unsetenv("MOE_ISA"); /* the suite is repeated under it; these tests set their own */
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(files_appear_together),
        TEST(a_failure_leaves_nothing),
        TEST(a_full_device_fails_the_rest),
        TEST(what_does_not_fit_is_taken_back),
        TEST(a_link_is_written_through),
        TEST(reading_has_limits),
        TEST(an_entry_comes_back),
        TEST(every_damaged_byte_is_noticed),
        TEST(another_name_is_not_taken),
        TEST(the_oldest_entries_go),
        TEST(other_files_stay),
        TEST(unusable_places_are_not_used),
        TEST(several_at_once_compile_once),
        TEST(turns_are_of_one_key),
        TEST(targets_are_sorted_and_refused_by_name),
        TEST(the_build_has_a_name),
        TEST(a_name_that_is_cut_off_is_none),
        TEST(a_wrong_object_is_an_error),
        TEST(a_bug_leaves_a_replay_file),
        TEST(a_replay_restores_everything),
        TEST(a_damaged_replay_is_refused),
        TEST(exhausted_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
