/* Object -> .so, by the system's linker: `ld` itself where there is one (4 ms), else the C compiler (12 ms).
 * No shell; what the linker says becomes the error text.
 *
 * The libraries are named by the files this process has loaded, so that no -dev package and no search path is
 * needed; what stands in the .so is only their soname. */
#include "driver/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char no_linker[] = "no linker: neither `ld` nor `cc` can be run (Debian package binutils)";

enum { SAID_BYTES = 4096, ARGUMENTS = 24 };

/* Everything on the stack: an arena escape must not leave files behind. */
typedef struct LinkJob {
    char directory[256], object[280], so[280];
    char said[SAID_BYTES]; /* what the linker wrote */
    size_t said_len;
    sigset_t before; /* the signals that were blocked */
} LinkJob;

/* What asks a program to end waits until its files are gone; the linker is asked as before. */
static void block_ends(LinkJob *job)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP), sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &job->before);
}

/* A file beside the plug-in that carries the library's name only, or the library itself. */
static const char *library_file(const char *soname, Arena *a)
{
    const char *name = arena_printf(a, "%s/names/%s", plugin_directory(a), soname);
    if (access(name, R_OK) == 0)
        return name;
    struct link_map *map = NULL;
    const char *path = NULL;
    void *handle = dlopen(soname, RTLD_LAZY);
    if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/')
        path = arena_strdup(a, map->l_name);
    if (handle)
        dlclose(handle);
    return path ? path : arena_printf(a, "-l:%s", soname);
}

static const char *make_directory(LinkJob *job, Arena *a)
{
    const char *place = getenv("TMPDIR");
    if (!place || !*place || strlen(place) > sizeof job->directory - 16)
        place = "/tmp";
    snprintf(job->directory, sizeof job->directory, "%s/moec-XXXXXX", place);
    if (!mkdtemp(job->directory)) {
        job->directory[0] = '\0';
        return arena_printf(
            a, "%s: no directory for temporary files can be made there: %s (TMPDIR names another place)",
            place, strerror(errno));
    }
    snprintf(job->object, sizeof job->object, "%s/kernel.o", job->directory);
    snprintf(job->so, sizeof job->so, "%s/kernel.so", job->directory);
    return NULL;
}

static void remove_files(const LinkJob *job)
{
    int kept = errno;
    if (job->directory[0]) {
        unlink(job->object);
        unlink(job->so);
        rmdir(job->directory);
    }
    pthread_sigmask(SIG_SETMASK, &job->before, NULL);
    errno = kept;
}

static int write_object(const LinkJob *job, Bytes object)
{
    int fd = open(job->object, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    const int reason = file_write(fd, object.at, object.len);
    return close(fd) == 0 && !reason;
}

/* Keeps the first SAID_BYTES and drains the rest, so that the child never blocks. */
static void listen_to(LinkJob *job, int fd)
{
    char chunk[512];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        size_t room = sizeof job->said - 1 - job->said_len;
        size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(job->said + job->said_len, chunk, take);
        job->said_len += take;
        job->said[job->said_len] = '\0';
    }
}

/* Runs argv with both outputs read by us. Returns its wait status, or -1 when it could not be started. */
static int run(LinkJob *job, char *const *argv)
{
    int ends[2], status = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &job->before);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int started = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ) == 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (started) {
        listen_to(job, ends[0]);
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR) {
                status = 0; /* the program ignores SIGCHLD: judge by the file */
                break;
            }
    }
    close(ends[0]);
    return status;
}

