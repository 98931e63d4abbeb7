#include "base/openmp.h"

#include "base/computer.h"
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libgomp's own 300000 rounds are 5 to 15 ms. Beside other work a thread then burns the time in which the one it waits for would
 * run: while a build kept both cores busy, moe-train with two threads made 700 to 1100 tokens/s with libgomp's number, 9000 to
 * 12000 with this one, 4200 with one thread. Between two launches of a kernel there are microseconds. */
#define SPIN_ROUNDS "1000"

/* ---- limits of control groups ---- */

/* Two numbers of a file, or of two files; a missing file or the word `max` gives none. */
static int read_numbers(const char *path, long long *first, long long *second)
{
    FILE *f = fopen(path, "re");
    const int n = f ? fscanf(f, "%lld %lld", first, second) : 0;
    if (f)
        fclose(f);
    return n;
}

static int round_up(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
        return 0;
    return (int)((quota + period - 1) / period);
}

static int limit_of(const char *folder, int version)
{
    char path[2 * PATH_MAX];
    long long quota = 0, period = 0, none;
    if (version == 2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        return read_numbers(path, &quota, &period) == 2 ? round_up(quota, period) : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (read_numbers(path, &quota, &none) < 1)
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_numbers(path, &period, &none) < 1 ? 0 : round_up(quota, period);
}

/* 0 is no limit. */
static int lower_limit(int a, int b) { return !a || (b && b < a) ? b : a; }

/* The least limit of a group and of those above it. In a container the groups above are not mounted, and the own one may be
 * mounted as the root. */
static int least_limit(const char *root, const char *group, int version)
{
    char folder[PATH_MAX];
    int least = 0;
    const int n = snprintf(folder, sizeof folder, "%s%s", root, group);
    if (n < 0 || (size_t)n >= sizeof folder)
        return 0;
    for (;;) {
        least = lower_limit(least, limit_of(folder, version));
        char *end = strrchr(folder, '/');
        if (!end || (size_t)(end - folder) < strlen(root))
            return least;
        *end = '\0';
    }
}

/* A line is NUMBER:CONTROLLERS:GROUP; version 2 names no controllers. */
static int limit_of_line(char *line, const char *root)
{
    char folder[PATH_MAX];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    controllers++;
    if (!*controllers)
        return least_limit(root, group, 2);
    if (!text_lists(controllers, "cpu"))
        return 0;
    snprintf(folder, sizeof folder, "%s/cpu", root);
    return least_limit(folder, group, 1);
}

int cgroup_cores(const char *list, const char *root)
{
    char line[PATH_MAX];
    int least = 0;
    FILE *f = fopen(list, "re");
    while (f && fgets(line, sizeof line, f))
        least = lower_limit(least, limit_of_line(line, root));
    if (f)
        fclose(f);
    return least;
}

int openmp_threads(int asked)
{
    const char *said = getenv("OMP_NUM_THREADS");
    if (asked <= 0 && said)
        asked = atoi(said);
    return asked > 0 ? asked : cores_of_process();
}

/* ---- what the library is told ---- */

static void limit_threads(void)
{
    char number[16];
    const int granted = cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    if (!granted || cores_of_process() <= granted)
        return;
    snprintf(number, sizeof number, "%d", granted);
    setenv("OMP_NUM_THREADS", number, 0);
}

void openmp_set_up(void)
{
    if (!getenv("OMP_WAIT_POLICY"))
        setenv("GOMP_SPINCOUNT", SPIN_ROUNDS, 0);
    if (!getenv("OMP_NUM_THREADS"))
        limit_threads();
}
