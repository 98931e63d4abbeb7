#include "trainer/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "trainer/complain.h"
#include "trainer/trainer.h"

/* Positions that a run reads for n tokens. */
static int64_t padded(const Generator *g, int64_t n)
{
    const int64_t tp = g->session->ranks.members[AXIS_tp];
    return (n + tp - 1) / tp * tp;
}

static Program *record_one(Generator *g, const char *name, int64_t positions, int continues)
{
    Recording r = session_record(g->session, name, 0, 1, padded(g, positions));
    r.recipe.continues = continues;
    recipe_generation(&r.recipe, g->room + padded(g, 1) - 1, g->temperature > 0);
    return session_finish(g->session, &r);
}

int generator_record(Generator *g, Session *s, Comm *comm, int64_t prompt, int64_t room, double temperature,
                     uint64_t seed)
{
    *g = (Generator){.session = s,
                     .comm = comm,
                     .prompt = prompt,
                     .room = room,
                     .temperature = temperature,
                     .random = random_new(seed)};
    g->found = arena_array(s->arena, int32_t, s->ranks.number);
    g->prefill_program = record_one(g, "prefill", prompt, 0);
    g->decode_program = g->prefill_program ? record_one(g, "decode", 1, 1) : NULL;
    return !g->decode_program;
}

int generator_start(Generator *g)
{
    g->prefill = session_start(g->session, g->prefill_program, (BatchSource){0});
    g->decode = g->prefill ? session_start(g->session, g->decode_program, (BatchSource){0}) : NULL;
    if (g->decode && g->temperature > 0)
        *session_number(g->session, "temperature") = (float)g->temperature;
    return !g->decode;
}

void generator_free(Generator *g)
{
    run_free(g->prefill);
    run_free(g->decode);
}

/* The token behind token n of a run, from the rank that has its row; of ranks that have the same, the first one. */
static int find_next(Generator *g, const char *program, int64_t n, int32_t *next)
{
    const int64_t rows = padded(g, n) / g->session->ranks.members[AXIS_tp];
    const int32_t *own = session_at(g->session, "%s.next", program);
    if (comm_gather(g->comm, "a token", &own[(n - 1) % rows], sizeof *own, g->found))
        return complain("%s", comm_error(g->comm));
    *next = g->found[ranks_member(&g->session->ranks, AXIS_tp, 0, (n - 1) / rows)];
    return 0;
}

/* Reads n tokens from position g->known on. */
static int read_tokens(Generator *g, Run *run, const char *program, const int32_t *ids, int64_t n,
                       int32_t *next)
{
    int32_t *position = session_at(g->session, "position"), *to = session_at(g->session, "%s.ids", program);
    float *draws = session_at(g->session, "%s.draws", program);
    for (int64_t i = 0; i < padded(g, n); i++)
        to[i] = i < n ? ids[i] : 0;
    *position = (int32_t)g->known;
    for (int64_t i = 0; draws && i < padded(g, n); i++)
        draws[i] = i + 1 == n ? (float)random_unit(&g->random) : 0;
    if (session_run(run) || find_next(g, program, n, next))
        return 1;
    g->known += n;
    return 0;
}

int generator_prompt(Generator *g, const int32_t *ids, int32_t *next)
{
    g->known = 0;
    return read_tokens(g, g->prefill, "prefill", ids, g->prompt, next);
}

int generator_step(Generator *g, int32_t id, int32_t *next)
{
    return read_tokens(g, g->decode, "decode", &id, 1, next);
}

/* ---- samples ---- */

void text_tokens(const char *text, int32_t *ids)
{
    for (; *text; text++)
        *ids++ = (unsigned char)*text;
}

void text_print(int32_t c)
{
    if (c == '\n' || c == '\t' || (c < 128 && isprint(c)))
        putchar(c);
    else
        printf("\\x%02x", (unsigned)c);
}

void generator_print_ids(const int32_t *ids, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    json_t *answer = json_pack("{s:o}", "ids", list);
    json_dumpf(answer, stdout, 0);
    putchar('\n');
    json_decref(answer);
}

int sample_prompt(Trainer *t)
{
    enum { TOKENS = 8 };
    const Config *c = t->config;
    const int64_t text = (int64_t)strlen(c->prompt), tokens = c->sequence < TOKENS ? c->sequence : TOKENS;
    t->prompt_len = t->data->is_text ? text : tokens;
    t->sample = arena_array(t->session.arena, int32_t, t->prompt_len + c->sample + 1);
    if (!t->data->is_text)
        return batch_first(t->data, c, tokens, t->sample);
    text_tokens(c->prompt, t->sample);
    return 0;
}

/* When the caches are full, the last half of the text is read again, so that most tokens see a long past. */
static int sample_next(Generator *g, const int32_t *ids, int64_t n, int32_t *next)
{
    if (g->known == 0)
        return generator_prompt(g, ids + n - g->prompt, next);
    int64_t from = n - 1;
    if (g->known == g->room)
        g->known = 0, from = n - (g->room + 1) / 2;
    for (; from < n; from++)
        if (generator_step(g, ids[from], next))
            return 1;
    return 0;
}

int sample_print(Trainer *t)
{
    const int64_t end = t->prompt_len + t->config->sample;
    const int is_text = t->data->is_text;
    if (is_text)
        fputs(t->config->prompt, stdout);
    for (int64_t n = t->prompt_len; n < end; n++) {
        if (sample_next(&t->generator, t->sample, n, &t->sample[n]))
            return 1;
        if (is_text)
            text_print(t->sample[n]);
    }
    if (is_text)
        putchar('\n');
    else
        generator_print_ids(t->sample, end);
    return 0;
}
