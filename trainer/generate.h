/* Text from a model: a program that reads the prompt, one that reads a token at a time, caches between them. The ranks of a session do
 * this together, each with all tokens: they record, start and read at the same time. Where ranks of tp have the rows of a run between
 * them, it reads as many positions as they divide: those behind the given tokens are padding, which no token before it sees and the next
 * run writes over. */
#ifndef TRAINER_GENERATE_H
#define TRAINER_GENERATE_H

#include "comm/comm.h"
#include "trainer/session.h"

typedef struct Generator {
    Session *session;
    Comm *comm;     /* the ranks of the session */
    int32_t *found; /* by rank: the token that it has found */
    Program *prefill_program, *decode_program;
    Run *prefill, *decode;
    int64_t prompt, room; /* tokens that prefill reads; positions of the caches */
    int64_t known;        /* positions that the caches hold */
    double temperature;   /* 0: the most probable token */
    Random random;        /* of the draws */
} Generator;

/* Records the programs: before session_compile(). prompt > 0. */
int generator_record(Generator *g, Session *s, Comm *comm, int64_t prompt, int64_t room, double temperature, uint64_t seed);
int generator_start(Generator *g); /* after it */
void generator_free(Generator *g);

/* Reads the prompt's tokens into empty caches; *next: the token behind them. */
int generator_prompt(Generator *g, const int32_t *ids, int32_t *next);
/* Reads one token more; known < room. */
int generator_step(Generator *g, int32_t id, int32_t *next);

/* Text as tokens, where these are bytes: the token of a byte is its number. */
void text_tokens(const char *text, int32_t *ids); /* [strlen(text)] */
void text_print(int32_t id);                      /* a byte of it; one that is not to be shown as \x07 */
void generator_print_ids(const int32_t *ids, int64_t n); /* a line of JSON */

#endif
