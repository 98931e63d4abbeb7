/* What people write who know other languages, and what there is instead. Each habit looks at the words around the one that cannot
 * stand where it does, and fills in message, help and edits; whether the edits work is tried (Note [Tried]). */
#include "frontend/advice.h"

#include "moe_parser.h"

#include <string.h>

static int in_body(const Advice *a) { return a->p->in_body || a->p->was_in_body; }

static int begins_statement(const Advice *a, uint32_t word)
{
    return word > 0 &&
           (a->words.at[word].first || advice_is(a, word - 1, '{') || advice_is(a, word - 1, ';'));
}

static int is_reduction(const Advice *a, uint32_t word)
{
    return advice_is(a, word, KW_SUM) || advice_is(a, word, KW_MAX) || advice_is(a, word, KW_MIN);
}

/* ---- choices ---- */

/* c ? x : y */
static int habit_question(Advice *a)
{
    if (!advice_is(a, a->at, '?'))
        return 0;
    uint32_t first = advice_first(a, a->at), colon = advice_last(a, a->at + 1) + 1,
             last = advice_last(a, colon + 1);
    if (first < a->at && advice_is(a, colon, ':') && last > colon)
        advice_edit(a, first, last,
                    ADVICE_TEXT("if(%s, %s, %s)", advice_text(a, first, a->at - 1),
                                advice_text(a, a->at + 1, colon - 1), advice_text(a, colon + 1, last)));
    return advice_with(a, "there is no `?`: a choice is a call of `if`",
                       "write the condition, then both values: if(c, x, y)");
}

/* x if c else y */
static int habit_if_behind(Advice *a)
{
    if (!advice_is(a, a->at, KW_IF) || !advice_ends_value(a, a->at - 1) || begins_statement(a, a->at))
        return 0;
    uint32_t first = advice_first(a, a->at), otherwise = a->at + 1;
    while (otherwise < a->words.len && !advice_named(a, otherwise, "else"))
        otherwise++;
    if (first < a->at && otherwise + 1 < a->words.len && !a->words.at[otherwise].first)
        advice_edit(a, first, advice_last(a, otherwise + 1),
                    ADVICE_TEXT("if(%s, %s, %s)", advice_text(a, a->at + 1, otherwise - 1),
                                advice_text(a, first, a->at - 1),
                                advice_text(a, otherwise + 1, advice_last(a, otherwise + 1))));
    return advice_with(a, "`if` does not follow its value: a choice is a call of `if`",
                       "write the condition, then both values: if(c, x, y)");
}

/* if (c) { ... } as a statement */
static int habit_if_statement(Advice *a)
{
    if (!advice_is(a, a->at, KW_IF) || !begins_statement(a, a->at))
        return 0;
    return advice_with(a, "an equation cannot be under an `if`: it holds for all elements",
                       "put the choice into its value, as in y[t] = if(x[t] > 0, x[t], 0)");
}

/* where(c, x, y) */
static int habit_where_call(Advice *a)
{
    if (!advice_is(a, a->at, KW_WHERE) || !advice_is(a, a->at + 1, '('))
        return 0;
    advice_edit(a, a->at, a->at, "if");
    return advice_with(a, "`where` is the condition of a reduction: a choice is a call of `if`",
                       "write `if`");
}

/* a < b < c */
static int is_relation(const Advice *a, uint32_t word)
{
    int kind = a->words.at[word].kind;
    return kind == '<' || kind == '>' || kind == LE || kind == GE || kind == EQ || kind == NE;
}

static int habit_chain(Advice *a)
{
    uint32_t first = advice_first(a, a->at), before = first;
    while (before < a->at && !is_relation(a, before))
        before++;
    if (!is_relation(a, a->at) || before + 1 >= a->at) /* there is nothing between them */
        return 0;
    advice_edit(a, a->at, a->at - 1, ADVICE_TEXT("and %s ", advice_text(a, before + 1, a->at - 1)));
    return advice_with(a, "comparisons do not go on: each has two sides", "join two comparisons by `and`");
}