static const char *check_result(const LinkJob *job, int status, const char *program, Arena *a)
{
    struct stat s;
    if (status == -1 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
        return no_linker;
    if (WIFSIGNALED(status))
        return arena_printf(a, "`%s` was ended by signal %d (is the disk full?)", program, WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return arena_printf(a, "`%s` failed: %s", program, job->said_len ? job->said : "it did not say why");
    if (stat(job->so, &s) != 0 || s.st_size == 0)
        return arena_printf(a, "`%s` wrote no output", program);
    return NULL;
}

static const char *link_with(LinkJob *job, int direct, const char *soname, const char *const *libraries,
                             Arena *a)
{
    const char *argv[ARGUMENTS];
    int n = 0;
    argv[n++] = direct ? "ld" : "cc";
    argv[n++] = "-shared";
    if (!direct) {
        argv[n++] = "-nostdlib";
        argv[n++] = "-Wl,--hash-style=gnu,-z,now,-z,relro,-z,noexecstack,--no-as-needed";
    } else {
        argv[n++] = "--hash-style=gnu";
        argv[n++] = "-znow";
        argv[n++] = "-zrelro";
        argv[n++] = "-znoexecstack";
        argv[n++] = "--no-as-needed";
    }
    const char *const name[] = {"-soname", soname};
    for (int i = 0; soname && i < 2; i++) {
        if (!direct)
            argv[n++] = "-Xlinker";
        argv[n++] = name[i];
    }
    argv[n++] = "-o";
    argv[n++] = job->so;
    argv[n++] = job->object;
    for (int i = 0; i < 3; i++)
        argv[n++] = libraries[i];
    argv[n] = NULL;
    int status = run(job, (char *const *)argv);
    return check_result(job, status, argv[0], a);
}

/* The files are gone before the arena is asked for memory. */
static const char *take_result(LinkJob *job, Arena *a, Bytes *so)
{
    struct stat s;
    int fd = open(job->so, O_RDONLY | O_CLOEXEC);
    remove_files(job);
    job->directory[0] = '\0';
    if (fd < 0 || fstat(fd, &s) != 0) {
        if (fd >= 0)
            close(fd);
        return "the linker's output cannot be read";
    }
    size_t len = (size_t)s.st_size, got = 0;
    char *bytes = arena_alloc(a, len);
    while (got < len) {
        ssize_t n = read(fd, bytes + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    *so = (Bytes){bytes, len};
    return got == len ? NULL : "the linker's output cannot be read";
}

const char *link_shared(Bytes object, const char *soname, Arena *a, Bytes *so)
{
    static const char *const sonames[] = {"libgomp.so.1", "libm.so.6", "libc.so.6"};
    const char *libraries[3], *error;
    LinkJob job = {.said_len = 0};
    for (int i = 0; i < 3; i++)
        libraries[i] = library_file(sonames[i], a);
    arena_alloc(a, 2 * SAID_BYTES); /* room for an error text is there before the first file is */
    block_ends(&job);
    error = make_directory(&job, a);
    if (!error && !write_object(&job, object))
        error = arena_printf(a, "%s: cannot be written: %s", job.object, strerror(errno));
    if (!error) {
        error = link_with(&job, 1, soname, libraries, a);
        if (error == no_linker)
            error = link_with(&job, 0, soname, libraries, a);
    }
    if (!error)
        error = take_result(&job, a, so);
    remove_files(&job);
    return error;
}

/* ---- keeping a .so loaded ---- */

/* The value of DT_FLAGS_1 in the image of a .so, or NULL. */
static ElfW(Xword) * find_flags(char *image, size_t len)
{
    const ElfW(Ehdr) *h = (const void *)image;
    const ElfW(Phdr) *p = (const void *)(image + h->e_phoff);
    if (len < sizeof *h || h->e_phoff > len || h->e_phnum * sizeof *p > len - h->e_phoff)
        return NULL;
    for (int i = 0; i < h->e_phnum; i++) {
        if (p[i].p_type != PT_DYNAMIC || p[i].p_offset > len || p[i].p_filesz > len - p[i].p_offset)
            continue;
        ElfW(Dyn) *d = (void *)(image + p[i].p_offset);
        for (size_t n = 0; n < p[i].p_filesz / sizeof *d && d[n].d_tag != DT_NULL; n++)
            if (d[n].d_tag == DT_FLAGS_1)
                return &d[n].d_un.d_val;
    }
    return NULL;
}

void link_pin(Bytes so)
{
    ElfW(Xword) *flags = find_flags((char *)(uintptr_t)so.at, so.len);
    if (flags)
        *flags |= DF_1_NODELETE;
}
