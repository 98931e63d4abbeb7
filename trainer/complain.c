#include "trainer/complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "comm/comm.h"

static int64_t own_rank;

void complain_as(int64_t rank) { own_rank = rank; }

int on_terminal(int fd) { return isatty(fd) && !comm_is_launched(); }

static int print(const char *format, va_list args)
{
    if (on_terminal(STDERR_FILENO)) /* over a line of progress */
        fputs("\r" TERMINAL_CLEAR, stderr);
    fputs("moe-train: ", stderr);
    if (own_rank)
        fprintf(stderr, "rank %lld: ", (long long)own_rank);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    return 1;
}

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(format, args);
    va_end(args);
    return 1;
}

/* In which the end of the first rank ends the job. */
enum { FIRST_RANK_SECONDS = 5 };

int complain_alike(const char *format, ...)
{
    va_list args;
    if (own_rank && sleep(FIRST_RANK_SECONDS) > 0) /* the launcher's signal: the first rank has said it */
        return 1;
    va_start(args, format);
    print(format, args);
    va_end(args);
    return 1;
}

int complain_once(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!own_rank)
        print(format, args);
    va_end(args);
    return 1;
}
