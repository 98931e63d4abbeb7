#include "trainer/command.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trainer/checkpoint.h"
#include "trainer/complain.h"

int64_t option_number(struct argp_state *s, const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < least || v > most)
        argp_failure(s, CLI_USAGE, 0, "--%s takes a whole number from %lld to %lld, not `%s`", option,
                     (long long)least, (long long)most, text);
    return v;
}

double option_real(struct argp_state *s, const char *option, const char *text, double least, double most)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        argp_failure(s, CLI_USAGE, 0, "--%s takes a number from %.9g to %.9g, not `%s`", option, least, most,
                     text);
    return v;
}

const char *row_factor_rule(double factor)
{
    return factor <= 0 || factor >= 1
               ? NULL
               : "--row-factor must be 0 or at least 1: the mean of the rows has to have room";
}

const char *sequence_rule(int64_t sequence, const ModelConfig *m)
{
    return sequence > m->positions ? "--sequence is larger than max_position_embeddings of --model" : NULL;
}

static int is_folder(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* What --save was given, where a model is asked for: the newest checkpoint of that folder, or NULL. */
static const char *checkpoint_in(Arena *a, const char *path)
{
    Checkpoints known = {0};
    return is_folder(path) && !checkpoint_list(a, path, &known) && known.len ? known.at[known.len - 1].path
                                                                             : NULL;
}

int command_model(Arena *a, const char *path, ModelConfig *out)
{
    const char *file = is_folder(path) ? arena_printf(a, "%s/config.json", path) : path;
    ModelNames unknown = {0};
    const char *error = model_config_load(a, file, out, &unknown),
               *inside = error ? checkpoint_in(a, path) : NULL;
    if (inside)
        return complain("%s; it is a folder of checkpoints: name one, as %s", error, inside);
    if (error)
        return complain("%s", error);
    Text names = {.arena = a};
    for (uint32_t i = 0; i < unknown.len; i++)
        text_add(&names, "%s%s", i ? ", " : "", unknown.at[i]);
    if (unknown.len)
        complain("%s: warning: fields that are not known have no effect: %s", file, text_string(&names));
    return 0;
}

static const char *folder_of(Arena *a, const char *path)
{
    const char *last = strrchr(path, '/');
    if (is_folder(path))
        return path;
    return last ? arena_strndup(a, path, (size_t)(last - path) + (last == path)) : ".";
}

int command_weights(Session *s, const char *path, const WeightSlice *masters)
{
    const char *error =
        model_weights_take(s->arena, folder_of(s->arena, path), &s->model, &s->weights, masters);
    return error ? complain("%s", error) : 0;
}
