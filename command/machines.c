/* moec machines: the machines that the compiler knows, and the figures of one with unit and source. */
#include "command/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_KEYS = COMMAND_LAST, KEY_PROBE };

typedef struct MachinesCommand {
    const char *name; /* of a machine, or a file with a description */
    int keys, probe;
} MachinesCommand;

static error_t parse_machines(int key, char *arg, struct argp_state *state)
{
    MachinesCommand *c = state->input;
    switch (key) {
    case KEY_KEYS: c->keys = 1; return 0;
    case KEY_PROBE: c->probe = 1; return 0;
    case ARGP_KEY_ARG:
        if (c->name)
            argp_error(state, "one machine at a time: '%s' and '%s'", c->name, arg);
        c->name = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->keys && (c->name || c->probe))
            argp_error(state, "--keys is about all machines");
        if (c->probe && c->name && strcmp(c->name, "host") != 0)
            argp_error(state, "--probe times this CPU, which is host, not '%s'", c->name);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option machines_options[] = {
    {"probe", KEY_PROBE, NULL, 0,
     "Time the products of this CPU's instruction sets anew, and keep the rates beside the compile cache", 0},
    {"keys", KEY_KEYS, NULL, 0, "Print what a description says, as Markdown (docs/machines.md)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* ---- one machine ---- */

static const char *key_of(Arena *a, const FigureRow *row)
{
    return arena_printf(a, "%s.%s", row->section, row->key);
}

/* What this computer says about a figure, or what was measured on its core; "" else. */
static const char *here(Arena *a, const Figure *f, const char **source)
{
    int64_t value = machine_here(f, source);
    return value ? arena_printf(a, "%lld", (long long)value) : "";
}

static void print_figures(Arena *a, const Description *d)
{
    int probed = d->machine.kind == MACHINE_CPU;
    printf("%-18s %12s  %-11s %s%s\n", "figure", "value", "unit", probed ? "      here  " : "", "source");
    for (uint32_t i = 0; i < d->figures.len; i++) {
        const Figure *f = &d->figures.at[i];
        printf("%-18s %12lld  %-11s ", key_of(a, f->row), (long long)f->value, f->row->unit);
        const char *source = f->source;
        if (probed)
            printf("%10s  ", here(a, f, &source));
        printf("%s\n", source);
        for (uint32_t n = 0; n < f->with.len; n++)
            printf("  with %-11s %12lld  %-11s %10s  %s\n", f->with.at[n].name,
                   (long long)f->with.at[n].value, f->row->unit, "", f->with.at[n].source);
    }
}

/* The instruction sets of the host: fragments of a product in rows x columns of sums. */
static void print_isas(const CpuRates *rates)
{
    Isa best = cpu_fastest(cpu_choices(), rates);
    printf("\n%-15s %5s  %-8s  %-4s  %s\n", "instruction set", "lanes", "fragment", "here", "what");
    for (Isa isa = 0; isa < ISA_COUNT; isa++) {
        const Cpu *c = &cpu_table[isa];
        char fragment[32];
        snprintf(fragment, sizeof fragment, "%ux%u", c->rows, c->vectors * c->lanes);
        printf("%-15s %5u  %-8s  %-4s  %s\n", c->name, c->lanes, fragment,
               isa == best    ? "best"
               : cpu_has(isa) ? "yes"
                              : "no",
               c->doc);
    }
}

/* Why that one is taken: Note [The right code]. */
static void print_choice(const CpuRates *rates)
{
    const char *forced = getenv("MOE_ISA");
    printf("\nhost is %s", cpu_table[cpu_fastest(cpu_choices(), rates)].name);
    if (*cpu_core())
        printf(" of a core %s", cpu_core());
    if (forced && *forced)
        printf(", but MOE_ISA forces %s", forced);
    printf("%s\n", rates->from == RATES_NONE ? ": it has no other way to multiply bf16"
                                             : "; products of bf16, GFLOP/s of one thread:");
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (rates->mflops[isa] && cpu_has(isa))
            printf("%15s %6.0f  %s\n", cpu_table[isa].name, rates->mflops[isa] / 1e3,
                   cpu_rate_source(rates, isa));
}

static int show_isas(Arena *a, int probe)
{
    CpuRates rates = *cpu_rates();
    if (probe)
        cpu_probe(cpu_choices(), cpu_time_loop, NULL, &rates);
    print_isas(&rates);
    print_choice(&rates);
    if (probe && !target_keep_rates(&rates, a))
        return command_error("the rates cannot be kept: there is no folder for the compile cache");
    return DRIVER_OK;
}

static int show_machine(Arena *a, const char *name, int probe)
{
    Description d;
    const char *error = machine_open(a, name, &d);
    if (error)
        return command_error(error);
    printf("%s: %s\n\n", d.machine.name, d.doc);
    print_figures(a, &d);
    return d.machine.kind == MACHINE_CPU ? show_isas(a, probe) : DRIVER_OK;
}

static int list_machines(Arena *a)
{
    for (uint32_t i = 0; i < machine_text_count; i++) {
        Description d;
        const char *error = machine_open(a, machine_texts[i].name, &d);
        if (error)
            return command_error(error);
        printf("%-13s %s\n", d.machine.name, d.doc);
    }
    return DRIVER_OK;
}

/* ---- docs/machines.md ---- */

static const char *who_needs(const SectionRow *s)
{
    static const char *const texts[] = {"may stand", "of a cpu", "of an npu", "of all"};
    return texts[s->kinds];
}

static void print_section(const SectionRow *s)
{
    printf("| `%s` | | %s | %s |\n", s->name, who_needs(s), s->doc);
    for (uint32_t i = 0; i < figure_count; i++)
        if (strcmp(figure_table[i].section, s->name) == 0)
            printf("| | `%s` | %s | %s |\n", figure_table[i].key, figure_table[i].unit, figure_table[i].doc);
}

static const char *yes_no(int yes) { return yes ? "yes" : "no"; }

static void print_traits(void)
{
    printf("\nAll machines of a kind have these traits; no description repeats them. A pass asks for the "
           "trait, never for "
           "the kind.\n\n| trait | cpu | npu | meaning |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < trait_count; i++)
        printf("| `%s` | %s | %s | %s |\n", trait_table[i].name, yes_no(trait_table[i].cpu),
               yes_no(trait_table[i].npu), trait_table[i].doc);
}

static void print_rules(void)
{
    printf("\nRules between figures, where both are there:\n\n");
    for (uint32_t i = 0; i < multiple_count; i++)
        printf("- `%s.%s` is a multiple of `%s.%s`\n", figure_table[multiple_table[i].row].section,
               figure_table[multiple_table[i].row].key, figure_table[multiple_table[i].of].section,
               figure_table[multiple_table[i].of].key);
    for (uint32_t i = 0; i < divides_count; i++) {
        const DividesRow *rule = &divides_table[i];
        printf("- `%s.%s` divides %d * `%s.%s`%s\n", figure_table[rule->row].section,
               figure_table[rule->row].key, rule->bytes, figure_table[rule->of].section,
               figure_table[rule->of].key, rule->power == 2 ? "^2" : "");
    }
    printf("\nNo figure is above 2^50, and these not above");
    for (uint32_t i = 0; i < most_count; i++) {
        const FigureRow *row = &figure_table[most_table[i].row];
        if (!i || most_table[i].bits != most_table[i - 1].bits)
            printf("%s 2^%d: `%s.%s`", i ? ";" : "", most_table[i].bits, row->section, row->key);
        else
            printf(", `%s.%s`", row->section, row->key);
    }
    printf(".\n");
}

/* The rows of cpu.def with their traits. */
static void print_cpus(void)
{
    printf("\n## Instruction sets of CPUs\n\nThe rows of machines/cpu.def. Generated code depends on an "
           "instruction set by its "
           "numbers and traits only; one that multiplies bf16\nadds `terms` of them at a time.\n\n"
           "| name | lanes | fragment | terms | f32 products of | other code of | traits "
           "|\n|---|---|---|---|---|---|---|\n");
    for (Isa isa = 0; isa < ISA_COUNT; isa++) {
        const Cpu *c = &cpu_table[isa];
        printf("| `%s` | %u | %u x %u | %u | `%s` | `%s` |", c->name, c->lanes, c->rows,
               c->vectors * c->lanes, c->terms, cpu_table[c->f32].name, cpu_table[c->code].name);
        for (CpuTrait t = 0; t < CPU_TRAITS; t++)
            if (cpu_can(c, t))
                printf(" %s", cpu_trait_table[t].name);
        printf(" |\n");
    }
    printf("\n| trait | meaning |\n|---|---|\n");
    for (CpuTrait t = 0; t < CPU_TRAITS; t++)
        printf("| %s | %s |\n", cpu_trait_table[t].name, cpu_trait_table[t].doc);
}

/* cores.def. */
static void print_cores(void)
{
    printf("\n## Cores\n\nProducts of bf16 in registers, GFLOP/s of one thread (machines/cores.def). The "
           "host's instruction set is chosen by\nthem; a core that is not here is timed.\n\n"
           "| core | | instruction set | GFLOP/s | source |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < core_count; i++)
        for (uint32_t j = 0; j < rate_count; j++)
            if (strcmp(rate_table[j].core, core_table[i].name) == 0)
                printf("| `%s` | %s | `%s` | %u | %s |\n", core_table[i].name, core_table[i].doc,
                       cpu_table[rate_table[j].isa].name, rate_table[j].gflops, rate_table[j].source);
}

static void print_heuristics(void)
{
    printf("\n## Heuristics\n\nFigures of no machine that decide about code (machines/heuristics.def), and "
           "where each is from.\n\n"
           "| name | value | unit | meaning | source |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < heuristic_count; i++) {
        const HeuristicRow *h = &heuristic_table[i];
        printf("| `%s` | %lld | %s | %s | %s |\n", h->name, (long long)h->value, h->unit, h->doc, h->source);
    }
}

static int print_keys(void)
{
    printf(
        "# Machines\n\n"
        "Written by `moec machines --keys` from machines/figures.def; do not edit. A machine is described by "
        "a JSON "
        "file: the\ndescriptions in machines/ are part of the compiler, and `moec machines NAME.json` checks "
        "and "
        "shows one of yours.\n\n"
        "The file is an object with `name`, `kind` (`cpu` or `npu`), `doc` and the sections below, each an "
        "object "
        "of figures.\nA figure is an object with `value`, a whole number above zero; `unit`, the one that is "
        "written here; and `source`,\na text or an address that says where the value is from. `\"probed\": "
        "true` "
        "says of cores and caches of a cpu that the\nvalue stands for what the CPU itself may say when it is "
        "asked, and `on` says of figures of core, clock and memory what they are on other cores:\n`\"on\": "
        "{\"zen5\": {\"value\": 64, "
        "\"source\": \"...\"}}`. Both only go into reports: code depends on the\nvalues, never on the "
        "computer that "
        "compiles. A figure of blocks may be another one with an instruction set: `\"with\": {\"avx2\": "
        "{...}}`.\n\n"
        "| section | figure | unit or machines | meaning |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < section_count; i++)
        print_section(&section_table[i]);
    print_traits();
    print_rules();
    print_cpus();
    print_cores();
    print_heuristics();
    return DRIVER_OK;
}

int command_machines(int argc, char **argv)
{
    static const struct argp argp = {
        .options = machines_options,
        .parser = parse_machines,
        .args_doc = "[NAME | FILE.json]",
        .doc = "Lists the machines that are known, or prints the figures of one with "
               "their sources, and of the host what it says itself."};
    MachinesCommand c = {0};
    cli_parse(&argp, argc, argv, &c);
    if (c.keys)
        return print_keys();
    Arena *a = arena_new();
    if (!a)
        return command_error("memory is exhausted");
    if (c.probe && !c.name)
        c.name = "host";
    int status = c.name ? show_machine(a, c.name, c.probe) : list_machines(a);
    arena_free(a);
    return status;
}