/* ---- reductions ---- */

/* The `sum`, `max` or `min` that holds no indices, or that no term follows: around the word, before it, or at the end of the
 * statement before the one whose `=` it is. */
static uint32_t reduction_without_term(const Advice *a)
{
    uint32_t open = advice_enclosing(a, a->at), name = a->at;
    if (open != NO_WORD && open > 0 && is_reduction(a, open - 1))
        return open - 1;
    if (advice_is(a, a->at, '=') || advice_is(a, a->at, ADD_TO))
        name = advice_value_before(a, a->at - 1);
    open = name != NO_WORD && name > 0 && advice_is(a, name - 1, ')') ? advice_opening(a, name - 1) : NO_WORD;
    return open != NO_WORD && open > 0 && is_reduction(a, open - 1) ? open - 1 : NO_WORD;
}

enum { PARTS = 8 };

/* The first words of what has commas between it, and behind them two past the last word; returns how many there are, 0 where
 * one has no word. */
static uint32_t parts_of(const Advice *a, uint32_t open, uint32_t first[PARTS + 1])
{
    uint32_t n = 0, close = advice_closing(a, open);
    if (close == NO_WORD || close == open + 1)
        return 0;
    first[n++] = open + 1;
    for (uint32_t i = open + 1; i < close; i++) {
        i = advice_is(a, i, '(') || advice_is(a, i, '[') ? advice_closing(a, i) : i;
        if (advice_is(a, i, ',') && n < PARTS)
            first[n++] = i + 1;
    }
    first[n] = close + 1;
    for (uint32_t i = 0; i < n; i++)
        if (first[i + 1] == first[i] + 1)
            return 0;
    return n;
}

static const char *part(const Advice *a, const uint32_t first[], uint32_t i)
{
    return advice_text(a, first[i], first[i + 1] - 2);
}

/* max(a, b, c) as max2(a, max2(b, c)) */
static const char *pairs(const Advice *a, const char *function, const uint32_t first[], uint32_t n)
{
    const char *text = part(a, first, n - 1);
    for (uint32_t i = n - 1; i-- > 0;)
        text = ADVICE_TEXT("%s(%s, %s)", function, part(a, first, i), text);
    return text;
}

/* sum(x[t, h]), sum(x[t, h], h), sum(h, x[t, h]) as sum(h) x[t, h]; NULL: it is not clear what was meant. */
static const char *index_and_term(const Advice *a, const char *function, const uint32_t first[], uint32_t n)
{
    uint32_t term = n == 2 && first[1] - first[0] == 2 ? 1 : 0, end = first[term + 1] - 2;
    const char *index = NULL;
    if (n == 2 && first[2 - term] - first[1 - term] == 2 && advice_is(a, first[1 - term], NAME))
        index = part(a, first, 1 - term);
    else if (advice_is(a, end, ']') && advice_is(a, end - 1, NAME))
        index = advice_text(a, end - 1, end - 1);
    return index && end > first[term] ? ADVICE_TEXT("%s(%s) %s", function, index, part(a, first, term))
                                      : NULL;
}

/* Is part i a name that is a subscript in part j? */
static int is_index_of(const Advice *a, const uint32_t first[], uint32_t i, uint32_t j)
{
    if (first[i + 1] - first[i] != 2 || !advice_is(a, first[i], NAME))
        return 0;
    for (uint32_t word = first[j]; word + 1 < first[j + 1]; word++)
        if (advice_is(a, word, NAME) && strcmp(a->words.at[word].name, a->words.at[first[i]].name) == 0)
            return 1;
    return 0;
}

