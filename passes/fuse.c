/* fuse: a local that its readers can just as well compute goes into them.
 *
 * requires: checks explicit, canonical     gives: fewer locals in memory
 * before:  xp[r, h] = x[rt.token(r), h]
 *          g[r, f] = sum(h) xp[r, h] * w[@r, h, f]
 *          y[r, f] = bf16(relu(g[r, f]))
 * after:   y[r, f] = bf16(relu(sum(h) x[rt.token(r), h] * w[@r, h, f]))
 *
 * The rules, one function each, are in passes/fuse_rules.c. Every edge from a local to a reader is reported,
 * fused or not. */
#include "passes/fuse.h"
#include "passes/join.h"
#include "passes/query.h"

#include <string.h>

uint32_t fuse_parts(const Equation *q, ExprId *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        out[n++] = q->index[i];
    if (q->rhs != NONE)
        out[n++] = q->rhs;
    if (q->guard != NONE)
        out[n++] = q->guard;
    return n;
}

/* ---- what holds for every rule ---- */

static int plain_lhs(const Kernel *k, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind != X_INDEX)
            return 0;
    return 1;
}

/* Would the producer's value be another one at equation `at`, because something it reads is written before?
 * The reader itself counts when it writes in place. */
static int is_stale(const Producer *p, uint32_t at)
{
    for (uint32_t i = p->at + 1; i <= at; i++)
        if (!p->f->k->eqs.at[i].dead && order_writes_into(&p->f->order, i, p->at))
            return 1;
    return 0;
}

/* NEVER as soon as one reader shall not have it; else what most is asked for. */
static FuseRequest request_of(const Producer *p)
{
    const Kernel *k = p->f->k;
    FuseRequest all = FUSE_MAY;
    for (uint32_t r = 0; r < p->readers.len; r++) {
        const Equation *reader = &k->eqs.at[p->readers.at[r]];
        if (reader->kind == EQ_CHECK || reader->kind == EQ_ROUTE)
            continue;
        FuseRequest one =
            schedule_fuses(p->f->c, k, k->tensors.at[p->local].name, k->tensors.at[reader->lhs].name);
        if (one == FUSE_NEVER)
            return one;
        all = one > all ? one : all;
    }
    return all;
}

/* Is it rows that a route picks, and the operand of a sum? */
static int is_routed_operand(const Producer *p)
{
    const Kernel *k = p->f->k;
    int routed = 0;
    each_below (x, k, k->eqs.at[p->at].rhs, EVERYWHERE)
        routed |= x_at(k, *x)->kind == X_TOKEN || x_at(k, *x)->kind == X_SLOT || x_at(k, *x)->kind == X_ROW;
    for (uint32_t r = 0; routed && r < p->readers.len; r++) {
        Nodes nodes = x_below(k, k->eqs.at[p->readers.at[r]].rhs, EVERYWHERE);
        for (uint32_t i = 0; i < nodes.n; i++)
            if (x_at(k, nodes.at[i])->kind == X_REDUCE && x_loads(k, nodes.at[i], p->local))
                return 1;
    }
    return 0;
}

/* Does the equation read an element at a computed place? */
static int looks_up(const Kernel *k, const Equation *q)
{
    each_below (x, k, q->rhs, EVERYWHERE)
        for (uint32_t a = 0; x_at(k, *x)->kind == X_LOAD && a < x_at(k, *x)->nargs; a++)
            each_below (y, k, x_arg(k, *x, a), EVERYWHERE)
                if (x_at(k, *y)->kind == X_LOAD)
                    return 1;
    return 0;
}

/* NULL, or why the local must stand in memory whatever the rule. */
static const char *must_stand(const Producer *p)
{
    const Fuse *f = p->f;
    const Kernel *k = f->k;
    const Equation *q = &k->eqs.at[p->at];
    if (q->kind != EQ_ASSIGN)
        return "top is searched in memory";
    if (!plain_lhs(k, q))
        return "it is defined in parts";
    for (uint32_t r = 0; r < p->readers.len; r++) {
        const Equation *reader = &k->eqs.at[p->readers.at[r]];
        if (reader->kind == EQ_ROUTE)
            return "a route is made of it";
        if (is_stale(p, p->readers.at[r]))
            return "what it reads is written before its reader";
        if (!pass_traits(f->c)->lookups && query_has_reduce(k, q->rhs) && looks_up(k, reader))
            return "an NPU's vector unit reduces rows, but looks no element up";
    }
    if (!pass_traits(f->c)->routed_packs && p->request != FUSE_WANTED && is_routed_operand(p))
        return "an NPU moves rows that a route picks one by one: better once than for each block of columns";
    return p->request == FUSE_NEVER ? "the schedule stores it" : NULL;
}

