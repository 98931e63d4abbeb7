/* Descriptions of machines by name: those of the compiler, and files of users. */
#include "driver/driver.h"

#include <string.h>

enum { FILE_MAX = 1 << 20 };

static int is_json(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

const char *machine_open(Arena *a, const char *name, Description *out)
{
    const MachineText *t = machine_find(name);
    Bytes file;
    if (t)
        return machine_read(a, name, (const char *)t->json, t->len, out);
    if (!is_json(name))
        return arena_printf(
            a, "there is no machine '%s'; `moec machines` lists them, and NAME.json is read from a file",
            name);
    const char *error = output_read_file(name, FILE_MAX, a, &file);
    return error ? error : machine_read(a, name, file.at, file.len, out);
}
