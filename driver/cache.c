/* The compile cache: one file per kernel module, named by the hash of everything that makes its bytes.
 *
 * Note [Entry] The .so, then the text of its header, then a trailer with lengths, name and checksum. The
 * loader ignores what follows a .so, so the entry itself can be dlopened. An entry is written beside and
 * renamed; one that does not check is treated as missing and written anew. Nothing that goes wrong here fails
 * a compilation.
 *
 * Note [Own files] The folder that a user names may hold anything. The cache keeps to a folder of its own in it, and
 * deletes nothing there but files with the name of an entry, or of one that was being written. Rates of this kind of CPU are kept
 * there too (machines/rates_file.c).
 *
 * Note [Turns] The ranks of a job ask for the same modules at the same time. The first one locks a byte of the file `turns` for its key;
 * the others wait until the entry is there. The system takes the lock from who is gone; for who hangs nobody waits longer than
 * TURN_SECONDS. */
#include "driver/driver.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_DIGITS = 32, BESIDE = 6 }; /* output.c writes NAME.XXXXXX, then renames it */

typedef struct Trailer {
    char magic[8];
    uint64_t so_len, header_len;
    char key[KEY_DIGITS];
    uint64_t checksum; /* of all bytes before this field */
} Trailer;

static const char MAGIC[8] = {'M', 'O', 'E', 'C', 'S', 'O', '0', '1'};

enum { ENTRY_LIMIT = 1 << 28 };
static const int64_t CACHE_LIMIT = (int64_t)512 << 20; /* beyond it, the entries unused for longest go */

/* ---- the directory ---- */

static int make_private(const char *path, Arena *a)
{
    struct stat s;
    return !file_make_folder(a, path, 0700) && stat(path, &s) == 0 && S_ISDIR(s.st_mode) &&
           s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
}

/* The folder that the user or the environment names, "" when none does. */
static const char *named_directory(const char *wanted, Arena *a)
{
    char *folder = arena_alloc(a, CPU_PATH);
    if (wanted)
        return wanted;
    cpu_cache_folder(folder, CPU_PATH);
    return folder;
}

/* Code is loaded from it, so it must belong to this user and be writable by nobody else, and so must the folder that it
 * is in. */
const char *cache_directory(const char *wanted, Arena *a)
{
    const char *named = named_directory(wanted, a);
    const char *own = arena_printf(a, "%s/" CPU_CACHE_OWN, named);
    return *named && make_private(named, a) && make_private(own, a) ? own : NULL;
}

/* ---- reading ---- */

static int entry_is_whole(const char *bytes, size_t len, const char *key, Trailer *t)
{
    if (len < sizeof *t)
        return 0;
    memcpy(t, bytes + len - sizeof *t, sizeof *t);
    size_t payload = len - sizeof *t;
    return memcmp(t->magic, MAGIC, sizeof MAGIC) == 0 && memcmp(t->key, key, KEY_DIGITS) == 0 &&
           t->so_len > 0 && t->so_len <= payload && t->header_len == payload - t->so_len &&
           t->checksum == hash_bytes(bytes, payload + offsetof(Trailer, checksum), 0);
}

int cache_find(const char *directory, const char *key, Arena *a, CacheEntry *out)
{
    Bytes all;
    Trailer t;
    const char *path = arena_printf(a, "%s/%s.so", directory, key);
    if (file_is_special(path) || /* a pipe would wait, a device may never end */
        output_read_file(path, ENTRY_LIMIT, a, &all) || !entry_is_whole(all.at, all.len, key, &t))
        return 0;
    utimensat(AT_FDCWD, path, NULL, 0); /* used now: trim() takes the oldest */
    *out = (CacheEntry){path, {all.at, t.so_len}, {all.at + t.so_len, t.header_len}};
    return 1;
}

/* ---- turns ---- */

enum { TURN_SECONDS = 60, TURN_LOOKS = 200, TURN_DIGITS = 8 }; /* looks in a second */

int cache_take_turn(const char *directory, const char *key, Arena *a)
{
    const char *digits = arena_strndup(a, key, TURN_DIGITS);
    struct flock byte = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)strtoul(digits, NULL, 16), .l_len = 1};
    const struct timespec pause = {.tv_nsec = 1000000000 / TURN_LOOKS};
    int fd = open(arena_printf(a, "%s/turns", directory), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; fd >= 0 && i < TURN_SECONDS * TURN_LOOKS && fcntl(fd, F_OFD_SETLK, &byte); i++)
        if (errno == EAGAIN || errno == EACCES)
            nanosleep(&pause, NULL);
        else
            break;
    return fd;
}

void cache_end_turn(int *turn)
{
    if (*turn >= 0)
        close(*turn);
    *turn = -1;
}

/* ---- writing ---- */

typedef struct Aged {
    char name[64];
    int64_t when, bytes;
} Aged;

/* KEY.so, or KEY.so.XXXXXX: see Note [Own files]. */
static int is_entry_name(const char *name)
{
    static const char ending[] = ".so";
    size_t digits = strspn(name, "0123456789abcdef"), beside = 0;
    if (digits != KEY_DIGITS || strncmp(name + digits, ending, strlen(ending)) != 0)
        return 0;
    name += digits + strlen(ending);
    if (*name == '\0')
        return 1;
    while (*name == '.' && isalnum((unsigned char)name[1 + beside]))
        beside++;
    return beside == BESIDE && name[1 + beside] == '\0';
}

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
        if (!is_entry_name(e->d_name) || fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(s.st_mode))
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
    memcpy(t.key, key, KEY_DIGITS);
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
