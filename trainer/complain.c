#include "trainer/complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (isatty(STDERR_FILENO)) /* over a line of progress */
        fputs("\r" TERMINAL_CLEAR, stderr);
    fputs("moe-train: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 1;
}
