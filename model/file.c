#include "model/file.h"

#include <errno.h>
#include <fcntl.h>
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
