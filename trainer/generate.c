#include "trainer/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "trainer/trainer.h"

static Program *record_one(Generator *g, const char *name, int64_t positions)
{
    Recording r = session_record(g->session, name, 0, 1, positions);
    recipe_generation(&r.recipe, g->room, g->temperature > 0);
    return session_finish(g->session, &r);
}

int generator_record(Generator *g, Session *s, int64_t prompt, int64_t room, double temperature,
                     uint64_t seed)
{
    *g = (Generator){
        .session = s, .prompt = prompt, .room = room, .temperature = temperature, .random = random_new(seed)};
    g->prefill_program = record_one(g, "prefill", prompt);
    g->decode_program = g->prefill_program ? record_one(g, "decode", 1) : NULL;
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

/* Reads n tokens from position g->known on. */
static int read_tokens(Generator *g, Run *run, const char *program, const int32_t *ids, int64_t n,
                       int32_t *next)
{
    int32_t *position = session_at(g->session, "position");
    float *draws = session_at(g->session, "%s.draws", program);
    memcpy(session_at(g->session, "%s.ids", program), ids, (size_t)n * sizeof *ids);
    *position = (int32_t)g->known;
    for (int64_t i = 0; draws && i < n; i++)
        draws[i] = i + 1 < n ? 0 : (float)random_unit(&g->random);
    if (session_run(run))
        return 1;
    g->known += n;
    *next = ((const int32_t *)session_at(g->session, "%s.next", program))[n - 1];
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

/* ---- text of bytes ---- */

static void print_byte(int c)
{
    if (c == '\n' || c == '\t' || (c < 128 && isprint(c)))
        putchar(c);
    else
        printf("\\x%02x", (unsigned)c);
}

/* When the caches are full, the last half of the text is read again, so that most bytes see a long past. */
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

int sample_text(Trainer *t)
{
    const Config *c = t->config;
    const int64_t prompt = (int64_t)strlen(c->prompt);
    Generator *g = &t->generator;
    int32_t *ids = arena_array(t->session.arena, int32_t, prompt + c->sample + 1), next;
    for (int64_t i = 0; i < prompt; i++)
        ids[i] = (unsigned char)c->prompt[i];
    fputs(c->prompt, stdout);
    for (int64_t n = prompt; n < prompt + c->sample; n++) {
        if (sample_next(g, ids, n, &next))
            return 1;
        ids[n] = next;
        print_byte(next);
    }
    putchar('\n');
    return 0;
}
