/* Declarations of a module: their names, extents, dimensions and groups. */
#include "frontend/sema.h"

/* ---- names ---- */

static int taken(Sema *c, AstName name, const char *what, const NameMap *map)
{
    if (namemap_get(map, name.name) == NAME_ABSENT)
        return 0;
    diag_add(c->m->diags, DIAG_duplicate_name, name.loc, "give one of them another name",
             "%s %s is declared already", what, name.name);
    return 1;
}

static int c_word(Sema *c, AstName name, const char *what)
{
    if (!name_is_c_word(name.name))
        return 0;
    diag_add(c->m->diags, DIAG_reserved_name, name.loc,
             arena_printf(c->arena, "choose another name, such as %s", name_for_c(c->arena, name.name)),
             "%s cannot be called %s: C or C++ takes that name", what, name.name);
    return 1;
}

int sema_too_many(Sema *c, Loc loc, uint32_t count, const char *what)
{
    if (count < MAX_DECLARED)
        return 0;
    if (count == MAX_DECLARED)
        diag_add(c->m->diags, DIAG_program_size, loc, "split the file", "more than %d %s", MAX_DECLARED,
                 what);
    return 1;
}

int sema_kernel_name(Sema *c, AstName name)
{
    if (taken(c, name, "kernel", &c->kernels) || taken(c, name, "kernel", &c->derived) ||
        c_word(c, name, "a kernel"))
        return 0;
    const char *why = name_is_c_function(name.name) ? "the C library has a function of that name"
                      : name_is_of_library(name.name)
                          ? "moec_, omp_ and GOMP_ begin names that its library has or calls"
                          : NULL;
    if (why)
        diag_add(c->m->diags, DIAG_reserved_name, name.loc,
                 arena_printf(c->arena, "choose another name, such as my_%s", name.name),
                 "a kernel cannot be called %s: %s", name.name, why);
    return why == NULL;
}

/* ---- extents ---- */

static int overflowed(Sema *c, const AstExpr *e, Extent x)
{
    const ExtentForm *f = &c->m->extents.at[x];
    const ExtentForm *folded = &c->m->extents.at[f->folded];
    int bad = 0;
    for (uint32_t i = 0; i < f->nterms; i++)
        bad |= f->terms[i].coef == INT64_MAX || f->terms[i].coef == INT64_MIN || f->terms[i].ndims > MAX_RANK;
    for (uint32_t i = 0; i < folded->nterms; i++)
        bad |= folded->terms[i].coef == INT64_MAX || folded->terms[i].coef == INT64_MIN;
    bad |= f->nterms > 64;
    if (bad)
        diag_add(c->m->diags, DIAG_number_range, e->loc, "write a smaller extent",
                 "this extent does not fit 64 bits");
    return bad;
}

static int refuse_name(Sema *c, const AstExpr *e)
{
    Guess g = guess_new(e->name.name);
    for (uint32_t i = 0; i < c->m->dims.len; i++)
        guess_try(&g, c->m->dims.at[i].name);
    int group = namemap_get(&c->groups, e->name.name) != NAME_ABSENT;
    const char *help = "declare it above";
    if (group)
        diag_add(c->m->diags, DIAG_bad_extent, e->loc, "use the group as a whole axis",
                 "%s is a group, not a number; it stands only as a whole axis", e->name.name);
    else if (!c->broken)
        diag_add(c->m->diags, DIAG_unknown_dim, e->loc, guess_help(c->arena, &g, help),
                 "there is no dimension %s", e->name.name);
    if (!group && !c->broken)
        guess_edit(c->m->diags, &g, e->loc);
    if (!group && !c->broken && !g.best && c->declaration)
        diag_edit(c->m->diags, (Loc){c->declaration->loc.file, c->declaration->loc.line, 1, 0},
                  arena_printf(c->arena, "dim %s\n", e->name.name));
    return 0;
}

static int extent_of_op(Sema *c, const AstExpr *e, Extent *out)
{
    Extent a, b = ext_const(c->m, 0);
    if (!sema_extent(c, e->args[0], &a) || (e->nargs > 1 && !sema_extent(c, e->args[1], &b)))
        return 0;
    *out = e->op == OP_add   ? ext_add(c->m, a, b)
           : e->op == OP_sub ? ext_sub(c->m, a, b)
           : e->op == OP_neg ? ext_sub(c->m, b, a)
                             : ext_mul(c->m, a, b);
    return !overflowed(c, e, *out);
}

