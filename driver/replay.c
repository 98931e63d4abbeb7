/* The replay file of an internal error, see Note [Replay]:
 *
 *     // moec replay
 *     // VERSIONS failed inside:
 *     // MESSAGE
 *     // product=N
 *     // OPTION=VALUE, one line for each option
 *     // text
 *     the text as it was */
#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

static const char first_line[] = "// moec replay\n", last_line[] = "// text\n", ending[] = ".replay";

int compile_is_replay(const char *path) { return text_ends(path, ending); }

/* ---- write ---- */

/* The host's instruction sets by name: the file may go to another computer. */
static const char *targets(const Compilation *c)
{
    Text t = {.arena = c->arena};
    for (uint32_t i = 0; i < c->isas.n; i++)
        text_add(&t, "%s%s", i ? "," : "", cpu_table[c->isas.at[i]].name);
    return c->isas.n ? text_string(&t) : c->options.target;
}

static const char *one_line(Arena *a, const char *text)
{
    char *line = arena_strdup(a, text);
    for (char *at = line; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    return line;
}

/* said: two lines for people. */
static Bytes replay_of(const Compilation *c, CompileOptions o, const char *verb, const char *said, Bytes text)
{
    Text t = {.arena = c->arena};
    o.target = targets(c);
    text_add(&t, "%s// moec %s (LLVM %s, build %s) %s\n// %s\n// product=%d\n", first_line, MOEC_VERSION,
             MOEC_LLVM_VERSION, plugin_build_id(c->arena), verb, one_line(c->arena, said), (int)c->product);
    options_print(&o, "// ", &t);
    text_add(&t, "%s", last_line);
    text_add_bytes(&t, text.at ? text.at : "", text.len);
    return (Bytes){text_string(&t), t.len};
}

const char *compile_program(Compilation *c, Bytes text)
{
    CompileOptions o = options_of_code(&c->options);
    o.machine = c->options.machine; /* these three the cache leaves alone */
    o.start_at = c->options.start_at;
    o.limit = c->options.limit;
    return replay_of(c, o, "compiled this:", "the text is what it read, printed", text).at;
}

static int write_replay(Compilation *c, void *user)
{
    const char **path = user;
    Output out = {.arena = c->arena};
    Bytes bytes = replay_of(c, c->options, "failed inside:", arena_message(c->arena), c->text);
    const char *name = arena_printf(c->arena, "%s%s", c->path, ending);
    if (output_add(&out, name, bytes, 0) || output_commit(&out))
        return DRIVER_ERROR;
    *path = name;
    return DRIVER_OK;
}

const char *compile_replay(Compilation *c)
{
    const char *path = NULL;
    return compile_guard(c, write_replay, &path) ? NULL : path;
}

void compile_leave_replay(Compilation *c, int status, FILE *out)
{
    const char *path = status == DRIVER_INTERNAL ? compile_replay(c) : NULL;
    if (path)
        fprintf(out, "moec: this is a bug of the compiler; `moec %s` repeats it\n", path);
    else if (status == DRIVER_INTERNAL)
        fprintf(out, "moec: this is a bug of the compiler; its replay file could not be written\n");
}

/* ---- read ---- */

static int take_product(Compilation *c, const char *value)
{
    int product = -1;
    for (int p = 0; p <= PRODUCT_COUNT; p++)
        if (strcmp(value, arena_printf(c->arena, "%d", p)) == 0)
            product = p;
    c->product = product < 0 ? c->product : (CompileProduct)product;
    return product >= 0;
}

/* "// NAME=VALUE"; the two lines for people at the beginning are none. */
static int take_line(Compilation *c, char *line)
{
    char *name = line + 3, *equals = strchr(line, '=');
    if (strncmp(line, "// ", 3) != 0 || !equals)
        return 0;
    *equals = '\0';
    return strcmp(name, "product") == 0 ? take_product(c, equals + 1)
                                        : options_take(&c->options, name, equals + 1, c->arena);
}

const char *compile_restore(Compilation *c, Bytes file)
{
    const char *at = file.at, *end = file.at + file.len;
    c->options = compile_defaults;
    if (compile_is_replay(c->path))
        c->path = arena_strndup(c->arena, c->path, strlen(c->path) - (sizeof ending - 1));
    for (int n = 0; at < end; n++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t len = next ? (size_t)(next + 1 - at) : (size_t)(end - at);
        if (n == 0 && (len != sizeof first_line - 1 || memcmp(at, first_line, len) != 0))
            break;
        if (len == sizeof last_line - 1 && memcmp(at, last_line, len) == 0) {
            c->text = (Bytes){at + len, (size_t)(end - at) - len};
            return NULL;
        }
        if (n > 2 && !take_line(c, arena_strndup(c->arena, at, len - 1)))
            return arena_printf(c->arena, "line %d is not of a replay file of this compiler", n + 1);
        at += len;
    }
    return "not a replay file";
}
