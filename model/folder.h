/* Folders of files that appear under their path when all files are whole and on the disk, each with a checksum. The checksums are
 * in a file XXH128SUMS, as the program xxh128sum writes and checks them. */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include "base/base.h"

/* An empty folder beside `path`, for the files. Returns NULL, or a message; *aside: the folder. */
const char *folder_begin(Arena *a, const char *path, const char **aside);
/* The folder beside `path`, of the files in it, becomes `path`. One that had the path until then is removed. */
const char *folder_commit(Arena *a, const char *path);
void folder_discard(Arena *a, const char *path); /* what was begun beside it, after an error */
/* NULL, or the first file that is missing, has another content than when it was written, or was not there then. */
const char *folder_verify(Arena *a, const char *path);
/* Removes a folder of files, and what was begun beside it. At no time does `path` have a part of its files. */
const char *folder_remove(Arena *a, const char *path);

#endif