static int habit_reduction(Advice *a)
{
    uint32_t first[PARTS + 1], word = reduction_without_term(a),
                               n = word == NO_WORD ? 0 : parts_of(a, word + 1, first);
    if (n == 0)
        return 0;
    const char *function = advice_text(a, word, word), *text = index_and_term(a, function, first, n);
    int named = n == 2 && (is_index_of(a, first, 0, 1) || is_index_of(a, first, 1, 0));
    a->place = word;
    if (!advice_is(a, word, KW_SUM) && n > 1 && !(named && text)) {
        function = ADVICE_TEXT("%s2", function);
        advice_edit(a, word, first[n] - 1, pairs(a, function, first, n));
        return advice_with(
            a,
            ADVICE_TEXT("`%s` goes over an index: of values it is %s", advice_text(a, word, word), function),
            ADVICE_TEXT("write `%s`", function));
    }
    if (text)
        advice_edit(a, word, first[n] - 1, text);
    return advice_with(a,
                       ADVICE_TEXT("`%s` takes indices in its brackets, and its term follows them", function),
                       text ? "write the index, then the term"
                            : ADVICE_TEXT("write the index, then the term, as in %s(h) x[t, h]", function));
}

/* sum[h] x, sum h x */
static int habit_reduction_brackets(Advice *a)
{
    if (a->at == 0 || !is_reduction(a, a->at - 1) || advice_is(a, a->at, '('))
        return 0;
    const char *word = advice_text(a, a->at - 1, a->at - 1);
    if (advice_is(a, a->at, '[') && advice_closing(a, a->at) != NO_WORD) {
        advice_edit(a, a->at, a->at, "(");
        advice_edit(a, advice_closing(a, a->at), advice_closing(a, a->at), ")");
    } else if (advice_is(a, a->at, NAME)) {
        advice_edit(a, a->at, a->at, ADVICE_TEXT("(%s)", advice_text(a, a->at, a->at)));
    }
    return advice_with(a, ADVICE_TEXT("the indices of `%s` are in brackets", word),
                       "put them between brackets, the term behind these");
}

/* sum(h = 0:H), sum(h in 0..H) */
static int habit_range(Advice *a)
{
    uint32_t open = advice_enclosing(a, a->at), from = a->at;
    if (open == NO_WORD || open == 0 || !is_reduction(a, open - 1) || !advice_is(a, open + 1, NAME) ||
        a->at != open + 2)
        return 0;
    while (from < a->words.len && !advice_is(a, from, ':') && !advice_is(a, from, ')'))
        from++;
    if (!advice_is(a, a->at, '='))
        return 0;
    if (advice_is(a, from, ':'))
        advice_edit(a, a->at, from, ": ");
    return advice_with(a, "an index has no bounds here: it ranges over its axis, from 0",
                       "write its extent, as in sum(h: H)");
}

/* The first word of the statement that the mistake is in, when it follows a value on the same line; or the word itself. */
static uint32_t beside(const Advice *a)
{
    uint32_t i = a->at;
    int value =
        advice_is(a, i, NAME) || advice_is(a, i, INTEGER) || advice_is(a, i, REAL) || advice_is(a, i, '(');
    if (value && !a->words.at[i].first && advice_ends_value(a, i - 1))
        return i;
    i = advice_ends_value(a, i - 1) ? advice_value_before(a, i - 1) : NO_WORD;
    return i != NO_WORD && i > 0 && advice_is(a, i, NAME) && advice_ends_value(a, i - 1) ? i : NO_WORD;
}

static int no_reduction(Advice *a, const char *function)
{
    const char *instead = habit_absent(function);
    return advice_with(
        a, ADVICE_TEXT("there is no reduction %s: there are sum, max and min", function),
        instead ? instead : "write it with sum, max or min, or put a sign between the call and what follows");
}

/* mean(h where h < n) x[t, h], mean(h: 3) x[t + h]: of what looks like a call, arguments that only reductions have */
static int habit_bound(Advice *a)
{
    uint32_t open = in_body(a) && (advice_is(a, a->at, KW_WHERE) || advice_is(a, a->at, ':'))
                        ? advice_enclosing(a, a->at)
                        : NO_WORD;
    if (open == NO_WORD || open == 0 || !advice_is(a, open, '(') || !advice_is(a, open - 1, NAME))
        return 0;
    a->place = open - 1;
    return no_reduction(a, advice_text(a, open - 1, open - 1));
}

