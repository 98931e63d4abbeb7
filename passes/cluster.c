/* cluster: equations that one loop can compute become neighbours that one launch computes.
 *
 * requires: final equations, checks explicit     gives: Equation.cluster, Kernel.clusters
 * before:  m[i] = b * m[i] + c * g[i]             w[i] = w[i] - r * m[i]
 * after:   the same, in one epilogue: m and g are read once
 *
 * Note [Clusters] in ir/equation.h says what a cluster is. */
#include "passes/cluster.h"
#include "passes/epilogue.h"

void pass_cluster(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        cluster_scatters(m->kernels.at[i], c);
        cluster_rowblocks(m->kernels.at[i], c);
        epilogue_clusters(m->kernels.at[i], c);
    }
}
