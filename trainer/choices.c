#include "trainer/choices.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "trainer/complain.h"

/* What this rank has of a micro-batch in a layer. */
typedef struct ChoiceRows {
    const int32_t *chosen; /* [rows, K] */
    const float *scores;   /* [rows, E] */
    int32_t *given;        /* [rows, K] */
    int64_t layer, first;  /* among those with experts; token of the step */
} ChoiceRows;

typedef struct StepChoices {
    ChoicesHead head;
    int64_t rows;
    Vec(ChoiceRows) parts;
    int to, from; /* files; -1: none */
} StepChoices;

/* ---- what a rank has ---- */

static void find_part(Trainer *t, StepChoices *s, int64_t layer, int64_t micro)
{
    const Session *e = &t->session;
    const int64_t part = micro * t->copies + t->copy, tokens = t->sequences * t->config->sequence,
                  place = ranks_place(comm_ranks(t->comm), AXIS_tp, comm_rank(t->comm));
    const ChoiceRows r = {.chosen = session_at(e, "chosen.L%lld.m%lld", (long long)layer, (long long)micro),
                          .scores = session_at(e, "scores.L%lld.m%lld", (long long)layer, (long long)micro),
                          .given = session_at(e, "given.L%lld.m%lld", (long long)layer, (long long)micro),
                          .layer = s->head.layers,
                          .first = part * tokens + place * s->rows};
    if (r.chosen || r.given)
        vec_push(e->arena, &s->parts, r);
}

static StepChoices *choices_of(Trainer *t)
{
    const ModelConfig *m = &t->session.model;
    const Config *c = t->config;
    StepChoices *s = arena_new_of(t->session.arena, StepChoices);
    *s = (StepChoices){.head = {.magic = "MCHOICE",
                                .tokens = c->batch * c->sequence,
                                .chosen = m->top_k,
                                .experts = m->experts},
                       .rows = t->sequences * c->sequence / comm_ranks(t->comm)->members[AXIS_tp],
                       .to = -1,
                       .from = -1};
    s->head.magic[7] = '1';
    for (int64_t layer = 0; layer < m->layers + m->mtp; layer++) {
        const uint32_t before = s->parts.len;
        for (int64_t micro = 0; micro < c->micro_batches; micro++)
            find_part(t, s, layer, micro);
        s->head.layers += s->parts.len > before;
    }
    return s;
}

/* ---- places in the file ---- */

static int64_t chosen_bytes(const StepChoices *s, int64_t tokens)
{
    return tokens * s->head.chosen * (int64_t)sizeof(int32_t);
}

static int64_t score_bytes(const StepChoices *s, int64_t tokens)
{
    return tokens * s->head.experts * (int64_t)sizeof(float);
}

/* Of a layer's choices in a step. */
static int64_t layer_place(const StepChoices *s, int64_t step, int64_t layer)
{
    const int64_t each = chosen_bytes(s, s->head.tokens) + score_bytes(s, s->head.tokens);
    return (int64_t)sizeof s->head + (step * s->head.layers + layer) * each;
}

static int write_at(int fd, const void *at, int64_t bytes, int64_t place)
{
    for (int64_t n; bytes > 0; at = (const char *)at + n, bytes -= n, place += n)
        if ((n = pwrite(fd, at, (size_t)bytes, place)) <= 0)
            return 1;
    return 0;
}

static int read_at(int fd, void *at, int64_t bytes, int64_t place)
{
    for (int64_t n; bytes > 0; at = (char *)at + n, bytes -= n, place += n)
        if ((n = pread(fd, at, (size_t)bytes, place)) <= 0)
            return 1;
    return 0;
}

/* ---- opening ---- */

/* The first rank makes it, then the others open it. */
static int open_to(Trainer *t, StepChoices *s)
{
    const char *path = t->config->choices;
    if (!path)
        return 0;
    if (!comm_rank(t->comm)) {
        s->to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (s->to < 0 || write_at(s->to, &s->head, sizeof s->head, 0))
            return complain("--choices %s: %s", path, strerror(errno));
    }
    char here = 1, *all = arena_array(t->session.arena, char, comm_ranks(t->comm)->number);
    if (comm_gather(t->comm, "the file of choices", &here, 1, all))
        return complain("%s", comm_error(t->comm));
    if (s->to < 0)
        s->to = open(path, O_WRONLY | O_CLOEXEC);
    return s->to < 0 ? complain("--choices %s: %s", path, strerror(errno)) : 0;
}

static int open_from(const Trainer *t, StepChoices *s)
{
    const char *path = t->config->choices_from;
    ChoicesHead head;
    if (!path)
        return 0;
    s->from = open(path, O_RDONLY | O_CLOEXEC);
    if (s->from < 0)
        return complain("--choices-from %s: %s", path, strerror(errno));
    if (read_at(s->from, &head, sizeof head, 0) || memcmp(&head, &s->head, sizeof head) != 0)
        return complain(
            "--choices-from %s: it has no choices of %lld tokens in %lld layers, %lld of %lld experts each",
            path, (long long)s->head.tokens, (long long)s->head.layers, (long long)s->head.chosen,
            (long long)s->head.experts);
    return 0;
}

int choices_open(Trainer *t)
{
    if (!t->config->choices && !t->config->choices_from)
        return 0;
    t->choices = choices_of(t);
    return open_to(t, t->choices) || open_from(t, t->choices);
}

void choices_close(Trainer *t)
{
    if (t->choices && t->choices->to >= 0)
        close(t->choices->to);
    if (t->choices && t->choices->from >= 0)
        close(t->choices->from);
    t->choices = NULL;
}

/* ---- steps ---- */

int choices_read(Trainer *t)
{
    const StepChoices *s = t->choices;
    int bad = 0;
    for (uint32_t i = 0; s && s->from >= 0 && i < s->parts.len && !bad; i++) {
        const ChoiceRows *r = &s->parts.at[i];
        bad = read_at(s->from, r->given, chosen_bytes(s, s->rows),
                      layer_place(s, t->state.steps, r->layer) + chosen_bytes(s, r->first));
    }
    return bad ? complain("--choices-from %s: it has no step %lld", t->config->choices_from,
                          (long long)t->state.steps + 1)
               : 0;
}

int choices_write(Trainer *t)
{
    const StepChoices *s = t->choices;
    int bad = 0;
    for (uint32_t i = 0; s && s->to >= 0 && i < s->parts.len && !bad; i++) {
        const ChoiceRows *r = &s->parts.at[i];
        const int64_t place = layer_place(s, t->state.steps, r->layer);
        bad = write_at(s->to, r->chosen, chosen_bytes(s, s->rows), place + chosen_bytes(s, r->first)) ||
              write_at(s->to, r->scores, score_bytes(s, s->rows),
                       place + chosen_bytes(s, s->head.tokens) + score_bytes(s, r->first));
    }
    return bad ? complain("--choices %s: %s", t->config->choices, strerror(errno)) : 0;
}
