/* Files: one to read, mapped into memory; one to write, which is put beside the old one until it is whole; one that several processes fill. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/arena.h"

#include <stdio.h>
#include <sys/types.h>

typedef struct MappedFile {
    const unsigned char *at; /* NULL when it is empty */
    size_t len;
} MappedFile;

/* Maps a regular file for reading. Returns NULL, or a message. Nobody may shorten the file while it is mapped. */
const char *file_map(Arena *a, const char *path, MappedFile *out);
void file_unmap(MappedFile *f);

/* A device, a pipe or a socket, perhaps by a symbolic link: it is opened and written, never replaced. */
int file_is_special(const char *path);
/* What symbolic links lead to, be it there or not; a path that is no link itself. */
const char *file_target(Arena *a, const char *path);
/* A new file beside a path that is no link, to be renamed to it. It has the mode of the file that is there, else `mode` without what the
 * process's mask forbids. Returns its descriptor, or -1 with errno, also where a folder is in the way. */
int file_beside(Arena *a, const char *path, mode_t mode, char **beside);

/* A file that appears under its path, or where a link at the path leads, when it is whole and on the disk; until then, and after
 * an error, the path holds what it held. What is special is written as it is. Errors are kept until file_commit() returns them.
 * Each writer is committed or dropped. */
typedef struct FileWriter {
    Arena *arena;
    const char *path, *target;
    char *beside; /* NULL: the path is special */
    FILE *file;
    const char *error;
} FileWriter;

FileWriter file_create(Arena *a, const char *path);
void file_append(FileWriter *w, const void *bytes, size_t len);
const char *file_commit(FileWriter *w); /* NULL, or a message */
void file_drop(FileWriter *w);

/* A file of zeros that several processes fill, each with bytes of its own, made by one of them before. Who reads it must know when all
 * have filled it; its name is on the disk when its folder is. Returns NULL, or a message. */
const char *file_reserve(Arena *a, const char *path, uint64_t size);

/* What one of them writes; nothing is opened before the first byte. Errors are kept until file_patched(). */
typedef struct FilePatch {
    Arena *arena;
    const char *path;
    int fd; /* -1: not open yet */
    const char *error;
} FilePatch;
FilePatch file_patch(Arena *a, const char *path);
void file_put(FilePatch *p, uint64_t at, const void *bytes, size_t len);
const char *file_patched(FilePatch *p); /* it is on the disk: NULL, or a message */

/* Writes all of it to an open file. Returns 0, or the reason. */
int file_write(int fd, const void *bytes, size_t len);
/* Puts all of it at the end of an open file, or nothing: what fits no more is taken back (but by a pipe or a device). Returns 0, or the
 * reason. */
int file_add(int fd, const void *bytes, size_t len);

/* A folder, and those that it is in, where there are none. Returns 0, or the reason. */
int file_make_folder(Arena *a, const char *path, mode_t mode);
/* A file gets another name, and has it on the disk. Returns NULL, or a message. */
const char *file_rename(Arena *a, const char *from, const char *to);
/* A new name is on the disk when its folder is. Returns 0, or the reason. */
int file_sync_name(Arena *a, const char *path);

#endif
