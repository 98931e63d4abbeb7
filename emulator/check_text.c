/* What is wrong, in terms of the program. */
#include "emulator/check_own.h"

const char *checker_error(const Checker *c) { return c->error; }

static const char *place_text(const Checker *c)
{
    const Kernel *k = c->k;
    if (c->launch == NONE)
        return arena_printf(c->arena, "kernel %s", k->name);
    const Stmt *launch = &k->tiles->stmts.at[c->launch];
    return arena_printf(c->arena, "kernel %s, launch %s (line %u), item %lld on core %u", k->name,
                        launch->name, launch->loc.line, (long long)c->item, c->core);
}

void check_fail(Checker *c, const char *format, ...)
{
    if (c->error)
        return;
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(c->arena, format, args);
    va_end(args);
    c->error = arena_printf(c->arena, "%s: %s", place_text(c), text);
}

/* The buffer of the first store in a vector loop. */
static TensorId stored(const Kernel *k, StmtId first)
{
    tile_walk (w, k, first)
        if (w.s->kind == TILE_store && k->tensors.at[w.s->buffer].space != SPACE_REG)
            return w.s->buffer;
    return NONE;
}

const char *check_stmt_text(const Checker *c, StmtId id)
{
    const Kernel *k = c->k;
    const Stmt *s = &k->tiles->stmts.at[id];
    TensorId t = s->kind == TILE_for ? stored(k, s->first) : s->buffer;
    Text out = {.arena = c->arena};
    if (s->kind == TILE_for)
        text_add(&out, "`%s %s", loop_word((LoopMode)s->mode), k->indices.at[s->var].name);
    else if (s->kind == TILE_set || s->kind == TILE_wait)
        text_add(&out, "`%s %s -> %s", tile_name((TileKind)s->kind), unit_name((Unit)s->unit),
                 unit_name((Unit)s->other_unit));
    else
        text_add(&out, "`%s", tile_name((TileKind)s->kind));
    if (t != NONE)
        text_add(&out, s->kind == TILE_for ? " { %s }" : " %s", k->tensors.at[t].name);
    text_add(&out, "` (line %u)", s->loc.line);
    return text_string(&out);
}

const char *check_thread_text(const Checker *c, uint32_t thread)
{
    const char *unit = unit_name((Unit)(thread % UNIT_COUNT));
    uint32_t sub = thread / UNIT_COUNT;
    return sub ? arena_printf(c->arena, "%s of vector core %u", unit, sub - 1) : unit;
}

const char *check_element_text(const Checker *c, TensorId id, const Box *b)
{
    const Tensor *t = &c->k->tensors.at[id];
    Text out = {.arena = c->arena};
    text_add(&out, "%s[", t->name);
    if (t->rank > 2)
        text_add(&out, "%lld, ", (long long)b->matrix);
    if (t->rank > 1)
        text_add(&out, "%lld, ", (long long)b->i);
    text_add(&out, "%lld]", (long long)b->j);
    return text_string(&out);
}
