#include "bench/peers.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct Row {
    const char *name, *library, *package;
    void *handle;
    const Peer *peer;
} Row;

static Row rows[] = {
    {"oneDNN", "moe-bench-onednn.so", "libdnnl-dev", NULL, NULL},
    {"OpenBLAS", "moe-bench-openblas.so", "libopenblas-dev", NULL, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

void peers_begin(Bench *b, FILE *out)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* else it starts threads for all cores, which spin */
    for (int i = 0; i < ROWS && b->options.peers; i++) {
        Row *r = &rows[i];
        r->handle = dlopen(r->library, RTLD_NOW | RTLD_LOCAL);
        r->peer = r->handle ? dlsym(r->handle, "peer") : NULL;
        if (r->peer)
            fprintf(out, "peer    %s %s\n", r->name, r->peer->version());
        else
            fprintf(out,
                    "peer    %s is missing: Debian package %s (scripts/deps bench), then scripts/build\n",
                    r->name, r->package);
    }
}

void peers_end(void)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].handle)
            dlclose(rows[i].handle);
}

static void add_way(void *to, const char *who, const char *way, TimeCalls *time, void *self,
                    void (*drop)(void *))
{
    Case *c = to;
    memory_drop(&c->memory, drop, self);
    case_runner(c, who, way, time, self);
}

void peers_product(Case *c, const Product *p)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].peer)
            rows[i].peer->product(p, add_way, c);
}
