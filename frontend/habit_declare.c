/* What people write who know other languages, in declarations; see habit.c. */
#include "frontend/advice.h"

#include "moe_parser.h"

static int is_in_dim(const Advice *a, uint32_t word)
{
    while (word > 0 && !a->words.at[word].first)
        word--;
    return advice_is(a, word, KW_DIM);
}

/* dim T E K */
int habit_names(Advice *a)
{
    if (!advice_is(a, a->at, NAME) || !advice_is(a, a->at - 1, NAME) || a->words.at[a->at].first ||
        !is_in_dim(a, a->at) || advice_named(a, a->at, "prefer"))
        return 0;
    for (uint32_t i = a->at; advice_is(a, i, NAME) && !a->words.at[i].first; i++)
        advice_edit(a, i - 1, i - 1, ADVICE_TEXT("%s,", advice_text(a, i - 1, i - 1)));
    return advice_with(a, "names are listed with commas between them", "write the commas");
}

/* dim T, and the next declaration */
static int habit_comma_at_end(Advice *a)
{
    if (!a->words.at[a->at].first || !advice_is(a, a->at - 1, ',') || !is_in_dim(a, a->at - 1))
        return 0;
    a->place = a->at - 1;
    advice_edit(a, a->at - 1, a->at - 1, "");
    return advice_with(a, "no name follows this comma", "remove it");
}

/* What is written for a rule of a dim where the word `at` cannot stand: in front of it, or instead of it. */
static const char *dim_rule_text(const Advice *a, int *instead)
{
    const uint32_t at = a->at;
    *instead = advice_is(a, at, EQ);
    if (advice_is(a, at, EQ))
        return "=";
    if (advice_is(a, at, '%'))
        return ":";
    if (advice_named(a, at, "prefer"))
        return advice_is(a, at - 1, ':') ? "% 1" : ": % 1";
    return advice_is(a, at, INTEGER) && advice_is(a, at - 1, ':') ? "%" : NULL;
}

/* The rules of a dim, that stand in another order, are more than one can have, or are for some of its names. */
int habit_dim(Advice *a)
{
    const uint32_t at = a->at;
    static const char rules[] =
        "behind the names of a `dim` stand their rules: <= MAX, : % N prefer M, = CONST, in this order";
    if (habit_comma_at_end(a))
        return 1;
    if (a->words.at[at].first || !is_in_dim(a, at) || advice_is(a, at - 1, KW_DIM))
        return 0;
    if (advice_is(a, at, ',')) {
        advice_edit(a, at, at, "\ndim");
        return advice_with(a, "the rules of a `dim` are for all its names, and end it",
                           "begin another `dim`");
    }
    if (advice_is(a, at, '<'))
        return advice_with(a, rules, "write the largest size: <= MAX");
    if (advice_is(a, at, '>') || advice_is(a, at, GE))
        return advice_with(a, rules, "remove it: a size may be anything from 0 on");
    int instead;
    const char *text = dim_rule_text(a, &instead);
    if (!text)
        return advice_with(a, rules, "write them as in dim T <= 4096 : % 16 prefer 256");
    advice_edit(a, at, instead ? at : at - 1, ADVICE_TEXT(instead ? "%s" : "%s ", text));
    return advice_with(a, rules, ADVICE_TEXT("write `%s`", text));
}

static const char *type_at(const Advice *a, uint32_t word)
{
    int kind = word < a->words.len ? a->words.at[word].kind : MOE_EOF;
    if (parser_is_elem(kind))
        return advice_text(a, word, word);
    return kind == NAME ? habit_type(advice_text(a, word, word)) : NULL;
}

/* in f32[T] x, in float x[T] */
int habit_type_first(Advice *a)
{
    uint32_t type = a->at;
    while (type > 0 && !type_at(a, type) && a->at - type < 16 && !advice_is(a, type, '('))
        type--;
    int role = type > 0 && (advice_is(a, type - 1, KW_IN) || advice_is(a, type - 1, KW_OUT) ||
                            advice_is(a, type - 1, KW_INOUT));
    if (!type_at(a, type) || !role)
        return 0;
    uint32_t extents = type + 1, name = advice_is(a, extents, '[') ? advice_closing(a, extents) + 1 : extents;
    if (!advice_is(a, name, NAME))
        return 0;
    uint32_t last = advice_is(a, name + 1, '[') ? advice_closing(a, name + 1) : name;
    if (last == NO_WORD)
        return 0;
    const char *shape = name > extents ? advice_text(a, extents, name - 1)
                        : last > name  ? advice_text(a, name + 1, last)
                                       : "";
    a->place = type;
    advice_edit(a, type, last, ADVICE_TEXT("%s: %s%s", advice_text(a, name, name), type_at(a, type), shape));
    return advice_with(a, "the type follows its name", "write the name, `:` and the type");
}

/* The `(` of the kernel's parameters that this word stands in; NO_WORD: in none. */
static uint32_t parameters_around(const Advice *a, uint32_t word)
{
    uint32_t open = advice_enclosing(a, word);
    int is_kernel = open != NO_WORD && open > 1 && advice_is(a, open, '(') && advice_is(a, open - 1, NAME) &&
                    advice_is(a, open - 2, KW_KERNEL);
    return is_kernel ? open : NO_WORD;
}

static int is_role(const Advice *a, uint32_t word)
{
    return advice_is(a, word, KW_IN) || advice_is(a, word, KW_OUT) || advice_is(a, word, KW_INOUT);
}

