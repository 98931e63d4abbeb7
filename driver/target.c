/* Which instruction sets are compiled for. */
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

static const char *names_of_all(Arena *a)
{
    Text t = {.arena = a};
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        text_add(&t, "%s%s", isa ? ", " : "", cpu_table[isa].name);
    return text_string(&t);
}

static void add(IsaList *list, Isa isa)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] == isa)
            return;
    list->at[list->n++] = isa;
}

static const char *forced_isa(void)
{
    const char *forced = getenv("MOE_ISA");
    return forced && *forced ? forced : NULL;
}

int target_keep_rates(const CpuRates *rates, Arena *a)
{
    const char *directory = cache_directory(NULL, a);
    return directory && cpu_keep_rates(directory, rates);
}

/* The host: the fastest that this CPU runs, or what MOE_ISA says. */
static const char *add_host(IsaList *out, Arena *a)
{
    const char *forced = forced_isa();
    Isa isa;
    if (!forced) {
        add(out, cpu_best());
        if (cpu_rates()->from == RATES_PROBE) /* where they cannot be kept, the next process probes too */
            target_keep_rates(cpu_rates(), a);
        return NULL;
    }
    if (!cpu_find(forced, &isa))
        return arena_printf(a, "MOE_ISA is '%s', which is not an instruction set (%s)", forced,
                            names_of_all(a));
    if (!cpu_has(isa))
        return arena_printf(a, "MOE_ISA forces '%s', which this CPU lacks", forced);
    add(out, isa);
    return NULL;
}

/* Of this computer's family. */
static void add_all(IsaList *out)
{
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (cpu_table[isa].family == cpu_table[cpu_plainest()].family &&
            !cpu_can(&cpu_table[isa], CPU_BY_NAME) && !cpu_can(&cpu_table[isa], CPU_VARIANT))
            add(out, isa);
}

static const char *add_word(IsaList *out, const char *word, size_t len, Arena *a)
{
    const char *name = arena_strndup(a, word, len);
    Isa isa;
    if (strcmp(name, "host") == 0)
        return add_host(out, a);
    if (strcmp(name, "all") == 0) {
        add_all(out);
        return NULL;
    }
    if (!cpu_find(name, &isa))
        return arena_printf(a, "unknown target '%s': use host, all or some of %s", name, names_of_all(a));
    add(out, isa);
    return NULL;
}

/* From the plainest up, so that one list has one cache key and one object. */
static void sort(IsaList *list)
{
    IsaList sorted = {.n = 0};
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        for (uint32_t i = 0; i < list->n; i++)
            if (list->at[i] == isa)
                sorted.at[sorted.n++] = isa;
    *list = sorted;
}

/* One object holds code of one family. */
static const char *check_family(const IsaList *list, Arena *a)
{
    for (uint32_t i = 1; i < list->n; i++) {
        const Cpu *first = &cpu_table[list->at[0]], *cpu = &cpu_table[list->at[i]];
        if (cpu->family != first->family)
            return arena_printf(a, "'%s' and '%s' are not of one family of CPUs: compile for one at a time",
                                first->name, cpu->name);
    }
    return NULL;
}

const char *target_parse(const char *text, Arena *a, IsaList *out)
{
    out->n = 0;
    if (!text)
        text = "host";
    for (;;) {
        size_t len = strcspn(text, ",");
        const char *error = add_word(out, text, len, a);
        if (error)
            return error;
        if (!text[len])
            break;
        text += len + 1;
    }
    sort(out);
    return check_family(out, a);
}

/* Of the list those that this CPU runs, as bits; of a forced one also none beyond it. */
static uint32_t runnable(const IsaList *list, Isa most)
{
    uint32_t isas = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] <= most && cpu_has(list->at[i]))
            isas |= 1u << list->at[i];
    return isas;
}

const char *target_for_this_cpu(IsaList *list, Arena *a)
{
    IsaList host = {.n = 0};
    CpuRates forced_rates = {.from = RATES_NONE}; /* then the highest one */
    const char *error = add_host(&host, a);
    if (error)
        return error;
    uint32_t isas = runnable(list, forced_isa() ? host.at[0] : ISA_COUNT);
    if (!isas)
        return arena_printf(
            a,
            "this CPU (or MOE_ISA) allows none of the instruction sets asked for; '%s' is the best it runs",
            cpu_table[host.at[0]].name);
    *list = (IsaList){.at = {cpu_fastest(isas, forced_isa() ? &forced_rates : cpu_rates())}, .n = 1};
    return NULL;
}
