/* Folders of files that appear under their path when all files are whole and on the disk, each with a checksum. The checksums are
 * in a file XXH128SUMS, as the program xxh128sum writes and checks them. */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include "base/base.h"

const char *folder_aside(Arena *a, const char *path); /* where a folder is until it gets its path */
/* An empty folder beside `path`, for the files. Returns NULL, or a message; *aside: the folder. */
const char *folder_begin(Arena *a, const char *path, const char **aside);
/* Its files in their order, and the checksums of number `first`, first + step and so on: several processes may share the work. */
typedef Vec(const char *) FileNames;
typedef struct FolderHash {
    char hex[33];
} FolderHash;
typedef struct FolderSums {
    FileNames names;
    FolderHash *hashes; /* by file; "" where another process has it */
} FolderSums;
const char *folder_sums(Arena *a, const char *path, uint32_t first, uint32_t step, FolderSums *out);
/* The folder beside `path`, of these files, becomes `path`. One that had the path until then is removed. */
const char *folder_commit(Arena *a, const char *path, const FolderSums *sums);
void folder_discard(Arena *a, const char *path); /* what was begun beside it, after an error */
/* NULL, or the first file that is missing, has another content than when it was written, or was not there then. */
const char *folder_verify(Arena *a, const char *path);
/* Removes a folder of files, and what was begun beside it. At no time does `path` have a part of its files. */
const char *folder_remove(Arena *a, const char *path);

#endif
