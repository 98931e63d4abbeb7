/* Subcommands that print the compiler's tables: passes, ops. */
#include "command/command.h"

#include <ctype.h>
#include <stdio.h>

static error_t parse_nothing(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is too much", arg);
    return key == ARGP_KEY_ARG || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

int command_passes(int argc, char **argv)
{
    static const struct argp argp = {.parser = parse_nothing, .doc = "Lists the passes in their order."};
    cli_parse(&argp, argc, argv, NULL);
    for (uint32_t i = 0; i < pass_count; i++)
        printf("%-13s %s\n", pass_table[i].name, pass_table[i].doc);
    return DRIVER_OK;
}

/* ---- ops ---- */

static void print_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

static void print_usage(const ScalarRow *row)
{
    int word = isalpha((unsigned char)row->spelling[0]);
    int infix = !word || row->kind == SK_LOGIC;
    if (infix && row->arity == 2)
        printf("`a %s b`", row->spelling);
    else if (infix)
        printf("`%s%sa`", row->spelling, word ? " " : "");
    else
        printf("`%s(a%s)`", row->spelling, row->arity == 2 ? ", b" : "");
}

static void print_gradient(const ScalarRow *row)
{
    for (int i = 0; i < row->arity; i++) {
        printf(i ? "<br>" : "");
        printf(*row->gradient[i] ? "%c: `" : "%c: none", 'a' + i);
        print_cell(row->gradient[i]);
        printf(*row->gradient[i] ? "`" : "");
    }
}

int command_ops(int argc, char **argv)
{
    static const struct argp argp = {.parser = parse_nothing,
                                     .doc = "Prints the scalar operations as Markdown (docs/ops.md)."};
    cli_parse(&argp, argc, argv, NULL);
    printf("# Scalar operations\n\nWritten by `moec ops` from ir/scalar.def; do not edit. `a` and `b` are "
           "the arguments, "
           "`r` the result, `d` the\ncotangent of the result.\n\n"
           "| use | meaning | cotangent of each argument | cost | largest error, ulp "
           "|\n|---|---|---|---|---|\n");
    for (ScalarOp op = 0; op < OP_COUNT; op++) {
        const ScalarRow *row = &scalar_table[op];
        printf("| ");
        print_usage(row);
        printf(" | ");
        print_cell(row->doc);
        printf(" | ");
        print_gradient(row);
        printf(" | %d | %g |\n", row->cost, row->ulp);
    }
    return DRIVER_OK;
}
