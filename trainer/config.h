/* The options of a run. */
#ifndef TRAINER_CONFIG_H
#define TRAINER_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

typedef struct Config {
#define GROUP(title)
#define INT(field, option, value, least, most, arg, doc) int64_t field;
#define REAL(field, option, value, least, most, arg, doc) double field;
#define TEXT(field, option, value, arg, doc) const char *field;
#define FLAG(field, option, doc) int field;
#include "trainer/config.def"
    char **data; /* files and folders, at least one */
    size_t ndata;
    ModelConfig model_config; /* what the options say, or --model */
} Config;

/* Reads the command line. Leaves the process with status 2 on a wrong option, 1 on a wrong value. */
Config config_read(int argc, char **argv);
void config_free(Config *c);
void config_read_model(Config *c); /* sets model_config; leaves the process with status 1 when it is wrong */
/* The model of --check: everything about the run kept, the sizes tiny. */
void config_make_tiny(Config *c);
/* All options as one JSON object. */
void config_json(const Config *c, FILE *out);
void print_json_text(FILE *out, const char *text);

#endif
