#include "trainer/trainer.h"

#include <ctype.h>
#include <string.h>

static void print_byte(int c)
{
    if (c == '\n' || c == '\t' || (c < 128 && isprint(c)))
        putchar(c);
    else
        printf("\\x%02x", (unsigned)c);
}

/* Samples the byte that follows the first n of buffers.ids. */
static int sample_next(Trainer *t, Random *random, int64_t n)
{
    const Buffers *b = &t->buffers;
    float temperature = (float)t->config->temperature, u = (float)random_unit(random);
    return forward_layers(t, 1, n) ||
           CALL(t->kernels, sample, ARG(x, b->last[0] + (n - 1) * t->model.sizes.H),
                ARG(norm_weight, weight_f32(t, WEIGHT_final_norm, 0)), ARG(w, weight_bf16(t, WEIGHT_head, 0)),
                ARG(temperature, &temperature), ARG(u, &u), ARG(next, b->next[0]));
}

int sample_text(Trainer *t)
{
    Random random = random_new((uint64_t)t->config->seed + 2);
    int32_t *ids = t->buffers.ids[0];
    const char *prompt = t->config->prompt;
    int64_t sequence = t->model.sizes.S, n = 0;
    size_t len = strlen(prompt), skip = len > (size_t)sequence ? len - (size_t)sequence : 0;
    fputs(prompt, stdout);
    for (const char *p = prompt + skip; *p; p++)
        ids[n++] = (unsigned char)*p;
    for (int64_t i = 0; i < t->config->sample; i++) {
        if (sample_next(t, &random, n))
            return 1;
        if (n == sequence) /* keep the last half, so that most samples see a long past */
            memmove(ids, ids + sequence - n / 2, (size_t)(n / 2) * sizeof *ids), n /= 2;
        ids[n++] = *t->buffers.next[0];
        print_byte(ids[n - 1]);
    }
    putchar('\n');
    return 0;
}