/* ---- the substitution ---- */

static ExprId put_in(Kernel *k, ExprId e, void *user)
{
    const Producer *p = user;
    if (x_at(k, e)->kind != X_LOAD || x_at(k, e)->sym != p->local)
        return e;
    const Equation *q = &k->eqs.at[p->at];
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++) {
        from[i] = x_at(k, q->index[i])->sym;
        to[i] = x_arg(k, e, i);
    }
    return x_substitute(k, q->rhs, from, to, q->nindex);
}

static void put_into_reader(Producer *p, uint32_t at)
{
    Kernel *k = p->f->k;
    Equation q = k->eqs.at[at];
    for (uint32_t n = 0; n < q.nindex; n++)
        q.index[n] = x_rewrite(k, q.index[n], put_in, p);
    q.rhs = x_rewrite(k, q.rhs, put_in, p);
    q.guard = x_rewrite(k, q.guard, put_in, p);
    k->eqs.at[at] = q;
}

/* A sum over neighbouring axes goes over them as one (lower/join.c), unless something in it takes them apart. */
static const char *takes_apart(Producer *p)
{
    Kernel *k = p->f->k;
    for (uint32_t r = 0; r < p->readers.len; r++) {
        Equation q = k->eqs.at[p->readers.at[r]];
        uint32_t joined = q.rhs == NONE ? 0 : join_in_sums(k, &q);
        if (joined == 0)
            continue;
        q.rhs = x_rewrite(k, q.rhs, put_in, p);
        if (join_in_sums(k, &q) < joined)
            return "it would take axes apart that a sum goes over as one";
    }
    return NULL;
}

static void put_into_readers(Producer *p)
{
    for (uint32_t r = 0; r < p->readers.len; r++) {
        put_into_reader(p, p->readers.at[r]);
        schedule_fused(p->f->k, p->local, p->f->k->eqs.at[p->readers.at[r]].lhs);
        order_refresh(&p->f->order, p->readers.at[r]);
    }
    p->f->k->eqs.at[p->at].dead = 1;
}

/* ---- peers ---- */

typedef Vec(uint32_t) FusePlaces;

/* The readers, and everybody who computes the same sums as they or the producer do. */
static FusePlaces team_of(const Producer *p)
{
    const Fuse *f = p->f;
    FusePlaces out = {0};
    for (uint32_t i = 0, r = 0; i < f->k->eqs.len; i++) {
        int member = r < p->readers.len && p->readers.at[r] == i;
        r += (uint32_t)member;
        for (uint32_t j = 0; !member && f->peers[i] != NONE && j <= p->readers.len; j++)
            member = f->peers[j < p->readers.len ? p->readers.at[j] : p->at] == f->peers[i];
        if (member && i != p->at && !f->k->eqs.at[i].dead)
            vec_push(f->k->module->scratch, &out, i);
    }
    return out;
}

static int same_space(const Kernel *k, const FusePlaces *peers)
{
    for (uint32_t i = 1; i < peers->len; i++)
        if (!epilogue_same_space(k, &k->eqs.at[peers->at[0]], &k->eqs.at[peers->at[i]]))
            return 0;
    return 1;
}

/* Puts the value into all readers if these, and who shares sums with them, can then be one epilogue. NULL, or
 * why not. */
static const char *put_into_team(Producer *p)
{
    Fuse *f = p->f;
    Kernel *k = f->k;
    FusePlaces peers = team_of(p);
    if (peers.len > 1 && !same_space(k, &peers))
        return "its readers do not run over the same elements";
    Equation *before = arena_array(k->module->scratch, Equation, peers.len + 1);
    for (uint32_t i = 0; i < peers.len; i++)
        before[i] = k->eqs.at[peers.at[i]];
    put_into_readers(p);
    if (peers.len > 1)
        epilogue_rename(k, peers.at, peers.len);
    for (uint32_t i = 0; i < peers.len; i++)
        order_refresh(&f->order, peers.at[i]);
    const char *why = peers.len > 1 ? epilogue_blocks(&f->order, peers.at, peers.len) : NULL;
    if (!why && p->request != FUSE_WANTED && epilogue_mixes(k, f->c, peers.at, peers.len))
        why = "a product of matrices and another sum, which this machine computes by another unit";
    k->eqs.at[p->at].dead = why == NULL;
    for (uint32_t i = 0; i < peers.len; i++) {
        if (why)
            k->eqs.at[peers.at[i]] = before[i];
        else if (peers.len > 1)
            f->peers[peers.at[i]] = p->at;
        order_refresh(&f->order, peers.at[i]);
    }
    return why;
}

