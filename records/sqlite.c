#include "records/sqlite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static Sqlite functions;
static int found;

static void find(void)
{
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL), *at;
    found = library != NULL;
#define FUNCTION(name)                                    \
    at = found ? dlsym(library, "sqlite3_" #name) : NULL; \
    found = at != NULL;                                   \
    memcpy(&functions.name, &at, sizeof at);
    SQLITE_FUNCTIONS(FUNCTION)
}

const Sqlite *sqlite_find(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return found ? &functions : NULL;
}
