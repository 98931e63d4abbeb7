/* Kept rates, and where: `rates-ID` in the compile cache's folder, a file for each kind of CPU. A .so reads it like the compiler,
 * so that both choose alike; only the compiler writes it (rates_keep.c). */
#include "machines/cpu_own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t checksum(const void *bytes, size_t len) /* FNV-1a */
{
    const unsigned char *at = bytes;
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * 16777619u;
    return sum;
}

void kept_name(const CpuId *id, char name[32]) { snprintf(name, 32, "rates-%08x", checksum(id, sizeof *id)); }

void kept_fill(const CpuId *id, const CpuRates *rates, KeptRates *out)
{
    static const char magic[8] = {'M', 'O', 'E', 'R', 'A', 'T', 'E', '1'};
    memset(out, 0, sizeof *out);
    memcpy(out->magic, magic, sizeof magic);
    out->id = *id;
    memcpy(out->mflops, rates->mflops, sizeof out->mflops);
    out->check = checksum(out, offsetof(KeptRates, check));
}

void cpu_cache_folder(char *out, size_t size)
{
    const char *forced = secure_getenv("MOEC_CACHE"), *xdg = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int n = 0;
    if (forced)
        n = strcmp(forced, "off") ? snprintf(out, size, "%s", forced) : 0;
    else if (xdg && xdg[0] == '/')
        n = snprintf(out, size, "%s/moec", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.cache/moec", home);
    if (n <= 0 || (size_t)n >= size)
        *out = '\0';
}

/* A regular file of this user's that nobody else writes: rates choose code. */
static int is_own_file(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH));
}

static int open_kept(const CpuId *id)
{
    char folder[CPU_PATH], name[32], path[CPU_PATH + 64];
    cpu_cache_folder(folder, sizeof folder);
    if (!*folder)
        return -1;
    kept_name(id, name);
    snprintf(path, sizeof path, "%s/" CPU_CACHE_OWN "/%s", folder, name);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

int kept_read(const CpuId *id, CpuRates *out)
{
    struct {
        KeptRates file;
        char more; /* a longer file is none */
    } got;
    KeptRates whole;
    memset(&got, 0, sizeof got);
    int fd = open_kept(id);
    if (fd < 0)
        return 0;
    ssize_t n = is_own_file(fd) ? read(fd, &got, sizeof got.file + 1) : 0;
    close(fd);
    *out = (CpuRates){.from = RATES_KEPT};
    memcpy(out->mflops, got.file.mflops, sizeof out->mflops);
    kept_fill(id, out, &whole);
    return n == sizeof whole && memcmp(&whole, &got.file, sizeof whole) == 0;
}
