/* The compile cache: one file per kernel module, named by the hash of everything that makes its bytes.
 *
 * Note [Entry] The .so, then the text of its header, then a trailer with lengths, name and checksum. The
 * loader ignores what follows a .so, so the entry itself can be dlopened. An entry is written beside and
 * renamed; one that does not check is treated as missing and written anew. Nothing that goes wrong here fails
 * a compilation. */
#include "driver/driver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Trailer {
    char magic[8];
    uint64_t so_len, header_len;
    char key[32];
    uint64_t checksum; /* of all bytes before this field */
} Trailer;

static const char MAGIC[8] = {'M', 'O', 'E', 'C', 'S', 'O', '0', '1'};

enum { ENTRY_LIMIT = 1 << 28 };
static const int64_t CACHE_LIMIT = (int64_t)512 << 20; /* beyond it, the entries unused for longest go */

/* ---- the directory ---- */

static int is_private(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH));
}

static int make_path(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return 0;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Code is loaded from it, so it must belong to this user and be writable by nobody else. */
const char *cache_directory(const char *wanted, Arena *a)
{
    const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    const char *forced = secure_getenv("MOEC_CACHE");
    char *path = NULL;
    if (wanted)
        path = arena_printf(a, "%s", wanted);
    else if (forced)
        path = arena_printf(a, "%s", forced);
    else if (xdg && xdg[0] == '/')
        path = arena_printf(a, "%s/moec", xdg);
    else if (home && home[0] == '/')
        path = arena_printf(a, "%s/.cache/moec", home);
    if (!path || !*path || !make_path(path) || !is_private(path))
        return NULL;
    return path;
}

/* ---- reading ---- */

static int entry_is_whole(const char *bytes, size_t len, const char *key, Trailer *t)
{
    if (len < sizeof *t)
        return 0;
    memcpy(t, bytes + len - sizeof *t, sizeof *t);
    size_t payload = len - sizeof *t;
    return memcmp(t->magic, MAGIC, sizeof MAGIC) == 0 && memcmp(t->key, key, 32) == 0 && t->so_len > 0 &&
           t->so_len <= payload && t->header_len == payload - t->so_len &&
           t->checksum == hash_bytes(bytes, payload + offsetof(Trailer, checksum), 0);
}

int cache_find(const char *directory, const char *key, Arena *a, CacheEntry *out)
{
    Bytes all;
    Trailer t;
    const char *path = arena_printf(a, "%s/%s.so", directory, key);
    if (output_read_file(path, ENTRY_LIMIT, a, &all) || !entry_is_whole(all.at, all.len, key, &t))
        return 0;
    utimensat(AT_FDCWD, path, NULL, 0); /* used now: trim() takes the oldest */
    *out = (CacheEntry){path, {all.at, t.so_len}, {all.at + t.so_len, t.header_len}};
    return 1;
}

/* ---- writing ---- */

typedef struct Aged {
    char name[64];
    int64_t when, bytes;
} Aged;

static int older_first(const void *a, const void *b)
{
    const Aged *x = a, *y = b;
    return (x->when > y->when) - (x->when < y->when);
}

static int64_t list_entries(DIR *d, Arena *a, Aged **out, size_t *count)
{
    Vec(Aged) list = {0};
    int64_t total = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        Aged entry = {.when = 0};
        if (strlen(e->d_name) >= sizeof entry.name ||
            fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode) ||
            !strstr(e->d_name, ".so"))
            continue;
        strcpy(entry.name, e->d_name);
        entry.when = s.st_mtime;
        entry.bytes = s.st_size;
        total += s.st_size;
        vec_push(a, &list, entry);
    }
    *out = list.at;
    *count = list.len;
    return total;
}

static void trim(const char *directory, Arena *a)
{
    Aged *entries;
    size_t count;
    DIR *d = opendir(directory);
    if (!d)
        return;
    int64_t total = list_entries(d, a, &entries, &count);
    if (total > CACHE_LIMIT) {
        qsort(entries, count, sizeof *entries, older_first);
        for (size_t i = 0; i < count && total > CACHE_LIMIT / 2; i++)
            if (unlinkat(dirfd(d), entries[i].name, 0) == 0)
                total -= entries[i].bytes;
    }
    closedir(d);
}

void cache_store(const char *directory, const char *key, Bytes so, Bytes header, Arena *a)
{
    Text all = {.arena = a};
    Trailer t = {.so_len = so.len, .header_len = header.len};
    memcpy(t.magic, MAGIC, sizeof MAGIC);
    memcpy(t.key, key, 32);
    text_add_bytes(&all, so.at, so.len);
    text_add_bytes(&all, header.at, header.len);
    text_add_bytes(&all, (const char *)&t, sizeof t);
    t.checksum = hash_bytes(all.at, all.len - sizeof t + offsetof(Trailer, checksum), 0);
    memcpy(all.at + all.len - sizeof t, &t, sizeof t);

    Output o = {.arena = a};
    if (!output_add(&o, arena_printf(a, "%s/%s.so", directory, key), (Bytes){all.at, all.len}, 1) &&
        !output_commit(&o))
        trim(directory, a);
}
