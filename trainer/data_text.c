/* Text: files as bytes. */
#include "trainer/data.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/complain.h"

typedef struct File {
    char *path;
    uint64_t order;
} File;

typedef struct Files {
    File *at;
    size_t len, cap;
} Files;

static int out_of_memory(void) { return complain("out of memory while reading the data"); }

static int files_add(Files *f, const char *path, const char *name)
{
    if (f->len == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 256;
        File *grown = realloc(f->at, cap * sizeof *grown);
        if (!grown)
            return out_of_memory();
        f->at = grown;
        f->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy)
        return out_of_memory();
    f->at[f->len++] = (File){copy, hash_bytes(name, strlen(name), 0)};
    return 0;
}

/* The regular files of one --data argument. Folders inside that cannot be opened are counted, not fatal. */
static int files_walk(Files *f, const char *root, size_t *unreadable)
{
    struct stat st;
    if (stat(root, &st))
        return complain("--data %s: %s", root, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return complain("--data %s: neither a regular file nor a folder", root);
    char *roots[] = {(char *)(uintptr_t)root, NULL}; /* fts_open does not write them */
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (!walk)
        return out_of_memory();
    int bad = 0;
    for (FTSENT *e; !bad && (e = fts_read(walk));) {
        const char *name = e->fts_level ? e->fts_path + strlen(root) : e->fts_name;
        if (e->fts_info == FTS_F)
            bad = files_add(f, e->fts_path, name + strspn(name, "/"));
        else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            ++*unreadable;
    }
    fts_close(walk);
    return bad;
}

static int by_order(const void *a, const void *b)
{
    const File *x = a, *y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->path, y->path);
}

/* Appends at most `room` bytes of a file to `at`; returns how many, or -1 when it cannot be read. */
static ssize_t read_file(const char *path, uint8_t *at, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    size_t len = 0;
    ssize_t got = 1;
    while (len < room && got > 0) {
        got = read(fd, at + len, room - len);
        len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    return got < 0 ? -1 : (ssize_t)len;
}

/* Reads the files in order until `limit`; ends[i] is where the i-th one kept ends. */
static void read_files(TrainData *d, const Files *f, size_t limit, size_t *ends)
{
    size_t len = 0;
    for (size_t i = 0; i < f->len && len + 1 < limit; i++) {
        ssize_t got = read_file(f->at[i].path, d->bytes + len, limit - len - 1);
        if (got < 0) {
            d->unreadable++;
        } else if (!got) {
            d->empty++;
        } else if (memchr(d->bytes + len, 0, (size_t)got)) {
            d->binary++;
        } else {
            len += (size_t)got;
            d->bytes[len++] = 0;
            ends[d->files++] = len;
        }
    }
}

static TokenPart part_of(TrainData *d, size_t from, size_t len)
{
    TokenPart p = {.tokens = (int64_t)len};
    vec_push(d->arena, &p.runs, (TokenRun){d->bytes + from, 1, (int64_t)len, "the text", (int64_t)from});
    return p;
}

static void split(TrainData *d, const size_t *ends, double share)
{
    size_t total = d->files ? ends[d->files - 1] : 0, want = (size_t)(share * (double)total), n = 0;
    while (share > 0 && n + 1 < d->files && (!n || ends[n - 1] < want))
        n++;
    d->valid_files = n;
    const size_t valid = d->files == 1 ? want : n ? ends[n - 1] : 0; /* one file: its beginning */
    d->valid = part_of(d, 0, valid), d->train = part_of(d, valid, total - valid);
    d->fingerprint = (int64_t)hash_bytes(d->bytes, total, valid);
}

static int read_text(TrainData *d, const Config *c, Files *f)
{
    for (size_t i = 0; i < c->data.len; i++)
        if (files_walk(f, c->data.at[i], &d->unreadable))
            return 1;
    if (f->len)
        qsort(f->at, f->len, sizeof *f->at, by_order);
    size_t limit = (size_t)(c->data_limit * 1048576.0);
    size_t *ends = calloc(f->len + 1, sizeof *ends);
    d->bytes = malloc(limit + 1);
    if (!ends || !d->bytes) {
        free(ends);
        return out_of_memory();
    }
    read_files(d, f, limit, ends);
    split(d, ends, c->validation);
    free(ends);
    return 0;
}

int data_read_text(TrainData *d, const Config *c)
{
    Files f = {0};
    d->is_text = 1;
    const int bad = read_text(d, c, &f);
    for (size_t i = 0; i < f.len; i++)
        free(f.at[i].path);
    free(f.at);
    return bad;
}
