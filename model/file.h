/* Files: one to read, mapped into memory; and one to write, which stands beside the old one until it is whole. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "base/base.h"

typedef struct MappedFile {
    const unsigned char *at; /* NULL when it is empty */
    size_t len;
} MappedFile;

/* Maps a regular file for reading. Returns NULL, or a message. Nobody may shorten the file while it is mapped. */
const char *file_map(Arena *a, const char *path, MappedFile *out);
void file_unmap(MappedFile *f);

#endif