/* ---- the walk ---- */

static void report(const Producer *p, const char *rule, const char *why)
{
    Kernel *k = p->f->k;
    for (uint32_t r = 0; p->f->c->report && r < p->readers.len; r++) {
        const Equation *q = &k->eqs.at[p->readers.at[r]];
        ReportEdge e = {.producer = k->tensors.at[p->local].name, .loc = q->loc, .rule = rule, .why = why};
        if (q->kind == EQ_CHECK)
            continue;
        e.consumer = q->kind == EQ_ROUTE ? k->routes.at[q->route].name : k->tensors.at[q->lhs].name;
        e.saved = epilogue_bytes(k, p->local);
        if (r == 0) /* written once, read by each */
            e.saved = ext_add(k->module, e.saved, e.saved);
        report_edge(p->f->c->report, k, e);
    }
}

/* By the first rule that allows it; else why each rule that is about such a producer does not. */
static int fuse_by_rules(Producer *p, const char **why)
{
    Arena *a = p->f->k->module->arena;
    for (uint32_t i = 0; i < fuse_rule_count; i++) {
        const FuseRule *rule = &fuse_rules[i];
        if (!rule->matches(p))
            continue;
        const char *no = rule->blocks(p);
        if (!no && rule->peers)
            no = put_into_team(p);
        else if (!no && !(no = takes_apart(p)))
            put_into_readers(p);
        if (!no) {
            report(p, rule->name, NULL);
            return 1;
        }
        *why = *why ? arena_printf(a, "%s; %s", *why, no) : no;
    }
    return 0;
}

/* Tells of a local that a rule would rather not take in, but could. */
static void offer(Producer p)
{
    const Kernel *k = p.f->k;
    int could = 0;
    p.request = FUSE_WANTED;
    for (uint32_t i = 0; i < fuse_rule_count; i++)
        could |= fuse_rules[i].matches(&p) && !fuse_rules[i].peers && !fuse_rules[i].blocks(&p);
    for (uint32_t r = 0; could && r < p.readers.len; r++)
        if (k->eqs.at[p.readers.at[r]].kind != EQ_CHECK)
            report_choice(p.f->c->report, k,
                          (ReportChoice){k->tensors.at[p.local].name,
                                         k->tensors.at[k->eqs.at[p.readers.at[r]].lhs].name, 0});
}

static void fuse_local(Fuse *f, uint32_t at)
{
    Kernel *k = f->k;
    Producer p = {.f = f, .at = at, .local = k->eqs.at[at].lhs};
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (i != at && !k->eqs.at[i].dead && order_reads(&f->order, i, p.local))
            vec_push(k->module->scratch, &p.readers, i);
    if (p.readers.len == 0)
        return;
    p.request = request_of(&p);
    const char *why = must_stand(&p);
    if (!why && x_written_nodes(k, k->eqs.at[at].rhs, NODES_IN_ONE) > NODES_IN_ONE)
        why = "it would make its reader too long";
    int stands = why != NULL;
    if (!stands && fuse_by_rules(&p, &why))
        return;
    report(&p, NULL, why ? why : "storing an integer checks its range");
    if (!stands && f->c->report)
        offer(p);
}

/* Rounds: whether a product has one operand is known when the epilogues are. */
static void fuse_kernel(Kernel *k, const PassContext *c)
{
    Fuse f = {.k = k, .c = c, .order = order_of(k)};
    f.peers = arena_array(k->module->arena, uint32_t, k->eqs.len + 1);
    memset(f.peers, 0xff, sizeof *f.peers * k->eqs.len);
    for (uint32_t round = 0; round < FUSE_ROUNDS; round++)
        for (uint32_t i = 0; i < k->eqs.len; i++) {
            const Equation *q = &k->eqs.at[i];
            int defines = q->kind == EQ_ASSIGN || q->kind == EQ_TOP;
            ArenaMark mark = arena_mark(k->module->scratch);
            if (!q->dead && defines && k->tensors.at[q->lhs].role == ROLE_LOCAL)
                fuse_local(&f, i);
            arena_release(k->module->scratch, mark);
        }
    ir_compact(k);
}

void pass_fuse(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        fuse_kernel(m->kernels.at[i], c);
}