/* mean(h) x[t, h]: a call, and behind it the start of another statement; x[t h]: two subscripts */
static int habit_beside(Advice *a)
{
    uint32_t word = a->at > 0 && in_body(a) ? beside(a) : NO_WORD;
    if (word == NO_WORD || a->words.at[word].first)
        return 0;
    uint32_t open = advice_is(a, word - 1, ')') ? advice_opening(a, word - 1) : NO_WORD;
    const char *function =
        open != NO_WORD && advice_is(a, open - 1, NAME) ? advice_text(a, open - 1, open - 1) : NULL;
    a->place = function ? open - 1 : word;
    if (function)
        return no_reduction(a, function);
    open = advice_enclosing(a, word);
    int subscripts = open != NO_WORD && advice_is(a, open, '[') && advice_is(a, word - 1, NAME);
    const char *x = advice_text(a, word - 1, word - 1), *y = advice_text(a, word, word);
    advice_edit(a, word - 1, word, ADVICE_TEXT(subscripts ? "%s, %s" : "%s * %s", x, y));
    return advice_with(a, ADVICE_TEXT("there is no sign between `%s` and `%s`", x, y),
                       subscripts ? "subscripts are separated by `,`, and a product is written with `*`"
                                  : "a product is written with `*`");
}

/* ---- operators ---- */

/* x ^ 2, x ** 2, i % 2 */
static int habit_operator(Advice *a)
{
    int hat = advice_named(a, a->at, "^"), rest = advice_is(a, a->at, '%'), stars = advice_is(a, a->at, '*');
    if (a->at < 2 || (!hat && !rest && !(stars && advice_is(a, a->at - 1, '*'))))
        return 0;
    uint32_t left = a->at - (stars ? 2 : 1);
    if (!advice_ends_value(a, left))
        return 0;
    uint32_t first = advice_value_before(a, left), last = advice_value_after(a, a->at + 1);
    const char *message = rest ? "the remainder is a call of `imod`" : "a power is a call of `pow`";
    if (first == NO_WORD || last == NO_WORD || last >= a->words.len)
        return advice_with(a, message, rest ? "as in imod(i, 2)" : "as in pow(x[t], 2)");
    const char *x = advice_text(a, first, left), *y = advice_text(a, a->at + 1, last);
    advice_edit(a, first, last, rest ? ADVICE_TEXT("imod(%s, %s)", x, y) : ADVICE_TEXT("pow(%s, %s)", x, y));
    return advice_with(a, message, rest ? "write `imod`, of integers" : "write `pow`");
}

/* x @ w of matrices */
static int habit_matmul(Advice *a)
{
    if (!advice_is(a, a->at, '@') || !advice_ends_value(a, a->at - 1))
        return 0;
    return advice_with(a, "`@` is the group of a row: a matrix product is a sum of products",
                       "write it for one element, as in y[t, f] = sum(h) x[t, h] * w[h, f]");
}

/* y[t] -= x, y[t] := x, y[t] == x */
static int habit_assignment(Advice *a)
{
    uint32_t name =
        a->at > 0 && advice_ends_value(a, a->at - 1) ? advice_value_before(a, a->at - 1) : NO_WORD;
    if (name == NO_WORD || !advice_is(a, name, NAME) ||
        !(begins_statement(a, name) || advice_ends_value(a, name - 1)))
        return 0;
    int twice = advice_is(a, a->at, EQ),
        sign = advice_is(a, a->at, '-') || advice_is(a, a->at, '*') || advice_is(a, a->at, '/');
    if (!twice && !(advice_is(a, a->at + 1, '=') && (sign || advice_is(a, a->at, ':'))))
        return 0;
    const char *op = advice_text(a, a->at, a->at);
    uint32_t last = advice_last(a, a->at + 2);
    if (!sign) {
        advice_edit(a, a->at, a->at + (twice ? 0 : 1), "=");
        return advice_with(a, "an equation is written with `=`", "write `=`");
    }
    advice_edit(
        a, a->at, last,
        ADVICE_TEXT("= %s %s (%s)", advice_text(a, name, a->at - 1), op, advice_text(a, a->at + 2, last)));
    return advice_with(a, ADVICE_TEXT("there is `=` and `+=`, but no `%s=`", op), "write the new value");
}

