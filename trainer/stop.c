#include "trainer/stop.h"

#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t asked;

static void end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

static void ask(int number)
{
    if (asked)
        end_by(number);
    asked = number;
}

void stop_watch(void)
{
    struct sigaction a = {.sa_handler = ask, .sa_flags = SA_RESTART};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

int stop_asked(void) { return asked; }
const volatile int *stop_flag(void) { return &asked; }

void stop_ask(int number)
{
    if (number && !asked)
        asked = number;
}

void stop_leave(void)
{
    if (!asked)
        return;
    fflush(NULL);
    end_by(asked);
}
