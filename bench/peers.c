#include "bench/peers.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Libraries that are opened when they are there, beside the program or where the loader looks. */
static struct PeerRow {
    const char *name, *library, *package;
    void *handle;
    const Peer *peer;
} rows[] = {
    {"oneDNN", "moe-bench-onednn.so", "libdnnl-dev", NULL, NULL},
    {"OpenBLAS", "moe-bench-openblas.so", "libopenblas-dev", NULL, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool torch;

void peers_begin(const Options *o)
{
    if (!o->peers)
        return;
    char threads
        [16]; /* libraries that start their threads at once, and OpenMP libraries other than ours, read these */
    snprintf(threads, sizeof threads, "%d", o->threads);
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("OMP_NUM_THREADS", threads, 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1); /* 2^20 cycles: its threads spin no longer than others' */
    for (int i = 0; i < ROWS; i++) {
        rows[i].handle = dlopen(rows[i].library, RTLD_NOW | RTLD_LOCAL);
        rows[i].peer = rows[i].handle ? dlsym(rows[i].handle, "peer") : NULL;
    }
    torch = torch_begin() == 0;
}

static void print_missing(const char *name, const char *package, const char *then, FILE *out)
{
    fprintf(out, "         no %s: scripts/deps bench installs it (Debian's %s)%s\n", name, package, then);
}

void peers_print(const Bench *b, FILE *out)
{
    if (!b->options.peers) {
        fprintf(out, "peers    none, as asked\n");
        return;
    }
    fprintf(out, "peers   ");
    for (int i = 0; i < ROWS; i++)
        if (rows[i].peer)
            fprintf(out, " %s %s;", rows[i].name, rows[i].peer->version());
    fprintf(out, torch ? " PyTorch %s\n" : "\n", torch_version());
    for (int i = 0; i < ROWS; i++)
        if (!rows[i].peer)
            print_missing(rows[i].name, rows[i].package, ", then scripts/build", out);
    if (!torch)
        print_missing("PyTorch", "python3-torch", "", out);
}

void peers_end(void)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].handle)
            dlclose(rows[i].handle);
    torch_end();
}

static void add_way(void *to, const char *who, const char *way, TimeCalls *time, void *self,
                    void (*drop)(void *))
{
    Case *c = to;
    memory_drop(&c->memory, drop, self);
    case_runner(c, PEER, c->threads, who, way, time, self);
}

void peers_product(Case *c, const PeerProduct *p)
{
    for (int i = 0; i < ROWS && !c->kind->alone && !c->kind->gain; i++)
        if (rows[i].peer)
            rows[i].peer->product(p, add_way, c);
}

void peers_torch(Case *c, const char *what, const moe_route *route)
{
    if (torch && !c->kind->alone && !c->kind->gain)
        torch_ask(c, what, route);
}

void peers_forget(void)
{
    if (torch)
        torch_forget();
}