/* (p[t, k], i[t, k]) = top(e) s[t, e] */
static int habit_tuple(Advice *a)
{
    uint32_t close = in_body(a) && begins_statement(a, a->at) && advice_is(a, a->at, '(')
                         ? advice_closing(a, a->at)
                         : NO_WORD;
    if (close == NO_WORD || !advice_is(a, close + 1, '='))
        return 0;
    advice_edit(a, a->at, a->at, "");
    advice_edit(a, close, close + 1, " =");
    return advice_with(a, "what `top` gives stands on the left without brackets", "remove them");
}

/* ---- subscripts ---- */

/* x[t][h] */
static int habit_two_brackets(Advice *a)
{
    if (!advice_is(a, a->at, '[') || a->at == 0 || !advice_is(a, a->at - 1, ']'))
        return 0;
    for (uint32_t open = a->at, last = a->at - 1; advice_is(a, open, '['); open = last + 1) {
        advice_edit(a, last, open, ", ");
        last = advice_closing(a, open);
        if (last == NO_WORD)
            break;
    }
    return advice_with(a, "a tensor has one pair of brackets, with a subscript for each axis",
                       "put a comma between the subscripts");
}

static int is_type(const Advice *a, uint32_t word)
{
    return word < a->words.len && parser_is_elem(a->words.at[word].kind);
}

/* y[i32] = x[i32], sum(f32) x[f32]: a type's name as that of an index */
static int habit_type_as_index(Advice *a)
{
    const uint32_t name = is_type(a, a->at) ? a->at
                          : a->at > 0       ? a->at - 1
                                            : NO_WORD,
                   open = name == NO_WORD ? NO_WORD : advice_enclosing(a, name);
    const int subscript = open != NO_WORD && advice_is(a, open, '['),
              bound = open != NO_WORD && open > 0 && advice_is(a, open, '(') && is_reduction(a, open - 1);
    if (!in_body(a) || !is_type(a, name) || advice_is(a, name + 1, '(') || !(subscript || bound))
        return 0;
    a->place = name;
    return advice_with(
        a, ADVICE_TEXT("`%s` is a type, and cannot be the name of an index", advice_text(a, name, name)),
        "give the index another name, as in y[t] = x[t]");
}

/* x[:, h] */
static int habit_slice(Advice *a)
{
    uint32_t open = advice_enclosing(a, a->at);
    if (!advice_is(a, a->at, ':') || open == NO_WORD || !advice_is(a, open, '[') || !in_body(a))
        return 0;
    return advice_with(a, "there are no slices: an equation says how one element is computed",
                       "give each axis an index, as in y[t, h] = x[t, h]");
}

/* x[t, h].sum(), x.T[h, t], x.to(f32)[t, h] */
static int habit_method(Advice *a)
{
    const uint32_t open = advice_enclosing(a, a->at);
    const uint32_t after[] = {a->at + 1, a->at, a->at - 1,
                              open - 1}; /* names that a `.` may stand in front of */
    uint32_t name = NO_WORD;
    for (size_t i = 0; i < sizeof after / sizeof *after && name == NO_WORD; i++)
        if (after[i] != NO_WORD && after[i] > 1 && after[i] < a->words.len && advice_is(a, after[i] - 1, '.'))
            name = after[i];
    if (name == NO_WORD || !in_body(a) || !advice_ends_value(a, name - 2) || advice_named(a, name, "token") ||
        advice_named(a, name, "slot") || advice_named(a, name, "row"))
        return 0;
    a->place = name;
    return advice_with(
        a, "tensors have neither methods nor fields: an equation says how one element is computed",
        "write what it is of one element, as in exp(x[t, h])");
}

