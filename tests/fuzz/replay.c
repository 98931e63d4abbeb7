/* Feeds the files of folders to a fuzz target, without libFuzzer.   usage: fuzz_TARGET FOLDER|FILE...
 * When one of them aborts, the last name is its. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint8_t *file_bytes(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    *size = (size_t)st.st_size;
    uint8_t *bytes = malloc(*size ? *size : 1); /* exactly: a reader beyond the end is found */
    if (!bytes || fread(bytes, 1, *size, f) != *size)
        exit(1);
    fclose(f);
    return bytes;
}

static unsigned replay_file(const char *path)
{
    size_t size;
    uint8_t *bytes = file_bytes(path, &size);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return 1;
}

static unsigned replay(const char *path)
{
    DIR *folder = opendir(path);
    unsigned files = 0;
    if (!folder)
        return replay_file(path);
    for (struct dirent *d; (d = readdir(folder));) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, d->d_name);
        if (d->d_name[0] != '.')
            files += replay_file(inside);
    }
    closedir(folder);
    return files;
}

int main(int argc, char **argv)
{
    unsigned files = 0;
    for (int i = 1; i < argc; i++)
        files += replay(argv[i]);
    printf("%u files\n", files);
    return files == 0;
}
