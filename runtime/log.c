/* See Note [Log of calls] in log.h. Compiled into the object that the back end merges into each of its own, as tvm_ffi.c is; it depends
 * on libc only. */
#include "runtime/log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the module: the back end emits them. */
extern LogListener *moec_log;
extern const char manifest[] __asm__("moec.manifest") __attribute__((weak));
extern const char program[] __asm__("moec.program") __attribute__((weak));

/* glibc before 2.34 has these in libdl; JIT code has libmoec's listener and needs neither. */
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlerror

int moec_logged(const char *kernel, moe_entry *entry, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    const LoggedCall call = {manifest, program, kernel, entry, ctx, dims, args};
    return moec_log(&call);
}

static LogListener *listener_of_libmoec(void)
{
    const char *named = secure_getenv("MOEC_LIBRARY");
    void *library = dlopen ? dlopen(named ? named : "libmoec.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;
    LogListener *found = library ? (LogListener *)(uintptr_t)dlsym(library, "moec_log_call") : NULL;
    if (!found)
        dprintf(2, "moec: calls are not logged, because " MOE_LOG_CALLS " needs libmoec: %s\n",
                dlopen ? dlerror() : "there is no dlopen()");
    return found;
}

/* The first call. */
static int find_listener(const LoggedCall *call)
{
    moec_log = listener_of_libmoec();
    return moec_log ? moec_log(call) : call->entry(call->ctx, call->dims, call->args);
}

__attribute__((constructor)) static void listen_when_asked(void)
{
    const char *folder = secure_getenv(MOE_LOG_CALLS);
    if (folder && *folder)
        moec_log = find_listener;
}
