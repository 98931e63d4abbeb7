#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps an open file; returns 0, or the reason. */
static int map_open(int fd, MappedFile *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    if (st.st_size == 0)
        return 0;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return errno;
    *out = (MappedFile){at, (size_t)st.st_size};
    return 0;
}

const char *file_map(Arena *a, const char *path, MappedFile *out)
{
    *out = (MappedFile){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for its writer */
    int reason = fd < 0 ? errno : map_open(fd, out);
    if (fd >= 0)
        close(fd);
    return reason ? arena_printf(a, "%s: cannot be read: %s", path, strerror(reason)) : NULL;
}

void file_unmap(MappedFile *f)
{
    if (f->at)
        munmap((void *)(uintptr_t)f->at, f->len);
    *f = (MappedFile){0};
}

/* ---- writing ---- */

enum { MOST_LINKS = 40 }; /* that lead to each other: the kernel's own limit */

static void fail(FileWriter *w, int reason)
{
    if (!w->error)
        w->error = arena_printf(w->arena, "%s: cannot be written: %s", w->path, strerror(reason));
}

int file_is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

const char *file_target(Arena *a, const char *path)
{
    char to[PATH_MAX];
    for (int links = 0; links < MOST_LINKS; links++) {
        const ssize_t n = readlink(path, to, sizeof to);
        if (n < 0)
            break;
        const char *slash = to[0] == '/' ? NULL : strrchr(path, '/');
        path = arena_printf(a, "%.*s%.*s", slash ? (int)(slash + 1 - path) : 0, path, (int)n, to);
    }
    return path;
}

int file_beside(Arena *a, const char *path, mode_t mode, char **beside)
{
    const mode_t mask = umask(0);
    umask(mask);
    struct stat old;
    const int is_there = stat(path, &old) == 0;
    if (!*path || (is_there && S_ISDIR(old.st_mode))) { /* known now, not when it is renamed */
        errno = *path ? EISDIR : ENOENT;
        return -1;
    }
    if (is_there && S_ISREG(old.st_mode))
        mode = old.st_mode & 0777;
    else
        mode &= ~mask;
    *beside = arena_printf(a, "%s.XXXXXX", path);
    const int fd = mkostemp(*beside, O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) == 0)
        return fd;
    const int reason = errno;
    close(fd);
    unlink(*beside);
    errno = reason;
    return -1;
}

FileWriter file_create(Arena *a, const char *path)
{
    FileWriter w = {.arena = a, .path = path, .target = file_target(a, path)};
    const int fd =
        file_is_special(path) ? open(path, O_WRONLY | O_CLOEXEC) : file_beside(a, w.target, 0666, &w.beside);
    w.file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!w.file)
        fail(&w, errno);
    return w;
}

void file_append(FileWriter *w, const void *bytes, size_t len)
{
    if (!w->error && len && fwrite(bytes, 1, len, w->file) != len)
        fail(w, errno);
}

int file_sync_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *folder = !slash ? "." : slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason =
        fd < 0 || (fsync(fd) != 0 && errno != EINVAL) ? errno : 0; /* EINVAL: a file system that cannot */
    if (fd >= 0)
        close(fd);
    return reason;
}

static void put_in_place(FileWriter *w)
{
    if (!w->error && rename(w->beside, w->target) != 0)
        fail(w, errno);
    if (w->error) {
        unlink(w->beside);
        return;
    }
    const int reason = file_sync_name(w->arena, w->target);
    if (reason)
        fail(w, reason);
}

const char *file_commit(FileWriter *w)
{
    if (!w->error && (fflush(w->file) != 0 || (w->beside && fsync(fileno(w->file)) != 0)))
        fail(w, errno);
    if (w->file && fclose(w->file) != 0)
        fail(w, errno);
    if (w->file && w->beside)
        put_in_place(w);
    w->file = NULL;
    return w->error;
}

void file_drop(FileWriter *w)
{
    if (!w->file)
        return;
    fclose(w->file);
    if (w->beside)
        unlink(w->beside);
    w->file = NULL;
}

/* ---- open files ---- */

int file_write(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    for (ssize_t n; len; at += n, len -= (size_t)n) {
        n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            n = 0;
        if (n < 0)
            return errno;
    }
    return 0;
}

int file_add(int fd, const void *bytes, size_t len)
{
    const off_t before = lseek(fd, 0, SEEK_END);
    const int reason = file_write(fd, bytes, len);
    if (reason) {
        const int taken_back = ftruncate(fd, before);
        (void)taken_back;
    }
    return reason;
}

/* ---- filling ---- */

static const char *not_written(Arena *a, const char *path, int reason)
{
    return arena_printf(a, "%s: cannot be written: %s", path, strerror(reason));
}

static int write_at(int fd, uint64_t at, const char *bytes, size_t len)
{
    for (ssize_t n; len; bytes += n, at += (uint64_t)n, len -= (size_t)n) {
        n = pwrite(fd, bytes, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            n = 0;
        if (n < 0)
            return errno;
    }
    return 0;
}

const char *file_reserve(Arena *a, const char *path, uint64_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int reason = fd < 0 || ftruncate(fd, (off_t)size) != 0 ? errno : 0;
    if (fd >= 0 && close(fd) != 0 && !reason)
        reason = errno;
    return reason ? not_written(a, path, reason) : NULL;
}

FilePatch file_patch(Arena *a, const char *path) { return (FilePatch){.arena = a, .path = path, .fd = -1}; }

void file_put(FilePatch *p, uint64_t at, const void *bytes, size_t len)
{
    if (p->error || !len)
        return;
    if (p->fd < 0)
        p->fd = open(p->path, O_WRONLY | O_CLOEXEC);
    const int reason = p->fd < 0 ? errno : write_at(p->fd, at, bytes, len);
    if (reason)
        p->error = not_written(p->arena, p->path, reason);
}

const char *file_patched(FilePatch *p)
{
    if (p->fd >= 0 && fsync(p->fd) != 0 && !p->error)
        p->error = not_written(p->arena, p->path, errno);
    if (p->fd >= 0 && close(p->fd) != 0 && !p->error)
        p->error = not_written(p->arena, p->path, errno);
    p->fd = -1;
    return p->error;
}

const char *file_rename(Arena *a, const char *from, const char *to)
{
    const int reason = rename(from, to) == 0 ? file_sync_name(a, to) : errno;
    return reason ? not_written(a, to, reason) : NULL;
}

int file_make_folder(Arena *a, const char *path, mode_t mode)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++)
        if (slash > path && mkdir(arena_strndup(a, path, (size_t)(slash - path)), mode) != 0 &&
            errno != EEXIST)
            return errno;
    return mkdir(path, mode) == 0 || errno == EEXIST ? 0 : errno;
}
