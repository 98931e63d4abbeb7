/* Pages that nobody may touch, beside the memory of a call: what is read there, too, is found. */
#include "testing/parts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static unsigned char *up_to_page(unsigned char *at)
{
    uintptr_t page = page_bytes();
    return at + (page - (uintptr_t)at % page) % page;
}

/* The first block's low page stands behind `align` bytes at least, so that all have one before them. */
Fenced fenced_memory(Arena *a, size_t bytes, size_t align, FencePlace place)
{
    size_t page = page_bytes(), room = (bytes + 2 * FENCE_CANARY + page - 1) / page * page;
    unsigned char *block = arena_alloc(a, room + 3 * page);
    Fenced f = {.low = up_to_page(block) + page, .bytes = bytes};
    f.high = f.low + room;
    memset(f.low, FENCE_BYTE, room);
    f.at = place == FENCE_BEFORE  ? f.low
           : place == FENCE_AFTER ? f.high - bytes
                                  : f.low + FENCE_CANARY + align;
    return f;
}

static int holds_pattern(const unsigned char *from, const unsigned char *to)
{
    while (from < to && *from == FENCE_BYTE)
        from++;
    return from == to;
}

int fenced_is_intact(const Fenced *f)
{
    return holds_pattern(f->low, f->at) && holds_pattern(f->at + f->bytes, f->high);
}

/* ---- one call ---- */

/* What the handler of a fault looks into; one call at a time is fenced. */
static struct {
    const Fence *fence;
    struct sigaction before;
} now;

/* A fault at a fence ends the process: the call may stand in any of its threads. What is no fence's faults again. */
static void at_fault(int sig, siginfo_t *info, void *context)
{
    const unsigned char *at = info->si_addr;
    size_t page = page_bytes();
    (void)context;
    for (uint32_t i = 0; i < now.fence->n; i++) {
        const Fenced *f = &now.fence->memory[i];
        int below = at >= f->low - page && at < f->low, above = at >= f->high && at < f->high + page;
        if (!below && !above)
            continue;
        char text[512];
        int n =
            snprintf(text, sizeof text, "moec: internal error: kernel %s touches memory %zu bytes %s %s\n",
                     now.fence->kernel, (size_t)(below ? f->at - at : at - (f->at + f->bytes)),
                     below ? "before" : "behind the end of", f->name);
        ssize_t written = write(STDERR_FILENO, text, n > 0 && n < (int)sizeof text ? (size_t)n : 0);
        (void)written;
        _exit(DRIVER_INTERNAL);
    }
    sigaction(sig, &now.before, NULL);
}

static void protect(const Fence *fence, int how)
{
    size_t page = page_bytes();
    for (uint32_t i = 0; i < fence->n; i++) {
        mprotect(fence->memory[i].low - page, page, how);
        mprotect(fence->memory[i].high, page, how);
    }
}

void fence_raise(const Fence *fence)
{
    struct sigaction action = {.sa_sigaction = at_fault, .sa_flags = SA_SIGINFO};
    now.fence = fence;
    protect(fence, PROT_NONE);
    sigaction(SIGSEGV, &action, &now.before);
}

void fence_lower(const Fence *fence)
{
    sigaction(SIGSEGV, &now.before, NULL);
    protect(fence, PROT_READ | PROT_WRITE);
}
