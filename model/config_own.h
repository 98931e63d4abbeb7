/* Inside model/: the rows of config.def as tables. */
#ifndef MODEL_CONFIG_OWN_H
#define MODEL_CONFIG_OWN_H

#include "model/config.h"

typedef struct ArchRow {
    const char *name, *class, *doc; /* class: of `transformers`, "" when it has none */
} ArchRow;
extern const ArchRow config_arch_table[ARCH_COUNT];

/* The names that a field may have in files of an architecture; the first one is written. */
enum { CONFIG_ALIASES = 8 };
typedef struct ConfigAliases {
    uint32_t count;
    const char *at[CONFIG_ALIASES];
} ConfigAliases;
ConfigAliases config_aliases(ModelArch arch, const ConfigRow *row);
const char *config_name(ModelArch arch, const ConfigRow *row); /* the first one */
int config_is_known(const char *name);                         /* does a row name this JSON field? */

double config_fallback(ModelArch arch, const ConfigRow *row); /* NAN: a value is required */
void config_set(ModelConfig *c, const ConfigRow *row, double value);
int config_applies(const ModelConfig *c, const ConfigRow *row); /* by the kind of attention */

int config_in_range(const ConfigRow *row, double value);
const char *config_range(Arena *a, const ConfigRow *row); /* the rule that other values break */

int config_word_number(const ConfigRow *row, const char *word); /* -1: there is none */
const char *config_word(Arena *a, const ConfigRow *row, int number);

/* The shortest decimal that reads back as the same number. */
const char *config_number(Arena *a, double value);

#endif
