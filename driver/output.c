/* Output files: all of them or none, and an older file stays whole until the new one is. */
#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *not_written(const char *path, int reason, Arena *a)
{
    return arena_printf(a, "%s: cannot be written: %s", path, strerror(reason));
}

/* Closing may report what writing did not (quota, network file systems). */
static const char *write_and_close(const OutputFile *f, int fd, Arena *a)
{
    const int written = file_write(fd, f->bytes.at, f->bytes.len);
    const int closed = close(fd) == 0 || errno == EINTR ? 0 : errno;
    return written || closed ? not_written(f->path, written ? written : closed, a) : NULL;
}

/* What is missing is a folder: the file itself is made. */
static const char *why_not_made(const char *target, int reason, Arena *a)
{
    const char *slash = strrchr(target, '/');
    return reason == ENOENT && slash
               ? arena_printf(a, "there is no folder %.*s", (int)(slash - target), target)
               : strerror(reason);
}

static const char *write_beside(OutputFile *f, int executable, Arena *a)
{
    char *beside;
    int fd = file_beside(a, f->target, executable ? 0777 : 0666, &beside);
    if (fd < 0)
        return arena_printf(a, "%s: cannot be written: %s", f->path, why_not_made(f->target, errno, a));
    const char *error = write_and_close(f, fd, a);
    if (error)
        unlink(beside);
    else
        f->beside = beside;
    return error;
}

static void drop_all(Output *o)
{
    for (uint32_t i = 0; i < o->files.len; i++)
        if (o->files.at[i].beside)
            unlink(o->files.at[i].beside);
    o->files.len = 0;
}

const char *output_add(Output *o, const char *path, Bytes bytes, int executable)
{
    OutputFile f = {.path = path, .target = file_target(o->arena, path), .bytes = bytes};
    struct stat s;
    int is_stdout = strcmp(path, "-") == 0;
    const char *error = NULL;
    vec_reserve(o->arena, &o->files, o->files.len + 1);
    if (!is_stdout && stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        error = arena_printf(o->arena, "%s: is a directory", path);
    else if (!is_stdout && !file_is_special(path))
        error = write_beside(&f, executable, o->arena);
    if (error)
        drop_all(o);
    else
        o->files.at[o->files.len++] = f;
    return error;
}

static const char *write_directly(const OutputFile *f, Arena *a)
{
    if (strcmp(f->path, "-") == 0) {
        const int reason = file_write(STDOUT_FILENO, f->bytes.at, f->bytes.len);
        return reason ? not_written("standard output", reason, a) : NULL;
    }
    int fd = open(f->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return not_written(f->path, errno, a);
    return write_and_close(f, fd, a);
}

/* Devices and pipes first: they cannot be taken back, but a failure of theirs still leaves no file. */
const char *output_commit(Output *o)
{
    const char *error = NULL;
    for (uint32_t i = 0; i < o->files.len && !error; i++)
        if (!o->files.at[i].beside)
            error = write_directly(&o->files.at[i], o->arena);
    for (uint32_t i = 0; i < o->files.len && !error; i++) {
        OutputFile *f = &o->files.at[i];
        if (f->beside && rename(f->beside, f->target) != 0)
            error = not_written(f->path, errno, o->arena);
        else
            f->beside = NULL;
    }
    drop_all(o);
    return error;
}

static const char *read_all(int fd, const char *path, size_t limit, Arena *a, Bytes *out)
{
    Text t = {.arena = a};
    char chunk[1 << 14];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return arena_printf(a, "%s: cannot be read: %s", path, strerror(errno));
        if (n == 0)
            break;
        text_add_bytes(&t, chunk, (size_t)n);
        if (t.len > limit)
            return arena_printf(a, "%s: longer than the limit of %zu MiB", path, limit >> 20);
    }
    *out = (Bytes){text_string(&t), t.len};
    return NULL;
}

const char *output_read_file(const char *path, size_t limit, Arena *a, Bytes *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return arena_printf(a, "%s: cannot be read: %s", path, strerror(errno));
    struct stat s;
    const char *error = NULL;
    if (fstat(fd, &s) == 0 && S_ISDIR(s.st_mode))
        error = arena_printf(a, "%s: is a directory", path);
    else if (S_ISREG(s.st_mode) && (uint64_t)s.st_size > limit)
        error = arena_printf(a, "%s: longer than the limit of %zu MiB", path, limit >> 20);
    else
        error = read_all(fd, path, limit, a, out);
    close(fd);
    return error;
}