int sema_extent(Sema *c, const AstExpr *e, Extent *out)
{
    int arithmetic =
        e->kind == AST_OP && (e->op == OP_add || e->op == OP_sub || e->op == OP_mul || e->op == OP_neg);
    if (arithmetic)
        return extent_of_op(c, e, out);
    if (e->kind == AST_INT) {
        *out = ext_const(c->m, e->integer);
        return !overflowed(c, e, *out);
    }
    if (e->kind == AST_NAME) {
        uint32_t dim = namemap_get(&c->dims, e->name.name);
        if (dim == NAME_ABSENT)
            return refuse_name(c, e);
        *out = ext_dim(c->m, dim);
        return 1;
    }
    if (e->kind != AST_BAD)
        diag_add(c->m->diags, DIAG_bad_extent, e->loc, "write a product or sum of dimensions and integers",
                 "an extent is made of dimensions, integers and + - * only");
    return 0;
}

int sema_axis(Sema *c, const AstExpr *e, Axis *out)
{
    out->group = e->kind == AST_NAME ? namemap_get(&c->groups, e->name.name) : NAME_ABSENT;
    if (out->group != NAME_ABSENT) {
        out->extent = c->m->groups.at[out->group].rows;
        return 1;
    }
    out->group = NONE;
    if (!sema_extent(c, e, &out->extent))
        return 0;
    int64_t value;
    if (!ext_is_const(c->m, out->extent, &value) || value >= 0)
        return 1;
    diag_add(c->m->diags, DIAG_number_range, e->loc, "write an extent of at least 0",
             "the extent %lld is negative", (long long)value);
    return 0;
}

/* ---- dim and group ---- */

/* A dimension whose rule is wrong is declared nevertheless, so that nothing is said about its uses. */
static void check_dim_rule(Sema *c, const AstDecl *d)
{
    int64_t multiple = d->multiple.value > 0 ? d->multiple.value : 1;
    if (d->multiple.value == 0 || d->prefer.value == 0)
        diag_add(c->m->diags, DIAG_number_range, d->multiple.value == 0 ? d->multiple.loc : d->prefer.loc,
                 "write at least 1", "a dimension cannot be a multiple of 0");
    else if (d->constant.value >= 0 &&
             (d->constant.value % multiple != 0 || (d->max.value >= 0 && d->constant.value > d->max.value)))
        diag_add(c->m->diags, DIAG_number_range, d->constant.loc, "change the constant or the rule",
                 "the constant %lld does not meet the dimension's own rule", (long long)d->constant.value);
}

void sema_dim(Sema *c, const AstDecl *d)
{
    check_dim_rule(c, d);
    for (uint32_t i = 0; i < d->names->list.len; i++) {
        AstName name = d->names->list.at[i];
        if (sema_too_many(c, name.loc, c->m->dims.len, "dimensions"))
            return;
        if (taken(c, name, "dimension", &c->dims) || taken(c, name, "group", &c->groups))
            continue;
        if (c_word(c, name, "a dimension")) {
            c->broken = 1; /* names that lead to it are not reported again */
            continue;
        }
        Dim dim = {.name = name.name, .loc = name.loc, .constant = d->constant.value, .max = d->max.value};
        dim.multiple = d->multiple.value > 0 ? d->multiple.value : 1;
        dim.prefer = d->prefer.value > 0 ? d->prefer.value : 1;
        namemap_set(&c->dims, name.name, c->m->dims.len);
        vec_push(c->arena, &c->m->dims, dim);
    }
}

void sema_group(Sema *c, const AstDecl *d)
{
    Group g = {.name = d->name.name, .loc = d->name.loc, .kind = d->group_kind};
    if (taken(c, d->name, "dimension", &c->dims) || taken(c, d->name, "group", &c->groups) ||
        sema_too_many(c, d->loc, c->m->groups.len, "groups") || !sema_extent(c, d->groups, &g.groups) ||
        !sema_extent(c, d->size, &g.size)) {
        c->broken = 1; /* names that lead to it are not reported again */
        return;
    }
    g.rows = g.kind == GROUP_CAPACITY ? ext_mul(c->m, g.groups, g.size) : g.size;
    if (overflowed(c, d->size, g.rows))
        return;
    namemap_set(&c->groups, d->name.name, c->m->groups.len);
    vec_push(c->arena, &c->m->groups, g);
}

/* ---- fn ---- */

int sema_add_function(Sema *c, const AstDecl *d)
{
    const char *what = namemap_get(&c->types, d->name.name) == NAME_ABSENT ? "function" : "type";
    if (taken(c, d->name, what, &c->functions) || sema_too_many(c, d->loc, c->fns.len, "functions"))
        return 0;
    namemap_set(&c->functions, d->name.name, c->fns.len);
    vec_push(c->arena, &c->fns, (Fn){.decl = d, .state = FN_NEW, .type = TYPE_PLAIN});
    return 1;
}
