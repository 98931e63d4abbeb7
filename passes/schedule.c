/* Choices that a schedule block, or else the machine or a rule, makes for a kernel. */
#include "passes/schedule.h"
#include "passes/query.h"

#include <string.h>

/* ---- clauses ---- */

/* Is `asked`, a tensor or index of k or NULL for any, called `name` in a clause? */
static int is_called(const Kernel *k, Name name, Name asked)
{
    TensorId t = asked && name != asked ? ir_find_tensor(k, asked) : (TensorId)NONE;
    return !asked || name == asked || (t != NONE && k->tensors.at[t].original == name);
}

static int names(const Kernel *k, const Clause *c, Name name, Name reader)
{
    int named = c->names.len == 0, read = c->readers.len == 0;
    for (uint32_t i = 0; i < c->names.len; i++)
        named |= is_called(k, c->names.at[i].name, name);
    for (uint32_t i = 0; i < c->readers.len; i++)
        read |= is_called(k, c->readers.at[i].name, reader);
    return named && read;
}

/* What the blocks of `kernel`, k or its origin, say. */
static const Setting *find_in(const Kernel *k, Name kernel, Knob knob, Name name, Name reader)
{
    const Module *m = k->module;
    for (uint32_t s = 0; s < m->schedules.len; s++) {
        const Schedule *block = &m->schedules.at[s];
        for (uint32_t i = 0; block->kernel == kernel && i < block->clauses.len; i++) {
            const Clause *c = &block->clauses.at[i];
            for (uint32_t n = 0; names(k, c, name, reader) && n < c->settings.len; n++)
                if (c->settings.at[n].knob == knob)
                    return &c->settings.at[n];
        }
    }
    return NULL;
}

/* Whoever reads it. */
static const Setting *find(const Kernel *k, Knob knob, Name name)
{
    const Setting *own = find_in(k, k->name, knob, name, NULL);
    return own || !k->derived ? own : find_in(k, k->derived->kernel, knob, name, NULL);
}

/* ---- values ---- */

/* A number that depends on the seed and on what is asked, not on the order of questions. */
static uint64_t draw(const PassContext *c, const Kernel *k, const ReportKnob *n)
{
    uint64_t h = hash_bytes(k->name, strlen(k->name), c->schedule_seed);
    h = hash_bytes(n->name ? n->name : "", n->name ? strlen(n->name) : 0, h);
    h = hash_bytes(n->reader ? n->reader : "", n->reader ? strlen(n->reader) : 0, h);
    return hash_bytes(&n->knob, sizeof n->knob, h);
}

static void draw_value(const PassContext *c, const Kernel *k, ReportKnob *n)
{
    int64_t space[KNOB_SPACE_MAX];
    uint32_t count = n->from ? n->from->values.len : knob_space(n->knob, space);
    const KnobRow *row = &knob_table[n->knob];
    int64_t least = row->lo ? row->lo : row->step;
    while (!n->from && (space[count - 1] > DRAWN_MOST * least || space[count - 1] > row->keeps))
        count--;
    const int64_t *values = n->from ? n->from->values.at : space;
    n->value = values[draw(c, k, n) % count];
    n->origin = ORIGIN_SEED;
}

/* The value of a knob whose value without a block, of this origin, is in *n; reported. */
static int64_t settle(const PassContext *c, const Kernel *k, ReportKnob n)
{
    if (n.from) {
        n.value = n.from->values.at[0];
        n.origin = ORIGIN_SCHEDULE;
    }
    if (c->schedule_seed && (!n.from || n.from->values.len > 1))
        draw_value(c, k, &n);
    report_knob(c->report, k, n);
    return n.value;
}

/* ---- blocks and strips ---- */

typedef Vec(TensorId) TensorList;

void schedule_fused(Kernel *k, TensorId from, TensorId to)
{
    if (from == NONE || to == NONE)
        return;
    for (uint32_t i = 0; i < k->moved.len; i++)
        if (k->moved.at[i].from == from && k->moved.at[i].to == to)
            return;
    vec_push(k->module->arena, &k->moved, (struct Moved){from, to});
}

static void add_once(Arena *a, TensorList *list, TensorId t)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (list->at[i] == t)
            return;
    vec_push(a, list, t);
}

/* Tensors whose clauses are about what the launch of lhs computes: lhs, the other members of its epilogue (`all`: of its
 * cluster), and over what moved there the locals whose sums stand in them. The nearest first. */
