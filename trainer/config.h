/* The options of a run. */
#ifndef TRAINER_CONFIG_H
#define TRAINER_CONFIG_H

#include <stdint.h>

#include "base/json.h"
#include "model/model.h"

/* The rows of config.def, and --data behind them. */
typedef enum OptionId {
#define GROUP(title)
#define INT(field, ...) OPTION_##field,
#define REAL(field, ...) OPTION_##field,
#define TEXT(field, ...) OPTION_##field,
#define MAYBE(field, ...) OPTION_##field,
#define FLAG(field, ...) OPTION_##field,
#include "trainer/config.def"
    OPTION_data,
    OPTION_COUNT
} OptionId;

/* Where a value comes from: one that stands further down holds. */
typedef enum OptionSource { FROM_DEFAULT, FROM_CHECKPOINT, FROM_FILE, FROM_COMMAND_LINE } OptionSource;

typedef struct Config {
#define GROUP(title)
#define INT(field, ...) int64_t field;
#define REAL(field, ...) double field;
#define TEXT(field, ...) const char *field;
#define MAYBE(field, ...) const char *field;
#define FLAG(field, ...) int field;
#include "trainer/config.def"
    Vec(const char *) data; /* files and folders, at least one */
    OptionSource source[OPTION_COUNT];
    const char *checkpoint;   /* the folder of the one that the run goes on from; NULL: it begins */
    int64_t checkpoint_step;
    Arena *arena;             /* of texts that do not come from the command line */
    ModelConfig model_config; /* what the options say, or --model */
} Config;

Config config_default(void);
/* Reads the command line, and the file of --config. Leaves the process with status 2 on a wrong option, 1 on a wrong value. */
Config config_read(int argc, char **argv);
void config_free(Config *c);
/* Rules between options, and what is still missing: after the last source. Leaves the process with status 2 when one is broken. */
void config_finish(Config *c);
void config_read_model(Config *c); /* sets model_config; leaves the process with status 1 when it is wrong */
/* The model of --check: everything about the run kept, the sizes tiny. */
void config_make_tiny(Config *c);

/* ---- as JSON: config_json.c ---- */

/* Takes the values of a file that have no stronger source. Returns NULL, or a message that names file, option, value and rule.
 * Options of a checkpoint (FROM_CHECKPOINT) must agree with a stronger source where a resumed run may not change them. */
const char *config_apply(Config *c, const char *file, OptionSource source);
json_t *config_json(const Config *c); /* all options as one object */
/* That for a checkpoint: the paths of --data are absolute, because the run may go on from another folder. */
json_t *config_json_saved(const Config *c);

#endif
