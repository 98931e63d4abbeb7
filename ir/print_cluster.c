/* A cluster as a comment above its equations: reading makes none, the pass does. */
#include "ir/print.h"

static const char *separator(uint32_t *n) { return (*n)++ ? ", " : " "; }

static int is_first(const Kernel *k, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (!k->eqs.at[i].dead && k->eqs.at[i].cluster == k->eqs.at[at].cluster)
            return 0;
    return 1;
}

static void put_members(const Kernel *k, uint32_t cluster, Text *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->dead || q->cluster != cluster)
            continue;
        text_add(out, "%s%s", separator(&n), k->tensors.at[q->lhs].name);
        if (q->kind == EQ_TOP)
            text_add(out, ", %s", k->tensors.at[q->ids].name);
    }
}

static void put_placed(const Kernel *k, uint32_t cluster, Text *out)
{
    uint32_t n = 0;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].placed == cluster + 1)
            text_add(out, "%s%s", n ? separator(&n) : (n++, "; thread-local: "), k->tensors.at[t].name);
}

static uint32_t members(const Kernel *k, uint32_t cluster)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        n += !k->eqs.at[i].dead && k->eqs.at[i].cluster == cluster;
    return n;
}

static void put_scatter(const Kernel *k, uint32_t at, Text *out)
{
    text_add(out, "  // scatter: %s into %s\n", k->tensors.at[k->eqs.at[at].lhs].name,
             k->tensors.at[k->eqs.at[at + 1].lhs].name);
}

static void put_rowblock(const Kernel *k, uint32_t cluster, Text *out)
{
    const Cluster *c = &k->clusters.at[cluster];
    uint32_t n = 0;
    text_add(out, "  // row blocks over %s%s", k->indices.at[c->row].name, c->nouter ? " for" : "");
    for (uint32_t i = 0; i < c->nouter; i++)
        text_add(out, "%s%s", separator(&n), k->indices.at[c->outer[i]].name);
    text_add(out, "%s:", !c->carries ? "" : c->nouter ? ", in order" : ", in parts");
    put_members(k, cluster, out);
    put_placed(k, cluster, out);
    text_add(out, "\n");
}

void print_cluster(const Kernel *k, uint32_t at, Text *out)
{
    uint32_t cluster = k->eqs.at[at].cluster;
    if (cluster == NONE || !is_first(k, at))
        return;
    switch (k->clusters.at[cluster].kind) {
    case CLUSTER_EPILOGUE: text_add(out, "  // one epilogue: %u equations\n", members(k, cluster)); break;
    case CLUSTER_ROWBLOCK: put_rowblock(k, cluster, out); break;
    case CLUSTER_SCATTER: put_scatter(k, at, out); break;
    }
}