static TensorList computed_with(const Kernel *k, TensorId lhs, int all)
{
    Arena *a = k->module->arena;
    TensorList out = {0};
    uint32_t cluster = NONE;
    add_once(a, &out, lhs);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!q->dead && q->lhs == lhs && q->cluster != NONE &&
            (all || k->clusters.at[q->cluster].kind == CLUSTER_EPILOGUE))
            cluster = q->cluster;
    }
    for (uint32_t i = 0; cluster != NONE && i < k->eqs.len; i++)
        if (!k->eqs.at[i].dead && k->eqs.at[i].cluster == cluster)
            add_once(a, &out, k->eqs.at[i].lhs);
    for (uint32_t i = 0; i < out.len; i++)
        for (uint32_t n = 0; n < k->moved.len; n++)
            if (k->moved.at[n].to == out.at[i])
                add_once(a, &out, k->moved.at[n].from);
    return out;
}

/* What the nearest clause says, else `otherwise`. */
static int64_t nearest(const PassContext *c, const Kernel *k, Knob knob, TensorId lhs, int64_t otherwise)
{
    ReportKnob n = {.knob = knob, .name = k->tensors.at[lhs].name, .value = otherwise};
    TensorList about = computed_with(k, lhs, knob_table[knob].scope == SCOPE_LAUNCH);
    n.origin = knob_table[knob].source == SOURCE_MACHINE ? ORIGIN_MACHINE : ORIGIN_RULE;
    for (uint32_t i = 0; i < about.len; i++) {
        const Tensor *t = &k->tensors.at[about.at[i]];
        vec_push(k->module->arena, &n.names, t->original ? t->original : t->name);
        if (!n.from)
            n.from = find(k, knob, t->name);
    }
    return settle(c, k, n);
}

const Machine *schedule_machine(const PassContext *c, const Kernel *k)
{
    return c->machine ? c->machine : machine_host(k->module->arena);
}

Blocks schedule_usual(const PassContext *c, const Kernel *k, BlocksOf of, int alone, uint32_t products)
{
    const ProductBlocks *b = &schedule_machine(c, k)->of_isa[c->isa];
    const Blocks of_kind[] = {[BLOCKS_GIVEN] = b->given_blocks,
                              [BLOCKS_GIVEN_GROUPS] = b->group_blocks,
                              [BLOCKS_GROUP_PANELS] = b->group_panel_blocks,
                              [BLOCKS_IN_PLACE] = alone ? b->plain_place_blocks : b->place_blocks,
                              [BLOCKS_OTHER] = b->blocks};
    Blocks usual = of_kind[of];
    if (!usual.rows)
        usual = b->blocks;
    if (alone && usual.plain_rows)
        usual.rows = usual.plain_rows;
    if (products > 1)
        usual.cols = usual.cols / products / LAYOUT_EDGE * LAYOUT_EDGE;
    if (usual.cols < LAYOUT_EDGE)
        usual.cols = LAYOUT_EDGE;
    return usual;
}

int64_t schedule_rows(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual)
{
    return nearest(c, k, KNOB_tile_m, lhs, usual);
}

int64_t schedule_cols(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual)
{
    return nearest(c, k, KNOB_tile_n, lhs, usual);
}

int64_t schedule_depth(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual)
{
    return nearest(c, k, KNOB_tile_k, lhs, usual);
}

int64_t schedule_part(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual)
{
    return nearest(c, k, KNOB_part, lhs, usual);
}

RightFrom schedule_right(const PassContext *c, const Kernel *k, TensorId lhs, RightFrom usual)
{
    return (RightFrom)nearest(c, k, KNOB_right, lhs, usual);
}

int64_t schedule_prepack(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_prepack, lhs, knob_table[KNOB_prepack].otherwise);
}

int schedule_sums_in_block(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_sums, lhs, knob_table[KNOB_sums].otherwise) == 1;
}

int schedule_multiplies_f32(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_multiply, lhs, knob_table[KNOB_multiply].otherwise) == 1;
}

const Setting *schedule_blocks_given(const Kernel *k, TensorId lhs)
{
    static const Knob knobs[] = {KNOB_tile_m, KNOB_tile_n, KNOB_tile_k};
    TensorList about = computed_with(k, lhs, 0);
    for (uint32_t i = 0; i < about.len; i++)
        for (size_t n = 0; n < sizeof knobs / sizeof *knobs; n++) {
            const Setting *given = find(k, knobs[n], k->tensors.at[about.at[i]].name);
            if (given)
                return given;
        }
    return NULL;
}

int64_t schedule_band(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_band, lhs, knob_table[KNOB_band].otherwise);
}

int64_t schedule_strip(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual)
{
    return nearest(c, k, KNOB_strip, lhs, usual ? usual : knob_table[KNOB_strip].otherwise);
}

