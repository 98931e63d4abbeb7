/* Jobs: one rank, for which nothing is loaded, or the ranks that a launcher started, with the engine's plug-in. */
#include "comm/own.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the plug-in ---- */

static const char *own_directory(Arena *a)
{
    char exe[PATH_MAX] = "";
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    return n > 0 ? arena_strndup(a, exe, (size_t)(strrchr(exe, '/') - exe)) : ".";
}

/* In a build tree, or an installation that may have been moved. MOEC_MPI names another one. */
static const char *find_plugin(Arena *a)
{
    static const char *const places[] = {"../lib/moec-mpi.so", "../" MOEC_LIBDIR "/moec/moec-mpi.so"};
    const char *named = getenv("MOEC_MPI"), *directory = own_directory(a);
    for (size_t i = 0; !named && i < sizeof places / sizeof *places; i++) {
        const char *path = arena_printf(a, "%s/%s", directory, places[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    return named;
}

/* Its symbols are global: the engine's own plug-ins look for them. */
static const WireTable *open_plugin(Arena *a, const char **error)
{
    const char *path = find_plugin(a);
    void *handle = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    const WireTable *table = handle ? dlsym(handle, "moe_wire") : NULL;
    if (table && table->version == WIRE_VERSION)
        return table;
    *error =
        !path ? "several ranks need MPI, and this build is without it: install libopenmpi-dev and build again"
        : handle ? arena_printf(a, "%s is of another version of this program", path)
                 : arena_printf(a, "%s", dlerror());
    return NULL;
}

/* ---- jobs ---- */

/* What launchers set for each rank. */
static const struct Launcher {
    const char *name;
    int is_sign, is_rank; /* that there is a job; the number of this rank */
} launchers[] = {{"OMPI_COMM_WORLD_SIZE", 1, 0},
                 {"OMPI_COMM_WORLD_RANK", 0, 1},
                 {"PMIX_RANK", 1, 1},
                 {"PMI_RANK", 1, 1},
                 {"PMI_SIZE", 1, 0}};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

int comm_is_launched(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (launchers[i].is_sign && getenv(launchers[i].name))
            return 1;
    return 0;
}

int64_t comm_launched_rank(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (launchers[i].is_rank && getenv(launchers[i].name))
            return strtoll(getenv(launchers[i].name), NULL, 10);
    return 0;
}

/* What is no number would be rank 0, or one rank, without a word. */
static const char *odd_launcher(Arena *a)
{
    for (int i = 0; i < LAUNCHERS; i++) {
        const char *text = getenv(launchers[i].name);
        if (text && (!*text || text[strspn(text, "0123456789")]))
            return arena_printf(a,
                                "%s is `%s`, and a launcher puts a whole number there: unset it for one rank",
                                launchers[i].name, text);
    }
    return NULL;
}

static int asks_for_several(const RanksAsked *k) { return k->tp > 1 || k->ep > 1 || k->dp > 1; }

/* Joins the ranks of the job; one rank is left alone. */
static const char *join(Arena *a, Comm *c)
{
    const char *error = odd_launcher(a);
    c->wire.ranks = 1, c->wire.timeout = c->options.timeout;
    if (!error && (comm_is_launched() || asks_for_several(&c->options.asked)))
        c->table = open_plugin(a, &error);
    if (error)
        return error;
    if (!comm_is_launched())
        c->table = NULL;
    return c->table && c->table->start(&c->wire) ? c->wire.error : NULL;
}

Comm *comm_open(Arena *a, const CommOptions *o, const char **error)
{
    Comm *c = arena_new_of(a, Comm);
    *c = (Comm){.options = *o};
    *error = join(a, c);
    if (*error)
        return NULL;
    c->rank = c->wire.rank;
    *error = ranks_plan(a, c->wire.ranks, &o->asked, &c->ranks);
    if (*error && c->wire.ranks == 1)
        *error = arena_printf(a, "%s: start as many ranks with `mpirun -n N`", *error);
    c->messages = arena_array(a, WireMessage, 2 * c->ranks.number);
    return *error ? NULL : c;
}

/* The engine's own end waits without a time-out, so all ranks meet before it. */
static int meet(Comm *c)
{
    char here = 1, *all = comm_scratch(c, c->ranks.number);
    return !all || comm_gather(c, "the end of the run", &here, 1, all);
}

void comm_close(Comm *c, int failed)
{
    if (c && c->table && (failed || meet(c))) {
        if (!failed && c->options.say)
            c->options.say("%s", c->error);
        c->table->abort(&c->wire, 1);
    } else if (c && c->table) {
        c->table->end(&c->wire);
    }
    if (c)
        free(c->scratch);
}

/* ---- questions ---- */

const Ranks *comm_ranks(const Comm *c) { return &c->ranks; }

int64_t comm_rank(const Comm *c) { return c->rank; }

const char *comm_engine(const Comm *c) { return c->table ? c->wire.engine : "none"; }

const char *comm_error(const Comm *c) { return c->error; }

CommTraffic comm_traffic(const Comm *c, GroupAxis axis) { return c->traffic[axis]; }

void comm_count_anew(Comm *c) { memset(c->traffic, 0, sizeof c->traffic); }

char *comm_scratch(Comm *c, int64_t bytes)
{
    if (bytes <= c->scratch_bytes)
        return c->scratch;
    char *grown = realloc(c->scratch, (size_t)bytes);
    if (!grown) {
        comm_fail(c, "no memory for an exchange of %lld bytes", (long long)bytes);
        return NULL;
    }
    c->scratch = grown, c->scratch_bytes = bytes;
    return grown;
}
