/* The commands of moe-train beside training. Each reads its own command line and returns the exit code. */
#ifndef TRAINER_COMMAND_H
#define TRAINER_COMMAND_H

#include "trainer/session.h"

struct argp_state;

int command_analyse(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_plot(int argc, char **argv);

/* A whole number from `least` to `most`, or the end of the process with status 2. */
int64_t option_number(struct argp_state *s, const char *option, const char *text, int64_t least, int64_t most);
double option_real(struct argp_state *s, const char *option, const char *text, double least, double most); /* likewise */
/* Of options that several commands have: NULL, or the rule that is broken. */
const char *row_factor_rule(double factor);
const char *sequence_rule(int64_t sequence, const ModelConfig *m);

/* The model of a folder or config.json; warns of fields that are not known. Returns 0, or 1 with a message printed. */
int command_model(Arena *a, const char *path, ModelConfig *out);
/* The weights of the folder in which --model lies, into the masters of the session. Returns 0, or 1 with a message printed. */
int command_weights(Session *s, const char *path, const WeightSlice *masters);

#endif