int64_t schedule_writes(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_writes, lhs, knob_table[KNOB_writes].otherwise);
}

int64_t schedule_ahead(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_ahead, lhs, knob_table[KNOB_ahead].otherwise);
}

int64_t schedule_threads(const PassContext *c, const Kernel *k, TensorId lhs)
{
    return nearest(c, k, KNOB_threads, lhs, knob_table[KNOB_threads].otherwise);
}

/* ---- the rest ---- */

/* What the blocks of `kernel` say of an edge. */
static FuseRequest request_in(const Kernel *k, Name kernel, ReportKnob *n)
{
    n->from = find_in(k, kernel, KNOB_fuse, n->name, n->reader);
    if (n->from)
        return FUSE_WANTED;
    n->from = find_in(k, kernel, KNOB_store, n->name, NULL);
    return n->from ? FUSE_NEVER : FUSE_MAY;
}

static FuseRequest request_of(const Kernel *k, ReportKnob *n)
{
    FuseRequest request = request_in(k, k->name, n);
    return n->from || !k->derived ? request : request_in(k, k->derived->kernel, n);
}

int schedule_stores(const PassContext *c, const Kernel *k, Name producer)
{
    ReportKnob n = {.knob = KNOB_store, .name = producer, .value = 1, .origin = ORIGIN_SCHEDULE};
    if (request_of(k, &n) != FUSE_NEVER)
        return 0;
    report_knob(c->report, k, n);
    return 1;
}

FuseRequest schedule_fuses(const PassContext *c, const Kernel *k, Name producer, Name consumer)
{
    ReportKnob n = {.knob = KNOB_fuse, .name = producer, .reader = consumer, .origin = ORIGIN_RULE};
    FuseRequest request = request_of(k, &n);
    if (n.from)
        n.origin = ORIGIN_SCHEDULE;
    else if (c->schedule_seed) {
        request = draw(c, k, &n) % 2 ? FUSE_MAY : FUSE_NEVER;
        n.origin = ORIGIN_SEED;
    }
    n.value = request != FUSE_NEVER;
    if (request == FUSE_WANTED && n.from->values.at[0] == AT_SCATTER) {
        n.value = AT_SCATTER;
        request = FUSE_SCATTER;
    }
    report_knob(c->report, k, n);
    return request;
}

/* About index `name`, or the whole kernel. */
static int64_t by_rule(const PassContext *c, const Kernel *k, Knob knob, Name name, int64_t otherwise)
{
    ReportKnob n = {.knob = knob, .name = name, .value = otherwise, .origin = ORIGIN_RULE};
    if (name)
        vec_push(k->module->arena, &n.names, name);
    n.from = find(k, knob, name);
    return settle(c, k, n);
}

int64_t schedule_rowblock_rows(const PassContext *c, const Kernel *k, const Cluster *rowblock)
{
    int64_t usual = rowblock->usual_rows ? rowblock->usual_rows : knob_table[KNOB_rowblock].otherwise;
    return by_rule(c, k, KNOB_rowblock, rowblock->row == NONE ? NULL : k->indices.at[rowblock->row].name,
                   usual);
}

int64_t schedule_span(const PassContext *c, const Kernel *k, IndexId row)
{
    return by_rule(c, k, KNOB_span, k->indices.at[row].name, knob_table[KNOB_span].otherwise);
}

int64_t schedule_columns(const PassContext *c, const Kernel *k, IndexId row)
{
    return by_rule(c, k, KNOB_columns, k->indices.at[row].name, knob_table[KNOB_columns].otherwise);
}

int schedule_keeps_running(const PassContext *c, const Kernel *k, IndexId row)
{
    return by_rule(c, k, KNOB_softmax, k->indices.at[row].name, knob_table[KNOB_softmax].otherwise) == 0;
}

const Setting *schedule_copies_given(const Kernel *k, Knob space) { return find(k, space, NULL); }

int64_t schedule_copies(const PassContext *c, const Kernel *k, Knob space)
{
    return by_rule(c, k, space, NULL, knob_table[space].otherwise);
}

int schedule_shuffles(const PassContext *c, const Kernel *k)
{
    return by_rule(c, k, KNOB_terms, NULL, knob_table[KNOB_terms].otherwise) == 1;
}

int schedule_heaviest_first(const PassContext *c, const Kernel *k)
{
    return by_rule(c, k, KNOB_order, NULL, knob_table[KNOB_order].otherwise) == 0;
}

uint32_t schedule_operand_cost(const PassContext *c, const Kernel *k, ExprId factor)
{
    return !pass_traits(c)->packs_all && query_unpacks(k, factor) ? UNPACKED_COST : OPERAND_COST;
}
