/* Derivatives of scalar operations: reads the gradient texts of ir/scalar.def into expressions.
 *
 *   comparison: sum [('<' | '<=' | '>' | '>=') sum]      sum: product {('+' | '-') product}
 *   product: factor {('*' | '/') factor}
 *   factor: number | a | b | r | d | '-' factor | '(' comparison ')' | function '(' comparison {','
 * comparison} ')' | if '(' comparison ',' comparison ',' comparison ')'
 *
 * The texts are the compiler's own, so a mistake in one is a BUG that shows the text. */
#include "passes/derive.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct DeriveReader {
    Kernel *k;
    Loc loc;
    const char *text, *at;
    DeriveText v;
} DeriveReader;

static ExprId read_comparison(DeriveReader *r);

static _Noreturn void fail(const DeriveReader *r, const char *expected)
{
    BUG(r->k->module->arena, "gradient text \"%s\" of ir/scalar.def: %s expected at \"%s\"", r->text,
        expected, r->at);
}

static int accept(DeriveReader *r, const char *sign)
{
    while (*r->at == ' ')
        r->at++;
    if (strncmp(r->at, sign, strlen(sign)) != 0)
        return 0;
    r->at += strlen(sign);
    return 1;
}

static void expect(DeriveReader *r, const char *sign)
{
    if (!accept(r, sign))
        fail(r, sign);
}

static ExprId variable(const DeriveReader *r, char name)
{
    ExprId e = name == 'a'   ? r->v.a
               : name == 'b' ? r->v.b
               : name == 'r' ? r->v.r
               : name == 'd' ? r->v.d
                             : NONE;
    if (e == NONE)
        fail(r, "a, b, r, d or a function");
    return e;
}

static ExprId read_call(DeriveReader *r, const char *name)
{
    ExprId args[3] = {NONE, NONE, NONE};
    uint32_t n = 0;
    do
        args[n++] = read_comparison(r);
    while (n < 3 && accept(r, ","));
    expect(r, ")");
    if (strcmp(name, "if") == 0)
        return x_if(r->k, r->loc, args[0], args[1], args[2]);
    ScalarOp op = scalar_find(name);
    if (op == OP_COUNT || scalar_table[op].arity != n)
        fail(r, "a function of that many arguments");
    return n == 1 ? x_op1(r->k, r->loc, op, args[0]) : x_op2(r->k, r->loc, op, args[0], args[1]);
}

static ExprId read_word(DeriveReader *r)
{
    enum { WORD_MAX = 24 };
    char word[WORD_MAX];
    size_t n = 0;
    while (isalnum((unsigned char)*r->at) && n + 1 < sizeof word)
        word[n++] = *r->at++;
    word[n] = '\0';
    if (accept(r, "("))
        return read_call(r, word);
    return variable(r, n == 1 ? word[0] : '\0');
}

static ExprId read_factor(DeriveReader *r)
{
    if (accept(r, "-"))
        return x_op1(r->k, r->loc, OP_neg, read_factor(r));
    if (accept(r, "(")) {
        ExprId e = read_comparison(r);
        expect(r, ")");
        return e;
    }
    if (isdigit((unsigned char)*r->at)) {
        char *end;
        double value = strtod(r->at, &end);
        r->at = end;
        return x_float(r->k, r->loc, value);
    }
    return read_word(r);
}

static ExprId read_product(DeriveReader *r)
{
    ExprId e = read_factor(r);
    for (;;) {
        ScalarOp op = accept(r, "*") ? OP_mul : accept(r, "/") ? OP_div : OP_COUNT;
        if (op == OP_COUNT)
            return e;
        ExprId right = read_factor(r);
        e = x_op2(r->k, r->loc, op, e, right);
    }
}

static ExprId read_sum(DeriveReader *r)
{
    ExprId e = read_product(r);
    for (;;) {
        ScalarOp op = accept(r, "+") ? OP_add : accept(r, "-") ? OP_sub : OP_COUNT;
        if (op == OP_COUNT)
            return e;
        ExprId right = read_product(r);
        e = x_op2(r->k, r->loc, op, e, right);
    }
}

static int is_int(const DeriveReader *r, ExprId e) { return x_at(r->k, e)->type == TY_INT; }

/* An integer that is compared with a float is converted, as the front end does. */
static ExprId compare(const DeriveReader *r, ScalarOp op, ExprId a, ExprId b)
{
    if (is_int(r, a) && !is_int(r, b))
        a = x_op1(r->k, r->loc, OP_f32, a);
    else if (is_int(r, b) && !is_int(r, a))
        b = x_op1(r->k, r->loc, OP_f32, b);
    return x_op2(r->k, r->loc, op, a, b);
}

static ExprId read_comparison(DeriveReader *r)
{
    ExprId e = read_sum(r);
    ScalarOp op = accept(r, "<=")   ? OP_le
                  : accept(r, ">=") ? OP_ge
                  : accept(r, "<")  ? OP_lt
                  : accept(r, ">")  ? OP_gt
                                    : OP_COUNT;
    return op == OP_COUNT ? e : compare(r, op, e, read_sum(r));
}

ExprId derive_text(Kernel *k, Loc loc, const char *text, DeriveText v)
{
    if (!*text)
        return NONE;
    DeriveReader r = {k, loc, text, text, v};
    ExprId e = read_comparison(&r);
    if (accept(&r, "") && *r.at)
        fail(&r, "the end");
    return e;
}

int derive_text_names(const char *text, char name)
{
    int found = 0;
    while (*text) {
        size_t n = 0;
        while (isalnum((unsigned char)text[n]))
            n++;
        found += n == 1 && *text == name;
        text += n ? n : 1;
    }
    return found;
}
