#include "trainer/complain.h"

#include <stdarg.h>
#include <stdio.h>

int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("moe-train: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 1;
}