/* `) -> y: f32[T] {` as `, out y: f32[T]) {`; a result without a name cannot be written anew. */
static void edit_result(Advice *a, uint32_t close)
{
    uint32_t name = close + 2, end = name;
    while (end < a->words.len && !advice_is(a, end, '{') && !advice_is(a, end, MOE_EOF))
        end++;
    if (advice_is(a, close + 1, ARROW) && advice_is(a, name, NAME) && advice_is(a, name + 1, ':') &&
        advice_is(a, end, '{'))
        advice_edit(a, close, end - 1, ADVICE_TEXT(", out %s)", advice_text(a, name, end - 1)));
}

/* kernel f(x: f32[T]) */
int habit_role(Advice *a)
{
    uint32_t open = parameters_around(a, a->at), close = open == NO_WORD ? NO_WORD : advice_closing(a, open);
    int begins = advice_is(a, a->at - 1, '(') || advice_is(a, a->at - 1, ',');
    if (close == NO_WORD || !advice_is(a, a->at, NAME) || !begins)
        return 0;
    int wanted = 1; /* a parameter begins here, or goes on with names of one type */
    for (uint32_t i = open + 1; i < close; i++) {
        if (wanted && !is_role(a, i))
            advice_edit(a, i, i - 1, "in ");
        wanted = 0;
        while (i < close && !advice_is(a, i, ':')) /* the names */
            i++;
        while (i < close && !advice_is(a, i, ',')) /* the type */
            i = advice_is(a, i, '[') ? advice_closing(a, i) + 1 : i + 1;
        wanted = advice_is(a, i, ',');
    }
    edit_result(a, close);
    return advice_with(a, "a parameter begins with `in`, `out` or `inout`",
                       "say what the kernel does with it");
}

/* kernel f(...) -> f32[T] { ... } */
int habit_result(Advice *a)
{
    if (!advice_is(a, a->at, ARROW) || !advice_is(a, a->at - 1, ')'))
        return 0;
    edit_result(a, a->at - 1);
    return advice_with(a, "a kernel returns nothing: it writes its `out` parameters",
                       "add a parameter for the result, as in out y: f32[T]");
}

/* fn f(x) { return x } */
int habit_function_body(Advice *a)
{
    uint32_t close =
        advice_is(a, a->at, '{') && advice_is(a, a->at - 1, ')') ? advice_closing(a, a->at) : NO_WORD;
    uint32_t open = close != NO_WORD ? advice_opening(a, a->at - 1) : NO_WORD;
    if (open == NO_WORD || open < 2 || !advice_is(a, open - 2, KW_FN))
        return 0;
    uint32_t first = a->at + (advice_named(a, a->at + 1, "return") ? 2 : 1),
             last = close - (advice_is(a, close - 1, ';') ? 2 : 1);
    if (first <= last)
        advice_edit(a, a->at, close, ADVICE_TEXT("= %s", advice_text(a, first, last)));
    return advice_with(a, "a function is one expression, behind `=`", "write `=` and the expression");
}

/* ---- derive ---- */

/* The name in a save list behind which `as TYPE` is missing, or is `as route`; or NO_WORD. */
static uint32_t saved_name(const Advice *a)
{
    uint32_t as_route = advice_is(a, a->at, KW_ROUTE) && a->at > 1 && advice_named(a, a->at - 1, "as"),
             name = a->at - (as_route ? 2 : 1), i = name;
    if (name < 2 || name >= a->words.len || !advice_is(a, name, NAME) ||
        (!advice_named(a, name - 1, "save") && !advice_is(a, name - 1, ',')))
        return NO_WORD;
    while (i > 0 && !advice_named(a, i, "save") && !parser_begins_declaration(a->words.at[i].kind))
        i--;
    int in_list = advice_named(a, i, "save");
    while (i > 0 && !parser_begins_declaration(a->words.at[i].kind))
        i--;
    return in_list && advice_is(a, i, KW_DERIVE) ? name : NO_WORD;
}

/* Is this declared somewhere as `rt: route[...]`, or made by `rt = route(id)`? */
static int is_route(const Advice *a, const char *name)
{
    for (uint32_t i = 0; i + 2 < a->words.len; i++)
        if (advice_named(a, i, name) && advice_is(a, i + 2, KW_ROUTE) &&
            (advice_is(a, i + 1, ':') || advice_is(a, i + 1, '=')))
            return 1;
    return 0;
}

/* Without the words first..last of a save list, the comma beside them, and `save` if nothing is left. */
static void take_out(Advice *a, uint32_t first, uint32_t last)
{
    if (advice_is(a, first - 1, ',') || !advice_is(a, last + 1, ','))
        advice_edit(a, first - 2, last, advice_text(a, first - 2, first - 2));
    else
        advice_edit(a, first, last + 2, advice_text(a, last + 2, last + 2));
}

/* save rt, save rt as route, save g */
int habit_save(Advice *a)
{
    uint32_t name = saved_name(a);
    if (name == NO_WORD)
        return 0;
    const char *text = advice_text(a, name, name);
    a->place = name;
    if (is_route(a, text) || advice_is(a, a->at, KW_ROUTE)) {
        take_out(a, name, name == a->at - 1 ? name : a->at);
        return advice_with(a, ADVICE_TEXT("%s " SAVED_ROUTE, text), SAVED_ROUTE_HELP);
    }
    return advice_with(a, ADVICE_TEXT("nothing says as what %s is saved", text),
                       ADVICE_TEXT("write its type behind it, as in %s as bf16", text));
}

int habit_unopened(Advice *a)
{
    if (!advice_is(a, a->at, '}') || advice_enclosing(a, a->at) != NO_WORD)
        return 0;
    advice_edit(a, a->at, a->at, "");
    return advice_with(
        a, "this `}` closes no `{`",
        "remove it: outside of braces a file has `use`, `type`, `dim`, `group`, `fn`, `kernel`, "
        "`derive`, `schedule` and `test`");
}