/* top(s[t, e], K), top(e, K) s[t, e], topk(s[t, e], K) */
static int habit_top(Advice *a)
{
    const uint32_t open = advice_named(a, a->at, "topk") ? a->at + 1 : advice_enclosing(a, a->at),
                   close = open != NO_WORD && advice_is(a, open, '(') ? advice_closing(a, open) : NO_WORD;
    if (close == NO_WORD || open == 0 ||
        !(advice_is(a, open - 1, KW_TOP) || advice_named(a, open - 1, "topk")))
        return 0;
    const uint32_t last = advice_value_after(a, open + 1);
    a->place = open - 1;
    if (last != NO_WORD && last > open + 1 && last < close && advice_is(a, last, ']') &&
        advice_is(a, last - 1, NAME))
        advice_edit(
            a, open - 1, close,
            ADVICE_TEXT("top(%s) %s", advice_text(a, last - 1, last - 1), advice_text(a, open + 1, last)));
    else if (advice_is(a, open + 1, NAME) && advice_is(a, open + 2, ','))
        advice_edit(a, open - 1, close, ADVICE_TEXT("top(%s)", advice_text(a, open + 1, open + 1)));
    return advice_with(
        a, "`top` takes an index in its brackets, and its term follows them",
        "how many are found is the extent of the index on the left: p[t, k], id[t, k] = top(e) s[t, e]");
}

/* ---- declarations: and those of habit_declare.c ---- */

/* A first word that other languages have. */
static int habit_statement(Advice *a)
{
    static const struct {
        const char *word, *instead /* of the word; NULL: only words help */, *message, *help;
    } rows[] = {
        {"for", NULL, "there are no loops: an equation holds for all values of its indices",
         "leave the loop out"},
        {"while", NULL, "there are no loops: an equation holds for all values of its indices",
         "leave the loop out"},
        {"return", NULL, "a kernel returns nothing: it writes its `out` parameters",
         "write an equation, as in y[t] = x[t]"},
        {"let", "", "a local needs no word before it", "remove it"},
        {"var", "", "a local needs no word before it", "remove it"},
        {"val", "", "a local needs no word before it", "remove it"},
        {"const", "", "a local needs no word before it", "remove it"},
        {"auto", "", "a local needs no word before it", "remove it"},
        {"float", "", "a local has the type of its value: it is not written", "remove it"},
        {"double", "", "a local has the type of its value: it is not written", "remove it"},
        {"int", "", "a local has the type of its value: it is not written", "remove it"},
    };
    uint32_t word = a->at > 0 ? a->at - 1 : 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!in_body(a) || !begins_statement(a, word) || !advice_named(a, word, rows[i].word))
            continue;
        a->place = word;
        if (rows[i].instead)
            advice_edit(a, word, word, rows[i].instead);
        return advice_with(a, rows[i].message, rows[i].help);
    }
    return 0;
}

