/* Writes the file that rates_file.c reads: beside, then renamed, so that two processes may do it at once. */
#include "machines/cpu_own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int write_all(int fd, const KeptRates *file)
{
    ssize_t n = write(fd, file, sizeof *file);
    return close(fd) == 0 && n == sizeof *file;
}

int cpu_keep_rates(const char *directory, const CpuRates *rates)
{
    char name[32], path[CPU_PATH + 64], beside[CPU_PATH + 80];
    CpuId id;
    KeptRates file;
    cpu_id(&id);
    kept_fill(&id, rates, &file);
    kept_name(&id, name);
    int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return 0;
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write_all(fd, &file) && rename(beside, path) == 0)
        return 1;
    unlink(beside);
    return 0;
}