static int habit_declaration(Advice *a)
{
    static const struct {
        const char *word, *instead;
    } rows[] = {{"function", "fn"},     {"def", "fn"},      {"func", "fn"},    {"fun", "fn"},
                {"void", "kernel"},     {"proc", "kernel"}, {"import", "use"}, {"include", "use"},
                {"size", "dim"},        {"dims", "dim"},    {"const", "dim"},  {"typedef", "type"},
                {"gradient", "derive"}, {"grad", "derive"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (in_body(a) || !a->words.at[a->at].first || !advice_named(a, a->at, rows[i].word))
            continue;
        advice_edit(a, a->at, a->at, rows[i].instead);
        if (!advice_works(a) && strcmp(rows[i].instead, "fn") == 0) {
            a->edits.len = 0;
            advice_edit(a, a->at, a->at, "kernel");
        }
        return advice_with(a, ADVICE_TEXT("no declaration begins with `%s`", rows[i].word),
                           ADVICE_TEXT("write `%s`", a->edits.at[0].text));
    }
    return 0;
}

/* The `*` of the sign that ends a comment of C, or NO_WORD. */
static uint32_t comment_end(const Advice *a, uint32_t first)
{
    for (uint32_t i = first; i + 1 < a->words.len; i++)
        if (advice_is(a, i, '*') && advice_is(a, i + 1, '/') &&
            a->words.at[i + 1].offset == a->words.at[i].offset + 1)
            return i;
    return NO_WORD;
}

/* Is there a word of these that begins a line? */
static int goes_over_lines(const Advice *a, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        if (a->words.at[i].first)
            return 1;
    return 0;
}

/* A comment of C. Where text follows it in its last line, no `//` can stand for it. */
static int habit_comment(Advice *a)
{
    uint32_t slash = advice_is(a, a->at, '/') && advice_is(a, a->at + 1, '*') ? a->at : a->at - 1;
    if (slash + 1 >= a->words.len || !advice_is(a, slash, '/') || !advice_is(a, slash + 1, '*'))
        return 0;
    if (a->words.at[slash + 1].offset != a->words.at[slash].offset + 1)
        return 0;
    const uint32_t end = comment_end(a, slash + 2);
    const int follows = end != NO_WORD && end + 2 < a->words.len && !a->words.at[end + 2].first &&
                        !advice_is(a, end + 2, MOE_EOF);
    const char *help = "write `//`";
    if (end != NO_WORD && (follows || goes_over_lines(a, slash + 2, end)))
        help = follows ? "write it behind the line, after `//`" : "begin each of its lines with `//`";
    else {
        advice_edit(a, slash, slash + 1, "//");
        if (end != NO_WORD)
            advice_edit(a, end, end + 1, "");
    }
    a->place = slash;
    return advice_with(a, "a comment begins with `//` and ends with its line", help);
}

/* A `{` that nothing closes: the file ends, or the next declaration begins. */
static int habit_unclosed(Advice *a)
{
    const ParserToken *t = &a->words.at[a->at];
    uint32_t open = advice_enclosing(a, a->at);
    int declares = t->first && t->kind != NAME && (parser_begins_declaration(t->kind) || t->kind == MOE_EOF);
    if (!declares || open == NO_WORD || !advice_is(a, open, '{'))
        return 0;
    a->place = open;
    a->label = a->at;
    a->label_text = t->kind == MOE_EOF ? "the file ends here" : "the next declaration begins here";
    advice_edit(a, a->at, a->at - 1, "}\n");
    return advice_with(a, "this `{` has no `}`", "close it");
}

typedef int (*Habit)(Advice *a);

int habit_find(Advice *a)
{
    static const Habit habits[] = {habit_comment,
                                   habit_type_as_index,
                                   habit_question,
                                   habit_if_behind,
                                   habit_if_statement,
                                   habit_where_call,
                                   habit_role,
                                   habit_names,
                                   habit_dim,
                                   habit_range,
                                   habit_top,
                                   habit_method,
                                   habit_reduction_brackets,
                                   habit_operator,
                                   habit_reduction,
                                   habit_chain,
                                   habit_matmul,
                                   habit_assignment,
                                   habit_two_brackets,
                                   habit_slice,
                                   habit_type_first,
                                   habit_result,
                                   habit_function_body,
                                   habit_save,
                                   habit_statement,
                                   habit_declaration,
                                   habit_unclosed,
                                   habit_unopened,
                                   habit_bound,
                                   habit_beside,
                                   habit_tuple};
    for (size_t i = 0; a->at > 0 && i < sizeof habits / sizeof *habits; i++)
        if (habits[i](a))
            return 1;
    return 0;
}
